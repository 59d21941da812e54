"""Each limit that an operator can set: what lies over it is refused in words, and counted."""
import json
import socket
import struct
import threading
import time

import pytest

import conftest
from conftest import wait_for
from http_line import Client, closed_in, make

PLENTY = {"connections": 4000, "connections_per_second": 100000, "connections_burst": 100000,
          "requests_per_second": 1000000, "requests_burst": 1000000, "dns_per_second": 100000}


@pytest.fixture
def world():
    made = []

    def start(**more):
        limits = {**PLENTY, **more.pop("limits", {})}
        gate, origin = make(limits=limits, **more)
        made.append((gate, origin))
        return gate.start(), origin

    yield start
    for gate, origin in made:
        gate.close()
        origin.close()


def code_of(m):
    return json.loads(m.body)["error"]["code"]


def query(gate, name, source="127.0.0.1"):
    """The rcode; None: no answer."""
    text = b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\0"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind((source, 0))
        s.settimeout(1)
        s.sendto(struct.pack("!HHHHHH", 9, 0x100, 1, 0, 0, 0) + text + b"\0\1\0\1", gate.dns)
        try:
            return s.recv(512)[3] & 15
        except TimeoutError:
            return None


def test_connections_of_one_sandbox_are_counted_and_come_back(world):
    g, _ = world(limits={"connections": 10})
    held = [Client(g) for _ in range(10)]
    assert all(c.get().status == 200 for c in held)
    with pytest.raises((ConnectionError, EOFError)):
        Client(g).get()
    wait_for(lambda: g.counter("limit_connections") >= 1)
    assert Client(g, source="127.0.0.5").get().status == 200
    held.pop().close()
    wait_for(lambda: _passes(g))


def _passes(g, **kw):
    try:
        return Client(g, **kw).get().status == 200
    except (OSError, EOFError):
        return False


def test_new_connections_have_a_rate(world):
    g, _ = world(limits={"connections_per_second": 5, "connections_burst": 10})
    passed = sum(_passes(g) for _ in range(60))
    assert 10 <= passed < 40
    wait_for(lambda: g.counter("limit_rate") >= 1)
    wait_for(lambda: _passes(g))


def test_requests_have_a_rate_and_are_told_to_wait(world):
    g, o = world(limits={"requests_per_second": 5, "requests_burst": 10})
    c = Client(g)
    answers = [c.get() for _ in range(30)]
    refused = [m for m in answers if m.status == 429]
    assert len(refused) >= 10 and len(o.requests) == 30 - len(refused)
    assert code_of(refused[0]) == "limit_rate" and refused[0]["retry-after"]
    wait_for(lambda: g.counter("limit_rate") == len(refused))
    wait_for(lambda: c.get().status == 200)


def test_bytes_have_a_budget(world):
    g, o = world(limits={"bytes": "1MiB"})
    c = Client(g)
    with pytest.raises((EOFError, ConnectionError, AssertionError)):
        for _ in range(100):
            assert c.request("POST", "/", "Content-Length: 50000\r\n", b"b" * 50000).response().status == 200
    assert sum(len(r.body) for r in o.requests) <= (1 << 20) + 256 * 1024  # what one read brings
    assert not _passes(g)
    wait_for(lambda: [r for r in g.rows() if r["code"] == "limit_bytes"])
    wait_for(lambda: g.counter("limit_bytes") >= 1)


def test_all_connections_of_a_worker_have_a_limit(world):
    g, _ = world(limits={"all_connections": 20})
    held = [Client(g) for _ in range(20)]
    assert all(c.get().status == 200 for c in held)
    with pytest.raises((ConnectionError, EOFError)):
        Client(g, source="127.0.0.5").get()
    wait_for(lambda: g.counter("limit_connections") >= 1)
    for c in held:
        c.close()
    wait_for(lambda: _passes(g))


def test_heads_have_limits_that_can_be_set(world):
    g, o = world(limits={"header_fields": 5, "header_line": "512", "header_bytes": "2KiB"})
    for fields in ("".join(f"X-{i}: 1\r\n" for i in range(6)), "X: " + "a" * 600 + "\r\n",
                   "".join(f"X-{i}: {'a' * 490}\r\n" for i in range(5))):
        m = Client(g).get(fields=fields)
        assert (m.status, code_of(m)) == (431, "head_too_large")
    m = Client(g).get("/" + "a" * 600)
    assert (m.status, code_of(m), o.requests) == (414, "uri_too_long", [])
    assert Client(g).get(fields="X: 1\r\n").status == 200


def test_a_connection_serves_so_many_requests(world):
    g, _ = world(limits={"keepalive_requests": 5})
    c = Client(g)
    said = [c.get()["connection"] for _ in range(5)]
    assert said == [None] * 4 + ["close"] and c.rest() == b""


def test_a_slow_head_and_a_slow_hello_end(world):
    g, _ = world(timeouts={"request_head": "500ms", "hello": "500ms", "drain": "1s"})
    slow, silent = Client(g), Client(g, "transparent")
    slow.send("GET http://ok.example.test/ HT")
    silent.send(b"\x16\x03\x01\x02\x00")
    assert closed_in(slow, 5) < 5 and closed_in(silent, 5) < 5
    wait_for(lambda: (g.counter("timeout_request_head"), g.counter("timeout_hello")) == (1, 1))


def test_queries_have_a_rate(world):
    g, _ = world(limits={"dns_per_second": 10})
    codes = [query(g, f"n{i}.example.test") for i in range(60)]
    assert codes.count(3) >= 20 and len([c for c in codes if c != 3]) >= 20
    assert query(g, "other.example.test", "127.0.0.5") == 3
    wait_for(lambda: query(g, "again.example.test") == 3)


def test_every_limit_is_seen_in_the_status(world):
    g, _ = world()
    counters = g.status()["counters"]
    assert {"limit_connections", "limit_rate", "limit_bytes", "timeout_request_head", "timeout_hello", "timeout_idle",
            "timeout_response", "timeout_stalled", "accept_paused", "rows_refused", "rows_aggregated",
            "denied"} <= set(counters)
    told = json.loads(g.cli("status", "--json").stdout)
    assert set(counters) <= set(told["counters"])


def test_a_worker_without_descriptors_pauses_and_goes_on(world, tmp_path, monkeypatch):
    script = tmp_path / "sandgate"
    script.write_text(f'#!/bin/sh\nulimit -n 128\nexec {conftest.BIN}/sandgate "$@"\n')
    script.chmod(0o755)
    monkeypatch.setattr(conftest, "BIN", tmp_path)
    g, _ = world()
    pid = g.pids()["worker.0"]
    c = Client(g)
    assert c.get().status == 200
    flood = []
    for _ in range(300):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(g.proxy)
        flood.append(s)
    wait_for(lambda: g.counter("accept_paused") >= 1)
    assert c.get().status == 200  # on a connection that it has
    for s in flood:
        s.close()
    wait_for(lambda: _passes(g))
    assert g.pids()["worker.0"] == pid


def test_a_flooding_sandbox_does_not_stop_a_polite_one(world):
    g, _ = world(limits={"connections": 100, "connections_per_second": 200, "connections_burst": 200,
                         "requests_per_second": 500, "requests_burst": 500}, workers=1)
    stop = threading.Event()

    def polite(seconds):
        c, done, slowest, end = Client(g, source="127.0.0.5"), 0, 0, time.monotonic() + seconds
        while time.monotonic() < end:
            begun = time.monotonic()
            assert c.get().status == 200
            slowest = max(slowest, time.monotonic() - begun)
            done += 1
            if done % 500 == 0:
                c = Client(g, source="127.0.0.5")
            time.sleep(0.01)
        return done, slowest

    def flood():
        while not stop.is_set():
            try:
                c = Client(g)
                while not stop.is_set():
                    c.send(*[c.line("GET", "/") + "\r\n"] * 20)
                    for _ in range(20):
                        c.response()
            except (OSError, EOFError):
                pass

    alone, _ = polite(1)
    threads = [threading.Thread(target=flood) for _ in range(4)]
    for t in threads:
        t.start()
    beside, slowest = polite(2)
    stop.set()
    for t in threads:
        t.join()
    assert beside > alone / 4 and slowest < 2, (alone, beside, slowest)
    wait_for(lambda: g.counter("limit_rate") > 0)
