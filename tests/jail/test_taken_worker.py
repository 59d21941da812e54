"""A worker that somebody took over asks the dialer for what its connections don't give."""
import os
import random
import signal
import socket
import struct
import time

import pytest
from role_line import str16
from taken import PIDFD_GETFD, PIDFD_OPEN, line_to, say, syscall, tcp_of

from conftest import flow, inject, serves, tunnel

READ, CLOSE, SETSOCKOPT, PREADV2 = 0, 3, 54, 327


def syscall_of(pid):
    """What it waits in; None: it runs."""
    with open(f"/proc/{pid}/syscall") as f:
        word = f.read().split()[0]
    return None if word == "running" else int(word)


def dial(pid, line, host, port, fd):
    """DIAL as the worker would ask it; with a descriptor, if one is given."""
    say(pid, line, "DIAL", str16(host) + struct.pack("!HB", port, 0), [] if fd is None else [fd])


def refusals(g):
    return sum(g.status()["refusals"].values()) if isinstance(g.status()["refusals"], dict) else 0


@pytest.fixture
def taken(two):
    g, a, b = two
    held, line = tunnel(g, "127.0.0.71", "a.example.test", a.port)
    assert b" 200" in line
    pids = g.pids()
    yield g, a, b, pids["worker.0"], line_to(pids["worker.0"], pids["dialer"])
    held.close()


def accepted(g, pid):
    return tcp_of(pid, lambda l, r, st: l == g.proxy and r[0] == "127.0.0.71" and st == "01")


def test_what_it_holds_lets_it_dial(taken):
    """The other tests can see what they look for."""
    g, a, b, pid, line = taken
    dial(pid, line, "a.example.test", a.port, accepted(g, pid))
    flow.wait_for(lambda: a.got == 2)


@pytest.mark.parametrize("what", ["nothing", "a listening socket", "a line", "an upstream connection", "another's host"])
def test_what_it_does_not_hold_gives_nothing(taken, what):
    g, a, b, pid, line = taken
    fd = {"nothing": lambda: None,
          "a listening socket": lambda: tcp_of(pid, lambda l, r, st: l == g.proxy and st == "0A"),
          "a line": lambda: 3,
          "an upstream connection": lambda: tcp_of(pid, lambda l, r, st: r == ("127.0.0.1", a.port) and st == "01"),
          "another's host": lambda: accepted(g, pid)}[what]()
    host, sink = ("b.example.test", b) if what == "another's host" else ("a.example.test", a)
    before, log = refusals(g), len(g.text_of_log())
    dial(pid, line, host, sink.port, fd)
    flow.wait_for(lambda: refusals(g) > before or len(g.text_of_log()) > log, 5)
    assert (a.got, b.got) == (1, 0)
    flow.wait_for(lambda: serves(g, "127.0.0.71", "a.example.test", a.port), 20)
    assert not serves(g, "127.0.0.71", "b.example.test", b.port)
    assert serves(g, "127.0.0.72", "b.example.test", b.port)


def unread(g, sink):
    """A connection of sandbox a, with bytes for it that it does not take and none that it sent."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    sock.bind(("127.0.0.71", 0))
    sock.connect(g.proxy)
    sock.sendall(f"CONNECT a.example.test:{sink.port} HTTP/1.1\r\nHost: a.example.test:{sink.port}\r\n\r\n".encode())
    assert b" 200" in sock.recv(4096)
    sock.sendall(bytes(30000))  # it is an echo
    time.sleep(0.3)
    return sock


@pytest.mark.parametrize("role,ask", [("dialer", "DIAL"), ("control", "WHO"), ("keeper", "MINT"), ("ledger", "LAST")])
def test_a_socket_that_does_not_close_holds_up_nobody(two, role, ask):
    """close(2) of a socket that lingers waits for the other side, and the last who has it is whoever was asked."""
    g, a, b = two
    pids = g.pids()
    pid = pids["worker.0"]
    with unread(g, a) as held:
        fd = tcp_of(pid, lambda l, r, st: r == held.getsockname())
        assert inject(pid, SETSOCKOPT, fd, socket.SOL_SOCKET, socket.SO_LINGER, "&0", 8, "--data", struct.pack("=ii", 1, 20).hex()) == ("returned", 0)
        os.kill(pids[role], signal.SIGSTOP)
        try:
            say(pid, line_to(pid, pids[role]), ask, str16("a.example.test") + struct.pack("!HB", a.port, 0), [fd])
            os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
        finally:
            os.kill(pids[role], signal.SIGCONT)
        time.sleep(0.3)
        assert syscall_of(pids[role]) != CLOSE
        flow.wait_for(lambda: serves(g, "127.0.0.72", "b.example.test", b.port), 15)
        assert g.pids()[role] == pids[role]


def event_of(pid, fd):
    with open(f"/proc/{pid}/fdinfo/{fd}") as f:
        return next((line.split()[1] for line in f if line.startswith("eventfd-id")), None)


def test_a_bell_that_waits_does_not_stop_the_ledger(two):
    """The bell of its rows is one open file in both: it may be emptied between being told and being read."""
    g, a, b = two
    pids = g.pids()
    pid, ledger = pids["worker.0"], pids["ledger"]
    told = {event_of(ledger, fd) for fd in os.listdir(f"/proc/{ledger}/fd")} - {None}
    bell = next(int(fd) for fd in os.listdir(f"/proc/{pid}/fd") if event_of(pid, fd) in told)
    os.kill(pid, signal.SIGSTOP)
    try:
        with os.fdopen(syscall(PIDFD_OPEN, pid, 0)) as process:
            ours = syscall(PIDFD_GETFD, process.fileno(), bell, 0)
        os.set_blocking(ours, True)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            os.write(ours, struct.pack("=Q", 1))
            for _ in range(random.randrange(2000)):
                pass
            try:
                os.preadv(ours, [bytearray(8)], -1, os.RWF_NOWAIT)
            except BlockingIOError:
                pass
            if syscall_of(ledger) in (READ, PREADV2):
                time.sleep(0.05)
                assert syscall_of(ledger) not in (READ, PREADV2)
        os.close(ours)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert serves(g, "127.0.0.72", "b.example.test", b.port)
