"""Every protocol of a client with every protocol of a host: HTTP/1.1 or HTTP/2 inside TLS that
is ended here, to a host that speaks one or the other, directly or by way of a connector."""
import hashlib
import base64
import pathlib
import shutil
import socket
import ssl
import tempfile
import threading

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest

import conftest
from certificates import make_ca, make_leaf
from conftest import Gate, free_port, wait_for
from http_line import Message, Stream, body_of

OK, FAR = "ok.example.test", "tracker.example.test"
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Host(threading.Thread):
    """Speaks what ALPN agrees on; `offers` says what that may be, takes_ws whether RFC 8441 is announced."""

    def __init__(self, leaf, offers, takes_ws=True):
        super().__init__(daemon=True)
        self.takes_ws = takes_ws
        self.context = None
        if leaf:
            self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            self.context.load_cert_chain(*leaf)
            self.context.set_alpn_protocols(offers)
        self.sock = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.sock.getsockname()[1]
        self.requests, self.connections = [], 0
        self.start()

    def run(self):
        while True:
            try:
                raw, _ = self.sock.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(raw,), daemon=True).start()

    def serve(self, raw):
        try:
            s = self.context.wrap_socket(raw, server_side=True) if self.context else raw
        except (ssl.SSLError, OSError):
            return
        self.connections += 1
        is_h2 = self.context and s.selected_alpn_protocol() == "h2"
        try:
            (self.serve_h2 if is_h2 else self.serve_h1)(s)
        except (OSError, EOFError, ssl.SSLError, h2.exceptions.ProtocolError):
            pass
        s.close()

    def serve_h1(self, s):
        peer = Stream(s)
        while True:
            m = Message(*peer.head())
            method, path, _ = m.first.split(" ")
            if m["upgrade"]:
                self.requests.append(("h1", "WS", path, b"", {}))
                key = base64.b64encode(hashlib.sha1(m["sec-websocket-key"].encode() + GUID).digest()).decode()
                peer.send(f"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: {key}\r\n\r\n")
                while True:
                    peer.send(peer.exactly(1))
            m = body_of(peer, m, m["content-length"] is None and m["transfer-encoding"] is None)
            self.requests.append(("h1", method, path, m.body, dict(m.trailers)))
            body = f"{method} {path} {len(m.body)}".encode()
            if path.startswith("/stream"):
                peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                for _ in range(64):
                    peer.send(b"10000\r\n" + b"s" * 65536 + b"\r\n")
                peer.send("0\r\nX-Sum: 64\r\n\r\n")
            elif path.startswith("/early"):
                peer.send("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n", body)
            else:
                peer.send(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n", body if method != "HEAD" else b"")

    def serve_h2(self, s):
        conn = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        conn.local_settings = h2.settings.Settings(client=False, initial_values={
            h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL: int(self.takes_ws)})
        conn.initiate_connection()
        s.sendall(conn.data_to_send())
        got, later, tunnels = {}, {}, set()
        while True:
            data = s.recv(65536)
            if not data:
                return
            for e in conn.receive_data(data):
                if isinstance(e, h2.events.RequestReceived) and ":protocol" in dict(e.headers):
                    self.requests.append(("h2", "WS", dict(e.headers)[":path"], b"", {}))
                    assert dict(e.headers)[":protocol"] == "websocket" and self.takes_ws
                    tunnels.add(e.stream_id)
                    conn.send_headers(e.stream_id, [(":status", "200")])
                elif isinstance(e, h2.events.RequestReceived):
                    got[e.stream_id] = [dict(e.headers), b"", {}]
                elif isinstance(e, h2.events.DataReceived) and e.stream_id in tunnels:
                    conn.send_data(e.stream_id, e.data)
                    conn.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
                elif isinstance(e, h2.events.DataReceived):
                    got[e.stream_id][1] += e.data
                    if e.flow_controlled_length:
                        conn.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
                elif isinstance(e, h2.events.TrailersReceived):
                    got[e.stream_id][2] = dict(e.headers)
                elif isinstance(e, h2.events.StreamEnded) and e.stream_id in tunnels:
                    conn.end_stream(e.stream_id)
                elif isinstance(e, h2.events.StreamEnded):
                    self.answer_h2(conn, e.stream_id, got.pop(e.stream_id), later)
            for sid in list(later):
                self.more_h2(conn, sid, later)
            s.sendall(conn.data_to_send())

    def answer_h2(self, conn, sid, got, later):
        head, body, trailers = got
        method, path = head[":method"], head[":path"]
        self.requests.append(("h2", method, path, body, trailers))
        text = f"{method} {path} {len(body)}".encode()
        if path.startswith("/stream"):
            conn.send_headers(sid, [(":status", "200")])
            later[sid] = 64 * 65536
        else:
            if path.startswith("/early"):
                conn.send_headers(sid, [(":status", "103"), ("link", "</x>")])
            conn.send_headers(sid, [(":status", "200"), ("content-length", str(len(text)))], end_stream=method == "HEAD")
            if method != "HEAD":
                conn.send_data(sid, text, end_stream=True)

    @staticmethod
    def more_h2(conn, sid, later):
        while later[sid] > 0:
            n = min(later[sid], conn.local_flow_control_window(sid), conn.max_outbound_frame_size)
            if n == 0:
                return
            conn.send_data(sid, b"s" * n)
            later[sid] -= n
        conn.send_headers(sid, [("x-sum", "64")], end_stream=True)
        del later[sid]

    def close(self):
        conftest.end_server(self.sock, self)


class Reply:
    def __init__(self):
        self.status, self.fields, self.body, self.trailers, self.interim = None, {}, b"", {}, []
        self.is_over = self.is_reset = False


class H2Client:
    """One connection, many requests."""

    def __init__(self, sock, authority):
        self.sock, self.authority = sock, authority
        self.conn = h2.connection.H2Connection(h2.config.H2Configuration(
            client_side=True, header_encoding="utf-8", validate_outbound_headers=False))
        self.conn.initiate_connection()
        self.conn.increment_flow_control_window(1 << 24)
        self.replies = {}
        self.flush()

    def flush(self):
        self.sock.sendall(self.conn.data_to_send())

    def send(self, method="GET", path="/", body=b"", fields=(), trailers=None, authority=None, scheme="https", end=True):
        sid = self.conn.get_next_available_stream_id()
        self.replies[sid] = Reply()
        head = [(":method", method), (":scheme", scheme), (":authority", authority or self.authority), (":path", path), *fields]
        is_bare = not body and trailers is None and end
        self.conn.send_headers(sid, head, end_stream=is_bare)
        self.flush()
        at = 0
        while at < len(body):
            n = min(len(body) - at, self.conn.local_flow_control_window(sid), self.conn.max_outbound_frame_size)
            if n == 0:
                self.turn()
                continue
            self.conn.send_data(sid, body[at:at + n])
            at += n
            self.flush()
        if trailers is not None:
            self.conn.send_headers(sid, trailers, end_stream=True)
        elif not is_bare and end:
            self.conn.end_stream(sid)
        self.flush()
        return sid

    def turn(self):
        data = self.sock.recv(65536)
        if not data:
            raise EOFError
        for e in self.conn.receive_data(data):
            r = self.replies.get(getattr(e, "stream_id", None))
            if isinstance(e, h2.events.InformationalResponseReceived):
                r.interim.append(dict(e.headers)[":status"])
            elif isinstance(e, h2.events.ResponseReceived):
                r.fields = dict(e.headers)
                r.status = int(r.fields[":status"])
            elif isinstance(e, h2.events.DataReceived):
                r.body += e.data
                self.conn.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
            elif isinstance(e, h2.events.TrailersReceived):
                r.trailers = dict(e.headers)
            elif isinstance(e, h2.events.StreamEnded):
                r.is_over = True
            elif isinstance(e, h2.events.StreamReset):
                r.is_over = r.is_reset = True
            elif isinstance(e, h2.events.ConnectionTerminated):
                raise EOFError(e.error_code)
        self.flush()

    def websocket(self, path="/ws"):
        sid = self.conn.get_next_available_stream_id()
        self.replies[sid] = Reply()
        self.conn.send_headers(sid, [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"),
                                     (":authority", self.authority), (":path", path), ("sec-websocket-version", "13")])
        self.flush()
        while self.replies[sid].status is None and not self.replies[sid].is_over:
            self.turn()
        return sid

    def connect(self, authority):
        sid = self.conn.get_next_available_stream_id()
        self.replies[sid] = Reply()
        self.conn.send_headers(sid, [(":method", "CONNECT"), (":authority", authority)])
        self.flush()
        while self.replies[sid].status is None and not self.replies[sid].is_over:
            self.turn()
        return sid

    def push(self, sid, data):
        self.conn.send_data(sid, data)
        self.flush()

    def wait(self, sid, n):
        """The first n bytes of what came, taken off."""
        r = self.replies[sid]
        while len(r.body) < n and not r.is_over:
            self.turn()
        data, r.body = r.body[:n], r.body[n:]
        return data

    def take(self, sid):
        while not self.replies[sid].is_over:
            self.turn()
        return self.replies[sid]

    def ask(self, *args, **kw):
        return self.take(self.send(*args, **kw))


class H1Client(Stream):
    def __init__(self, sock, authority):
        super().__init__(sock)
        self.authority = authority

    def ask(self, method="GET", path="/", body=b"", fields=(), trailers=None, authority=None):
        lines = "".join(f"{k}: {v}\r\n" for k, v in fields)
        head = f"{method} {path} HTTP/1.1\r\nHost: {authority or self.authority}\r\n{lines}"
        if trailers is not None:
            chunks = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + 30000]), body[i:i + 30000]) for i in range(0, len(body), 30000))
            ends = "".join(f"{k}: {v}\r\n" for k, v in trailers)
            self.send(head, "Transfer-Encoding: chunked\r\n\r\n", chunks, "0\r\n" + ends + "\r\n")
        elif body:
            self.send(head, f"Content-Length: {len(body)}\r\n\r\n", body)
        else:
            self.send(head, "\r\n")
        r = Reply()
        while True:
            m = Message(*self.head())
            if m.status >= 200 or m.status == 101:
                break
            r.interim.append(str(m.status))
        m = body_of(self, m, method == "HEAD" or m.status in (101, 204, 304))
        r.status, r.body, r.trailers = m.status, m.body, {k.lower(): v for k, v in m.trailers}
        r.fields = {k.lower(): v for k, v in m.fields}
        return r


class World:
    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="sandgate-combine-"))
        self.dir.chmod(0o755)
        ca = make_ca(self.dir / "ca")
        (self.dir / "ca").chmod(0o755)
        leaf = make_leaf(ca, OK, FAR)
        self.hosts = {"h1": Host(leaf, ["http/1.1"]), "h2": Host(leaf, ["h2"]),
                      "both": Host(leaf, ["h2", "http/1.1"]), "deaf": Host(leaf, ["h2", "http/1.1"], takes_ws=False),
                      "plain": Host(None, None)}
        ports = [h.port for h in self.hosts.values()]
        loop = ["127.0.0.0/8"]
        self.gate = Gate({
            "upstream_tls": {"ca_file": str(ca.file)},
            "resolver": {"servers": ["127.0.0.1"], "timeout": "200ms", "tries": 1,
                         "hosts": {OK: ["127.0.0.1"], FAR: ["127.0.0.1"]}},
            "policies": {"coding": {
                "allow": [{"hosts": [OK], "ports": ports, "addresses": loop,
                           "methods": ["GET", "HEAD", "POST", "PUT"], "paths": ["/**"]}],
                "deny": [{"hosts": [OK], "ports": ports, "paths": ["/never/**"]}],
                "connectors": ["tracker"]}},
            "connectors": [{"name": "tracker", "hosts": [FAR], "ports": ports, "addresses": loop,
                            "auth": {"kind": "passthrough"},
                            "allow": [{"methods": ["GET", "HEAD", "POST", "PUT"], "paths": ["/**"]}]}],
        })
        self.gate.start()
        self.ca = self.dir / "ours.pem"
        self.ca.write_text(self.gate.cli("ca", "export", check=True).stdout)

    def client(self, speaks, host, name, sni=None):
        """Inside TLS inside CONNECT, as most clients are."""
        port = self.hosts[host].port
        raw = socket.create_connection(self.gate.proxy, timeout=10)
        raw.sendall(f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += raw.recv(1)
        assert b" 200 " in head
        context = ssl.create_default_context(cafile=str(self.ca))
        context.set_alpn_protocols(["h2"] if speaks == "h2" else ["http/1.1"])
        s = context.wrap_socket(raw, server_hostname=sni or name)
        assert s.selected_alpn_protocol() == ("h2" if speaks == "h2" else "http/1.1")
        return (H2Client if speaks == "h2" else H1Client)(s, f"{name}:{port}")

    def close(self):
        self.gate.close()
        for host in self.hosts.values():
            host.close()
        shutil.rmtree(self.dir)


@pytest.fixture(scope="module")
def world():
    w = World()
    yield w
    w.close()


WAYS = [(c, h, n) for c in ("h1", "h2") for h in ("h1", "h2") for n in (OK, FAR)]
each = pytest.mark.parametrize("speaks,host,name", WAYS, ids=lambda v: {OK: "direct", FAR: "lane"}.get(v, v))


@each
def test_requests_and_answers_pass(world, speaks, host, name):
    c = world.client(speaks, host, name)
    for i in range(3):
        r = c.ask(path=f"/a/{i}?q=1")
        assert (r.status, r.body) == (200, f"GET /a/{i}?q=1 0".encode())
        assert not [k for k in r.fields if k.startswith("sandgate-")]
    r = c.ask("HEAD", "/h")
    assert (r.status, r.body, r.fields["content-length"]) == (200, b"", str(len("HEAD /h 0")))
    assert world.hosts[host].requests[-1][:3] == (host, "HEAD", "/h")


@each
def test_bodies_and_trailers_pass_both_ways(world, speaks, host, name):
    c = world.client(speaks, host, name)
    body = bytes(i * 7 % 251 for i in range(700_000))
    assert c.ask("POST", "/up", body).body == b"POST /up 700000"
    assert world.hosts[host].requests[-1][3] == body
    assert c.ask("PUT", "/t", body[:70_000], trailers=[("x-end", "yes")]).body == b"PUT /t 70000"
    got = {k.lower(): v for k, v in world.hosts[host].requests[-1][4].items()}
    assert got.get("x-end") == "yes"
    r = c.ask(path="/stream")
    assert (len(r.body), r.trailers.get("x-sum")) == (64 * 65536, "64")


@each
def test_interim_heads_pass(world, speaks, host, name):
    r = world.client(speaks, host, name).ask(path="/early")
    assert (r.interim, r.body) == (["103"], b"GET /early 0")


@each
def test_a_refusal_is_told_inside(world, speaks, host, name):
    c = world.client(speaks, host, name)
    r = c.ask("DELETE", "/x")
    assert r.status == 403 and b'"code"' in r.body and "proxy-status" in r.fields
    assert c.ask(path="/after").status == 200
    if name == OK:
        assert c.ask(path="/never/x").status == 403


@each
def test_another_authority_is_misdirected(world, speaks, host, name):
    c = world.client(speaks, host, name)
    assert c.ask(authority="other.example.test").status == 421


@pytest.mark.parametrize("host", ["h1", "h2"])
@pytest.mark.parametrize("name", [OK, FAR], ids=["direct", "lane"])
def test_many_requests_share_a_connection(world, host, name):
    c = world.client("h2", host, name)
    ids = [c.send(path=f"/m/{i}") for i in range(50)]
    for i, sid in enumerate(ids):
        assert c.take(sid).body == f"GET /m/{i} 0".encode()


@pytest.mark.parametrize("name", [OK, FAR], ids=["direct", "lane"])
def test_a_stalled_stream_does_not_hold_its_neighbours(world, name):
    c = world.client("h2", "h2", name)
    # Nothing of these is acknowledged, so their windows close.
    acknowledge, c.conn.acknowledge_received_data = c.conn.acknowledge_received_data, lambda *a: None
    held = [c.send(path="/stream") for _ in range(8)]
    r = c.ask(path="/quick")
    assert r.body == b"GET /quick 0"
    c.conn.acknowledge_received_data = acknowledge
    assert not any(c.replies[s].is_over for s in held)


@pytest.mark.parametrize("name", [OK, FAR], ids=["direct", "lane"])
def test_rows_tell_the_way(world, name):
    c = world.client("h2", "h2", name)
    assert c.ask(path="/row").status == 200
    rows = wait_for(lambda: [r for r in world.gate.rows(kind="response") if r["path"] == "/row" and name in r["host"]])
    assert rows[-1]["http_status"] == 200
    assert rows[-1].get("connector") == (None if name == OK else "tracker") or rows[-1].get("connector") == ""


HANDSHAKE = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13"),
             ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]


@pytest.mark.parametrize("name", [OK, FAR], ids=["direct", "lane"])
def test_websockets_pass_from_http1(world, name):
    c = world.client("h1", "h1", name)
    r = c.ask(path="/ws", fields=HANDSHAKE)
    assert (r.status, r.fields["sec-websocket-accept"]) == (101, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    c.send(b"echo" * 1000)
    assert c.exactly(4000) == b"echo" * 1000


@pytest.mark.parametrize("name", [OK, FAR], ids=["direct", "lane"])
def test_websockets_pass_from_http2_and_share_its_connection(world, name):
    c = world.client("h2", "h1", name)
    one, two = c.websocket(), c.websocket()
    assert c.replies[one].status == c.replies[two].status == 200
    c.push(one, b"one")
    c.push(two, b"two")
    assert (c.wait(two, 3), c.wait(one, 3)) == (b"two", b"one")
    assert c.ask(path="/beside").body == b"GET /beside 0"


@pytest.mark.parametrize("name", [OK, FAR], ids=["direct", "lane"])
@pytest.mark.parametrize("host, cold, warm", [("h1", "h1", "h1"), ("both", "h1", "h2"), ("deaf", "h1", "h1")])
@pytest.mark.parametrize("speaks", ["h1", "h2"])
def test_websockets_take_the_way_that_the_host_has_announced(world, name, host, cold, warm, speaks):
    """RFC 8441 where a connection is there that has said so, HTTP/1.1 everywhere else."""
    world.gate.reload()  # no connection of the tests before
    world.hosts[host].requests.clear()
    for want, path in ((cold, "/cold"), (warm, "/warm")):
        c = world.client(speaks, host, name)
        if path == "/warm":
            assert c.ask(path="/before").body == b"GET /before 0"
        if speaks == "h1":
            r = c.ask(path=path, fields=HANDSHAKE)
            assert (r.status, r.fields["sec-websocket-accept"]) == (101, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
            c.send(b"echo" * 1000)
            assert c.exactly(4000) == b"echo" * 1000
        else:
            sid = c.websocket(path)
            assert c.replies[sid].status == 200
            c.push(sid, b"echo" * 1000)
            assert c.wait(sid, 4000) == b"echo" * 1000
            assert c.ask(path="/beside").body == b"GET /beside 0"
        assert (want, "WS", path, b"", {}) in world.hosts[host].requests


@pytest.mark.parametrize("name", [OK, FAR], ids=["direct", "lane"])
def test_a_websocket_over_http2_ends_alone(world, name):
    world.gate.reload()
    c = world.client("h2", "both", name)
    c.ask(path="/before")
    one, two = c.websocket(), c.websocket()
    c.push(two, b"two")
    assert c.wait(two, 3) == b"two"
    c.conn.end_stream(one)
    c.flush()
    assert not c.take(one).is_reset
    c.push(two, b"more")
    assert c.wait(two, 4) == b"more"
    assert c.ask(path="/after").body == b"GET /after 0"


def prior(world, name=OK, source="127.0.0.1"):
    """HTTP/2 from the first byte behind a CONNECT to a plain port."""
    port = world.hosts["plain"].port
    raw = socket.create_connection(world.gate.proxy, timeout=10, source_address=(source, 0))
    raw.sendall(f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += raw.recv(1)
    return H2Client(raw, f"{name}:{port}")


def test_http2_needs_no_tls(world):
    c = prior(world)
    assert c.ask(path="/p", scheme="http").body == b"GET /p 0"
    assert c.ask("DELETE", "/p", scheme="http").status == 403
    assert c.ask(path="/p", scheme="https").status == 421
    assert c.ask(path="/p", scheme="http", authority="other.example.test").status == 421


def proxy(world):
    return H2Client(socket.create_connection(world.gate.proxy, timeout=10), "")


def test_the_proxy_listener_takes_http2(world):
    c = proxy(world)
    port = world.hosts["plain"].port
    assert c.ask(path="/a", scheme="http", authority=f"{OK}:{port}").body == b"GET /a 0"
    r = c.ask(path="/a", scheme="http", authority="denied.example.test")
    assert r.status == 403 and r.fields["proxy-status"].startswith("sandgate;")
    assert c.ask(path="/me", scheme="http", authority="sandgate.internal").status == 200


class Inside:
    """TLS in a stream of HTTP/2."""

    def __init__(self, c, sid, world):
        self.c, self.sid = c, sid
        self.into, self.out = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=str(world.ca))
        context.set_alpn_protocols(["http/1.1"])
        self.tls = context.wrap_bio(self.into, self.out, server_hostname=OK)
        self.drive(self.tls.do_handshake)

    def drive(self, what):
        while True:
            try:
                got = what()
            except ssl.SSLWantReadError:
                got = None
            if self.out.pending:
                self.c.push(self.sid, self.out.read())
            if got is not None or what == self.tls.do_handshake and self.tls.version() and self.tls.cipher():
                return got
            self.into.write(self.c.wait(self.sid, 1))

    def ask(self, path, port):
        self.drive(lambda: self.tls.write(f"GET {path} HTTP/1.1\r\nHost: {OK}:{port}\r\n\r\n".encode()))
        got = b""
        while b"\r\n\r\n" not in got or not got.endswith(b" 0"):
            got += self.drive(lambda: self.tls.read(65536) or None)
        return got


def test_connect_over_http2_carries_what_any_connect_does(world):
    c = proxy(world)
    port = world.hosts["plain"].port
    sid = c.connect(f"{OK}:{port}")
    assert c.replies[sid].status == 200
    c.push(sid, f"GET /inside HTTP/1.1\r\nHost: {OK}:{port}\r\n\r\n".encode())
    assert c.wait(sid, 15) == b"HTTP/1.1 200 OK"
    for host in ("h1", "h2"):
        port = world.hosts[host].port
        sid = c.connect(f"{OK}:{port}")
        inside = Inside(c, sid, world)
        assert inside.ask("/tls", port).endswith(b"GET /tls 0")
    assert c.ask(path="/beside", scheme="http", authority=f"{OK}:{world.hosts['plain'].port}").status == 200


def test_connect_over_http2_is_judged(world):
    c = proxy(world)
    sid = c.connect("denied.example.test:443")
    r = c.take(sid)
    assert r.status == 403 and b"denied_by_policy" in r.body
    wait_for(lambda: [x for x in world.gate.rows(kind="deny") if x["host"] == "denied.example.test:443"])
    # What runs inside must be for the target of its own CONNECT.
    port = world.hosts["plain"].port
    sid = c.connect(f"{OK}:{port}")
    c.push(sid, f"GET / HTTP/1.1\r\nHost: other.example.test:{port}\r\n\r\n".encode())
    assert c.wait(sid, 12) == b"HTTP/1.1 421"


def test_a_passage_ends_with_its_stream(world):
    before = world.gate.counter("open")
    c = proxy(world)
    port = world.hosts["plain"].port
    ids = [c.connect(f"{OK}:{port}") for _ in range(5)]
    wait_for(lambda: world.gate.counter("open") == before + 6)
    for sid in ids[:3]:
        c.conn.reset_stream(sid)
    c.conn.end_stream(ids[3])
    c.flush()
    wait_for(lambda: world.gate.counter("open") == before + 2)
    c.sock.close()
    wait_for(lambda: world.gate.counter("open") == before)
