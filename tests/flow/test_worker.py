"""The worker alone: ways in, verdicts, tunnels and rows, with a scripted dialer.

The oracle of what got out is the dialer's list: what it wasn't asked for can't be reached.
"""
import base64
import json
import pathlib
import resource
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from worker_line import Worker  # noqa: E402

CONFIG = """
listeners:
  - {{name: egress, kind: transparent, address: "127.0.0.1:{transparent}"}}
  - {{name: proxy, kind: proxy, address: "127.0.0.1:{proxy}"}}
timeouts: {{hello: 1s, request_head: 1s, tunnel_idle: 60s, stalled: 60s}}
sandboxes:
  - {{id: demo, source: 127.0.0.5, user: alice, agent: coder, session: s1, policy: p}}
  - {{id: small, source: 127.0.0.6, user: bob, policy: p, limits: {{connections: 2}}}}
  - {{id: ci, token_sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", user: ci-bot, policy: p}}
policies:
  p:
    allow:
      - {{hosts: [ok.test, "*.ok.test", gone.test, slow.test, plain.test], ports: [443, {transparent}]}}
      - {{hosts: [db.test], ports: [5432], protocol: tcp}}
    deny:
      - {{hosts: [bad.ok.test]}}
"""
SMALLER = CONFIG.replace("[ok.test, ", "[")


class Origin:
    """Echoes, over TLS or not; ends its direction after the client has."""

    def __init__(self, context=None, first=b""):
        self.context, self.first = context, first
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.address = self.sock.getsockname()
        self.got = bytearray()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            conn, _ = self.sock.accept()
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def serve(self, conn):
        try:
            if self.context:
                conn = self.context.wrap_socket(conn, server_side=True)
            conn.sendall(self.first)
            while data := conn.recv(65536):
                self.got += data
                conn.sendall(data)
            conn.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        finally:
            conn.close()


@pytest.fixture(scope="session")
def tls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "3", "-subj", "/CN=ok.test", "-addext", "subjectAltName=DNS:ok.test,DNS:a.ok.test",
                    "-keyout", folder / "key", "-out", folder / "cert"], check=True, stderr=subprocess.DEVNULL)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "cert", folder / "key")
    client = ssl.create_default_context(cafile=folder / "cert")
    return server, client


@pytest.fixture
def gate(tmp_path, tls):
    origin, db, plain = Origin(tls[0]), Origin(first=b"hello from db\n"), Origin(first=b"SSH-2.0-x\r\n")
    gone = socket.create_server(("127.0.0.1", 0))
    nobody = gone.getsockname()
    gone.close()
    worker = Worker(tmp_path, CONFIG, {
        "ok.test": origin.address, "a.ok.test": origin.address, "bad.ok.test": origin.address,
        "evil.test": origin.address, "db.test": db.address, "gone.test": nobody, "plain.test": plain.address,
    }, {("ci", "test"): 1})  # handles count the sandboxes in the order of their ids
    worker.client, worker.origin, worker.db, worker.plain = tls[1], origin, db, plain
    yield worker
    assert worker.close() == 0


def read_head(sock):
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(1)
        if not more:
            break
        data += more
    return data.decode()


def read_refusal(sock):
    head = read_head(sock)
    size = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
    body = b""
    while len(body) < size:
        body += sock.recv(size - len(body))
    return head, json.loads(body)["error"]


def connect(gate, target, more="", **kw):
    sock = gate.connect(**kw)
    sock.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{more}\r\n".encode())
    return sock


def socks(gate, host, port, source="127.0.0.5", user=None):
    sock = gate.connect(source=source)
    sock.sendall(b"\x05\x01\x02" if user else b"\x05\x01\x00")
    method = sock.recv(2)
    if user:
        assert method == b"\x05\x02"
        sock.sendall(b"\x01" + b"".join(bytes([len(u)]) + u.encode() for u in user))
        if sock.recv(2) != b"\x01\x00":
            return sock, None
    sock.sendall(b"\x05\x01\x00\x03" + bytes([len(host)]) + host.encode() + struct.pack("!H", port))
    return sock, sock.recv(10)[1]


def echo(sock, text=b"through the tunnel"):
    sock.sendall(text)
    got = b""
    while len(got) < len(text):
        got += sock.recv(65536)
    assert got == text


def secure(gate, sock, name="ok.test"):
    return gate.client.wrap_socket(sock, server_hostname=name)


def end_rows(gate, n=1):
    return gate.rows("tunnel_start", "tunnel_end", "deny", least=n)


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


def test_too_many_connections_are_reset_and_slots_come_back(gate):
    held = [gate.connect(gate.transparent, source="127.0.0.6") for _ in range(2)]
    time.sleep(0.1)
    with pytest.raises(ConnectionResetError):
        third = gate.connect(gate.transparent, source="127.0.0.6")
        time.sleep(0.1)
        third.sendall(b"x")
        third.recv(1)
        third.recv(1)
    assert gate.rows("deny", least=1)[0]["reason"] == "limit_connections"
    for sock in held:
        sock.close()
    time.sleep(0.1)
    with secure(gate, gate.connect(gate.transparent, source="127.0.0.6")) as t:
        echo(t)


def test_silence_ends_at_the_deadline(gate):
    for port in (gate.transparent, gate.proxy):
        sock = gate.connect(port)
        sock.settimeout(5)
        begun = time.time()
        while sock.recv(4096):
            pass
        assert 0.8 < time.time() - begun < 3
    assert gate.stat("TIMEOUT_HELLO") == 1 and gate.stat("TIMEOUT_HEAD") == 1


def test_no_room_in_the_ring_means_no_way_out(gate):
    gate.ring.fill()
    sock = connect(gate, "ok.test:443")
    read_head(sock)
    with pytest.raises((ssl.SSLError, OSError)):
        secure(gate, sock)
    assert bytes(gate.origin.got) == b"" and gate.stat("ROWS_REFUSED") > 0 and gate.stat("TUNNELS") == 0


def test_a_new_policy_closes_what_it_forbids_before_the_reload_returns(gate):
    socks_ = []
    for name in ("ok.test", "a.ok.test"):
        sock = connect(gate, f"{name}:443")
        read_head(sock)
        socks_.append(secure(gate, sock, name))
        echo(socks_[-1])
    gate.config = SMALLER
    gate.take(gate.image())
    assert gate.stat("TUNNELS_OPEN") == 1
    try:  # the end comes as a FIN or as a reset
        assert socks_[0].recv(10) == b""
    except OSError:
        pass
    echo(socks_[1])
    assert gate.rows("tunnel_end", least=1)[0]["reason"] == "policy_changed"
    assert read_refusal(connect(gate, "ok.test:443"))[1]["code"] == "denied_by_policy"


def test_bytes_held_back_arrive_although_upstream_closed(gate):
    size = 8 << 20
    origin = Origin(first=b"x" * size)
    gate.dialer.hosts["db.test"] = origin.address
    sock = connect(gate, "db.test:5432")
    read_head(sock)
    sock.shutdown(socket.SHUT_WR)
    time.sleep(0.3)
    got = 0
    while data := sock.recv(65536):
        got += len(data)
    assert got == size


def test_half_closed_tunnels_give_their_slots_back(gate):
    for _ in range(100):
        sock = connect(gate, "db.test:5432")
        read_head(sock)
        sock.sendall(b"ping")
        sock.shutdown(socket.SHUT_WR)
        got = b""
        while data := sock.recv(100):
            got += data
        assert got == b"hello from db\nping"
        sock.close()
    time.sleep(0.2)
    assert gate.stat("OPEN") == 0 and gate.stat("TUNNELS_OPEN") == 0 and gate.stat("TUNNELS") == 100


def hello_of(context, name):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


def with_extension(hello, kind, body):
    """The same hello with one more extension at its end."""
    message = bytearray(hello[5:])
    at = 4 + 2 + 32
    at += 1 + message[at]
    at += 2 + int.from_bytes(message[at:at + 2], "big")
    at += 1 + message[at]
    more = struct.pack("!HH", kind, len(body)) + body
    message[at:at + 2] = struct.pack("!H", int.from_bytes(message[at:at + 2], "big") + len(more))
    message += more
    message[1:4] = (len(message) - 4).to_bytes(3, "big")
    return records(bytes(message), 1 << 14)


def records(message, size):
    parts = [message[i:i + size] for i in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + struct.pack("!H", len(p)) + p for p in parts)


def alert_of(sock):
    got = b""
    try:
        while more := sock.recv(100):
            got += more
    except ConnectionResetError:
        pass
    return got[6] if got[:1] == b"\x15" and len(got) == 7 else got


def refusals_of_hello(gate, hello):
    """The codes with which it is refused on each way."""
    transparent = gate.connect(gate.transparent)
    pinned = connect(gate, "ok.test:443")
    read_head(pinned)
    through_socks, _ = socks(gate, "ok.test", 443)
    for sock in (transparent, pinned, through_socks):
        sock.sendall(hello)
        alert_of(sock)
    return [r["reason"] for r in gate.rows("deny", least=3)]


def test_hellos_that_no_way_lets_pass(gate, tls):
    plain = hello_of(tls[1], "ok.test")
    alpn = ssl.create_default_context()
    alpn.set_alpn_protocols(["acme-tls/1"])
    no_name = ssl.create_default_context()
    no_name.check_hostname = False
    cases = {
        "ech": with_extension(plain, 0xfe0d, b"\0" * 40), "alpn_refused": hello_of(alpn, "ok.test"),
        "no_sni": hello_of(no_name, None), "hello_too_large": records(b"\1\1\x10\0" + b"x" * 70000, 16384),
        "hello_unparsable": plain[:60] + b"\xff" * (len(plain) - 60),
    }
    seen = 0
    for code, hello in cases.items():
        assert refusals_of_hello(gate, hello)[seen:] == [code] * 3
        seen += 3
    assert gate.dialer.asked == []


@pytest.mark.parametrize("size", [1, 2, 7, 100, 1000])
def test_a_hello_cut_into_records_passes_or_is_refused_but_never_taken_for_plain(gate, size):
    message = hello_of(gate.client, "ok.test")[5:]
    hello = records(message, size)
    sock = connect(gate, "ok.test:443")
    read_head(sock)
    sock.sendall(hello)
    sock.recv(100)
    if -(-len(message) // size) <= 256:
        assert gate.dialer.asked[0][0] == "ok.test" and gate.rows("tunnel_start", least=1)
    else:
        assert gate.rows("deny", least=1)[0]["reason"] == "hello_too_large"


def test_names_are_one_whatever_their_spelling(gate):
    sock = connect(gate, "OK.TEST.:443")
    assert read_head(sock).startswith("HTTP/1.1 200 ")
    with secure(gate, sock) as t:
        echo(t)
    assert gate.dialer.asked == [("ok.test", 443, 1, "127.0.0.5")]


def test_big_transfers_pass_both_ways_at_once(gate):
    sock = connect(gate, "ok.test:443")
    read_head(sock)
    with secure(gate, sock) as t:
        size, got = 13 << 20, 0
        writer = threading.Thread(target=lambda: t.sendall(b"m" * size))
        writer.start()
        while got < size:
            got += len(t.recv(65536))
        writer.join()
    end = gate.rows("tunnel_end", least=1)[0]
    assert end["up"] > size and end["down"] > size and end["ms"] >= 0


def test_descriptors_that_run_out_stop_nothing_for_good(gate):
    resource.prlimit(gate.process.pid, resource.RLIMIT_NOFILE, (40, 40))
    held = []
    for _ in range(80):
        try:
            held.append(gate.connect(gate.transparent))
        except OSError:
            pass
    time.sleep(0.3)
    assert gate.is_alive() and gate.stat("ACCEPT_PAUSED") > 0
    for sock in held:
        sock.close()
    time.sleep(1.5)
    with secure(gate, gate.connect(gate.transparent)) as t:
        echo(t)


def test_one_sandbox_in_a_flood_does_not_starve_another(gate):
    """The other's tunnels go on while one opens and drops connections as fast as it can."""
    sock = connect(gate, "ok.test:443")
    read_head(sock)
    over = threading.Event()

    def flood():
        while not over.is_set():
            try:
                gate.connect(gate.transparent, source="127.0.0.6").close()
            except OSError:
                pass

    with secure(gate, sock) as t:
        echo(t)
        threads = [threading.Thread(target=flood) for _ in range(2)]
        for thread in threads:
            thread.start()
        times = []
        for _ in range(100):
            begun = time.time()
            echo(t)
            times.append(time.time() - begun)
        over.set()
        for thread in threads:
            thread.join()
    assert sorted(times)[50] < 0.1


def test_what_observe_lets_pass_is_marked(gate):
    gate.config = CONFIG.replace("  p:\n", "  p:\n    mode: observe\n")
    gate.take(gate.image())
    gate.dialer.hosts["other.test"] = gate.origin.address
    sock = connect(gate, "other.test:443")
    read_head(sock)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(sock, server_hostname="other.test") as t:
        echo(t)
    start, end = end_rows(gate, 2)
    assert start["observed"] == end["observed"] == 1 and start["reason"] == end["reason"] == "denied_by_policy"


def test_a_sandbox_that_vanishes_loses_its_tunnels(gate):
    sock = connect(gate, "ok.test:443")
    read_head(sock)
    with secure(gate, sock) as t:
        echo(t)
        gate.config = CONFIG.replace("source: 127.0.0.5", "source: 127.0.0.9")
        gate.take(gate.image())
        assert gate.stat("TUNNELS_OPEN") == 0
    assert gate.rows("tunnel_end", least=1)[0]["reason"] == "policy_changed"


class Parent:
    """A parent proxy that answers as told, in one piece with the host's first bytes."""

    def __init__(self, answer):
        self.sock, self.asked = socket.create_server(("127.0.0.1", 0)), b""
        self.answer = answer
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        conn, _ = self.sock.accept()
        while b"\r\n\r\n" not in self.asked:
            self.asked += conn.recv(4096)
        conn.sendall(self.answer)
        try:
            while data := conn.recv(4096):
                conn.sendall(data)
        except ConnectionResetError:
            pass
        conn.close()


def test_a_parent_proxy_is_asked_first(gate):
    parent = Parent(b"HTTP/1.1 200 fine\r\nX: y\r\n\r\nfirst")
    gate.dialer.hosts["db.test"], gate.dialer.via = parent.sock.getsockname(), True
    sock = connect(gate, "db.test:5432")
    assert read_head(sock).startswith("HTTP/1.1 200 ")
    assert sock.recv(5) == b"first"
    echo(sock)
    assert parent.asked == b"CONNECT db.test:5432 HTTP/1.1\r\nHost: db.test:5432\r\n\r\n"


@pytest.mark.parametrize("answer", [b"HTTP/1.1 403 no\r\nContent-Length: 0\r\n\r\n", b"SSH-2.0-x\r\n\r\n", b""])
def test_a_parent_proxy_that_refuses_is_told(gate, answer):
    parent = Parent(answer)
    if not answer:
        parent.answer = b"HTTP/1.1 200 ok\nbad\r\n\r\n"
    gate.dialer.hosts["db.test"], gate.dialer.via = parent.sock.getsockname(), True
    sock = connect(gate, "db.test:5432")
    assert read_refusal(sock)[1]["code"] == "parent_proxy_failed"


def test_a_dialer_that_dies_is_a_refusal_and_a_new_one_serves(gate):
    gate.lines["DIALER"].sock.shutdown(socket.SHUT_RDWR)
    time.sleep(0.1)
    assert read_refusal(connect(gate, "db.test:5432"))[1]["code"] == "no_dialer"
    hosts = gate.dialer.hosts
    gate.lines["DIALER"] = gate.new_line("DIALER")
    gate.dialer = type(gate.dialer)(gate.lines["DIALER"].sock, hosts)
    time.sleep(0.1)
    assert read_head(connect(gate, "db.test:5432")).startswith("HTTP/1.1 200 ")


def test_draining_waits_for_what_runs_and_then_answers(gate):
    sock = connect(gate, "ok.test:443")
    read_head(sock)
    t = secure(gate, sock)
    echo(t)
    seq = gate.super.send("DRAIN", struct.pack("!I", 3000))
    time.sleep(0.2)
    with pytest.raises(OSError):
        gate.connect().sendall(b"x") or (_ for _ in ()).throw(OSError())
    echo(t)
    t.close()
    gate.super.answer(seq)


def test_draining_ends_at_its_deadline(gate):
    sock = connect(gate, "ok.test:443")
    read_head(sock)
    t = secure(gate, sock)
    begun = time.time()
    gate.super.answer(gate.super.send("DRAIN", struct.pack("!I", 500)))
    assert 0.4 < time.time() - begun < 2
    assert gate.rows("deny", least=1)[0]["reason"] == "draining"
    t.close()
