"""What a caller with a key of his own, code inside a sandbox, or a server that lies, gets out of
the gateway: nothing of anybody else's, nothing unasked, and it goes on serving."""
import contextlib
import http.client
import http.server
import json
import os
import pathlib
import signal
import socket
import threading

import front as fronts
import pytest

RULES = {"rules": [{"command": ["sg-danger"], "why": "does what a person should see", "level": "high"},
                   {"writes": ["/etc/**"], "why": "changes the system", "level": "high"},
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


def held_or_not(one, ask):
    """What came back, and whether a person was asked: who then says no."""
    seen = []
    runs = threading.Thread(target=lambda: seen.append(ask()))
    runs.start()
    waits = fronts.flow.wait_for(lambda: waiting(one) or seen, 10)
    if not seen:
        one.must("approvals", "deny", str(waits[0]["id"]))
    runs.join(20)
    return seen[0], waits is not seen


def test_code_for_a_context_is_read_in_its_language_and_in_all_when_nobody_knows_it(one):
    ident = box_of(one)
    base = f"/v1/sandboxes/{ident}/proxy/44772/code"

    def run(text, source="127.0.0.1", language="python"):
        link = http.client.HTTPConnection(one.authority, timeout=60, source_address=(source, 0))
        with contextlib.closing(link):
            link.request("POST", base, json.dumps({"context": {"id": context, "language": language}, "code": text}),
                         {"OPEN-SANDBOX-API-KEY": one.key, "Content-Type": "application/json"})
            return link.getresponse().read().decode()
    context = one.ask("POST", f"{base}/context", {"language": "python"})[1]["id"]
    # Python's name of nothing and a shell's command: known to every worker, whichever saw it made.
    python_only = "1\nsg-danger"
    for source in (f"127.0.0.{i}" for i in range(1, 9)):
        said, was_held = held_or_not(one, lambda: run(python_only, source))
        assert not was_held and "NameError" in said
    for claimed in ("bash", ""):
        said, was_held = held_or_not(one, lambda: run(python_only, language=claimed))
        assert was_held and "SandgateDenied" in said
    # Control has forgotten it; who lists the contexts is known again.
    pid = one.gate.pids()["control"]
    os.kill(pid, signal.SIGKILL)
    fronts.flow.wait_for(lambda: one.gate.pids().get("control", pid) != pid)
    said, was_held = held_or_not(one, lambda: run(python_only))
    assert was_held and "SandgateDenied" in said
    assert one.ask("GET", f"{base}/contexts")[1] == [{"id": context, "language": "python"}]
    said, was_held = held_or_not(one, lambda: run(python_only))
    assert not was_held and "NameError" in said
    # One that was made past the gateway is nobody's either.
    made = list(one.standard.sandboxes.values())[-1].execd.contexts
    context, made["past"] = "past", made[context]
    assert held_or_not(one, lambda: run(python_only))[1]
    assert one.ask("DELETE", f"/v1/sandboxes/{ident}")[0] == 204


def upload(one, ident, places, kind="multipart/form-data; boundary=b"):
    body = "".join(f'--b\r\nContent-Disposition: form-data; name="metadata"; filename="metadata"\r\n'
                   f'Content-Type: application/json\r\n\r\n{place}\r\n--b\r\nContent-Disposition: form-data; '
                   f'name="file"; filename="f"\r\n\r\nx\r\n' for place in places) + "--b--\r\n"
    link = http.client.HTTPConnection(one.authority, timeout=20)
    link.request("POST", f"/v1/sandboxes/{ident}/proxy/44772/files/upload", body,
                 {"OPEN-SANDBOX-API-KEY": one.key, "Content-Type": kind})
    answer = link.getresponse()
    return answer.status, answer.read()


def test_an_upload_puts_nothing_where_a_person_would_be_asked(one, tmp_path):
    ident = box_of(one)
    good = json.dumps({"path": str(tmp_path / "good")})
    bad = tmp_path / "bad"
    for places in ([json.dumps({"path": "/etc/sg-test"})], [json.dumps({"path": str(bad)}), '{"path": "/tmp/../etc/sg-test"}'],
                   [json.dumps({"path": str(bad)}), '{"path": "/tmp/a", "path": "/etc/sg-test"}'],
                   [json.dumps({"path": str(bad)}), '{"path": "/\\u0065tc/sg-test"}'], ['{"Path": "/etc/sg-test"}']):
        code, text = upload(one, ident, places)
        assert code == 403 and b"UPLOAD_UNASKED" in text, (places, code, text)
    code, text = upload(one, ident, [good], "multipart/form-data; boundary*=utf-8''b")
    assert code == 403, (code, text)
    # The head went on, as the caller wrote it: what the fake says of that, maybe after our answer.
    fronts.flow.wait_for(lambda: one.standard.breaches, 10)
    one.standard.breaches.clear()
    assert not bad.exists() and not pathlib.Path("/etc/sg-test").exists()
    assert upload(one, ident, [good])[0] == 200 and (tmp_path / "good").read_bytes() == b"x"
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


class Liar:
    """A server that says what a test wants: answer(method, path) -> (status, bytes) or None."""

    def __init__(self):
        self.seen, self.made, self.answer = [], 0, lambda method, path: None
        liar = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def any(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                liar.seen.append((self.command, self.path))
                code, text = liar.answer(self.command, self.path) or liar.usual(self.command, self.path)
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_DELETE = do_PATCH = any

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def usual(self, method, path):
        if method == "POST" and path == "/v1/sandboxes":
            self.made += 1
            return 202, json.dumps({"id": f"upstream-{self.made:04}", "status": {"state": "Running"}}).encode()
        if method == "GET" and path.startswith("/v1/sandboxes?"):
            return 200, b'{"items": [], "pagination": {"hasNextPage": false}}'
        return (204, b"") if method == "DELETE" else (200, b"{}")


@pytest.fixture
def lied(front):
    liar = Liar()
    made = front({"standard": (liar.url, "key")})
    made.liar, made.bob = liar, made.user("bob")
    yield made
    liar.server.shutdown()
    liar.server.server_close()


def says(one, method, path, text, code=200):
    one.liar.answer = lambda m, p: (code, text) if m == method and path in p else None


def test_an_answer_of_any_length_is_told_or_refused_and_ends_nothing(lied):
    ident = box_of(lied)
    for text in (b"[" + b"1," * 20000 + b"1]", b"a" * 40000, b"a" * 4000000, b"[" + b"1," * 1900000 + b"1]",
                 b"[" * 300, b'{"a":' * 300 + b"1" + b"}" * 300, b"a" * 9000000):
        says(lied, "GET", "diagnostics", text)
        code, got, _ = lied.ask("GET", f"/v1/sandboxes/{ident}/diagnostics/logs")
        assert code in (200, 502, 503), (code, got)
        assert len(text) > 4000000 or code == 200
        assert "NO_CONTROL" not in str(got)[:200], f"control ended by {text[:20]}"
    assert "killed by" not in lied.gate.text_of_log()
    lied.liar.answer = lambda m, p: None
    assert lied.create()[0] == 202


def test_a_list_that_fills_more_than_a_message_is_told(lied):
    for _ in range(40):
        assert lied.create(entrypoint=["a" * 1000])[0] == 202
    code, told, _ = lied.ask("GET", "/v1/sandboxes?pageSize=200")
    assert code == 200 and len(told["items"]) == 40 and len(json.dumps(told)) > 40000
    assert "killed by" not in lied.gate.text_of_log()


LIES = [b'{"id": ".."}', b'{"id": "a/b"}', b"{}", b'{"id": 7}', b'{"id": "a\\u0000b"}', b"[]", b'{"id": "x1", "id": "x2"}',
        b"", b"<html>", b'{"id": "' + b"a" * 3000000 + b'"}', b"[" * 3000000, b'{"id": "a b"}', b'{"id": "x\\r\\ny"}']


def test_a_server_that_lies_about_what_it_made_gives_nobody_anothers(lied):
    alices = box_of(lied)
    says(lied, "POST", "/v1/sandboxes", b'{"id": "upstream-0001", "status": {"state": "Running"}}', 202)
    assert lied.create(key=lied.bob)[0] in (409, 502)
    for text in LIES:
        says(lied, "POST", "/v1/sandboxes", text, 202)
        assert lied.create(key=lied.bob)[0] in (502, 503), text[:40]
    lied.liar.answer = lambda m, p: None
    assert not [s for s in lied.liar.seen if s == ("DELETE", "/v1/sandboxes/upstream-0001")], "it ended alice's"
    assert lied.ask("GET", f"/v1/sandboxes/{alices}")[0] == 200
    assert lied.ask("GET", f"/v1/sandboxes/{alices}", key=lied.bob)[0] == 404
    assert "killed by" not in lied.gate.text_of_log()


ELSEWHERE = ["169.254.169.254:80", "8.8.8.8:80", "[::ffff:169.254.169.254]:80", "0x7f.1:80", "127.1:80", "2130706433:80",
             "metadata.google.internal", "user@127.0.0.1:80", "http://127.0.0.1:1/", "127.0.0.1:1/../x", "127.0.0.1:0",
             "127.0.0.1:99999", "[::1]x:80", "", "127.0.0.1:1?x", "127.0.0.1:1#x", "127.0.0.1:1/a b", "a\r\nb:80"]


def test_a_server_sends_nobody_to_where_no_endpoint_may_lie(lied):
    ident = box_of(lied)
    own = f"127.0.0.1:{lied.gate.exec[1]}"
    for at, where in enumerate([*ELSEWHERE, own]):
        says(lied, "GET", "/endpoints/", json.dumps({"endpoint": where}).encode())
        code, text, _ = lied.ask("GET", f"/v1/sandboxes/{ident}/proxy/{20000 + at}/x")
        assert code in (403, 502), (where, code, text)
    lied.liar.answer = lambda m, p: None
    assert lied.create()[0] == 202


# -- who has a key and wants more --

def test_a_key_of_little_scope_does_no_more_in_any_spelling(one):
    ident = box_of(one)
    reads = one.user("alice", "--scopes", "read")
    for method, path, body in [
            ("POST", "/proxy/44772/command", {"command": "true"}), ("GET", "/proxy/44772/files/download?path=/x", None),
            ("POST", "/proxy/8080/proxy/44772/command", {"command": "true"}), ("GET", "/proxy/44772/newer", None),
            ("GET", "/proxy/44772/proxy/8080/", None), ("DELETE", "", None), ("POST", "/pause", None),
            ("PUT", "/networkpolicy", {"defaultAction": "allow"}), ("POST", "/proxy/44772/proxy/18080/policy", {}),
            ("POST", "/renew-expiration", {"expiresAt": "2999-01-01T00:00:00Z"}), ("POST", "/snapshots", {}),
            ("PATCH", "/metadata", {"a": "b"}), ("GET", "/proxy/18080/credential-vault", None)]:
        for prefix in ("/v1", ""):
            code, text, _ = one.ask(method, f"{prefix}/sandboxes/{ident}{path}", body, key=reads)
            egress_read = method == "GET" and "18080" in path
            assert code in ((403, 404, 200) if egress_read else (403, 404)), (method, path, code, text)
    told = one.ask("GET", f"/v1/sandboxes/{ident}/endpoints/44772", key=reads)[1]
    code, text, _ = one.ask("POST", f"/v1/sandboxes/{ident}/proxy/44772/command", {"command": "true"}, key="",
                            **told["headers"])
    assert code == 403, "a capability does more than its key"
    assert one.ask("DELETE", f"/v1/sandboxes/{ident}")[0] == 204


def test_a_capability_is_for_its_sandbox_and_port_and_ends_with_it(one):
    first, second = box_of(one), box_of(one)
    hand = one.ask("GET", f"/v1/sandboxes/{first}/endpoints/44772")[1]["headers"]
    app = one.ask("GET", f"/v1/sandboxes/{first}/endpoints/8080")[1]["headers"]

    def try_it(hand, path, method="GET", **more):
        return one.ask(method, path, key="", **hand, **more)[0]

    assert try_it(hand, f"/v1/sandboxes/{first}/proxy/44772/ping") == 200
    assert try_it(hand, f"/v1/sandboxes/{second}/proxy/44772/ping") == 401
    assert try_it(app, f"/v1/sandboxes/{first}/proxy/44772/ping") == 401
    assert try_it(app, f"/v1/sandboxes/{first}/proxy/8080/proxy/44772/ping") != 200
    assert try_it(hand, f"/v1/sandboxes/{first}/proxy/18080/policy") == 401
    assert try_it(hand, f"/v1/sandboxes/{first}") == 401
    assert try_it(hand, f"/v1/sandboxes/{first}", method="DELETE") == 401
    value = hand["X-Sandgate-Capability"]
    for bad in (value[:-1], value + "A", value[:20] + ("A" if value[20] != "A" else "B") + value[21:], value.lower(), value * 2):
        assert try_it({"X-Sandgate-Capability": bad}, f"/v1/sandboxes/{first}/proxy/44772/ping") == 401
    assert try_it(hand, f"/v1/sandboxes/{first}/proxy/44772/ping", X_Sandgate_On_Behalf_Of="bob") == 403
    assert one.ask("DELETE", f"/v1/sandboxes/{first}")[0] == 204
    assert try_it(hand, f"/v1/sandboxes/{first}/proxy/44772/ping") == 404
    assert one.ask("DELETE", f"/v1/sandboxes/{second}")[0] == 204


def test_names_and_idempotency_keys_of_others_lead_to_nothing_of_theirs(one):
    bob = one.user("bob")
    naming = {"X_Sandgate_Session": "s1", "Idempotency_Key": "same"}
    alices = one.create(fields=naming)[1]["id"]
    bobs = one.create(key=bob, fields=naming)[1]["id"]
    assert alices != bobs
    assert one.create(fields=naming)[1]["id"] == alices
    snapshot = one.ask("POST", f"/v1/sandboxes/{alices}/snapshots", {})[1]["id"]
    assert one.ask("GET", f"/v1/snapshots/{snapshot}", key=bob)[0] == 404
    assert one.ask("DELETE", f"/v1/snapshots/{snapshot}", key=bob)[0] == 404
    upstream = next(iter(one.standard.snapshots)) if getattr(one.standard, "snapshots", None) else "x"
    for name in (snapshot, str(upstream)):
        code, text, _ = one.create(key=bob, image=None, snapshotId=name)
        assert code == 404, (name, code, text)
    assert one.ask("GET", "/v1/snapshots", key=bob)[1]["items"] == []
    inside = next(iter(one.standard.sandboxes))
    for name in (alices, inside):
        assert one.ask("GET", f"/v1/sandboxes/{name}", key=bob)[0] == 404
    assert one.create(key=bob, fields={"X_Sandgate_On_Behalf_Of": "alice"})[0] == 403
    assert one.create(fields={"X_Sandgate_Session": "a/b"})[0] == 400
    assert one.ask("DELETE", f"/v1/snapshots/{snapshot}")[0] == 204
    for key, name in ((None, alices), (bob, bobs)):
        assert one.ask("DELETE", f"/v1/sandboxes/{name}", key=key)[0] == 204
