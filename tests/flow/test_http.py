"""HTTP/1 through the whole gateway, by three ways in: what passes, what does not, and how
each side is told.  The oracle of what went out is the origin's list of requests.
"""
import base64
import hashlib
import json
import os
import socket
import struct
import threading
import time

import pytest

from conftest import wait_for
from http_line import WAYS, Client, Origin, Stream, answer, closed_in, config, hello, make, rss


@pytest.fixture(scope="module")
def world():
    gate, origin = make(limits={"connections": 2000, "connections_per_second": 100000, "connections_burst": 100000,
                                "requests_per_second": 1000000, "requests_burst": 1000000, "request_body": "1GiB",
                                "denied_drain": "1MiB"})
    gate.start()
    yield gate, origin
    gate.close()
    origin.close()


@pytest.fixture
def w(world):
    gate, origin = world
    origin.reset()
    pid = gate.pids()["worker.0"]
    yield world
    assert not origin.errors, origin.errors
    assert gate.pids()["worker.0"] == pid, gate.text_of_log()[-2000:]


def code_of(m):
    return json.loads(m.body)["error"]["code"]


# one connection, many requests


@pytest.mark.parametrize("way", WAYS)
def test_each_request_of_a_kept_connection_is_judged(w, way):
    g, o = w
    c = Client(g, way, "rest.example.test")
    assert c.get("/v1/a").body == b"/v1/a 0"
    m = c.get("/other")
    assert (m.status, code_of(m), m["connection"]) == (403, "denied_path", None)
    m = c.request("PUT", "/v1/b", "Content-Length: 0\r\n").response()
    assert (m.status, code_of(m)) == (403, "denied_method")
    assert c.get("/v1/c").body == b"/v1/c 0"
    assert [r.first.split()[1] for r in o.requests] == ["/v1/a", "/v1/c"] and o.connections == 1


@pytest.mark.parametrize("way", WAYS)
def test_chunks_and_trailers_pass_both_ways(w, way):
    g, o = w
    o.script = lambda peer, r: peer.send(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: x-gone\r\n\r\n", "3\r\nabc\r\n4;e=1\r\ndefg\r\n",
        "0\r\nX-Sum: 7\r\nx-gone: 1\r\nAuthorization: no\r\n\r\n")
    c = Client(g, way)
    m = c.request("POST", "/up", "Transfer-Encoding: chunked\r\nTE: trailers\r\nConnection: TE\r\n",
                  "5\r\nhello\r\n1\r\n!\r\n0\r\nX-Check: ok\r\nHost: evil\r\nX_Api_Key: k\r\n\r\n").response()
    got, = o.requests
    assert (got.body, got.trailers, got["te"]) == (b"hello!", [("X-Check", "ok")], "trailers")
    assert (m.body, m.trailers) == (b"abcdefg", [("X-Sum", "7")])
    assert c.get().status == 200 and o.connections == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_thousand_pipelined_requests_are_answered_in_order(w, way):
    g, o = w
    c = Client(g, way, "rest.example.test")
    wanted = [f"/v1/{i}" if i % 3 else f"/no/{i}" for i in range(1000)]
    sender = threading.Thread(target=lambda: [c.request(path=p) for p in wanted])
    sender.start()
    for i, path in enumerate(wanted):
        m = c.response()
        if i % 3:
            assert m.body == f"{path} 0".encode()
        else:
            assert m.status == 403
    sender.join()
    assert [r.first.split()[1] for r in o.requests] == [p for i, p in enumerate(wanted) if i % 3]


def test_pipelined_requests_before_a_half_close_are_all_answered(w):
    g, _ = w
    c = Client(g)
    for i in range(20):
        c.request(path=f"/{i}")
    c.sock.shutdown(socket.SHUT_WR)
    for i in range(20):
        assert c.response().body == f"/{i} 0".encode()
    assert c.rest() == b""


def test_methods_that_begin_like_connect_are_ordinary(w):
    g, _ = w
    c = Client(g)
    for method in ("COPY", "CHECKOUT", "connect", "C"):
        m = c.request(method, "/", "Content-Length: 0\r\n").response()
        assert m.status == 200, (method, m.body)
    c.send("CO")
    time.sleep(0.05)
    c.send(c.line("COPY", "/split")[2:], "\r\n")
    assert c.response().body == b"/split 0"


def test_a_malformed_request_behind_a_good_one_is_told_as_itself(w):
    g, o = w
    c = Client(g)
    assert c.request("HEAD", "/one").response("HEAD").status == 200
    m = c.send("GET http://ok.example.test/ HTTP/1.1\r\nHost : x\r\n\r\n").response()
    assert m.status == 400 and code_of(m) and m["connection"] == "close" and c.rest() == b""
    assert len(o.requests) == 1


# status and framing


@pytest.mark.parametrize("way", WAYS)
def test_interim_responses_reach_the_client_that_knows_them(w, way):
    g, o = w
    o.script = lambda peer, r: peer.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
                                         "HTTP/1.1 100 Continue\r\n\r\n", answer())
    c = Client(g, way)
    assert c.get().body == b"hello"
    assert [(m.status, m["link"]) for m in c.interim] == [(103, "</a>"), (100, None)]
    c = Client(g, way)
    assert c.get(version="1.0").body == b"hello" and c.interim == []


@pytest.mark.parametrize("way", WAYS)
def test_expect_is_forwarded_and_answered_by_the_origin(w, way):
    g, o = w

    def script(peer, r):
        assert r["expect"] == "100-continue"
        peer.send("HTTP/1.1 100 Continue\r\n\r\n")
        peer.send(answer(peer.exactly(2_000_000)[-3:]))

    o.reset(script, is_raw=True)
    c = Client(g, way)
    c.request("POST", "/", "Expect: 100-continue\r\nContent-Length: 2000000\r\n")
    first, _ = c.head()
    assert first.startswith("HTTP/1.1 100")
    c.send(b"x" * 1_999_997 + b"end")
    assert c.response().body == b"end"


def test_expect_may_be_answered_finally(w):
    g, o = w
    o.reset(lambda peer, r: peer.send(answer("no", "403 Forbidden")), is_raw=True)
    c = Client(g)
    c.request("POST", "/", "Expect: 100-continue\r\nContent-Length: 2000000\r\n")
    m = c.response()
    assert (m.status, m.body, m["connection"]) == (403, b"no", "close")


def test_other_expectations_are_refused(w):
    g, o = w
    m = Client(g).request("POST", "/", "Expect: tea\r\nContent-Length: 0\r\n").response()
    assert (m.status, code_of(m), o.requests) == (417, "expect_failed", [])


@pytest.mark.parametrize("way", WAYS)
def test_responses_without_bodies_end_at_their_heads(w, way):
    g, o = w
    said = {"/204": "HTTP/1.1 204 No Content\r\n\r\n",
            "/304": "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\nETag: x\r\n\r\n",
            "/head": "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"}
    o.script = lambda peer, r: peer.send(said[r.first.split()[1]])
    c = Client(g, way)
    assert c.get("/204")["content-length"] is None
    assert c.get("/304")["content-length"] == "99"
    assert c.request("HEAD", "/head").response("HEAD")["content-length"] == "99"
    assert c.get("/204").status == 204 and o.connections == 1


def test_a_body_that_ends_with_the_connection_is_framed_anew(w):
    g, o = w

    def script(peer, r):
        peer.send("HTTP/1.1 200 OK\r\n\r\n", "part one ")
        time.sleep(0.05)
        peer.send("part two")
        return True

    o.script = script
    c = Client(g)
    m = c.get()
    assert (m["transfer-encoding"], m.body) == ("chunked", b"part one part two")
    assert c.get().body == m.body  # and the client's connection is kept
    m = Client(g).get(version="1.0")
    assert (m["transfer-encoding"], m["connection"], m.body) == (None, "close", b"part one part two")


def test_a_cut_response_is_never_passed_as_a_whole_one(w):
    g, o = w

    def script(peer, r):
        kind = r.first.split()[1]
        if kind == "/length":
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf")
        elif kind == "/chunks":
            peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
        else:
            peer.send("HTTP/1.1 200 OK\r\n\r\nhalf")
            time.sleep(0.1)
            peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return True

    o.script = script
    for path, version in (("/length", "1.1"), ("/chunks", "1.1"), ("/chunks", "1.0"), ("/reset", "1.1"),
                          ("/reset", "1.0")):
        with pytest.raises((EOFError, ConnectionError)):
            m = Client(g).get(path, version=version)
            raise AssertionError((path, version, m.first, m.fields, m.body))


@pytest.mark.parametrize("wish", ["", "Connection: keep-alive\r\n", "Proxy-Connection: keep-alive\r\n"])
def test_http_1_0_clients_are_closed_as_a_proxy_must(w, wish):
    g, o = w
    m = (c := Client(g)).get(version="1.0", fields=wish)
    assert (m["connection"], m.body, c.rest()) == ("close", b"/ 0", b"")
    assert o.requests[0].first == "GET / HTTP/1.1" and o.requests[0]["connection"] is None
    o.script = lambda peer, r: peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
    m = Client(g).get(version="1.0", fields=wish)
    assert (m["connection"], m["transfer-encoding"], m.body) == ("close", None, b"ok")


# uploads


@pytest.mark.parametrize("way", WAYS)
def test_an_early_response_is_delivered_while_the_upload_runs(w, way):
    g, o = w
    def script(peer, r):
        peer.exactly(100_000)
        peer.send(answer("enough"))
        peer.rest()
        return True

    o.reset(script, is_raw=True)
    c = Client(g, way)
    c.request("POST", "/", "Content-Length: 50000000\r\n", b"x" * 200_000)
    m = c.response()
    assert (m.body, m["connection"]) == (b"enough", "close")


@pytest.mark.parametrize("way", WAYS)
def test_a_denial_during_an_upload_arrives(w, way):
    g, o = w
    c = Client(g, way, "rest.example.test")
    c.request("POST", "/v1/x", "Content-Length: 200000\r\n", b"x" * 1000)
    time.sleep(0.05)
    c.send(b"x" * 199_000)
    m = c.response()
    assert (m.status, code_of(m), c.rest(), o.requests) == (403, "denied_method", b"", [])


def test_what_follows_a_denial_is_read_only_up_to_a_cap(w):
    g, _ = w
    c = Client(g, "absolute", "rest.example.test")
    c.request("POST", "/v1/x", "Content-Length: 100000000\r\n")
    assert c.response().status == 403
    sent = 0
    with pytest.raises(OSError):
        for _ in range(1000):
            c.sock.sendall(b"x" * 65536)
            sent += 65536
    assert sent < 20_000_000


def test_a_body_over_the_limit_is_refused_at_its_head_and_on_its_way():
    gate, origin = make(limits={"request_body": "100KiB"})
    origin.reset(lambda peer, r: peer.rest() and True, is_raw=True)
    try:
        gate.start()
        m = Client(gate).request("POST", "/", "Content-Length: 102401\r\n").response()
        assert (m.status, code_of(m), origin.requests) == (413, "too_big", [])
        c = Client(gate).request("POST", "/", "Transfer-Encoding: chunked\r\n", b"8000\r\n" + b"x" * 32768 + b"\r\n")
        time.sleep(0.1)
        c.send(*[b"8000\r\n" + b"x" * 32768 + b"\r\n"] * 4)
        m = c.response()
        assert (m.status, code_of(m)) == (413, "too_big")
        assert gate.wait_rows(kind="deny", n=2)[-1]["code"] == "too_big"
    finally:
        gate.close()
        origin.close()


# upgrades


KEY = base64.b64encode(b"0123456789abcdef").decode()
WANTS = f"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n"


def accept(key):
    return base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()


def switch(peer, r, key=None, extra=b""):
    peer.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
              f"Sec-WebSocket-Accept: {accept(key or r['sec-websocket-key'])}\r\n\r\n", extra)
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


# what of a head passes


@pytest.mark.parametrize("way", WAYS)
def test_fields_that_are_not_the_hosts_business_stay_here(w, way):
    g, o = w
    c = Client(g, way)
    c.get(fields="Proxy-Authorization: Basic eDp5\r\nProxy_Authorization: x\r\nProxy-Connection: keep-alive\r\n"
                 "Connection: x-mine, keep-alive\r\nX-Mine: 1\r\nKeep-Alive: 5\r\nTE: gzip\r\nX_Api_Key: k\r\n"
                 "x.api.key: k\r\nAuthorization: mine\r\nCookie: a=1\r\nAccept: */*\r\nX-Api-Key: fine\r\n")
    got, = o.requests
    names = {n for n, _ in got.fields}
    assert names == {"host", "authorization", "cookie", "accept", "x-api-key"}, names
    assert got["host"] == c.authority() and got.first == "GET / HTTP/1.1"


@pytest.mark.parametrize("way", WAYS)
def test_responses_keep_their_cookies_in_order_and_lose_what_leads_around_us(w, way):
    g, o = w
    o.script = lambda peer, r: peer.send(answer("x", "302 Found", "Set-Cookie: a=1\r\nSet-Cookie: b=2; Path=/\r\n"
                                         "Location: http://else.example.test/\r\nAlt-Svc: h3=\":443\"\r\nProxy-Foo: 1\r\n"
                                         "Connection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nSet-Cookie: a=3\r\n"))
    m = Client(g, way).get()
    assert m.all("set-cookie") == ["a=1", "b=2; Path=/", "a=3"]
    assert (m.status, m["location"]) == (302, "http://else.example.test/")
    assert not {"alt-svc", "proxy-foo", "x-hop", "keep-alive"} & {n for n, _ in m.fields}
    assert len(o.requests) == 1


@pytest.mark.parametrize("bad, status, code", [
    ("X: " + "a" * 70000 + "\r\n", 431, "head_too_large"),
    ("".join(f"X-{i}: 1\r\n" for i in range(191)), 431, "head_too_large"),
    ("Content-Length: 3\r\nContent-Length: 4\r\n", 400, "bad_framing"),
    ("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", 400, "bad_framing"),
    ("Transfer-Encoding: xchunked\r\n", 400, "bad_framing"),
    ("Content_Length: 3\r\n", 400, None), ("A: b\r\n folded\r\n", 400, "bad_header"),
    ("Host: evil.example.test\r\n", 400, None), ("X : 1\r\n", 400, None), ("X\x00: 1\r\n", 400, None)])
def test_heads_that_are_refused(w, bad, status, code):
    g, o = w
    m = Client(g).request(fields=bad).response()
    assert m.status == status and code in (None, code_of(m)), (m.first, m.body)
    assert o.requests == []


def test_a_target_that_is_too_long_is_told_as_such(w):
    g, o = w
    m = Client(g).get("/" + "a" * 20000)
    assert (m.status, code_of(m), o.requests) == (414, "uri_too_long", [])


def test_trace_is_refused_before_anything(w):
    g, o = w
    for method in ("TRACE", "TRACK"):
        m = Client(g).request(method).response()
        assert (m.status, code_of(m), o.requests) == (405, "method_refused", [])
        assert "GET" in m["allow"]


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


# our own pages


@pytest.mark.parametrize("way", ["absolute", "connect"])
def test_the_pages_tell_a_sandbox_what_it_needs(w, way):
    g, o = w
    c = Client(g, way, "sandgate.internal", port=80)
    assert b"/policy" in c.get("/").body
    me = json.loads(c.get("/me").body)
    assert (me["sandbox"], me["user"]) == ("demo", "alice")
    policy = json.loads(c.get("/policy").body)
    assert "ok.example.test" in json.dumps(policy)
    assert c.get("/nothing").status == 404
    m = c.request("POST", "/me", "Content-Length: 0\r\n").response()
    assert (m.status, code_of(m)) == (405, "method_refused")
    assert c.request("HEAD", "/me").response("HEAD").status == 200
    assert c.get("/me").status == 200 and o.requests == []


def test_the_last_refusal_is_told_whatever_way_it_came(w):
    g, _ = w
    assert Client(g, host="denied.example.test").get("/x").status == 403
    last = wait_for(lambda: (m := Client(g, host="sandgate.internal", port=80).get("/last")) and
                    "denied.example.test" in m.body.decode() and m)
    assert "denied_by_policy" in last.body.decode()
    query = struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"\x06secret\x04evil\x07example\x04test\0" + b"\0\1\0\1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        s.sendto(query, g.dns)
        assert s.recv(512)[3] & 15 == 3
    wait_for(lambda: "secret.evil.example.test" in
             Client(g, host="sandgate.internal", port=80).get("/last").body.decode())


# time


def test_each_wait_has_an_end():
    gate, origin = make(timeouts={"request_head": "500ms", "keepalive": "500ms", "response_head": "1s",
                                  "response_idle": "1s", "stalled": "1s", "drain": "1s"})
    try:
        gate.start()
        c = Client(gate, "connect")
        c.send("GET / HTTP/1.1\r\nHos")
        m = c.response()
        assert (m.status, code_of(m)) == (408, "timeout")
        c = Client(gate)
        c.get()
        assert 0.3 < closed_in(c, 5) < 4
        origin.reset(lambda peer, r: peer.rest() and True, is_raw=True)
        m = Client(gate).get()
        assert (m.status, code_of(m)) == (504, "upstream_timeout")
        origin.reset(lambda peer, r: peer.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf") and peer.rest() and True)
        with pytest.raises((EOFError, ConnectionError)):
            Client(gate).get()
        m = Client(gate).request("POST", "/", "Content-Length: 9\r\n", "half").response()
        assert (m.status, code_of(m)) == (408, "timeout")
        want = {"timeout_request_head": 1, "timeout_response": 2, "timeout_idle": 1}
        wait_for(lambda: want.items() <= gate.status()["counters"].items())
    finally:
        gate.close()
        origin.close()


def test_peers_that_hold_our_data_are_let_go():
    gate, origin = make(timeouts={"stalled": "1s", "drain": "1s"})
    try:
        gate.start()

        def endless(peer, r):
            while True:
                peer.sock.sendall(b"x" * 65536)

        origin.reset(lambda peer, r: peer.send("HTTP/1.1 200 OK\r\n\r\n") and endless(peer, r))
        c = Client(gate).request()
        wait_for(lambda: gate.counter("timeout_stalled") == 1)
        with pytest.raises((EOFError, ConnectionError)):
            c.response()
        origin.reset(lambda peer, r: time.sleep(6) or True, is_raw=True)
        c = Client(gate).request("POST", "/", "Content-Length: 900000000\r\n")

        def push():
            try:
                while True:
                    c.sock.sendall(b"x" * 65536)
            except OSError:
                pass

        threading.Thread(target=push, daemon=True).start()
        m = c.response()
        assert (m.status, code_of(m)) == (504, "upstream_timeout")
    finally:
        gate.close()
        origin.close()


def test_a_row_names_the_rule_that_matched_method_and_path():
    gate, origin = make()
    try:
        port = gate.ports["egress"]
        rule = {"hosts": ["ok.example.test"], "ports": [port], "addresses": ["127.0.0.0/8"]}
        new = config(port)
        new["policies"]["coding"]["allow"] = [{**rule, "methods": ["GET"], "paths": ["/first"]},
                                              {**rule, "methods": ["POST"], "paths": ["/second"]}]
        gate.write(new)
        gate.start()
        c = Client(gate)
        assert c.get("/first").status == 200
        assert c.request("POST", "/second", "Content-Length: 0\r\n").response().status == 200
        rules = [r["rule"] for r in gate.wait_rows(2, kind="request")]
        where = [int(r.rpartition(":")[2]) for r in rules]
        lines = gate.file.read_text().splitlines()
        between = "\n".join(lines[where[0] - 1:where[1] - 1])
        assert where[0] < where[1] and "/first" in between and "/second" not in between, rules
    finally:
        gate.close()
        origin.close()
