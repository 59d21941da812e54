"""`sandgate sidecar` as [egress].image of the official server: real dockerd, the official Python
SDK asked directly, a sandbox that is root beside the gateway and tries to get out."""
import json
import os
import pathlib
import subprocess
import sys
import time

import packages
import pytest
import real_stack
import sidecar_image
from conftest import HERE, absent

sys.path.insert(0, str(HERE.parent / "flow"))
import certificates  # noqa: E402

BIN = pathlib.Path(os.environ.get("SANDGATE_BIN", HERE.parents[1] / "build/release/bin")).resolve()
FIRST, SECOND = "93.184.216.34", "93.184.216.35"
CONNECTOR = """name: api
hosts: [api.example.test]
auth: {kind: bearer, secret: "api/{user}"}
allow: [{methods: [GET], paths: ["/**"]}]
"""
POLICY = """allow:
  - {any_host: true, ports: ["1-65535"], paths: ["/**"]}
connectors: [api]
"""
HTTPS = "curl -sS -m 8 --cacert /tmp/ca.pem"
MARK, GATEWAY_UID = 0x5347, 65532


class Sdk:
    """The official SDK in a process of its own, inside the stack's network."""

    def __init__(self, stack):
        server = stack.servers["standard"]
        self.process = stack.popen([packages.venv() / "python", HERE / "sidecar_sdk.py", server.url, server.key],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})

    def ask(self, *words):
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def must(self, *words):
        answer = self.ask(*words)
        assert "ok" in answer, (words, answer)
        return answer["ok"]


class World:
    """The stack, what lies outside, and one sandbox of each kind: `plain`, `mitm`."""

    def __init__(self, stack, ca):
        self.stack, self.ca, self.sdk, self.ids = stack, ca, Sdk(stack), {}

    def create(self, name, default, rules, **more):
        self.ids[name] = self.sdk.must("create", name, default, rules, *more.values())
        self.run(name, f"cat > /tmp/ca.pem <<'E'\n{self.ca.file.read_text()}E")

    def run(self, name, command):
        return self.sdk.must("run", name, command)

    def python(self, name, code):
        code_, out, err = self.run(name, f"python3 - <<'E'\n{code}\nE")
        assert code_ == 0, (out, err)
        return out.strip()

    def sidecar(self, name):
        return f"sandbox-egress-{self.ids[name]}"

    def logs(self, name):
        said = self.stack.docker("logs", self.sidecar(name), check=False)
        return said.stdout + said.stderr

    def inspect(self, name, what):
        return self.stack.docker("inspect", "-f", what, self.sidecar(name)).stdout.strip()

    def outside(self, *words):
        """curl from the server's side; [status, body, content type]."""
        done = self.stack.run(["curl", "-s", "-m", "8", "-w", "\n%{http_code}\n%{content_type}", *words],
                              check=False, capture_output=True, text=True)
        body, status, kind = done.stdout.rsplit("\n", 2)
        return [int(status), body, kind]

    def api(self, name, path, *words, token=None):
        at, headers = self.sdk.must("endpoint", name, 18080)
        token = headers.get("OPENSANDBOX-EGRESS-AUTH") if token is None else token
        return self.outside("-H", f"OPENSANDBOX-EGRESS-AUTH: {token}", *words, f"http://{at}{path}")

    def seen(self):
        return json.loads(self.outside("-H", "Host: seen.example.test", f"http://{FIRST}/")[1])


@pytest.fixture(scope="module")
def world(shelf, tmp_path_factory):
    why = real_stack.why_not()
    for name in ("venv", "image"):
        if why is None and isinstance(shelf.get(name), packages.Missing):
            why = shelf[name]
    if why is not None:
        absent("the sidecar form of OpenSandbox's egress", why)
    ca = certificates.make_ca(tmp_path_factory.mktemp("ca"))
    leaf = certificates.make_leaf(ca, "*.example.test", FIRST, SECOND)
    extra = {"etc/ssl/certs/ca-certificates.crt": ca.file.read_bytes(), "etc/sandgate/connectors/api.yaml": CONNECTOR.encode(),
             "etc/sandgate/policies/sidecar-intercept.yaml": POLICY.encode()}
    with real_stack.RealStack({"standard": "runc"}, docker_conf={"dns": [FIRST]},
                              egress_conf='mode = "dns+nft"\ndisable_ipv6 = false\n',
                              egress=lambda s: sidecar_image.build(s, "sg/sidecar:local", BIN, extra)) as stack:
        for address in (FIRST, SECOND):
            stack.run(["ip", "addr", "add", f"{address}/32", "dev", "lo"])
        outside = stack.popen([packages.PYTHON, HERE / "sidecar_world.py", *leaf], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert outside.stdout.readline() == b"ready\n"
        made = World(stack, ca)
        try:
            made.create("plain", "deny", [["allow", "ok.example.test"], ["allow", "inner.example.test"]])
            yield made
        finally:
            real_stack.end(made.sdk.process)
            real_stack.end(outside)


def test_the_server_starts_it_by_the_name_of_its_image_only(world):
    assert world.inspect("plain", "{{.Config.Image}}") == "sg/sidecar:local"
    assert world.api("plain", "/healthz")[:2] == [200, "ok"]
    assert "error" not in world.logs("plain"), world.logs("plain")


def test_an_allowed_host_is_reached_by_http_and_https_and_no_other(world):
    code, out, err = world.run("plain", "curl -sS -m 8 http://ok.example.test/a")
    assert code == 0 and json.loads(out)["host"] == "ok.example.test", (out, err, world.logs("plain"))
    code, out, err = world.run("plain", f"{HTTPS} https://ok.example.test/b")
    assert code == 0 and json.loads(out)["path"] == "/b", (out, err)
    assert world.run("plain", "curl -sS -m 8 http://no.example.test/")[0] == 6  # no such name
    # Whatever address the sandbox picks, the gateway dials its own answer.
    out = world.run("plain", f"curl -sS -m 8 --resolve ok.example.test:80:{SECOND} http://ok.example.test/c")[1]
    assert json.loads(out)["at"] == FIRST
    for command in (f"curl -sS -m 8 --resolve no.example.test:80:{FIRST} http://no.example.test/",
                    f"curl -sS -m 8 http://{SECOND}/"):
        assert '"code"' in world.run("plain", command)[1], command
    assert world.run("plain", f"{HTTPS} --resolve no.example.test:443:{FIRST} https://no.example.test/")[0] != 0
    # A name that leads inside is not followed.
    assert "address_private" in world.run(
        "plain", f"curl -sS -m 8 --resolve inner.example.test:80:{FIRST} http://inner.example.test/")[1]
