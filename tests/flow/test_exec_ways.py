"""An execution listener's request and answer on their way: cuts, redirects, sizes, framings,
many at once.  A worker alone; control, dialer and sandbox are ours."""
import contextlib
import http.client
import json
import socket
import threading
import time

import h2.connection
import h2.events
import pytest

from conftest import wait_for
from exec_line import ExecWorker, Request, event, ok, route
from exec_world import PROXY, response, send, w  # noqa: F401 (a fixture)


def test_a_caller_who_cuts_a_stream_leaves_and_the_command_is_recorded(w):
    went = threading.Event()

    def serve(request, sock):
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            while True:
                data = event(type="init", text="c9")
                sock.sendall(b"%x\r\n%b\r\n" % (len(data), data))
                time.sleep(0.05)
        except OSError:
            went.set()
    w.box.serve = serve
    body = b'{"command":"sleep 9"}'
    s = send(w, f"POST {PROXY}/44772/command HTTP/1.1\nHost: a\nContent-Length: {len(body)}\n\n", body)
    assert b"c9" in s.recv(4096) + s.recv(4096)
    s.close()
    end, = w.rows("exec_end", least=1)
    assert end["reason"] == "client_gone" and end["exec"]["id"] == "c9" and end["exec"]["end"] == "not seen"
    wait_for(lambda: len(w.brain.left) == 1)
    assert went.wait(5)


def test_an_endpoint_that_breaks_off_is_no_end(w):
    def serve(request, sock):
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc")
        sock.close()
    w.box.serve = serve
    s = send(w, f"GET {PROXY}/44772/command/c1/resume HTTP/1.1\nHost: a\n\n")
    got = b""
    with pytest.raises(ConnectionResetError):
        while data := s.recv(4096):
            got += data
        raise AssertionError("a clean end")
    assert w.rows("exec_end", least=1)[0]["reason"] in ("upstream_closed", "connection_cut", "upstream_bad_response")


@pytest.mark.parametrize("location, want", [
    ("/login", f"{PROXY}/8080/login"), ("/up/8080/x?y#z", f"{PROXY}/8080/x?y#z"), ("http://127.0.0.1:{port}/a", f"{PROXY}/8080/a"),
    ("http://127.0.0.1:1/a", "http://127.0.0.1:1/a"), ("https://else.test/", "https://else.test/"), ("//else.test/", "//else.test/"),
    ("next", "next"), ("http://127.0.0.1:{port}@else.test/", "http://127.0.0.1:{port}@else.test/")])
def test_a_redirect_of_an_application_leads_back_to_it(w, location, want):
    w.brain.place = lambda wish: route(w.box, prefix="/up/8080")
    w.box.serve = lambda request, sock: sock.sendall(ok(b"", "302 Found", more="Location: %s\r\n" % location.format(port=w.box.port)))
    r, _ = response(send(w, f"GET {PROXY}/8080/a HTTP/1.1\nHost: a\n\n"))
    assert r.headers["location"] == want.format(port=w.box.port)


def test_a_body_in_chunks_gets_its_length(w):
    s = send(w, f"POST {PROXY}/44772/command HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n",
             b'5\r\n{"com\r\nb\r\nmand":"id"}\r\n0\r\n\r\n')
    r, _ = response(s)
    assert r.status == 200 and w.box.requests[0].body == b'{"command":"id"}'
    assert w.box.requests[0].names["content-length"] == "16" and "transfer-encoding" not in w.box.requests[0].names


def test_one_byte_at_a_time_is_the_same_request(w):
    body = b'{"command":"echo x"}'
    s = w.connect()
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in f"POST {PROXY}/44772/command HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body:
        s.sendall(bytes([byte]))
    r, _ = response(s)
    assert r.status == 200 and w.box.requests[0].body == body


def test_requests_behind_each_other_are_each_asked_for(w):
    one = f"GET {PROXY}/44772/ping HTTP/1.1\nHost: a\n\n"
    body = '{"command":"id"}'
    s = send(w, one + f"POST {PROXY}/44772/command HTTP/1.1\nHost: a\nContent-Length: {len(body)}\n\n{body}" + one)
    got = b""
    while got.count(b"hello") < 3:
        got += s.recv(4096)
    assert [x["op"] for x in w.brain.wishes][0] == [x["op"] for x in w.brain.wishes][2] and len(w.brain.wishes) == 3


def test_an_upload_waits_for_the_100_of_execd(w):
    def serve(request, sock):
        assert request.body == b""
        sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        while b"--B--" not in request.body:
            request.body += sock.recv(65536)
        sock.sendall(ok(b""))
    def talk(conn):
        data = b""
        while b"\r\n\r\n" not in data:
            data += conn.recv(65536)
        head, rest = data.split(b"\r\n\r\n", 1)
        serve(Request(head, rest, conn), conn)
    w.box.talk = talk
    body = (b'--B\r\nContent-Disposition: form-data; name="metadata"; filename="m"\r\n\r\n{"path":"/a"}\r\n'
            b'--B\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nhi\r\n--B--\r\n')
    s = send(w, f"POST {PROXY}/44772/files/upload HTTP/1.1\nHost: a\nExpect: 100-continue\nContent-Length: {len(body)}\n"
                "Content-Type: multipart/form-data; boundary=B\n\n")
    assert s.recv(4096).startswith(b"HTTP/1.1 100 ")
    s.sendall(body)
    assert response(s)[0].status == 200
    assert w.rows("exec_end", least=1)[0]["exec"]["files"][0]["bytes"] == 2


@pytest.mark.parametrize("w", ['exec: {file_max: "1KiB"}'], indirect=True)
def test_a_file_over_the_limit_is_refused_and_two_under_it_are_not(w):
    def upload(*sizes):
        body = b"".join(b'--B\r\nContent-Disposition: form-data; name="metadata"; filename="m"\r\n\r\n{"path":"/a"}\r\n'
                        b'--B\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n' + b"x" * n + b"\r\n"
                        for n in sizes) + b"--B--\r\n"
        return response(send(w, f"POST {PROXY}/44772/files/upload HTTP/1.1\nHost: a\nContent-Length: {len(body)}\n"
                                "Content-Type: multipart/form-data; boundary=B\n\n", body))
    assert upload(1000, 1000)[0].status == 200
    r, body = upload(2000)
    assert r.status == 413 and json.loads(body)["code"] == "SANDGATE::TOO_BIG"


def test_many_requests_of_one_http2_connection_run_side_by_side(w):
    s = w.connect()
    c = h2.connection.H2Connection()
    c.initiate_connection()
    for i in range(40):
        c.send_headers(1 + 2 * i, [(":method", "GET"), (":scheme", "http"), (":authority", "a.test"),
                                   (":path", f"{PROXY}/44772/ping")], end_stream=True)
    s.sendall(c.data_to_send())
    over = set()
    while len(over) < 40:
        for e in c.receive_data(s.recv(65536)):
            if isinstance(e, h2.events.StreamEnded):
                over.add(e.stream_id)
        s.sendall(c.data_to_send())
    wait_for(lambda: len(w.brain.left) == 40)


def test_a_reload_leaves_what_runs_alone(w):
    go = threading.Event()

    def serve(request, sock):
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        go.wait(10)
        data = event(type="execution_complete", execution_time=1)
        sock.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data))
    w.box.serve = serve
    body = b'{"command":"x"}'
    s = send(w, f"POST {PROXY}/44772/command HTTP/1.1\nHost: a\nContent-Length: {len(body)}\n\n", body)
    wait_for(lambda: w.box.requests)
    w.take(w.image())
    go.set()
    assert b"execution_complete" in response(s)[1]


@pytest.mark.parametrize("head, status", [
    (f"GET {PROXY}/44772/ping HTTP/1.1\n\n", 400), (f"GET {PROXY}/44772/ping HTTP/1.1\nHost: a\nHost: b\n\n", 400),
    (f"GET {PROXY}/44772/ping HTTP/1.1\nHost: a\nOPEN-SANDBOX-API-KEY: x\nOPEN-SANDBOX-API-KEY: y\n\n", 400),
    (f"TRACE {PROXY}/44772/ping HTTP/1.1\nHost: a\n\n", 405), ("CONNECT a.test:443 HTTP/1.1\nHost: a.test:443\n\n", 405),
    (f"POST {PROXY}/44772/command HTTP/1.1\nHost: a\nContent-Length: 2\nContent-Encoding: gzip\n\n{{}}", 400),
    (f"POST {PROXY}/44772/command HTTP/1.1\nHost: a\nContent-Length: 2\nTransfer-Encoding: chunked\n\n{{}}", 400),
    (f"POST {PROXY}/44772/command HTTP/1.1\nHost: a\nExpect: 200-ok\nContent-Length: 2\n\n{{}}", 417),
    ("GET /v1/sandboxes HTTP/1.1\nHost: a\nX-Sandgate-Task: " + "a" * 600 + "\n\n", 400),
    ("garbage\n\n", 400)])
def test_what_is_no_request_of_ours_is_refused(w, head, status):
    r, body = response(send(w, head))
    said = json.loads(body)
    assert r.status == status and set(said) == {"code", "message"}, body
    assert w.box.requests == []


@pytest.mark.parametrize("first", [b"PRI * HTTP/2.0\r\n\r\nS", b"PRI", b""])
def test_who_says_nothing_whole_is_not_waited_for(w, first):
    s = w.connect()
    s.sendall(first)
    began = time.monotonic()
    assert s.recv(100) == b"" and 0.5 < time.monotonic() - began < 4


def test_each_event_is_there_before_the_next_is_sent(w):
    taken = threading.Semaphore(0)
    late = []

    def serve(request, sock):
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i in range(5):
            data = event(type="stdout", text=str(i))
            sock.sendall(b"%x\r\n%b\r\n" % (len(data), data))
            if not taken.acquire(timeout=5):
                late.append(i)
        sock.sendall(b"0\r\n\r\n")
    w.box.serve = serve
    body = b'{"command":"x"}'
    s = send(w, f"POST {PROXY}/44772/command HTTP/1.1\nHost: a\nContent-Length: {len(body)}\n\n", body)
    r = http.client.HTTPResponse(s)
    r.begin()
    for i in range(5):
        assert json.loads(r.readline())["text"] == str(i) and r.readline() == b"\n"
        taken.release()
    assert r.read() == b"" and late == []


def peak(w):
    with open(f"/proc/{w.process.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM:"))


def test_what_is_large_passes_in_little_memory(w):
    size, block = 100_000_000, b"z" * 1_000_000
    got = []

    def serve(request, sock):
        if request.line.startswith("POST"):
            want = int(request.names["content-length"]) - len(request.body)
            while want > 0:
                want -= len(sock.recv(min(want, 1 << 20)))
            sock.sendall(ok(b"{}"))
        else:
            sock.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode())
            for _ in range(size // len(block)):
                sock.sendall(block)

    def talk(conn):
        data = b""
        while b"\r\n\r\n" not in data:
            data += conn.recv(65536)
        head, rest = data.split(b"\r\n\r\n", 1)
        serve(Request(head, rest, conn), conn)
        conn.close()
    w.box.talk = talk
    before = peak(w)
    s = send(w, f"GET {PROXY}/44772/files/download?path=/a HTTP/1.1\nHost: a\n\n")
    r = http.client.HTTPResponse(s)
    r.begin()
    while data := r.read(1 << 20):
        got.append(len(data))
    assert sum(got) == size
    head = (b'--B\r\nContent-Disposition: form-data; name="metadata"; filename="m"\r\n\r\n{"path":"/a"}\r\n'
            b'--B\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n')
    end = b"\r\n--B--\r\n"
    s = send(w, f"POST {PROXY}/44772/files/upload HTTP/1.1\nHost: a\nContent-Type: multipart/form-data; boundary=B\n"
                f"Content-Length: {len(head) + size + len(end)}\n\n", head)
    for _ in range(size // len(block)):
        s.sendall(block)
    s.sendall(end)
    assert response(s)[0].status == 200
    assert peak(w) - before < 16 * 1024, "KiB"
    down, up = w.rows("exec_end", least=2)
    assert down["exec"]["bytes"] == size and up["exec"]["files"][0]["bytes"] == size


def test_a_command_that_is_too_long_to_be_read_is_held_and_one_over_the_bound_is_refused(w):
    text = json.dumps({"command": "echo " + "a" * 200_000}).encode()
    s = send(w, f"POST {PROXY}/44772/command HTTP/1.1\nHost: a\nContent-Length: {len(text)}\n\n", text)
    hold = wait_for(lambda: w.brain.holds)[0]
    assert hold["level"] == 2 and len(hold["text"]) == 4096
    w.brain.decide("OK")
    assert response(s)[0].status == 200
    assert w.box.requests[0].body == text
    start = w.rows("exec", least=1)[0]["exec"]
    assert start["cut"] is True and start["sha256"] and "longer" in start["why"]
    s = send(w, f"POST {PROXY}/44772/command HTTP/1.1\nHost: a\nContent-Length: 300000\n\n", b"{")
    r, body = response(s)
    assert r.status == 413 and json.loads(body)["code"] == "SANDGATE::TOO_BIG"


# What has to be waited for is in another language than the request says.
IN_CONTEXT = [("bash", "python", 'os.system("rm " + x)'), ("python", "bash", "# x\nrm y"), ("python", "", "rm y"),
              ("python", None, "rm y")]


@pytest.mark.parametrize("claimed, known, code", IN_CONTEXT)
def test_code_for_a_context_is_judged_in_its_language_whatever_it_claims(tmp_path, claimed, known, code):
    with contextlib.closing(ExecWorker(tmp_path, risk='- {command: [rm], why: x, level: high}\n'
                                       '- {code: ["os.system()"], why: y, level: high}\n')) as w:
        w.brain.place = lambda wish: route(w.box, **({"language": known} if known is not None else {}))
        body = json.dumps({"context": {"id": "c9", "language": claimed}, "code": code}).encode()
        s = send(w, f"POST {PROXY}/44772/code HTTP/1.1\nHost: a\nContent-Length: {len(body)}\n\n", body)
        wait_for(lambda: w.brain.holds)
        assert w.brain.wishes[0]["id"] == "c9" and w.box.requests == []
        w.brain.decide("APPROVAL_DENIED")
        assert b"SandgateDenied" in response(s)[1] and w.box.requests == []
        row = w.rows("deny", least=1)[0]["exec"]
        assert row["context"] == "c9" and row["runs_as"] == (known or "not known") and row["language"] == claimed


@pytest.mark.parametrize("how", ["whole", "in chunks", "list", "one"])
def test_what_execd_says_of_a_context_is_told_before_its_caller_knows_it(w, how):
    said = b'[{"id":"c1","language":"python"},{"id":"c2","language":"bash"}]' if how == "list" else b'{"id":"c1","language":"python"}'

    def serve(request, sock):
        assert "gzip" not in request.names.get("accept-encoding", "")
        if how != "in chunks":
            sock.sendall(ok(said))
            return
        sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i in range(len(said)):
            sock.sendall(b"1\r\n" + said[i:i + 1] + b"\r\n")
            time.sleep(0.001)
        sock.sendall(b"0\r\n\r\n")
    w.box.serve = serve
    body = b'{"language":"python"}'
    asks = {"list": f"GET {PROXY}/44772/code/contexts", "one": f"GET {PROXY}/44772/code/contexts/c1"}
    head = asks.get(how, f"POST {PROXY}/44772/code/context")
    s = send(w, f"{head} HTTP/1.1\nHost: a\nAccept-Encoding: gzip\nContent-Length: {len(body) if how in ('whole', 'in chunks') else 0}\n\n",
             body if how in ("whole", "in chunks") else b"")
    r, got = response(s)
    assert r.status == 200 and got == said
    wait_for(lambda: w.brain.left)  # what is told of it comes before
    want = [("c1", "python"), ("c2", "bash")] if how == "list" else [("c1", "python")]
    assert [c[1:] for c in w.brain.contexts] == want


@pytest.mark.parametrize("said, status, want", [
    (b'{"id":"c1","language":"bash"}', "200 OK", [("c1", "")]), (b'{"id":"c1"}', "200 OK", [("c1", "")]),
    (b'{"id":7,"language":"python"}', "200 OK", []), (b'{"id":"c1","language":"python"}', "500 Oh", []),
    (b'{"id":"c1","Id":"c2","language":"python"}', "200 OK", []), (b'"c1"', "200 OK", []),
    (b'{"id":"c1","language":"python"', "200 OK", []), (b'[' * 5000 + b']', "200 OK", []), (b"]" * 100, "200 OK", [])])
def test_what_execd_does_not_say_plainly_is_not_known(w, said, status, want):
    w.box.serve = lambda request, sock: sock.sendall(ok(said, status))
    body = b'{"language":"python"}'
    r, got = response(send(w, f"POST {PROXY}/44772/code/context HTTP/1.1\nHost: a\nContent-Length: {len(body)}\n\n", body))
    wait_for(lambda: w.brain.left)
    assert got == said and [c[1:] for c in w.brain.contexts] == want


@pytest.mark.parametrize("port, path, passes", [(44772, "files/newer", ""), (8080, "x", "x-plain: 1")])
def test_trailers_carry_no_token_in_or_out_and_none_to_execd(w, port, path, passes):
    came = []

    def talk(conn):
        data = b""
        while not data.endswith(b"\r\n\r\n") or b"\r\n0\r\n" not in data:
            more = conn.recv(65536)
            assert more, data
            data += more
        came.append(data.split(b"\r\n0\r\n")[1].decode().lower().strip())
        conn.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-More: 2\r\n"
                     b"X-EXECD-ACCESS-TOKEN: t\r\nX-Tok: t\r\nX-Sandgate-B: 1\r\n\r\n")
    w.box.talk = talk
    w.brain.place = lambda wish: route(w.box, fields=[("X-Tok", "t")])
    s = send(w, f"POST {PROXY}/{port}/{path} HTTP/1.1\nHost: a\nTE: trailers\nTransfer-Encoding: chunked\n\n",
             b"1\r\na\r\n0\r\nX-EXECD-ACCESS-TOKEN: mine\r\nOpen_Sandbox_Api_Key: k\r\nX-Tok: mine\r\n"
             b"X-Plain: 1\r\nX-Sandgate-A: 1\r\n\r\n")
    got = b""
    while not got.endswith(b"\r\n\r\n") or b"\r\n0\r\n" not in got:
        more = s.recv(65536)
        assert more, got
        got += more
    assert got.split(b"\r\n0\r\n")[1] == b"X-More: 2\r\n\r\n" and came == [passes]
