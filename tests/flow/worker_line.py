"""A worker alone: we are its super, its dialer, its control and the reader of its row ring.

Rows are read from the shared memory as the ledger would read them.
"""
import array
import fcntl
import mmap
import os
import select
import socket
import struct
import subprocess
import threading
import time

from role_line import ASKS, NONE, STATUS, Line, Role, Wire, _rows, compile_file, str16

RING_SIZE, RING_DATA = 4 << 20, 4096
FIELDS = ["sandbox", "user", "agent", "session", "listener", "host", "address", "country", "method", "path", "rule",
          "detail", "connector"]
STATS = _rows("proxy/io/stats.def", "STAT")


def shared(name, size, first):
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    os.pwrite(fd, first, 0)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd


class Ring:
    """The reader's end; `stuck` rings look full to the writer."""

    def __init__(self):
        self.fd = shared("ring", RING_DATA + RING_SIZE, struct.pack("=Q", 0x31474e4952574f52))
        self.bell = os.eventfd(0)
        self.map = mmap.mmap(self.fd, RING_DATA + RING_SIZE)
        self.at = 0
        self.rows = []

    def fill(self):
        """Move the tail back by a whole ring: no room."""
        head, = struct.unpack_from("=Q", self.map, 64)
        struct.pack_into("=Q", self.map, 128, (head - RING_SIZE) % (1 << 64))

    def read(self):
        head, = struct.unpack_from("=Q", self.map, 64)
        while self.at < head:
            size, _ = struct.unpack_from("=II", self.map, RING_DATA + self.at)
            self.rows.append(self.decode(self.map[RING_DATA + self.at + 8:RING_DATA + self.at + 8 + size]))
            self.at += (8 + size + 7) // 8 * 8
        return self.rows

    @staticmethod
    def decode(body):
        w = Wire(body)
        assert w.get("B") == 2
        row = {"kind": w.str16().decode(), "reason": w.str16().decode(), "observed": w.get("B")}
        for name in ("id", "time", "turn", "generation"):
            row[name] = w.get("Q")
        for name in FIELDS:
            row[name] = w.str16().decode()
        row["http"] = w.get("I")
        for name in ("up", "down", "ms"):
            row[name] = w.get("Q")
        row["secret_version"], row["scrubbed"] = w.get("I"), w.get("I")
        w.end()
        return row


class Dialer(threading.Thread):
    """Answers DIAL: `hosts` maps a name to (address, port), or to a status."""

    def __init__(self, sock, hosts):
        super().__init__(daemon=True)
        self.sock, self.hosts, self.asked, self.delay = sock, hosts, [], 0
        self.via = False
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
            w = Wire(data[8:])
            host, port, way = w.str16().decode(), w.get("H"), w.get("B")
            with socket.socket(fileno=fds[0]) as theirs:
                self.asked.append((host, port, way, theirs.getpeername()[0]))
            time.sleep(self.delay)
            self.answer(ask, seq, self.hosts.get(host, "DNS_NOT_FOUND"))

    def answer(self, ask, seq, to):
        status, sock = to, None
        if not isinstance(to, str):
            try:
                sock, status = socket.create_connection(to), "OK"
            except ConnectionRefusedError:
                status = "CONNECT_REFUSED"
        text = "%s:%d" % to if sock else ""
        body = struct.pack("!HI", STATUS.index(status), NONE) + str16(text) + str16("") + bytes([1, int(self.via)])
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [sock.fileno()]))] if sock else []
        self.sock.sendmsg([struct.pack("!HBBI", 0x5347, ask, 1, seq) + body], control)
        if sock:
            sock.close()


class Control(threading.Thread):
    """Answers WHO: `tokens` maps (id, token) to a handle."""

    def __init__(self, sock, tokens):
        super().__init__(daemon=True)
        self.sock, self.tokens, self.generation = sock, tokens, 1
        self.start()

    def run(self):
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(self.sock, 70000, 4)
            except OSError:
                return
            if not data:
                return
            for fd in fds:
                os.close(fd)
            _, ask, _, seq = struct.unpack_from("!HBBI", data)
            w = Wire(data[8:])
            handle = self.tokens.get((w.str16().decode(), w.str16().decode()), 0)
            status = "OK" if handle else "AUTH_FAILED"
            self.sock.send(struct.pack("!HBBIHIQ", 0x5347, ask, 1, seq, STATUS.index(status), handle, self.generation))


class Worker(Role):
    def __init__(self, tmp_path, config, hosts, tokens=None):
        self.tmp_path, self.ring = tmp_path, Ring()
        counts = 16 + 8 * (len(STATS) + len(STATUS))
        self.stats_fd = shared("stats", counts, struct.pack("=QII", 0x3153544154534753, len(STATS), len(STATUS)))
        self.listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self.transparent, self.proxy = (s.getsockname()[1] for s in self.listeners)
        self.config = config
        super().__init__("sandgate-worker", self.image(), ["DIALER", "CONTROL", "LEDGER"])
        self.dialer = Dialer(self.lines["DIALER"].sock, hosts)
        self.control = Control(self.lines["CONTROL"].sock, tokens or {})

    def image(self, **more):
        path = self.tmp_path / "sandgate.yaml"
        path.write_text(self.config.format(transparent=self.transparent, proxy=self.proxy, **more))
        return compile_file(path)

    def take(self, descriptors):
        if self.generation == 0:
            self.give("RING", 1, "", [self.ring.fd, self.ring.bell])
            self.give("STATS", 1, "", [self.stats_fd])
            for i, sock in enumerate(self.listeners):
                self.give("LISTENER", i, "tcp", [sock.fileno()])
                sock.close()
        super().take(descriptors)

    def stat(self, name):
        return struct.unpack("=q", os.pread(self.stats_fd, 8, 16 + 8 * STATS.index(name)))[0]

    def connect(self, port=None, source="127.0.0.5"):
        return socket.create_connection(("127.0.0.1", port or self.proxy), source_address=(source, 0), timeout=10)

    def rows(self, *kinds, least=0):
        """Rows of these kinds; waits until there are `least`."""
        end = time.time() + 5
        while True:
            found = [r for r in self.ring.read() if not kinds or r["kind"] in kinds]
            if len(found) >= least or time.time() > end:
                return found
            time.sleep(0.02)
