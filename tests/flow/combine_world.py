"""A gateway between clients and hosts that each speak one version of HTTP, and connections through it."""
import pathlib
import shutil
import socket
import ssl
import tempfile
import threading

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

import conftest
from certificates import make_ca, make_leaf
from conftest import Gate
from http_line import Message, Stream, body_of
from websocket_line import switch

OK, FAR = "ok.example.test", "tracker.example.test"


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
                peer.send(switch(m["sec-websocket-key"]))
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


def prior(world, name=OK, source="127.0.0.1"):
    """HTTP/2 from the first byte behind a CONNECT to a plain port."""
    port = world.hosts["plain"].port
    raw = socket.create_connection(world.gate.proxy, timeout=10, source_address=(source, 0))
    raw.sendall(f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += raw.recv(1)
    return H2Client(raw, f"{name}:{port}")


def proxy(world):
    return H2Client(socket.create_connection(world.gate.proxy, timeout=10), "")


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
