"""What one HTTP/2 connection can do to the gateway and to others: end itself.

Each attack (threats 3.1) goes on until the connection is closed; it may have cost at most
1 MiB, and another sandbox's requests go through while it runs.
"""
import contextlib
import ssl
import struct
import threading
import time

import pytest

from conftest import BIN, wait_for
from h2_gate import (CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PRIORITY, RST_STREAM, SETTINGS,
                     WINDOW_UPDATE, Frames, H2Gate, field, frame, request)
from http_line import rss
from tls_world import read_answer

# What the sanitizers' runtime keeps of freed memory says nothing.
GROWTH = 1 << (26 if "asan" in BIN.parts[-2] else 20)
ROUNDS = 3000
CALM, PROTOCOL = 11, 1


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    g = H2Gate(tmp_path_factory.mktemp("h2"))
    neighbour(g)
    yield g
    g.stop()


def neighbour(g):
    with contextlib.closing(g.connect("http/1.1", source="127.0.0.6")) as sock:
        sock.sendall(f"GET /v1/n HTTP/1.1\r\nHost: api.example.test:{g.host.port}\r\n\r\n".encode())
        answer = read_answer(sock)
        assert answer[0] == 200, answer


class Polite(threading.Thread):
    """The other sandbox, all the while."""

    def __init__(self, g):
        super().__init__()
        self.g, self.over, self.count, self.failed = g, threading.Event(), 0, None

    def run(self):
        while not self.over.is_set() or self.count < 3:
            try:
                neighbour(self.g)
            except Exception as e:  # told by the test
                self.failed = e
                return
            self.count += 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()
        assert self.failed is None, self.failed


def get(g, i, more=b"", flags=END_HEADERS | END_STREAM, **kw):
    return frame(HEADERS, flags, 2 * i + 1, request(g, **kw) + more)


def rapid_reset(g, i):
    return get(g, i) + frame(RST_STREAM, 0, 2 * i + 1, struct.pack(">I", 8))


def made_reset(g, i):
    return get(g, i) + frame(WINDOW_UPDATE, 0, 2 * i + 1, struct.pack(">I", 0x7fffffff))


def malformed(g, i):
    return get(g, i, field("connection", "close"))


def continuation(g, i):
    return frame(HEADERS if i == 0 else CONTINUATION, 0, 1, field("x-a", "b"))


def empty_data(g, i):
    return (get(g, 0, flags=END_HEADERS, method="POST") if i == 0 else b"") + frame(DATA, 0, 1)


def ping(g, i):
    return frame(PING, 0, 0, b"12345678")


def settings(g, i):
    return frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535))


def priority(g, i):
    return frame(PRIORITY, 0, 2 * i + 1, struct.pack(">IB", 0, 16))


def window(g, i):
    return frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1))


def unknown(g, i):
    return frame(0xbe, 0, 0, b"x")


def bomb(g, i, name="cookie"):
    refs = bytes([0x80 | 62]) * 16000
    return frame(HEADERS, END_HEADERS | END_STREAM, 2 * i + 1, request(g) + field(name, "a", index=True) + refs[:16000])


def bomb_of_one_name(g, i):
    return bomb(g, i, "x")


@pytest.mark.parametrize("attack", [
    rapid_reset, made_reset, malformed, continuation, empty_data, ping, settings, priority, window, unknown, bomb,
    bomb_of_one_name], ids=lambda a: a.__name__)
def test_a_flood_ends_its_own_connection_and_costs_little(gate, attack):
    pid = gate.pids()["worker.0"]
    before = rss(pid)
    with Polite(gate):
        link = Frames(gate)
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            for i in range(ROUNDS):
                link.send(attack(gate, i))
        last = None
        while one := link.read():  # to its end, or a time-out fails the test
            last = one if one[0] == GOAWAY else last
        link.close()
    # A reset of the connection may have destroyed what it said last.
    assert last is None or struct.unpack(">I", last[3][4:8])[0] == CALM
    assert rss(pid) - before < GROWTH
    assert gate.pids()["worker.0"] == pid


def test_small_bombs_in_many_streams_have_a_limit_together(gate):
    pid = gate.pids()["worker.0"]
    before = rss(pid)
    with Polite(gate):
        link = Frames(gate, settings=struct.pack(">HI", 4, 0))
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            for i in range(100):
                link.send(get(gate, i, field("x", "a" * 120, index=True) + bytes([0x80 | 62]) * 90, flags=END_HEADERS,
                              method="POST"))
        time.sleep(0.5)
        grown = rss(pid) - before
        link.close()
    assert grown < GROWTH, f"{grown} bytes"
    wait_for(lambda: rss(pid) - before < GROWTH)


def test_a_window_that_stays_closed_holds_little(gate):
    pid = gate.pids()["worker.0"]
    before = rss(pid)
    link = Frames(gate, settings=struct.pack(">HI", 4, 0))
    for i in range(50):
        link.send(get(gate, i, path="/v1/big/10000000"))
    for i in range(50):
        assert link.until(HEADERS) is not None
    # One octet at a time is no progress.
    for i in range(50):
        link.send(frame(WINDOW_UPDATE, 0, 2 * i + 1, struct.pack(">I", 1)))
    for i in range(50):
        assert link.until(DATA)[3]
    grown = rss(pid) - before
    link.close()
    assert grown < 8 * GROWTH, f"{grown} bytes"
    neighbour(gate)


def test_streams_that_stand_still_do_not_slow_another(gate):
    link = Frames(gate)
    for i in range(99):
        link.send(get(gate, i, path="/v1/big/1000000"))
    # Their windows are used up and never opened; the connection's is.
    link.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30)))
    for i in range(99):
        link.until(HEADERS)
    time.sleep(0.5)
    link.send(get(gate, 99, path="/v1/big/1000000"))
    got, begun = 0, time.monotonic()
    while got < 1000000:
        one = link.until(DATA, 199)
        assert one is not None
        got += len(one[3])
        link.send(frame(WINDOW_UPDATE, 0, 199, struct.pack(">I", max(1, len(one[3])))))
    assert time.monotonic() - begun < 5
    link.close()
