"""Gateway mode: root in a container-like namespace on a bridge whose rules are ours."""
import json
import os
import socket
import subprocess
import time

import pytest

from conftest import CONFIG, HERE, SANDGATE, SINK, SINK6, flow, run

PYTHON = "/usr/bin/python3"
LISTENERS = [{"name": "egress", "kind": "transparent", "address": "0.0.0.0:15001"},
             {"name": "dns", "kind": "dns", "address": "0.0.0.0:15053"},
             {"name": "proxy", "kind": "proxy", "address": "127.0.0.1:13128"}]


class Box:
    """A namespace with one veth to the bridge; inside, root does as it likes."""

    def __init__(self, port, mac, ip):
        self.port, self.mac, self.ip = port, mac, ip
        self.holder = subprocess.Popen(["unshare", "-n", "sleep", "3600"])
        flow.wait_for(lambda: os.readlink(f"/proc/{self.holder.pid}/ns/net") != os.readlink("/proc/self/ns/net"))
        run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "address", mac, "netns", str(self.holder.pid))
        run("ip", "link", "set", port, "master", "br0", "up")
        for words in (["link", "set", "lo", "up"], ["link", "set", "eth0", "up"], ["addr", "add", ip + "/24", "dev", "eth0"],
                      ["addr", "add", ip.replace("10.77.0.", "fd77::") + "/64", "dev", "eth0", "nodad"],
                      ["route", "add", "default", "via", "10.77.0.1"], ["-6", "route", "add", "default", "via", "fd77::1"]):
            self.inside("ip", *words)

    def inside(self, *words, check=True, **kw):
        return subprocess.run(["nsenter", "-t", str(self.holder.pid), "-n", "unshare", "-m", "-p", "-f", "--mount-proc", *[str(w) for w in words]],
                              check=check, capture_output=True, text=True, timeout=170, **kw)

    def python(self, code):
        return self.inside(PYTHON, "-c", code, check=False)

    def close(self):
        self.holder.kill()
        self.holder.wait()
        subprocess.run(["ip", "link", "del", self.port], capture_output=True)


@pytest.fixture
def bridge(world, gate):
    run("ip", "link", "add", "br0", "type", "bridge")
    boxes = []
    try:
        run("ip", "addr", "add", "10.77.0.1/24", "dev", "br0")
        run("ip", "addr", "add", "fd77::1/64", "dev", "br0", "nodad")
        run("ip", "link", "set", "br0", "up")
        with open("/proc/sys/net/ipv4/ip_forward", "w") as f:
            f.write("1")  # as on a docker host
        boxes += [Box("pa", "02:00:00:00:00:0a", "10.77.0.2"), Box("pb", "02:00:00:00:00:0b", "10.77.0.3")]
        g = gate({"listeners": LISTENERS, "sandboxes": [{"id": b.port, "source": b.ip, "user": "u", "policy": "coding"} for b in boxes]})
        pins = [w for b in boxes for w in ("--pin", f"{b.port},{b.mac},{b.ip}")]
        rules = g.cli("rules", "--interface", "br0", *pins, check=True).stdout
        run("nft", "-f", "-", input=rules)
        yield g, boxes
    finally:
        for b in boxes:
            b.close()
        run("ip", "link", "del", "br0")
        for table in (["inet", "sandgate_gateway"], ["bridge", "sandgate_pins"]):
            subprocess.run(["nft", "delete", "table", *table], capture_output=True)


GET = ("import urllib.request as u; o = u.build_opener(u.ProxyHandler({})); "
       "r = u.Request('http://10.77.0.1/', headers={'Host': 'ok.example.test'}); print(o.open(r, timeout=6).read().decode())")


def works(box):
    return box.python(GET).stdout == "fine\n"


def test_nothing_gets_out_of_a_bridged_namespace(world, bridge):
    g, (a, b) = bridge
    flow.wait_for(lambda: works(a))
    host = socket.create_server(("10.77.0.1", 7001))
    neighbour = subprocess.Popen(["nsenter", "-t", str(b.holder.pid), "-n", PYTHON, "-c",
                                  "import socket, select\nt = socket.create_server(('10.77.0.3', 4444)); u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                                  "u.bind(('', 4444))\nprint('up', flush=True)\nprint('REACHED' if select.select([t, u], [], [], 100)[0] else '')"],
                                 stdout=subprocess.PIPE, text=True)
    assert neighbour.stdout.readline() == "up\n"
    world.forget()
    targets = {"sinks": [SINK, "203.0.113.1"], "sinks6": [SINK6, "fd77::1"], "own": ["10.77.0.1", "127.0.0.1"],
               "ports": [15001, 15053, 13128, 7001], "neighbour": "10.77.0.3"}
    done = a.inside(PYTHON, HERE / "attacks.py", "net", check=False, input=json.dumps(targets))
    assert done.returncode == 0, done.stderr
    assert "ESCAPED" not in done.stdout, done.stdout
    host.settimeout(0.1)
    with pytest.raises(TimeoutError):
        host.accept()
    host.close()
    assert neighbour.poll() is None
    neighbour.kill()
    neighbour.wait()
    world.check()
    assert works(a)


def test_without_the_rules_the_same_attacks_do_get_out(world, bridge):
    """So the sinks and counters of the other tests can see what they look for."""
    g, (a, b) = bridge
    for table in (["inet", "sandgate_gateway"], ["bridge", "sandgate_pins"]):
        run("nft", "delete", "table", *table)
    world.forget()
    targets = {"sinks": [SINK], "sinks6": [SINK6], "own": [], "ports": [], "neighbour": "10.77.0.3"}
    a.inside(PYTHON, HERE / "attacks.py", "net", input=json.dumps(targets))
    reached = {name for name, _ in world.sink.got}
    assert {f"{SINK} 4444", f"{SINK} 443", f"{SINK6} 4444"} <= reached


def test_another_address_or_mac_is_nobody(world, bridge):
    g, (a, b) = bridge
    flow.wait_for(lambda: works(a) and works(b))
    world.forget()
    before = len(g.rows())
    a.inside("ip", "addr", "add", "10.77.0.3/24", "dev", "eth0")
    assert not a.python(GET.replace("import urllib", "import socket; old = socket.create_connection; socket.create_connection = "
                                    "lambda a, timeout=6, source_address=None, **k: old(a, timeout, ('10.77.0.3', 0))\nimport urllib")).stdout
    a.inside("ip", "addr", "del", "10.77.0.3/24", "dev", "eth0")
    a.inside("ip", "link", "set", "eth0", "address", "02:00:00:00:00:0c")
    a.inside("ip", "route", "replace", "default", "via", "10.77.0.1")
    assert not works(a)
    world.check()
    assert works(b)
    assert not [r for r in g.rows()[before:] if r.get("sandbox") == "pb" and r["kind"] == "deny"]
    a.inside("ip", "link", "set", "eth0", "address", a.mac)
    a.inside("ip", "route", "replace", "default", "via", "10.77.0.1")
    flow.wait_for(lambda: works(a))


def test_an_unregistered_source_is_denied(world, bridge):
    g, (a, b) = bridge
    flow.wait_for(lambda: works(a))
    world.forget()
    g.reload({"resolver": {"servers": [f"{world.dns.address}:{world.dns.port}"]}, **CONFIG, "listeners": LISTENERS,
              "sandboxes": [{"id": "pb", "source": b.ip, "user": "u", "policy": "coding"}]})
    assert not works(a)
    world.check()
    assert works(b)


def test_when_the_gateway_is_down_nothing_passes(world, bridge):
    g, (a, b) = bridge
    flow.wait_for(lambda: works(a))
    world.forget()
    g.kill()
    time.sleep(0.5)
    assert not works(a) and not works(b)
    world.check()


def test_nobody_outside_can_dial_in(world, bridge):
    g, (a, b) = bridge
    inside = subprocess.Popen(["nsenter", "-t", str(a.holder.pid), "-n", PYTHON, "-c",
                               "import socket\ns = socket.create_server(('', 8080)); s.settimeout(8)\nprint('up', flush=True)\n"
                               "c, _ = s.accept(); c.sendall(b'leak'); print('REACHED')"], stdout=subprocess.PIPE, text=True)
    assert inside.stdout.readline() == "up\n"
    assert not b.python("import socket; print(socket.create_connection(('10.77.0.2', 8080), 2).recv(9))").stdout
    inside.kill()
    inside.wait()
