"""`sandgate connectors test`: would a connector work?  Told without its secret."""
import http.server
import json
import ssl
import threading

import pytest

from certificates import make_ca, make_leaf
from conftest import wait_for

HOST, ADDRESS, SECRET = "tracker.example.test", "127.0.0.14", "canary-7b2e9d40c1"


class System(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, context):
        system = self
        self.asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                system.asked.append(form)
                fine = SECRET in form or SECRET in self.headers.get("Authorization", "")
                body = json.dumps({"access_token": "token-" + SECRET, "token_type": "Bearer", "expires_in": 600}
                                  if fine else {"error": "invalid_client"}).encode()
                self.send_response(200 if fine else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        super().__init__((ADDRESS, 0), Handler)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass


class World:
    def __init__(self, gate, folder):
        self.ca, other = make_ca(folder / "ca"), make_ca(folder / "other", "Other CA")
        self.good, self.bad = self.serve(self.ca, HOST), self.serve(other, HOST)
        self.wrong = self.serve(self.ca, "other.example.test")
        self.clients = make_ca(folder / "clients", "Client CA")
        self.strict = self.serve(self.ca, HOST, self.clients)
        bearer = {"kind": "bearer", "secret": "tracker/token"}
        oauth = {"kind": "oauth2_client_credentials", "secret": "tracker/client", "client_id": "me",
                 "style": "post", "token_url": f"https://{HOST}:{self.good.port}/token"}
        names = [("fine", self.good, bearer), ("untrusted", self.bad, bearer), ("misnamed", self.wrong, bearer),
                 ("token", self.good, oauth), ("delegated", self.good, {**bearer, "secret": "users/{user}/tracker"}),
                 ("open", self.good, {"kind": "passthrough"}),
                 ("mutual", self.strict, {"kind": "mtls", "secret": "tracker/pair"})]
        self.g = gate({
            "upstream_tls": {"ca_file": str(self.ca.file)},
            "resolver": {"servers": ["127.0.0.1"], "hosts": {HOST: [ADDRESS]}},
            "policies": {"coding": {"allow": [], "connectors": [n for n, _, _ in names]}},
            "connectors": [{"name": name, "hosts": [f"{name}.example.test"], "addresses": ["127.0.0.0/8"], "auth": auth,
                            "upstream": f"https://{HOST}:{system.port}", "group": "red" if name == "open" else "blue",
                            "allow": [{"paths": ["/**"]}]} for name, system, auth in names]})

    @staticmethod
    def serve(ca, name, clients=None):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*make_leaf(ca, name))
        if clients:  # under 1.2 it says so within the handshake
            context.verify_mode, context.maximum_version = ssl.CERT_REQUIRED, ssl.TLSVersion.TLSv1_2
            context.load_verify_locations(clients.file)
        return System(context)

    def put(self, name, value=SECRET, *args):
        done = self.g.cli("vault", "put", name, "--expires", "90d", *args, input=value)
        assert done.returncode == 0, done.stderr

    def test(self, name):
        done = self.g.cli("connectors", "test", name, "--json")
        return done.returncode, json.loads(done.stdout or "null"), done.stderr


@pytest.fixture
def world(gate, tmp_path):
    w = World(gate, tmp_path)
    yield w
    for system in (w.good, w.bad, w.wrong, w.strict):
        system.shutdown()


def test_all_is_well(world):
    world.put("tracker/token")
    code, said, _ = world.test("fine")
    assert code == 0 and said["ok"] is True
    assert (said["secret"], said["version"], said["upstream"]) == ("ok", 1, "ok")
    assert said["expires"] > 0 and said["host"] == f"{HOST}:{world.good.port}"
    text = world.g.cli("connectors", "test", "fine").stdout
    assert "expires    20" in text and "upstream   ok" in text
    assert SECRET not in text + json.dumps(said)


def test_what_is_wrong_is_told_step_by_step(world):
    code, said, _ = world.test("fine")
    assert (code, said["secret"], said["upstream"], said["code"]) == (1, "no_secret", "ok", "no_secret")
    world.put("tracker/token")
    code, said, _ = world.test("untrusted")
    assert (code, said["secret"], said["upstream"]) == (1, "ok", "upstream_untrusted")
    code, said, _ = world.test("misnamed")
    assert (code, said["upstream"]) == (1, "upstream_wrong_name")
    code, _, said = world.test("nobody")
    assert code == 1 and "not_found" in said and "no connector `nobody`" in said


def test_a_token_is_got_and_not_shown(world):
    world.put("tracker/client", "wrong")
    code, said, _ = world.test("token")
    assert (code, said["secret"], said["token"]) == (1, "ok", "token_failed")
    world.g.cli("vault", "rotate", "tracker/client", input=SECRET, check=True)
    wait_for(lambda: world.test("token")[0] == 0, 15, 0.5)
    code, said, _ = world.test("token")
    assert (said["token"], said["version"]) == ("ok", 2) and SECRET not in json.dumps(said)


def test_what_has_no_secret_of_its_own_is_tested_by_its_system(world):
    code, said, _ = world.test("delegated")
    assert (code, said["secret"], said["upstream"]) == (0, "of_each_user", "ok")
    code, said, _ = world.test("open")
    assert (code, "secret" in said, said["upstream"]) == (0, False, "ok")
    rows = world.g.wait_rows(4, kind="operator")
    assert {r["detail"] for r in rows} == {"connectors/test delegated", "connectors/test open"}


def test_a_client_certificate_is_shown_and_whether_it_was_is_told(world, tmp_path):
    code, said, _ = world.test("mutual")
    assert (code, said["secret"], said["certificate"], said["code"]) == (1, "no_secret", "not_shown", "no_secret")
    for ca, fine in ((make_ca(tmp_path / "stranger", "Stranger"), False), (world.clients, True)):
        cert, key = make_leaf(ca, "gateway", client=True)
        world.put("tracker/pair", cert.read_text() + key.read_text(), "--pem")
        code, said, _ = world.test("mutual")
        assert (code == 0, said["upstream"] == "ok", said["secret"], said["certificate"]) == (fine, fine, "ok", "shown")
        assert "PRIVATE" not in json.dumps(said)
        world.g.cli("vault", "rm", "tracker/pair", check=True)
    assert "client     not_shown\n" in world.g.cli("connectors", "test", "mutual").stdout
