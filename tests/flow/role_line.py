"""Speaks to one role as its neighbours do: super's line, asks, compiled images.

The numbers of asks, roles, statuses and gifts are read from the sources' own tables, so a
new row needs no change here.
"""
import array
import fcntl
import os
import pathlib
import re
import select
import socket
import struct
import subprocess
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]


def find_binaries():
    """SANDGATE_BIN, or the newest build that has a dialer."""
    if "SANDGATE_BIN" in os.environ:
        return pathlib.Path(os.environ["SANDGATE_BIN"])
    found = sorted(ROOT.glob("build/*/bin/sandgate-dialer"), key=lambda p: p.stat().st_mtime)
    if not found:
        raise FileNotFoundError("no build of sandgate-dialer; set SANDGATE_BIN")
    return found[-1].parent


def _rows(path, macro):
    text = re.sub(r"/\*.*?\*/", "", (ROOT / path).read_text(), flags=re.S)
    return re.findall(rf"^{macro}\((\w+),", text, flags=re.M)


def _numbers(names):
    return {name: i for i, name in enumerate(names)}


def _gifts():
    text = (ROOT / "proxy/io/role.h").read_text()
    body = re.search(r"enum give \{(.*?)\};", text, flags=re.S).group(1)
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    return _numbers(re.findall(r"GIVE_(\w+)", body))


ASKS = _numbers(_rows("proxy/io/asks.def", "ASK"))
ROLES = _numbers(_rows("proxy/io/roles.def", "ROLE"))
STATUS = _rows("proxy/base/status.def", "STATUS")
GIFTS = _gifts()
NONE = 0xffffffff


def str16(data):
    data = data.encode() if isinstance(data, str) else data
    return struct.pack("!H", len(data)) + data


class Wire:
    """Reads the fields of one body."""

    def __init__(self, body):
        self.body, self.at = body, 0

    def get(self, fmt):
        value, = struct.unpack_from("!" + fmt, self.body, self.at)
        self.at += struct.calcsize("!" + fmt)
        return value

    def str16(self):
        size = self.get("H")
        self.at += size
        return self.body[self.at - size:self.at]

    def end(self):
        assert self.at == len(self.body), "bytes left over"


class Line:
    """One end of a SEQPACKET line."""

    def __init__(self, sock):
        self.sock = sock
        self.seq = 0
        self.answers = {}

    def send(self, ask, body=b"", fds=()):
        self.seq += 1
        head = struct.pack("!HBBI", 0x5347, ASKS[ask], 0, self.seq)
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.sock.sendmsg([head + body], control)
        return self.seq

    def receive(self, timeout=10):
        """(seq, body, descriptors) of the next answer; None when the line is closed."""
        if not select.select([self.sock], [], [], timeout)[0]:
            raise TimeoutError("no answer")
        data, fds, _, _ = socket.recv_fds(self.sock, 70000, 16)
        if not data:
            return None
        magic, _, flags, seq = struct.unpack_from("!HBBI", data)
        assert magic == 0x5347 and flags == 1
        return seq, data[8:], fds

    def answer(self, seq, timeout=10):
        """The answer to one ask; others that come first are kept."""
        while seq not in self.answers:
            got = self.receive(timeout)
            if got is None:
                raise EOFError("the line was closed")
            self.answers[got[0]] = got[1:]
        return self.answers.pop(seq)

    def call(self, ask, body=b"", fds=(), timeout=10):
        return self.answer(self.send(ask, body, fds), timeout)

    def close(self):
        self.sock.close()


class Asked(threading.Thread):
    """One end of a line on which the role asks: on(ask, Wire, descriptors, reply) says what to do."""

    def __init__(self, sock):
        super().__init__(daemon=True)
        self.sock = sock
        self.start()

    def run(self):
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(self.sock, 70000, 4)
            except OSError:
                return
            if not data:
                return
            _, ask, _, seq = struct.unpack_from("!HBBI", data)
            self.on(ask, Wire(data[8:]), list(fds), lambda body, back=(), a=ask, s=seq: self.reply(a, s, body, back))
            for fd in fds:
                os.close(fd)

    def reply(self, ask, seq, body, back=()):
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", back))] if back else []
        try:
            self.sock.sendmsg([struct.pack("!HBBI", 0x5347, ask, 1, seq) + body], control)
        except OSError:
            pass  # the role is gone, which the next read tells
        for fd in back:
            os.close(fd)


class Answerer(Asked):
    """The same where each message is answered at once; heard(Wire, descriptors) gives an answer's body and
    descriptors."""

    def __init__(self, sock):
        self.asked = []
        super().__init__(sock)

    def on(self, ask, w, fds, reply):
        reply(*self.heard(w, fds))


def pair():
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def seal(data):
    fd = os.memfd_create("image", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW |
                fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
    return fd


def compile_file(path):
    """The descriptors of PREPARE for a configuration file: image, then databases."""
    ours, theirs = pair()
    child = subprocess.Popen([find_binaries() / "sandgate-compile", str(path)],
                             preexec_fn=lambda: os.dup2(theirs.fileno(), 3, True),
                             close_fds=False)
    theirs.close()
    data, fds, _, _ = socket.recv_fds(ours, 70000, 16)
    ours.close()
    child.wait()
    status, = struct.unpack_from("!H", data)
    if STATUS[status] != "OK":
        raise ValueError(data[2:].decode())
    return fds


class Role:
    """A role's process with us as super and as every neighbour."""

    def __init__(self, executable, descriptors, neighbours):
        ours, theirs = pair()
        self.super = Line(ours)
        self.generation = self.neighbours = 0
        self.process = subprocess.Popen(
            [find_binaries() / executable],
            preexec_fn=lambda: os.dup2(theirs.fileno(), 3, True), close_fds=False)
        theirs.close()
        self.give("SLOT", 1, executable)
        self.lines = {name: self.new_line(name) for name in neighbours}
        self.take(descriptors)
        self.super.call("START")

    def give(self, kind, index=0, text="", fds=()):
        self.super.send("GIVE", struct.pack("!BI", GIFTS[kind], index) + str16(text), fds)

    def new_line(self, role):
        """Each from a neighbour of its own: of one with two lines only the newest is heard."""
        ours, theirs = pair()
        self.neighbours += 1
        self.give("LINE", ROLES[role], "default" if role == "CONNECTOR" else str(self.neighbours), [theirs.fileno()])
        theirs.close()
        return Line(ours)

    def prepare(self, descriptors):
        """The status of PREPARE."""
        self.generation += 1
        body, _ = self.super.call("PREPARE", struct.pack("!Q", self.generation), descriptors)
        for fd in descriptors:
            os.close(fd)
        return STATUS[Wire(body).get("H")]

    def commit(self):
        body, _ = self.super.call("COMMIT", struct.pack("!Q", self.generation))
        return STATUS[Wire(body).get("H")]

    def take(self, descriptors):
        assert self.prepare(descriptors) == "OK"
        assert self.commit() == "OK"

    def is_alive(self):
        return self.process.poll() is None

    def close(self):
        """The exit status, when super is gone."""
        self.super.close()
        for line in self.lines.values():
            line.close()
        return self.process.wait(10)
