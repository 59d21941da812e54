"""What came, kept byte for byte and judged; and what shall go wrong with the next one.

A Judge is the half of the fake server that knows no routes: every surface hands it each
request through `serve`, and `check` raises with every breach so far.
"""
import dataclasses
import random
import re
import threading
import time

import wire

# What a client of the lifecycle API may send; anything else is a field that leaked.
COMMON = {"host", "user-agent", "accept", "accept-encoding", "accept-language", "cache-control", "connection",
          "content-length", "content-type", "transfer-encoding", "x-request-id", "expect", "priority"}
# What SDKs send and a gateway has no reason to: undici's, the address that they tell, and the
# API key that the npm SDK hands to the sandbox (OpenSandbox #1689).
CLIENTS = {"open-sandbox-api-key", "sec-fetch-mode", "sec-fetch-site", "sec-fetch-dest", "open-sandbox-client-ip", "pragma"}
SOCKETS = {"upgrade", "sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol",
           "sec-websocket-extensions", "origin"}
SURFACES = {"lifecycle": COMMON | {"open-sandbox-api-key"},
            "execd": COMMON | SOCKETS | {"x-execd-access-token", "opensandbox-egress-auth", "range", "if-range"},
            "egress": COMMON | {"opensandbox-egress-auth"}}
# Through the server's own proxy the key may come: the SDKs send it, and the server strips it.
SURFACES["proxy"] = SURFACES["execd"] | {"open-sandbox-api-key"}


@dataclasses.dataclass
class Record:
    """One request as it came and how it was answered."""

    surface: str
    sandbox: str
    method: str
    target: str
    head: bytes
    fields: list
    tape: list
    exchange: wire.Exchange
    began: float

    @property
    def body(self):
        """As it came, framing of chunks included; what is kept of it."""
        return b"".join(self.tape)

    @property
    def status(self):
        return self.exchange.status

    @property
    def answer(self):
        return self.exchange.fields

    def all(self, name):
        return [v for n, v in self.fields if n.lower() == name.lower()]


@dataclasses.dataclass
class Fault:
    """What goes wrong with the next `times` requests that fit.

    delay: seconds before; status: this instead of doing it (body as JSON or bytes); raw: these
    bytes instead of an answer; cut: the answer ends after so many bytes; done: do it first,
    and then fail (a create whose answer is lost)."""

    method: str = ".*"
    path: str = ".*"
    surface: str = "lifecycle"
    times: int = 1
    delay: float = 0.0
    status: int = None
    body: object = None
    raw: bytes = None
    cut: int = None
    done: bool = False

    def fits(self, surface, request):
        prefix = r"(/v1)?" if surface == "lifecycle" else r"(?:(/v1)?/sandboxes/[^/]+)?(/proxy/\d+)?"
        return (self.times > 0 and self.surface in (surface, "any") and re.fullmatch(self.method, request.method)
                and re.fullmatch(prefix + self.path, request.path))


class Tape(list):
    """What was read of one request's body, at most `most` bytes of it kept, all of it watched:
    before anything is done with it, so a test that got its answer finds the breach told."""

    def __init__(self, most, watch):
        super().__init__()
        self.most, self.watch, self.last = most, watch, b""

    def append(self, data):
        self.watch(self.last + data)
        self.last = (self.last + data)[-100:]
        if self.most > 0:
            super().append(data[: self.most])
            self.most -= len(data)


class Faults(list):
    """In the order given; the first that fits is used up."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()

    def add(self, fault):
        with self.lock:
            self.append(fault)
        return fault

    def take(self, surface, request):
        with self.lock:
            for fault in self:
                if fault.fits(surface, request):
                    fault.times -= 1
                    return fault
        return None


class Sink:
    """Where an answer goes that nobody shall get."""

    def sendall(self, data):
        pass


class Judge:
    """`gateway`: the caller is sandgate, not an SDK.  `secrets`: words that must never come.
    `allow`: more field names that may come.  `keep_body`: bytes of each body that are kept."""

    def __init__(self, options):
        self.gateway, self.secrets = options.get("gateway", False), list(options.get("secrets", ()))
        self.allow = {name.lower() for name in options.get("allow", ())} | (set() if self.gateway else CLIENTS)
        self.keep_body = options.get("keep_body", 1 << 20)
        self.records, self.breaches, self.faults = [], [], Faults()
        self.lock = threading.RLock()

    def breach(self, what, where=""):
        with self.lock:
            self.breaches.append(f"{what} ({where})" if where else what)

    def forgive(self, pattern):
        """Breaches that a test makes on purpose; how many there were."""
        with self.lock:
            kept = [b for b in self.breaches if not re.search(pattern, b)]
            count, self.breaches = len(self.breaches) - len(kept), kept
        return count

    def judge_as(self, surface, ident):
        def judge(what, request):
            line = request.raw_head.split(b"\r\n")[0] if isinstance(request, wire.Request) else request[:200]
            self.breach(f"{surface}: {what}", f"{ident} {line!r}")
        return judge

    def check(self):
        """Every breach so far; none is left afterwards."""
        with self.lock:
            found, self.breaches = self.breaches, []
        if found:
            raise AssertionError("OpenSandbox's contract was broken:\n  " + "\n  ".join(found))

    def judge_fields(self, surface, request, ident):
        where = f"{request.method} {request.target} {ident}"
        allowed = SURFACES.get(surface, set()) | self.allow
        app = surface == "app" or surface in ("execd", "proxy") and re.search(r"/proxy/(?!44772|18080)\d+", request.path)
        for name, value in request.fields:
            if name.lower() not in allowed and not app:
                self.breach(f"{surface}: field {name} has no business here", where)
            self._judge_secrets(f"{name}: {value}".encode(), where)
        self._judge_secrets(request.target.encode(), where)
        if request.method in ("GET", "HEAD") and request.body_left:
            self.breach(f"{surface}: a {request.method} with a body", where)
        if surface not in ("lifecycle", "proxy") and request.all("open-sandbox-api-key") and self.gateway:
            self.breach("the API key inside a sandbox", where)

    def _judge_secrets(self, data, where):
        for word in self.secrets:
            if word.encode() in data:
                self.breach(f"the secret {word[:4]}... upstream", where)

    # -- every request of every surface --

    def serve(self, surface, ident, request, exchange, handle):
        where = f"body of {request.method} {request.target}"
        tape = Tape(self.keep_body, lambda data: self._judge_secrets(data, where))
        record = Record(surface, ident, request.method, request.target, request.raw_head, list(request.fields),
                        tape, exchange, time.time())
        with self.lock:
            self.records.append(record)
        self.judge_fields(surface, request, ident)
        fault = self.faults.take(self._inner(surface, request), request)
        request.source.tape = tape
        try:
            self._with(fault, request, exchange, handle)
            for _ in request.chunks():
                pass
        finally:
            request.source.tape = None

    @staticmethod
    def _inner(surface, request):
        """What the request means, whichever way it came: a fault of execd fits both ways."""
        if surface == "lifecycle":
            return surface
        return "egress" if "/proxy/18080" in request.path else "execd"

    def _with(self, fault, request, exchange, handle):
        if fault is None:
            handle(request, exchange)
            return
        time.sleep(fault.delay)
        if fault.done:
            quiet = wire.Exchange(Sink(), request)
            handle(request, quiet)
        exchange.cut_after = fault.cut
        if fault.raw is not None:
            exchange.sock.sendall(fault.raw)
            raise wire.Gone("a fault")
        if fault.status is not None:
            body = fault.body if fault.body is not None else {"code": "FAKE::FAULT", "message": "a fault of the test"}
            if isinstance(body, bytes):
                exchange.answer(fault.status, body, "application/json")
            else:
                exchange.json(fault.status, body)
        elif fault.done:
            raise wire.Gone("the answer is lost")
        else:
            handle(request, exchange)

    def of(self, surface, method=".*", path=".*"):
        return [r for r in self.records if r.surface == surface and re.fullmatch(method, r.method)
                and re.fullmatch(path, r.target.partition("?")[0])]


def hostile():
    """Answers that no server gives and a gateway must survive, by name."""
    kind = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

    def with_length(body):
        return kind + b"Content-Length: %d\r\n\r\n" % len(body) + body

    return {
        "not HTTP": b"\x16\x03\x01\x02\x00garbage\r\n\r\n",
        "two lengths": kind + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        "length and chunks": kind + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "short body": kind + b"Content-Length: 100\r\n\r\n{\"id\":",
        "endless head": b"HTTP/1.1 200 OK\r\nX-Pad: " + b"a" * 400000 + b"\r\n\r\n",
        "deep JSON": with_length(b"[" * 200000),
        "broken UTF-8": with_length(b'{"id":"\xff\xfe"}'),
        "a name twice": with_length(b'{"id":"a","id":"../"}'),
        "id with a path": with_length(b'{"id":"../../sandboxes/x"}'),
        "empty": b"",
        "random": random.Random(7).randbytes(4096),
    }
