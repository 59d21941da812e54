"""Answers that take their time: each piece at once, and no more memory than one."""
import socket
import struct
import threading
import time

import pytest

from conftest import wait_for
from http_line import WAYS, Client, answer, hello, rss
from http_world import w, world


# streams


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("framing", ["chunked", "close"])
def test_each_event_arrives_before_the_next_is_sent(w, way, framing):
    g, o = w
    got = [threading.Event() for _ in range(6)]

    def script(peer, r):
        te = "Transfer-Encoding: chunked\r\n" if framing == "chunked" else ""
        peer.send(f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{te}\r\n")
        for i in range(5):
            event = f"data: {i}\n\n"
            peer.send(f"{len(event):x}\r\n{event}\r\n" if te else event)
            if not got[i].wait(5):
                return True
        peer.send("0\r\n\r\n" if te else "")
        return True

    o.script = script
    c = Client(g, way).request()
    c.head()
    for i in range(5):
        c.until(f"data: {i}\n\n".encode())
        got[i].set()
    assert c.until(b"0\r\n\r\n") == b"\r\n"


def test_a_client_that_leaves_a_stream_leaves_a_row_with_its_bytes(w):
    g, o = w
    gone = threading.Event()

    def script(peer, r):
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            while True:
                peer.send("64\r\n", b"e" * 100, "\r\n")
                time.sleep(0.02)
        except OSError:
            gone.set()
        return True

    o.script = script
    c = Client(g).request(path="/sse")
    c.until(b"eeee")
    c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c.close()
    assert gone.wait(5)
    row = wait_for(lambda: [r for r in g.rows(kind="response") if r["code"] == "client_gone"])[-1]
    assert row.get("bytes_down", 0) >= 100


@pytest.mark.parametrize("direction", ["down", "up"])
def test_memory_stays_constant_while_one_side_is_slow(w, direction):
    g, o = w
    size, pid = 200 << 20, g.pids()["worker.0"]
    block = b"m" * 262144

    def script(peer, r):
        if direction == "down":
            peer.send(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n")
            for _ in range(size // len(block)):
                peer.sock.sendall(block)
        else:
            time.sleep(0.5)
            left = size - len(peer.data)
            while left and (k := peer.sock.recv(262144)):
                left -= len(k)
            peer.send(answer(str(left)))
        return True

    o.reset(script, is_raw=True)
    before = rss(pid)
    c = Client(g)
    if direction == "down":
        c.request()
        time.sleep(0.5)
        assert rss(pid) - before < 4 << 20
        c.head()
        left = size - len(c.data)
        while left and (k := c.sock.recv(262144)):
            left -= len(k)
        assert left == 0
    else:
        c.request("POST", "/", f"Content-Length: {size}\r\n")
        most = 0
        for i in range(size // len(block)):
            c.sock.sendall(block)
            if i % 100 == 0:
                most = max(most, rss(pid) - before)
        assert most < 4 << 20
        assert c.response().body == b"0"
    assert rss(pid) - before < 4 << 20


def test_interim_responses_take_no_more_memory_than_one(w):
    g, o = w
    big = b"HTTP/1.1 103 Early Hints\r\n" + b"".join(b"x%d: %s\r\n" % (i, b"v" * 7000) for i in range(8)) + b"\r\n"
    more = threading.Event()

    def script(peer, r):
        for _ in range(15):
            peer.send(big)
        more.wait(30)
        peer.send(answer())

    o.reset(script)
    pid = g.pids()["worker.0"]
    before, clients = rss(pid), [Client(g) for _ in range(30)]
    for c in clients:
        c.request()
    for c in clients:
        assert [c.head()[0].split()[1] for _ in range(15)] == ["103"] * 15
    assert rss(pid) - before < len(clients) * 300 << 10
    more.set()
    assert all(c.response().body == b"hello" for c in clients)


def test_three_hundred_half_closed_connections_give_their_slots_back(w):
    g, _ = w
    for i in range(300):
        c = Client(g)
        c.request()
        c.sock.shutdown(socket.SHUT_WR)
        assert c.response().body == b"/ 0" and c.rest() == b""
        c.close()
    wait_for(lambda: g.counter("open") == 0)
