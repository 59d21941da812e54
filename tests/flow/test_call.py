"""CALL: control asks an execution server through a connector's process, which we are the neighbours of."""
import struct
import threading
import time

import pytest

from call_world import KEY, Hook, Server, execution_server
from connector_line import reply
from role_line import str16


@pytest.fixture
def plain():
    p = execution_server()
    yield p
    p.close()


@pytest.fixture
def server(tmp_path, plain):
    s = Server(tmp_path, plain)
    yield s
    assert s.is_alive()
    assert s.close() == 0


def test_a_request_goes_out_with_the_key_and_its_answer_comes_back(server, plain):
    got = server.ask("/v1/sandboxes?pageSize=1&state=Running", "POST", b'{"a":1}', "application/json")
    assert got == ("OK", 200, "application/json", b'{"ok":true}')
    r, = plain.requests
    assert (r.method, r.target, r.body) == ("POST", "/v1/sandboxes?pageSize=1&state=Running", b'{"a":1}')
    assert [v for n, v in r.all if n == "open-sandbox-api-key"] == [KEY.decode()]
    assert r.headers["host"] == f"127.0.0.1:{plain.port}"
    assert (r.headers["content-type"], r.headers["accept-encoding"]) == ("application/json", "identity")
    assert server.keeper.asked == [("standard", "opensandbox/standard", 0)]
    assert server.fetcher.asked == [("standard", "127.0.0.1", plain.port, 0)]


def test_that_a_key_is_used_is_a_row_before_it_goes_out(server, plain):
    seen = []
    plain.serve = lambda r: seen.extend(server.rows("credential")) or reply(200, b"{}")
    assert server.ask("/v1/sandboxes/abc", "DELETE")[0] == "OK"
    row, = seen
    assert (row["connector"], row["method"], row["path"], row["secret_version"]) == ("standard", "DELETE", "/v1/sandboxes/abc", 7)
    assert "sandbox" not in row or not row["sandbox"]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_each_method_with_and_without_a_body(server, plain, method):
    for body in (b"", b"[1]"):
        assert server.ask("/x", method, body, "application/json" if body else "")[:2] == ("OK", 200)
        r = plain.requests.pop()
        assert (r.method, r.body) == (method, body)
        assert ("content-length" in r.headers) == (bool(body) or method in ("POST", "PUT", "PATCH"))


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "HEAD", "OPTIONS", "get", "GET ", "G\r\nX: y", ""])
def test_other_methods_are_never_sent(server, plain, method):
    assert server.ask("/x", method)[0] == "METHOD_REFUSED"
    assert not plain.requests


@pytest.mark.parametrize("target", ["", "x", "*", "http://evil.example/x", "//../x", "/a/../b", "/a%2e%2e/../b", "/a b", "/a\r\nX: y",
                                    "/a\x00", "/a#b", "/a?b\r\nX: y", "/\xff", "/a\\b", "/%zz", "/a?b#c"])
def test_a_target_that_is_no_plain_path_is_never_sent(server, plain, target):
    assert server.ask(target)[0] in ("BAD_TARGET", "BAD_PATH")
    assert not plain.requests
    assert not server.rows("credential", least=0)


def test_a_type_that_would_be_two_fields_is_never_sent(server, plain):
    assert server.ask("/x", "POST", b"{}", "a\r\nX: y")[0] == "BAD_HEADER"
    assert not plain.requests


@pytest.mark.parametrize("name", ["tracker", "other", "absent", ""])
def test_no_other_connector_is_called_so(server, plain, name):
    """tracker is for sandboxes, other is of another process."""
    assert server.ask(name=name)[0] == "NOT_FOUND"
    assert not plain.requests and not server.keeper.asked


def test_no_sandbox_gets_a_lane_to_a_server(server, plain):
    assert server.open_bare("standard")[0] == "DENIED"
    assert not plain.requests


@pytest.mark.parametrize("change", [{"deadline": 0}, {"deadline": 600001}, {"most": (4 << 20) + 1}])
def test_bounds_are_the_table_s(server, change):
    with pytest.raises(EOFError):
        server.ask(**change)


def test_what_a_server_says_back_of_the_key_is_overwritten(server, plain):
    import base64
    said = b'{"detail":"' + KEY + b'","again":"' + base64.b64encode(KEY) + b'"}'
    plain.serve = lambda r: reply(401, said, [("Content-Type", "text/x; key=" + KEY.decode())])
    status, http, kind, body = server.ask()
    assert (status, http) == ("OK", 401)
    assert KEY not in body and KEY.decode() not in kind and len(body) == len(said)
    assert base64.b64encode(KEY)[:24] not in body
    assert b"*" * len(KEY) in body


def test_an_answer_may_be_as_large_as_was_said_and_no_larger(server, plain):
    plain.serve = lambda r: reply(200, b"x" * 100000)
    assert server.ask(most=99999)[0] == "TOO_BIG"
    assert server.ask(most=100000)[3] == b"x" * 100000
    plain.serve = lambda r: reply(200, b"y" * (4 << 20))
    assert server.ask(most=4 << 20)[3] == b"y" * (4 << 20)


def test_an_endless_answer_is_cut_at_its_largest(server, plain):
    def endless(r):
        r.socket.sendall(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            r.socket.sendall(b"1000\r\n" + b"z" * 4096 + b"\r\n")
    plain.serve = endless
    assert server.ask(most=1 << 20)[0] == "TOO_BIG"


def test_an_endless_head_is_refused(server, plain):
    def endless(r):
        r.socket.sendall(b"HTTP/1.1 200 X\r\n")
        while True:
            r.socket.sendall(b"X-A: " + b"b" * 1000 + b"\r\n")
    plain.serve = endless
    assert server.ask()[0] in ("UPSTREAM_BAD", "HEAD_TOO_LARGE")


@pytest.mark.parametrize("bytes_", [b"SSH-2.0-x\r\n", b"HTTP/1.1 200 X\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
                                    b"HTTP/1.1 200 X\r\nContent-Length: 5\r\n\r\nhe", b"HTTP/1.1 2\r\n\r\n"])
def test_what_is_no_answer_is_none(server, plain, bytes_):
    def bad(r):
        r.socket.sendall(bytes_)
    plain.serve = bad
    status, http, kind, body = server.ask()
    assert status in ("UPSTREAM_BAD", "CUT", "UPSTREAM_CLOSED") and (http, kind, body) == (0, "", b"")


def test_an_encoded_answer_is_refused(server, plain):
    plain.serve = lambda r: reply(200, b"\x1f\x8b", [("Content-Encoding", "gzip")])
    assert server.ask()[0] == "UPSTREAM_BAD"


def test_interim_answers_are_not_the_answer(server, plain):
    plain.serve = lambda r: b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + reply(202, b"{}")
    assert server.ask()[:2] == ("OK", 202)


def test_an_answer_without_a_body_has_none(server, plain):
    plain.serve = lambda r: b"HTTP/1.1 204 X\r\n\r\n"
    assert server.ask("/x", "DELETE") == ("OK", 204, "", b"")


def test_redirects_are_told_and_not_followed(server, plain):
    plain.serve = lambda r: b"HTTP/1.1 307 X\r\nLocation: http://127.0.0.1:1/x\r\nContent-Length: 0\r\n\r\n"
    assert server.ask()[:2] == ("OK", 307)
    assert len(plain.requests) == 1


def test_the_deadline_ends_a_call_and_the_next_one_is_answered(server, plain):
    plain.serve = lambda r: time.sleep(5) if r.target == "/slow" else reply(200, b"{}")
    since = time.time()
    assert server.ask("/slow", deadline=300)[0] == "UPSTREAM_TIMEOUT"
    assert 0.2 < time.time() - since < 3
    assert server.ask("/fast")[:2] == ("OK", 200)


def test_trickled_bytes_do_not_move_the_deadline(server, plain):
    def trickle(r):
        r.socket.sendall(b"HTTP/1.1 200 X\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(100):
            r.socket.sendall(b"x")
            time.sleep(0.05)
    plain.serve = trickle
    since = time.time()
    assert server.ask(deadline=500)[0] == "UPSTREAM_TIMEOUT"
    assert time.time() - since < 3


def test_connections_are_kept_and_used_again(server, plain):
    for _ in range(5):
        assert server.ask()[0] == "OK"
    assert (len(plain.clients), len(plain.requests)) == (1, 5)


def test_calls_at_once_have_connections_of_their_own(server, plain):
    together = threading.Barrier(8, timeout=10)
    plain.serve = lambda r: together.wait() >= 0 and reply(200, r.target.encode())
    asked = {server.begin(f"/{i}"): f"/{i}".encode() for i in range(8)}
    assert [server.end(seq)[3] for seq in asked] == list(asked.values())
    assert len(plain.clients) == 8
    assert len(server.keeper.asked) <= 8


def closing(plain, at):
    """Answers, but closes instead of the request number `at`."""
    def serve(r):
        return None if len(plain.requests) == at else reply(200, b"{}")
    return serve


def test_a_get_on_a_kept_connection_that_closed_is_asked_again_once(server, plain):
    plain.serve = closing(plain, 2)
    assert server.ask("/1")[0] == "OK"
    assert server.ask("/2")[0] == "OK"
    assert [r.target for r in plain.requests] == ["/1", "/2", "/2"]
    assert len(plain.clients) == 2


def test_a_create_takes_no_connection_that_its_server_has_closed(server, plain):
    def once(r):
        r.socket.sendall(reply(200, b"{}"))
    plain.serve = once
    for i in range(3):
        assert server.ask(f"/{i}", "POST", b"{}", "application/json")[:2] == ("OK", 200)
        time.sleep(0.1)
    assert [r.target for r in plain.requests] == ["/0", "/1", "/2"]
    assert len(plain.clients) == 3


def test_a_create_is_never_sent_twice(server, plain):
    plain.serve = closing(plain, 2)
    assert server.ask("/1")[0] == "OK"
    assert server.ask("/2", "POST", b"{}", "application/json")[0] == "UPSTREAM_CLOSED"
    time.sleep(0.3)
    assert [r.target for r in plain.requests] == ["/1", "/2"]


def test_a_get_on_a_new_connection_is_not_asked_again(server, plain):
    plain.serve = lambda r: None
    assert server.ask()[0] == "UPSTREAM_CLOSED"
    time.sleep(0.3)
    assert len(plain.requests) == 1


@pytest.mark.parametrize("status", ["CONNECT_REFUSED", "ADDRESS_PRIVATE", "CONNECT_TIMEOUT"])
def test_what_the_dialer_says_is_told(server, status):
    server.fetcher.hosts["127.0.0.1"] = status
    assert server.ask() == (status, 0, "", b"")


@pytest.mark.parametrize("status", ["NO_SECRET", "SECRET_DENIED", "VAULT_SEALED"])
def test_what_the_keeper_says_is_told(server, plain, status):
    server.keeper.secrets["opensandbox/standard"] = status
    assert server.ask()[0] == status
    assert not plain.requests


def test_a_key_that_is_no_field_value_is_never_sent(server, plain):
    server.keeper.secrets["opensandbox/standard"] = b"key\r\nX: y"
    assert server.ask()[0] == "BAD_SECRET"
    assert not plain.requests


def test_a_revoked_key_is_not_used_again(server, plain):
    assert server.ask()[0] == "OK"
    server.keeper.secrets["opensandbox/standard"] = b"another-server-key-9"
    server.lines["CONTROL"].call("REVOKE", str16("") + str16("opensandbox/standard"))
    assert server.ask()[0] == "OK"
    assert [r.headers["open-sandbox-api-key"] for r in plain.requests] == [KEY.decode(), "another-server-key-9"]


def test_a_call_outlives_a_reload(server, plain):
    go = threading.Event()
    plain.serve = lambda r: go.wait(10) and reply(202, b"{}")
    seq = server.begin("/v1/sandboxes", "POST", b"{}", "application/json", deadline=20000)
    deadline = time.time() + 5
    while not plain.requests and time.time() < deadline:
        time.sleep(0.02)
    server.take(server.image())
    go.set()
    assert server.end(seq)[:2] == ("OK", 202)
    assert len(plain.requests) == 1


def test_what_was_not_sent_begins_anew_with_a_reload(server, plain):
    server.keeper.delay = 1
    seq = server.begin("/v1/sandboxes", "POST", b"{}", "application/json", deadline=20000)
    time.sleep(0.2)
    server.take(server.image())
    assert server.end(seq)[:2] == ("OK", 200)
    assert len(plain.requests) == 1


def test_a_server_that_a_reload_removed_is_not_called(server, plain):
    server.keeper.delay = 1
    seq = server.begin()
    time.sleep(0.2)
    server.extra = ""
    server.take(server.image())
    assert server.end(seq)[0] == "NOT_FOUND"
    assert server.ask()[0] == "NOT_FOUND"
    assert not plain.requests


def test_the_end_of_control_ends_its_calls(server, plain):
    gone = threading.Event()

    def watch(r):
        if not r.socket.recv(1):
            gone.set()
    plain.serve = watch
    server.begin(deadline=60000)
    deadline = time.time() + 5
    while not plain.requests and time.time() < deadline:
        time.sleep(0.02)
    server.lines["CONTROL"].close()
    assert gone.wait(5)
    server.lines["CONTROL"] = server.new_line("CONTROL")


def test_too_many_calls_are_refused_and_the_others_answered(server, plain):
    go = threading.Event()
    plain.serve = lambda r: go.wait(20) and reply(200, b"{}")
    asked = [server.begin(f"/{i}", deadline=30000) for i in range(260)]
    time.sleep(0.5)
    go.set()
    told = [server.end(seq, 30)[0] for seq in asked]
    assert told.count("OK") == 256 and told.count("LIMIT_CONNECTIONS") == 4


def test_a_key_goes_in_plain_text_only_where_conf_meant_it(tmp_path, plain):
    s = Server(tmp_path, plain, f"http://osb.example.test:{plain.port}", "plain: true,")
    try:
        assert s.ask()[:2] == ("OK", 200)
    finally:
        assert s.close() == 0
    with pytest.raises(ValueError, match="readable"):
        Server(tmp_path, plain, f"http://osb.example.test:{plain.port}")


def test_a_server_behind_tls_is_verified(tmp_path):
    plain = execution_server()
    s = Server(tmp_path, plain, "https://tracker.example.test:443")
    try:
        s.system.serve = lambda r: reply(200, b"{}")
        assert s.ask()[:2] == ("OK", 200)
        r, = s.system.requests
        assert r.headers["open-sandbox-api-key"] == KEY.decode()
        s.fetcher.hosts["tracker.example.test"] = plain.port
        s.take(s.image())
        assert s.ask()[0] in ("TLS_BROKEN", "UPSTREAM_TLS", "UPSTREAM_BAD", "CUT")
        assert not plain.requests
    finally:
        assert s.close() == 0
        plain.close()


def test_a_stop_waits_for_what_was_sent_and_takes_no_more(server, plain):
    go = threading.Event()
    plain.serve = lambda r: go.wait(10) and reply(200, b"{}")
    seq = server.begin("/v1/sandboxes", "POST", b"{}", "application/json", deadline=20000)
    deadline = time.time() + 5
    while not plain.requests and time.time() < deadline:
        time.sleep(0.02)
    drain = server.super.send("DRAIN", struct.pack("!I", 20000))
    time.sleep(0.2)
    assert server.ask()[0] == "DRAINING"
    go.set()
    assert server.end(seq)[:2] == ("OK", 200)
    server.super.answer(drain)


@pytest.mark.parametrize("auth, shown", [
    ("{kind: bearer, secret: tracker/token}", ("authorization", "Bearer " + KEY.decode())),
    ("{kind: header, secret: tracker/token, name: x-key}", ("x-key", KEY.decode())),
    ("{kind: passthrough}", None)])
def test_a_webhook_is_called_as_its_connector_says(tmp_path, plain, auth, shown):
    s = Hook(tmp_path, plain, auth)
    try:
        assert s.ask("/", "POST", b'{"id":1}', "application/json", name="tracker")[:2] == ("OK", 200)
        r, = s.system.requests
        assert (r.method, r.target, r.body) == ("POST", "/", b'{"id":1}')
        assert shown is None or r.headers[shown[0]] == shown[1]
        assert s.ask(name="standard")[0] == "NOT_FOUND"
    finally:
        assert s.close() == 0


@pytest.mark.parametrize("kind", ["query", "form"])
def test_a_credential_in_target_or_body_goes_there(tmp_path, plain, kind):
    s = Hook(tmp_path, plain, f"{{kind: {kind}, secret: tracker/token, name: key}}")
    try:
        assert s.ask("/h?a=b", "POST", b"c=d", "application/x-www-form-urlencoded", name="tracker")[:2] == ("OK", 200)
        r, = s.system.requests
        shown = "key=" + KEY.decode()
        assert (r.target, r.body) == (("/h?a=b&" + shown, b"c=d") if kind == "query" else ("/h?a=b", b"c=d&" + shown.encode()))
        row, = s.rows("credential")
        assert KEY.decode() not in str(row)
    finally:
        assert s.close() == 0


def test_a_token_is_got_once_and_shown(tmp_path, plain):
    s = Hook(tmp_path, plain, "{kind: oauth2_client_credentials, secret: tracker/token, client_id: me, "
                              "token_url: 'https://tracker.example.test/token'}")

    def serve(r):
        if r.target == "/token":
            return reply(200, b'{"access_token":"tok-81c2aa90","token_type":"bearer","expires_in":3600}',
                         [("Content-Type", "application/json")])
        return reply(200, b"said " + r.headers["authorization"].encode())
    s.system.serve = serve
    try:
        for _ in range(2):
            status, http, _, body = s.ask("/", "POST", b"{}", "application/json", name="tracker")
            assert (status, http) == ("OK", 200) and b"tok-81c2aa90" not in body
        assert [r.target for r in s.system.requests] == ["/token", "/", "/"]
        assert s.system.requests[1].headers["authorization"] == "Bearer tok-81c2aa90"
    finally:
        assert s.close() == 0


def test_what_belongs_to_each_user_is_not_control_s(tmp_path, plain):
    with pytest.raises(ValueError):
        Hook(tmp_path, plain, "{kind: bearer, secret: 'users/{user}/tracker'}")
