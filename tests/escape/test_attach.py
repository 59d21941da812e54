"""`sandgate attach`: which namespaces it takes, which it refuses, what holds afterwards."""
import os
import subprocess

import pytest

from conftest import HERE, SANDGATE, SINK, SINK6, flow, run
import json

PYTHON = "/usr/bin/python3"
NOBODY = 65534


class Held:
    """A process in a network namespace of its own."""

    def __init__(self, uid=0, words=()):
        user = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "unshare", "-Urn"] if uid else ["unshare", "-n"]
        self.process = subprocess.Popen([*user, *words, "sleep", "3600"], cwd="/")
        self.pid = self.process.pid
        self.user = uid
        flow.wait_for(lambda: os.readlink(f"/proc/{self.pid}/ns/net") != os.readlink("/proc/self/ns/net"))

    def inside(self, *words, **kw):
        more = ["-U", "--preserve-credentials"] if self.user else []
        return subprocess.run(["nsenter", "-t", str(self.pid), *more, "-n", *[str(w) for w in words]], capture_output=True, text=True,
                              timeout=120, cwd="/", **kw)

    def close(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def held(world):
    made = []

    def start(**kw):
        made.append(Held(**kw))
        return made[-1]
    yield start
    for h in made:
        h.close()


def attach(g, pid, *more, uid=0, name="box"):
    user = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if uid else []
    return subprocess.run([*user, str(SANDGATE), "attach", "-c", str(g.file), "--pid", str(pid), "--sandbox", name, "--policy", "coding", *more],
                          capture_output=True, text=True, timeout=60, cwd="/")


GET = ("import urllib.request as u; o = u.build_opener(u.ProxyHandler({})); r = u.Request('http://%s/', headers={'Host': 'ok.example.test'}); "
       "print(o.open(r, timeout=6).read().decode())")


def test_another_interface_is_refused_unless_it_may_be_taken(world, gate, held):
    g, h = gate(), held()
    h.inside("ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1")
    for state in ("down", "up"):
        h.inside("ip", "link", "set", "v0", state)
        done = attach(g, h.pid)
        assert done.returncode == 1 and "only lo may be there" in done.stderr, done
    assert g.admin("GET", "/v1/sandboxes")[1]["sandboxes"] == []
    done = attach(g, h.pid, "--take")
    assert done.returncode == 0, done.stderr
    assert "v0" not in h.inside("ip", "link").stdout
    assert h.inside(PYTHON, "-c", GET % "203.0.113.9").stdout == "fine\n"


OPEN = """import socket, sys
def pair(address):
    listener = socket.create_server((address, 0))
    client = socket.create_connection(listener.getsockname())
    return client, listener.accept()
pairs = {name: pair(a) for name, a in (("foreign", "10.9.9.1"), ("local", "127.0.0.1"))}
print("ready", flush=True)
sys.stdin.readline()
for name, (client, _) in pairs.items():
    try:
        client.send(b"x")
        print(name, "open")
    except OSError:
        print(name, "closed")
"""


def test_what_was_open_over_a_taken_interface_is_closed(world, gate, held):
    g, h = gate(), held()
    for words in ("link set lo up", "link add v0 type veth peer name v1", "addr add 10.9.9.1/24 dev v0", "link set v0 up",
                  "link set v1 up"):
        h.inside("ip", *words.split())
    program = subprocess.Popen(["nsenter", "-t", str(h.pid), "-n", PYTHON, "-c", OPEN], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True, cwd="/")
    assert program.stdout.readline() == "ready\n"
    done = attach(g, h.pid, "--take")
    assert done.returncode == 0, done.stderr
    assert program.communicate("go\n", timeout=20)[0] == "foreign closed\nlocal open\n"


def test_the_hosts_own_namespace_is_refused(gate):
    g = gate()
    done = attach(g, os.getpid())
    assert done.returncode == 1 and "no network namespace of its own" in done.stderr
    assert attach(g, 999999999).returncode != 0


@pytest.mark.parametrize("uid", [0, NOBODY])
@pytest.mark.parametrize("nft", [True, False])
def test_both_families_with_and_without_nft(world, gate, held, uid, nft):
    g, h = gate(user=uid or None), held(uid=uid)
    world.forget()
    done = attach(g, h.pid, *([] if nft else ["--without-nft"]), uid=uid)
    assert done.returncode == 0, done.stderr
    for address in ("203.0.113.9", "[2001:db8::9]"):
        got = h.inside(PYTHON, "-c", GET % address)
        assert got.stdout == "fine\n", got.stderr
    targets = {"sinks": [SINK], "sinks6": [SINK6], "own": ["127.0.0.1", SINK], "ports": [*g.ports.values()]}
    done = h.inside(PYTHON, HERE / "attacks.py", "net", "root", input=json.dumps(targets))
    assert done.returncode == 0 and "ESCAPED" not in done.stdout, done
    world.check()


def test_where_the_tool_nft_is_hidden_it_goes_without(world, gate, held):
    g, h = gate(), held()
    hide = "for d in /usr/sbin /usr/bin /sbin /bin; do [ ! -e $d/nft ] || mount --bind /dev/null $d/nft; done; exec \"$@\""
    done = subprocess.run(["unshare", "-m", "sh", "-c", hide, "x", str(SANDGATE), "attach", "-c", str(g.file), "--pid", str(h.pid),
                           "--sandbox", "box", "--policy", "coding"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "without nft" in done.stdout, done
    assert h.inside(PYTHON, "-c", GET % "203.0.113.9").stdout == "fine\n"
    assert h.inside(PYTHON, "-c", GET % "203.0.113.9:4444").returncode != 0
