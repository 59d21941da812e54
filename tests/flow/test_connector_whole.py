"""A whole gateway before one company system: what a sandbox sees of it, and of its
credential, also while things change."""
import os
import socket
import ssl
import subprocess
import threading
import time

import pytest

from certificates import make_ca, make_leaf
from conftest import wait_for
from connector_line import System, reply
from taken import copy_of, line_to, lines_between
from websocket_line import switch

HOST = "tracker.example.test"
SECRET = "s3cr3t-of-the-company"


def echo(r):
    if r.headers.get("upgrade") == "websocket":
        return websocket(r)
    return reply(200, "\n".join("%s: %s" % h for h in r.all).encode() + b"\n\n" + r.body,
                 [("X-Echo", r.headers.get("authorization", ""))])


def websocket(r):
    """Shows the credential, then echoes what comes."""
    r.socket.sendall(switch(r.headers["sec-websocket-key"]))
    r.socket.sendall(r.headers["authorization"].encode())
    while True:
        data = r.socket.recv(65536)
        if not data:
            return None
        r.socket.sendall(data)


class Whole:
    def __init__(self, gate, folder):
        self.folder = folder
        ca = make_ca(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*make_leaf(ca, HOST))
        context.set_alpn_protocols(["http/1.1"])
        self.system = System(context, echo)
        self.config = {
            "upstream_tls": {"ca_file": str(ca.file)},
            "resolver": {"servers": ["127.0.0.1"], "hosts": {HOST: ["127.0.0.1"]}},
            "sandboxes": [{"id": "demo", "source": "127.0.0.1", "user": "alice", "policy": "coding", "trusts_ca": True}],
            "policies": {"coding": {"connectors": ["tracker"]}},
            "connectors": [{"name": "tracker", "hosts": [HOST], "addresses": ["127.0.0.0/8"],
                            "upstream": "https://%s:%d" % (HOST, self.system.port),
                            "auth": {"kind": "bearer", "secret": "tracker/token"},
                            "allow": [{"methods": ["GET", "POST"], "paths": ["/api/**"]}]}]}
        self.g = gate(self.config)
        self.put(SECRET)
        self.ca = folder / "gateway.pem"
        self.ca.write_text(self.g.cli("ca", "export", check=True).stdout)

    def put(self, value, command="put"):
        self.g.cli("vault", command, "tracker/token", input=value, check=True)

    def curl(self, path, *args):
        return subprocess.run(["curl", "-sS", "-i", "-m", "10", "-x", "http://%s:%d" % self.g.proxy, "--cacert", self.ca,
                               "https://%s%s" % (HOST, path), *args], capture_output=True, text=True, timeout=60)

    def seen(self):
        return [r.headers.get("authorization") for r in self.system.requests]

    def connect(self):
        """TLS to the company system as a client in the sandbox sees it."""
        s = socket.create_connection(self.g.proxy, timeout=10)
        s.sendall(("CONNECT %s:443 HTTP/1.1\r\nHost: %s:443\r\n\r\n" % (HOST, HOST)).encode())
        assert s.recv(65536).startswith(b"HTTP/1.1 200")
        return ssl.create_default_context(cafile=self.ca).wrap_socket(s, server_hostname=HOST)


@pytest.fixture
def whole(gate, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    for parent in (folder, *list(folder.parents)[:2]):
        parent.chmod(0o755)
    w = Whole(gate, folder)
    yield w
    w.system.close()


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_a_client_without_a_credential_gets_its_data(whole, version):
    r = whole.curl("/api/x", version, "-H", "Authorization: Bearer mine")
    assert r.returncode == 0 and " 200" in r.stdout, r
    assert whole.seen() == ["Bearer " + SECRET]
    assert SECRET not in r.stdout and "Bearer mine" not in r.stdout
    assert "sandgate-" not in r.stdout.lower()
    big = "x" * 300000
    (whole.folder / "body").write_text(big)
    r = whole.curl("/api/x", version, "--data-binary", "@%s" % (whole.folder / "body"))
    assert r.stdout.endswith(big)


def test_what_the_connector_does_not_allow_is_denied(whole):
    for path, args, code in (("/admin", (), "denied_path"), ("/api/x", ("-X", "DELETE"), "denied_method")):
        r = whole.curl(path, *args)
        assert " 403" in r.stdout and code in r.stdout, r
    assert whole.system.requests == []
    assert {r["connector"] for r in whole.g.wait_rows(2, kind="deny")} == {"tracker"}
    learned = whole.g.cli("learn", "--sandbox", "demo").stdout
    assert '"tracker": GET "%s:443" "/admin" denied_path' % HOST in learned
    assert "hosts:" not in learned and 'connectors: ["tracker"]' in learned


def test_rows_tell_the_connector_the_version_and_what_was_scrubbed(whole):
    whole.curl("/api/x")
    row = wait_for(lambda: whole.g.rows(kind="response"))[0]
    assert (row["connector"], row["secret_version"]) == ("tracker", 1) and row["scrubbed"] >= 2
    row, = whole.g.wait_rows(kind="credential")  # from another ring
    assert (row["connector"], row["secret_version"], row["sandbox"]) == ("tracker", 1, "demo")
    assert SECRET not in str(whole.g.rows())


@pytest.mark.parametrize("names", [["tracker"], ["other"]])
def test_the_end_of_a_request_names_its_connector_whatever_the_policy_has_become(whole, names):
    go_on = threading.Event()
    whole.system.serve = lambda r: go_on.wait(10) and reply()
    asking = threading.Thread(target=whole.curl, args=("/api/x",))
    asking.start()
    wait_for(lambda: whole.system.requests)
    connectors = [{**whole.config["connectors"][0], "name": n, "auth": {"kind": "bearer", "secret": n + "/token"}}
                  for n in ["first", *names]]
    connectors[0].update(hosts=["first.example.test"], upstream="https://first.example.test")  # the numbers differ, too
    for n in {"first", *names} - {"tracker"}:
        whole.g.cli("vault", "put", n + "/token", "--connector", n, input="x", check=True)
    code, body = whole.g.reload({**whole.config, "connectors": connectors,
                                 "policies": {"coding": {"connectors": ["first", *names]}}})
    assert code == 200, body
    go_on.set()
    asking.join()
    row, = whole.g.wait_rows(kind="response")
    assert row["connector"] == "tracker"


class Load:
    """Requests one after the other from three clients while its body runs; none may fail."""

    def __init__(self, whole):
        self.whole, self.over, self.bad = whole, threading.Event(), []
        self.threads = [threading.Thread(target=self.ask) for _ in range(3)]

    def ask(self):
        while not self.over.is_set():
            r = self.whole.curl("/api/x")
            if " 200" not in r.stdout:
                self.bad.append(r)

    def __enter__(self):
        for t in self.threads:
            t.start()

    def __exit__(self, *args):
        self.over.set()
        for t in self.threads:
            t.join()
        assert not self.bad


def test_a_rotation_fails_no_request(whole):
    with Load(whole):
        for i in range(3):
            time.sleep(0.5)
            whole.put("rotated-secret-%d" % i, "rotate")
        time.sleep(1.5)
    assert {"Bearer " + SECRET, "Bearer rotated-secret-2"} <= set(whole.seen())
    assert whole.seen()[-1] == "Bearer rotated-secret-2"


def test_a_secret_that_is_taken_away_is_used_no_more(whole):
    assert " 200" in whole.curl("/api/x").stdout
    whole.g.cli("vault", "rm", "tracker/token", check=True)
    time.sleep(1.1)
    r = whole.curl("/api/x")
    assert " 503" in r.stdout and "no_secret" in r.stdout, r


@pytest.mark.skipif(os.getuid() != 0, reason="takes a socket out of another process")
def test_a_line_that_ends_while_both_of_its_ends_live_is_replaced(whole):
    assert " 200" in whole.curl("/api/x").stdout
    before = whole.g.pids()
    worker, connector = before["worker.0"], before["connector.0"]

    def given():
        return whole.g.text_of_log().count("worker.0: a new line to connector.0")

    with Load(whole):
        for _ in range(3):
            time.sleep(0.3)
            said = given()
            with copy_of(worker, line_to(worker, connector)) as line:
                line.shutdown(socket.SHUT_RDWR)
            wait_for(lambda: given() > said)
    assert whole.g.pids() == before
    wait_for(lambda: len(lines_between(worker, connector)) == 1)  # whatever was asked for twice


def test_a_request_that_a_connector_dies_before_waits_for_the_next(whole):
    assert " 200" in whole.curl("/api/x").stdout
    subprocess.run(["kill", "-9", str(whole.g.pids()["connector.0"])], check=True)
    assert " 200" in whole.curl("/api/x").stdout


def test_processes_that_die_are_back_in_a_moment(whole):
    assert " 200" in whole.curl("/api/x").stdout
    for name in ("connector.0", "keeper", "dialer"):
        subprocess.run(["kill", "-9", str(whole.g.pids()[name])], check=True)
        wait_for(lambda: " 200" in whole.curl("/api/x").stdout)


def test_a_websocket_passes_with_its_credential(whole):
    with whole.connect() as s:
        s.sendall(("GET /api/ws HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                   "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" % HOST).encode())
        got = b""
        while b"\r\n\r\n" not in got:
            got += s.recv(65536)
        head, got = got.split(b"\r\n\r\n", 1)
        assert head.startswith(b"HTTP/1.1 101") and b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head
        n = len("Bearer ") + len(SECRET) + len("hello")
        s.sendall(b"hello")
        while len(got) < n:
            got += s.recv(65536)
    assert got.startswith(b"Bearer ") and got.endswith(b"hello") and SECRET.encode() not in got
    assert whole.seen() == ["Bearer " + SECRET]
