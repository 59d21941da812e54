"""Who is asking: sockets made in a namespace of its own, and tokens."""
import base64
import ctypes
import fcntl
import hashlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys

import pytest

from conftest import wait_for

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
TOKEN = "a-token-of-some-length"
TOKENS = {"sandboxes": [
    {"id": "ci", "user": "ci-bot", "policy": "coding",
     "token_sha256": hashlib.sha256(TOKEN.encode()).hexdigest()},
    {"id": "src", "source": "127.0.0.77", "policy": "coding"}]}


class Namespace:
    """A process in a network namespace of its own that connects when it is told to."""

    def __init__(self):
        self.line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            self.line.close()
            try:
                self.live(theirs)
            finally:
                os._exit(1)
        theirs.close()
        self.line.settimeout(10)
        _, self.fds, _, _ = socket.recv_fds(self.line, 16, 4)
        assert self.fds, "network namespaces can't be made here"

    @staticmethod
    def live(line):
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
            os._exit(1)
        with socket.socket() as s:
            fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
        door = socket.socket()
        door.bind(("127.0.0.1", 3128))
        door.listen(16)
        socket.send_fds(line, [b"x"], [door.fileno()])
        door.close()
        while request := line.recv(4096):
            try:
                with socket.create_connection(("127.0.0.1", 3128), timeout=5) as c:
                    c.sendall(request)
                    data = b""
                    while chunk := c.recv(65536):
                        data += chunk
            except OSError as e:
                data = f"gone: {e.errno}".encode()
            line.send(data[:60000])
        os._exit(0)

    def ask(self, host="no.example.test"):
        self.line.send(f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = self.line.recv(65536)
        if b"\r\n\r\n" not in answer:
            return answer.decode()
        return json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"]

    def close(self):
        for fd in self.fds:
            os.close(fd)
        self.line.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


@pytest.fixture
def namespace():
    if os.geteuid() != 0:
        pytest.skip("needs root for a namespace without a user namespace")
    n = Namespace()
    yield n
    n.close()


def attach(g, namespace, **names):
    wish = {"id": "box", "user": "bob", "agent": "a", "session": "s", "policy": "coding",
            "sockets": ["proxy"], **names}
    return g.admin("POST", "/v1/attach", wish, fds=namespace.fds)


def test_the_socket_is_the_identity(gate, namespace):
    g = gate({"workers": 2})
    code, said = attach(g, namespace)
    assert code == 200 and said["handle"] > 1 << 24, said
    assert namespace.ask() == "denied_by_policy"
    row, = g.wait_rows(kind="deny")
    assert (row["sandbox"], row["user"]) == ("box", "bob")
    assert g.wait_rows(kind="attach")[0]["sandbox"] == "box"
    assert [s["attached"] for s in g.admin("GET", "/v1/sandboxes")[1]["sandboxes"]] == [False, True]


def test_it_outlives_every_role_and_a_reload(gate, namespace):
    g = gate({"workers": 2})
    assert attach(g, namespace)[0] == 200
    for name in ("worker.0", "worker.1", "control", "dialer", "ledger"):
        pid = g.pids()[name]
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: back(g, name, pid))
        assert namespace.ask() == "denied_by_policy"
    assert g.reload()[0] == 200
    assert namespace.ask() == "denied_by_policy"
    assert {r["sandbox"] for r in g.wait_rows(6, kind="deny")} == {"box"}
    assert len(g.wait_rows(kind="attach")) == 1


def back(g, name, pid):
    try:
        return g.pids()[name] != pid
    except OSError:
        return False


def test_a_detached_sandbox_is_gone(gate, namespace):
    g = gate()
    assert attach(g, namespace)[0] == 200
    os.close(namespace.fds.pop())
    assert g.admin("POST", "/v1/detach", {"id": "box"}) == (200, {"ok": True})
    wait_for(lambda: namespace.ask().startswith("gone"))
    assert g.wait_rows(kind="detach")[0]["sandbox"] == "box"
    assert g.admin("POST", "/v1/detach", {"id": "box"})[0] == 404


def test_what_a_detached_sandbox_has_open_ends_without_a_refusal(gate, namespace):
    with socket.create_server(("127.0.0.9", 0)) as origin:
        port = origin.getsockname()[1]
        g = gate({"resolver": {"servers": ["127.0.0.1"], "hosts": {"db.example.test": ["127.0.0.9"]}},
                  "policies": {"coding": {"allow": [{"hosts": ["db.example.test"], "ports": [port], "protocol": "tcp",
                                                     "addresses": ["127.0.0.0/8"]}]}}})
        assert attach(g, namespace)[0] == 200
        namespace.line.send(f"CONNECT db.example.test:{port} HTTP/1.1\r\nHost: db.example.test:{port}\r\n\r\n"
                            .encode())
        origin.settimeout(5)
        host = origin.accept()[0]
        g.wait_rows(kind="tunnel_start")  # the kernel accepts before the worker knows of it
        assert g.admin("POST", "/v1/detach", {"id": "box"})[0] == 200
        host.settimeout(5)
        assert host.recv(1) == b""
        assert b" 200 " in namespace.line.recv(65536)
    end, = g.wait_rows(kind="tunnel_end")
    assert (end["sandbox"], end["user"], end["code"]) == ("box", "bob", "client_gone")
    assert g.rows(kind="deny") == []


def test_what_cannot_be_attached(gate, namespace):
    g = gate()
    assert attach(g, namespace, policy="none")[1]["error"]["code"] == "no_policy"
    assert attach(g, namespace, id="demo")[1]["error"]["code"] == "conflict"
    assert attach(g, namespace, sockets=["tcp", "tcp"])[0] == 400
    assert attach(g, namespace, sockets=["raw"])[0] in (400, 500)
    for wrong in ("", "a b", "a\nb", "\x1b[2J", "x" * 65):
        assert attach(g, namespace, id=wrong)[0] == 400
    with socket.socket() as ours:  # the host's own namespace would be that sandbox
        ours.bind(("127.0.0.1", 0))
        code, said = g.admin("POST", "/v1/attach", {"id": "x", "policy": "coding", "sockets": ["tcp"]},
                             fds=[ours.fileno()])
    assert code == 409, said
    assert g.rows(kind="attach") == []
    told = [r for r in g.wait_rows(20, kind="operator") if r["detail"] == "attach"]
    ends = {r["turn"]: r["code"] for r in told if "turn" in r}
    assert {r["id"]: r["code"] for r in told if "turn" not in r} == dict.fromkeys(ends, "again")
    assert len(ends) == 10 and "ok" not in ends.values(), ends
    assert attach(g, namespace)[0] == 200
    wait_for(lambda: [r["code"] for r in g.rows(kind="operator")][-2:] == ["again", "ok"])
    assert attach(g, namespace)[0] == 409


def login(g, user, token, host="no.example.test"):
    word = base64.b64encode(f"{user}:{token}".encode()).decode()
    with socket.create_connection(g.proxy, timeout=5) as s:
        s.sendall(f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
                  f"Proxy-Authorization: Basic {word}\r\n\r\n".encode())
        data = b""
        while chunk := s.recv(65536):
            data += chunk
    return json.loads(data.partition(b"\r\n\r\n")[2])["error"]["code"]


def test_a_token_is_an_identity_and_a_guess_is_not(gate):
    g = gate(TOKENS)
    assert login(g, "ci", TOKEN) == "denied_by_policy"
    assert g.wait_rows(kind="deny")[-1]["sandbox"] == "ci"
    for user, token in (("ci", "wrong"), ("ci", ""), ("nobody", TOKEN), ("src", ""), ("", "")):
        assert login(g, user, token) in ("auth_failed", "auth_required"), (user, token)
    for _ in range(30):
        login(g, "ci", "guess")
    assert login(g, "ci", TOKEN) == "denied_by_policy"


def test_without_control_no_token_passes(gate):
    g = gate(TOKENS)
    pid = g.pids()["control"]
    os.kill(pid, signal.SIGSTOP)
    try:
        assert login(g, "ci", TOKEN, host="ok.example.test") == "auth_failed"
    except socket.timeout:
        pass  # it waits for an answer: nothing is let out either
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_for(lambda: login(g, "ci", TOKEN) == "denied_by_policy")


ASK = """
import socket, sys
query = b"\\x12\\x34\\x01\\0\\0\\1\\0\\0\\0\\0\\0\\0\\x08sandgate\\x08internal\\0\\0\\1\\0\\1"
with socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM) as s:
    s.settimeout(5)
    s.connect((sys.argv[1], 53))
    s.send(query)
    print(socket.inet_ntoa(s.recv(512)[-4:]))
"""


@pytest.mark.parametrize("server", ["127.0.0.53", "127.0.0.11", "::1", "198.51.100.53", "2001:db8::53"])
def test_an_attached_process_is_answered_whatever_its_resolv_conf_says(gate, server):
    g = gate()
    inside = subprocess.Popen(["unshare", "-rn", "sleep", "60"])
    try:
        enter = ["nsenter", "-t", str(inside.pid), "-U", "--preserve-credentials", "-n"]
        wait_for(lambda: os.stat(f"/proc/{inside.pid}/ns/net").st_ino != os.stat("/proc/self/ns/net").st_ino)
        done = g.cli("attach", "--pid", inside.pid, "--sandbox", "web", "--policy", "coding")
        assert done.returncode == 0, done.stderr
        told = subprocess.run([*enter, sys.executable, "-c", ASK, server], capture_output=True, text=True, timeout=20)
        assert told.stdout.strip() == "198.18.0.1", told.stderr
        done = g.cli("attach", "--pid", inside.pid, "--sandbox", "web", "--policy", "coding", "--user", "eve")
        assert (done.returncode, done.stderr) == (1, "sandgate: `web` is attached already, with policy `coding` and user `-`; "
                                                     "`sandgate detach --sandbox web` lets go of it\n")
        done = g.cli("attach", "--pid", inside.pid, "--sandbox", "demo", "--policy", "coding")
        assert done.returncode == 1 and "`demo` is a sandbox of the configuration" in done.stderr
        done = g.cli("attach", "--pid", inside.pid, "--sandbox", "other", "--policy", "coding")
        assert done.returncode == 1 and "Address already in use: it is attached already" in done.stderr
        done = g.cli("detach", "--sandbox", "web")
        assert (done.returncode, done.stdout) == (0, "detached web\n"), done.stderr
        assert "web" not in g.cli("sandboxes").stdout
        done = g.cli("detach", "--sandbox", "web")
        assert (done.returncode, done.stderr) == (1, "sandgate: no sandbox `web` is attached\n")
    finally:
        inside.kill()
        inside.wait()
