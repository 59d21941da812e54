"""The worker alone: ways in, verdicts, tunnels and rows, with a scripted dialer.

The oracle of what got out is the dialer's list: what it wasn't asked for can't be reached.
"""
import base64
import socket
import ssl
import time

import pytest

from tls_world import read_head, read_refusal
from worker_gate import connect, echo, end_rows, gate, secure, socks, tls


def test_connect_carries_tls_and_leaves_two_rows(gate):
    sock = connect(gate, "ok.test:443")
    assert read_head(sock).startswith("HTTP/1.1 200 ")
    with secure(gate, sock) as t:
        echo(t)
    start, end = end_rows(gate, 2)
    assert gate.dialer.asked == [("ok.test", 443, 1, "127.0.0.5")]
    assert (start["kind"], start["reason"], start["host"]) == ("tunnel_start", "ok", "ok.test:443")
    assert (start["sandbox"], start["user"], start["listener"]) == ("demo", "alice", "proxy")
    assert start["address"] == "%s:%d" % gate.origin.address and "sandgate.yaml:" in start["rule"]
    assert end["kind"] == "tunnel_end" and end["turn"] == start["id"] and end["reason"] == "ok"
    assert end["up"] > 300 and end["down"] > 300


def test_socks_carries_tls(gate):
    sock, reply = socks(gate, "a.ok.test", 443)
    assert reply == 0
    with secure(gate, sock, "a.ok.test") as t:
        echo(t)
    assert end_rows(gate, 2)[1]["kind"] == "tunnel_end"


def test_transparent_takes_the_name_from_the_hello_and_the_port_from_the_packet(gate):
    with secure(gate, gate.connect(gate.transparent)) as t:
        echo(t)
    assert gate.dialer.asked == [("ok.test", gate.transparent, 1, "127.0.0.5")]


def test_hello_in_single_bytes_passes(gate):
    sock = connect(gate, "ok.test:443")
    read_head(sock)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    t = gate.client.wrap_bio(incoming, outgoing, server_hostname="ok.test")
    with pytest.raises(ssl.SSLWantReadError):
        t.do_handshake()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in outgoing.read():
        sock.sendall(bytes([byte]))
    incoming.write(sock.recv(65536))
    with pytest.raises(ssl.SSLWantReadError):
        t.do_handshake() or t.read()
    assert gate.dialer.asked[0][0] == "ok.test"


@pytest.mark.parametrize("target, code", [
    ("evil.test:443", "denied_by_policy"), ("bad.ok.test:443", "denied_by_rule"), ("ok.test:8443", "denied_port"),
    ("127.0.0.1:443", "ip_literal"),
])
def test_a_refused_target_has_one_code_on_every_way(gate, target, code):
    host, port = target.split(":")
    sock = connect(gate, target)
    head, error = read_refusal(sock)
    assert head.startswith(f"HTTP/1.1 403 {code}\r\n") and f'details="{code}"' in head
    assert error["code"] == code and target in error["message"] and error["hint"]
    assert socks(gate, host, int(port))[1] == 2
    rows = gate.rows("deny", least=2)
    assert [r["reason"] for r in rows] == [code, code] and gate.dialer.asked == []
    assert {r["host"] for r in rows} == {target}


def test_a_refused_connect_keeps_the_connection(gate):
    sock = connect(gate, "evil.test:443")
    assert read_refusal(sock)[1]["code"] == "denied_by_policy"
    sock.sendall(b"CONNECT ok.test:443 HTTP/1.1\r\nHost: ok.test:443\r\n\r\n")
    assert read_head(sock).startswith("HTTP/1.1 200 ")
    with secure(gate, sock) as t:
        echo(t)


@pytest.mark.parametrize("request_line, status", [
    ("CONNECT http://ok.test:443 HTTP/1.1", 400), ("CONNECT / HTTP/1.1", 400), ("CONNECT ok.test HTTP/1.1", 400),
    ("CONNECT * HTTP/1.1", 400), ("CONNECT ok.test:443/x HTTP/1.1", 400), ("CONNECT ok.test:0 HTTP/1.1", 400),
    ("CONNECT user@ok.test:443 HTTP/1.1", 400), ("CONNECT 0x7f.1:443 HTTP/1.1", 400),
    ("PRI * HTTP/2.0", 505), ("CONNECT ok.test:443 HTTP/3.0", 505),
])
def test_malformed_connects_are_refused(gate, request_line, status):
    sock = gate.connect()
    sock.sendall(f"{request_line}\r\nHost: ok.test:443\r\n\r\n".encode())
    assert read_refusal(sock)[0].startswith(f"HTTP/1.1 {status} ")
    assert gate.dialer.asked == []


@pytest.mark.parametrize("more", ["Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n"])
def test_connect_with_a_body_is_refused(gate, more):
    assert read_refusal(connect(gate, "ok.test:443", more))[0].startswith("HTTP/1.1 400 ")


def test_connect_whose_host_names_another_is_refused(gate):
    sock = gate.connect()
    sock.sendall(b"CONNECT ok.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n")
    assert read_refusal(sock)[1]["code"] == "name_mismatch"


def test_another_name_inside_connect_is_told_by_alert(gate):
    sock = connect(gate, "ok.test:443")
    read_head(sock)
    with pytest.raises(ssl.SSLError, match="UNRECOGNIZED_NAME|unrecognized"):
        secure(gate, sock, "a.ok.test")
    assert gate.rows("deny", least=1)[0]["reason"] == "name_mismatch" and gate.dialer.asked == []


def test_hello_without_name_is_refused(gate):
    context = ssl.create_default_context()
    context.check_hostname = False
    with pytest.raises(ssl.SSLError):
        context.wrap_socket(gate.connect(gate.transparent))
    assert gate.rows("deny", least=1)[0]["reason"] == "no_sni"


def test_neither_tls_nor_http_is_closed(gate):
    for sock in (gate.connect(gate.transparent), connect(gate, "ok.test:443")):
        if b"200" not in (sock.recv(4096) if sock.getpeername()[1] == gate.proxy else b"200"):
            raise AssertionError
        sock.sendall(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n")
        try:
            assert sock.recv(100) == b""
        except ConnectionResetError:
            pass
    assert {r["reason"] for r in gate.rows("deny", least=2)} == {"denied_protocol"} and gate.dialer.asked == []


def test_a_server_that_speaks_first_is_reached_by_a_tcp_rule(gate):
    sock = connect(gate, "db.test:5432")
    assert read_head(sock).startswith("HTTP/1.1 200 ")
    assert sock.recv(100) == b"hello from db\n"
    echo(sock)
    sock.shutdown(socket.SHUT_WR)
    assert sock.recv(10) == b""
    sock, reply = socks(gate, "db.test", 5432)
    assert reply == 0 and sock.recv(100) == b"hello from db\n"


def test_an_upstream_failure_has_a_code_and_a_row(gate):
    sock = connect(gate, "gone.test:443")
    read_head(sock)
    with pytest.raises(ssl.SSLError, match="INTERNAL|internal"):
        secure(gate, sock, "gone.test")
    assert gate.rows("deny", least=1)[0]["reason"] == "connect_refused"


def test_a_host_that_does_not_answer_in_tls_is_cut_off(gate):
    sock = connect(gate, "plain.test:443")
    read_head(sock)
    with pytest.raises((ssl.SSLError, OSError)):
        secure(gate, sock, "plain.test")
    assert gate.rows("tunnel_end", least=1)[0]["reason"] == "upstream_bad_response"


def test_unknown_sources_are_refused(gate):
    with pytest.raises((ssl.SSLError, OSError)):
        secure(gate, gate.connect(gate.transparent, source="127.0.0.77"))
    head, error = read_refusal(connect(gate, "ok.test:443", source="127.0.0.77"))
    assert head.startswith("HTTP/1.1 407 ") and "Proxy-Authenticate: Basic" in head
    assert error["code"] == "auth_required" and gate.dialer.asked == []


def basic(user, token):
    return "Proxy-Authorization: Basic " + base64.b64encode(f"{user}:{token}".encode()).decode() + "\r\n"


def test_a_token_is_accepted_at_the_next_try_on_the_same_connection(gate):
    sock = connect(gate, "ok.test:443", source="127.0.0.77")
    assert read_refusal(sock)[1]["code"] == "auth_required"
    for credentials, code in ((basic("ci", "wrong"), "auth_failed"), (basic("ci", "test"), None)):
        sock.sendall(f"CONNECT ok.test:443 HTTP/1.1\r\nHost: ok.test:443\r\n{credentials}\r\n".encode())
        if code:
            assert read_refusal(sock)[1]["code"] == code
    assert read_head(sock).startswith("HTTP/1.1 200 ")
    with secure(gate, sock) as t:
        echo(t)
    assert gate.rows("tunnel_start", least=1)[0]["sandbox"] == "ci"


def test_each_request_of_a_connection_brings_the_token_that_opened_it(gate):
    """Or a client that carries several sandboxes over one connection would make them one."""
    def ask(sock, more, method="GET http://no.test/", host="no.test"):
        sock.sendall(f"{method} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode())
        return read_refusal(sock)[1]["code"]

    ours, theirs = basic("ci", "test"), basic("other", "test")
    for more, code in ((theirs, "auth_failed"), ("", "auth_required")):
        sock = gate.connect(source="127.0.0.77")
        assert ask(sock, ours) == ask(sock, ours) == "denied_by_policy"
        assert ask(sock, more) == code
        assert ask(sock, more, "CONNECT ok.test:443", "ok.test:443") == code
        assert ask(sock, ours) == "denied_by_policy"
    assert gate.dialer.asked == []


def test_who_leaves_in_the_middle_of_a_request_while_the_host_is_dialled_is_gone(gate):
    gate.dialer.delay = 0.5
    sock = gate.connect()
    sock.sendall(b"POST http://plain.test:443/ HTTP/1.1\r\nHost: plain.test:443\r\nContent-Length: 9\r\n\r\n")
    time.sleep(0.1)
    sock.shutdown(socket.SHUT_WR)
    sock.settimeout(5)
    assert sock.recv(100) == b""
    time.sleep(0.6)
    assert gate.plain.got == b""


def test_a_token_checked_by_another_generation_names_nobody(gate):
    """Handles count the sandboxes of one generation: by another's they name a neighbour."""
    for generation, code in ((0, "auth_failed"), (2, "auth_failed"), (1, "denied_by_policy")):
        gate.control.generation = generation
        sock = connect(gate, "no.test:443", basic("ci", "test"), source="127.0.0.77")
        assert read_refusal(sock)[1]["code"] == code


def test_socks_user_and_password_are_a_sandbox_and_its_token(gate):
    assert socks(gate, "ok.test", 443, "127.0.0.77", ("ci", "wrong"))[1] is None
    sock, reply = socks(gate, "ok.test", 443, "127.0.0.77", ("ci", "test"))
    assert reply == 0
    with secure(gate, sock) as t:
        echo(t)


@pytest.mark.parametrize("sent, reply", [
    (b"\x05\x01\x00\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50", 7), (b"\x05\x01\x00\x05\x01\x00\x02xx", 8),
    (b"\x05\x01\x00\x05\x03\x00\x01\x7f\x00\x00\x01\x00\x50", 7), (b"\x05\x01\x00\x05\x01\x00\x01\x0a\x00\x00\x05\x01\xbb", 2),
    (b"\x05\x01\x00\x05\x01\x00\x03\x09127.0.0.1\x01\xbb", 2),
])
def test_socks_requests_that_are_refused(gate, sent, reply):
    sock = gate.connect()
    sock.sendall(sent)
    got = b""
    while len(got) < 12 and (more := sock.recv(12 - len(got))):
        got += more
    assert got[:2] == b"\x05\x00" and got[3] == reply and gate.dialer.asked == []


@pytest.mark.parametrize("sent", [b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00", b"\x16\x03\x01\x00\x05hello", b"\x00\x00"])
def test_other_protocols_on_the_proxy_listener_are_closed(gate, sent):
    sock = gate.connect()
    sock.sendall(sent)
    try:
        assert sock.recv(100) == b""
    except ConnectionResetError:
        pass
    assert gate.rows("deny", least=1)
