"""Sandboxes on a docker network that the gateway stands in front of: real dockerd, a real
server, pins made by the locator, the gateway's authority put where OpenSandbox's own start-up
script looks for it.  Around them witness.py tells of everything that got out.
"""
import json
import os
import shutil
import subprocess
import threading
import time

import packages
import pytest
import real_stack
import sidecar_image
import witness
from certificates import make_ca, make_leaf
from conftest import HERE
from front import IMAGE, flow
from tally import absent, found, program

NETWORK, PORT = "sgbr0", 18090
# Without those that a kernel of its own has no sockets for.
QUICK = "udp_to_every_sink metadata ports_of_the_gateway_itself raw_sockets ipv6 the_neighbour last"
ATTACKS = HERE.parent / "escape/attacks.py"
API, TRACKER, SECRET = "api.example.test", "tracker.example.test", "canary-9c1f-not-for-sandboxes"
CALL = """
import json, sys, urllib.request as u, urllib.error
method, url, key, body = sys.argv[1:5]
r = u.Request(url, body.encode() or None, {'OPEN-SANDBOX-API-KEY': key, 'Content-Type': 'application/json'}, method=method)
try:
    a = u.build_opener(u.ProxyHandler({})).open(r, timeout=120)
except urllib.error.HTTPError as e:
    a = e
print(json.dumps([a.status, a.read().decode()]))
"""
INSIDE = """
import socket, sys, urllib.request as u
def get(host, at):
    r = u.Request('http://%s/' % at, headers={'Host': host})
    try:
        return u.build_opener(u.ProxyHandler({})).open(r, timeout=1.5).read().decode().strip()
    except Exception as e:
        return getattr(e, 'code', None) or 'nothing'
def udp(at, port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.5)
    try:
        s.sendto(b'x', (at, port)); return s.recv(10).decode()
    except OSError:
        return 'nothing'
at, at6 = sys.argv[1:3]
first = get('ok.example.test', at)
print(first if sys.argv[3:] else [first, get('ok.example.test', '[%s]' % at6), get('no.other.test', at), udp(at, 4444)])
"""
PYTHON = f"python3 -c 'import urllib.request as u; print(u.urlopen(\"https://{API}/v1/x\").read().decode())'"
FETCH = f'require("https").get("https://{API}/v1/x", r => r.on("data", d => process.stdout.write(d)))'
BELIEVED = (0, '{"seen": null, "path": "/v1/x"}')
REACHES = "['fine', 'fine', 403, 'nothing']"


class Watched:
    """What witness.py tells."""

    def __init__(self, stack):
        stack.folder.chmod(0o755)  # the gateway's roles have a user of their own
        leaf = make_leaf(make_ca(stack.folder / "target"), API, TRACKER)
        self.ca, self.seen = stack.folder / "target/ca.pem", []
        self.process = stack.popen([packages.PYTHON, HERE / "witness.py", *leaf], stdout=subprocess.PIPE, text=True)
        self.outside = str(json.loads(self.process.stdout.readline())["up"])  # a process out there
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.seen.append(json.loads(line))

    def forget(self):
        time.sleep(0.3)  # what is on its way
        self.seen.clear()

    def check(self):
        """Nobody came who shouldn't."""
        time.sleep(0.2)
        assert [e for e in self.seen if e["where"] != "target"] == []


@pytest.fixture(scope="module")
def networked(shelf):
    why = real_stack.why_not()
    for name in ("venv", "image"):
        if why is None and isinstance(shelf.get(name), packages.Missing):
            why = shelf[name]
    if why is not None:
        absent("real OpenSandbox on a named network", why)
    has_runsc = (packages.SHELF / "bin/runsc").exists()
    tiers = {"standard": "runc", **({"high": "strong"} if has_runsc else {})}
    with real_stack.RealStack(tiers, network=NETWORK, runsc=has_runsc) as stack:
        stack.watched = Watched(stack)
        try:
            yield stack
        finally:
            real_stack.end(stack.watched.process)


def config(stack):
    loopback = {"addresses": ["127.0.0.0/8"]}
    return {
        "servers": [{"name": s.name, "url": s.url, "key": f"opensandbox/{s.name}", "tier": s.name, "network": NETWORK,
                     "ca_file": str(stack.ca_file), "endpoints": ["127.0.0.0/8", "172.16.0.0/12"], **loopback}
                    for s in stack.servers.values()],
        "listeners": [{"name": "exec", "kind": "opensandbox", "address": f"127.0.0.1:{PORT}"},
                      *({"name": name + v[:1], "kind": kind, "address": f"{at}:{port}"} for v, at in (("4", "0.0.0.0"), ("6", "[::]"))
                        for name, kind, port in (("egress", "transparent", 15001), ("dns", "dns", 15053)))],
        "resolver": {"hosts": {name: ["127.0.0.1"] for name in ("ok.example.test", API, TRACKER)}},
        "upstream_tls": {"ca_file": str(stack.watched.ca)},
        "policies": {"coding": {"connectors": ["tracker"], "allow": [
            {"hosts": ["ok.example.test"], "ports": [80], **loopback},
            {"hosts": [API], "methods": ["GET"], "paths": ["/v1/**"], **loopback}]}},
        "connectors": [{"name": "tracker", "hosts": [TRACKER], **loopback, "auth": {"kind": "bearer", "secret": "tracker/token"},
                        "allow": [{"methods": ["GET"], "paths": ["/issues/**"]}]}],
        "exec": {"docker": str(stack.folder / "docker.sock"), "placement": [{"tier": "high", "labels": {"tier": "high"}}]
                 if "high" in stack.servers else []}}


@pytest.fixture(scope="module")
def fronted(networked, front_for_all):
    servers = {s.name: (s.url, s.key) for s in networked.servers.values()}
    front = front_for_all(servers, around=networked.inside(), more=config(networked))
    front.must("vault", "put", "tracker/token", input=SECRET)
    networked.run(["nft", "-f", "-"], input=front.must("rules", "--interface", NETWORK, "--sandboxes"), text=True)
    return front


def ask(stack, front, method, path, body=""):
    """From inside of the namespace that all of it lives in."""
    done = stack.run([packages.PYTHON, "-c", CALL, method, f"http://127.0.0.1:{PORT}{path}", front.key, body],
                     capture_output=True, text=True, timeout=150)
    return json.loads(done.stdout)


class Box:
    """A sandbox that was asked for as a caller would."""

    def __init__(self, stack, front, patience=20, **more):
        self.stack, self.front, self.patience = stack, front, patience
        before = self.containers()
        status, made = ask(stack, front, "POST", "/v1/sandboxes", json.dumps({
            "image": {"uri": IMAGE}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 600,
            "resourceLimits": {"cpu": "1", "memory": "256Mi"}, **more}))
        assert status == 202, (made, front.gate.text_of_log()[-3000:])
        self.id = json.loads(made)["id"]
        self.cid, = self.containers() - before
        self.pid = stack.docker("inspect", "-f", "{{.State.Pid}}", self.cid).stdout.strip()

    def containers(self):
        return set(self.stack.docker("ps", "-q", "--no-trunc", "--filter", "label=opensandbox.io/id").stdout.split())

    def run(self, command):
        """Through the gateway's own API, as the sandbox's root: (exit code, standard output)."""
        path = f"/v1/sandboxes/{self.id}/proxy/44772"
        flow.wait_for(lambda: ask(self.stack, self.front, "GET", path + "/ping")[0] == 200, self.patience)
        status, text = ask(self.stack, self.front, "POST", path + "/command", json.dumps({"command": command}))
        assert status == 200, text
        events = [json.loads(e) for e in text.split("\n\n") if e.strip()]
        errors = [e["error"]["evalue"] for e in events if e["type"] == "error"]
        return int(errors[0]) if errors else 0, "\n".join(e["text"] for e in events if e["type"] == "stdout")

    def inside(self, *words, **kw):
        """In its network namespace, with all the rights that a container could be given there."""
        done = subprocess.run(["nsenter", "-t", self.pid, "-n", "unshare", "-m", "-p", "-f", "--mount-proc", *map(str, words)],
                              capture_output=True, text=True, timeout=150, check=False, **kw)
        return done.stdout.strip() or done.stderr[-500:]

    def reached(self, *first):
        return self.inside("/usr/bin/python3", "-c", INSIDE, *gateways(self.stack), *first)

    def end(self):
        assert ask(self.stack, self.front, "DELETE", f"/v1/sandboxes/{self.id}")[0] == 204


@pytest.fixture(scope="module")
def box(networked, fronted):
    return Box(networked, fronted)


def gateways(stack):
    said = json.loads(stack.docker("network", "inspect", NETWORK).stdout)
    return sorted((c.get("Gateway") or real_stack.SUBNET6.replace("/64", "1") for c in said[0]["IPAM"]["Config"]), key=lambda a: ":" in a)


def pinned(stack, family=4):
    said = json.loads(stack.run(["nft", "-j", "list", "set", "bridge", "sandgate_pinned", f"pinned{family}"],
                                capture_output=True, text=True).stdout)
    return [e for thing in said["nftables"] if "set" in thing for e in thing["set"].get("elem", [])]


def test_a_created_sandbox_reaches_what_its_policy_allows_and_nothing_else(networked, fronted, box):
    assert len(pinned(networked)) == 1 and len(pinned(networked, 6)) == 1, fronted.gate.text_of_log()[-3000:]
    # At once: who is told of it finds it pinned.  (An IPv6 address is looked for in the network first.)
    assert box.reached("first") == "fine", fronted.gate.text_of_log()[-3000:]
    flow.wait_for(lambda: box.reached() == REACHES)
    # Another MAC or address is nobody's.
    mac = json.loads(box.inside("ip", "-j", "link", "show", "eth0"))[0]["address"]
    box.inside("ip", "link", "set", "eth0", "address", "02:42:ac:99:99:99")
    assert box.reached("first") == "nothing"
    box.inside("ip", "link", "set", "eth0", "address", mac)
    assert box.reached() == REACHES
    # One that docker started by itself is nobody's.
    other = networked.docker("run", "-d", "--network", NETWORK, real_stack.BASE, "sleep", "600").stdout.strip()
    try:
        pid = networked.docker("inspect", "-f", "{{.State.Pid}}", other).stdout.strip()
        said = subprocess.run(["nsenter", "-t", pid, "-n", "/usr/bin/python3", "-c", INSIDE, *gateways(networked), "first"],
                              capture_output=True, text=True, timeout=60, check=True).stdout
        assert said == "nothing\n"
    finally:
        networked.docker("rm", "-f", other)
    networked.watched.check()


def node_in(stack, box):
    """The command that fetches with this machine's node, which brings its libraries: the image has none."""
    files = [program("node"), *sidecar_image.linked(program("node"))]
    folder, (loader,) = stack.folder / "node", [os.path.basename(f) for f in files if "/ld-linux" in f]
    if not folder.exists():
        folder.mkdir()
        for file in files:
            shutil.copy(file, folder)
    stack.docker("cp", folder, f"{box.cid}:/opt")
    return f"/opt/node/{loader} --library-path /opt/node /opt/node/node -e '{FETCH}'"


def test_what_is_intercepted_is_believed_by_what_runs_inside(networked, fronted, box):
    """With the store of the system, and with what OpenSandbox's own script exports."""
    for command in (f"env -i curl -sS https://{API}/v1/x", f"env -i {PYTHON}", PYTHON, node_in(networked, box)):
        assert box.run(command) == BELIEVED, (command, fronted.gate.text_of_log()[-2000:])
    code, said = box.run(f"curl -sS https://{API}/private")
    assert code == 0 and "denied_path" in said
    code, said = box.run('echo "$SSL_CERT_FILE $REQUESTS_CA_BUNDLE $NODE_EXTRA_CA_CERTS"; touch /opt/opensandbox/mitmproxy-ca-cert.pem')
    assert code != 0 and len(said.split()) == 3, "the gateway's file is read, not written"
    assert box.run(f"cmp $NODE_EXTRA_CA_CERTS - <<'X'\n{networked.ca_file.read_text()}X")[0] == 0
    assert "PRIVATE" not in networked.ca_file.read_text()


def test_a_connector_adds_what_the_sandbox_never_sees(networked, fronted, box):
    networked.watched.forget()
    code, said = box.run(f"curl -sS -H 'Authorization: Bearer mine' https://{TRACKER}/issues/7; env; cat /proc/*/environ")
    assert code == 0 and '"path": "/issues/7"' in said
    assert SECRET not in said and "mine" not in said
    assert networked.watched.seen == [
        {"where": "target", "host": TRACKER, "path": "/issues/7", "authorization": f"Bearer {SECRET}"}]
    code, said = box.run(f"curl -sS https://{TRACKER}/admin")
    assert "denied_path" in said


def test_neither_the_authority_nor_its_place_is_the_callers(networked, fronted):
    for more in ({"volumes": [{"name": "v", "mountPath": "/opt/opensandbox", "host": {"path": str(networked.ca_file)}}]},
                 {"extensions": {"bootstrap.execd.isolation": "enable"}}):
        status, said = ask(networked, fronted, "POST", "/v1/sandboxes", json.dumps(
            {"image": {"uri": IMAGE}, "entrypoint": ["true"], "resourceLimits": {"cpu": "1", "memory": "256Mi"}, **more}))
        assert status == 403, said


def targets(stack, neighbour):
    at4, at6 = gateways(stack)
    published = [int(p["HostPort"]) for several in neighbour.ports.values() for p in several]
    return json.dumps({
        "sinks": [witness.OUTSIDE, witness.HERE4], "sinks6": [witness.OUTSIDE6, witness.HERE6, at6], "own": [at4, "127.0.0.1"],
        "ports": [15001, 15053, PORT, 7001, *(s.port for s in stack.servers.values()), *published], **neighbour.at,
        "patience": 0.1, "unix": [str(stack.folder / "docker.sock"), "/var/run/docker.sock"]})


class Neighbour(Box):
    """Another sandbox, in which somebody waits for whoever may come."""

    def __init__(self, stack, front):
        super().__init__(stack, front)
        said = json.loads(stack.docker("inspect", self.cid).stdout)[0]
        self.ports, at = said["NetworkSettings"]["Ports"], said["NetworkSettings"]["Networks"][NETWORK]
        self.at = {"neighbour": at["IPAddress"], "neighbour6": at["GlobalIPv6Address"]}
        self.waits = subprocess.Popen(
            ["nsenter", "-t", self.pid, "-n", "/usr/bin/python3", "-c",
             "import socket, select\nt = socket.create_server(('::', 4444), family=socket.AF_INET6, dualstack_ipv6=True)\n"
             "u = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\nu.bind(('', 4444))\nprint('up', flush=True)\nselect.select([t, u], [], [])"],
            stdout=subprocess.PIPE, text=True)
        assert self.waits.stdout.readline() == "up\n"

    def check(self):
        assert self.waits.poll() is None, "somebody came"


@pytest.fixture(scope="module")
def neighbour(networked, fronted):
    one = Neighbour(networked, fronted)
    yield one
    one.waits.kill()
    one.waits.wait()


def judge(networked, neighbour, said):
    """What the attacks saw, and what was seen of them."""
    seen = json.loads(said)
    assert "ESCAPED" not in said, {k: v for k, v in seen.items() if "ESCAPED" in str(v)}
    networked.watched.check()
    neighbour.check()
    return seen


def test_nothing_gets_out_of_a_sandbox_by_its_root(networked, fronted, box, neighbour):
    networked.docker("cp", str(ATTACKS), f"{box.cid}:/attacks.py")
    code, said = box.run(f"id -u; python3 /attacks.py net unix_sockets_of_the_host root last <<'X'\n{targets(networked, neighbour)}\nX")
    assert code == 0 and said.startswith("0\n"), said
    assert judge(networked, neighbour, said[2:])["an_allowed_request_still_works"] == "fine\n"


def test_nor_with_more_rights_than_docker_gives(networked, fronted, box, neighbour):
    """OpenSandbox gives NET_ADMIN and SYS_ADMIN where exec.more_rights lets callers ask for it."""
    words = targets(networked, neighbour)
    judge(networked, neighbour, box.inside("/usr/bin/python3", ATTACKS, "raw_sockets", "fragments_and_spoofed_sources", "frames", input=words))
    assert box.reached() == REACHES
    judge(networked, neighbour, box.inside("/usr/bin/python3", ATTACKS, "root", "frames", input=words))
    neighbour_works = neighbour.run("curl -sS http://ok.example.test/")
    assert neighbour_works == (0, "fine")


def test_nobody_outside_reaches_execd(networked, fronted, neighbour):
    """Its ports are published by docker, and it asks nobody who he is."""
    published = [p for several in neighbour.ports.values() for p in several]
    assert {p["HostIp"] for p in published} == {"127.0.0.1"}
    tries = [(at, int(p["HostPort"])) for p in published for at in (witness.HERE4, witness.HERE6)]
    tries += [(at, port) for at in neighbour.at.values() for port in (44772, 4444)]
    code = ("import json, socket, sys\nfor at in json.loads(sys.argv[1]):\n try: socket.create_connection(at, 1); print('REACHED', at)\n"
            " except OSError as e: pass\nprint('tried')")
    said = subprocess.run(["nsenter", "-t", networked.watched.outside, "-n", "/usr/bin/python3", "-c", code, json.dumps(tries)],
                          capture_output=True, text=True, timeout=60, check=True).stdout
    assert said == "tried\n"
    networked.watched.forget()  # refusals are packets too


@pytest.fixture(scope="module")
def strong(networked, fronted):
    """A sandbox under gVisor, whose start takes longer: the authority is installed there."""
    if "high" not in networked.servers:
        found["absent: gVisor on a named network"] = "no build/opensandbox/bin/runsc: packages.py runsc"
        pytest.skip("no runsc")
    return Box(networked, fronted, 120, metadata={"tier": "high"})


def test_gvisor_is_kept_the_same_way(networked, neighbour, strong):
    networked.docker("cp", str(ATTACKS), f"{strong.cid}:/attacks.py")
    code, said = strong.run(f"dmesg | head -1; python3 /attacks.py {QUICK} <<'X'\n{targets(networked, neighbour)}\nX")
    kernel, _, said = said.partition("\n")
    assert code == 0 and "gVisor" in kernel, said
    assert judge(networked, neighbour, said)["an_allowed_request_still_works"] == "fine\n"


def test_and_believes_what_is_intercepted(networked, fronted, strong):
    for command in (f"env -i curl -sS https://{API}/v1/x", PYTHON, node_in(networked, strong)):
        assert strong.run(command) == BELIEVED, (command, fronted.gate.text_of_log()[-2000:])


HOLD = "nohup python3 -c 'import time; held = bytearray(64 << 20); open(\"/tmp/holds\", \"w\"); time.sleep(300)' >/dev/null 2>&1 &"


def costs(front):
    return json.loads(front.must("sandboxes", "--json"))["costs"]


def test_what_an_end_and_a_pause_free_is_measured(networked, fronted):
    """As docker counts; never more than the limit, which is 256 MiB."""
    one = Box(networked, fronted)
    assert one.run(HOLD)[0] == 0
    flow.wait_for(lambda: one.run("test -e /tmp/holds")[0] == 0)
    assert ask(networked, fronted, "POST", f"/v1/sandboxes/{one.id}/pause")[0] == 202
    paused = costs(fronted)["pause"]
    assert paused["measured"] == paused["times"] == 1 and 0 <= paused["freed"] < 32 << 20, "it is frozen where it is"
    line, = [line for line in fronted.must("sandboxes").splitlines() if line.startswith(one.id) and " paused " in line]
    assert " MiB" in line
    before = costs(fronted).get("kill", {"freed": 0, "measured": 0})
    one.end()
    after = costs(fronted)["kill"]
    assert after["measured"] == before["measured"] + 1
    assert 64 << 20 <= after["freed"] - (before["freed"] or 0) <= 256 << 20


def test_what_is_ended_is_unpinned(networked, fronted, box):
    before = len(pinned(networked))
    box.end()
    flow.wait_for(lambda: len(pinned(networked)) == before - 1, 20)
