"""What of a head passes the gateway, and which heads do not."""
import pytest

from http_line import WAYS, Client, answer
from http_world import code_of, w, world


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
