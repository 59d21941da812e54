"""What passes, passes right (threats 2.6; cases D, F): each request judged alone, written
anew, and answers of hostile origins told as such."""
import asyncio

import pytest

from ways import CLOSED, OK, Got, heard

WAYS = [("box", "transparent"), ("box", "connect"), ("box", "absolute"), ("cell", "transparent"), ("cell", "absolute")]
SOME = WAYS[:3]


async def exchange(battery, way, data, methods):
    """Send all at once, read as many responses; None where there was none."""
    link, refused = await battery.ways.open_http(way)
    assert refused is None
    await link.send(battery.ways.form(way, data))
    got = [await link.response(method) for method in methods]
    link.close()
    return got


def each_way(battery, name, ways, question):
    """question(way) for each; the oracle and a good request afterwards."""
    async def asked(way):
        await question(way)
        return OK
    battery.run([(name, way, "ok", lambda way=way: asked(way)) for way in ways])


def test_requests_in_a_row_are_judged_one_by_one(battery):
    """H14, D10, D05: 200 in one segment, every third not allowed; answers in order."""
    async def row(way):
        parts, codes = [], []
        absolute = way[1] == "absolute"
        for i in range(200):
            host = "evil.test" if i % 3 == 2 else "ok.test"
            parts.append(f"GET {'http://' + host if absolute else ''}/row HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            codes.append("ok" if host == "ok.test" else "denied_by_policy" if way[1] != "connect" else "name_mismatch")
        got = await exchange(battery, way, b"".join(parts), [b"GET"] * 200)
        said = [heard(g) for g in got]
        assert all(s.is_for(c) for s, c in zip(said, codes)), [s.code or s.how for s in said]
    each_way(battery, "200 in a row", WAYS, row)


def test_another_host_on_the_same_connection_gets_its_own(battery):
    async def two(way):
        absolute = way[1] == "absolute"

        def ask(host):
            return f"GET {'http://' + host if absolute else ''}/ HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        link, _ = await battery.ways.open_http(way)
        for host, code in (("ok.test", "ok"), ("evil.test", "denied_by_policy"), ("a.w.test", "ok"), ("bad.w.test", "denied_by_rule"),
                           ("ok.test", "ok")):
            await link.send(ask(host))
            assert heard(await link.response()).is_for(code), host
        link.close()
    each_way(battery, "hosts in turn", [way for way in WAYS if way[1] != "connect"], two)


def test_bodies_are_consumed_exactly(battery):
    """H08, cases D05: a body is no request, extra bytes are the next one."""
    inner = b"GET /smuggled-in-body HTTP/1.1\r\nHost: evil.test\r\n\r\n"

    async def methods(way):
        for method in (b"GET", b"HEAD", b"OPTIONS", b"DELETE", b"POST", b"PUT", b"PATCH", b"BREW"):
            data = method + b" @@/body HTTP/1.1\r\nHost: ok.test\r\nContent-Length: %d\r\n\r\n" % len(inner) + inner
            data += b"GET @@/after HTTP/1.1\r\nHost: ok.test\r\n\r\n"
            got = await exchange(battery, way, data, [method, b"GET"])
            assert [heard(g).how for g in got] == ["ok", "ok"], (method, got)
            data = method + b" @@/body HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\n\r\n"
            data += b"%x\r\n" % len(inner) + inner + b"\r\n0\r\n\r\nGET @@/after HTTP/1.1\r\nHost: ok.test\r\n\r\n"
            got = await exchange(battery, way, data, [method, b"GET"])
            assert [heard(g).how for g in got] == ["ok", "ok"], (method, got)
            zero = method + b" @@/zero HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 0\r\n\r\n" + inner.replace(
                b"GET /", b"GET @@/" if way[1] != "absolute" else b"GET http://evil.test/")
            got = await exchange(battery, way, zero, [method, b"GET"])
            assert heard(got[0]).how == "ok" and heard(got[1]).how == "http", (method, got)
    each_way(battery, "bodies", SOME, methods)
    for record in battery.world.origin.requests(b"smuggled-in-body"):
        rest = record
        while rest:  # only whole requests of ours, and that text only inside bodies
            end = battery.world.origin.answerable(rest, 0)
            assert end and not rest.startswith(b"GET /smuggled"), rest
            rest = rest[end:]


def test_what_goes_upstream_is_written_anew(battery):
    """H07, cases D07, A29: hop-by-hop, look-alikes of credentials, nominated names, trailers."""
    async def fields(way):
        data = (b"POST @@/written HTTP/1.1\r\nhOsT: ok.test\r\nConnection: close-not, X-Nominated, te\r\nX-Nominated: a\r\n"
                b"Keep-Alive: timeout=5\r\nProxy-Authorization: Basic c2VjcmV0\r\nProxy_Authorization: Basic c2VjcmV0\r\n"
                b"proxy.authorization: secret\r\nProxy-Connection: keep-alive\r\nTE: trailers, gzip\r\nTrailer: X-T\r\n"
                b"X-Kept: yes\r\nAccept: */*\r\nX_api_key: guest\r\nx.api.key: guest\r\nX-Dup: 1\r\nX-Dup: 2\r\n"
                b"Transfer-Encoding: CHUNKED\r\n\r\n5;ext=1\r\nhello\r\n0\r\nX-T: kept\r\n"
                b"Host: evil.test\r\nAuthorization: x\r\nSet-Cookie: x\r\nContent-Type: x\r\n\r\n")
        got = heard((await exchange(battery, way, data, [b"POST"]))[0])
        assert got.how == "ok", got
    each_way(battery, "written", WAYS, fields)
    seen = battery.world.origin.requests(b"POST /written")
    for record in seen:
        text = record[record.rindex(b"POST /written"):]
        head, body = text.split(b"\r\n\r\n", 1)
        low = head.lower()
        for gone in (b"x-nominated", b"keep-alive:", b"proxy", b"x_api_key", b"x.api.key", b"gzip", b";ext"):
            assert gone not in low, (gone, head)
        assert b"X-Kept: yes" in head and head.count(b"X-Dup:") == 2 and low.count(b"transfer-encoding: chunked\r\n") + low.endswith(
            b"transfer-encoding: chunked") == 1 and b"content-length" not in low and low.count(b"\r\nhost: ok.test") == 1
        assert body.startswith(b"5\r\nhello\r\n0\r\nX-T: kept\r\n\r\n"), body


def test_trailers_cannot_frame(battery):
    """H07: a length or coding behind the body is an attempt at something."""
    items = []
    for field in (b"Content-Length: 5", b"Transfer-Encoding: chunked", b"content-length: 0", b"Content_Length: 5"):
        data = b"POST @@/trailers HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n" + field + b"\r\n\r\n"
        items += [(field, way, {"bad_chunk", "bad_header"}, lambda way=way, data=data: battery.ways.http(way, data)) for way in WAYS]
    battery.run(items)


@pytest.mark.parametrize("path,code", [
    ("/public/a", "ok"), ("/public/", "ok"), ("/public/a/b/c?x=/../secret", "ok"), ("/public/%20a", "ok"), ("/public/a%2fb", "ok"),
    ("/secret", "denied_path"), ("/", "denied_path"), ("/Public/a", "denied_path"), ("/publicx", "denied_path"),
    ("//public/a", "denied_path"), ("/public/../secret", "bad_path"), ("/public/./a", "bad_path"), ("/public/..", "bad_path"),
    ("/public/%2e%2e/secret", "bad_path"), ("/public/%2E%2e/secret", "bad_path"), ("/public/.%2e/secret", "bad_path"),
    ("/public/%2e/secret", "bad_path"), ("/public/..%2fsecret", "bad_path"), ("/public/%2e%2e%2fsecret", "bad_path"),
    ("/public/..;x=1/secret", "bad_path"), ("/public/..;/secret", "bad_path"), ("/public/%2e%2e;/secret", "bad_path"),
    ("/public/.;/secret", "bad_path"), ("/public/..%5csecret", "bad_path"), ("/public/\\..\\secret", "bad_path"),
    ("/public/%00", "bad_path"), ("/public/%c0%ae%c0%ae/secret", "bad_path"), ("/public/%e0%80%ae%e0%80%ae/secret", "bad_path"),
    ("/%70ublic/a", "bad_path"), ("/public/%61", "bad_path"), ("/public/a%0d%0ab", "bad_path"), ("/public/%2e%2e", "bad_path"),
    ("//public//..//secret", "bad_path"), ("/public//../secret", "bad_path"), ("/public/..%2f..%2fsecret", "bad_path"),
    ("/public/%252e%252e/secret", "ok"), ("/public;x/../secret", "bad_path"), ("/public/a/..", "bad_path"), ("/../public/a", "bad_path"),
    ("/./public/a", "bad_path"), ("/%2e%2e/public/a", "bad_path"), ("/public/%", "bad_path"), ("/public/%2", "bad_path"),
    ("/public/%%32%65", "bad_path"), ("/public/%u002e%u002e/", "bad_path"), ("/public/...", "ok"), ("/public/..a", "ok"),
    ("/public%2fa", "denied_path"), ("/public%2f..%2fsecret", "bad_path")])
def test_paths_are_matched_as_they_are_sent(battery, path, code):
    """cases D01, D02 and their kind."""
    data = b"GET @@" + path.encode() + b" HTTP/1.1\r\nHost: path.test\r\n\r\n"
    before = len(battery.world.origin.http)
    ways = [("box", "transparent"), ("box", "absolute"), ("cell", "transparent"), ("box", "connect")]
    battery.run([(path, way, code, lambda way=way: battery.ways.http(way, data, b"path.test")) for way in ways])
    if code == "ok":
        assert any(b"GET " + path.encode() + b" HTTP/1.1\r\n" in r for r in battery.world.origin.http)
    assert len(battery.world.origin.http) >= before


def test_methods_and_the_narrower_rule(battery):
    """cases D10, D11."""
    def ask(method, host, path):
        data = f"{method} @@{path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        return lambda way: battery.ways.http(way, data, host.encode(), method=method.encode())
    items = []
    for way in SOME:
        for method, host, path, code in (
                ("HEAD", "path.test", "/public/x", "ok"), ("GET", "path.test", "/public/x", "ok"),
                ("POST", "path.test", "/public/x", "denied_method"), ("DELETE", "path.test", "/public/x", "denied_method"),
                ("get", "path.test", "/public/x", "denied_method"), ("OPTIONS", "path.test", "/public/x", "denied_method"),
                ("GET", "narrow.test", "/public/sub/x", "ok"), ("GET", "narrow.test", "/public/x", "denied_path"),
                ("GET", "narrow.test", "/public/sub/not/x", "denied_by_rule"), ("HEAD", "narrow.test", "/public/sub/not/x", "denied_by_rule")):
            if method == "get" and way[1] != "absolute":
                continue
            items.append((f"{method} {host}{path}", way, code, lambda way=way, f=ask(method, host, path): f(way)))
    battery.run(items)


def scripts():
    """Answers of a hostile origin: (label, bytes, what the sandbox is told)."""
    ok = b"HTTP/1.1 200 OK\r\n"
    bad = "upstream_bad_response"
    for line in (b"HTTP/1.1 abc\r\n", b"HTTP/2.0 200 OK\r\n", b"HTTP/1.1 20 OK\r\n", b"HTTP/1.1 2000 OK\r\n", b"HTTP/1.1 099 OK\r\n",
                 b"HTTP/1.1 600 OK\r\n", b"HTTP/1.1  200 OK\r\n", b"http/1.1 200 OK\r\n", b"ICY 200 OK\r\n", b"200 OK\r\n", b"\r\n",
                 b"HTTP/1.1\t200 OK\r\n", b"HTTP/1.1 200 O\x00K\r\n", b"HTTP/1.1 +20 OK\r\n", b"HTTP/1.1 200 O\rK\r\n", b"HTTP/1.1 200 OK\n",
                 b"<html>hello</html>\r\n", b"SSH-2.0-x\r\n", b"\x16\x03\x01\x00\x05hello\r\n"):
        yield f"status line {line!r}", line + b"Content-Length: 2\r\n\r\nhi", bad
    for fields in (b"Content-Length: 2\r\nTransfer-Encoding: chunked", b"Content-Length: 2\r\nContent-Length: 3", b"Content-Length: 2, 2",
                   b"Content-Length: +2", b"Content-Length: -1", b"Content-Length: 0x2", b"Content-Length: 2\r\nContent-Length: 2",
                   b"Transfer-Encoding: xchunked", b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: chunked, chunked",
                   b"Transfer-Encoding: identity", b"Transfer_Encoding: chunked", b"Content-Length : 2", b" X: y", b"X: a\r\n b", b"X y",
                   b": x", b"X\x00: y", b"X: a\x00b", b"X: a\rb", b"X: a\nb", b"Content-Length: 99999999999999999999", b"Content-Length:",
                   b"Content Length: 2", b"X(: y", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"):
        yield f"fields {fields!r}", ok + fields + b"\r\n\r\n2\r\nhi\r\n0\r\n\r\n", bad
    yield "101 that nobody asked for", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n", bad
    yield "101 with h2c", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n", bad
    yield "204 with a body", b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", bad
    yield "204 chunked", b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", bad
    yield "101 fields", ok + b"".join(b"X-%d: y\r\n" % i for i in range(101)) + b"\r\n", bad
    yield "200 kB of head", ok + b"X: " + b"y" * 200000 + b"\r\n\r\n", bad
    yield "1000 interim", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000 + ok + b"Content-Length: 0\r\n\r\n", bad
    yield "nothing", b"", "upstream_closed"
    yield "half a head", ok + b"Content-Len", {bad, "upstream_closed"}


def test_answers_of_hostile_origins_are_told(battery):
    origin = battery.world.origin
    inputs = []
    for i, (label, data, code) in enumerate(scripts()):
        async def script(request, writer, data=data):
            writer.write(data)
            await writer.drain()
            return False
        origin.scripts[f"/hostile/{i}"] = script
        inputs.append((label, b"GET @@/hostile/%d HTTP/1.1\r\nHost: ok.test\r\n\r\n" % i, code))
    battery.run((label, way, code, lambda d=data, way=way: battery.ways.http(way, d)) for label, data, code in inputs for way in SOME)


def test_bytes_behind_an_answer_are_nobodys(battery):
    """The mirror of smuggling: they must not become the next answer, of whomever."""
    async def script(request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Origin: yes\r\n\r\nhiHTTP/1.1 200 OK\r\nContent-Length: 6\r\n"
                     b"X-Origin: POISON\r\n\r\nPOISON")
        await writer.drain()
        return True
    battery.world.origin.scripts["/extra"] = script

    async def twice(way):
        got = await exchange(battery, way, b"GET @@/extra HTTP/1.1\r\nHost: ok.test\r\n\r\n" * 3
                             + b"GET @@/x HTTP/1.1\r\nHost: ok.test\r\n\r\n", [b"GET"] * 4)
        assert not any(g and b"POISON" in g[1] + (g[2] or b"") for g in got), got
    each_way(battery, "poison", SOME * 4, twice)


def test_broken_bodies_end_the_connection(battery):
    """A body that breaks off must not look whole."""
    ok = b"HTTP/1.1 200 OK\r\nX-Origin: yes\r\n"
    bodies = {"short": ok + b"Content-Length: 100\r\n\r\nhello", "cut chunk": ok + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
              "bad chunk": ok + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n", "bad size": ok + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
              "no last": ok + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"}
    items = []
    for i, (label, data) in enumerate(bodies.items()):
        async def script(request, writer, data=data):
            writer.write(data)
            await writer.drain()
            return False
        battery.world.origin.scripts[f"/broken/{i}"] = script

        async def ask(way, i=i):
            got = await exchange(battery, way, b"GET @@/broken/%d HTTP/1.1\r\nHost: ok.test\r\n\r\n" % i, [b"GET"])
            assert got[0] is None or got[0][2] is None or heard(got[0]).code in ("upstream_bad_response", "upstream_closed"), got
            return OK
        items += [(label, way, "ok", lambda way=way, ask=ask: ask(way)) for way in SOME]
    battery.run(items)


def test_what_upstream_says_about_elsewhere_is_only_passed(battery):
    """H19, cases D13, D14: nothing is followed, Set-Cookie stays two, Alt-Svc goes."""
    async def script(request, writer):
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: http://evil.test/\r\nSet-Cookie: a=1\r\nAlt-Svc: h3=\":443\"\r\nRefresh: 0;url=http://evil.test/\r\n"
                     b"Set-Cookie: b=2\r\nLink: <https://evil.test>; rel=preconnect\r\nClear-Site-Data: \"*\"\r\nContent-Length: 0\r\nX-Origin: yes\r\n\r\n")
        await writer.drain()
        return True
    battery.world.origin.scripts["/elsewhere"] = script

    async def ask(way):
        status, head, _ = (await exchange(battery, way, b"GET @@/elsewhere HTTP/1.1\r\nHost: ok.test\r\n\r\n", [b"GET"]))[0]
        assert status == 302 and b"Location: http://evil.test/" in head and b"alt-svc" not in head.lower()
        assert head.index(b"Set-Cookie: a=1") < head.index(b"Set-Cookie: b=2") and b"Clear-Site-Data" in head
    each_way(battery, "elsewhere", WAYS, ask)


def test_websocket_only_after_a_right_101(battery):
    """H17, cases F04: other answers stay HTTP; bytes behind the 101 pass."""
    good = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
    accept = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    answers = {"right": (good + accept + b"\r\n\r\nFRAME-AT-ONCE", True), "no accept": (good.rsplit(b"\r\n", 1)[0] + b"\r\n\r\n", False),
               "wrong accept": (good + b"AAAAAAAAAAAAAAAAAAAAAAAAAAA=" + b"\r\n\r\n", False),
               "no upgrade": (b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n", False),
               "200": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Origin: yes\r\n\r\n", None),
               "426": (b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\nX-Origin: yes\r\n\r\n", None)}
    items = []
    for i, (label, (data, is_good)) in enumerate(answers.items()):
        async def script(request, writer, data=data):
            writer.write(data)
            await writer.drain()
            return True
        battery.world.origin.scripts[f"/ws/{i}"] = script

        async def ask(way, i=i, is_good=is_good):
            link, _ = await battery.ways.open_http(way)
            await link.send(battery.ways.form(way, b"GET @@/ws/%d HTTP/1.1\r\nHost: ok.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" % i))
            answer = await link.response()
            if is_good:
                assert answer[0] == 101 and await link.take(13) == b"FRAME-AT-ONCE"
            elif is_good is False:
                assert heard(answer).code == "upstream_bad_response", answer
            else:
                assert answer[0] in (200, 426)
            link.close()
            return OK
        items += [(label, way, "ok", lambda way=way, ask=ask: ask(way)) for way in SOME]
    battery.run(items)


def test_a_refusal_arrives_although_an_upload_runs(battery):
    """cases D16: 200 kB on the way to a host that isn't allowed."""
    async def ask(way):
        link, _ = await battery.ways.open_http(way)
        host = b"evil.test"
        target = b"http://evil.test" if way[1] == "absolute" else b""
        await link.send(b"POST " + target + b"/ HTTP/1.1\r\nHost: " + host + b"\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200000)
        got = heard(await link.response(b"POST"))
        link.close()
        return got
    battery.run((f"upload {i}", way, "denied_by_policy" if way[1] != "connect" else "name_mismatch", lambda way=way: ask(way))
                for i in range(4) for way in WAYS)


def test_expect_gets_its_100_only_after_the_verdict(battery):
    """cases D17."""
    async def ask(way, host, code):
        link, _ = await battery.ways.open_http(way)
        target = b"http://" + host if way[1] == "absolute" else b""
        await link.send(b"POST " + target + b"/expect HTTP/1.1\r\nHost: " + host + b"\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        if code == "ok":
            await asyncio.sleep(0.02)
            await link.send(b"hello")
        got = heard(await link.response(b"POST"))
        link.close()
        return got
    battery.run((f"expect {host}", way, code, lambda way=way, host=host, code=code: ask(way, host, code))
                for host, code in ((b"ok.test", "ok"), (b"evil.test", "denied_by_policy")) for way in WAYS if way[1] != "connect")


def test_the_pages_inside_are_ours_alone(battery):
    """Own pages pass by name; nothing else of ours can be reached."""
    async def page(way, path):
        data = b"GET @@" + path + b" HTTP/1.1\r\nHost: sandgate.internal\r\n\r\n"
        link, refused = await battery.ways.open_http(way, b"sandgate.internal")
        if refused:
            return refused
        await link.send(battery.ways.form(way, data, b"sandgate.internal"))
        answer = await link.response()
        link.close()
        return OK if answer and answer[0] == 200 and b"X-Origin" not in answer[1] else heard(answer)
    ways = [("box", "absolute"), ("cell", "absolute"), ("box", "connect"), ("box", "transparent"), ("box", "socks")]
    battery.run((path, way, "ok" if path in (b"/", b"/me", b"/policy", b"/last") else {"not_found", "bad_path"},
                 lambda way=way, path=path: page(way, path))
                for path in (b"/", b"/me", b"/policy", b"/last", b"/v1/status", b"/v1/reload", b"/admin", b"/../etc/passwd", b"/last/..",
                             b"/policy/x", b"/LAST", b"/%6dE") for way in ways)
