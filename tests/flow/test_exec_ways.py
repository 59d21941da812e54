"""An execution listener's request and answer on their way: cuts, redirects, sizes, framings,
terminals over HTTP/2.  A worker alone; control, dialer and sandbox are ours."""
import base64
import contextlib
import hashlib
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

PROXY = "/v1/sandboxes/sb-one/proxy"


@pytest.fixture
def w(tmp_path, request):
    worker = ExecWorker(tmp_path, more=getattr(request, "param", ""))
    worker.brain.place = lambda wish: route(worker.box)
    yield worker
    assert worker.is_alive()
    assert worker.close() == 0


def send(w, text, body=b""):
    s = w.connect()
    s.sendall(text.replace("\n", "\r\n").encode() + body)
    return s


def response(s, method="GET"):
    r = http.client.HTTPResponse(s, method=method)
    r.begin()
    return r, r.read()


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


def test_a_terminal_over_http2(w):
    def serve(request, sock):
        key = request.names["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        digest = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        sock.sendall(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     f"Sec-WebSocket-Accept: {digest}\r\n\r\n".encode() + b"\x82\x03\x01ok")
        while sock.recv(100):
            pass
    w.box.serve = serve
    s = w.connect()
    c = h2.connection.H2Connection()
    c.initiate_connection()
    s.sendall(c.data_to_send())
    c.receive_data(s.recv(65536))
    c.send_headers(1, [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":authority", "a.test"),
                       (":path", f"{PROXY}/44772/pty/p/ws"), ("sec-websocket-version", "13")])
    s.sendall(c.data_to_send())
    got, status = b"", None
    while b"ok" not in got:
        for e in c.receive_data(s.recv(65536)):
            if isinstance(e, h2.events.ResponseReceived):
                status = dict(e.headers)[b":status" if isinstance(e.headers[0][0], bytes) else ":status"]
            if isinstance(e, h2.events.DataReceived):
                got += e.data
        s.sendall(c.data_to_send())
    assert status in (b"200", "200")
    s.close()
    assert w.rows("exec_end", least=1)[0]["exec"]["stdout"]["bytes"] == 2


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


def frame(octets, opcode=2):
    assert len(octets) < 126
    return bytes([0x80 | opcode, 0x80 | len(octets), 0, 0, 0, 0]) + octets


@contextlib.contextmanager
def terminal(w, mode=b"pty"):
    """A terminal's (caller's socket, what has arrived at execd)."""
    got = bytearray()
    hello = b'{"type":"connected","mode":"%b"}' % mode

    def serve(request, sock):
        key = request.names["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        digest = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        sock.sendall(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     f"Sec-WebSocket-Accept: {digest}\r\n\r\n".encode() +
                     bytes([0x81, len(hello)]) + hello + b"\x82\x03\x01ok")
        while data := sock.recv(65536):
            got.extend(data)
    w.box.serve = serve
    s = send(w, f"GET {PROXY}/44772/pty/p1/ws HTTP/1.1\nHost: a\nConnection: Upgrade\nUpgrade: websocket\n"
                "Sec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n\n")
    said = b""
    while b"ok" not in said:
        said += s.recv(4096)
    with contextlib.closing(s):
        yield s, got


def test_lines_that_are_typed_are_judged_and_what_is_risky_has_a_row_before_it_goes_on(w):
    with terminal(w) as (s, got):
        for key in b"echo rm\rr\bmr\b\bxx\x15":  # what was taken back was never said
            s.sendall(frame(b"\0" + bytes([key])))
        s.sendall(frame(b"\0rm --password hunter2 a\r")[:9])
        s.sendall(frame(b"\0rm --password hunter2 a\r")[9:] + frame(b'{"type":"stdin","data":"\\u001b[A\\r"}', 1))
        s.sendall(frame(b'{"data":"rm b\\r","type":"stdin"}', 1))
        wait_for(lambda: got.endswith(b'"stdin"}'))
        told, behind = [r for r in w.rows("exec", least=3) if r["exec"]["op"] == "pty.input"]
    assert told["exec"]["command"] == "rm --password [redacted] a" and told["exec"]["level"] == "high"
    assert told["exec"]["why"].endswith("removes files") and told["exec"]["id"] == "p1" and told["user"] == "alice"
    assert behind["exec"]["command"] == "rm b"
    end, = w.rows("exec_end", least=1)
    assert end["turn"] == told["turn"] and end["exec"]["typed_level"] == "high"
    assert (end["exec"]["lines"], end["exec"]["lines_unread"]) == (4, 1)


def test_without_a_terminal_no_key_takes_anything_back(w):
    with terminal(w, b"pipe") as (s, got):
        s.sendall(frame(b"\0rm x;\x15:\n"))
        wait_for(lambda: got.endswith(b":\n"))
    assert [r["exec"]["command"] for r in w.rows("exec", least=2) if r["exec"]["op"] == "pty.input"] == ["rm x;\n:"]


def test_no_key_takes_back_or_hands_over_a_line_unseen(w):
    typed = [b"rm a\x01\x15\r", b"rm b\x0f\x15\r", b"rm c\x04", b"\x15\r", b"r\\\rm d\r", b"echo '\r", b"'; rm e\r", b"rm f"]
    with terminal(w) as (s, got):
        for text in typed:
            s.sendall(frame(b"\0" + text))
        wait_for(lambda: got.endswith(typed[-1]))
        s.close()
        told = [r["exec"]["command"] for r in w.rows("exec", least=9) if r["exec"]["op"] == "pty.input"]
    assert told == ["rm a\n", "rm b", "rm b\n", "rm c", "rm c\n", "rm d", "echo '\n'; rm e", "rm f"]


@pytest.mark.parametrize("typed, told", [
    ([b": #\x01\x0brm a\r"], "rm a"), ([b": #\x0frm a\r"], "rm a"), ([b": #\x18\x05rm a\r"], "rm a"),
    ([b"echo '\x1b[Hrm a;\r"], "rm a;"), ([b"echo 'x\x04\r", b"'; rm a\r"], "'; rm a"), ([b"'; rm a\r"], "'; rm a"),
    ([b"\"; rm a\r"], "\"; rm a"), ([b":" + b" " * 5000 + b"; rm a\r"], None), ([b"r\x01\x05m a\r"], "r\nm a"),
    ([b"rm a \\\x05\r", b"b\r"], "rm a \\\n")])
def test_keys_of_which_nothing_is_known_hide_no_line(w, typed, told):
    with terminal(w) as (s, got):
        s.sendall(b"".join(frame(b"\0" + text[i:i + 100]) for text in typed for i in range(0, len(text), 100)))
        wait_for(lambda: got.endswith(typed[-1][-4:]))
        first = next(r["exec"] for r in w.rows("exec", least=2) if r["exec"]["op"] == "pty.input")
    assert first["command"] == told if told else first["command"].endswith("; rm a")
    end, = w.rows("exec_end", least=1)
    assert end["exec"]["typed_level"] == "high" and end["exec"]["lines_unread"] > 0


def test_what_only_looks_risky_has_no_row(w):
    typed = b"echo 'rm a'\r" + b"echo it\\'s\r" + b"ls\x1b[D\x1b[Crm\r" + b"echo \"a\r" + b"rmdir\"\r" + b"l\ts\r"
    with terminal(w) as (s, got):
        s.sendall(frame(b"\0" + typed))
        wait_for(lambda: got.endswith(b"s\r"))
    end, = w.rows("exec_end", least=1)
    assert end["exec"]["typed_level"] == "high" and end["exec"]["lines"] == 6
    assert [r["exec"]["command"] for r in w.rows("exec", least=2) if r["exec"]["op"] == "pty.input"] == ["rm"]


@pytest.mark.parametrize("message", [b'{"Type":"stdin","data":"rm x\\r"}', b'{"type":"ping","type":"stdin","data":"rm x\\r"}',
                                     b'{"type":"stdin","data":"\xff\\r rm x\\r"}', b'{"data":"#","type":"ping"}'])
def test_what_another_reader_might_take_for_typed_ends_the_terminal(w, message):
    with terminal(w) as (s, got):
        s.sendall(frame(b"\0ls\r") + frame(message, 1) + frame(b"\0id\r"))
        with contextlib.suppress(ConnectionResetError):
            while s.recv(4096):
                pass
        assert b"id" not in got
    end, = w.rows("exec_end", least=1)
    assert end["reason"] == "bad_json"
    with terminal(w) as (s, got):
        s.sendall(frame(b"\0id\r"))
        wait_for(lambda: got.endswith(b"id\r"))


def test_what_is_risky_is_not_typed_without_a_ledger(w):
    with terminal(w) as (s, got):
        s.sendall(frame(b"\0ls\r"))
        wait_for(lambda: got.endswith(b"ls\r"))
        w.ring.fill()
        s.sendall(frame(b"\0ls\r"))
        wait_for(lambda: got.count(b"ls\r") == 2)
        s.sendall(frame(b"\0rm x\r"))
        with contextlib.suppress(ConnectionResetError):
            assert s.recv(100) == b""
        assert b"rm" not in got


def test_a_paste_of_any_length_takes_no_time_from_others(w):
    with terminal(w) as (s, got):
        began = time.monotonic()
        text = b"a(" * 60 + b"\r"
        s.sendall(frame(b"\0" + text) * 8000)
        wait_for(lambda: got.count(text) == 8000, 20)
        s.sendall(frame(b"\0rm x\r"))
        wait_for(lambda: got.endswith(b"rm x\r"))
        assert time.monotonic() - began < 5
    end, = w.rows("exec_end", least=1)
    assert end["exec"]["lines"] == 8001 and end["exec"]["lines_unread"] > 7000


@pytest.mark.parametrize("w", ["risk: {terminal: high}"], indirect=True)
def test_who_attaches_to_a_terminal_may_have_to_wait_for_a_person(w):
    ask = f"GET {PROXY}/44772/pty/p1/ws HTTP/1.1\nHost: a\nConnection: Upgrade\nUpgrade: websocket\n" \
          "Sec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n\n"
    s = send(w, ask)
    wait_for(lambda: w.brain.holds)
    assert w.box.requests == [] and w.brain.holds[0]["level"] == 2 and "p1" in w.brain.holds[0]["text"]
    assert "terminal" in w.brain.holds[0]["why"]
    w.brain.decide("APPROVAL_DENIED")
    assert response(s)[0].status == 403 and w.box.requests == []
    # Other routes of a terminal run nothing.
    assert response(send(w, f"GET {PROXY}/44772/pty/p1 HTTP/1.1\nHost: a\n\n"))[0].status == 200
    threading.Thread(target=lambda: (wait_for(lambda: len(w.brain.holds) == 2), w.brain.decide()), daemon=True).start()
    with terminal(w) as (s, got):
        s.sendall(frame(b"\0ls\r"))
        wait_for(lambda: got.endswith(b"ls\r"))
