"""A sandbox that tries to get at a connector's credential, or to have it used for what the connector does not allow:
by spellings, by fields that say the same in another way, by messages with two readings, by what a host may do to an
answer.  What goes to the company system is looked at there; what comes back is searched."""
import ctypes
import gzip
import io
import random
import re
import secrets
import socket
import ssl
import struct
import subprocess
import time

import h2.config
import h2.connection
import hpack
import pytest

from certificates import let_read
from company import ADDRESS, Answer, Company, System
from conftest import Gate, wait_for

HOST, KEPT = "vault.example.test", "x-key"
SHAPE = "key_" + 24 * "*"


class Shop(System):
    """Says how it was asked; `raw`: bytes to answer with instead, head and all."""

    raw = None

    def answer(self, r):
        r.read()
        if r.version == "1.1" and self.raw is not None:
            return lambda sock, file: (sock.sendall(self.raw), time.sleep(0.02))
        fields = [("grpc-encoding", "gzip")] if "compressed" in r.path else []
        return Answer(200, b"done\n", fields)


def is_whole(text):
    head, end, body = text.partition(b"\r\n\r\n")
    if head.startswith(b"HTTP/1.1 1") and end:
        return is_whole(body)
    if b"chunked" in head:
        return body.startswith(b"0\r\n") or b"\r\n0\r\n" in body and body.endswith(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    return bool(end) and (head[9:12] in (b"204", b"304") or length is not None and len(body) >= int(length[1]))


class Attacked:
    auth = {"kind": "header", "name": "X-Key", "secret": "shop/key", "placeholder": SHAPE}

    def __init__(self, folder, protocol):
        let_read(folder)
        self.secret = "key_" + secrets.token_hex(12)
        self.firm = Company(folder / "ca", protocols=[protocol])
        self.shop = self.firm.add(HOST, Shop())
        self.gate = Gate()
        self.gate.write(self.config())
        self.gate.start()
        done = self.gate.cli("vault", "put", "shop/key", "--connector", "shop", input=self.secret)
        assert done.returncode == 0, done.stderr
        self.ca = folder / "gateway.pem"
        self.ca.write_text(self.gate.cli("ca", "export").stdout)
        self.authority = f"{HOST}:{self.firm.port}"

    def config(self):
        return {
            "upstream_tls": {"ca_file": str(self.firm.ca.file)},
            "resolver": {"servers": ["127.0.0.1"], "timeout": "200ms", "tries": 1, "hosts": {HOST: [ADDRESS]}},
            "sandboxes": [{"id": i, "source": a, "user": "alice", "policy": "coding", "trusts_ca": True}
                          for i, a in (("demo", "127.0.0.1"), ("other", "127.0.0.2"))],
            "connectors": [{
                "name": "shop", "hosts": [HOST], "ports": [self.firm.port], "addresses": ["127.0.0.0/8"],
                "auth": self.auth,
                "headers": {"request": {"add": {"X-Tenant": "acme"}, "strip": ["X-Forwarded-User"]}},
                "allow": [{"methods": ["GET", "POST"], "paths": ["/open/**"]}],
                "deny": [{"paths": ["/open/admin/**"]}]}],
            "policies": {"coding": {"allow": [], "connectors": ["shop"]}},
        }

    def tls(self, *alpn, source="127.0.0.1"):
        sock = socket.create_connection(self.gate.proxy, timeout=10, source_address=(source, 0))
        sock.sendall(f"CONNECT {self.authority} HTTP/1.1\r\nHost: {self.authority}\r\n\r\n".encode())
        assert b" 200 " in sock.recv(4096)
        context = ssl.create_default_context(cafile=self.ca)
        context.set_alpn_protocols(alpn or ("http/1.1",))
        return context.wrap_socket(sock, server_hostname=HOST)

    def h1(self, data):
        """One answer, and what comes with it."""
        with self.tls() as tls:
            tls.sendall(data)
            tls.settimeout(3)
            text = b""
            try:
                while not is_whole(text) and (piece := tls.recv(65536)):
                    text += piece
            except (OSError, ssl.SSLError):
                pass
            return text

    def request(self, line, *fields, body=b""):
        """Seen by the system: the one request that arrived, or None; and the answer."""
        before = len(self.shop.seen)
        head = "\r\n".join([line + " HTTP/1.1", f"Host: {self.authority}", *fields, "", ""])
        text = self.h1(head.encode("latin-1") + body)
        assert len(self.shop.seen) - before <= 1
        return (self.shop.seen[-1] if len(self.shop.seen) > before else None), text

    def close(self):
        self.gate.close()
        self.firm.close()


@pytest.fixture(scope="module", params=["h2", "http/1.1"])
def world(request, tmp_path_factory):
    made = Attacked(tmp_path_factory.mktemp("attack"), request.param)
    yield made
    made.close()


def is_right(world, r):
    """One credential, ours, in its place; and what the operator says about the rest."""
    assert r.all(KEPT) == [world.secret]
    assert r.all("x-tenant") == ["acme"]
    names = [n.lower().replace("_", "-").replace(".", "-") for n, _ in r.fields + r.trailers]
    assert names.count("x-key") == 1 and names.count("x-tenant") == 1 and "x-forwarded-user" not in names, names
    assert not {"authorization", "proxy-authorization", "x-api-key"} & set(names)


@pytest.mark.parametrize("target", [
    "/open/admin/x", "/open//admin/x", "//open/admin/x", "/open/ADMIN/x", "/open/admin;v=1/x", "/open/;/admin/x",
    "/open/admin%2fx", "/open%2fadmin/x", "/open/%2e/admin/x", "/open/x/../admin", "/open/x/%2e%2e/admin",
    "/open/..;/admin", "/open/x%2f..%2fadmin", "/open/\\admin", "/open/%5cadmin", "/open/%c0%afadmin", "/open/%61dmin/x",
    "/open/admin%00", "/open/a#/../admin", "/other", "/open", "http://evil.example.test/open/x", "*", "open/x", "//evil.example.test/open/x",
    "/open/admin/x?_=1", "/open/x?_method=DELETE", "https://vault.example.test/open/x"])
def test_no_spelling_of_a_path_gets_it_used(world, target):
    r, text = world.request("GET " + target)
    if target == "/open":  # `**` is also no segment
        is_right(world, r)
    else:
        assert r is None and text[9:12] in (b"400", b"403", b"421"), text


@pytest.mark.parametrize("method", ["TRACE", "trace", "Track", "DELETE", "PUT", "get", "CONNECT", "PRI", "GET\t", "PURGE"])
def test_no_other_method_gets_it_used(world, method):
    r, text = world.request(f"{method} /open/x")
    assert r is None and text[9:10] == b"4" or text[9:12] == b"501", text


@pytest.mark.parametrize("name", ["X-HTTP-Method-Override", "x_http_method_override", "X-HTTP-Method", "X-Method-Override"])
def test_a_field_that_asks_for_another_method_is_judged(world, name):
    r, text = world.request("POST /open/x", f"{name}: DELETE", "Content-Length: 0")
    assert r is None and b"denied_method" in text
    r, _ = world.request("POST /open/x", f"{name}: GET", "Content-Length: 0")
    is_right(world, r)


@pytest.mark.parametrize("field", [
    "X-Key: mine", "x-key: mine", "X_Key: mine", "X.Key: mine", "x_KEY: mine", "X-Tenant: evil", "X_Tenant: evil", "x.tenant: evil",
    "X-Forwarded-User: root", "X_Forwarded_User: root", "Authorization: Basic eDp5", "authorization_: x", "AUTHORIZATION: x",
    "X_Api_Key: mine", "Proxy_Authorization: x", "Proxy-Authorization: x", "Connection: X-Key, X-Tenant, Authorization",
    "Connection: close, x-key\r\nX-Key: a\r\nX-Key: b", "Cookie: X-Key=mine"])
def test_what_the_client_says_about_itself_does_not_arrive(world, field):
    r, text = world.request("GET /open/x", field)
    if field == "authorization_: x":  # another name, and nobody's
        return
    assert r is not None, text
    is_right(world, r)


@pytest.mark.parametrize("trailer", ["X-Key: mine", "x_key: mine", "X-Tenant: evil", "x_tenant: evil", "X-Forwarded-User: root",
                                     "Authorization: x", "X-Api-Key: x", "Content-Length: 3", "Host: evil.example.test"])
def test_nor_does_it_in_a_trailer(world, trailer):
    r, text = world.request("POST /open/x", "Transfer-Encoding: chunked", "TE: trailers",
                            body=b"1\r\na\r\n0\r\n" + trailer.encode() + b"\r\nX-Sum: 1\r\n\r\n")
    if r is None:
        assert b" 400 " in text
    else:
        is_right(world, r)
        assert [n.lower() for n, _ in r.trailers] in (["x-sum"], [])


def test_messages_that_a_host_compresses_are_refused(world):
    """As it was asked by `grpc-encoding` of the request: what is inside could be an echo."""
    _, text = world.request("POST /open/compressed", "Content-Type: application/grpc", "grpc-encoding: gzip", "Content-Length: 0")
    assert b"upstream_bad_response" in text, text


# Messages with two readings

TWICE = b"GET /open/second HTTP/1.1\r\nHost: " + HOST.encode() + b"\r\n\r\n"


@pytest.mark.parametrize("fields, body", [
    (["Content-Length: 5", "Transfer-Encoding: chunked"], b"0\r\n\r\n"), (["Content-Length: 5", "Content-Length: 6"], b"hello"),
    (["Content-Length: 5, 5"], b"hello"), (["Content-Length: +5"], b"hello"), (["Content-Length: 0x5"], b"hello"), (["Content_Length: 5"], b"hello"),
    (["Transfer-Encoding: xchunked"], b"0\r\n\r\n"), (["Transfer-Encoding: chunked, identity"], b"0\r\n\r\n"), (["Transfer_Encoding: chunked"], b"0\r\n\r\n"),
    (["Transfer-Encoding : chunked"], b"0\r\n\r\n"), (["Transfer-Encoding:\x0bchunked"], b"0\r\n\r\n"), (["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], b"0\r\n\r\n"),
    (["X: a\r\n Content-Length: 5"], b"hello"), (["X: a\rContent-Length: 5"], b"hello"), (["X: a\nContent-Length: 5"], b"hello"), (["Host: evil.example.test"], b""),
    (["Transfer-Encoding: chunked"], b"1;a\nb\r\nx\r\n0\r\n\r\n"), (["Transfer-Encoding: chunked"], b"01\r\nx\r\n0\r\nContent-Length: 9\r\n\r\n"),
    (["Transfer-Encoding: chunked"], b"0x1\r\nx\r\n0\r\n\r\n"), (["Transfer-Encoding: chunked"], b"1\r\nxx\r\n0\r\n\r\n"), (["Transfer-Encoding: chunked"], b"-1\r\nx\r\n0\r\n\r\n"),
    (["Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__", "Connection: Upgrade, HTTP2-Settings"], b""), (["Expect: 200-ok"], b""), (["X\x00Y: 1"], b""), (["X Y: 1"], b""), ([": 1"], b"")])
def test_nothing_of_a_request_with_two_readings_is_used(world, fields, body):
    before = len(world.shop.seen)
    _, text = world.request("POST /open/first", *fields, body=body + TWICE.replace(b"second", b"second/../admin"))
    assert all(r.path == "/open/first" for r in world.shop.seen[before:])
    for r in world.shop.seen[before:]:
        assert not r.all("upgrade") and not r.all("http2-settings")
        is_right(world, r)
    assert len(world.shop.seen) == before or fields[0].startswith(("Upgrade", "Transfer-Encoding: chunked")), text


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


PSEUDO = [(b":method", b"POST"), (b":scheme", b"https"), (b":authority", None), (b":path", b"/open/x")]


def changed(**by):
    """The pseudo-fields with some replaced (bytes), doubled (a pair) or left out (None)."""
    out = []
    for name, value in PSEUDO:
        new = by.get(name[1:].decode(), value)
        out += [(name, v) for v in (new if isinstance(new, tuple) else (new,)) if v is not None or name == b":authority" and "authority" not in by]
    return out


HEADS = {
    "value-crlf": PSEUDO + [(b"a", b"b\r\nx-key: mine")], "value-lf": PSEUDO + [(b"a", b"b\nx: 1")], "value-nul": PSEUDO + [(b"a", b"b\0")],
    "value-cr": PSEUDO + [(b"a", b"b\rc")], "name-upper": PSEUDO + [(b"X-Key", b"mine")], "name-crlf": PSEUDO + [(b"a\r\nx-key: mine\r\nb", b"c")],
    "name-colon": PSEUDO + [(b"x-key:", b"mine")], "name-space": PSEUDO + [(b"x-key ", b"mine")], "name-empty": PSEUDO + [(b"", b"mine")],
    "connection": PSEUDO + [(b"connection", b"x-key")], "transfer-encoding": PSEUDO + [(b"transfer-encoding", b"chunked")], "upgrade": PSEUDO + [(b"upgrade", b"h2c")],
    "proxy-connection": PSEUDO + [(b"proxy-connection", b"keep-alive")], "te": PSEUDO + [(b"te", b"gzip")], "host-differs": PSEUDO + [(b"host", b"evil.example.test")],
    "two-paths": changed(path=(b"/open/x", b"/open/admin/x")), "two-methods": changed(method=(b"GET", b"DELETE")), "no-path": changed(path=None), "empty-path": changed(path=b""),
    "path-star": changed(path=b"*"), "path-absolute": changed(path=b"http://evil.example.test/open/x"), "path-bare": changed(path=b"open/x"),
    "path-space": changed(path=b"/open/x HTTP/1.1\r\nx-key: mine\r\n\r\n"), "path-blank": changed(path=b"/open/x y"), "path-fragment": changed(path=b"/open/x#/y"),
    "path-utf8": changed(path=b"/open/\xc3\xa4"), "path-dots": changed(path=b"/open/../open/admin/x"), "path-slashes": changed(path=b"/open//admin/x"),
    "method-space": changed(method=b"GET /open/admin/x HTTP/1.1\r\nx: y\r\n\r\nGET"), "method-other": changed(method=b"DELETE"), "method-lower": changed(method=b"post"),
    "scheme-http": changed(scheme=b"http"), "scheme-path": changed(scheme=b"https://evil.example.test/?"), "no-scheme": changed(scheme=None), "authority-user": changed(authority=b"a@vault.example.test"),
    "authority-other": changed(authority=b"evil.example.test"), "authority-two": changed(authority=(b"evil.example.test", b"vault.example.test")), "authority-none": changed(authority=()),
    "pseudo-late": PSEUDO + [(b"a", b"b"), (b":path", b"/open/admin/x")], "pseudo-unknown": PSEUDO + [(b":x-key", b"mine")], "status": PSEUDO + [(b":status", b"200")],
    "protocol": PSEUDO + [(b":protocol", b"websocket")], "connect-udp": changed(method=b"CONNECT") + [(b":protocol", b"connect-udp")], "connect": changed(method=b"CONNECT", path=None, scheme=None),
    "length-long": PSEUDO + [(b"content-length", b"50")], "length-short": PSEUDO + [(b"content-length", b"2")], "length-two": PSEUDO + [(b"content-length", b"5"), (b"content-length", b"6")],
    "length-junk": PSEUDO + [(b"content-length", b"5 ")], "length-fold": PSEUDO + [(b"content_length", b"5")], "override": PSEUDO + [(b"x-http-method-override", b"DELETE")],
    "cookie-crlf": PSEUDO + [(b"cookie", b"a=b\r\nx-key: mine"), (b"cookie", b"c=d")],
}
# Those that are read as one request, by everybody.
HARMLESS = {
    "own-key": PSEUDO + [(b"x-key", b"mine"), (b"x_key", b"mine"), (b"authorization", b"x"), (b"x_tenant", b"evil"), (b"x-forwarded_user", b"root")],
    "crumbs": PSEUDO + [(b"cookie", b"a=b"), (b"cookie", b"x-key=mine")], "trailers": PSEUDO + [(b"te", b"trailers")],
}


def ask_h2(world, head, trailers=()):
    """(status or None, the requests that arrived)"""
    before = len(world.shop.seen)
    coder = hpack.Encoder()
    fields = [(n, world.authority.encode() if n == b":authority" and v is None else v) for n, v in head]
    data = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(1, 4, 1, coder.encode(fields, huffman=False))
    data += frame(0, 0 if trailers else 1, 1, b"hello")
    if trailers:
        data += frame(1, 5, 1, coder.encode(trailers, huffman=False))
    status, peer = None, h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
    peer.initiate_connection()
    peer.send_headers(1, [(":method", "GET"), (":scheme", "https"), (":authority", "x"), (":path", "/")])
    with world.tls("h2") as tls:
        tls.settimeout(3)
        tls.sendall(data)
        try:
            over = False
            while not over and (piece := tls.recv(65536)):
                for e in peer.receive_data(piece):
                    kind = type(e).__name__
                    if kind == "ResponseReceived":
                        status = int(dict(e.headers)[b":status"])
                    over = over or kind in ("StreamEnded", "StreamReset", "ConnectionTerminated")
        except (OSError, h2.exceptions.ProtocolError):
            pass
    return status, world.shop.seen[before:]


@pytest.mark.parametrize("name", HEADS)
def test_nothing_of_an_odd_head_of_http2_is_used(world, name):
    status, seen = ask_h2(world, HEADS[name])
    # A body that is not as long as it was said to be comes to its end as a cut, or not at all.
    assert not seen or name.startswith("length-"), (status, [(r.method, r.target, r.fields) for r in seen])
    assert status is None or status >= 400


@pytest.mark.parametrize("name", HARMLESS)
def test_what_the_client_says_about_itself_does_not_arrive_by_http2(world, name):
    status, seen = ask_h2(world, HARMLESS[name], [(b"x-key", b"mine"), (b"x_tenant", b"evil"), (b"x-sum", b"1")])
    assert status == 200 and len(seen) == 1
    is_right(world, seen[0])


# What a host may do to an answer

@pytest.mark.parametrize("world", ["http/1.1"], indirect=True)
def test_nothing_around_an_answer_carries_the_credential(world):
    s = world.secret.encode()
    plain = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"
    named = gzip.compress(b"plain")
    named = named[:3] + b"\x08" + named[4:10] + s + b"\0" + named[10:]
    answers = [
        b"HTTP/1.1 200 " + s + b"\r\nContent-Length: 5\r\n\r\ndone\n",
        plain + s + b": 1\r\nX-" + s.title() + b": 2\r\n" + s.upper() + b": 3\r\n\r\ndone\n",
        b"HTTP/1.1 103 " + s + b"\r\nLink: <" + s + b">\r\n\r\n" + plain + b"\r\ndone\n",
        b"HTTP/1.1 199 x\r\nSet-Cookie: " + s + b"\r\n\r\n" + plain + b"\r\ndone\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=" + s + b"\r\ndone\n\r\n0;" + s + b"\r\nX-" + s + b": " + s + b"\r\n\r\n",
        plain + b"\r\ndone\nHTTP/1.1 200 OK\r\nContent-Length: 28\r\n\r\n" + s,
        plain + b"\r\ndone\n" + s,
        b"HTTP/1.1 204 No\r\n\r\n" + s, b"HTTP/1.1 304 No\r\n\r\n" + s,
        b"HTTP/1.1 302 Found\r\nLocation: https://evil.example.test/?t=" + s + b"\r\nContent-Length: 5\r\n\r\ndone\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n" + named,
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n" + gzip.compress(b"done\n") + s,
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n" + gzip.compress(s[:9]) + gzip.compress(s[9:]),
        b"HTTP/1.1 200 OK\r\nContent-Encoding: \r\nConnection: close\r\n\r\n" + s, b"HTTP/1.1 200 OK\r\nContent-Encoding: dcb\r\nConnection: close\r\n\r\n" + s,
        b"HTTP/1.1 226 IM\r\nContent-Length: 28\r\n\r\n" + s, b"HTTP/1.1 206 P\r\nContent-Length: 28\r\n\r\n" + s,
        b"HTTP/1.1 101 S\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n" + s, b"HTTP/1.0 200 OK\r\n\r\n" + s + s[:9], s + b"\r\n" + plain + b"\r\ndone\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1c\r\n" + s + b"\r\n0\r\n\r\n", plain + b"X: a\r\n " + s + b"\r\n\r\ndone\n",
    ]
    try:
        for raw in answers:
            world.shop.raw = raw
            r, text = world.request("GET /open/x")
            assert r is not None and text, raw
            assert s.lower() not in text.lower().replace(b"\r\n", b""), raw
    finally:
        world.shop.raw = None


def brotli(text):
    out, size = ctypes.create_string_buffer(len(text) + 1024), ctypes.c_size_t(len(text) + 1024)
    compress = ctypes.CDLL("libbrotlienc.so.1").BrotliEncoderCompress
    assert compress(5, 22, 0, ctypes.c_size_t(len(text)), text, ctypes.byref(size), out) == 1
    return out.raw[:size.value]


def zstd(text):
    return subprocess.run(["zstd", "-qc"], input=text, capture_output=True, check=True).stdout


@pytest.mark.parametrize("coding, code", [("br", brotli), ("zstd", zstd), ("gzip", gzip.compress)])
def test_an_encoded_answer_comes_whole_however_slowly_it_is_taken(world, coding, code):
    """A decoder has read all of it long before it has given all of it."""
    dice = random.Random(1)
    text = b"".join(dice.choices([b"%d " % dice.randrange(10**6) for _ in range(300)], k=250000))
    coded = code(text)
    world.shop.answer = lambda r: Answer(200, coded, [("Content-Encoding", coding)])
    try:
        with world.tls() as tls:
            tls.sendall(f"GET /open/x HTTP/1.1\r\nHost: {world.authority}\r\nConnection: close\r\n\r\n".encode())
            time.sleep(0.5)
            got = b""
            while piece := tls.recv(16384):
                got += piece
                time.sleep(0.002)
        file, body = io.BytesIO(got.partition(b"\r\n\r\n")[2]), []
        while size := int(file.readline(), 16):
            body.append(file.read(size))
            file.read(2)
        assert b"".join(body) == text
    finally:
        del world.shop.answer


# What holds memory of the one process that has the credential

class Gathering(Attacked):
    auth = {"kind": "form", "name": "password", "secret": "shop/key"}


def statuses(tls, want):
    """:status of each answer, until there are so many."""
    peer, found = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None)), {}
    peer.initiate_connection()
    for stream in range(1, 81, 2):
        peer.send_headers(stream, [(":method", "GET"), (":scheme", "https"), (":authority", "x"), (":path", "/")])
    while len(found) < want:
        piece = tls.recv(65536)
        assert piece, found
        for e in peer.receive_data(piece):
            if type(e).__name__ == "ResponseReceived":
                found[e.stream_id] = int(dict(e.headers)[b":status"])
    return list(found.values())


def test_bodies_that_must_be_whole_have_a_limit_together(tmp_path):
    world = Gathering(tmp_path, "http/1.1")
    try:
        fields = [(b":method", b"POST"), (b":scheme", b"https"), (b":authority", world.authority.encode()), (b":path", b"/open/x"),
                  (b"content-type", b"application/x-www-form-urlencoded"), (b"content-length", b"1048576")]
        coder, data = hpack.Encoder(), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
        for stream in range(1, 81, 2):
            data += frame(1, 4, stream, coder.encode(fields, huffman=False))
        post = f"POST /open/x HTTP/1.1\r\nHost: {world.authority}\r\nConnection: close\r\nContent-Type: application/x-www-form-urlencoded\r\n" \
            "Content-Length: 3\r\n\r\na=b".encode()
        with world.tls("h2") as tls:
            tls.sendall(data)
            assert statuses(tls, 8) == 8 * [503]  # of 40, 32 may wait for their megabyte
            with world.tls() as own:
                own.sendall(post)
                text = b""
                while b"limit_bodies" not in text and (piece := own.recv(65536)):
                    text += piece
                assert text.startswith(b"HTTP/1.1 503") and b"limit_bodies" in text
            with world.tls(source="127.0.0.2") as other:
                other.sendall(post)
                assert other.recv(65536).startswith(b"HTTP/1.1 200")
        def again():
            with world.tls() as own:
                own.sendall(post)
                return own.recv(65536).startswith(b"HTTP/1.1 200")
        wait_for(again)
    finally:
        world.close()
