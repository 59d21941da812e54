"""HTTP by hand: a scripted origin and a client that sees every byte.

The origin listens on ORIGIN at the gateway's own transparent port, so that one address is
reached by every way in: the port that a transparent connection was made to is the
original one, and no packet filter is needed.
"""
import socket
import threading
import time

from conftest import BASE, Gate, end_server

ORIGIN, NOBODY = "127.0.0.9", "127.0.0.10"
NAMES = ["ok.example.test", "rest.example.test", "also.example.test"]
WAYS = ["absolute", "connect", "transparent"]


class Stream:
    """One connection, either end of it, with messages taken apart strictly."""

    def __init__(self, sock):
        self.sock, self.data, self.is_eof = sock, b"", False

    def more(self):
        got = self.sock.recv(65536)
        self.is_eof = not got
        self.data += got
        return got

    def until(self, mark):
        while mark not in self.data:
            if not self.more():
                raise EOFError(self.data)
        part, _, self.data = self.data.partition(mark)
        return part

    def exactly(self, n):
        while len(self.data) < n:
            if not self.more():
                raise EOFError(self.data)
        part, self.data = self.data[:n], self.data[n:]
        return part

    def rest(self):
        while self.more():
            pass
        part, self.data = self.data, b""
        return part

    def send(self, *parts):
        self.sock.sendall(b"".join(p.encode() if isinstance(p, str) else p for p in parts))
        return self

    def head(self):
        """(first line, [(lower-case name, value)])."""
        first, *lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        return first, [(n.lower(), v.strip()) for n, _, v in (line.partition(":") for line in lines)]

    def chunked(self):
        """(payload, trailers); `chunks` keeps how it was cut."""
        self.chunks = []
        while size := int(self.until(b"\r\n"), 16):
            self.chunks.append(self.exactly(size))
            assert self.exactly(2) == b"\r\n"
        trailers = []
        while line := self.until(b"\r\n").decode():
            trailers.append(tuple(s.strip() for s in line.split(":", 1)))
        return b"".join(self.chunks), trailers

    def close(self):
        self.sock.close()


class Message:
    def __init__(self, first, fields, body=b"", trailers=()):
        self.first, self.fields, self.body, self.trailers = first, fields, body, list(trailers)

    def __getitem__(self, name):
        return next((v for n, v in self.fields if n == name), None)

    def all(self, name):
        return [v for n, v in self.fields if n == name]

    @property
    def status(self):
        return int(self.first.split(" ")[1])


def body_of(stream, m, is_none=False):
    if is_none:
        return m
    if m["transfer-encoding"]:
        assert m["transfer-encoding"] == "chunked" and m["content-length"] is None
        m.body, m.trailers = stream.chunked()
    elif m["content-length"] is not None:
        m.body = stream.exactly(int(m["content-length"]))
    elif m.first.startswith("HTTP/"):
        m.body = stream.rest()
    return m


class Client(Stream):
    """`way` into the gateway; request() names the target as that way needs it."""

    def __init__(self, gate, way="absolute", host="ok.example.test", source="127.0.0.1", port=None):
        self.way, self.host, self.port = way, host, port or gate.ports["egress"]
        at = gate.egress if way == "transparent" else gate.proxy
        super().__init__(socket.create_connection(at, timeout=10, source_address=(source, 0)))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.interim = []
        if way == "connect":
            self.send(f"CONNECT {host}:{self.port} HTTP/1.1\r\nHost: {host}:{self.port}\r\n\r\n")
            first, _ = self.head()
            assert first.startswith("HTTP/1.1 200"), first

    def authority(self, host=None):
        host = host or self.host
        return host if self.port == 80 else f"{host}:{self.port}"

    def line(self, method, path, host=None, version="1.1"):
        target = f"http://{self.authority(host)}{path}" if self.way == "absolute" else path
        return f"{method} {target} HTTP/{version}\r\nHost: {self.authority(host)}\r\n"

    def request(self, method="GET", path="/", fields="", body=b"", host=None, version="1.1"):
        return self.send(self.line(method, path, host, version), fields, "\r\n", body)

    def response(self, method="GET"):
        while True:
            m = Message(*self.head())
            if m.status >= 200 or m.status == 101:
                break
            self.interim.append(m)
        return body_of(self, m, method == "HEAD" or m.status in (101, 204, 304))

    def get(self, path="/", **kw):
        return self.request(path=path, **kw).response()


class Origin:
    """Runs `script(peer, request)` per request until it returns True."""

    def __init__(self, port, address=ORIGIN):
        self.sock = socket.create_server((address, port), backlog=1024)
        self.requests, self.connections, self.errors = [], 0, []
        self.script = hello
        self.is_raw, self.open = False, set()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            try:
                conn, _ = self.sock.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def serve(self, conn):
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = Stream(conn)
        self.open.add(conn)
        try:
            while True:
                request = Message(*peer.head())
                self.requests.append(request)
                if not self.is_raw:
                    body_of(peer, request)
                if self.script(peer, request) is True:
                    break
        except (OSError, EOFError):
            pass
        except Exception as why:  # a script's own mistake must fail its test
            self.errors.append(why)
        finally:
            self.open.discard(conn)
            conn.close()

    def reset(self, script=None, is_raw=False):
        for conn in list(self.open):  # kept ones, which another test may have asked
            try:
                conn.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        time.sleep(0.02)
        self.errors = []
        self.script, self.is_raw = script or hello, is_raw
        self.requests, self.connections = [], 0
        return self

    def close(self):
        end_server(self.sock, self.thread)


def answer(body=b"hello", status="200 OK", fields=""):
    body = body.encode() if isinstance(body, str) else body
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{fields}\r\n".encode() + body


def hello(peer, request):
    path = request.first.split(" ")[1]
    peer.send(answer(f"{path} {len(request.body)}"))


def config(port, **more):
    origin = {"ports": [port], "addresses": ["127.0.0.0/8"]}
    return {
        "resolver": {**BASE["resolver"], "hosts": {**{n: [ORIGIN] for n in NAMES}, "gone.example.test": [NOBODY]}},
        "sandboxes": [*BASE["sandboxes"],
                      {"id": "other", "source": "127.0.0.5", "user": "bob", "policy": "coding"}],
        "policies": {"coding": {"allow": [
            {"hosts": ["ok.example.test", "also.example.test", "gone.example.test"], **origin},
            {"hosts": ["rest.example.test"], "methods": ["GET"], "paths": ["/v1/**"], **origin}]}},
        **more,
    }


def make(**more):
    """(gate, origin), not started: the origin owns the gateway's port on its own address."""
    gate = Gate()
    gate.write(config(gate.ports["egress"], **more))
    return gate, Origin(gate.ports["egress"])


def rss(pid):
    """Proportional memory of a process, in bytes."""
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("Pss:"))


def closed_in(stream, seconds):
    """Seconds until the other end closed; fails when it does not."""
    begun = time.monotonic()
    stream.sock.settimeout(seconds)
    try:
        stream.rest()
    except ConnectionError:
        pass
    return time.monotonic() - begun
