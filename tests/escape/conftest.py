"""A world of its own for each run: this process moves to a new network namespace, whose
interface wan0 leads nowhere but counts, and whose nft counter `leaks` sees every packet
that is not the gateway's own talk with its resolver and the one allowed host.
"""
import ctypes
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading

import pytest

HERE = pathlib.Path(__file__).resolve().parent
FLOW = HERE.parent / "flow"
CLONE_NEWNET = 0x40000000
OK, SINK, SINK6 = "203.0.113.80", "203.0.113.66", "2001:db8::66"
LEAKS = f"""
table inet escape {{
  counter leaks {{ }}
  chain out {{
    type filter hook output priority 300; policy accept;
    ip daddr 127.0.0.0/8 accept
    ip6 daddr ::1 accept
    ip daddr {OK} tcp dport 80 accept
    ip saddr {OK} tcp sport 80 accept
    icmpv6 type {{ mld-listener-report, mld2-listener-report, nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert }} accept
    oifname "br0" accept
    counter name leaks
  }}
  chain through {{
    type filter hook forward priority 300; policy accept;
    counter name leaks
  }}
}}
"""


sys.path[:0] = [str(HERE), str(FLOW)]
from tally import absent, found, load, pytest_sessionfinish  # noqa: E402,F401  (its folder is known only now)

flow = load(FLOW / "conftest.py", "flow_conftest")
fake_dns = load(FLOW / "fake_dns.py", "flow_fake_dns")
SANDGATE = flow.BIN / "sandgate"


def run(*words, **kw):
    return subprocess.run([str(w) for w in words], check=True, capture_output=True, text=True, timeout=60, **kw)


def is_root():
    return os.geteuid() == 0


class Sink:
    """Listens wherever it is told to; whoever comes is noted."""

    def __init__(self):
        self.got, self.sockets = [], []

    def on(self, s, name):
        self.sockets.append(s)
        threading.Thread(target=self.listen, args=(s, name), daemon=True).start()
        return self

    def listen(self, s, name):
        while True:
            try:
                if s.type == socket.SOCK_DGRAM:
                    data = s.recv(100)
                else:
                    c, _ = s.accept()
                    data = b"a connection"
                    c.close()
            except OSError:
                return
            self.got.append((name, data))

    def unix(self, path, kind=socket.SOCK_STREAM, mode=0o777):
        s = socket.socket(socket.AF_UNIX, kind)
        s.bind(path)
        if not path.startswith("\0"):
            os.chmod(path, mode)
        if kind == socket.SOCK_STREAM:
            s.listen(8)
        return self.on(s, path)

    def close(self):
        for s in self.sockets:
            name = s.getsockname()
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()
            if isinstance(name, str) and name.startswith("/"):
                pathlib.Path(name).unlink(missing_ok=True)


class World:
    def __init__(self):
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "wan0", "type", "veth", "peer", "name", "wan1")  # up, and nobody at its other end
        for a in (f"{OK}/24", f"{SINK}/24", "169.254.169.254/32", "203.0.113.1/24"):
            run("ip", "addr", "add", a, "dev", "wan0")
        for a in (f"{SINK6}/64", "fe80::66/64"):
            run("ip", "addr", "add", a, "dev", "wan0", "nodad")
        run("ip", "link", "set", "wan0", "up")
        run("ip", "link", "set", "wan1", "up", "addrgenmode", "none")
        for family in ("-4", "-6"):
            run("ip", family, "route", "add", "default", "dev", "wan0")
        run("nft", "-f", "-", input=LEAKS)
        self.sink = Sink()
        self.ports = []
        for address in (SINK, "203.0.113.1", "169.254.169.254", SINK6):
            for port in (22, 53, 80, 443, 853, 5353, 4444):
                self.net_sinks(address, port)
        self.upstream = socket.create_server((OK, 80))
        threading.Thread(target=self.answer, daemon=True).start()
        self.dns = fake_dns.FakeDns({"ok.example.test": {"A": [OK]}, "*.evil.test": {"A": [SINK]}})
        self.dns.__enter__()

    def net_sinks(self, address, port):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            s = socket.socket(family, kind)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind((address, port))
            if kind == socket.SOCK_STREAM:
                s.setsockopt(socket.IPPROTO_TCP, 23, 16)  # TCP_FASTOPEN
                s.listen(8)
            self.sink.on(s, f"{address} {port}")

    def answer(self):
        while True:
            c, _ = self.upstream.accept()
            try:
                c.settimeout(5)
                c.recv(4096)
                c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfine")
            except OSError:
                pass
            c.close()

    def leaks(self):
        counters = json.loads(run("nft", "-j", "list", "counter", "inet", "escape", "leaks").stdout)
        return counters["nftables"][1]["counter"]["packets"]

    def forget(self):
        self.sink.got.clear()
        self.dns.queries.clear()
        run("nft", "reset", "counters")

    def check(self):
        """Nothing came out."""
        assert self.sink.got == []
        strange = [q.name for q in self.dns.queries if q.name.lower().rstrip(".") != "ok.example.test"]
        assert strange == []
        assert self.leaks() == 0


@pytest.fixture(scope="session")
def world():
    if not is_root():
        absent("escape", "needs root for namespaces and counters of its own")
    return World()


CONFIG = {
    "workers": 1,
    "policies": {"coding": {"allow": [
        {"hosts": ["ok.example.test"], "ports": [80], "addresses": ["203.0.113.0/24"]}]}},
}


@pytest.fixture
def gate(world):
    made = []

    def start(config=None, **kw):
        more = {"resolver": {"servers": [f"{world.dns.address}:{world.dns.port}"]}, "sandboxes": [], **CONFIG, **(config or {})}
        g = flow.Gate(more, **kw)
        made.append(g)
        return g.start()

    yield start
    for g in made:
        g.close()
