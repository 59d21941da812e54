"""The worker alone: limits, reloads, parents, and what becomes of tunnels when something ends."""
import resource
import socket
import ssl
import struct
import threading
import time

import pytest

from tls_world import read_head, read_refusal
from worker_gate import CONFIG, Origin, connect, echo, end_rows, gate, secure, tls

SMALLER = CONFIG.replace("[ok.test, ", "[")


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
