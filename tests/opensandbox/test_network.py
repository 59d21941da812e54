"""Sandboxes on a docker network that the gateway stands in front of: real dockerd, a real
server, pins made by the locator.
"""
import json
import subprocess
import time

import packages
import pytest
import real_stack
from conftest import absent
from front import IMAGE

NETWORK, PORT = "sgbr0", 18090
CALL = """
import json, sys, urllib.request as u, urllib.error
method, url, key, body = sys.argv[1:5]
r = u.Request(url, body.encode() or None, {'OPEN-SANDBOX-API-KEY': key, 'Content-Type': 'application/json'}, method=method)
try:
    a = u.build_opener(u.ProxyHandler({})).open(r, timeout=60)
except urllib.error.HTTPError as e:
    a = e
print(json.dumps([a.status, a.read().decode()]))
"""
INSIDE = """
import socket, sys, urllib.request as u
def get(host, at):
    r = u.Request('http://%s/' % at, headers={'Host': host})
    try:
        return u.build_opener(u.ProxyHandler({})).open(r, timeout=4).read().decode().strip()
    except Exception as e:
        return getattr(e, 'code', None) or 'nothing'
def udp(at, port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2)
    try:
        s.sendto(b'x', (at, port)); return s.recv(10).decode()
    except OSError:
        return 'nothing'
print([get('ok.example.test', sys.argv[1]), get('no.other.test', sys.argv[1]), udp(sys.argv[1], 4444)])
"""
WEB = """
import http.server, socket, threading
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header('Content-Length', '5'); self.end_headers(); self.wfile.write(b'fine\\n')
    def log_message(self, *_): pass
def echo():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('0.0.0.0', 4444))
    while True: s.sendto(b'escaped', s.recvfrom(10)[1])
threading.Thread(target=echo, daemon=True).start()
http.server.HTTPServer(('127.0.0.1', 80), H).serve_forever()
"""


@pytest.fixture(scope="module")
def networked(shelf):
    why = real_stack.why_not()
    for name in ("venv", "image"):
        if why is None and isinstance(shelf.get(name), packages.Missing):
            why = shelf[name]
    if why is not None:
        absent("real OpenSandbox on a named network", why)
    with real_stack.RealStack({"standard": "runc"}, network=NETWORK) as stack:
        web = stack.popen([packages.PYTHON, "-c", WEB])
        try:
            yield stack
        finally:
            real_stack.end(web)


@pytest.fixture(scope="module")
def fronted(networked, front_for_all):
    server = networked.servers["standard"]
    front = front_for_all({"standard": (server.url, server.key)}, around=networked.inside(), more={
        "servers": [{"name": "standard", "url": server.url, "key": "opensandbox/standard", "tier": "standard", "network": NETWORK,
                     "endpoints": ["127.0.0.0/8", "172.16.0.0/12"], "addresses": ["127.0.0.0/8"]}],
        "listeners": [{"name": "exec", "kind": "opensandbox", "address": f"127.0.0.1:{PORT}"}, {"name": "egress", "kind": "transparent", "address": "0.0.0.0:15001"},
                      {"name": "dns", "kind": "dns", "address": "0.0.0.0:15053"}],
        "resolver": {"hosts": {"ok.example.test": ["127.0.0.1"]}},
        "exec": {"docker": str(networked.folder / "docker.sock")}})
    rules = front.must("rules", "--interface", NETWORK, "--sandboxes")
    networked.run(["nft", "-f", "-"], input=rules, text=True)
    return front


def ask(stack, front, method, path, body=""):
    """From inside of the namespace that all of it lives in."""
    done = stack.run([packages.PYTHON, "-c", CALL, method, f"http://127.0.0.1:{PORT}{path}", front.key, body],
                     capture_output=True, text=True, timeout=90)
    return json.loads(done.stdout)


def gateway_of(stack):
    said = json.loads(stack.docker("network", "inspect", NETWORK).stdout)
    return said[0]["IPAM"]["Config"][0]["Gateway"]


def container_of(stack, front, made):
    """docker's id of the only sandbox that runs."""
    ids = stack.docker("ps", "-q", "--no-trunc", "--filter", "label=opensandbox.io/id").stdout.split()
    assert len(ids) == 1, (ids, made, front.gate.text_of_log()[-2000:])
    return ids[0]


def inside(stack, cid, *words):
    pid = stack.docker("inspect", "-f", "{{.State.Pid}}", cid).stdout.strip()
    done = subprocess.run(["nsenter", "-t", pid, "-n", *words], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() or done.stderr[-500:]


def reached(stack, cid):
    return inside(stack, cid, "/usr/bin/python3", "-c", INSIDE, gateway_of(stack))


def pinned(stack):
    said = json.loads(stack.run(["nft", "-j", "list", "set", "bridge", "sandgate_pinned", "pinned4"], capture_output=True, text=True).stdout)
    return [e for thing in said["nftables"] if "set" in thing for e in thing["set"].get("elem", [])]


def test_a_created_sandbox_reaches_what_its_policy_allows_and_nothing_else(networked, fronted):
    status, made = ask(networked, fronted, "POST", "/v1/sandboxes", json.dumps({
        "image": {"uri": IMAGE}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 600,
        "resourceLimits": {"cpu": "1", "memory": "256Mi"}}))
    assert status == 202, (made, fronted.gate.text_of_log()[-3000:])
    assert len(pinned(networked)) == 1, fronted.gate.text_of_log()[-3000:]
    cid = container_of(networked, fronted, made)
    # At once: who is told of it finds it pinned.
    assert reached(networked, cid) == "['fine', 403, 'nothing']", fronted.gate.text_of_log()[-3000:]
    # Another MAC or address is nobody's.
    mac = json.loads(inside(networked, cid, "ip", "-j", "link", "show", "eth0"))[0]["address"]
    inside(networked, cid, "ip", "link", "set", "eth0", "address", "02:42:ac:99:99:99")
    assert "fine" not in reached(networked, cid)
    inside(networked, cid, "ip", "link", "set", "eth0", "address", mac)
    assert reached(networked, cid) == "['fine', 403, 'nothing']"
    # One that docker started by itself is nobody's.
    other = networked.docker("run", "-d", "--network", NETWORK, real_stack.BASE, "sleep", "600").stdout.strip()
    try:
        assert "fine" not in reached(networked, other) and "403" not in reached(networked, other)
    finally:
        networked.docker("rm", "-f", other)
    assert ask(networked, fronted, "DELETE", f"/v1/sandboxes/{json.loads(made)['id']}")[0] == 204
    end = time.monotonic() + 20
    while pinned(networked) and time.monotonic() < end:
        time.sleep(0.1)
    assert pinned(networked) == []
