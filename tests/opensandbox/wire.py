"""HTTP/1.1 and websocket servers of our own, strict on purpose: what a proxy in front
sends is judged byte by byte and kept, where a library would mend it in silence.

One thread per connection.  A request that breaks HTTP is told to `judge`, answered 400
and its connection closed.  Standard library only: this file also runs inside sandboxes.
"""
import base64
import hashlib
import json
import re
import select
import socket
import struct
import threading
import time
from urllib.parse import parse_qsl, unquote

TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
MAX_HEAD = 64 * 1024
REASONS = {101: "Switching Protocols", 200: "OK", 201: "Created", 202: "Accepted", 204: "No Content",
           206: "Partial Content", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found",
           405: "Method Not Allowed", 409: "Conflict", 416: "Range Not Satisfiable",
           422: "Unprocessable Entity", 500: "Internal Server Error", 501: "Not Implemented",
           502: "Bad Gateway", 503: "Service Unavailable"}
# Fields that may come more than once; any other that does is a breach.
LISTS = {"accept", "accept-encoding", "accept-language", "cache-control", "connection", "forwarded", "via",
         "x-forwarded-for"}


class Broken(Exception):
    """The peer's bytes are no HTTP."""


class Gone(Exception):
    """The peer closed, or a fault of a test says so."""


class Source:
    """Reads of a socket with a buffer, all of them kept while `tape` is set."""

    def __init__(self, sock):
        self.sock, self.held, self.tape = sock, b"", None

    def _fill(self):
        more = self.sock.recv(65536)
        if not more:
            raise Gone("closed")
        self.held += more

    def take(self, count):
        while len(self.held) < count:
            self._fill()
        return self._give(count)

    def some(self, most):
        if not self.held:
            self._fill()
        return self._give(min(most, len(self.held)))

    def until(self, mark, most):
        while mark not in self.held:
            if len(self.held) > most:
                raise Broken(f"no end of {mark!r} within {most} bytes")
            self._fill()
        return self._give(self.held.index(mark) + len(mark))

    def _give(self, count):
        data, self.held = self.held[:count], self.held[count:]
        if self.tape is not None:
            self.tape.append(data)
        return data


class Request:
    """One request: the head parsed, the bytes as they came, the body still to be read."""

    def __init__(self, source, raw):
        self.source, self.raw_head, self.raw_body = source, raw, []
        self.began = time.monotonic()
        line, *fields = raw[:-4].split(b"\r\n")
        if b"\n" in raw.replace(b"\r\n", b"") or b"\r" in raw.replace(b"\r\n", b""):
            raise Broken("a bare CR or LF in the head")
        parts = line.split(b" ")
        if len(parts) != 3 or not TOKEN.match(parts[0]) or parts[2] != b"HTTP/1.1":
            raise Broken(f"request line {line!r}")
        self.method, self.target = parts[0].decode(), parts[1].decode("latin-1")
        if not self.target.startswith("/") or re.search(r"[^\x21-\x7e]", self.target):
            raise Broken(f"target {self.target!r} is no origin-form")
        self.fields = [self._field(f) for f in fields]
        self.path, _, self.query = self.target.partition("?")
        self.body_left = self._framing()

    @staticmethod
    def _field(line):
        name, colon, value = line.partition(b":")
        if not colon or not TOKEN.match(name) or b"\0" in value:
            raise Broken(f"field line {line!r}")
        return name.decode(), value.strip(b" \t").decode("latin-1")

    def all(self, name):
        return [v for n, v in self.fields if n.lower() == name.lower()]

    def get(self, name, default=None):
        found = self.all(name)
        return found[0] if found else default

    def _framing(self):
        names = [n.lower() for n, _ in self.fields]
        for name in set(names):
            if names.count(name) > 1 and name not in LISTS:
                raise Broken(f"field {name} came {names.count(name)} times")
        if names.count("host") != 1:
            raise Broken("not exactly one Host")
        length, coding = self.get("content-length"), self.get("transfer-encoding")
        if length is not None and coding is not None:
            raise Broken("both Content-Length and Transfer-Encoding")
        if coding is not None and coding.lower() != "chunked":
            raise Broken(f"transfer coding {coding!r}")
        if length is not None and not re.fullmatch(r"[0-9]{1,15}", length):
            raise Broken(f"length {length!r}")
        return "chunked" if coding else int(length or 0)

    @property
    def args(self):
        return parse_qsl(self.query, keep_blank_values=True)

    def arg(self, name, default=None):
        return next((v for n, v in self.args if n == name), default)

    @property
    def segments(self):
        return [unquote(s) for s in self.path.split("/")[1:]]

    def chunks(self):
        """The body in pieces as they come; kept in raw_body only by who wants it."""
        if self.body_left == "chunked":
            yield from self._chunked()
        else:
            while self.body_left:
                piece = self.source.some(min(self.body_left, 65536))
                self.body_left -= len(piece)
                yield piece
        self.body_left = 0

    def _chunked(self):
        while True:
            line = self.source.until(b"\r\n", 256)[:-2]
            if not re.fullmatch(rb"[0-9A-Fa-f]{1,12}", line):
                raise Broken(f"chunk size {line!r}")
            left = int(line, 16)
            if left == 0:
                if self.source.until(b"\r\n", 8192) != b"\r\n":
                    raise Broken("trailers")
                return
            while left:
                piece = self.source.some(min(left, 65536))
                left -= len(piece)
                yield piece
            if self.source.take(2) != b"\r\n":
                raise Broken("a chunk without its end")

    def body(self):
        if not self.raw_body:
            self.raw_body = [b"".join(self.chunks())]
        return self.raw_body[0]

    def json(self):
        """Strictly: the right type, UTF-8, no name twice."""
        kind = (self.get("content-type") or "").split(";")[0].strip().lower()
        if kind != "application/json":
            raise Broken(f"content type {kind!r} where JSON belongs")

        def once(pairs):
            if len({k for k, _ in pairs}) != len(pairs):
                raise Broken("a JSON name twice")
            return dict(pairs)

        try:
            return json.loads(self.body().decode(), object_pairs_hook=once)
        except ValueError as why:
            raise Broken(f"JSON body: {why}") from None


class Exchange:
    """The answering half.  Each `begin` or `answer` is once; `cut_after` is a fault."""

    def __init__(self, sock, request):
        self.sock, self.request = sock, request
        self.status, self.fields, self.sent = None, [], 0
        self.keep, self.cut_after, self.chunked = True, None, False
        self.extra = []  # fields that every answer of this surface carries

    def _send(self, data):
        if self.cut_after is not None and self.sent + len(data) > self.cut_after:
            self.sock.sendall(data[: max(0, self.cut_after - self.sent)])
            raise Gone("cut")
        self.sock.sendall(data)
        self.sent += len(data)

    def _head(self, status, fields):
        self.status, self.fields = status, [*self.extra, *fields]
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}"] + [f"{n}: {v}" for n, v in self.fields]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def answer(self, status, body=b"", kind=None, fields=()):
        head = list(fields)
        if kind:
            head.append(("Content-Type", kind))
        if status not in (101, 204):
            head.append(("Content-Length", str(len(body))))
        self._send(self._head(status, head) + (b"" if self.request.method == "HEAD" else body))

    def json(self, status, value, fields=()):
        self.answer(status, json.dumps(value).encode(), "application/json", fields)

    def fail(self, status, code, message):
        self.json(status, {"code": code, "message": message})

    def begin(self, status, kind, fields=(), length=None):
        """Head of a stream: chunked, or of a length known before."""
        self.chunked = length is None
        how = ("Transfer-Encoding", "chunked") if self.chunked else ("Content-Length", str(length))
        self._send(self._head(status, [*fields, ("Content-Type", kind), how]))

    def write(self, data):
        if data:
            self._send(b"%x\r\n%b\r\n" % (len(data), data) if self.chunked else data)

    def end(self):
        if self.chunked:
            self._send(b"0\r\n\r\n")


class Server:
    """Accepts on one address; each request goes to `handle(request, exchange)`."""

    def __init__(self, handle, host="127.0.0.1", port=0, judge=lambda what, request: None, listener=None):
        self.handle, self.judge = handle, judge
        self.sock = listener or socket.create_server((host, port), backlog=1024)
        self.host, self.port = self.sock.getsockname()[:2]
        self.open, self.lock, self.closed = set(), threading.Lock(), False
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    @property
    def authority(self):
        return f"{self.host}:{self.port}"

    def _accept(self):
        while not self.closed:
            try:
                sock, _ = self.sock.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.open.add(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        source = Source(sock)
        try:
            while self._one(sock, source):
                pass
        except (Gone, OSError):
            pass
        finally:
            with self.lock:
                self.open.discard(sock)
            sock.close()

    def _one(self, sock, source):
        raw = source.until(b"\r\n\r\n", MAX_HEAD)
        request = None
        try:
            request = Request(source, raw)
            exchange = Exchange(sock, request)
            if (request.get("expect") or "").lower() == "100-continue":
                sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.handle(request, exchange)
            for _ in request.chunks():
                pass
        except Broken as why:
            self.judge(str(why), request or raw)
            sock.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return False
        except (Gone, OSError):
            raise
        except Exception as why:  # a fault of ours: the test must hear of it, whoever asked
            self.judge(f"the handler failed: {why!r}", request or raw)
            raise
        return exchange.keep and (request.get("connection") or "").lower() != "close"

    def close(self):
        self.closed = True
        for sock in [self.sock, *self.open]:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.sock.close()
        self.thread.join(5)


# -- websockets (RFC 6455), both ends ------------------------------------------------

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def accept_key(key):
    return base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()


class Websocket:
    """A connection after its 101.  `masks` says whether this end is the client."""

    def __init__(self, sock, source, masks):
        self.sock, self.source, self.masks = sock, source, masks
        self.lock, self.closed = threading.Lock(), False

    @classmethod
    def accept(cls, request, exchange, protocol=None):
        """Strictly what the contract wants of an upgrade; Broken otherwise."""
        if (request.get("connection"), (request.get("upgrade") or "").lower()) != ("Upgrade", "websocket"):
            raise Broken(f"upgrade with Connection {request.all('connection')}, Upgrade {request.all('upgrade')}")
        key = request.get("sec-websocket-key") or ""
        if request.get("sec-websocket-version") != "13" or len(base64.b64decode(key)) != 16:
            raise Broken("websocket version or key")
        fields = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accept_key(key))]
        if protocol:
            fields.append(("Sec-WebSocket-Protocol", protocol))
        exchange.answer(101, fields=fields)
        exchange.keep = False
        return cls(exchange.sock, request.source, masks=False)

    @classmethod
    def dial(cls, host, port, target, fields=(), timeout=20):
        sock = socket.create_connection((host, port), timeout)
        key = base64.b64encode(b"0123456789abcdef").decode()
        lines = [f"GET {target} HTTP/1.1", f"Host: {host}:{port}", "Upgrade: websocket", "Connection: Upgrade",
                 f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", *(f"{n}: {v}" for n, v in fields)]
        sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        source = Source(sock)
        head = source.until(b"\r\n\r\n", MAX_HEAD).decode("latin-1")
        status = int(head.split(" ", 2)[1])
        if status != 101:
            sock.close()
            raise Broken(f"websocket refused: {status}")
        if accept_key(key) not in head:
            raise Broken("Sec-WebSocket-Accept")
        return cls(sock, source, masks=True)

    def send(self, data, kind=None):
        if isinstance(data, str):
            data, kind = data.encode(), kind or TEXT
        kind, size = kind or BINARY, len(data)
        mark = 0x80 if self.masks else 0
        head = bytes([0x80 | kind])
        if size < 126:
            head += bytes([mark | size])
        elif size < 65536:
            head += bytes([mark | 126]) + struct.pack(">H", size)
        else:
            head += bytes([mark | 127]) + struct.pack(">Q", size)
        if self.masks:
            mask = b"\x5a\xa5\x3c\xc3"
            head += mask
            data = bytes(b ^ mask[i & 3] for i, b in enumerate(data))
        with self.lock:
            self.sock.sendall(head + data)

    def _frame(self):
        first, second = self.source.take(2)
        size, kind = second & 0x7F, first & 0x0F
        if first & 0x70:
            raise Broken("a reserved bit in a frame")
        if bool(second & 0x80) == self.masks:
            raise Broken("a frame masked by the wrong side")
        if kind >= 8 and (size > 125 or not first & 0x80):
            raise Broken("a long or split control frame")
        if size == 126:
            size = struct.unpack(">H", self.source.take(2))[0]
        elif size == 127:
            size = struct.unpack(">Q", self.source.take(8))[0]
        mask = self.source.take(4) if second & 0x80 else None
        data = self.source.take(size)
        if mask:
            data = bytes(b ^ mask[i & 3] for i, b in enumerate(data))
        return bool(first & 0x80), kind, data

    def receive(self):
        """(kind, data) of the next whole message; pings are answered; CLOSE is told once."""
        kind, whole = None, b""
        while True:
            last, what, data = self._frame()
            if what == PING:
                self.send(data, PONG)
            elif what == CLOSE:
                self.closed = True
                return CLOSE, data
            elif what != PONG:
                kind = what or kind
                whole += data
                if last:
                    return kind, whole

    def close(self, code=1000, reason=""):
        try:
            if not self.closed:
                self.closed = True
                self.send(struct.pack(">H", code) + reason.encode(), CLOSE)
        except OSError:
            pass

    def hang_up(self):
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.sock.close()


def pour(first, second):
    """Bytes both ways until one side ends: what a tunnel does after its 101."""
    pair = {first.sock: second.sock, second.sock: first.sock}
    for source, other in ((first, second.sock), (second, first.sock)):
        if source.held:
            other.sendall(source.held)
            source.held = b""
    while True:
        for sock in select.select(list(pair), [], [])[0]:
            data = sock.recv(65536)
            if not data:
                return
            pair[sock].sendall(data)
