"""A company of many systems behind one gateway, each called by its usual client without a credential:
one connector of each kind, h2 and http/1.1 at the company's end."""
import hashlib
import json
import os
import secrets
import subprocess

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

import company_systems as systems
from certificates import let_read, make_ca, make_leaf
from company import ADDRESS, Company, System
from conftest import Gate

ALL = [{"paths": ["/**"]}]


def pem(key):
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                             serialization.NoEncryption()).decode()


class World:
    def __init__(self, folder, protocols):
        let_read(folder)
        self.folder, self.secret = folder, secrets.token_hex(16)
        self.firm, self.key = Company(folder / "ca", protocols=protocols), rsa.generate_private_key(65537, 2048)
        self.clients = make_ca(folder / "clients")
        self.guarded = Company(folder / "guarded", protocols=protocols, clients=self.clients)
        self.connectors, self.values = [], {}
        self.build()
        roots = folder / "roots.pem"
        roots.write_text(self.firm.ca.file.read_text() + self.guarded.ca.file.read_text())
        names = [*self.firm.systems, *self.guarded.systems]
        self.gate = Gate({
            "upstream_tls": {"ca_file": str(roots)},
            "resolver": {"servers": ["127.0.0.1"], "timeout": "200ms", "tries": 1, "hosts": {n: [ADDRESS] for n in names}},
            "sandboxes": [{"id": "demo", "source": "127.0.0.1", "user": "alice", "policy": "coding", "trusts_ca": True}],
            "connectors": self.connectors,
            "policies": {"coding": {"connectors": [c["name"] for c in self.connectors], "allow": [
                {"hosts": ["blobs.example.test"], "ports": [self.firm.port], "methods": ["GET"], "addresses": ["127.0.0.0/8"]}]}},
        }).start()
        for name, value in self.values.items():
            words = ["--pem"] if "\n" in value else []
            done = self.gate.cli("vault", "put", name, *words, "--connector", name.split("/")[0], input=value)
            assert done.returncode == 0, done.stderr
        self.ca = folder / "gateway.pem"
        self.ca.write_text(self.gate.cli("ca", "export").stdout)

    def connector(self, name, system, auth, value=None, firm=None, allow=ALL, **more):
        firm = firm or self.firm
        if auth["kind"] != "passthrough":
            auth = {"secret": f"{name}/secret", **auth}
            self.values[f"{name}/secret"] = value or self.secret
        host = f"{name}.example.test"
        self.connectors.append({"name": name, "hosts": [host], "ports": [firm.port], "addresses": ["127.0.0.0/8"],
                                "auth": auth, "allow": allow, **more})
        return firm.add(host, system)

    def build(self):
        s = self.secret
        self.connector("bearer", System(systems.bearer(s)), {"kind": "bearer", "placeholder": "tok_" + 28 * "*"})
        self.connector("basic", System(systems.basic("agents", s)), {"kind": "basic", "user": "agents"})
        self.connector("field", System(systems.field("X-Api-Key", s)), {"kind": "header", "name": "X-Api-Key"})
        self.connector("query", System(systems.parameter("key", s)), {"kind": "query", "name": "key"})
        self.connector("path", System(systems.in_path("/bot", s)), {"kind": "path", "prefix": "/bot"})
        self.connector("form", System(systems.in_form("pass", s)), {"kind": "form", "name": "pass"})
        self.tokens = self.firm.add("login.example.test", systems.Tokens(public_key=self.key.public_key()))
        url = f"https://login.example.test:{self.firm.port}"
        self.connector("crm", System(self.tokens.check_bearer), {"kind": "oauth2_client_credentials",
                       "token_url": url + "/token", "client_id": "agents"}, self.tokens.client_secret)
        self.connector("mail", System(self.tokens.check_bearer), {"kind": "oauth2_refresh",
                       "token_url": url + "/token", "client_id": "agents"}, self.tokens.refresh)
        self.connector("storage", System(self.tokens.check_bearer), {"kind": "jwt_bearer", "issuer": "agents@example.test",
                       "token_url": url + "/token", "audience": url}, pem(self.key))
        self.connector("app", System(self.tokens.check_bearer), {"kind": "jwt_bearer", "issuer": "100", "exchange": "github_app",
                       "token_url": url + "/app/installations/7/access_tokens"}, pem(self.key))
        self.s3 = systems.S3()
        self.connector("bucket", self.s3, {"kind": "sigv4", "region": "eu-west-1", "service": "s3"}, f"{self.s3.id}:{self.s3.secret}")
        self.connector("git", systems.Git(self.folder / "git", systems.basic("agents", s)), {"kind": "basic", "user": "agents"})
        self.connector("grpc", systems.Grpc(systems.bearer(s)), {"kind": "bearer"})
        store = self.firm.add("blobs.example.test", systems.Blobs({}))
        registry = systems.Registry(self.tokens, url + "/token", f"https://blobs.example.test:{self.firm.port}")
        self.connector("registry", registry, {"kind": "oauth2_client_credentials", "token_url": url + "/token",
                                              "client_id": "agents", "placeholder": "pull_" + 24 * "*"}, self.tokens.client_secret)
        store.content, self.registry = registry.content, registry
        cert, key = make_leaf(self.clients, "agents", client=True)
        self.connector("parts", System(systems.client_certificate), {"kind": "mtls"}, key.read_text() + cert.read_text(),
                       firm=self.guarded)

    def run(self, *words, **kw):
        proxy = "http://%s:%d" % self.gate.proxy
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "https_proxy": proxy, "GIT_TERMINAL_PROMPT": "0"}
        return subprocess.run(list(map(str, words)), capture_output=True, env=env, timeout=120, **kw)

    def url(self, name, path=""):
        return f"https://{name}.example.test:{(self.guarded if name == 'parts' else self.firm).port}{path}"

    def curl(self, name, path, *words, **kw):
        """(status, body)"""
        done = self.run("curl", "-sS", "-m", "20", "-w", "\n%{http_code}", "--cacert", self.ca, *words, self.url(name, path), **kw)
        assert done.returncode == 0, (done.stderr, self.gate.text_of_log()[-1500:])
        body, _, status = done.stdout.rpartition(b"\n")
        return int(status), body

    def close(self):
        self.gate.close()
        self.firm.close()
        self.guarded.close()
        assert not self.firm.errors and not self.guarded.errors


@pytest.fixture(scope="module", params=["h2", "http/1.1"])
def world(request, tmp_path_factory):
    made = World(tmp_path_factory.mktemp("systems"), [request.param])
    yield made
    made.close()


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
@pytest.mark.parametrize("name, path, words", [
    ("bearer", "/a", []), ("basic", "/a", []), ("field", "/a", []), ("query", "/a?b=1", []), ("query", "/a", []),
    ("path", "/botx/send", []), ("form", "/a", ["-d", "user=x&pass=none"]), ("crm", "/a", []), ("mail", "/a", []),
    ("storage", "/a", []), ("app", "/a", []), ("bucket", "/b/", []), ("parts", "/a", []),
])
def test_each_kind_is_taken_by_its_system(world, name, path, words, version):
    status, body = world.curl(name, path, version, *words)
    system = (world.guarded if name == "parts" else world.firm).at(f"{name}.example.test")
    assert status == 200, (body, system.seen[-1].refused if system.seen else None)
    assert world.secret.encode() not in body


@pytest.mark.parametrize("name, path, own", [
    ("bearer", "/a", ["-H", "Authorization: Bearer mine", "-H", "X-Api-Key: mine"]), ("basic", "/a", ["-u", "me:mine"]),
    ("field", "/a", ["-H", "x_api_key: mine", "-H", "X-API-KEY: mine", "-H", "Authorization: Bearer mine"]),
    ("bucket", "/b/", ["-H", "Authorization: Bearer mine", "-H", "X-Amz-Security-Token: mine"]), ("query", "/a?key=mine&k%65y=mine&key", []),
    ("form", "/a", ["-d", "pass=mine&p%61ss=mine"]), ("bucket", "/b/", ["-u", "me:mine"]),
])
def test_the_clients_own_never_arrives(world, name, path, own):
    status, body = world.curl(name, path, *own)
    seen = world.firm.at(f"{name}.example.test").seen[-1]
    assert status == 200, (body, seen.refused, seen.fields)
    assert "mine" not in (seen.one("authorization") or "") and b"mine" not in seen.read() and "mine" not in seen.query


def test_a_token_serves_many_and_one_that_was_refused_is_got_anew(world):
    given = world.tokens.given
    for _ in range(5):
        assert world.curl("crm", "/a")[0] == 200
    assert world.tokens.given <= given + 1
    world.tokens.valid.clear()
    assert world.curl("crm", "/a")[0] == 200
    old = world.tokens.refresh
    world.tokens.valid.clear()
    assert world.curl("mail", "/a")[0] == 200
    assert world.tokens.refresh != old
    world.tokens.valid.clear()
    assert world.curl("mail", "/a")[0] == 200


def test_objects_of_a_bucket_are_put_and_got(world):
    data = os.urandom(3_000_000)
    file = world.folder / "data"
    file.write_bytes(data)
    assert world.curl("bucket", "/b/agents/k%20one+two", "-T", file)[0] == 200
    assert world.s3.objects["b", "agents/k one+two"] == data
    status, body = world.curl("bucket", "/b/agents/k%20one+two")
    assert status == 200 and hashlib.sha256(body).digest() == hashlib.sha256(data).digest()
    assert b"k one+two" in world.curl("bucket", "/b/?list-type=2&prefix=agents%2Fk")[1]


def test_git_clones_and_pushes_without_a_password(world, tmp_path):
    name = secrets.token_hex(4)
    bare = world.folder / f"git/{name}.git"
    subprocess.run(["git", "init", "-q", "--bare", bare], check=True)
    subprocess.run(["git", "-C", bare, "config", "http.receivepack", "true"], check=True)

    def git(*words, cwd=tmp_path):
        done = world.run("git", "-c", f"http.sslCAInfo={world.ca}", "-c", "user.name=x", "-c", "user.email=x@x", *words, cwd=cwd)
        assert done.returncode == 0, done.stderr

    git("clone", "-q", world.url("git", f"/{name}.git"), "one")
    (tmp_path / "one/file").write_bytes(os.urandom(2_000_000))
    git("add", "file", cwd=tmp_path / "one")
    git("commit", "-qm", "first", cwd=tmp_path / "one")
    git("push", "-q", "origin", "HEAD:main", cwd=tmp_path / "one")
    git("clone", "-q", "-b", "main", world.url("git", f"/{name}.git"), "two")
    assert (tmp_path / "two/file").read_bytes() == (tmp_path / "one/file").read_bytes()


def test_a_redirect_goes_to_the_client_and_takes_no_credential_along(world):
    digest = json.loads(world.registry.manifest)["layers"][0]["digest"]
    status, body = world.curl("registry", f"/v2/app/blobs/{digest}", "-L")
    assert status == 200 and "sha256:" + hashlib.sha256(body).hexdigest() == digest
    blobs = world.firm.at("blobs.example.test").seen
    assert blobs and not blobs[-1].refused
    page = world.run("curl", "-sS", "--proxy", "http://%s:%d" % world.gate.proxy, "http://sandgate.internal/credentials").stdout
    mine = {p["connector"]: p["placeholder"] for p in json.loads(page)["placeholders"]}
    before = len(blobs)
    status, body = world.curl("registry", f"/v2/app/blobs/{digest}", "--location-trusted", "-H",
                              f"Authorization: Bearer {mine['registry']}")
    assert status == 403 and b"placeholder_misplaced" in body and len(blobs) == before
    status, body = world.curl("bearer", "/a", "-H", f"Authorization: Bearer {mine['registry']}")
    assert status == 403 and b"placeholder_misplaced" in body


@pytest.mark.parametrize("kind", ["Both", "Up", "Down"])
def test_grpc_messages_pass(world, kind):
    messages = [b"hello", b" you"]
    want = {"Both": messages, "Up": [b"hello you"], "Down": [b"%d %s" % (i, m) for m in messages for i in range(5)]}[kind]
    done = world.run("curl", "-sS", "-m", "20", "--http2", "--cacert", world.ca, "-H", "content-type: application/grpc", "-H",
                     "te: trailers", "--data-binary", "@-", world.url("grpc", f"/company.Echo/{kind}"),
                     input=b"".join(map(systems.Grpc.framed, messages)))
    assert (done.returncode, done.stdout) == (0, b"".join(map(systems.Grpc.framed, want))), done.stderr
