"""A worker alone: we are its super, its dialer, its control and the reader of its row ring.

Rows are read from the shared memory as the ledger would read them.
"""
import fcntl
import mmap
import os
import socket
import struct
import time

from role_line import NONE, STATUS, Answerer, Role, Wire, _rows, compile_file, str16

RING_SIZE, RING_DATA = 4 << 20, 4096
FIELDS = ["sandbox", "user", "agent", "session", "listener", "host", "address", "country", "method", "path", "rule",
          "detail", "connector", "exec"]
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

    def wait(self, kinds=(), least=0):
        """Rows of these kinds, of all without any; waits until there are `least`."""
        end = time.monotonic() + 5
        while True:
            found = [r for r in self.read() if not kinds or r["kind"] in kinds]
            if len(found) >= least or time.monotonic() > end:
                return found
            time.sleep(0.02)

    @staticmethod
    def decode(body):
        w = Wire(body)
        assert w.get("B") == 3
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


class Dialer(Answerer):
    """Answers DIAL: `hosts` maps a name to (address, port), or to a status."""

    def __init__(self, sock, hosts):
        self.hosts, self.delay, self.via = hosts, 0, False
        super().__init__(sock)

    def heard(self, w, fds):
        host, port, way = w.str16().decode(), w.get("H"), w.get("B")
        with socket.socket(fileno=os.dup(fds[0])) as theirs:
            self.asked.append((host, port, way, theirs.getpeername()[0]))
        time.sleep(self.delay)
        to = self.hosts.get(host, "DNS_NOT_FOUND")
        status, back = to, []
        if not isinstance(to, str):
            try:
                back, status = [socket.create_connection(to).detach()], "OK"
            except ConnectionRefusedError:
                status = "CONNECT_REFUSED"
        text = "%s:%d" % to if back else ""
        return struct.pack("!HI", STATUS.index(status), NONE) + str16(text) + str16("") + bytes([1, int(self.via)]), back


class Control(Answerer):
    """Answers WHO: `tokens` maps (id, token) to a handle."""

    def __init__(self, sock, tokens):
        self.tokens, self.generation = tokens, 1
        super().__init__(sock)

    def heard(self, w, fds):
        handle = self.tokens.get((w.str16().decode(), w.str16().decode()), 0)
        return struct.pack("!HIQ", STATUS.index("OK" if handle else "AUTH_FAILED"), handle, self.generation), []


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
        return self.ring.wait(kinds, least)
