"""Requests that two readers read differently (threats 2.1, 2.6; cases A, D): one code on
every way in, and the origin sees no more requests than were judged."""
import asyncio

import pytest

import messages as m
from hello import hello
from ways import CLOSED, Got, heard

WAYS = [("box", "transparent"), ("box", "connect"), ("box", "socks"), ("box", "absolute"), ("box", "transparent6"),
        ("cell", "transparent"), ("cell", "absolute"), ("cell", "connect")]
ABSOLUTE = [way for way in WAYS if way[1] == "absolute"]


def http(battery, inputs, ways=WAYS, closes=None):
    return battery.run(((label, way, codes, lambda d=data, way=way: battery.ways.http(way, d))
                        for label, data, codes in inputs for way in ways), closes)


def one_code(gots):
    """Over all ways in the same words; closed is what is not even HTTP."""
    said = {}
    for label, way, got in gots:
        said.setdefault(label, {})[way] = got.code or got.how
    differing = {label: by_way for label, by_way in said.items() if len(set(by_way.values())) > 1}
    assert not differing, differing


def nothing_smuggled(battery):
    assert not [r for r in battery.world.origin.http if b"/smuggled" in r or b"POST /f " in r]


def smuggling(battery, inputs, closes=None):
    gots = http(battery, inputs, closes=closes)
    nothing_smuggled(battery)
    one_code(gots)


@pytest.mark.parametrize("group", ["lengths", "codings", "names", "versions", "hosts", "sizes", "expectations"])
def test_requests_with_two_readings_are_refused(battery, group):
    smuggling(battery, [i for i in getattr(m, group)() if i[0] != "method of 17 kB"])


def test_lines_end_in_cr_lf_alone(battery):
    # A lone CR behind the last field leaves a head without an end; CR LF CR X ends it well.
    waits = {"CR at 4", "CR X at 4", "NEL at 4", "VT at 4", "FF at 4", "NEL at 3"}
    inputs = [i for i in m.ends() if i[0] not in waits | {"CR LF CR X at 4", "two empty lines first", "LF first"}]
    smuggling(battery, inputs)
    http(battery, [(label, data, {"closed", "timeout", "bad_request", "bad_header"}) for label, data, _ in m.ends() if label in waits])
    nothing_smuggled(battery)


def test_request_lines_have_one_form(battery):
    inputs = list(m.lines())
    strange = ('line \'"GET', "line '[GET]", "line ' GET", "line 'GET@@", "line '@@", "line 'G\\x00", "line 'GE(", "line 'GET,",
               "line 'G\xc9", "line 'GET\\x0b", "line 'GET:", "line 'GET'")
    http(battery, [i for i in inputs if i[0].startswith(strange)])
    one_code(http(battery, [i for i in inputs if not i[0].startswith(strange)]))


def test_upgrades_are_valid_or_refused(battery):
    smuggling(battery, [i for i in m.upgrades() if i[0] != "1.0"])


def test_upgrades_to_anything_else_are_not_carried(battery):
    """h2c, and HTTP/1.0 with Upgrade: the request passes as an ordinary one."""
    h2c = ["HTTP2-Settings: AAMAAABkAAQAAP__", "Connection: Upgrade, HTTP2-Settings"]
    inputs = [("h2c", m.post("Upgrade: h2c", *h2c, line=b"GET @@/h2c HTTP/1.1", body=b""), {"ok", "bad_upgrade"}),
              ("TLS", m.post("Upgrade: TLS/1.0", "Connection: Upgrade", line=b"GET @@/h2c HTTP/1.1", body=b""), {"ok", "bad_upgrade"}),
              ("websocket, h2c", m.post("Upgrade: websocket, h2c", *h2c, "Sec-WebSocket-Version: 13",
                                        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", line=b"GET @@/h2c HTTP/1.1", body=b""),
               {"ok", "bad_upgrade"}), [i for i in m.upgrades() if i[0] == "1.0"][0][:2] + ({"ok"},)]
    http(battery, inputs)
    for seen in battery.world.origin.requests(b"GET /h2c"):
        assert b"upgrade" not in seen.lower() and b"http2-settings" not in seen.lower(), seen


def test_the_http2_preface_is_no_http1_request(battery):
    """Nor is what only begins like it; the whole one begins HTTP/2: flow/test_h2.py."""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
    ask = b"GET / HTTP/1.1\r\nHost: ok.example.test\r\n\r\n"
    http(battery, [("its first line, then a request", preface[:18] + ask, "bad_version"),
                   ("its first line with a field", preface[:16] + b"Host: ok.example.test\r\n\r\n", "bad_version")],
         ABSOLUTE)


def test_chunks_have_one_form(battery):
    codes = {"bad_chunk", "bad_header", "head_too_large", "closed"}
    inputs = [(label, m.post("Transfer-Encoding: chunked", body=body, line=b"POST @@/chunks HTTP/1.1"), codes)
              for label, body in m.chunks()]
    one_code(http(battery, inputs))
    for record in battery.world.origin.requests(b"POST /chunks"):
        start = record.rindex(b"POST /chunks")
        assert battery.world.origin.answerable(record, start) is None, "a body that was never whole"


def test_absolute_forms_name_one_place(battery):
    codes = {"bad_target", "bad_host", "bad_request", "bad_port", "name_mismatch"}
    inputs = [(t, f"GET {t} HTTP/1.1\r\nHost: ok.test\r\n\r\n".encode("latin-1"), codes) for t in m.targets()
              if t not in ("http://ok.test?@evil.test",)]
    http(battery, inputs, ABSOLUTE)
    http(battery, [("query", b"GET http://ok.test?@evil.test HTTP/1.1\r\nHost: ok.test\r\n\r\n", "ok")], ABSOLUTE)
    assert b"GET /?@evil.test HTTP/1.1\r\nHost: ok.test\r\n" in battery.world.origin.requests(b"@evil.test")[0]


def test_target_and_host_must_be_one(battery):
    for host in (b"evil.test", b"a.w.test", b"ok.test:443", b"ok.test:8080", b"x.ok.test", b"bad.w.test"):
        http(battery, [(host, b"GET http://ok.test/ HTTP/1.1\r\nHost: " + host + b"\r\n\r\n", "name_mismatch")], ABSOLUTE)
    inside = [way for way in WAYS if way[1] in ("connect", "socks")]
    for host in (b"evil.test", b"a.w.test", b"bad.w.test", b"only443.test", b"ok.test:443", b"ok.test:8080"):
        http(battery, [(host, b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n", "name_mismatch")], inside)
    http(battery, [("same", b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n", "ok") for host in
                   (b"ok.test", b"OK.TEST", b"ok.test.", b"ok.test:80")], inside)


def connects():
    """P01, P02, D20, B11, A20: what CONNECT may look like."""
    bad = {"bad_target", "bad_host", "bad_port", "bad_request", "bad_header", "bad_framing", "name_mismatch"}
    for t in ("http://ok.test:443", "/", "ok.test", "*", "ok.test:443/x", "ok.test:443/", "ok.test:443?x", "ok.test:443#x",
              "user@ok.test:443", "ok.test:443@evil.test:443", "//ok.test:443", "ok.test:443,evil.test:443", "ok.test 443", "",
              ":443", "[ok.test]:443", "[[ok.test]]:443", "ok.test:443 evil.test:443", "https://ok.test", "ok.test:443\\x",
              "ok.test\t:443", "ok.test::443", "[::1]", "::1:443", "[::ffff:127.0.0.1]443", "evil.test:443.ok.test"):
        yield f"target {t!r}", f"CONNECT {t} HTTP/1.1\r\nHost: ok.test:443\r\n\r\n".encode(), bad
    for f in ("Content-Length: 5", "Content-Length: 0", "Transfer-Encoding: chunked", "Transfer-Encoding: identity",
              "Content-Length: 5\r\nTransfer-Encoding: chunked", "Host: ok.test:443", "Host: evil.test", "Bad Name: x", "X y"):
        yield f"field {f!r}", f"CONNECT ok.test:443 HTTP/1.1\r\nHost: ok.test:443\r\n{f}\r\n\r\nhello".encode(), bad
    for h in ("evil.test", "evil.test:443", "a.w.test:443", "ok.test.evil.test", "ok.test@evil.test", "", "*"):
        yield f"host {h!r}", f"CONNECT ok.test:443 HTTP/1.1\r\nHost: {h}\r\n\r\n".encode(), bad
    yield "no host", b"CONNECT ok.test:443 HTTP/1.1\r\n\r\n", bad
    yield "lower case", b"connect ok.test:443 HTTP/1.1\r\nHost: ok.test:443\r\n\r\n", bad | {"method_refused"}
    yield "mixed case", b"Connect ok.test:443 HTTP/1.1\r\nHost: ok.test:443\r\n\r\n", bad | {"method_refused"}
    for v in ("HTTP/2.0", "HTTP/0.9", "HTTP/1.2", "http/1.1", ""):
        yield f"version {v!r}", f"CONNECT ok.test:443 {v}\r\nHost: ok.test:443\r\n\r\n".encode(), {"bad_version", "bad_request"}
    for t, code in (("10.77.0.1:3128", "ip_literal"), ("127.0.0.1:3128", "ip_literal"), ("localhost:3128", "bad_host"),
                    ("[::1]:3128", "ip_literal"), ("10.77.0.1:15001", "ip_literal"), ("198.18.0.1:3128", "ip_literal"),
                    ("0.0.0.0:3128", "ip_literal"), ("sandgate.internal:443", "denied_by_policy"), ("evil.test:443", "denied_by_policy"),
                    ("sandgate.internal:3128", "denied_by_policy"), ("[fd77::1]:3128", "ip_literal")):
        yield f"self {t}", f"CONNECT {t} HTTP/1.1\r\nHost: {t}\r\nUser-Agent: other\r\nProxy-Authorization: Basic eA==\r\n\r\n".encode(), code


def test_connect_has_one_form(battery):
    # A tunnel to our own proxy port, or through an allowed host to another, is judged as any.
    http(battery, connects(), ABSOLUTE)


def test_connect_on_a_captured_connection_is_told(battery):
    """A sandbox that has a proxy of its own configured: caught, refused in words."""
    http(battery, [("captured", b"CONNECT ok.test:443 HTTP/1.1\r\nHost: ok.test:443\r\n\r\n", {"method_refused", "name_mismatch", "bad_target"}),
                   ("captured evil", b"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n",
                    {"method_refused", "name_mismatch", "bad_target"})], [w for w in WAYS if w[1].startswith("transparent")])


def test_methods_that_reflect_are_refused(battery):
    http(battery, [(method, f"{method} @@/ HTTP/1.1\r\nHost: ok.test\r\n\r\n".encode(), "method_refused") for method in ("TRACE", "TRACK")])


def test_behind_connect_nothing_is_a_request_of_the_proxy(battery):
    """P04, D04: a second request in the same segment belongs to the tunnel."""
    async def by(ns, port, inner):
        link = await battery.ways.to_proxy(ns)
        await link.send(b"CONNECT ok.test:%d HTTP/1.1\r\nHost: ok.test:%d\r\n\r\n" % (port, port) + inner)
        first = await link.response(b"CONNECT")
        assert first[0] == 200
        got = heard(await link.response())
        link.close()
        return got
    other = b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"
    items = []
    for ns in ("box", "cell"):
        for label, port, inner, code in (
                ("other", 80, other, "name_mismatch"), ("absolute, same", 80, other.replace(b"evil", b"ok"), {"ok", "bad_target"}),
                ("plain, other", 80, b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "name_mismatch"),
                ("other in 443", 443, other, {"name_mismatch", "closed"}),
                ("connect again", 80, b"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n",
                 {"method_refused", "name_mismatch", "bad_target"}),
                ("connect to the same", 80, b"CONNECT ok.test:443 HTTP/1.1\r\nHost: ok.test:443\r\n\r\n",
                 {"method_refused", "name_mismatch", "bad_target"})):
            items.append((label, (ns, "connect"), code, lambda ns=ns, port=port, inner=inner: by(ns, port, inner)))
    battery.run(items)


def socks():
    """P05: (label, bytes in order, what is right)."""
    hi = b"\x05\x01\x00"

    def ask(cmd=1, rsv=0, atyp=3, addr=b"\x07ok.test", port=b"\x01\xbb", ver=5):
        return bytes([ver, cmd, rsv, atyp]) + addr + port
    for cmd in (0, 2, 3, 4, 0xf0, 0xf1, 255):
        yield f"command {cmd}", hi + ask(cmd=cmd), "socks_command"
    for atyp in (0, 2, 5, 6, 127, 128, 255):
        yield f"type {atyp}", hi + ask(atyp=atyp), "socks_address_type"
    for rsv in (1, 5, 255):
        yield f"reserved {rsv}", hi + ask(rsv=rsv), "socks_address_type"
    for ver in (0, 1, 4, 6, 255):
        yield f"version {ver} behind the greeting", hi + ask(ver=ver), "bad_socks"
    yield "no name", hi + ask(addr=b"\0"), "bad_host"
    yield "port 0", hi + ask(port=b"\0\0"), "bad_port"
    for name in (b"\0", b".", b"a" * 255, b"127.0.0.1\0", b"127.0.0.1 ", b"ok.test\0", b"\0ok.test", b"ok.test\n", b" ok.test",
                 b"ok.test ", b"ok.test:443", b"http://ok.test", b"ok.test/", b"[::1", b"\xff" * 255):
        yield f"name {name[:12]!r}", hi + ask(addr=bytes([len(name)]) + name), {"bad_host", "ip_literal_nonstandard"}
    yield "no methods", b"\x05\x00" + ask(), "closed"
    for methods in (b"\x01", b"\x03\x80", b"\xff", bytes(range(3, 255))):
        yield f"methods {methods[:4]!r}", bytes([5, len(methods)]) + methods + ask(), "closed"
    yield "255 methods", b"\x05\xff" + bytes(255) + ask(), "ok"
    yield "4", b"\x04\x01\x01\xbb\x5d\xb8\xd8\x0ax\0", "closed"
    yield "4a", b"\x04\x01\x01\xbb\x00\x00\x00\x01x\0ok.test\0", "closed"
    yield "4 bind", b"\x04\x02\x01\xbb\x5d\xb8\xd8\x0ax\0", "closed"
    yield "login not asked for", hi + b"\x01\x01x\x01y", "bad_socks"


def test_socks_fields_are_checked(battery):
    async def by(ns, data, piece):
        link = await battery.ways.to_proxy(ns)
        for i in range(0, len(data), piece):
            await link.send(data[i:i + piece])
            if piece == 1 and len(data) < 60:
                await asyncio.sleep(0.001)
        first = await link.take(2)
        if first is None or first[0] != 5:
            link.close()
            return CLOSED
        if first == b"\x05\xff":
            link.close()
            return CLOSED  # no method of these
        answer = await link.take(10)
        if answer is not None and answer[1] == 0:
            await link.send(hello())
            got = await battery.ways.tls_answer(link)
        else:
            got = CLOSED if answer is None else Got("socks", None, answer[1])
        link.close()
        return got
    items = [(label, (ns, "socks"), code, lambda ns=ns, data=data, piece=piece: by(ns, data, piece))
             for label, data, code in socks() for ns in ("box", "cell") for piece in (len(data), 1, 7)]
    battery.run(items)


def test_socks_data_before_the_reply_waits(battery):
    async def by(ns, name, inner):
        link = await battery.ways.to_proxy(ns)
        await link.send(b"\x05\x01\x00\x05\x01\x00\x03" + bytes([len(name)]) + name + b"\x01\xbb" + inner)
        assert await link.take(2) == b"\x05\x00"
        answer = await link.take(10)
        got = await battery.ways.tls_answer(link) if answer and answer[1] == 0 else Got("socks", None, answer[1])
        link.close()
        return got
    battery.run((label, (ns, "socks"), code, lambda ns=ns, name=name, inner=inner: by(ns, name, inner))
                for ns in ("box", "cell") for label, name, inner, code in (
                    ("good", b"ok.test", hello(), "ok"), ("refused", b"evil.test", hello(), "denied_by_policy"),
                    ("another inside", b"ok.test", hello("evil.test"), "name_mismatch")))
