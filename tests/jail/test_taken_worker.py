"""A worker that somebody took over asks the dialer for what its connections don't give."""
import os
import socket
import struct

import pytest
from role_line import ASKS, str16

from conftest import flow, inject, serves, tunnel

UNIX_DIAG_PEER = 2


def unix_peers():
    """{inode: inode of the other end} of the Unix sockets of this namespace"""
    peers = {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as s:
        body = struct.pack("=BBHIIIII", 1, 0, 0, 0xffffffff, 0, 4, 0xffffffff, 0xffffffff)
        s.send(struct.pack("=IHHII", 16 + len(body), 20, 0x301, 1, 0) + body)
        while True:
            data, at = s.recv(65536), 0
            while at < len(data):
                size, kind = struct.unpack_from("=IH", data, at)
                if kind == 3:
                    return peers
                inode, = struct.unpack_from("=I", data, at + 20)
                a = at + 32
                while a < at + size:
                    n, what = struct.unpack_from("=HH", data, a)
                    if what == UNIX_DIAG_PEER:
                        peers[inode] = struct.unpack_from("=I", data, a + 4)[0]
                    a += (n + 3) & ~3
                at += (size + 3) & ~3


def sockets_of(pid):
    """{inode: descriptor}"""
    found = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        to = os.readlink(f"/proc/{pid}/fd/{fd}")
        if to.startswith("socket:["):
            found[int(to[8:-1])] = int(fd)
    return found


def line_to(pid, other):
    ours, theirs, peers = sockets_of(pid), sockets_of(other), unix_peers()
    return next(fd for inode, fd in ours.items() if peers.get(inode) in theirs)


def tcp_of(pid, want):
    """The descriptor of the first TCP socket whose (local, remote, state) is as wanted."""
    ours = sockets_of(pid)
    with open("/proc/net/tcp") as f:
        for row in list(f)[1:]:
            words = row.split()
            ends = [(socket.inet_ntoa(bytes.fromhex(w[:8])[::-1]), int(w[9:], 16)) for w in words[1:3]]
            if int(words[9]) in ours and want(*ends, words[3]):
                return ours[int(words[9])]
    raise LookupError("no such socket")


def dial(pid, line, host, port, fd):
    """Sends DIAL as the worker would; with a descriptor, if one is given."""
    packet = struct.pack("!HBBI", 0x5347, ASKS["DIAL"], 0, 0x7ffffff0) + str16(host) + struct.pack("!HB", port, 0)
    control = b"" if fd is None else struct.pack("=QiiiI", 20, 1, 1, fd, 0)
    head = struct.pack("=QQQQQQQ", 0, 0, 64, 1, 96 if control else 0, len(control), 0)
    data = (head.ljust(64, b"\0") + struct.pack("=QQ", 128, len(packet))).ljust(96, b"\0") + control.ljust(32, b"\0") + packet
    words = ["46", str(line), "&0", "16384", "--data", data.hex(), "--reloc", "16", "--reloc", "64"]
    if control:
        words += ["--reloc", "32"]
    assert inject(pid, *words) == ("returned", len(packet))


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
