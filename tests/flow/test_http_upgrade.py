"""Upgrades of HTTP/1 through the whole gateway: WebSocket, and what is none."""
import base64
import os
import socket
import threading

import pytest

import websocket_line
from conftest import wait_for
from http_line import WAYS, Client, answer
from http_world import code_of, w, world

# upgrades


KEY = base64.b64encode(b"0123456789abcdef").decode()
WANTS = f"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n"


def switch(peer, r, key=None, extra=b""):
    peer.send(websocket_line.switch(key or r["sec-websocket-key"]), extra)
    while data := peer.data or peer.more():
        peer.data = b""
        peer.send(data)
    return True


@pytest.mark.parametrize("way", WAYS)
def test_a_websocket_passes_with_a_frame_in_the_packet_of_its_101(w, way):
    g, o = w
    o.reset(lambda peer, r: switch(peer, r, extra=b"\x81\x05first"), is_raw=True)
    c = Client(g, way)
    c.request(fields=WANTS, body=b"\x81\x85early frame")
    m = c.response()
    assert (m.status, m["upgrade"], m["connection"].lower()) == (101, "websocket", "upgrade")
    assert c.exactly(7) == b"\x81\x05first" and c.exactly(13) == b"\x81\x85early frame"
    blob = os.urandom(3_000_000)
    threading.Thread(target=c.send, args=(blob,)).start()
    assert c.exactly(len(blob)) == blob
    c.sock.shutdown(socket.SHUT_WR)
    assert c.rest() == b""
    wait_for(lambda: [r for r in g.rows(kind="response") if r.get("bytes_down", 0) > len(blob)])


@pytest.mark.parametrize("fields", [
    WANTS.replace("13", "12"), WANTS.replace(KEY, "short"), WANTS.replace(f"Sec-WebSocket-Key: {KEY}\r\n", ""),
    WANTS + f"Sec-WebSocket-Key: {KEY}\r\n", WANTS.replace("Upgrade: websocket", "Upgrade: websocket, h2c"),
    WANTS + "Content-Length: 4\r\n", WANTS.replace("Sec-WebSocket-Version: 13\r\n", "")])
def test_an_invalid_upgrade_request_is_refused(w, fields):
    g, o = w
    m = Client(g).request(fields=fields).response()
    assert m.status == 400 and o.requests == [], m.body


def test_other_upgrades_are_ordinary_requests(w):
    g, o = w
    c = Client(g)
    for fields in ("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n",
                   "Upgrade: websocket\r\n"):
        assert c.get(fields=fields).body == b"/ 0"
    assert all(r["upgrade"] is None and r["http2-settings"] is None for r in o.requests)


@pytest.mark.parametrize("said", [
    lambda r: (r, "wrong key"), "no accept", "not asked", "other protocol"])
def test_a_101_that_is_no_valid_answer_is_refused(w, said):
    g, o = w

    def script(peer, r):
        if said == "other protocol":
            peer.send("HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nraw")
        elif said == "no accept":
            peer.send("HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nraw")
        else:
            switch(peer, r, key="bad")
        return True

    o.reset(script, is_raw=True)
    m = Client(g).get(fields="" if said == "not asked" else WANTS)
    assert (m.status, code_of(m)) == (502, "upstream_bad_response")


def test_a_refused_upgrade_is_an_ordinary_answer(w):
    g, o = w
    o.script = lambda peer, r: peer.send(answer("plain"))
    c = Client(g)
    assert c.get(fields=WANTS).body == b"plain" and c.get().body == b"plain"
