import os
import pathlib
import socket
import sys
import threading

import pytest

HERE = pathlib.Path(__file__).resolve().parent
FLOW = HERE.parent / "flow"
sys.path[:0] = [str(HERE), str(FLOW)]
import taken  # noqa: E402  (its folder is known only now)
from tally import absent, found, load, pytest_sessionfinish  # noqa: E402,F401

flow = load(FLOW / "conftest.py", "flow_conftest")
gate = flow.gate
INJECT = taken.INJECT
ROLES = ["worker.0", "dns", "dialer", "ledger", "keeper", "control"]
found.update(injected=0, killed=0)


def inject(pid, *words):
    """("returned", value) or ("killed", signal)"""
    how, value = taken.inject(pid, *words)
    found["injected"] += 1
    found["killed"] += how == "killed"
    return how, value


class Sink:
    """A listener on loopback that counts who comes, and echoes."""

    def __init__(self, address="127.0.0.1"):
        self.server = socket.create_server((address, 0))
        self.port, self.got = self.server.getsockname()[1], 0
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def listen(self):
        held = []
        while True:
            try:
                c, _ = self.server.accept()
            except OSError:
                return
            self.got += 1
            held.append(c)
            threading.Thread(target=self.echo, args=(c,), daemon=True).start()

    @staticmethod
    def echo(c):
        try:
            while data := c.recv(4096):
                c.sendall(data)
        except OSError:
            pass


def tunnel(g, source, host, port):
    """(socket, first line of the answer)"""
    s = socket.create_connection(g.proxy, source_address=(source, 0), timeout=8)
    s.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    return s, s.recv(4096).split(b"\r\n")[0]


def serves(g, source, host, port):
    try:
        s, line = tunnel(g, source, host, port)
        with s:
            return b" 200" in line
    except OSError:
        return False


@pytest.fixture(autouse=True)
def privileged():
    why = "needs root" if os.geteuid() != 0 else taken.no_injector()
    if why:
        absent("jail", why)


@pytest.fixture
def two(gate):
    """Sandboxes a and b; each may reach its own sink only."""
    sinks = Sink(), Sink()
    g = gate({
        "resolver": {"servers": ["127.0.0.1"], "timeout": "200ms", "tries": 1,
                     "hosts": {"a.example.test": ["127.0.0.1"], "b.example.test": ["127.0.0.1"]}},
        "sandboxes": [{"id": n, "source": f"127.0.0.7{i}", "policy": n} for i, n in ((1, "a"), (2, "b"))],
        "policies": {n: {"allow": [{"hosts": [f"{n}.example.test"], "ports": [s.port], "protocol": "tcp", "addresses": ["127.0.0.0/8"]}]}
                     for n, s in zip("ab", sinks)}})
    yield g, *sinks
    for s in sinks:
        flow.end_server(s.server, s.thread)
