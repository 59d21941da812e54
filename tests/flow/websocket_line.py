"""How a host takes a WebSocket's handshake (RFC 6455)."""
import base64
import hashlib


def accept(key):
    return base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()


def switch(key):
    """The head of an answer that takes it."""
    return ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept(key)}\r\n\r\n").encode()
