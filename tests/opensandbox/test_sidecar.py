"""`sandgate sidecar` as [egress].image of the official server: real dockerd, the official Python
SDK asked directly, a sandbox that is root beside the gateway and tries to get out."""
import json
import os
import pathlib
import subprocess
import sys

import packages
import pytest
import real_stack
import sidecar_image
from conftest import HERE

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
ALLOWED = [["allow", "ok.example.test"], ["allow", "inner.example.test"]]
# A server inside, and that it answers there.
SERVE = "nohup python3 -m http.server {0} >/dev/null 2>&1 & for i in $(seq 100); do " \
        "curl -s -m 2 -o /dev/null http://127.0.0.1:{0}/ && exit 0; sleep 0.1; done; exit 1"
# What root in the sandbox may try: each line of what this prints is a way out, or a hold on the gateway.
ATTACK = """
import os, re, socket
found = []
def tries(name, fn):
    try:
        if fn() is not False:
            found.append(name)
    except OSError:
        pass
def udp(port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1)
    s.sendto(b"x" * 40, ("SECOND", port)); s.recv(10)
def six():
    s = socket.socket(socket.AF_INET6); s.settimeout(1)
    s.connect(("LOCAL6", 8066, 0, socket.if_nametoindex("eth0")))
def leaves(address, port, reply=False):  # by the interface, whatever the address says
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    s = socket.socket(family, socket.SOCK_DGRAM); s.bind((address if reply else "", 0))
    if reply:
        to = socket.socket(family, socket.SOCK_DGRAM); to.bind((address, 0)); port = to.getsockname()[1]
        to.sendto(b"x", s.getsockname())
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")
    s.sendto(b"x" * 40, (address, port))
def marked():
    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, 36, MARK); return True
def bound(kind, address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    s = socket.socket(family, kind)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind((address, port))
    if kind == socket.SOCK_STREAM:
        s.listen()
tries("udp 4444", lambda: udp(4444))
tries("udp 443", lambda: udp(443))
tries("ipv6", six)
for address, port in (("127.0.0.1", 4446), ("::1", 4446), ("SECOND", 53)):
    tries("by eth0 %s %d" % (address, port), lambda: leaves(address, port))
tries("answer by eth0", lambda: leaves("::1", 0, True))
tries("mark", marked)
tries("packets", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
tries("raw ip", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
for kind, port in ((socket.SOCK_STREAM, 15001), (socket.SOCK_STREAM, 15053), (socket.SOCK_DGRAM, 15053), (socket.SOCK_STREAM, 18080)):
    for address in ("0.0.0.0", "127.0.0.1", "OWN"):
        if port == 18080 or address != "OWN":
            tries("bind %s %d" % (address, port), lambda: bound(kind, address, port))
for row in open("/proc/net/unix").read().splitlines()[1:]:
    path = row.split()[7:]
    if path and path[0].startswith("@"):
        found.append("abstract " + path[0])
    elif path:
        tries("unix " + path[0], lambda: socket.socket(socket.AF_UNIX).connect(path[0]))
ports = {int(row.split()[1].rsplit(":", 1)[1], 16) for name in ("tcp", "tcp6") for row in open("/proc/net/" + name)
         if row.split()[3] == "0A"}
found += ["listens %d" % p for p in sorted(ports - {44772, 15001, 15053, 18080})]
print(found)
"""


class Sdk:
    """The official SDK in a process of its own, inside the stack's network."""

    def __init__(self, stack, server):
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

    def __init__(self, stack, server, ca):
        self.stack, self.ca, self.sdk, self.ids = stack, ca, Sdk(stack, server), {}

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


def resolvers():
    """Whom docker lets containers ask: the system's, or those that it takes without any."""
    lines = pathlib.Path("/etc/resolv.conf").read_text().splitlines()
    found = [line.split()[1] for line in lines if line.startswith("nameserver ") and ":" not in line]
    return [a for a in found if not a.startswith("127.")] or ["8.8.8.8", "8.8.4.4"]


@pytest.fixture(scope="module")
def world(real, tmp_path_factory):
    ca = certificates.make_ca(tmp_path_factory.mktemp("ca"))
    leaf = certificates.make_leaf(ca, "*.example.test", FIRST, SECOND)
    sidecar_image.build(real, "sg/sidecar:local", BIN, {
        "etc/ssl/certs/ca-certificates.crt": ca.file.read_bytes(), "etc/sandgate/connectors/api.yaml": CONNECTOR.encode(),
        "etc/sandgate/policies/sidecar-intercept.yaml": POLICY.encode()})
    # As kube-proxy and dockerd may set it: what comes for 127.0.0.1 reaches the host's own.
    real.run(["sysctl", "-qw", "net.ipv4.conf.docker0.route_localnet=1"])
    for address in (FIRST, SECOND):
        real.run(["ip", "addr", "add", f"{address}/32", "dev", "lo"])
    real.run(["nft", "-f", "-"], text=True, input=f"""table ip outside {{
        chain dns {{ type nat hook prerouting priority -110;
            ip daddr {{ {", ".join(resolvers())} }} meta l4proto {{ tcp, udp }} th dport 53 dnat to {FIRST}
        }}
    }}""")
    outside = real.popen([packages.PYTHON, HERE / "sidecar_world.py", *leaf], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    server = real.serve("sidecar", "sg/sidecar:local", 'mode = "dns+nft"\ndisable_ipv6 = false\n')
    made = World(real, server, ca)
    try:
        assert outside.stdout.readline() == b"ready\n"
        made.create("plain", "deny", ALLOWED)
        yield made
    finally:
        for process in (made.sdk.process, outside, real.servers.pop("sidecar").process):
            real_stack.end(process)
        for name in made.ids:
            real.docker("rm", "-f", f"sandbox-{made.ids[name]}", made.sidecar(name), check=False)
        real.run(["nft", "delete", "table", "ip", "outside"])
        for address in (FIRST, SECOND):
            real.run(["ip", "addr", "del", f"{address}/32", "dev", "lo"])


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


def test_other_protocols_pass_by_name(world):
    speak = "import socket; print(socket.create_connection(('{}', 2222), {}).recv(99).decode())"
    assert world.python("plain", speak.format("ok.example.test", 8)) == f"hello at {FIRST}"
    for at in ("no.example.test", FIRST, SECOND):
        code, out, err = world.run("plain", f"python3 -c \"{speak.format(at, 1)}\"")
        assert "hello" not in out, (at, out, err)


def test_root_in_the_sandbox_gets_out_in_no_other_way(world):
    bridge = json.loads(world.stack.run(["ip", "-6", "-j", "addr", "show", "docker0"], capture_output=True, text=True).stdout)
    own = world.inspect("plain", "{{.NetworkSettings.IPAddress}}")
    words = {"SECOND": SECOND, "MARK": str(MARK), "OWN": own, "LOCAL6": bridge[0]["addr_info"][0]["local"]}
    attack = ATTACK
    for word, value in words.items():
        attack = attack.replace(word, value)
    assert world.python("plain", attack) == "[]"
    # Who the gateway's user is doesn't count, nor does a resolver of one's own.
    for uid in (GATEWAY_UID, 65534):
        out = world.run("plain", f"setpriv --reuid {uid} --clear-groups curl -sS -m 4 http://{SECOND}/")[1]
        assert '"code"' in out, out
    query = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3); " \
            "s.sendto(bytes.fromhex('00010100000100000000000002') + b'no\\x07example\\x04test\\0' + bytes(1) + b'\\x01\\0\\x01', " \
            f"('{SECOND}', 53)); print(s.recv(512)[3] & 15)"
    assert world.python("plain", query) == "3"
    assert world.seen() == []
    # What listens inside is reached from outside on docker's ports only.
    assert world.run("plain", SERVE.format(9999))[0] == 0
    assert world.outside(f"http://{own}:9999/", "-m", "1")[0] == 0


def test_policies_change_by_the_sdk_at_once(world):
    assert world.sdk.must("policy", "plain") == ["deny", ALLOWED]
    changed = world.sdk.must("patch", "plain", [["allow", "*.example.test"], ["deny", "ok.example.test"]])
    assert changed == ["deny", [["allow", "*.example.test"], ["deny", "ok.example.test"], ["allow", "inner.example.test"]]]
    assert world.run("plain", f"{HTTPS} https://no.example.test/")[0] == 0
    # First match wins: the pattern stands before what was denied behind it.
    assert world.run("plain", f"{HTTPS} https://ok.example.test/")[0] == 0
    assert world.sdk.must("drop", "plain", ["*.example.test", "unknown.example.test"])[1][0] == ["deny", "ok.example.test"]
    for host in ("no", "ok"):
        assert world.run("plain", f"{HTTPS} https://{host}.example.test/")[0] != 0
    # A whole policy, as POST and PUT have it; and addresses.
    for method in ("POST", "PUT"):
        status, body, _ = world.api("plain", "/policy", "-X", method, "-H", "Content-Type: application/json", "-d",
                                    json.dumps({"defaultAction": "allow", "egress": [{"action": "deny", "target": SECOND}]}))
        assert status == 200 and json.loads(body)["mode"] == "enforcing", body
    assert json.loads(world.run("plain", f"curl -sS -m 8 http://{FIRST}/x")[1])["at"] == FIRST
    for command in (f"http://{SECOND}/", f"--resolve no.example.test:80:{FIRST} http://no.example.test/"):
        assert '"code"' in world.run("plain", f"curl -sS -m 8 {command}")[1]
    assert world.api("plain", "/policy", "-X", "PUT", "-d", "{}")[0] == 200
    assert world.sdk.must("policy", "plain") == ["deny", []]
    assert world.run("plain", "curl -sS -m 8 http://ok.example.test/")[0] == 6
    world.sdk.must("patch", "plain", ALLOWED)


def test_the_egress_api_is_for_who_has_the_token(world):
    for token in ("wrong", ""):
        status, body, kind = world.api("plain", "/policy", token=token)
        assert status == 401 and kind.startswith("text/plain") and body.strip(), (status, body)
    assert world.api("plain", "/healthz", token="wrong")[0] == 401
    # The sandbox is beside it, and has no token.
    assert world.run("plain", "curl -s -o /dev/null -w %{http_code} http://127.0.0.1:18080/policy")[1] == "401"
    for path, words, wanted in (("/other", (), 404), ("/v1/sandboxes", (), 404), ("/policy", ("-X", "HEAD", "-I"), 405),
                                ("/policy", ("-X", "PUT", "-d", "{"), 400), ("/policy", ("-X", "PATCH", "-d", "[{}]"), 400)):
        status, body, kind = world.api("plain", path, *words)
        assert status == wanted and kind.startswith("text/plain"), (path, status, body)
    many = json.dumps([{"action": "allow", "target": f"h{i}.example.test"} for i in range(600)])
    assert world.api("plain", "/policy", "-X", "PATCH", "-d", many)[0] == 413
    big = world.stack.folder / "big"
    big.write_text("[" + " " * 1100000 + "]")
    assert world.api("plain", "/policy", "-X", "PATCH", "--data-binary", f"@{big}")[0] == 413
    assert world.sdk.must("policy", "plain") == ["deny", ALLOWED]


def test_credentials_need_a_connector_and_are_never_told_again(world):
    world.create("mitm", "deny", [*ALLOWED, ["allow", "api.example.test"]], intercepts=True,
                 env={"OPENSANDBOX_EGRESS_DENY_WEBHOOK": f"http://{SECOND}/", "OPENSANDBOX_EGRESS_METRICS_EXTRA_ATTRS": "a=b"})
    assert "DENY_WEBHOOK is not honoured" in world.logs("mitm") and "METRICS_EXTRA_ATTRS is not" in world.logs("mitm")
    # By OpenSandbox's own hook: no --cacert.
    code, out, err = world.run("mitm", "curl -sS -m 8 -v https://ok.example.test/a 2>&1 | grep -i -e issuer -e '\"path\"'")
    assert code == 0 and '"/a"' in out and "Test CA" not in out, (out, err, world.logs("mitm"))
    assert world.run("mitm", "test -s /opt/opensandbox/mitmproxy-ca-cert.pem && stat -c %a /opt/opensandbox/mitmproxy-ca-cert.pem")[1].strip() == "444"
    assert world.sdk.ask("vault_get", "mitm")["status"] == 404
    assert world.sdk.ask("vault_create", "mitm", "s3cr3t-of-alice", "ok.example.test")["status"] == 412
    made = world.sdk.must("vault_create", "mitm", "s3cr3t-of-alice", "api.example.test")
    assert made == [1, ["key"], ["to"]]
    assert world.sdk.ask("vault_create", "mitm", "another", "api.example.test")["status"] == 409
    out = world.run("mitm", "curl -sS -m 8 https://api.example.test/who")[1]
    assert json.loads(out)["path"] == "/who" and "s3cr3t" not in out  # what echoes is masked
    assert out.count("authorization") == 1 and json.loads(out)["authorization"] is not None
    patch = {"expectedRevision": 7, "credentials": {"delete": ["key"]}}
    assert world.api("mitm", "/credential-vault", "-X", "PATCH", "-d", json.dumps(patch))[0] == 409
    patch["expectedRevision"] = 1
    status, body, _ = world.api("mitm", "/credential-vault", "-X", "PATCH", "-d", json.dumps(patch))
    assert status == 200 and json.loads(body)["revision"] == 2 and "s3cr3t" not in body
    world.sdk.must("vault_delete", "mitm")
    assert world.sdk.ask("vault_get", "mitm")["status"] == 404


def test_what_it_cannot_keep_it_does_not_begin(world):
    """And says why; the server then refuses the create."""
    rules = "OPENSANDBOX_EGRESS_RULES={}"
    cases = [([], [rules], "TOKEN is missing"), (["--cap-add", "NET_ADMIN"], [rules], "TOKEN is missing"),
             ([], [rules, "OPENSANDBOX_EGRESS_TOKEN=t"], "CAP_NET_ADMIN and nft are needed"),
             (["--cap-add", "NET_ADMIN"], ["OPENSANDBOX_EGRESS_RULES={", "OPENSANDBOX_EGRESS_TOKEN=t"], "is no JSON"),
             (["--cap-add", "NET_ADMIN"], ['OPENSANDBOX_EGRESS_RULES={"egress": [{"action": "allow", "target": "*"}]}', "OPENSANDBOX_EGRESS_TOKEN=t"],
              "the target of a rule"),
             (["--cap-add", "NET_ADMIN"], [rules, "OPENSANDBOX_EGRESS_TOKEN=t", "OPENSANDBOX_EGRESS_CREDENTIAL_VAULT_REQUIRE_TLS=true"],
              "REQUIRE_TLS is refused"),
             (["--cap-add", "NET_ADMIN"], [rules, "OPENSANDBOX_EGRESS_TOKEN=t", "OPENSANDBOX_EGRESS_UPSTREAM_PROXY=http://p:1"],
              "UPSTREAM_PROXY is refused")]
    running = [subprocess.Popen(["docker", "-H", world.stack.socket, "run", "--rm", *flags, *(f"-e{e}" for e in env), "sg/sidecar:local"],
                                stderr=subprocess.PIPE, text=True) for flags, env, _ in cases]
    for process, (flags, env, wanted) in zip(running, cases):
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 1 and wanted in said, (flags, env, said)


def pids(world, name, executable):
    """Of the host, of a container's processes."""
    rows = world.stack.docker("top", world.sidecar(name), "-eo", "pid,comm").stdout.splitlines()[1:]
    return [int(row.split()[0]) for row in rows if row.split()[1] == executable[:15]]


def test_it_ends_with_its_sandbox_and_without_it_nothing_gets_out(world):
    # A role that dies is started again, and knows the sandbox; what root wrote into the file that both share is not read.
    assert world.run("plain", "cp /etc/resolv.conf /tmp/ && truncate -s 1T /etc/resolv.conf")[0] == 0
    for executable in ("sandgate-control", "sandgate-dialer"):
        os.kill(pids(world, "plain", executable)[0], 9)
    real_stack.wait("ready again", lambda: world.api("plain", "/healthz")[0] == 200, 30)
    by_name = f"curl -sS -m 8 --resolve ok.example.test:80:{SECOND} http://ok.example.test/"
    real_stack.wait("reached again", lambda: '"host"' in world.run("plain", by_name)[1], 30)
    assert world.run("plain", "cat /tmp/resolv.conf >/etc/resolv.conf")[0] == 0
    assert world.run("plain", "curl -sS -m 8 http://ok.example.test/")[0] == 0
    assert world.sdk.must("policy", "plain") == ["deny", ALLOWED]
    token = world.sdk.must("endpoint", "plain", 18080)[1]["OPENSANDBOX-EGRESS-AUTH"]
    own = world.inspect("plain", "{{.NetworkSettings.IPAddress}}")
    assert world.outside("-H", f"OPENSANDBOX-EGRESS-AUTH: {token}", f"http://{own}:18080/healthz")[0] == 200
    os.kill(pids(world, "plain", "sandgate-super")[0], 9)
    real_stack.wait("container ends", lambda: world.inspect("plain", "{{.State.Running}}") == "false", 30)
    sandbox = f"sandbox-{world.ids['plain']}"

    def inside(*words):
        return world.stack.docker("exec", sandbox, *words, check=False)

    for target in (f"http://{FIRST}/", f"--resolve ok.example.test:80:{FIRST} http://ok.example.test/"):
        assert inside("sh", "-c", f"curl -sS -m 2 {target}").returncode != 0
    attack = ATTACK.replace("SECOND", SECOND).replace("MARK", str(MARK)).replace("LOCAL6", "fe80::1").replace("OWN", "127.0.0.2")
    said = inside("python3", "-c", attack).stdout.strip()
    assert "udp 4444" not in said and "mark" not in said, said
    # A server of the sandbox's where the API was hears nothing from outside.
    assert inside("sh", "-c", SERVE.format(18080)).returncode == 0
    assert world.outside("-m", "1", "-H", f"OPENSANDBOX-EGRESS-AUTH: {token}", f"http://{own}:18080/")[0] == 0
    assert world.seen() == []
    # And the other one ends as it is asked to.
    assert world.sdk.must("kill", "mitm") < 9  # docker waits nine seconds for it
    assert world.stack.docker("ps", "-aq", "--filter", f"name={world.sidecar('mitm')}").stdout == ""
