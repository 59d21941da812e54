"""A role that somebody took over: it asks the kernel and its neighbours what we say (tests/tools/inject.c).

Needs root.  Descriptors are numbers inside the role; what it hears in answer stays there.
"""
import ctypes
import os
import platform
import socket
import struct
import subprocess

from role_line import ASKS, find_binaries

UNIX_DIAG_PEER = 2
SEQ = 0xfffffff0  # before the first call of the role's own: an answer that comes too late, and is dropped
SENDMSG, SOCKETPAIR, CLOSE = 46, 53, 3
PIDFD_OPEN, PIDFD_GETFD = 434, 438
INJECT = find_binaries() / "inject"


def no_injector():
    """Why there is none here; on a machine that it is for, a build without it is a failure."""
    if INJECT.exists():
        return None
    assert platform.machine() != "x86_64", f"{INJECT} is missing: build with -DSG_TESTS=ON"
    return "the injector is for x86-64"


def inject(pid, *words):
    """("returned", value) or ("killed", signal)"""
    done = subprocess.run([str(INJECT), str(pid), *[str(w) for w in words]], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    how, value = done.stdout.split()
    return how, int(value)


def line_peers():
    """{inode: inode of the other end} of the SOCK_SEQPACKET sockets of this namespace"""
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
                    if what == UNIX_DIAG_PEER and data[at + 17] == socket.SOCK_SEQPACKET:
                        peers[inode] = struct.unpack_from("=I", data, a + 4)[0]
                    a += (n + 3) & ~3
                at += (size + 3) & ~3


def sockets_of(pid):
    """{inode: descriptor}"""
    found = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            to = os.readlink(f"/proc/{pid}/fd/{fd}")
        except FileNotFoundError:  # closed since
            continue
        if to.startswith("socket:["):
            found[int(to[8:-1])] = int(fd)
    return found


def lines_between(pid, other):
    """The first one's descriptors."""
    ours, theirs, peers = sockets_of(pid), sockets_of(other), line_peers()
    return [fd for inode, fd in ours.items() if peers.get(inode) in theirs]


def line_to(pid, other):
    return lines_between(pid, other)[0]


def syscall(number, *args):
    got = ctypes.CDLL(None, use_errno=True).syscall(number, *args)
    assert got >= 0, os.strerror(ctypes.get_errno())
    return got


def copy_of(pid, fd):
    """The same socket, in our hands."""
    with os.fdopen(syscall(PIDFD_OPEN, pid, 0)) as process:
        return socket.socket(fileno=syscall(PIDFD_GETFD, process.fileno(), fd, 0))


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


def say(pid, line, ask, body, fds=()):
    """One packet on a line of the role's, as the role would send it."""
    packet = struct.pack("!HBBI", 0x5347, ASKS[ask], 0, SEQ) + body
    control = struct.pack("=Qii%di" % len(fds), 16 + 4 * len(fds), 1, 1, *fds) if fds else b""
    room = len(control) + 7 & ~7
    head = struct.pack("=QQQQQQQ", 0, 0, 64, 1, 96 if control else 0, room, 0)
    data = (head.ljust(64, b"\0") + struct.pack("=QQ", 128, len(packet))).ljust(96, b"\0") + control.ljust(32, b"\0") + packet
    words = [SENDMSG, line, "&0", "16384", "--data", data.hex(), "--reloc", "16", "--reloc", "64"]
    assert inject(pid, *words, *(["--reloc", "32"] if control else [])) == ("returned", len(packet))
