"""HTTP/1 through the whole gateway, by three ways in: what passes, what does not, and how
each side is told.  The oracle of what went out is the origin's list of requests.
"""
import json
import socket
import struct
import threading
import time

import pytest

from conftest import wait_for
from http_line import WAYS, Client, answer, closed_in, config, hello, make
from http_world import code_of, w, world


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
