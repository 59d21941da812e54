"""The fake itself: what it answers, what it finds wrong, what it can be made to do wrong."""
import http.client
import json
import socket
import threading
import time

import pytest
import wire
from judge import Fault, hostile

BODY = {"image": {"uri": "sg/base:local"}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 600,
        "resourceLimits": {"cpu": "1", "memory": "256Mi"}}


def ask(authority, method, target, body=None, key=None, **fields):
    """(status, headers, bytes) over a connection of its own."""
    head = {name.replace("_", "-"): value for name, value in fields.items()}
    if key:
        head["OPEN-SANDBOX-API-KEY"] = key
    data = body
    if isinstance(body, (dict, list)):
        data = json.dumps(body).encode()
        head.setdefault("Content-Type", "application/json")
    host, _, port = authority.partition(":")
    link = http.client.HTTPConnection(host, int(port), timeout=20)
    try:
        link.request(method, target, data, head)
        answer = link.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        link.close()


def lifecycle(f, method, target, body=None, **fields):
    status, head, data = ask(f.server.authority, method, target, body, f.key, **fields)
    return status, json.loads(data) if data and "json" in head.get("Content-Type", "") else data


def made(f, **more):
    status, box = lifecycle(f, "POST", "/v1/sandboxes", {**BODY, **more})
    assert status == 202, box
    _, where = lifecycle(f, "GET", f"/v1/sandboxes/{box['id']}/endpoints/44772")
    authority, _, path = where["endpoint"].partition("/")
    return box["id"], authority, "/" + path


def events(data):
    return [json.loads(line) for line in data.split(b"\n\n") if line]


def raw(authority, data):
    host, _, port = authority.partition(":")
    with socket.create_connection((host, int(port)), 10) as sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        got = b""
        while piece := sock.recv(65536):
            got += piece
    return got


def test_a_sandbox_lives_at_root_and_below_v1(fake):
    f = fake()
    ident, _, _ = made(f)
    for prefix in ("", "/v1"):
        assert lifecycle(f, "GET", f"{prefix}/sandboxes/{ident}")[1]["status"]["state"] == "Running"
    assert lifecycle(f, "DELETE", f"/sandboxes/{ident}")[0] == 204
    assert lifecycle(f, "GET", f"/sandboxes/{ident}")[1]["code"] == "DOCKER::SANDBOX_NOT_FOUND"


def test_each_answer_of_the_server_has_a_request_id_and_the_callers_comes_back(fake):
    f = fake()
    assert ask(f.server.authority, "GET", "/health")[1]["X-Request-ID"]
    assert ask(f.server.authority, "GET", "/health", X_Request_ID="mine")[1]["X-Request-ID"] == "mine"


def test_the_stream_is_bare_json_with_blank_lines(fake):
    f = fake()
    _, authority, path = made(f)
    status, head, data = ask(authority, "POST", path + "/command", {"command": "echo a; echo b >&2; exit 7"})
    assert (status, head["Content-Type"]) == (200, "text/event-stream") and b"data:" not in data
    assert data.endswith(b"}\n\n")
    kinds = [e["type"] for e in events(data)]
    assert kinds[:2] == ["init", "ping"] and sorted(kinds[2:4]) == ["stderr", "stdout"]
    assert events(data)[-1]["error"]["evalue"] == "7"


def test_a_scripted_command_sends_the_next_event_when_the_test_says_so(fake):
    f = fake()
    ident, authority, path = made(f)
    turn, seen = threading.Semaphore(0), []

    def play(stream):
        stream.start("scripted")
        for number in range(3):
            turn.acquire(timeout=10)
            stream.event("stdout", text=str(number))
        stream.finish(0)

    f.sandboxes[ident].execd.scripts["step"] = play
    host, _, port = authority.partition(":")
    link = http.client.HTTPConnection(host, int(port), timeout=10)
    link.request("POST", path + "/command", json.dumps({"command": "step"}), {"Content-Type": "application/json"})
    answer = link.getresponse()
    while len(seen) < 3:
        line = answer.readline()
        if not line.strip():
            continue
        event = json.loads(line)
        if event["type"] == "stdout":
            seen.append(event["text"])
        if event["type"] in ("ping", "stdout"):
            turn.release()
    assert seen == ["0", "1", "2"]
    link.close()


def test_files_go_up_as_pairs_and_down_with_ranges(fake, tmp_path):
    f = fake()
    _, authority, path = made(f)
    target = tmp_path / "a.bin"
    wish = json.dumps({"path": str(target), "mode": 600})
    data = bytes(range(256)) * 1000 + b"\r\n--x\r\n--boun\r\n-"
    form = (f'--bound\r\nContent-Disposition: form-data; name="metadata"; filename="metadata"\r\n\r\n{wish}\r\n'
            f'--bound\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n').encode() + data + b"\r\n--bound--\r\n"
    up = ask(authority, "POST", path + "/files/upload", form, Content_Type="multipart/form-data; boundary=bound")
    assert up[0] == 200 and target.read_bytes() == data and target.stat().st_mode & 0o777 == 0o600
    down = f"{path}/files/download?path={target}"
    for window, status, piece in (("bytes=0-9", 206, data[:10]), ("bytes=-4", 206, data[-4:]),
                                  ("bytes=250-", 206, data[250:]), ("bytes=9999999-", 416, b"")):
        assert ask(authority, "GET", down, Range=window)[::2] == (status, piece)
    assert ask(authority, "GET", down + "&offset=1", Range="bytes=0-1")[0] == 400
    assert f.of("execd", "POST", ".*/upload")[0].body == form


def test_a_terminal_speaks_frames_and_is_taken_over(fake):
    f = fake()
    _, authority, path = made(f)
    ident = json.loads(ask(authority, "POST", path + "/pty", {})[2])["session_id"]
    host, _, port = authority.partition(":")
    first = wire.Websocket.dial(host, int(port), f"{path}/pty/{ident}/ws?pty=0")
    assert json.loads(first.receive()[1])["type"] == "connected"
    with pytest.raises(wire.Broken, match="409"):
        wire.Websocket.dial(host, int(port), f"{path}/pty/{ident}/ws")
    first.send(b"\0echo mark\n")
    assert first.receive() == (wire.BINARY, b"\x01mark\n")
    second = wire.Websocket.dial(host, int(port), f"{path}/pty/{ident}/ws?takeover=1&since=0")
    assert json.loads(second.receive()[1])["mode"] == "pipe"
    assert second.receive()[1] == b"\x03" + (5).to_bytes(8, "big") + b"mark\n"
    assert first.receive() == (wire.CLOSE, (4001).to_bytes(2, "big") + b"taken over")
    second.send(json.dumps({"type": "stdin", "data": "exit 4\n"}))
    assert json.loads(second.receive()[1])["exit_code"] == 4


def test_a_paused_sandbox_hangs_and_goes_on(fake):
    f = fake()
    ident, authority, path = made(f)
    assert lifecycle(f, "POST", f"/v1/sandboxes/{ident}/pause")[0] == 202
    assert lifecycle(f, "POST", f"/v1/sandboxes/{ident}/pause")[0] == 409
    got = []
    late = threading.Thread(target=lambda: got.append(ask(authority, "GET", path + "/ping")[0]))
    late.start()
    late.join(0.3)
    assert got == []
    assert lifecycle(f, "POST", f"/v1/sandboxes/{ident}/resume")[0] == 202
    late.join(5)
    assert got == [200]


def test_policy_is_reached_by_its_token_and_by_the_server(fake):
    f = fake()
    policy = {"defaultAction": "deny", "egress": [{"action": "allow", "target": "a.example.test"}]}
    ident, authority, _ = made(f, networkPolicy=policy)
    _, where = lifecycle(f, "GET", f"/v1/sandboxes/{ident}/endpoints/18080")
    assert ask(authority, "GET", "/proxy/18080/policy")[0] == 401
    status, _, data = ask(authority, "GET", "/proxy/18080/policy", **{
        "OPENSANDBOX_EGRESS_AUTH": where["headers"]["OPENSANDBOX-EGRESS-AUTH"]})
    assert status == 200 and json.loads(data)["policy"] == policy
    assert lifecycle(f, "DELETE", f"/v1/sandboxes/{ident}/networkpolicy", ["a.example.test"])[1]["policy"]["egress"] == []


def test_listing_filters_pages_and_counts(fake):
    f = fake()
    for number in range(5):
        made(f, metadata={"n": str(number % 2)})
    _, page = lifecycle(f, "GET", "/v1/sandboxes?metadata=n%3D0&pageSize=2&page=2")
    assert len(page["items"]) == 1
    assert page["pagination"] == {"page": 2, "pageSize": 2, "totalItems": 3, "totalPages": 2, "hasNextPage": False}
    assert lifecycle(f, "GET", "/v1/sandboxes?pageSize=201")[0] == 422


BREACHES = {
    "a wrong key": lambda f, a: ask(f.server.authority, "GET", "/v1/sandboxes", key="other"),
    "no key": lambda f, a: ask(f.server.authority, "GET", "/v1/sandboxes"),
    "a field of the gateway": lambda f, a: ask(a, "GET", "/ping", X_Sandgate_User="alice"),
    "the key in a sandbox": lambda f, a: ask(a, "GET", "/ping", key=f.key),
    "a cookie": lambda f, a: ask(a, "GET", "/ping", Cookie="a=b"),
    "a secret in a field": lambda f, a: ask(a, "GET", "/ping", Accept="caller-secret"),
    "a secret in a body": lambda f, a: ask(a, "POST", "/command", {"command": "true caller-secret"}),
    "a secret in a target": lambda f, a: ask(a, "GET", "/files/info?path=caller-secret"),
    "JSON as text": lambda f, a: ask(a, "POST", "/command", b'{"command":"true"}', Content_Type="text/plain"),
    "a name twice": lambda f, a: ask(a, "POST", "/command", b'{"command":"a","command":"b"}',
                                     Content_Type="application/json"),
    "an unknown field of create": lambda f, a: lifecycle(f, "POST", "/v1/sandboxes", {**BODY, "sandgate": 1}),
    "a steering env": lambda f, a: lifecycle(f, "POST", "/v1/sandboxes", {**BODY, "env": {"BOOTSTRAP_CMD": "x"}}),
    "a GET with a body": lambda f, a: ask(a, "GET", "/ping", b"x"),
    "a form without its end": lambda f, a: ask(a, "POST", "/files/upload", b"--b\r\n",
                                               Content_Type="multipart/form-data; boundary=b"),
    "a field twice": lambda f, a: raw(a, b"GET /ping HTTP/1.1\r\nHost: x\r\nAccept: a\r\nRange: a\r\nRange: b\r\n\r\n"),
    "two hosts": lambda f, a: raw(a, b"GET /ping HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"),
    "a bare LF": lambda f, a: raw(a, b"GET /ping HTTP/1.1\r\nHost: x\nAccept: y\r\n\r\n"),
    "a folded line": lambda f, a: raw(a, b"GET /ping HTTP/1.1\r\nHost: x\r\n y\r\n\r\n"),
    "HTTP/1.0": lambda f, a: raw(a, b"GET /ping HTTP/1.0\r\nHost: x\r\n\r\n"),
    "absolute form": lambda f, a: raw(a, b"GET http://x/ping HTTP/1.1\r\nHost: x\r\n\r\n"),
    "length and chunks": lambda f, a: raw(a, b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
                                             b"Transfer-Encoding: chunked\r\n\r\n{}"),
    "a merged Connection of an upgrade": lambda f, a: upgrade(f, a, b"keep-alive, Upgrade"),
}


def upgrade(f, authority, connection):
    ident = json.loads(ask(authority, "POST", "/pty", {})[2])["session_id"]
    raw(authority, b"GET /pty/%b/ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: %b\r\n"
                   b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
        % (ident.encode(), connection))


@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_of_the_contract_is_told(fake, name):
    f = fake(gateway=True, secrets=["caller-secret"])
    _, authority, _ = made(f)
    f.check()
    BREACHES[name](f, authority)
    with pytest.raises(AssertionError, match="contract"):
        f.check()


def test_what_a_gateway_sends_rightly_is_no_breach(fake):
    f = fake(gateway=True, secrets=["caller-secret"])
    ident, authority, path = made(f, env={"EXECD_ACCESS_TOKEN": "inner", "PATH": "/bin"}, metadata={"sandgate/user": "u1"})
    assert ask(authority, "POST", path + "/command", {"command": "true"})[0] == 401
    assert ask(authority, "POST", path + "/command", {"command": "true"}, X_EXECD_ACCESS_TOKEN="inner")[0] == 200
    assert ask(f.server.authority, "GET", f"/sandboxes/{ident}/proxy/44772/ping", X_EXECD_ACCESS_TOKEN="inner")[0] == 200


def test_records_are_the_bytes_as_they_came(fake):
    f = fake()
    sent = b"GET /health HTTP/1.1\r\nHost: x\r\nAccEpt:  */*\r\nConnection: close\r\n\r\n"
    raw(f.server.authority, sent)
    assert f.records[-1].head == sent and f.records[-1].status == 200


def test_faults_come_once_and_where_they_should(fake):
    f = fake()
    f.faults.add(Fault("POST", "/sandboxes", status=503))
    f.faults.add(Fault("POST", "/sandboxes", delay=0.3))
    assert lifecycle(f, "POST", "/v1/sandboxes", BODY)[0] == 503
    began = time.monotonic()
    _, authority, path = made(f)
    assert time.monotonic() - began >= 0.3
    f.faults.add(Fault("POST", "/command", surface="execd", cut=250))
    with pytest.raises(http.client.IncompleteRead):
        ask(authority, "POST", path + "/command", {"command": "echo a; echo b; echo c"})
    assert ask(authority, "POST", path + "/command", {"command": "true"})[0] == 200


def test_a_lost_answer_leaves_the_sandbox_behind(fake):
    f = fake()
    f.faults.add(Fault("POST", "/sandboxes", done=True))
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        lifecycle(f, "POST", "/v1/sandboxes", BODY)
    assert lifecycle(f, "GET", "/v1/sandboxes")[1]["pagination"]["totalItems"] == 1


def test_a_restart_keeps_or_loses_what_there_was(fake):
    f = fake()
    ident, authority, path = made(f)
    f.restart(keep=True)
    assert lifecycle(f, "GET", f"/v1/sandboxes/{ident}")[0] == 200 and ask(authority, "GET", path + "/ping")[0] == 200
    f.restart(keep=False)
    assert lifecycle(f, "GET", f"/v1/sandboxes/{ident}")[0] == 404


def test_ids_come_twice_and_endpoints_go_stale_when_asked(fake):
    f = fake(ports=range(42100, 42200))
    ident, authority, path = made(f)
    assert 42100 <= int(authority.partition(":")[2]) < 42200
    f.stale_endpoints = True
    lifecycle(f, "POST", f"/v1/sandboxes/{ident}/pause")
    lifecycle(f, "POST", f"/v1/sandboxes/{ident}/resume")
    with pytest.raises(OSError):
        ask(authority, "GET", path + "/ping")
    f.duplicate_id = ident
    assert made(f)[0] == ident
    f.endpoint_override = "169.254.169.254:80"
    assert lifecycle(f, "GET", f"/v1/sandboxes/{ident}/endpoints/44772")[1]["endpoint"] == "169.254.169.254:80"
    f.crash(ident)
    assert lifecycle(f, "GET", f"/v1/sandboxes/{ident}")[1]["status"]["state"] == "Terminated"


@pytest.mark.parametrize("name", hostile())
def test_a_hostile_answer_is_sent_as_it_is(fake, name):
    f = fake()
    f.faults.add(Fault("GET", "/sandboxes", raw=hostile()[name]))
    got = raw(f.server.authority, b"GET /v1/sandboxes HTTP/1.1\r\nHost: x\r\nOPEN-SANDBOX-API-KEY: %b\r\n\r\n" % f.key.encode())
    assert got == hostile()[name]


def test_an_application_port_is_reached_through_execd(fake):
    f = fake()
    _, authority, _ = made(f)
    app = wire.Server(lambda r, x: x.answer(200, f"{r.method} {r.target}".encode() + r.body(), "text/plain"))
    assert ask(authority, "POST", f"/proxy/{app.port}/a/b?c=%2f", b"body", Cookie="app=1")[2] == b"POST /a/b?c=%2fbody"
    app.close()
