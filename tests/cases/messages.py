"""HTTP/1 requests that two readers could read differently.  @@ stands for http://ok.test
where a request has the absolute form; each input is (label, bytes, codes that are right).

Each carries a body or a line that would be a second request if the first were read
otherwise: /smuggled must never reach the origin as a request line.
"""
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: ok.test\r\n\r\n"
FRAMING, HEADER, REQUEST = "bad_framing", "bad_header", "bad_request"


def post(*fields, body=b"hello", end=b"\r\n", line=b"POST @@/f HTTP/1.1", host=b"Host: ok.test"):
    fields = [f if isinstance(f, bytes) else f.encode("latin-1") for f in fields]
    return line + end + host + end + b"".join(f + end for f in fields) + end + body


def lengths():
    """H01, H02, D04: how long is the body?"""
    te, cl = "Transfer-Encoding: chunked", "Content-Length: 5"
    chunk = b"0\r\n\r\n" + SMUGGLED
    for a, b in ((cl, te), (te, cl), ("Content-Length: 0", te), (te, "content-length:5"), (cl, "transfer-encoding:chunked")):
        yield f"{a}+{b}", post(a, b, body=chunk), FRAMING
    for value in ("5, 5", "5,6", "", "+5", "-5", "-0", "0x5", "0o5", "5 0", "5_0", "5abc", "1e2", "5.0", "5;", "\"5\"",
                  "18446744073709551616", "9223372036854775808", "99999999999999999999999999", "5,", ",5", "0b101", "five",
                  "5 5", "(5)", "5,5,5", "٥", "\xb2", "5\xa0", "NaN", "5 ;x", "0x", "-1", "--5", "5-"):
        yield f"length {value!r}", post("Content-Length: " + value.encode("utf-8").decode("latin-1")
                                        if not value.isascii() else "Content-Length: " + value), FRAMING
    for value in ("5\x0b", "5\x0c", "\x0b5", "5\x00", "5\x1f", "5\x7f"):
        yield f"length {value!r}", post("Content-Length: " + value), {FRAMING, HEADER, REQUEST}
    for other in ("5", "6", "0", "05"):
        yield f"two lengths 5 {other}", post(cl, "Content-Length: " + other), FRAMING
    yield "two lengths apart", post(cl, *["X-%d: y" % i for i in range(60)], "content-LENGTH: 0"), FRAMING
    yield "three lengths", post(cl, cl, cl), FRAMING
    for zeros in ("05", "005", "0000000005"):
        yield f"zeros {zeros}", post("Content-Length: " + zeros), {FRAMING}


def codings():
    """H01, H04: what Transfer-Encoding is there?"""
    chunk = b"5\r\nhello\r\n0\r\n\r\n"
    for value in ("xchunked", "chunkedx", "chunked, identity", "identity, chunked", "gzip, chunked", "chunked, chunked",
                  "identity", "gzip", "", "chunked;q=1", "chunked; x=y", "\"chunked\"", "'chunked'", "chunk", "x", "chunked,",
                  ",chunked", "chunked ,", "deflate", "compress, chunked", "chunked\x2c", "CHUNKED, gzip", "cow", "chun ked",
                  "chunked\xa0", "\xa0chunked", "ch\xfcnked", "null", "chunked chunked", "trailers", "chunked=1", "*", "0"):
        yield f"coding {value!r}", post(f"Transfer-Encoding: {value}", body=chunk + SMUGGLED), FRAMING
    for value in ("chunked\x0b", "\x0bchunked", "chunked\x00", "\x00chunked", "chunked\x0c", "\x1fchunked", "chu\x08nked",
                  "chunked\x7f"):
        yield f"coding {value!r}", post(f"Transfer-Encoding: {value}", body=chunk), {FRAMING, HEADER, REQUEST}
    te = "Transfer-Encoding: chunked"
    yield "two codings", post(te, te, body=chunk), FRAMING
    yield "two codings, second identity", post(te, "Transfer-Encoding: identity", body=chunk), FRAMING
    yield "first identity", post("Transfer-Encoding: identity", te, body=chunk), FRAMING
    yield "coding in 1.0", post(te, body=chunk, line=b"POST @@/f HTTP/1.0"), FRAMING
    yield "coding and length in 1.0", post(te, "Content-Length: 5", body=chunk, line=b"POST @@/f HTTP/1.0"), FRAMING


def names():
    """H04: field names that some readers fold, trim or cut."""
    chunk = b"5\r\nhello\r\n0\r\n\r\n" + SMUGGLED
    bad = {HEADER, REQUEST}
    for name in ("Transfer-Encoding ", "Transfer-Encoding\t", " Transfer-Encoding", "\tTransfer-Encoding", "Transfer Encoding",
                 "Transfer-\r\nEncoding", "Transfer-\r\n Encoding", "Transfer-Encoding\x00", "\x00Transfer-Encoding",
                 "Transfer-Encoding\x85", "Transfer-Encoding\x0b", "Transfer-Encoding\xa0", "\xffTransfer-Encoding",
                 "Transfer-Encoding\r", "Transfer-Encoding\n", "Content-Length ", "Content\x00-Length", "Content-Length\x00",
                 "Content-Length\xa0", "Content Length", "\x0bContent-Length", "", " ", "\t", "Transfer\x7f-Encoding", "é",
                 "Host ", " Host", "Host\x00", "X\x1b"):
        yield f"name {name!r}", post(name + ": chunked", body=chunk), bad
    for c in "()/[]{}@,;<>=?\"\\":
        yield f"name with {c}", post(f"Transfer{c}Encoding: chunked", body=chunk), bad
        yield f"X name with {c}", post(f"X{c}Y: z"), bad
    for name in ("Transfer_Encoding", "TRANSFER_ENCODING", "Transfer.Encoding", "transfer.encoding", "Content_Length",
                 "CONTENT_LENGTH", "Content.Length", "content_length"):
        yield f"look-alike {name}", post(name + ": 5"), bad | {FRAMING}
    yield "no colon", post("Transfer-Encoding chunked", body=chunk), bad
    yield "no colon at all", post("X", body=b""), bad
    yield "semicolon", post("Transfer-Encoding; chunked", body=chunk), bad
    yield "only a colon", post(":", body=b""), bad
    yield "colon first", post(": x", body=b""), bad
    yield "fold", post("X: a", " b"), bad
    yield "fold by tab", post("X: a", "\tTransfer-Encoding: chunked", body=chunk), bad
    yield "fold of the framing", post("Transfer-Encoding:", " chunked", body=chunk), bad | {FRAMING}
    yield "fold of the length", post("Content-Length:", " 5"), bad | {FRAMING}
    yield "fold first", post(host=b" Host: ok.test"), bad
    for c in "\x00\x01\x08\x0b\x0c\x0e\x1b\x1f\x7f":
        yield f"value with {c!r}", post(f"X: a{c}b"), bad


def ends():
    """H05: where a line and a head end."""
    bad = {HEADER, REQUEST, FRAMING, "bad_target", "bad_version", "bad_host"}
    full = post("Content-Length: 5", "X: y")
    yield "LF everywhere", full.replace(b"\r\n", b"\n"), bad
    for i in range(full.count(b"\r\n")):
        parts = full.split(b"\r\n")
        for label, end in (("LF", b"\n"), ("CR", b"\r"), ("CR CR LF", b"\r\r\n"), ("LF CR", b"\n\r"), ("CR X", b"\rX"),
                           ("CR LF CR X", b"\r\n\rX"), ("NEL", b"\xc2\x85"), ("VT", b"\x0b"), ("FF", b"\x0c"), ("LF LF", b"\n\n")):
            data = b"\r\n".join(parts[:i + 1]) + end + b"\r\n".join(parts[i + 1:])
            yield f"{label} at {i}", data, bad | {"closed", "timeout", "ok_or_timeout"}
    yield "CR in value", post("X: a\rb"), bad
    yield "LF in value", post("X: a\nTransfer-Encoding: chunked"), bad
    yield "CR in target", b"GET @@/\rx HTTP/1.1\r\nHost: ok.test\r\n\r\n", bad
    yield "LF in target", b"GET @@/\nHost: evil.test\n\n HTTP/1.1\r\nHost: ok.test\r\n\r\n", bad
    yield "two empty lines first", b"\r\n\r\nGET @@/ HTTP/1.1\r\nHost: ok.test\r\n\r\n", bad
    yield "LF first", b"\nGET @@/ HTTP/1.1\r\nHost: ok.test\r\n\r\n", bad | {"denied_protocol", "closed"}


def versions():
    """H10."""
    bad = {"bad_version", REQUEST}
    for v in ("HTTP/0.9", "HTTP/1.2", "HTTP/1.9", "HTTP/2.0", "HTTP/3.0", "HTTP/2", "HTTP/01.1", "HTTP/1.01", "http/1.1",
              "HTTP/1.1 ", "HTTP/4294967295.255", "HTTP/4294967297.1", "HTTP/1", "HTTP/1.", "HTTP/.1", "HTTP/-1.1", "HTTP/+1.1",
              "HTTP/1.1x", "HTTP 1.1", "HTP/1.1", "HTTPS/1.1", "HTTP/1,1", "HTTP/1.1\t", "HTTP/11", "HTTP/1.10", "HTTP//1.1",
              "HTTP/0x1.1", "HTTP/\xb9.1", "ICY/1.1", "HtTP/1.1", "", "RTSP/1.0", "SIP/2.0", "HTTP/1.1\x00"):
        yield f"version {v!r}", f"GET @@/ {v}\r\nHost: ok.test\r\n\r\n".encode("latin-1"), bad
    yield "0.9", b"GET @@/\r\n", bad
    yield "0.9 with more", b"GET @@/\r\nHost: ok.test\r\n\r\n", bad


def lines():
    """H11: the request line."""
    bad = {REQUEST, "bad_target", "bad_path", "bad_version", "denied_protocol", "bad_host", "closed"}
    for target in ("@@/a b", "@@/a\tb", "@@/\x00", "@@/\x7f", "@@/\xc3\xa9", "@@/\x01", "@@/a\x0bb", "@@/#f", "@@/a#", "@@/\\", "@@/a\\..\\b",
                   "@@/%00", "@@/a%00b", "@@/%0d%0aX:%20y", "@@/%0a", "@@/%7f", "@@/%1f", "@@/%c0%af", "@@/%c0%ae%c0%ae/",
                   "@@/%e0%80%af", "@@/%f0%80%80%af", "@@/%", "@@/%2", "@@/%zz", "@@/%u002f", "@@/%%32f", "@@/a%5cb", "@@/%5c",
                   "@@/%61bc", "@@/%41", "@@/%30"):
        yield f"target {target!r}", f"GET {target} HTTP/1.1\r\nHost: ok.test\r\n\r\n".encode("latin-1"), bad
    for line in ("GET  @@/ HTTP/1.1", "GET @@/  HTTP/1.1", "GET\t@@/ HTTP/1.1", "GET @@/\tHTTP/1.1", " GET @@/ HTTP/1.1",
                 "GET@@/ HTTP/1.1", "GET HTTP/1.1", "GET", "GET ", "@@/ HTTP/1.1", "G\x00T @@/ HTTP/1.1", "GE(T @@/ HTTP/1.1",
                 "GET, @@/ HTTP/1.1", "G\xc9T @@/ HTTP/1.1", "GET @@/ HTTP/1.1 HTTP/1.1", "\"GET\" @@/ HTTP/1.1",
                 "GET @@/ @@/ HTTP/1.1", "GET\x0b@@/ HTTP/1.1", "GET:@@/ HTTP/1.1", "[GET] @@/ HTTP/1.1"):
        yield f"line {line!r}", f"{line}\r\nHost: ok.test\r\n\r\n".encode("latin-1"), bad | {"method_refused"}


def hosts():
    """D07, D08, A17: whom does the request go to?"""
    bad = {HEADER, "bad_host", "bad_port", "name_mismatch", "bad_target", REQUEST}
    for extra in ("Host: ok.test", "Host: evil.test", "host: evil.test", "HOST:evil.test", "Host:", "Host: ok.test:80"):
        yield f"two hosts {extra}", post(extra, body=b""), bad
        yield f"100 between {extra}", post(*["X-%d: y" % i for i in range(90)], extra, body=b""), bad
        yield f"first {extra}", post("Host: ok.test", host=extra.encode(), body=b""), bad
    for value in ("ok.test, evil.test", "ok.test evil.test", "ok.test:443:80", "user@ok.test", "evil.test@ok.test",
                  "ok.test@evil.test", "ok.test/evil", "ok.test/", "", " ", "http://ok.test", "http://evil.test/", "ok.test:80:",
                  "ok.test#evil.test", "ok.test?x", "ok.test\\evil.test", "//ok.test", "ok.test;evil.test", "<ok.test>",
                  "ok.test\tevil.test", "ok.test,", "[ok.test]", "ok.test:80@evil.test", ":80", "ok.test:", "ok.test: 80",
                  "evil.test:80#ok.test", "ok.test%20", "ok.test:08", "\"ok.test\"", "ok.test\x0b", "ok_.test.evil.test:", "*",
                  "ok.test&evil.test", "ok.test|evil.test", "{ok.test}", "$host", "ok.test:80,evil.test:80"):
        yield f"host {value!r}", post(host=b"Host: " + value.encode("latin-1"), body=b""), bad
    yield "no host", b"GET @@/ HTTP/1.1\r\nX: y\r\n\r\n", bad
    yield "empty host field", b"GET @@/ HTTP/1.1\r\nHost:\r\n\r\n", bad


def upgrades():
    """H16, H17: what may become of a connection."""
    ws = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    get = {"line": b"GET @@/ws HTTP/1.1", "body": b""}
    bad = {"bad_upgrade", HEADER, FRAMING, "method_refused"}
    yield "no key", post(*ws, **get), bad
    for k in ("", "x", "AAAA", "dGhlIHNhbXBsZSBub25jZQ", "dGhlIHNhbXBsZSBub25jZQ===", "dGhlIHNhbXBsZSBub25jZQ==, x",
              "dGhlIHNhbXBsZSBub25jZTE=", "*" * 24, "dGhlIHNhbXBsZSBub25jZR==" * 2):
        yield f"key {k!r}", post(*ws, "Sec-WebSocket-Key: " + k, **get), bad
    for v in ("8", "777", "", "13, 8", "013", "12", "13x", "-13"):
        yield f"version {v!r}", post(*ws[:2], key, "Sec-WebSocket-Version: " + v, **get), bad
    yield "no version", post(*ws[:2], key, **get), bad
    yield "two keys", post(*ws, key, key, **get), bad
    yield "two versions", post(*ws, "Sec-WebSocket-Version: 8", key, **get), bad
    yield "POST", post(*ws, key, body=b""), bad
    yield "with a body", post(*ws, key, "Content-Length: 5", line=b"GET @@/ws HTTP/1.1"), bad
    yield "1.0", post(*ws, key, line=b"GET @@/ws HTTP/1.0", body=b""), bad


def sizes():
    """H13, D19."""
    big = {"head_too_large"}
    yield "101 fields", post(*["X-%d: y" % i for i in range(100)], body=b""), big
    yield "10000 fields", post(*["X-%d: y" % i for i in range(10000)], body=b""), big
    yield "10000 empty", post(*["a:"] * 10000, body=b""), big
    yield "one of 100 kB", post("X: " + "y" * 100000, body=b""), big
    yield "a name of 100 kB", post("X" * 100000 + ": y", body=b""), big
    yield "17 kB line", post("X: " + "y" * 17000, body=b""), big
    yield "66 kB in all", post(*["X-%d: %s" % (i, "y" * 7000) for i in range(10)], body=b""), big
    yield "1 MB in all", post(*["X-%d: %s" % (i, "y" * 12000) for i in range(90)], body=b""), big
    yield "target of 17 kB", b"GET @@/" + b"x" * 17000 + b" HTTP/1.1\r\nHost: ok.test\r\n\r\n", {"uri_too_long"}
    yield "target of 100 kB", b"GET @@/" + b"x" * 100000 + b" HTTP/1.1\r\nHost: ok.test\r\n\r\n", {"uri_too_long"}
    yield "method of 17 kB", b"G" * 17000 + b" @@/ HTTP/1.1\r\nHost: ok.test\r\n\r\n", {"uri_too_long", REQUEST, "denied_protocol", "closed"}
    yield "no end of line", b"GET @@/" + b"x" * 200000, {"uri_too_long"}


def expectations():
    for value in ("200-ok", "100-continue, x", "100", "", "continue", "100-continue;x", "x=100-continue"):
        yield f"expect {value!r}", post("Content-Length: 5", "Expect: " + value), {"expect_failed", HEADER}
    yield "two expects", post("Content-Length: 5", "Expect: 100-continue", "Expect: 100-continue"), {"expect_failed"}


def chunks():
    """Malformed chunked bodies: (label, body)."""
    for size in ("", "-5", "+5", "0x5", "5 ", " 5", "5\t", "5_0", "g", "5h", "fffffffffffffffff", "10000000000000000",
                 "00000000000000000000005", "5.0", "5,5", "\x005", "5\x00", "５", "5\x0b", "'5'"):
        yield f"size {size!r}", size.encode("utf-8") + b"\r\nhello\r\n0\r\n\r\n"
    for ext in (";\n", ";a\rb", ";a=\x00", ";" + "x" * 20000, ";a=\"\n\"", " ;a=\x0b"):
        yield f"ext {ext[:8]!r}", b"5" + ext.encode() + b"\r\nhello\r\n0\r\n\r\n"
    yield "LF behind the size", b"5\nhello\r\n0\r\n\r\n"
    yield "CR behind the size", b"5\rhello\r\n0\r\n\r\n"
    yield "LF behind the data", b"5\r\nhello\n0\r\n\r\n"
    yield "nothing behind the data", b"5\r\nhello0\r\n\r\n"
    yield "too much data", b"5\r\nhelloX\r\n0\r\n\r\n"
    yield "two CR LF", b"5\r\nhello\r\n\r\n0\r\n\r\n"
    yield "CR CR LF", b"5\r\r\nhello\r\n0\r\n\r\n"
    yield "junk behind the size", b"5junk\r\nhello\r\n0\r\n\r\n"
    yield "last chunk with LF", b"5\r\nhello\r\n0\n\n"
    yield "trailer without colon", b"0\r\nX\r\n\r\n"
    yield "trailer folded", b"0\r\nX: a\r\n b\r\n\r\n"
    yield "trailer with LF", b"0\r\nX: a\nY: b\r\n\r\n"
    yield "trailer with NUL", b"0\r\nX: \x00\r\n\r\n"
    yield "trailer with space", b"0\r\nX : a\r\n\r\n"
    yield "trailers of 100 kB", b"0\r\n" + b"X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n" * 2000 + b"\r\n"


def targets():
    """N16, N25: absolute forms that could name another place; only with the absolute form."""
    for t in ("http://ok.test#@evil.test", "http://ok.test?@evil.test", "http://evil.test\\@ok.test", "http://ok.test@evil.test",
              "http://evil.test@ok.test/", "http://user:pw@ok.test/", "http:/ok.test/", "http:\\\\ok.test/", "//ok.test/",
              "HTTP://ok.test/", "Http://ok.test/", "http:ok.test", "http:///ok.test/", "http://", "http:///", "http://?x",
              "http://#", "http://@ok.test/", "http://ok.test:80@evil.test/", "http://ok.test:@evil.test/", "http://:80/",
              "http://ok.test\\.evil.test/", "http://ok.test%2f@evil.test/", "http://[ok.test]/", "https://ok.test/",
              "ftp://ok.test/", "gopher://ok.test/", "file:///etc/passwd", "urn:x:y", "cache_object://localhost/info",
              "javascript:alert(1)", "dict://ok.test:2628/", "ws://ok.test/", "wss://ok.test/", "unix:///run/x.sock",
              "data:text/plain,x", "ldap://ok.test/", "tftp://ok.test/", "jar:http://ok.test!/", "http+unix://x/",
              "blob:http://ok.test/", "view-source:http://ok.test/", "http://ok.test;evil.test/", "http://ok.test,evil.test/",
              "http://ok.test&@evil.test/", "http://ok.test%40evil.test/", "http://ok.test%23@evil.test/", "*", "ok.test:80",
              "ok.test", "/", "?x", "http://ok.test/ http://evil.test/", "htt p://ok.test/", "http//ok.test/", "://ok.test/",
              "http://ok.test\t/", "http://ok.test\x00/", "http://ok.test\x0d/", "http://\x00ok.test/", "http:// ok.test/"):
        yield t
