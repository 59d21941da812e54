"""What a caller with a key of his own, code inside a sandbox, or a server that lies, gets out of
the gateway: nothing of anybody else's, nothing unasked, and it goes on serving."""
import contextlib
import http.client
import json
import socket
import threading

import front as fronts
import pytest

RULES = {"rules": [{"command": ["sg-danger"], "why": "does what a person should see", "level": "high"},
                   {"sets": ["LD_PRELOAD"], "why": "loads foreign code into programs", "level": "high"}]}


@pytest.fixture
def one(fake, front):
    standard = fake(gateway=True)
    made = front({"standard": (standard.url, standard.key)}, more={"exec": {"approval": "high"}, "risk": RULES})
    made.standard = standard
    return made


def box_of(one, **more):
    code, made, _ = one.create(**more)
    assert code == 202, made
    return made["id"]


def serves(one):
    """After what was done to it."""
    ident = box_of(one)
    code, text, _ = one.ask("POST", f"/v1/sandboxes/{ident}/proxy/44772/command", {"command": "echo still here"})
    assert code == 200 and "still here" in text, text
    assert one.ask("DELETE", f"/v1/sandboxes/{ident}")[0] == 204


class Evil:
    """Something else behind the endpoint of a sandbox: each connection gets these bytes."""

    def __init__(self, say):
        self.say, self.socket = say, socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                link = self.socket.accept()[0]
                threading.Thread(target=self.one, args=(link,), daemon=True).start()

    def one(self, link):
        with contextlib.suppress(OSError), link:
            link.settimeout(20)
            seen = b""
            while b"\r\n\r\n" not in seen:
                seen += link.recv(65536) or b"\r\n\r\n"
            self.say(link) if callable(self.say) else link.sendall(self.say)

    def close(self):
        self.socket.close()


@contextlib.contextmanager
def evil(one, say):
    """A sandbox whose endpoints are all one Evil: its id."""
    ident = box_of(one)
    inside = list(one.standard.sandboxes.values())[-1]
    it = Evil(say)
    inside.endpoint = lambda port: {"endpoint": f"127.0.0.1:{it.port}"}
    try:
        yield ident
    finally:
        it.close()
        assert one.ask("DELETE", f"/v1/sandboxes/{ident}")[0] == 204


RISKY = [
    ("/code", {"code": "sg-danger"}),
    ("/code", {"context": {"id": "c1"}, "code": "sg-danger"}),
    ("/code", {"context": {"language": "background-command"}, "code": "sg-danger"}),
    ("/code", {"language": "python", "code": "sg-danger"}),
    ("/command", {"command": "true", "envs": {"LD_PRELOAD": "/tmp/x.so"}}),
    ("/mcpproxy/upstreams", {"name": "x", "transport": "stdio", "command": "sh", "args": ["-c", "sg-danger"]}),
    ("/mcpproxy/upstreams", {"name": "x", "command": "y", "args": [], "env": {"LD_PRELOAD": "/tmp/x.so"}}),
    ("/mcpproxy", {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                   "params": {"name": "shell", "arguments": {"line": "sg-danger"}}}),
    ("/proxy/44772/command", {"command": "sg-danger"}),
    ("/v1/isolated/session/s1/run", {"code": "sg-danger", "context": {"language": "python"}}),
    ("/pty", {"command": "sg-danger"}),
    ("/command", {"command": "true", "argv": ["sg-danger"]}),
    ("/command", {"command": "sg-\\\ndanger"}),
]


def waiting(one):
    return json.loads(one.must("approvals", "list", "--json"))["approvals"]


@pytest.mark.parametrize(("path", "body"), RISKY, ids=[f"{p}-{i}" for i, (p, _) in enumerate(RISKY)])
def test_what_execd_would_run_waits_for_a_person_however_it_is_written(one, path, body):
    ident = box_of(one)
    seen = []
    runs = threading.Thread(target=lambda: seen.append(
        one.ask("POST", f"/v1/sandboxes/{ident}/proxy/44772{path}", body)))
    runs.start()
    waits = fronts.flow.wait_for(lambda: waiting(one) or seen, 10)
    assert not seen, f"it went on unasked: {seen}"
    one.must("approvals", "deny", str(waits[0]["id"]))
    runs.join(20)
    assert seen[0][0] == 403 or "SandgateDenied" in seen[0][1]
    assert not [r for r in one.standard.records if r.surface == "execd" and r.method == "POST"]
    assert one.ask("DELETE", f"/v1/sandboxes/{ident}")[0] == 204


def test_a_grant_for_a_route_that_nobody_knows_is_for_one_request(one):
    with evil(one, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") as ident:
        for text in ("harmless", "something else"):
            seen = []
            runs = threading.Thread(target=lambda text=text, seen=seen: seen.append(
                one.ask("POST", f"/v1/sandboxes/{ident}/proxy/44772/newer/run", {"text": text})))
            runs.start()
            waits = fronts.flow.wait_for(lambda seen=seen: waiting(one) or seen, 10)
            assert not seen, f"{text} passed by the grant of another body: {seen}"
            one.must("approvals", "allow", str(waits[0]["id"]), "--scope", "always")
            runs.join(20)
            assert seen[0][:2] == (200, "ok")


@pytest.mark.parametrize("status", [301, 302, 307, 308, 201, 401])
def test_code_in_a_sandbox_leads_no_caller_elsewhere(one, status):
    say = (f"HTTP/1.1 {status} Elsewhere\r\nLocation: http://evil.example.test/\r\nContent-Length: 0\r\n"
           "X-Sandgate-Capability: mine\r\nX-Request-ID: forged\r\nOPEN-SANDBOX-API-KEY: x\r\n\r\n").encode()
    with evil(one, say) as ident:
        for method, path, body in [("POST", "/command", {"command": "true"}), ("GET", "/ping", None),
                                   ("GET", "/files/download?path=/x", None), ("POST", "/code", {"code": "true"})]:
            code, _, fields = one.ask(method, f"/v1/sandboxes/{ident}/proxy/44772{path}", body)
            low = {k.lower(): v for k, v in fields.items()}
            assert code == status and "location" not in low, (path, fields)
            assert "x-sandgate-capability" not in low and "open-sandbox-api-key" not in low
            assert low["x-request-id"] != "forged"


def pour(link):
    """A head that is right, and then for ever."""
    link.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    piece = b'{"type":"stdout","text":"' + b"a" * 60000
    for _ in range(200):
        link.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))


HOSTILE = {
    "nothing": b"", "no http": b"\x00" * 4096, "half a head": b"HTTP/1.1 200 OK\r\nX: ",
    "endless head": lambda link: [link.sendall(b"HTTP/1.1 200 OK\r\n")] + [link.sendall(b"A: " + b"b" * 60000 + b"\r\n")
                                                                           for _ in range(100)],
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bad chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "split": b"HTTP/1.1 200 OK\r\nX: a\nSet-Cookie: b\rX-Y: z\r\nContent-Length: 0\r\n\r\n",
    "many 100s": lambda link: [link.sendall(b"HTTP/1.1 100 Continue\r\n\r\n") for _ in range(100000)],
    "early hints": b"HTTP/1.1 103 Early\r\nLink: <x>\r\nX-Sandgate-Capability: x\r\n\r\n" * 50,
    "unasked 101": b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x01a",
    "two answers": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond",
    "short body": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc",
    "packed events": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n"
                     b"Content-Length: 4\r\n\r\n\x1f\x8b\x08\x00",
    "deep events": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 400000\r\n\r\n" + b"[" * 400000,
    "endless events": pour,
}


@pytest.mark.parametrize("say", HOSTILE.values(), ids=HOSTILE.keys())
def test_an_execd_that_is_hostile_ends_its_own_requests_only(one, say):
    with evil(one, say) as ident:
        for method, path, body in [("POST", "/command", {"command": "true"}), ("GET", "/files/download?path=/x", None)]:
            link = http.client.HTTPConnection(one.authority, timeout=15)
            with contextlib.suppress(http.client.HTTPException, OSError):
                link.request(method, f"/v1/sandboxes/{ident}/proxy/44772{path}", body and json.dumps(body),
                             {"OPEN-SANDBOX-API-KEY": one.key, "Content-Type": "application/json"})
                answer = link.getresponse()
                assert "X-Sandgate-Capability" not in dict(answer.getheaders())
                text = answer.read(1 << 20)
                assert b"second" not in text
            link.close()
    serves(one)
    assert "died" not in one.gate.text_of_log()
