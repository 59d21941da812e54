"""A dns role with us as super, as its dialer and as sandboxes that ask it."""
import ctypes
import fcntl
import mmap
import os
import select
import socket
import struct
import subprocess

import pytest

from fake_dns import encode_name
from role_line import ASKS, STATUS, Role, Wire, compile_file, str16

A, SOA, PTR, TXT, AAAA, SVCB, HTTPS, ANY = 1, 6, 12, 16, 28, 64, 65, 255
NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED = range(6)
DEMO, OTHER, SEEN, NOBODY = "127.0.0.5", "127.0.0.6", "127.0.0.7", "127.0.0.66"
CLONE_NEWNET = 0x40000000
SO_NETNS_COOKIE = 71
HANDLE_ATTACHED = 1 << 24
RING_DATA, RING_SIZE = 4096, 4 * 1024 * 1024
SYNTH_SIZE = 4096 * 256 + 4096 * 512 * 256

CONFIG = """
listeners:
  - {{name: egress, kind: transparent, address: "127.0.0.1:15001"}}
  - {{name: names, kind: dns, address: "127.0.0.1:5353"}}
limits: {{dns_per_second: {rate}, dns_connections: 32}}
timeouts: {{dns_idle: {idle}}}
dns: {{denied: {denied}}}
sandboxes:
  - {{id: demo, source: 127.0.0.5, user: alice, agent: coder, session: s1, policy: p}}
  - {{id: other, source: 127.0.0.6, user: bob, agent: coder, session: s2, policy: p}}
  - {{id: seen, source: 127.0.0.7, user: eve, agent: coder, session: s4, policy: watch}}
policies:
  p:
    allow:
      - {{hosts: {hosts}, ports: [443]}}
      - {{hosts: [db.example.test], ports: [5432], protocol: tcp}}
    deny:
      - {{hosts: [bad.ok.test]}}
  watch:
    mode: observe
    allow:
      - {{hosts: [ok.test], ports: [443]}}
"""


def sealed(size, first=b""):
    fd = os.memfd_create("given", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    os.pwrite(fd, first, 0)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    return fd


class Ring:
    """The row ring as the ledger reads it."""

    def __init__(self, head=0):
        start = struct.pack("Q", 0x31474E4952574F52).ljust(64, b"\0") + struct.pack("Q", head)
        self.fd = sealed(RING_DATA + RING_SIZE, start)
        self.bell = os.eventfd(0)
        self.map = mmap.mmap(self.fd, RING_DATA + RING_SIZE)

    def rows(self):
        """All rows since the last call, as dicts."""
        tail, = struct.unpack_from("Q", self.map, 128)
        head, = struct.unpack_from("Q", self.map, 64)
        found = []
        while tail < head:
            at = RING_DATA + tail % RING_SIZE
            size, _ = struct.unpack_from("II", self.map, at)
            found.append(self.row(self.map[at + 8:at + 8 + size]))
            tail += 8 + (size + 7) // 8 * 8
        struct.pack_into("Q", self.map, 128, tail)
        return found

    @staticmethod
    def row(data):
        wire = Wire(data)
        wire.get("B")
        row = {"kind": wire.str16().decode(), "code": wire.str16().decode()}
        row["observed"] = wire.get("B")
        wire.get("Q"), wire.get("Q"), wire.get("Q"), wire.get("Q")
        for name in ("sandbox user agent session listener host address country method path "
                     "rule detail").split():
            row[name] = wire.str16().decode()
        return row


def query(name, kind=A, opt=1232, ident=0x1234, flags=0x0100, klass=1, version=0):
    packet = struct.pack("!HHHHHH", ident, flags, 1, 0, 0, opt is not None)
    packet += encode_name(name) + struct.pack("!HH", kind, klass)
    if opt is not None:
        packet += b"\0" + struct.pack("!HHBBHH", 41, opt, 0, version, 0, 0)
    return packet


class Answer:
    """One parsed answer."""

    def __init__(self, packet):
        self.packet = packet
        self.ident, flags, questions, answers, authority, extra = struct.unpack_from(
            "!HHHHHH", packet)
        assert flags & 0x8000
        self.rcode, self.truncated = flags & 15, bool(flags & 0x200)
        self.at, self.question = 12, b""
        if questions:
            self.skip_name()
            self.at += 4
            self.question = packet[12:self.at]
        self.addresses, self.soa, self.ede, self.opt, self.ttls = [], False, None, False, []
        for _ in range(answers + authority + extra):
            self.record()
        assert self.at == len(packet)

    def skip_name(self):
        while True:
            size = self.packet[self.at]
            if size >= 192:
                self.at += 2
                return
            self.at += 1 + size
            if size == 0:
                return

    def record(self):
        self.skip_name()
        kind, _, ttl, size = struct.unpack_from("!HHIH", self.packet, self.at)
        data = self.packet[self.at + 10:self.at + 10 + size]
        self.at += 10 + size
        if kind == 41:
            self.opt = True
            self.rcode |= ttl >> 24 << 4
            if size:
                assert data[:2] == b"\0\x0f"
                self.ede = struct.unpack_from("!H", data, 4)[0], data[6:].decode()
            return
        self.ttls.append(ttl)
        if kind == SOA:
            self.soa = True
        if kind == A:
            self.addresses.append(socket.inet_ntop(socket.AF_INET, data))
        if kind == AAAA:
            self.addresses.append(socket.inet_ntop(socket.AF_INET6, data))


class Gate:
    def __init__(self, tmp_path, ring_head=0, **more):
        self.tmp_path = tmp_path
        self.role = Role("sandgate-dns", self.image(**more), ["DIALER"])
        self.dialer = self.role.lines["DIALER"]
        self.ring = Ring(ring_head)
        self.role.give("RING", 1, "", [self.ring.fd, self.ring.bell])
        synth = sealed(SYNTH_SIZE)
        self.role.give("SYNTH", 0, "", [synth])
        os.close(synth)
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("0.0.0.0", 0))
        self.tcp = socket.create_server(("0.0.0.0", 0))
        self.port, self.tcp_port = self.udp.getsockname()[1], self.tcp.getsockname()[1]
        self.role.give("LISTENER", 1, "udp", [self.udp.fileno()])
        self.role.give("LISTENER", 1, "tcp", [self.tcp.fileno()])
        self.clients = {}

    def image(self, rate=500, denied="nxdomain", idle="10s", hosts='[ok.test, "*.ok.test"]'):
        path = self.tmp_path / "sandgate.yaml"
        path.write_text(CONFIG.format(rate=rate, denied=denied, idle=idle,
                                      hosts=hosts))
        return compile_file(path)

    def reload(self, **more):
        self.role.take(self.image(**more))

    def client(self, source=DEMO, to="127.0.0.1"):
        if (source, to) not in self.clients:
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.bind((source, 0))
            sock.connect((to, self.port))  # takes answers from that address only
            self.clients[source, to] = sock
        return self.clients[source, to]

    def raw(self, packet, source=DEMO, to="127.0.0.1", timeout=5):
        sock = self.client(source, to)
        sock.send(packet)
        return hear(sock, timeout)

    def ask(self, name, kind=A, source=DEMO, to="127.0.0.1", **more):
        packet = query(name, kind, **more)
        answer = self.raw(packet, source, to)
        assert answer.ident == 0x1234
        return answer

    def heard(self, timeout=5):
        """(seq, handle, name, want) of the next question to the dialer, or None."""
        sock = self.dialer.sock
        if not select.select([sock], [], [], timeout)[0]:
            return None
        data = sock.recv(70000)
        magic, ask, flags, seq = struct.unpack_from("!HBBI", data)
        assert (magic, ask, flags) == (0x5347, ASKS["RESOLVE"], 0)
        wire = Wire(data[8:])
        handle, _ = wire.get("I"), wire.get("Q")
        got = seq, handle, wire.str16().decode(), wire.get("B")
        wire.end()
        return got

    def resolved(self, seq, status="OK", addresses=(), ttl=33):
        body = struct.pack("!HIB", STATUS.index(status), ttl, len(addresses))
        for text in addresses:
            family = socket.AF_INET6 if ":" in text else socket.AF_INET
            body += str16(socket.inet_pton(family, text))
        self.dialer.sock.send(struct.pack("!HBBI", 0x5347, ASKS["RESOLVE"], 1, seq) + body)

    def stream(self, source=DEMO):
        return socket.create_connection(("127.0.0.1", self.tcp_port), timeout=5,
                                        source_address=(source, 0))

    def close(self):
        for sock in self.clients.values():
            sock.close()
        self.udp.close()
        self.tcp.close()
        assert self.role.is_alive()
        assert self.role.close() == 0


def hear(sock, timeout=5):
    if not select.select([sock], [], [], timeout)[0]:
        return None
    return Answer(sock.recv(5000))


def hear_stream(sock):
    def exactly(n):
        data = b""
        while len(data) < n:
            more = sock.recv(n - len(data))
            if not more:
                return None
            data += more
        return data
    size = exactly(2)
    return size and Answer(exactly(struct.unpack("!H", size)[0]))


def framed(packet):
    return struct.pack("!H", len(packet)) + packet


@pytest.fixture
def gate(tmp_path):
    made = Gate(tmp_path)
    yield made
    made.close()


class Box:
    """Sockets made in a network namespace of its own."""

    def __init__(self):
        libc = ctypes.CDLL(None, use_errno=True)
        old = os.open("/proc/self/ns/net", os.O_RDONLY)
        if libc.unshare(CLONE_NEWNET) != 0:
            os.close(old)
            pytest.skip("no network namespaces here")
        try:
            for command in ("link set lo up", "route add local default dev lo"):
                subprocess.run(["ip", *command.split()], check=True)
            self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.udp.bind(("0.0.0.0", 53))
            self.tcp = socket.create_server(("0.0.0.0", 53))
            self.client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.client.connect(("8.8.8.8", 53))
            self.stream = socket.create_connection(("1.1.1.1", 53), timeout=5)
        finally:
            libc.setns(old, CLONE_NEWNET)
            os.close(old)
        self.cookie, = struct.unpack("Q", self.udp.getsockopt(socket.SOL_SOCKET,
                                                              SO_NETNS_COOKIE, 8))

    def close(self):
        for sock in (self.udp, self.tcp, self.client, self.stream):
            sock.close()


def tell_sandbox(gate, handle, present, cookie=0, name="box"):
    body = struct.pack("!IBQ", handle, present, cookie)
    for text in (name, "carol", "coder", "s3", "p"):
        body += str16(text)
    # no CA, no sources, nothing narrowed
    gate.role.super.send("SANDBOX", body + b"\0" + b"\0" + b"\0\0\0")
    gate.reload()  # answered in order, so the role knows by now
