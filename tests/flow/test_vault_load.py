"""What operators do to the vault and the CA while sandboxes call a company system: no request
fails, and the newest credential is the one that goes along."""
import http.client
import http.server
import os
import signal
import socket
import ssl
import threading
import time

import pytest

from certificates import make_ca, make_leaf
from conftest import wait_for

HOST, ADDRESS = "tracker.example.test", "127.0.0.14"
CLIENTS = 4


class System(http.server.ThreadingHTTPServer):
    """Answers whoever shows one of its tokens."""
    daemon_threads = True

    def __init__(self, folder, *tokens):
        system = self
        self.tokens, self.seen = {f"Bearer {t}" for t in tokens}, {}

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self):
                shown = self.headers.get("Authorization")
                system.seen[shown] = system.seen.get(shown, 0) + 1
                body = b"data"
                self.send_response(200 if shown in system.tokens else 401)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        super().__init__((ADDRESS, 0), Handler)
        self.ca = make_ca(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*make_leaf(self.ca, HOST))
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass


class Client(threading.Thread):
    """Calls on and on, every ten times over a new connection; trusts what it trusted at first."""

    def __init__(self, g, system, pem):
        super().__init__(daemon=True)
        self.proxy, self.port, self.done, self.failed, self.stop = g.proxy, system.port, 0, [], False
        self.context = ssl.create_default_context(cadata=pem)

    def connect(self):
        link = http.client.HTTPSConnection(*self.proxy, timeout=20, context=self.context)
        link.set_tunnel(HOST, self.port)
        return link

    def run(self):
        link = None
        while not self.stop:
            if link is None or self.done % 10 == 0:
                link = self.connect()
            try:
                link.request("GET", "/api/x")
                answer = link.getresponse()
                said = answer.status, answer.read()
                if said != (200, b"data"):
                    self.failed.append(said)
            except OSError as e:
                self.failed.append(repr(e))
                link = None
            self.done += 1
            time.sleep(0.002)


class Load:
    def __init__(self, gate, folder):
        self.system = System(folder, "one", "two", "three")
        self.g = gate({
            "upstream_tls": {"ca_file": str(self.system.ca.file)},
            "resolver": {"servers": ["127.0.0.1"], "hosts": {HOST: [ADDRESS]}},
            "sandboxes": [{"id": "demo", "source": "127.0.0.1", "policy": "coding", "trusts_ca": True}],
            "policies": {"coding": {"allow": [], "connectors": ["tracker"]}},
            "connectors": [{"name": "tracker", "hosts": [HOST], "ports": [self.system.port],
                            "addresses": ["127.0.0.0/8"], "auth": {"kind": "bearer", "secret": "tracker/token"},
                            "allow": [{"methods": ["GET"], "paths": ["/api/**"]}]}]})
        self.vault("put", "tracker/token", value="one")
        pem = self.g.cli("ca", "export", check=True).stdout
        self.clients = [Client(self.g, self.system, pem) for _ in range(CLIENTS)]
        for c in self.clients:
            c.start()
        self.settle()

    def vault(self, *words, value=None):
        done = self.g.cli("vault", *words, input=value)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def settle(self, n=15):
        """Each client has called a few times more, so over a new connection too."""
        before = [c.done for c in self.clients]
        wait_for(lambda: all(c.done >= b + n for c, b in zip(self.clients, before)), 60)

    def end(self):
        for c in self.clients:
            c.stop = True
        for c in self.clients:
            c.join(30)
        self.system.shutdown()
        return [f for c in self.clients for f in c.failed]


@pytest.fixture
def load(gate, tmp_path):
    one = Load(gate, tmp_path / "company")
    yield one
    one.end()


def test_the_vaults_commands_cost_no_request(load):
    for words, value in ((["put", "other"], "x"), (["list"], None), (["rotate", "tracker/token", "--grace", "1h"], "two"),
                         (["rm", "other"], None), (["grant", "tracker/token", "--connector", "tracker"], None),
                         (["rekey", "--passphrase"], "correct horse"), (["unseal"], "correct horse"),
                         (["rekey", "--key", "file"], None), (["status"], None),
                         (["rotate", "tracker/token"], "three")):
        if words[0] == "unseal":
            assert load.g.cli("vault", *words, input=value).returncode in (0, 1)  # it is open: nothing to do
        else:
            load.vault(*words, value=value)
        load.settle()
    assert load.end() == []
    before = dict(load.system.seen)
    assert set(before) == {"Bearer one", "Bearer two", "Bearer three"}


def test_what_was_rotated_goes_along_within_a_moment(load):
    load.vault("rotate", "tracker/token", "--grace", "1h", value="two")
    time.sleep(0.3)  # requests that were under way
    used = load.system.seen["Bearer one"]
    load.settle()
    assert load.system.seen["Bearer one"] == used and load.end() == []


def test_the_ca_is_rotated_under_those_who_trust_the_one_before(load):
    load.g.cli("ca", "rotate", "--grace", "1d", check=True)
    load.settle(25)
    load.g.cli("ca", "export", check=True)
    load.settle()
    assert load.end() == []


def test_a_reload_costs_no_request(load):
    for _ in range(3):
        assert load.g.admin("POST", "/v1/reload")[0] == 200
        load.settle()
    assert load.end() == []


def test_the_keepers_death_is_over_in_a_moment(load):
    os.kill(load.g.pids()["keeper"], signal.SIGKILL)
    wait_for(lambda: load.g.pids().get("keeper"))
    time.sleep(0.5)
    for c in load.clients:
        c.failed.clear()  # while it was away nothing was leased
    load.settle(25)
    assert load.end() == []
