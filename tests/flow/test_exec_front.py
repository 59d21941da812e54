"""The front of an execution listener: who is asked, what goes on, what comes back, what the
ledger is told.  A worker alone; control, dialer and sandbox are ours."""
import hashlib
import http.client
import json
import time

import h2.connection
import h2.events
import pytest

from conftest import wait_for
from exec_line import ExecWorker, answer, event, ok, refuse, route
from exec_world import ID, PROXY, w  # noqa: F401 (a fixture)
from websocket_line import switch


def ask(w, method, path, body=None, **fields):
    c = http.client.HTTPConnection("127.0.0.1", w.port, timeout=10)
    c.request(method, path, body, {"OPEN-SANDBOX-API-KEY": "sgk_x", **fields})
    r = c.getresponse()
    return r, r.read()


def run(w, command="ls", **fields):
    return ask(w, "POST", f"{PROXY}/44772/command", json.dumps({"command": command, "cwd": "/src"}), **fields)


def stream(request, sock, *events):
    body = b"".join(events) or (event(type="init", text="c1") + event(type="stdout", text="hi") +
                                event(type="execution_complete", execution_time=5))
    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-EXECD-ACCESS-TOKEN: leak\r\n"
                 b"Transfer-Encoding: chunked\r\n\r\n")
    for i in range(0, len(body), 7):
        piece = body[i:i + 7]
        sock.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
    sock.sendall(b"0\r\n\r\n")


def test_control_answers_whole(w):
    w.brain.place = lambda wish: answer(202, b'{"id":"x"}', type="application/json", fields=[("Location", "/x")])
    r, body = ask(w, "POST", "/v1/sandboxes", '{"image":{"uri":"a"}}', **{"X-Request-ID": "r-1", "Idempotency-Key": "i1",
                  "X-Sandgate-Task": "t", "X-Sandgate-Session": "s", "X-Sandgate-Reuse": "session"})
    assert (r.status, body) == (202, b'{"id":"x"}')
    assert (r.headers["x-request-id"], r.headers["location"]) == ("r-1", "/x")
    wish, = w.brain.wishes
    assert wish["key"] == "sgk_x" and wish["body"] == '{"image":{"uri":"a"}}' and wish["authority"].startswith("127.0.0.1:")
    assert (wish["task"], wish["session"], wish["reuse"], wish["idempotency"]) == ("t", "s", "session", "i1")
    assert w.brain.left == [] and w.dialer.asked == []
    row, = w.rows("exec_end", least=1)
    assert row["exec"]["op"] == "sandbox.create" and row["http"] == 202 and row["user"] == "alice"


def test_an_answer_beside_the_message_is_whole(w):
    text = json.dumps({"items": ["x" * 100] * 5000}).encode()
    w.brain.place = lambda wish: answer(200, text, type="application/json")
    r, body = ask(w, "GET", "/sandboxes?page=1")
    assert body == text and w.brain.wishes[0]["query"] == "page=1"


def test_no_content_has_no_length(w):
    w.brain.place = lambda wish: answer(204)
    r, body = ask(w, "DELETE", f"/v1/sandboxes/{ID}")
    assert r.status == 204 and r.headers["content-length"] is None


def test_a_refusal_is_code_and_message(w):
    w.brain.place = lambda wish: refuse("NOT_FOUND")
    r, body = ask(w, "GET", f"/v1/sandboxes/{ID}")
    said = json.loads(body)
    assert r.status == 404 and said["code"] == "DOCKER::SANDBOX_NOT_FOUND" and set(said) == {"code", "message"}
    assert r.headers["x-request-id"]
    assert w.rows("deny", least=1)[0]["reason"] == "not_found"


def test_a_command_goes_on_byte_by_byte_and_is_recorded_before(w):
    body = b'{ "command":"echo \\u0068i", "cwd":"/src", "envs":{"TOKEN":"value"}, "uid":7 }'
    seen = []

    def serve(request, sock):
        seen.append([r["kind"] for r in w.rows()])
        stream(request, sock)
    w.box.serve = serve
    w.brain.place = lambda wish: route(w.box, prefix="/proxy/44772", fields=[("X-EXECD-ACCESS-TOKEN", "ours")])
    r, got = ask(w, "POST", f"{PROXY}/44772/command", body, **{
        "X-EXECD-ACCESS-TOKEN": "theirs", "Authorization": "Bearer a.b.c", "Cookie": "x=y", "Accept-Encoding": "gzip",
        "X-Forwarded-For": "1.2.3.4", "X_Sandgate_Task": "t", "OPEN-SANDBOX-CLIENT-IP": "10.0.0.1", "X-Other": "stays",
        "X-Sandgate-Capability": "cap"})
    assert r.status == 200 and r.headers["content-type"] == "text/event-stream"
    assert "x-execd-access-token" not in r.headers
    request, = w.box.requests
    assert request.line == "POST /proxy/44772/command HTTP/1.1" and request.body == body
    assert request.names["host"] == f"127.0.0.1:{w.box.port}"
    assert request.names["x-execd-access-token"] == "ours" and request.names["x-other"] == "stays"
    assert request.names["accept-encoding"] == "identity"
    assert not {n for n in request.names if "sandgate" in n or "sandbox" in n or n in
                ("authorization", "cookie", "x-forwarded-for")}
    assert seen == [["exec"]]
    assert w.dialer.asked == [("standard", "127.0.0.1", w.box.port)]
    start, end = w.rows("exec", "exec_end", least=2)
    assert start["exec"]["command"] == "echo hi" and start["exec"]["cwd"] == "/src" and start["exec"]["env"] == ["TOKEN"]
    assert start["exec"]["uid"] == 7 and start["sandbox"] == "sb-one" and start["user"] == "alice"
    assert end["exec"]["id"] == "c1" and end["exec"]["exit"] == 0 and end["exec"]["stdout"]["bytes"] == 2
    assert end["turn"] == start["id"] and end["reason"] == "ok"
    wait_for(lambda: w.brain.left == [w.brain.wishes[0]["ticket"]])
    assert w.brain.wishes[0]["capability"] == "cap" and w.brain.wishes[0]["bearer"] == "a.b.c"


def test_connections_to_an_endpoint_are_kept_for_one_caller(w):
    c = http.client.HTTPConnection("127.0.0.1", w.port, timeout=10)
    for _ in range(3):
        c.request("GET", f"{PROXY}/44772/ping")
        assert c.getresponse().read() == b"hello"
    assert w.box.connections == 1 and len(w.brain.wishes) == 3
    ask(w, "GET", f"{PROXY}/44772/ping")
    assert w.box.connections == 2
    wait_for(lambda: len(w.brain.left) == 4)


@pytest.mark.parametrize("method, path, body, status, code", [
    ("POST", "/v1/sandboxes", '{"a":1,"a":2}', 400, "BAD_JSON"),
    ("POST", "/v1/sandboxes", "{", 400, "BAD_JSON"),
    ("POST", "/v1/sandboxes", '{"x":"' + "a" * 50000 + '"}', 413, "TOO_BIG"),
    ("POST", f"{PROXY}/44772/command", '{"command":"ls","Command":"rm"}', 400, "BAD_JSON"),
    ("POST", f"{PROXY}/44772/command", '{"command":7}', 400, "BAD_JSON"),
    ("POST", f"{PROXY}/44772/command", '{"command":"a\\u0000b"}', 400, "BAD_JSON"),
    ("POST", f"{PROXY}/44772/internal/init", "{}", 403, "DENIED_BY_POLICY"),
    ("GET", f"{PROXY}/18080/nothing", None, 404, "NOT_FOUND"),
    ("GET", f"{PROXY}/44772/a/%2e%2e/b", None, 400, "BAD_PATH"),
    ("OPTIONS", f"{PROXY}/8080/", None, 405, "METHOD_REFUSED"),
    ("GET", f"{PROXY}/44772/pty/p1/ws", None, 400, "BAD_UPGRADE"),
])
def test_what_can_not_go_on_is_refused_unasked(w, method, path, body, status, code):
    r, got = ask(w, method, path, body)
    said = json.loads(got)
    assert r.status == status and r.headers["x-request-id"]
    assert said["code"] == f"SANDGATE::{code}" or status in (403, 404)
    assert w.brain.wishes == [] and w.dialer.asked == []
    if status == 405:
        assert "GET" in r.headers["allow"]


def test_without_control_nothing_runs(w):
    w.lines["CONTROL"].close()
    w.brain.sock.close()
    r, body = run(w)
    assert r.status == 503 and json.loads(body)["code"] == "SANDGATE::NO_CONTROL"


def hold(w):
    c = http.client.HTTPConnection("127.0.0.1", w.port, timeout=10)
    c.request("POST", f"{PROXY}/44772/command", json.dumps({"command": "rm -rf /data TOKEN=hunter2hunter2"}))
    r = c.getresponse()
    wait_for(lambda: w.brain.replies)
    return r, json.loads(r.readline())


def test_a_sensitive_command_waits_and_is_told_so_with_events(w):
    w.box.serve = stream
    r, first = hold(w)
    assert r.status == 200 and first["type"] == "init"
    assert r.readline() == b"\n" and json.loads(r.readline())["type"] == "ping"
    wish, = w.brain.holds
    assert wish["what"] == "command.run" and wish["level"] == 2 and "removes files" in wish["why"]
    assert wish["text"].startswith("rm -rf /data") and w.box.requests == []
    w.brain.decide("OK", "bob")
    rest = [json.loads(l) for l in r.read().split(b"\n") if l]
    assert [e["type"] for e in rest] == ["init", "stdout", "execution_complete"]
    start, end = w.rows("exec", "exec_end", least=2)
    assert start["exec"]["by"] == "bob" and start["exec"]["level"] == "high" and end["exec"]["exit"] == 0


def test_a_denied_command_ends_with_an_error_and_reaches_nobody(w):
    r, _ = hold(w)
    w.brain.decide("DENIED", "bob")
    last = json.loads(r.read().strip().split(b"\n")[-1])
    assert last["type"] == "error" and last["error"]["ename"] == "SandgateDenied"
    assert w.box.requests == [] and w.dialer.asked == []
    assert w.rows("deny", least=1)[0]["exec"]["command"].startswith("rm")
    wait_for(lambda: len(w.brain.left) == 1)


def test_pings_go_on_while_it_waits(w):
    r, _ = hold(w)
    time.sleep(3.3)
    w.brain.decide("DENIED")
    types = [json.loads(l)["type"] for l in r.read().split(b"\n") if l]
    assert types == ["ping", "ping", "error"]


def test_a_caller_who_goes_cancels_what_is_held(w):
    r, _ = hold(w)
    r.close()
    wait_for(lambda: w.brain.left == [w.brain.holds[0]["ticket"]], 6)


def test_a_request_without_events_waits_without_an_answer(tmp_path):
    w = ExecWorker(tmp_path, risk='- {deletes: ["/etc/**"], why: "system files", level: high}\n')
    w.brain.place = lambda wish: route(w.box)
    s = w.connect()
    s.sendall(f"DELETE {PROXY}/44772/files?path=%2Fetc%2Fpasswd HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    wait_for(lambda: w.brain.holds)
    s.setblocking(False)
    with pytest.raises(BlockingIOError):
        s.recv(1)
    s.settimeout(10)
    w.brain.decide("DENIED")
    assert s.recv(4096).startswith(b"HTTP/1.1 403 ")
    assert w.brain.holds[0]["text"] == "/etc/passwd"
    w.close()


def test_a_caller_who_closes_while_control_thinks_is_told_of(w):
    w.brain.place = lambda wish: None
    s = w.connect()
    s.sendall(f"GET {PROXY}/44772/ping HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    wait_for(lambda: w.brain.wishes)
    s.close()
    wait_for(lambda: w.brain.left == [w.brain.wishes[0]["ticket"]], 5)


def test_an_endpoint_that_fails_a_held_stream_is_told_as_an_event(w):
    w.box.serve = lambda request, sock: sock.sendall(ok(b"{}", "500 Internal Server Error"))
    r, _ = hold(w)
    w.brain.decide()
    last = json.loads(r.read().strip().split(b"\n")[-1])
    assert last["error"]["ename"] == "UpstreamError" and "500" in last["error"]["evalue"]


def test_an_upload_is_streamed_and_hashed(w):
    data = b"0123456789" * 300000
    body = (b'--B\r\nContent-Disposition: form-data; name="metadata"; filename="m"\r\nContent-Type: application/json\r\n\r\n'
            b'{"path":"/src/a.bin","mode":644}\r\n--B\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
            + data + b"\r\n--B--\r\n")
    r, _ = ask(w, "POST", f"{PROXY}/44772/files/upload", body, **{"Content-Type": "multipart/form-data; boundary=B"})
    assert r.status == 200 and w.box.requests[0].body == body
    file, = w.rows("exec_end", least=1)[0]["exec"]["files"]
    assert file["path"] == "/src/a.bin" and file["bytes"] == len(data)
    assert file["sha256"] == hashlib.sha256(data).hexdigest()


def test_a_download_keeps_ranges_and_is_hashed(w):
    w.box.serve = lambda request, sock: sock.sendall(
        ok(b"abc", "206 Partial Content", "application/octet-stream", "Content-Range: bytes 0-2/9\r\n"))
    r, body = ask(w, "GET", f"{PROXY}/44772/files/download?path=/a%20b", Range="bytes=0-2")
    assert (r.status, body, r.headers["content-range"]) == (206, b"abc", "bytes 0-2/9")
    assert w.box.requests[0].names["range"] == "bytes=0-2"
    assert w.box.requests[0].line == "GET /files/download?path=/a%20b HTTP/1.1"
    start, end = w.rows("exec", "exec_end", least=2)
    assert start["exec"]["paths"] == ["/a b"] and end["exec"]["sha256"] == hashlib.sha256(b"abc").hexdigest()


def test_a_terminal_is_a_websocket_without_extensions(w):

    def serve(request, sock):
        sock.sendall(switch(request.names["sec-websocket-key"]) + b"\x82\x03\x01ok")
        sock.recv(100)
    w.box.serve = serve
    s = w.connect()
    s.sendall((f"GET {PROXY}/44772/pty/p1/ws?pty=0 HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n"
               "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
               "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n").encode())
    got = b""
    while b"ok" not in got:
        got += s.recv(4096)
    assert got.startswith(b"HTTP/1.1 101 ") and b"X-Request-ID" in got
    assert w.box.requests[0].names["connection"] == "Upgrade"
    assert "sec-websocket-extensions" not in w.box.requests[0].names
    s.sendall(b"\x82\x84\0\0\0\0\x00ls\n")
    s.close()
    end = w.rows("exec_end", least=1)[0]
    assert end["exec"]["stdout"]["bytes"] == 2 and end["exec"]["stdin"]["bytes"] == 3


def test_an_application_gets_its_login_only_if_control_says_so(w):
    for keeps in (False, True):
        w.brain.place = lambda wish: route(w.box, keeps_login=keeps)
        ask(w, "GET", f"{PROXY}/8080/a//b?c=%20", Authorization="Basic eDp5", Cookie="a=b")
        request = w.box.requests[-1]
        assert request.line == "GET /a//b?c=%20 HTTP/1.1"
        assert ("authorization" in request.names, "cookie" in request.names) == (keeps, keeps)
        assert "open-sandbox-api-key" not in request.names


def test_an_endpoint_that_can_not_be_reached_is_told(w):
    w.dialer.status = "CONNECT_REFUSED"
    r, body = run(w)
    assert r.status == 502 and json.loads(body)["code"] == "SANDGATE::CONNECT_REFUSED"
    wait_for(lambda: len(w.brain.left) == 1)


def test_a_body_that_waits_for_100_is_asked_for(w):
    s = w.connect()
    body = b'{"command":"ls"}'
    s.sendall(f"POST {PROXY}/44772/command HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
              f"Content-Length: {len(body)}\r\n\r\n".encode())
    assert s.recv(100).startswith(b"HTTP/1.1 100 ")
    s.sendall(body)
    assert s.recv(4096).startswith(b"HTTP/1.1 200 ")
    assert "expect" not in w.box.requests[0].names


def test_http2_with_prior_knowledge(w):
    w.box.serve = stream
    s = w.connect()
    c = h2.connection.H2Connection()
    c.initiate_connection()
    body = b'{"command":"ls"}'
    c.send_headers(1, [(":method", "POST"), (":scheme", "http"), (":authority", "localhost:8090"),
                       (":path", f"{PROXY}/44772/command"), ("content-type", "application/json")])
    c.send_data(1, body, end_stream=True)
    data = c.data_to_send()
    s.sendall(data[:10])
    time.sleep(0.05)
    s.sendall(data[10:])
    got, over = b"", False
    while not over:
        for e in c.receive_data(s.recv(65536)):
            if isinstance(e, h2.events.DataReceived):
                got += e.data
            over = over or isinstance(e, h2.events.StreamEnded)
        s.sendall(c.data_to_send())
    assert b"execution_complete" in got and w.box.requests[0].body == body
    assert w.brain.wishes[0]["authority"] == "localhost:8090"


def test_a_body_that_stalls_is_not_waited_for(w):
    s = w.connect()
    s.sendall(f"POST {PROXY}/44772/command HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{{".encode())
    assert s.recv(100).startswith(b"HTTP/1.1 408 ")


def test_one_address_gets_a_part_of_all_connections(w):
    socks, alive = [], 0
    for _ in range(20):
        try:
            socks.append(w.connect())
        except ConnectionResetError:
            pass  # refused faster than connect() returned
    time.sleep(0.3)
    for s in socks:
        try:
            s.settimeout(0.02)
            alive += s.recv(1) != b""
        except TimeoutError:
            alive += 1
        except ConnectionResetError:
            pass
    assert alive == 16


def test_a_row_that_can_not_be_written_stops_it(w):
    w.ring.fill()
    r, body = run(w)
    assert r.status == 503 and json.loads(body)["code"] == "SANDGATE::NO_LEDGER" and w.box.requests == []
