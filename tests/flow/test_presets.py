"""Each preset of conf/connectors through a whole gateway, against a look-alike of its system.

Only where the system lies is changed in a preset: its host is at the company's address and
port.  The system says no to whoever shows anything but the right credential in the right place.
"""
import base64
import json
import os
import pathlib
import re
import secrets
import subprocess

import pytest

import company_systems as systems
from certificates import make_ca, make_leaf
from company import ADDRESS, Answer, Company, System
from conftest import Gate
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

USERS = {"127.0.0.1": "alice", "127.0.0.5": "bob", "127.0.0.6": None}
yaml = pytest.importorskip("yaml")
PRESETS = pathlib.Path(__file__).resolve().parents[2] / "conf/connectors"


class World:
    """A gateway with one preset, its company, and a sandbox with nothing but curl."""

    def __init__(self, folder, preset, clients=None):
        self.firm = Company(folder / "firm", clients=clients)
        self.folder, self.hosts = folder, {}
        found = yaml.safe_load((PRESETS / f"{preset}.yaml").read_text())
        self.connectors = found if isinstance(found, list) else [found]
        self.gate = Gate()
        for c in self.connectors:
            self.move(c)

    def move(self, c):
        upstream = c.get("upstream", f"https://{c['hosts'][0]}").split("//")[1].split(":")[0]
        c["upstream"], c["addresses"] = f"https://{upstream}:{self.firm.port}", ["127.0.0.0/8"]
        self.hosts.update({h: [ADDRESS] for h in (upstream, *c["hosts"])})
        if url := c["auth"].get("token_url"):
            host = re.match(r"https://([^/]+)", url)[1]
            c["auth"]["token_url"] = url.replace(host, f"{host}:{self.firm.port}", 1)
            self.hosts[host] = [ADDRESS]

    def start(self, **values):
        ca = self.gate.dir / "firm.pem"
        ca.write_bytes(self.firm.ca.file.read_bytes())
        ca.chmod(0o644)
        self.gate.write({"resolver": {"servers": ["127.0.0.1"], "timeout": "200ms", "tries": 1, "hosts": self.hosts},
                         "sandboxes": [{"id": u or "nobody", "source": a, "policy": "coding", **({"user": u} if u else {})}
                                       for a, u in USERS.items()],
                         "upstream_tls": {"ca_file": str(ca)}, "connectors": self.connectors,
                         "policies": {"coding": {"allow": [], "connectors": [c["name"] for c in self.connectors]}}})
        self.gate.start()
        (self.folder / "ca.pem").write_text(self.gate.cli("ca", "export", check=True).stdout)
        self.values = values
        for c in self.connectors:
            self.put(c)
        return self

    def put(self, c):
        name = c["auth"].get("secret", "").replace("{user}", "alice")
        if not name:
            return
        value = self.values[name]
        lines = ["--pem"] if "\n" in value else []
        done = self.gate.cli("vault", "put", name, "--connector", c["name"], *lines, input=value)
        if done.returncode != 0:
            done = self.gate.cli("vault", "grant", name, "--connector", c["name"])
        assert done.returncode == 0, done.stderr

    def curl(self, url, *words):
        """(status, headers and body)"""
        done = subprocess.run(["curl", "-sS", "-i", "--suppress-connect-headers", "--proxy", "http://%s:%d" % self.gate.proxy,
                               "--cacert", self.folder / "ca.pem", *words, url], capture_output=True, timeout=60)
        assert done.returncode == 0, (done.stderr, self.gate.text_of_log()[-2000:])
        for value in self.values.values():
            assert value.encode() not in done.stdout
        return int(done.stdout.split(None, 2)[1]), done.stdout

    def refused(self, url, *words):
        status, said = self.curl(url, *words)
        return status, json.loads(said.split(b"\r\n\r\n", 1)[1])["error"]["code"]

    def close(self):
        self.gate.close()
        self.firm.close()
        assert not self.firm.errors


@pytest.fixture
def world(tmp_path):
    made = []

    def make(preset, **kw):
        made.append(World(tmp_path, preset, **kw))
        return made[-1]

    yield make
    for one in made:
        one.close()


def secret():
    return "sec-" + secrets.token_urlsafe(24)


@pytest.fixture(scope="module")
def key():
    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return made.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                              serialization.NoEncryption()).decode()


# preset, host, how the system checks, the secret's name, an allowed call, a refused one and its code
PLAIN = [
    ("github", "api.github.com", systems.bearer, "github/token",
     ("GET", "/repos/acme/app"), ("GET", "/repos/acme/app/actions/secrets/public-key"), "denied_by_rule"),
    ("gitlab", "gitlab.example.test", lambda s: systems.field("private-token", s), "gitlab/token",
     ("GET", "/api/v4/projects/7"), ("DELETE", "/api/v4/projects/7"), "denied_method"),
    ("jira", "jira.example.test", lambda s: systems.basic(*s.split(":")), "users/alice/jira",
     ("PUT", "/rest/api/3/issue/AB-1"), ("GET", "/secure/admin"), "denied_path"),
    ("slack", "slack.com", systems.bearer, "slack/bot-token",
     ("POST", "/api/chat.postMessage"), ("POST", "/api/admin.users.remove"), "denied_path"),
    ("openai", "api.openai.com", systems.bearer, "openai/key",
     ("POST", "/v1/chat/completions"), ("GET", "/v1/files"), "denied_path"),
    ("anthropic", "api.anthropic.com", lambda s: systems.field("x-api-key", s), "anthropic/key",
     ("POST", "/v1/messages"), ("DELETE", "/v1/models/x"), "denied_method"),
    ("package-index", "packages.example.test", lambda s: systems.basic("reader", s), "packages/read",
     ("GET", "/pypi/simple/requests/"), ("DELETE", "/pypi/simple/requests/"), "denied_method"),
    ("grpc", "billing.internal.example.test", systems.bearer, "billing/token",
     ("POST", "/acme.billing.v1.Invoices/Get"), ("POST", "/acme.billing.v1.Invoices/Delete"), "denied_path"),
]
# Where a client that knows no better puts a credential of its own.
SLOTS = {"gitlab": "private-token", "anthropic": "x-api-key"}


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
@pytest.mark.parametrize("preset, host, check, name, right, wrong, code", PLAIN, ids=[row[0] for row in PLAIN])
def test_the_system_sees_its_credential_and_nothing_of_the_clients(world, preset, host, check, name, right, wrong, code, version):
    value = f"alice@example.test:{secret()}" if preset == "jira" else secret()
    w = world(preset)
    called = next(c for c in w.connectors if host in c["hosts"])["upstream"].split("//")[1].split(":")[0]
    system = w.firm.add(called, System(check(value)))
    w.start(**{"packages/publish": secret(), name: value})
    status, said = w.curl(f"https://{host}{right[1]}", "-X", right[0], version, "-H", SLOTS.get(preset, "authorization") + ": Bearer mine")
    assert status == 200, said
    assert w.refused(f"https://{host}{wrong[1]}", "-X", wrong[0], version) == (403, code)
    assert [r.refused for r in system.seen] == [None] and len(system.seen) == 1



def test_each_user_is_shown_with_their_own_token(world):
    w = world("jira")
    of = {u: f"{u}@example.test:{secret()}" for u in ("alice", "bob")}
    system = w.firm.add("jira.example.test", System(lambda r: "nobody" if r.one("authorization") is None else None))
    w.start(**{"users/alice/jira": of["alice"]})
    done = w.gate.cli("vault", "put", "users/bob/jira", "--connector", "jira", "--user", "bob", input=of["bob"])
    assert done.returncode == 0, done.stderr
    url = "https://jira.example.test/rest/api/3/issue/AB-1"
    assert [w.curl(url, "--interface", a)[0] for a, u in USERS.items() if u] == [200, 200]
    shown = [base64.b64decode(r.one("authorization").partition(" ")[2]).decode() for r in system.seen]
    assert shown == [of["alice"], of["bob"]]
    # A user is who the sandbox is registered for, and nobody has no secret.
    status, code = w.refused(url, "--interface", "127.0.0.6")
    assert status in (403, 502) and len(system.seen) == 2, code


def test_git_clones_and_pushes_without_a_credential(world, tmp_path):
    value = secret()
    w = world("github")
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "repos/acme/app.git"], check=True)
    subprocess.run(["git", "-C", tmp_path / "repos/acme/app.git", "config", "http.receivepack", "true"], check=True)
    w.firm.add("github.com", systems.Git(tmp_path / "repos", systems.basic("x-access-token", value)))
    w.start(**{"github/token": value})
    env = {**os.environ, "GIT_SSL_CAINFO": str(tmp_path / "ca.pem"), "GIT_TERMINAL_PROMPT": "0"}
    git = ["git", "-c", "http.proxy=http://%s:%d" % w.gate.proxy, "-c", "user.name=a", "-c", "user.email=a@example.test"]
    work = tmp_path / "work"
    for words in (["clone", "-q", "https://github.com/acme/app.git", work], ["-C", work, "commit", "-q", "--allow-empty", "-m", "one"],
                  ["-C", work, "push", "-q", "origin", "HEAD:main"], ["-C", work, "fetch", "-q"]):
        done = subprocess.run([*git, *words], capture_output=True, text=True, env=env, timeout=60)
        assert done.returncode == 0, (words, done.stderr)
    assert value not in (work / ".git/config").read_text()
    assert w.refused("https://github.com/settings/tokens") == (403, "denied_path")


def test_an_app_of_github_gets_its_installations_token(world, key):
    w = world("github-app")
    tokens = systems.Tokens(public_key=systems.public_half(key.encode()))
    system = System(tokens.check_bearer)
    w.firm.add("api.github.com", lambda r: tokens(r) if r.path.endswith("/access_tokens") else system(r))
    w.start(**{"github/app-key": key})
    for _ in range(2):
        assert w.curl("https://api.github.com/repos/acme/app")[0] == 200
    assert tokens.given == 1 and [r.refused for r in system.seen] == [None, None]
    assert w.refused("https://api.github.com/app/installations/0/access_tokens", "-X", "POST") == (403, "denied_path")


@pytest.mark.parametrize("preset, host, path, words", [
    ("google", "storage.googleapis.com", "/storage/v1/b/example-bucket/o", []),
    ("azure-openai", "example.openai.azure.com", "/openai/deployments/d/chat/completions?api-version=1", ["-d", "{}"])])
def test_a_token_is_got_once_and_shown(world, key, preset, host, path, words):
    w = world(preset)
    auth = w.connectors[0]["auth"]
    tokens = systems.Tokens(client_id=auth.get("client_id"), public_key=systems.public_half(key.encode()))
    w.firm.add(re.match(r"https://([^:/]+)", auth["token_url"])[1], tokens)
    system = w.firm.add(host, System(tokens.check_bearer))
    w.start(**{auth["secret"]: key if preset == "google" else tokens.client_secret})
    for _ in range(2):
        assert w.curl(f"https://{host}{path}", *words)[0] == 200
    assert tokens.given == 1 and [r.refused for r in system.seen] == [None, None]


def test_a_bucket_is_used_as_the_role(world):
    w = world("aws-s3")
    host, bucket = w.connectors[0]["hosts"][0], systems.S3()
    sts = systems.Sts(bucket)
    w.connectors[0]["auth"]["token_url"] = f"https://sts.example.test:{w.firm.port}/"
    w.hosts["sts.example.test"] = [ADDRESS]
    w.firm.add("sts.example.test", sts)
    w.firm.add(host, bucket)
    w.start(**{"aws/agents": f"{sts.agents.id}:{sts.agents.secret}"})
    put = w.curl(f"https://{host}/agents/a%20b?x-id=PutObject", "-X", "PUT", "--data-binary", "content")
    assert put[0] == 200, (put, [r.refused for r in sts.seen + bucket.seen])
    status, said = w.curl(f"https://{host}/agents/a%20b")
    assert status == 200 and said.endswith(b"content")
    assert len(sts.seen) == 1 and all(r.one("x-amz-security-token") == sts.session for r in bucket.seen)
    assert w.refused(f"https://{host}/agents/a?acl") == (403, "denied_by_rule")
    assert w.refused(f"https://{host}/others/a") == (403, "denied_path")


def test_a_registry_sends_for_a_token_that_the_client_gets_itself(world):
    value = secret()
    w = world("oci-registry")
    given = secret()
    auth = w.firm.add("auth.example.test", System(systems.basic("puller", value)))
    auth.answer = lambda r: systems.Tokens.json(200, {"token": given})
    registry = w.firm.add("registry.example.test", System(systems.bearer(given)))
    w.start(**{"registry/pull": value})
    assert w.curl("https://registry.example.test/v2/")[0] == 401
    status, said = w.curl("https://auth.example.test/token?service=company&scope=repository:app:pull")
    token = json.loads(said.split(b"\r\n\r\n", 1)[1])["token"]
    assert status == 200 and token == given
    assert w.curl("https://registry.example.test/v2/app/manifests/latest", "-H", f"Authorization: Bearer {token}")[0] == 200
    assert [r.refused is None for r in registry.seen] == [False, True]
    assert w.refused("https://auth.example.test/token?service=company&password=x") == (403, "denied_query")


def test_a_client_certificate_is_shown(world, tmp_path):
    clients = make_ca(tmp_path / "clients", "Clients")
    cert, keyfile = make_leaf(clients, "agents", client=True)
    w = world("mtls", clients=clients)
    system = w.firm.add("payments.internal.example.test", System(systems.client_certificate))
    w.start(**{"payments/client": keyfile.read_text() + cert.read_text()})
    assert w.curl("https://payments.internal.example.test/v2/transfers/1")[0] == 200
    assert [r.refused for r in system.seen] == [None]


def test_every_preset_has_a_look_alike():
    text = pathlib.Path(__file__).read_text()
    assert [p.stem for p in PRESETS.glob("*.yaml") if f'"{p.stem}"' not in text] == []
