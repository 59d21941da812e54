"""A whole gateway for a test: configuration written out, started, asked, stopped.

    def test_x(gate):
        g = gate({"policies": {...}})            # dict or YAML text, merged over BASE
        g.proxy                                  # ("127.0.0.1", port) of listener "proxy"
        g.admin("GET", "/v1/status")             # (status, JSON)
        g.rows(kind="deny")                      # the ledger through `sandgate audit --json`
        g.cli("reload")                          # subprocess.CompletedProcess
        g.pids()                                 # {"worker.0": pid, ...}

Ports are free ones of loopback, so tests may run beside each other.  SANDGATE_BIN names
the folder of the executables.
"""
import http.client
import json
import os
import pathlib
import select
import shutil
import signal
import random
import socket
import subprocess
import tempfile
import time

import pytest

from tally import pytest_sessionfinish  # noqa: F401

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Roles are not dumpable, so the sanitizer's search for leaks can't look into them.
os.environ.setdefault("ASAN_OPTIONS", "detect_leaks=0")
BIN = pathlib.Path(os.environ.get("SANDGATE_BIN", ROOT / "build/release/bin"))

BASE = {
    "workers": 1,
    "timeouts": {"drain": "1s"},
    "resolver": {"servers": ["127.0.0.1"], "timeout": "200ms", "tries": 1},
    "sandboxes": [{"id": "demo", "source": "127.0.0.1", "user": "alice", "agent": "coder",
                   "session": "s1", "policy": "coding"}],
    "policies": {"coding": {"allow": [
        {"hosts": ["ok.example.test"], "ports": [80, 443], "addresses": ["127.0.0.0/8"]}]}},
}


GIVEN = set()
# Tests that run beside these take theirs from another part of the range.
LANE, LANES = (int(n) for n in os.environ.get("SANDGATE_LANE", "0/1").split("/"))
PORTS = range(10240 + LANE, 32000, LANES)


def free_port():
    """For TCP and UDP, given once, and below those that the kernel gives to clients."""
    while True:
        port = random.choice(PORTS)
        if port in GIVEN:
            continue
        try:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                with socket.socket(socket.AF_INET, kind) as s:
                    s.bind(("127.0.0.1", port))
        except OSError:
            continue
        GIVEN.add(port)
        return port


def wait_for(what, seconds=10.0, every=0.02):
    """The first true value that what() gives; fails the test after so many seconds."""
    end = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        assert time.monotonic() < end, f"never came true: {what}"
        time.sleep(every)


def end_server(sock, thread):
    """Close a listening socket that thread accepts on.  The thread ends first: otherwise it
    may be about to call accept() on a number that the next socket has already got."""
    sock.shutdown(socket.SHUT_RDWR)
    thread.join()
    sock.close()


def readable(fd, seconds):
    """Also a number that select() could not take."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, fds=()):
        super().__init__("localhost", timeout=70)
        self.path, self.fds = str(path), list(fds)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)

    def send(self, data):
        if self.sock is None:
            self.connect()
        if self.fds and isinstance(data, bytes):
            socket.send_fds(self.sock, [data[:1]], self.fds)
            data, self.fds = data[1:], []
        super().send(data)


class Gate:
    def __init__(self, config=None, listeners=("proxy", "egress", "dns"), env=None, user=None, around=()):
        # Roles of a gateway that root runs have a user of their own, who must be able to
        # reach the state directory: pytest's own folders are closed to others.
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="sandgate-test-"))
        self.dir.chmod(0o755)
        self.state = self.dir / "state"
        self.file = self.dir / "sandgate.yaml"
        self.log = self.dir / "log"
        self.user, self.env = user, {**os.environ, **(env or {})}
        self.around = list(around)  # what enters the namespace that it runs in
        self.ports = {name: free_port() for name in listeners}
        self.process = None
        if user is not None:
            os.chown(self.dir, user, user)
        self.write(config)

    # configuration

    def write(self, config=None):
        """Replace the configuration; a dict is merged over BASE, text is taken as it is
        with {state} and {proxy}, {egress}, {dns} filled in.  Takes effect with reload."""
        if isinstance(config, str):
            text = config
            for key, value in {"state": self.state, **self.ports}.items():
                text = text.replace("{%s}" % key, str(value))
        else:
            text = json.dumps({"state_dir": str(self.state), "listeners": self.listeners(),
                               **BASE, **(config or {})}, indent=1)
        self.file.write_text(text)  # JSON is YAML

    def listeners(self):
        kinds = {"proxy": "proxy", "egress": "transparent", "dns": "dns", "exec": "opensandbox"}
        return [{"name": n, "kind": kinds[n], "address": f"127.0.0.1:{p}"}
                for n, p in self.ports.items()]

    # life

    def start(self, seconds=20):
        ready, child = os.pipe()
        demote = (lambda: (os.setgroups([]), os.setgid(self.user), os.setuid(self.user))) \
            if self.user is not None else None
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.around, BIN / "sandgate", "run", "-c", self.file, "--ready-fd", str(child)],
                stderr=log, stdin=subprocess.DEVNULL, pass_fds=[child], env=self.env,
                preexec_fn=demote, cwd="/")
        os.close(child)
        try:
            said = os.read(ready, 1) if readable(ready, seconds) else b""
        finally:
            os.close(ready)
        if said != b"\n":
            self.kill()
            raise AssertionError(f"the gateway did not start:\n{self.log.read_text()}")
        return self

    def stop(self, seconds=40):
        """SIGTERM, drain, exit 0."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the gateway does not end:\n{self.log.read_text()}") from None
        self.process = None
        return code

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def close(self):
        self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)

    # questions

    def __getattr__(self, name):
        """gate.proxy, gate.dns, gate.egress: where the listener is."""
        if name in self.__dict__.get("ports", {}):
            return ("127.0.0.1", self.ports[name])
        raise AttributeError(name)

    def cli(self, *args, check=False, **kw):
        """`sandgate COMMAND -c FILE ...` with its output as text."""
        args = [str(a) for a in args]
        words = next((i for i, a in enumerate(args) if a.startswith("-")), len(args))
        command = [str(BIN / "sandgate"), *args[:words], "-c", str(self.file), *args[words:]]
        return subprocess.run(command, capture_output=True, text=True, timeout=120,
                              check=check, env=self.env, **kw)

    def admin(self, method="GET", path="/v1/status", body=None, headers=None, fds=()):
        """(HTTP status, JSON) of one request on the admin socket; fds go with its bytes."""
        link = UnixConnection(self.state / "admin.sock", fds)
        try:
            link.request(method, path, None if body is None else json.dumps(body), headers or {})
            answer = link.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            link.close()

    def status(self):
        code, body = self.admin()
        assert code == 200, body
        return body

    def pids(self):
        """Of all roles, once all serve; never 0, which kill() would take for us all."""
        def serving():
            roles = self.status()["roles"]
            return all(r["state"] == "serving" and r["pid"] > 1 for r in roles) and roles
        return {r["name"]: r["pid"] for r in wait_for(serving)}

    def counter(self, name):
        return self.status()["counters"][name]

    def rows(self, **want):
        """Rows of the ledger, oldest first, whose fields are as wanted."""
        done = self.cli("audit", "--json")
        assert done.returncode == 0, done.stderr
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
        return [r for r in rows if all(r.get(k) == v for k, v in want.items())]

    def wait_rows(self, n=1, seconds=5.0, **want):
        """The same, once there are at least n: they are stored a moment later."""
        return wait_for(lambda: (r := self.rows(**want)) and len(r) >= n and r, seconds)

    def reload(self, config=None):
        if config is not None:
            self.write(config)
        return self.admin("POST", "/v1/reload")

    def text_of_log(self):
        return self.log.read_text()


@pytest.fixture
def gate():
    """gate(config=None, ...) starts one; all are stopped and removed at the end."""
    made = []

    def start(config=None, **kw):
        g = Gate(config, **kw)
        made.append(g)
        return g.start()

    yield start
    for g in made:
        g.close()
