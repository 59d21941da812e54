"""A worker that somebody took over asks the dialer for what its connections don't give."""
import struct

import pytest
from role_line import str16
from taken import line_to, say, tcp_of

from conftest import flow, serves, tunnel


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
