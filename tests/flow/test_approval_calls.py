"""What sandboxes send out waits for a person: requests to a company system, and hosts that are used for the first time."""
import contextlib
import hashlib
import json
import socket
import ssl
import subprocess
import threading

import pytest

from certificates import make_ca, make_leaf
from conftest import wait_for
from connector_line import System, reply

HOST, SECRET = "bank.example.test", "s3cr3t-of-the-bank"
NEW, PLAIN = "new.example.test", "plain.example.test"
PEOPLE = {"bob": "approver", "alice": "operator"}  # alice's sandbox asks, too


def roles():
    return [{"token_sha256": hashlib.sha256(f"token-of-{name}".encode()).hexdigest(), "name": name, "role": role}
            for name, role in PEOPLE.items()]


class Echo:
    """Anything that is not HTTP, and a page for what is."""

    def __init__(self):
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.port = self.sock.getsockname()[1]
        self.seen = 0
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                conn, _ = self.sock.accept()
                self.seen += 1
                threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def serve(self, conn):
        with contextlib.suppress(OSError), conn:
            while data := conn.recv(65536):
                conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain" if data.startswith(b"GET ") else data)


class World:
    def __init__(self, gate, folder, timeout="60s", approval="always"):
        ca = make_ca(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*make_leaf(ca, HOST))
        context.set_alpn_protocols(["http/1.1"])
        self.system = System(context, lambda r: reply(200, b"paid"))
        self.echo = Echo()
        self.config = {
            "upstream_tls": {"ca_file": str(ca.file)}, "admin": {"address": "unix:admin.sock", "roles": roles()},
            "exec": {"approval_timeout": timeout},
            "resolver": {"servers": ["127.0.0.1"], "hosts": {name: ["127.0.0.1"] for name in (HOST, NEW, PLAIN)}},
            "sandboxes": [{"id": "demo", "source": "127.0.0.1", "user": "alice", "session": "s1", "policy": "coding", "trusts_ca": True}],
            "policies": {"coding": {"connectors": ["bank"], "allow": [
                {"hosts": [NEW], "protocol": "tcp", "ports": [self.echo.port], "addresses": ["127.0.0.0/8"], "approval": "first"},
                {"hosts": [PLAIN], "ports": [self.echo.port], "addresses": ["127.0.0.0/8"], "approval": "first"}]}},
            "connectors": [{"name": "bank", "hosts": [HOST], "addresses": ["127.0.0.0/8"], "approval": approval,
                            "upstream": f"https://{HOST}:{self.system.port}", "auth": {"kind": "bearer", "secret": "bank/token"},
                            "allow": [{"methods": ["GET", "POST"], "paths": ["/api/**"]}]}]}
        self.g = gate(self.config)
        self.g.cli("vault", "put", "bank/token", input=SECRET, check=True)
        self.ca = folder / "gateway.pem"
        self.ca.write_text(self.g.cli("ca", "export", check=True).stdout)

    def close(self):
        self.system.close()
        self.echo.sock.close()

    def start(self, url, *args):
        return subprocess.Popen(["curl", "-sS", "-i", "-m", "30", "-x", "http://%s:%d" % self.g.proxy, "--cacert", self.ca, url, *args],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def pay(self, path="/api/pay?to=me", *args):
        return self.start(f"https://{HOST}{path}", "-d", "sum=1", *args)

    def connect(self):
        s = socket.create_connection(self.g.proxy, timeout=20)
        s.sendall(f"CONNECT {NEW}:{self.echo.port} HTTP/1.1\r\nHost: {NEW}:{self.echo.port}\r\n\r\n".encode())
        return s

    def says(self, name, *words, code=0):
        self.g.env["SANDGATE_ADMIN_TOKEN"] = f"token-of-{name}"
        try:
            done = self.g.cli("approvals", *words)
        finally:
            del self.g.env["SANDGATE_ADMIN_TOKEN"]
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def pending(self, *words):
        return json.loads(self.g.cli("approvals", "list", "--json", *words, check=True).stdout)["approvals"]

    def one(self):
        return wait_for(self.pending)[0]

    def states(self):
        return {a["id"]: a["state"] for a in self.pending("--all")}


@pytest.fixture
def world(gate, tmp_path_factory):
    made = []

    def make(**more):
        folder = tmp_path_factory.mktemp("world")
        for parent in (folder, *list(folder.parents)[:2]):
            parent.chmod(0o755)
        made.append(World(gate, folder, **more))
        return made[-1]
    yield make
    for w in made:
        w.close()


def ended(process):
    out, err = process.communicate(timeout=40)
    return out + err


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_a_request_to_a_connector_waits_until_it_is_allowed(world, version):
    w = world()
    call = w.pay("/api/pay?to=me", version)
    one = w.one()
    assert (one["user"], one["sandbox"], one["what"]) == ("alice", "demo", "request")
    assert one["text"] == f"POST bank {HOST}:443/api/pay?to=me"
    assert w.system.requests == [] and call.poll() is None
    assert "approval_of_own" in w.says("alice", "allow", one["id"], code=1)
    w.says("bob", "allow", one["id"])
    said = ended(call)
    assert " 200" in said and "paid" in said
    assert [r.headers["authorization"] for r in w.system.requests] == [f"Bearer {SECRET}"]
    row, = w.g.wait_rows(1, kind="request")
    assert row["detail"] == f'approval {one["id"]} allowed by bob' and row["connector"] == "bank"
    again = w.pay()
    w.says("bob", "deny", w.one()["id"])
    assert "approval_denied" in ended(again)
    assert len(w.system.requests) == 1
    assert [r["code"] for r in w.g.wait_rows(4, kind="approval")] == ["again", "ok", "again", "approval_denied"]


def test_what_the_connector_does_not_allow_asks_nobody(world):
    w = world()
    assert "denied_path" in ended(w.pay("/admin"))
    assert w.pending("--all") == []


def test_nobody_s_answer_is_a_no_and_who_hangs_up_waits_no_more(world):
    w = world(timeout="3s")
    assert "approval_expired" in ended(w.pay())
    call = w.pay()
    one = w.one()
    call.kill()
    call.communicate()
    wait_for(lambda: w.states()[one["id"]] == "cancelled")
    assert w.system.requests == []


def test_a_grant_lets_the_same_request_pass_and_no_other(world):
    w = world()
    call = w.pay()
    w.says("bob", "allow", w.one()["id"], "--scope", "always")
    assert "paid" in ended(call)
    assert "paid" in ended(w.pay())
    assert w.pending() == [] and len(w.states()) == 1
    other = w.pay("/api/pay?to=you")
    w.says("bob", "deny", w.one()["id"])
    assert "approval_denied" in ended(other)
    grant, = json.loads(w.g.cli("approvals", "grants", "--json", check=True).stdout)["grants"]
    w.says("bob", "revoke", grant["id"])
    call = w.pay()
    w.says("bob", "deny", w.one()["id"])
    assert "approval_denied" in ended(call)


def test_the_first_use_of_a_connector_is_asked_once_for_all_who_wait(world):
    w = world(approval="first")
    calls = [w.pay("/api/a"), w.pay("/api/b")]
    one = w.one()
    assert (one["what"], one["text"]) == ("connector", "bank")
    wait_for(lambda: [c.poll() for c in calls] == [None, None])
    w.says("bob", "allow", one["id"], "--scope", "always")
    assert all("paid" in ended(c) for c in calls)
    assert "paid" in ended(w.pay("/api/c"))
    assert len(w.states()) == 1


def test_a_tunnel_to_a_new_host_waits_before_anything_is_dialled(world):
    w = world()
    s = w.connect()
    one = w.one()
    assert (one["what"], one["text"]) == ("host", f"{NEW}:{w.echo.port}")
    assert w.echo.seen == 0
    w.says("bob", "deny", one["id"])
    assert b"approval_denied" in s.recv(65536)
    s.close()
    s = w.connect()
    one = w.one()
    s.close()
    wait_for(lambda: w.states()[one["id"]] == "cancelled")
    assert w.echo.seen == 0
    s = w.connect()
    w.says("bob", "allow", w.one()["id"], "--scope", "always")
    assert s.recv(65536).startswith(b"HTTP/1.1 200")
    s.sendall(b"\x00hello")
    assert s.recv(65536) == b"\x00hello"
    s.close()
    s = w.connect()
    assert s.recv(65536).startswith(b"HTTP/1.1 200") and w.pending() == []
    s.close()
    assert w.g.wait_rows(1, kind="tunnel_start")[0]["detail"].startswith("tcp; approval ")


def test_plain_requests_to_a_new_host_wait_too(world):
    w = world()
    call = w.start(f"http://{PLAIN}:{w.echo.port}/")
    one = w.one()
    assert (one["what"], one["text"]) == ("host", f"{PLAIN}:{w.echo.port}") and w.echo.seen == 0
    w.says("bob", "allow", one["id"], "--scope", "session")
    assert "plain" in ended(call)
    assert "plain" in ended(w.start(f"http://{PLAIN}:{w.echo.port}/x"))


def test_a_reload_while_it_waits_takes_the_permission_away(world):
    w = world()
    s = w.connect()
    call = w.pay()
    wait_for(lambda: len(w.pending()) == 2)
    w.config["policies"] = {"coding": {"allow": []}}
    w.config["connectors"] = []
    w.g.reload(w.config)
    for one in w.pending():
        w.says("bob", "allow", one["id"])
    assert " 403" in ended(call) and w.system.requests == []
    assert not s.recv(65536).startswith(b"HTTP/1.1 200")
    s.close()
    assert w.echo.seen == 0


def test_explain_says_that_a_person_is_asked(world):
    w = world()
    said = w.g.cli("explain", "--sandbox", "demo", f"https://{HOST}/api/x").stdout
    assert "a person is asked before each request" in said
    said = w.g.cli("explain", "--sandbox", "demo", f"{NEW}:{w.echo.port}").stdout
    assert "a person is asked before it is used" in said
