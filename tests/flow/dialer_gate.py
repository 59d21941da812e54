"""A dialer in a network namespace of its own, with us as its neighbours and a server on every address."""
import ctypes
import os
import socket
import struct
import subprocess
import sys
import threading

import pytest

from conftest import end_server, wait_for
from role_line import STATUS, Role, Wire, compile_file, str16

CLONE_NEWNET = 0x40000000
WAY_ANY, WAY_TCP = 0, 3
PUBLIC, PUBLIC_TOO, PUBLIC6 = "93.184.216.34", "93.184.216.35", "2606:2800:220:1::1"
SANDBOX = "127.0.0.5"
PORT = 443

CONFIG = """
listeners:
  - {{name: proxy, kind: proxy, address: "127.0.0.1:3128"}}
  - {{name: wide, kind: transparent, address: "0.0.0.0:15001"}}
resolver: {{servers: [{servers}], timeout: {timeout}, tries: 2, ttl_min: {ttl_min}, ttl_max: 300s, hosts: {{pinned.test: [93.184.216.40], inside.test: [10.9.9.9]}}}}
timeouts: {{connect: {connect}}}
{extra}
sandboxes:
  - {{id: demo, source: 127.0.0.5, user: alice, agent: coder, session: s1, policy: p}}
  - {{id: other, source: 93.184.216.99, user: bob, agent: coder, session: s2, policy: p}}
policies:
  p:
    allow:
      - {{hosts: [ok.test, "*.ok.test", pinned.test, inside.test], ports: [443]}}
      - {{hosts: [self.test], ports: [443, 3128, 15001], addresses: ["127.0.0.0/8"]}}
      - {{hosts: [private.test], ports: [443], addresses: ["10.0.0.0/8"]}}
      - {{hosts: [db.test], ports: [5432], protocol: tcp}}
{rules}      - {{cidrs: ["93.184.216.0/24"], ports: [443], protocol: tcp}}
    deny:
      - {{hosts: [bad.ok.test]}}
{connectors}"""


@pytest.fixture(scope="module")
def network():
    if os.geteuid() != 0:
        pytest.skip("a network namespace of its own needs root here")
    libc = ctypes.CDLL(None, use_errno=True)
    old = os.open("/proc/self/ns/net", os.O_RDONLY)
    if libc.unshare(CLONE_NEWNET) != 0:
        pytest.skip("no network namespaces here")
    for command in ("link set lo up", "route add local default dev lo",
                    "-6 route add local default dev lo", f"-6 addr add {PUBLIC6}/128 dev lo nodad"):
        subprocess.run(["ip", *command.split()], check=True)
    yield
    libc.setns(old, CLONE_NEWNET)
    os.close(old)


class Sink:
    """Accepts on every address of one port and remembers which was dialled."""

    def __init__(self, port=PORT):
        self.heard, self.marks, self.port = [], set(), port
        self.sock = socket.create_server(("::", port), family=socket.AF_INET6, backlog=1024,
                                         dualstack_ipv6=True)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    @property
    def dialled(self):
        """All that came before this was asked: connections are accepted in their order, so that
        one of our own shows when theirs have been."""
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            mark = sock.getsockname()[1]
            self.marks.add(mark)
            sock.connect(("127.0.0.1", self.port))
            wait_for(lambda: mark not in self.marks)
        return self.heard

    def _run(self):
        while True:
            try:
                conn, peer = self.sock.accept()
            except OSError:
                return
            if peer[0] == "::ffff:127.0.0.1" and peer[1] in self.marks:
                self.marks.remove(peer[1])
            else:
                self.heard.append(conn.getsockname()[0].removeprefix("::ffff:"))
            conn.close()

    def close(self):
        end_server(self.sock, self.thread)


@pytest.fixture(scope="module")
def sink(network):
    made = Sink()
    yield made
    made.close()


class Gate:
    def __init__(self, tmp_path, dns, **more):
        self.tmp_path = tmp_path
        self.role = Role("sandgate-dialer", self.image(dns, **more),
                         ["WORKER", "DNS", "CONTROL", "CONNECTOR"])
        self.listener = socket.create_server(("127.0.0.1", 0))

    def image(self, dns, extra="", rules="", ttl_min="5s", connect="5s", timeout="300ms",
              connectors=""):
        servers = ", ".join(f'"{d.address}:{d.port}"' for d in dns)
        path = self.tmp_path / "sandgate.yaml"
        path.write_text(CONFIG.format(servers=servers, extra=extra, rules=rules,
                                      ttl_min=ttl_min,
                                      connect=connect, timeout=timeout, connectors=connectors))
        return compile_file(path)

    def accepted(self, source=SANDBOX):
        """(the sandbox's end, the worker's end)"""
        client = socket.create_connection(self.listener.getsockname(),
                                          source_address=(source, 0))
        return client, self.listener.accept()[0]

    def ask(self, host, port=PORT, way=WAY_ANY, fd=None, line=None):
        body = str16(host) + struct.pack("!HB", port, way)
        return (line or self.role.lines["WORKER"]).send("DIAL", body, [fd])

    def hear(self, seq, line=None):
        body, fds = (line or self.role.lines["WORKER"]).answer(seq)
        wire = Wire(body)
        got = {"status": STATUS[wire.get("H")], "rule": wire.get("I"),
               "address": wire.str16().decode(), "country": wire.str16().decode(),
               "attempts": wire.get("B"), "via": wire.get("B")}
        wire.end()
        assert len(fds) == (got["status"] == "OK")
        got["peer"] = None
        if fds:
            with socket.socket(fileno=fds[0]) as sock:
                got["peer"] = sock.getpeername()[0]
        return got

    def fetch(self, connector, host, port=PORT, source=SANDBOX):
        """source None: the connector's own business."""
        line = self.role.lines["CONNECTOR"]
        body = str16(connector) + str16(host) + struct.pack("!H", port)
        if source is None:
            return self.hear(line.send("FETCH", body), line)
        client, worker = self.accepted(source)
        with client, worker:
            return self.hear(line.send("FETCH", body, [worker.fileno()]), line)

    def dial(self, host, port=PORT, way=WAY_ANY, source=SANDBOX):
        client, worker = self.accepted(source)
        with client, worker:
            return self.hear(self.ask(host, port, way, worker.fileno()))

    def resolve(self, name, want=1, handle=1, generation=None):
        body, _ = self.role.lines["DNS"].call(
            "RESOLVE", struct.pack("!IQ", handle, generation or self.role.generation) + str16(name) + struct.pack("!B", want))
        wire = Wire(body)
        status, ttl, count = STATUS[wire.get("H")], wire.get("I"), wire.get("B")
        addrs = [socket.inet_ntop(socket.AF_INET if want == 1 else socket.AF_INET6,
                                  wire.str16()) for _ in range(count)]
        wire.end()
        return status, ttl, addrs

    def close(self):
        self.listener.close()
        assert self.role.is_alive()
        assert self.role.close() == 0


@pytest.fixture
def gate(network, tmp_path):
    """Makes gates; each must still be alive at the end and end cleanly."""
    made = []

    def make(*dns, **more):
        made.append(Gate(tmp_path, dns, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q", *sys.argv[1:]]))
