"""A company: systems behind TLS, by HTTP/1.1 and HTTP/2, that look at what they are shown.

    firm = Company(tmp_path)
    firm.add("api.example.test", Echo(bearer("s3cr3t")))     company_systems.py
    ... firm.port, firm.ca.file, firm.at("api.example.test").seen ...
    firm.close()

One port, one address, a certificate for all names; which system answers is what Host or
:authority says, and that must be the SNI.  A system is a callable: Request -> Answer.  What a
request looked like is kept in the system's `seen`, refused ones too.
"""
import queue
import select
import socket
import ssl
import threading
import urllib.parse

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import hpack

from certificates import make_ca, make_leaf

ADDRESS = "127.0.0.9"
WINDOW = 1 << 20


class Wrong(Exception):
    """What a peer should not have sent; kept in Company.errors."""


class Answer:
    def __init__(self, status=200, body=b"", fields=(), trailers=(), hints=()):
        """body: bytes, or an iterator of pieces, which then go out one by one."""
        self.status, self.body, self.fields = status, body, list(fields)
        self.trailers, self.hints = list(trailers), list(hints)


class Request:
    def __init__(self, version, method, target, fields, sni, peer, chunks, never_indexed=()):
        self.version, self.method, self.target, self.fields = version, method, target, fields
        self.sni, self.peer, self.chunks = sni, peer, chunks  # peer: the client's certificate or None
        self.never_indexed = set(never_indexed)               # names of fields, HTTP/2
        self.path, _, self.query = target.partition("?")
        self.body, self.trailers, self.refused, self.authority = None, [], None, None

    def all(self, name):
        return [v for n, v in self.fields if n.lower() == name]

    def one(self, name):
        """The only value, None without one; two are more than anybody should send."""
        found = self.all(name)
        if len(found) > 1:
            raise Wrong(f"{name} stands there {len(found)} times")
        return found[0] if found else None

    def parameters(self):
        return urllib.parse.parse_qsl(self.query, keep_blank_values=True)

    def read(self):
        if self.body is None:
            self.body = b"".join(self.chunks)
        return self.body


class System:
    """check(request) -> None or why the credential is wrong; answer(request) -> Answer."""

    unauthorized = [("WWW-Authenticate", 'Bearer realm="company"')]

    def __init__(self, check=None):
        self.check, self.seen = check, []

    def __call__(self, r):
        self.seen.append(r)
        r.refused = self.check(r) if self.check else None
        if r.refused:
            r.read()
            return Answer(401, f"refused: {r.refused}\n".encode(), self.unauthorized)
        return self.answer(r)

    def answer(self, r):
        return Answer(200, r.read())


# HTTP/1.1


class Line1:
    def __init__(self, firm, sock, sni):
        self.firm, self.sock, self.sni = firm, sock, sni
        self.file = sock.makefile("rb")

    def read_fields(self):
        fields = []
        while (line := self.file.readline(65536)) not in (b"\r\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            fields.append((name, value.strip()))
        return fields

    def chunked(self, r):
        while size := int(self.file.readline().split(b";")[0], 16):
            yield self.file.read(size)
            if self.file.read(2) != b"\r\n":
                raise OSError("a chunk does not end")
        r.trailers = self.read_fields()

    def body_of(self, r):
        if (r.one("expect") or "").lower() == "100-continue":
            self.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if (r.one("transfer-encoding") or "") == "chunked":
            return self.chunked(r)
        length = int(r.one("content-length") or 0)
        return iter([self.file.read(length)] if length else [])

    def send_head(self, status, fields):
        text = f"HTTP/1.1 {status} X\r\n" + "".join(f"{n}: {v}\r\n" for n, v in fields)
        self.sock.sendall(text.encode("latin-1") + b"\r\n")

    def send(self, r, a):
        for fields in a.hints:
            self.send_head(103, fields)
        if isinstance(a.body, bytes):
            length = [] if a.status in (204, 304) else [("Content-Length", len(a.body))]
            self.send_head(a.status, a.fields + length)
            if r.method != "HEAD" and a.status not in (204, 304):
                self.sock.sendall(a.body)
            return
        self.send_head(a.status, [*a.fields, ("Transfer-Encoding", "chunked")])
        for piece in a.body:
            if piece:
                self.sock.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.sock.sendall(b"0\r\n" + "".join(f"{n}: {v}\r\n" for n, v in a.trailers).encode() + b"\r\n")

    def run(self):
        while True:
            first = self.file.readline(65536).decode("latin-1").rstrip("\r\n")
            if not first:
                return
            method, target, _ = first.split(" ")
            r = Request("1.1", method, target, self.read_fields(), self.sni, self.sock.getpeercert(True), iter(()))
            r.chunks = self.body_of(r)
            a = self.firm.answer(r, r.one("host"))
            if callable(a):  # it takes the connection over
                a(self.sock, self.file)
                return
            if isinstance(a.body, bytes):
                r.read()  # before: who sends much reads nothing meanwhile
            self.send(r, a)
            r.read()
            if (r.one("connection") or "").lower() == "close":
                return


# HTTP/2


class Line2:
    def __init__(self, firm, sock, sni):
        self.firm, self.sock, self.sni = firm, sock, sni
        config = h2.config.H2Configuration(client_side=False, header_encoding=None)
        self.h2, self.lock = h2.connection.H2Connection(config), threading.Condition()
        self.bodies, self.requests, self.is_over = {}, {}, False
        self.readable = select.poll()
        self.readable.register(sock, select.POLLIN)

    def flush(self):
        if data := self.h2.data_to_send():
            self.sock.sendall(data)

    def chunks(self, stream):
        while (piece := self.bodies[stream].get()) is not None:
            yield piece

    def begun(self, e):
        fields = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in e.headers]
        pseudo = dict(f for f in fields if f[0].startswith(":"))
        never = [f[0].decode() for f in e.headers if isinstance(f, hpack.NeverIndexedHeaderTuple)]
        self.bodies[e.stream_id] = queue.Queue()
        r = Request("2", pseudo[":method"], pseudo[":path"], [f for f in fields if f[0][0] != ":"], self.sni,
                    self.sock.getpeercert(True), self.chunks(e.stream_id), never)
        self.requests[e.stream_id] = r
        threading.Thread(target=self.serve, args=(e.stream_id, r, pseudo[":authority"]), daemon=True).start()

    def serve(self, stream, r, authority):
        try:
            self.send(stream, r, self.firm.answer(r, authority))
        except (OSError, h2.exceptions.ProtocolError):
            pass  # the client has left

    def send_data(self, stream, data, last=False):
        while True:
            with self.lock:
                self.lock.wait_for(lambda: self.is_over or not data or
                                   self.h2.local_flow_control_window(stream) > 0, 30)
                if self.is_over:
                    raise OSError("the connection is over")
                n = min(len(data), self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
                self.h2.send_data(stream, data[:n], end_stream=last and n == len(data))
                self.flush()
            data = data[n:]
            if not data:
                return

    def send_head(self, stream, status, fields, last=False):
        with self.lock:
            self.h2.send_headers(stream, [(":status", str(status)), *[(n.lower(), str(v)) for n, v in fields]],
                                 end_stream=last)
            self.flush()

    def send(self, stream, r, a):
        for fields in a.hints:
            self.send_head(stream, 103, fields)
        empty = r.method == "HEAD" or a.status in (204, 304)
        self.send_head(stream, a.status, a.fields, last=empty)
        if empty:
            return
        for piece in [a.body] if isinstance(a.body, bytes) else a.body:
            if piece:
                self.send_data(stream, piece)
        if not a.trailers:
            self.send_data(stream, b"", last=True)
            return
        with self.lock:
            self.h2.send_headers(stream, [(n.lower(), v) for n, v in a.trailers], end_stream=True)
            self.flush()

    def happened(self, e):
        if isinstance(e, h2.events.RequestReceived):
            self.begun(e)
        elif isinstance(e, h2.events.DataReceived):
            self.bodies[e.stream_id].put(e.data)
            if e.flow_controlled_length:
                self.h2.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
        elif isinstance(e, h2.events.TrailersReceived):
            self.requests[e.stream_id].trailers = [(n.decode(), v.decode()) for n, v in e.headers]
        elif isinstance(e, (h2.events.StreamEnded, h2.events.StreamReset)):
            self.bodies[e.stream_id].put(None)

    def turn(self):
        """False: that was all.  OpenSSL knows of no two threads: who reads while another writes sees
        an end that is none."""
        if not self.sock.pending():
            self.readable.poll(60000)
        with self.lock:
            try:
                self.sock.settimeout(0)
                data = self.sock.recv(65536)
            except ssl.SSLWantReadError:
                return True
            finally:
                self.sock.settimeout(60)
            for e in self.h2.receive_data(data) if data else ():
                self.happened(e)
            self.flush()
            self.lock.notify_all()
        return bool(data)

    def run(self):
        with self.lock:
            self.h2.initiate_connection()
            self.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: WINDOW})
            self.h2.increment_flow_control_window(16 * WINDOW)
            self.flush()
        try:
            while self.turn():
                pass
        finally:
            with self.lock:
                self.is_over = True
                self.lock.notify_all()
            for q in self.bodies.values():
                q.put(None)


class Company:
    """protocols: what ALPN chooses from; clients: a CA whose client certificates are asked for."""

    def __init__(self, folder, names=(), protocols=("h2", "http/1.1"), address=ADDRESS, clients=None):
        self.ca, self.systems, self.errors, self.protocols = make_ca(folder), {}, [], list(protocols)
        self.address, self.clients, self.folder = address, clients, folder
        self.listener = socket.create_server((address, 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        self.context = None
        for name in names:
            self.add(name, System())
        threading.Thread(target=self.run, daemon=True).start()

    def add(self, name, system):
        self.systems[name] = system
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*make_leaf(self.ca, *self.systems))
        context.set_alpn_protocols(self.protocols)
        context.sni_callback = self.named
        if self.clients:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.clients.file)
        self.context = context
        return system

    def at(self, name):
        return self.systems[name]

    @staticmethod
    def named(sock, name, _):
        sock.company_sni = name

    def answer(self, r, authority):
        r.authority = authority
        name = (authority or "").rsplit(":", 1)[0]
        try:
            if name != r.sni or name not in self.systems:
                raise Wrong(f"Host {authority!r}, SNI {r.sni!r}")
            return self.systems[name](r)
        except Wrong as e:
            self.errors.append(str(e))
            return Answer(400, f"{e}\n".encode())

    def serve(self, sock):
        try:
            sock.settimeout(60)
            with self.context.wrap_socket(sock, server_side=True) as tls:
                line = Line2 if tls.selected_alpn_protocol() == "h2" else Line1
                line(self, tls, getattr(tls, "company_sni", None)).run()
        except (OSError, h2.exceptions.ProtocolError):
            pass  # whoever called has left, or did not like us: tests look at `seen`

    def run(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
