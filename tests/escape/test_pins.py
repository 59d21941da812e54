"""Sandboxes that docker makes while the gateway runs: the locator alone, with dockerd played
by us, real bridge ports and the rules of `sandgate rules --sandboxes`.
"""
import http.server
import json
import os
import pathlib
import socket
import socketserver
import struct
import subprocess
import sys
import threading
import time

import pytest

from conftest import FLOW, SINK, SINK6, flow, run
from test_gateway import GET, LISTENERS, Box, works

sys.path.append(str(FLOW))
from role_line import STATUS, Answerer, Role, Wire, compile_file, str16  # noqa: E402

NETWORK, BRIDGE = "sgnet", "br0"
NETWORK_ID = "ab" * 32
GET6 = GET.replace("10.77.0.1", "[fd77::1]")


class Docker(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """As much of the Engine's API as one may ask; anything else is a failure of the test."""

    daemon_threads = True

    def __init__(self, path):
        self.boxes, self.wrong, self.paths = {}, [], []
        self.change = lambda what, answer: answer
        super().__init__(str(path), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, path):
        """(status, value)"""
        for upstream, box in self.boxes.items():
            cid = self.cid(upstream)
            if path == ("/containers/json?all=true&filters=%7B%22label%22%3A%5B%22opensandbox.io%2Fid%3D"
                        f"{upstream}%22%5D%7D"):
                return 200, self.change("list", [{"Id": cid, "Names": ["/x"]}])
            if path == f"/containers/{cid}/json":
                return 200, self.change("container", {
                    "Id": cid, "State": {"Running": True, "Pid": box.holder.pid},
                    "Config": {"Labels": {"opensandbox.io/id": upstream, "evil": "\"},{"}, "Env": ["A=\u2028"] * 500},
                    "NetworkSettings": {"Networks": {NETWORK: {
                        "NetworkID": NETWORK_ID, "MacAddress": box.mac, "IPAddress": box.ip,
                        "GlobalIPv6Address": box.ip.replace("10.77.0.", "fd77::")}}}})
            if path == f"/containers/{cid}/stats?stream=false&one-shot=true":
                return 200, self.change("stats", {"id": cid, "pids_stats": {"limit": 2 ** 64 - 1}, "memory_stats": {"usage": 9 << 20, "stats": {"inactive_file": 2 << 20}}})
        if path == f"/networks/{NETWORK_ID}":
            return 200, self.change("network", {"Id": NETWORK_ID, "Driver": "bridge",
                                                "Options": {"com.docker.network.bridge.name": BRIDGE}})
        if path.startswith("/containers/json?all=true&filters="):
            return 200, []
        self.wrong.append(path)
        return 404, {"message": "no"}

    @staticmethod
    def cid(upstream):
        return upstream.encode().hex().ljust(64, "0")[:64]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "unix"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.paths.append(self.path)
        status, value = self.server.answer(self.path)
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")  # as dockerd does with long ones
        self.end_headers()
        for at in range(0, len(body), 1000):
            part = body[at:at + 1000]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        self.wfile.write(b"0\r\n\r\n")


class Super(Answerer):
    """DOCKER is the one thing that the locator asks of super."""

    def __init__(self, sock, path):
        self.path = path
        super().__init__(sock)

    def heard(self, w, fds):
        w.end()
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(str(self.path))
        except OSError:
            return struct.pack("!H", STATUS.index("UPSTREAM_UNAVAILABLE")), []
        return struct.pack("!H", STATUS.index("OK")), [sock.detach()]


class Locator:
    def __init__(self, folder):
        self.path = folder / "docker.sock"
        self.docker = Docker(self.path)
        config = folder / "locator.yaml"
        config.write_text(f"exec: {{docker: {self.path}}}\nresolver: {{servers: [192.0.2.1]}}\n")
        self.role = Role("sandgate-locator", compile_file(config), ["CONTROL"])
        self.super = Super(self.role.super.sock, self.path)

    @property
    def line(self):
        return self.role.lines["CONTROL"]

    def locate(self, sandbox, upstream=None, network=NETWORK):
        body, _ = self.line.call("LOCATE", str16(sandbox) + str16(upstream or "up-" + sandbox) + str16(network))
        w = Wire(body)
        status = STATUS[w.get("H")]
        if status != "OK":
            w.end()
            return status
        found = {"container": w.str16().decode(), "port": w.str16().decode(), "mac": ":".join(f"{w.get('B'):02x}" for _ in range(6))}
        found["addrs"] = [socket.inet_ntop(socket.AF_INET if len(a) == 4 else socket.AF_INET6, a)
                          for a in (w.str16() for _ in range(w.get("B")))]
        w.end()
        return found

    def ask(self, ask, sandbox):
        w = Wire(self.line.call(ask, str16(sandbox))[0])
        status = STATUS[w.get("H")]
        w.end()
        return status

    def measure(self, upstream):
        w = Wire(self.line.call("MEASURE", str16(upstream))[0])
        status = STATUS[w.get("H")]
        octets = w.get("Q") if status == "OK" else status
        w.end()
        return octets

    def pin(self, sandbox):
        assert isinstance(self.locate(sandbox), dict)
        assert self.ask("PIN", sandbox) == "OK"

    def close(self):
        self.role.super.sock.shutdown(socket.SHUT_RDWR)  # somebody still reads from it
        self.role.close()
        self.docker.shutdown()
        self.docker.server_close()


@pytest.fixture
def pinned(world, gate, tmp_path):
    """A gateway, two containers that nobody has pinned, and the locator."""
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    boxes, locator = [], None
    try:
        run("ip", "addr", "add", "10.77.0.1/24", "dev", BRIDGE)
        run("ip", "addr", "add", "fd77::1/64", "dev", BRIDGE, "nodad")
        run("ip", "link", "set", BRIDGE, "up")
        pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        also = [{**at, "name": at["name"] + "6", "address": at["address"].replace("0.0.0.0", "[::]")} for at in LISTENERS[:2]]
        g = gate({"listeners": LISTENERS + also,
                  "sandboxes": [{"id": name, "source": [f"10.77.0.{n}", f"fd77::{n}"], "user": "u", "policy": "coding"}
                                for name, n in (("pa", 2), ("pb", 3))]})
        run("nft", "-f", "-", input=g.cli("rules", "--interface", BRIDGE, "--sandboxes", check=True).stdout)
        boxes += [Box("pa", "02:00:00:00:00:0a", "10.77.0.2"), Box("pb", "02:00:00:00:00:0b", "10.77.0.3")]
        locator = Locator(tmp_path)
        locator.docker.boxes = {"up-a": boxes[0], "up-b": boxes[1]}
        yield locator, boxes
        assert locator.docker.wrong == []
    finally:
        if locator is not None:
            locator.close()
        for b in boxes:
            b.close()
        run("ip", "link", "del", BRIDGE)
        for table in (["inet", "sandgate_gateway"], ["bridge", "sandgate_pinned"]):
            subprocess.run(["nft", "delete", "table", *table], capture_output=True)


def quickly(box, code=GET):
    return box.python(code.replace("timeout=6", "timeout=2")).stdout == "fine\n"


def elements(name):
    said = json.loads(run("nft", "-j", "list", "set", "bridge", "sandgate_pinned", name).stdout)
    return [e for thing in said["nftables"] if "set" in thing for e in thing["set"].get("elem", [])]


SETS = ("pinned4", "pinned6", "ports", "names", "macs")


def test_a_container_reaches_nothing_before_it_is_pinned_and_the_gateway_alone_afterwards(world, pinned):
    locator, (a, b) = pinned
    world.forget()
    assert not quickly(a) and not quickly(a, GET6)
    assert locator.locate("a") == {"container": Docker.cid("up-a"), "port": "pa", "mac": "02:00:00:00:00:0a",
                                   "addrs": ["10.77.0.2", "fd77::2"]}
    assert not quickly(a), "to be found is not to be pinned"
    assert locator.ask("PIN", "a") == "OK"
    flow.wait_for(lambda: works(a))
    assert quickly(a, GET6)
    assert not quickly(b)
    for sink in (SINK, SINK6):
        family = "AF_INET6" if ":" in sink else "AF_INET"
        code = f"import socket; s = socket.socket(socket.{family}, socket.SOCK_DGRAM); s.sendto(b'x', ('{sink}', 4444))"
        a.python(code)
        a.python(f"import socket; s = socket.socket(socket.{family}); s.settimeout(2); s.connect(('{sink}', 4444))")
    world.check()
    assert locator.ask("UNPIN", "a") == "OK"
    assert locator.ask("UNPIN", "a") == "NOT_FOUND"
    assert not quickly(a) and not quickly(a, GET6)
    assert [elements(name) for name in SETS] == [[]] * 5
    assert "PERMANENT" not in run("ip", "neigh", "show", "dev", BRIDGE).stdout


def test_the_address_or_the_mac_of_another_is_of_no_use(world, pinned):
    locator, (a, b) = pinned
    locator.pin("a")
    locator.pin("b")
    flow.wait_for(lambda: works(a) and works(b))
    world.forget()
    a.inside("ip", "addr", "add", "10.77.0.3/24", "dev", "eth0")
    a.inside("ip", "addr", "add", "fd77::3/64", "dev", "eth0", "nodad")
    borrowed = "import socket as s\n_c = s.create_connection\ns.create_connection = lambda a, *r, **k: _c(a, 2, source_address=(SOURCE, 0))\n"
    for source, code in (("10.77.0.3", GET), ("fd77::3", GET6)):
        assert a.python(borrowed.replace("SOURCE", repr(source)) + code).stdout == "", source
    # An announcement of the neighbour's address is not believed, and reaches nobody.
    a.inside("ping", "-c1", "-W1", "-I", "10.77.0.3", "10.77.0.1", check=False)
    seen = run("ip", "neigh", "show", "dev", BRIDGE).stdout
    assert "10.77.0.3 lladdr 02:00:00:00:00:0b PERMANENT" in seen
    assert "fd77::3 lladdr 02:00:00:00:00:0b PERMANENT" in seen
    assert works(b)
    a.inside("ip", "addr", "del", "10.77.0.3/24", "dev", "eth0")
    a.inside("ip", "link", "set", "eth0", "address", "02:00:00:00:00:0b")
    assert not quickly(a), "another MAC"
    assert works(b)


def test_frames_that_no_rule_sees_do_not_draw_the_traffic_of_another(world, pinned):
    """A bridge learns from them where a MAC is."""
    locator, (a, b) = pinned
    locator.pin("a")
    locator.pin("b")
    flow.wait_for(lambda: works(a) and works(b))
    learned = "import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('eth0', 0)); [s.send(bytes([1, 128, 194, 0, 0, n]) + bytes([2, 0, 0, 0, 0, 11]) + b'\\x88\\xcc' + bytes(46)) for n in range(16)]"
    assert a.python(learned).stderr == ""
    assert "02:00:00:00:00:0b dev pb" in run("bridge", "fdb", "show", "br", BRIDGE).stdout
    assert works(b)
    assert locator.ask("UNPIN", "b") == "OK"
    assert "sticky" not in "".join(line for line in run("bridge", "fdb", "show", "br", BRIDGE).stdout.splitlines() if "0b dev" in line)


def test_one_that_is_not_pinned_takes_nothing_from_one_that_is(pinned):
    locator, (a, b) = pinned
    locator.pin("a")
    flow.wait_for(lambda: works(a))
    b.inside("ip", "link", "set", "eth0", "address", "02:00:00:00:00:0a")
    b.inside("ip", "addr", "add", "10.77.0.2/24", "dev", "eth0")
    borrowed = "import socket as s\n_c = s.create_connection\ns.create_connection = lambda a, *r, **k: _c(a, 2, source_address=('10.77.0.2', 0))\n"
    assert b.python(borrowed + GET).stdout == ""
    assert works(a)
    # Nor do neighbours see each other.
    code = "import socket; s = socket.socket(); s.settimeout(2); print(s.connect_ex(('10.77.0.3', 9)))"
    assert a.python(code).stdout.strip() != "111", "a refusal would have come from the neighbour"


def test_what_was_pinned_is_nobodys_for_a_new_control(pinned):
    locator, (a, b) = pinned
    locator.pin("a")
    flow.wait_for(lambda: works(a))
    locator.role.lines["CONTROL"] = locator.role.new_line("CONTROL")
    flow.wait_for(lambda: elements("pinned4") == [])
    assert not quickly(a)
    assert locator.ask("PIN", "a") == "NOT_FOUND"
    locator.pin("a")
    assert works(a)


def test_a_container_that_came_back_elsewhere_is_pinned_there_alone(pinned):
    locator, (a, b) = pinned
    locator.pin("a")
    locator.docker.boxes = {"up-a": b}
    locator.pin("a")
    assert works(b) and not quickly(a)
    assert len(elements("pinned4")) == 1


@pytest.mark.parametrize(("what", "change", "status"), [
    ("list", lambda v: [], "NOT_FOUND"),
    ("list", lambda v: v * 2, "CONFLICT"),
    ("list", lambda v: [{"Id": "../" + "a" * 61}], "UPSTREAM_BAD"),
    ("list", lambda v: b"[" * 5000, "UPSTREAM_BAD"),
    ("container", lambda v: {**v, "Id": "0" * 64}, "UPSTREAM_BAD"),
    ("container", lambda v: {**v, "State": {"Running": False, "Pid": 0}}, "NOT_FOUND"),
    ("container", lambda v: {**v, "State": {"Running": True, "Pid": 1}}, "UPSTREAM_BAD"),
    ("container", lambda v: {**v, "State": {"Running": True, "Pid": os.getpid()}}, "NOT_FOUND"),
    ("container", lambda v: {**v, "NetworkSettings": {"Networks": {}}}, "NOT_FOUND"),
    ("container", lambda v: {**v, "Config": {"Labels": {"opensandbox.io/id": "up-b"}}}, "UPSTREAM_BAD"),
    ("container", lambda v: b'{"Id":"a","Id":"b"}', "UPSTREAM_BAD"),
    ("container", lambda v: {**v, "Config": {**v["Config"], "Env": ["x" * 1100000]}}, "TOO_BIG"),
    ("network", lambda v: {**v, "Options": {"com.docker.network.bridge.name": "lo"}}, "NOT_FOUND"),
    ("network", lambda v: {**v, "Options": {"com.docker.network.bridge.name": "a\" drop"}}, "UPSTREAM_BAD"),
    ("network", lambda v: {**v, "Driver": "macvlan"}, "UPSTREAM_BAD"),
])
def test_what_docker_says_is_checked(pinned, what, change, status):
    locator, _ = pinned
    locator.docker.change = lambda asked, value: change(value) if asked == what else value
    assert locator.locate("a") == status
    locator.docker.change = lambda asked, value: value
    assert isinstance(locator.locate("a"), dict), "the next question is a new one"


def test_only_names_are_asked_for(pinned):
    locator, _ = pinned
    for upstream, network in (("a/../b", NETWORK), ("a b", NETWORK), ("a", "x/y"), ("", NETWORK), (".", NETWORK), ("a%22", NETWORK)):
        assert locator.locate("s", upstream or " ", network) == "BAD_PARAMETER"
    assert locator.docker.paths == []
    assert locator.locate("nobody") == "NOT_FOUND"


def test_what_a_container_holds_is_told_of_that_one_alone(pinned):
    locator, _ = pinned
    assert locator.measure("up-a") == locator.measure("up-b") == 7 << 20
    assert locator.measure("up-c") == "NOT_FOUND"
    assert locator.measure("../x") == locator.measure("") == "BAD_PARAMETER"
    for answer, status in (({"id": "00", "memory_stats": {"usage": 1}}, "UPSTREAM_BAD"), ({"memory_stats": {}}, "UPSTREAM_BAD"),
                           (b"{", "UPSTREAM_BAD"), (b"[" * 100000, "UPSTREAM_BAD")):
        locator.docker.change = lambda what, was, answer=answer: answer if what == "stats" else was
        assert locator.measure("up-a") == status, answer
    locator.docker.change = lambda what, was: was
    locator.pin("a")
    assert locator.measure("up-a") == 7 << 20


def test_a_docker_that_measures_nothing_keeps_no_sandbox_from_its_way_out(pinned):
    locator, (a, _) = pinned
    go = threading.Event()
    locator.docker.change = lambda what, was: was if what != "stats" else go.wait(30) and was
    try:
        begun = time.monotonic()
        asked = [locator.line.send("MEASURE", str16("up-b")) for _ in range(80)]
        locator.pin("a")
        assert time.monotonic() - begun < 2, "none of them was waited for"
        assert works(a)
        said = [STATUS[Wire(locator.line.answer(seq)[0]).get("H")] for seq in asked]
        assert time.monotonic() - begun < 4, "nobody waits for what is told later"
    finally:
        go.set()
    assert set(said) == {"UPSTREAM_TIMEOUT", "LIMIT_RATE"}
    locator.docker.change = lambda what, was: was
    assert locator.measure("up-a") == 7 << 20
