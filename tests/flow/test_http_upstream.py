"""HTTP/1 hosts that misbehave, close, or leave, as the gateway and its clients see them."""
import time

import pytest

from conftest import wait_for
from http_line import Client, answer, hello
from http_world import code_of, w, world


# upstream


@pytest.mark.parametrize("said", [
    "HTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "\x00\x01\x02\x03\r\n\r\n", "HTTP/2 200 OK\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX: a\r\n folded\r\n\r\n", "HTTP/1.1 200 OK\r\nX : a\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b\r\n\r\n", "HTTP/1.1 200 OK\nX: a\n\n",
    "HTTP/1.1 200 OK\r\n" + "".join(f"X-{i}: 1\r\n" for i in range(10000)) + "\r\n",
    "HTTP/1.1 200 OK\r\nX: " + "a" * 100_000 + "\r\n\r\n", "HTTP/1.1 103 Hint\r\n\r\n" * 100_000,
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"])
def test_what_is_no_response_is_a_502_and_the_worker_lives(w, said):
    g, o = w
    o.script = lambda peer, r: peer.send(said) and True
    m = Client(g).get()
    assert (m.status, code_of(m)) == (502, "upstream_bad_response")
    o.script = hello
    assert Client(g).get().body == b"/ 0"


def test_bytes_behind_a_response_end_its_connection(w):
    g, o = w
    o.script = lambda peer, r: peer.send(answer("one"), answer("forged"))
    c = Client(g)
    assert c.get("/a").body == b"one"
    assert c.get("/b").body == b"one" and o.connections == 2


def test_a_host_that_speaks_out_of_turn_is_not_asked_again(w):
    g, o = w

    def script(peer, r):
        peer.send(answer("one"))
        time.sleep(0.05)
        peer.send(answer("forged"))

    o.script = script
    c = Client(g)
    assert c.get("/a").body == b"one"
    time.sleep(0.2)
    assert c.get("/b").body == b"one" and o.connections == 2


def test_a_stale_connection_is_not_seen_by_safe_requests(w):
    g, o = w
    def close_after_one(peer, r):
        peer.send(answer("fresh"))
        return True
    o.script = close_after_one
    c = Client(g)
    for _ in range(20):  # each finds the kept connection closed, or closing
        assert c.get().body == b"fresh"
    assert len(o.requests) == 20


def test_a_request_that_may_have_arrived_is_not_sent_twice(w):
    g, o = w
    state = {"n": 0}

    def script(peer, r):
        state["n"] += 1
        if state["n"] == 1:
            peer.send(answer("first"))
            return False
        return True  # reads the second request whole and closes

    o.script = script
    c = Client(g)
    assert c.get().body == b"first"
    m = c.request("POST", "/pay", "Content-Length: 2\r\n", "hi").response()
    assert (m.status, code_of(m)) == (502, "upstream_closed")
    assert [r.first.split()[0] for r in o.requests] == ["GET", "POST"]


def test_a_post_finds_a_closed_kept_connection_before_it_is_sent(w):
    g, o = w
    o.script = lambda peer, r: bool(peer.send(answer("fresh"))) and r.first.startswith("GET")
    c = Client(g)
    for _ in range(10):
        assert c.get().body == b"fresh"
        time.sleep(0.02)
        assert c.request("POST", "/", "Content-Length: 2\r\n", "hi").response().body == b"fresh"


def test_the_last_bytes_of_a_host_that_closes_at_once_arrive(w):
    g, o = w
    o.script = lambda peer, r: peer.send("HTTP/1.1 200 OK\r\n\r\n", b"t" * 65536) and True
    for _ in range(20):
        assert len(Client(g).get().body) == 65536


def test_a_slow_reader_gets_all_of_it_though_the_host_closed_long_ago(w):
    g, o = w
    o.script = lambda peer, r: peer.send(f"HTTP/1.1 200 OK\r\nContent-Length: {8 << 20}\r\n\r\n", b"t" * (8 << 20)) and True
    c = Client(g).request()
    time.sleep(0.5)
    assert len(c.response().body) == 8 << 20


def test_a_refused_dial_is_a_502_with_a_row(w):
    g, _ = w
    m = Client(g, host="gone.example.test").get()
    assert (m.status, code_of(m)) == (502, "connect_refused")
    assert "error=connection_refused" in m["proxy-status"]
    wait_for(lambda: [r for r in g.rows(kind="deny") if r["code"] == "connect_refused"])


def test_connections_are_never_shared_between_sandboxes(w):
    g, o = w
    seen = []

    def script(peer, r):
        seen.append(peer.sock.getpeername()[1])
        peer.send(answer())

    o.script = script
    a, b = Client(g, source="127.0.0.1"), Client(g, source="127.0.0.5")
    for _ in range(3):
        a.get()
        b.get()
    assert len(set(seen)) == 2 and seen[0] == seen[2] == seen[4] != seen[1] == seen[3] == seen[5]
