"""A host at the end of tunnels, who writes down whom it has spoken with, and the ways to it."""
import socket
import ssl
import struct
import subprocess
import threading

import pytest

from conftest import end_server
from tls_world import read_head

NAMES = ["ok.example.test", "too.example.test", "denied.example.test"]


class Origin:
    """A TLS server that tells the name it was asked for and echoes."""

    def __init__(self, folder):
        san = ",".join(f"DNS:{n}" for n in NAMES)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-days", "3", "-subj", "/CN=origin", "-addext", f"subjectAltName={san}",
                        "-keyout", folder / "key", "-out", folder / "cert"], check=True, stderr=subprocess.DEVNULL)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(folder / "cert", folder / "key")
        self.client = ssl.create_default_context(cafile=folder / "cert")
        self.sock = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.sock.getsockname()[1]
        self.seen = 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def close(self):
        end_server(self.sock, self.thread)

    def run(self):
        while True:
            try:
                conn, _ = self.sock.accept()
            except OSError:
                return
            self.seen += 1
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def serve(self, conn):
        try:
            first = conn.recv(1, socket.MSG_PEEK)
            if first == b"\x16":
                conn = self.context.wrap_socket(conn, server_side=True)
            while data := conn.recv(65536):
                if data.startswith(b"GET "):
                    conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain")
                else:
                    conn.sendall(data)
        except OSError:
            pass
        finally:
            conn.close()


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    made = Origin(tmp_path_factory.mktemp("origin"))
    yield made
    made.close()


def config(origin, hosts=("ok.example.test", "too.example.test"), ports=()):
    return {
        "resolver": {"servers": ["127.0.0.1"], "timeout": "200ms", "tries": 1,
                     "hosts": {n: ["127.0.0.1"] for n in NAMES}},
        "policies": {"coding": {"allow": [
            {"hosts": list(hosts), "ports": [origin.port, *ports], "addresses": ["127.0.0.0/8"]},
            {"hosts": ["nowhere.example.test"], "ports": [origin.port]}]}},
    }


def by_connect(g, host, port):
    sock = socket.create_connection(g.proxy, timeout=10)
    sock.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    return sock


def open_connect(g, host, port):
    sock = by_connect(g, host, port)
    assert read_head(sock).startswith("HTTP/1.1 200 ")
    return sock


def open_socks(g, host, port):
    sock = socket.create_connection(g.proxy, timeout=10)
    sock.sendall(b"\x05\x01\x00\x05\x01\x00\x03" + bytes([len(host)]) + host.encode() + struct.pack("!H", port))
    assert sock.recv(2) == b"\x05\x00" and sock.recv(10)[1] == 0
    return sock


def echo(sock, text=b"through all of it"):
    sock.sendall(text)
    got = b""
    while len(got) < len(text):
        more = sock.recv(65536)
        assert more
        got += more
    assert got == text


def secure(origin, sock, name):
    return origin.client.wrap_socket(sock, server_hostname=name)
