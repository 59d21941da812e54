"""Gateway mode: nft leads a bridge's traffic to the listeners, and nothing else passes.

A host-like namespace holds the bridge, the rules of `sandgate rules`, the gateway and the
origin.  Two sandboxes and a far network hang on it by veths; the far network is what a
packet would reach if any passed.  Each case runs for REDIRECT and TPROXY, over IPv4 and
IPv6: a rule that one family lacks is a hole (both are told apart only by addresses here).
"""
import contextlib
import ctypes
import errno
import json
import os
import select
import socket
import ssl
import struct
import subprocess
import threading

import pytest

from conftest import BIN, end_server, wait_for
from dns_gate import AAAA, A, Answer, query
from tls_world import read_refusal
from tunnel_world import Origin, echo

if os.geteuid() != 0:
    pytest.skip("only root may make namespaces with bridges", allow_module_level=True)

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
SOURCES = {"one": {4: "10.77.0.2", 6: "fd77::2"}, "two": {4: "10.77.0.3", 6: "fd77::3"}}
STRANGER = {4: "10.77.0.99", 6: "fd77::99"}
FAR = {4: "192.0.2.55", 6: "2001:db8:55::1"}      # beyond the gateway
ELSEWHERE = {4: "192.0.2.66", 6: "2001:db8:66::1"}  # nowhere at all
LITERAL = {4: "198.51.100.7", 6: "2001:db8:77::7"}  # allowed as an address
HOST = {4: "10.77.0.1", 6: "fd77::1"}
FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}
FAMILIES = pytest.mark.parametrize("family", [4, 6])


def run(*command, **kw):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True, **kw)


class Namespace:
    """A network namespace that dies with the last descriptor that holds it."""

    def __init__(self):
        opened = []

        def make():
            assert LIBC.unshare(CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
            opened.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))

        self._in_thread(make)
        self.fd = opened[0]
        self.run("ip", "link", "set", "lo", "up")

    @staticmethod
    def _in_thread(what):
        result = []

        def body():
            try:
                result.append((what(), None))
            except BaseException as e:  # handed on to the caller
                result.append((None, e))

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        value, error = result[0]
        if error is not None:
            raise error
        return value

    def do(self, what, *args, **kw):
        """what(...) with its sockets and children in here."""
        def inside():
            assert LIBC.setns(self.fd, CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
            return what(*args, **kw)
        return self._in_thread(inside)

    def run(self, *command, **kw):
        return self.do(run, *command, **kw)

    def ip(self, text):
        for line in text.strip().splitlines():
            self.run("ip", *line.split())

    def path(self):
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    def close(self):
        os.close(self.fd)


class Net:
    """The bridge, the sandboxes on it and the network beyond."""

    def __init__(self):
        self.host, self.far, self.routed = Namespace(), Namespace(), set()
        self.boxes = {name: Namespace() for name in SOURCES}
        self.host.ip("""link add br0 type bridge
            addr add 10.77.0.1/24 dev br0
            -6 addr add fd77::1/64 dev br0 nodad
            link set br0 up
            addr add 198.51.100.7/32 dev lo
            -6 addr add 2001:db8:77::7/128 dev lo""")
        for name, box in self.boxes.items():
            self.host.ip(f"link add {name} type veth peer name eth0 netns {box.path()}\n"
                         f"link set {name} master br0 up")
            box.ip(f"addr add {SOURCES[name][4]}/24 dev eth0\n"
                   f"-6 addr add {SOURCES[name][6]}/64 dev eth0 nodad\n"
                   "link set eth0 up\n"
                   "route add default via 10.77.0.1\n-6 route add default via fd77::1")
        self.boxes["one"].ip(f"addr add {STRANGER[4]}/24 dev eth0\n"
                             f"-6 addr add {STRANGER[6]}/64 dev eth0 nodad")
        self.host.ip(f"link add far type veth peer name eth0 netns {self.far.path()}\n"
                     "addr add 192.0.2.1/24 dev far\n-6 addr add 2001:db8:55::ff/64 dev far nodad\n"
                     "link set far up")
        self.far.ip(f"addr add {FAR[4]}/24 dev eth0\n-6 addr add {FAR[6]}/64 dev eth0 nodad\n"
                    "link set eth0 up\nroute add default via 192.0.2.1\n"
                    "-6 route add default via 2001:db8:55::ff")
        # The host would forward: that nothing passes is the rules' doing.
        self.host.run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward; "
                      "echo 1 >/proc/sys/net/ipv6/conf/all/forwarding")

    def socket(self, box="one", family=4, kind=socket.SOCK_STREAM, source=None):
        s = self.boxes[box].do(socket.socket, FAMILY[family], kind)
        s.settimeout(5)
        s.bind((source or SOURCES[box][family], 0))
        return s

    def connect(self, address, port, box="one", family=4, source=None):
        s = self.socket(box, family, source=source)
        s.connect((address, port))
        return s

    def mac(self, name):
        return json.loads(self.boxes[name].run("ip", "-j", "link", "show", "eth0").stdout)[0]["address"]

    def load(self, text):
        """nft's rules, and the routes that the comment below them asks for."""
        self.host.run("nft", "flush", "ruleset")
        self.host.run("nft", "-f", "-", input=text)
        for line in text.splitlines():
            if line.startswith("#   ip ") and line not in self.routed:
                self.host.run("sh", "-c", line[1:])
                self.routed.add(line)

    def close(self):
        for n in [self.host, self.far, *self.boxes.values()]:
            n.close()


@pytest.fixture(scope="module")
def net():
    made = Net()
    yield made
    made.close()


@pytest.fixture(scope="module")
def origin(net, tmp_path_factory):
    made = net.host.do(Origin, tmp_path_factory.mktemp("origin"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def banner(net):
    """A server that speaks first, on every address of the host."""
    def listen():
        s = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        return s

    server = net.host.do(listen)

    def serve():
        with contextlib.suppress(OSError):
            while True:
                conn, _ = server.accept()
                conn.sendall(b"SSH-2.0-hello\r\n")
                conn.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield server.getsockname()[1]
    end_server(server, thread)


def config(origin, banner, mode, workers=1):
    tproxy = {"tproxy": True} if mode == "tproxy" else {}
    return {
        "workers": workers,
        "timeouts": {"drain": "1s", "hello": "500ms"},
        "listeners": [
            {"name": "egress4", "kind": "transparent", "address": "0.0.0.0:15001", **tproxy},
            {"name": "egress6", "kind": "transparent", "address": "[::]:15001", **tproxy},
            {"name": "dns4", "kind": "dns", "address": "0.0.0.0:15053"},
            {"name": "dns6", "kind": "dns", "address": "[::]:15053"}],
        "resolver": {"servers": ["127.0.0.1"], "timeout": "200ms", "tries": 1,
                     "hosts": {"ok.example.test": ["127.0.0.1"], "db.example.test": ["127.0.0.1"],
                               "both.example.test": ["127.0.0.1", "::1"]}},
        "sandboxes": [{"id": name, "source": list(both.values()), "policy": "coding"}
                      for name, both in SOURCES.items()],
        "policies": {"coding": {"allow": [
            {"hosts": ["ok.example.test", "both.example.test"], "ports": [origin.port],
             "addresses": ["127.0.0.0/8", "::1/128"]},
            {"hosts": ["db.example.test"], "ports": [banner], "protocol": "tcp",
             "addresses": ["127.0.0.0/8"]},
            {"cidrs": [f"{LITERAL[4]}/32", f"{LITERAL[6]}/128"], "ports": [banner], "protocol": "tcp",
             "addresses": [f"{LITERAL[4]}/32", f"{LITERAL[6]}/128"]}]}},
    }


def rules(gate, mode, *more):
    done = gate.cli("rules", "--interface", "br0", *(["--tproxy"] if mode == "tproxy" else []), *more)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(params=["redirect", "tproxy"])
def gateway(request, gate, net, origin, banner):
    g = net.host.do(gate, config(origin, banner, request.param), listeners=())
    bridged = "0" if request.param == "tproxy" else "1"
    net.host.run("sh", "-c", f"! [ -e /proc/sys/net/bridge ] || for f in iptables ip6tables; do "
                 f"echo {bridged} >/proc/sys/net/bridge/bridge-nf-call-$f; done")
    net.load(rules(g, request.param))
    return g


def resolve(net, name, family, box="one", kind=None, server=None):
    """What DNS tells the sandbox; the question goes to a server that doesn't exist."""
    with net.socket(box, family, socket.SOCK_DGRAM) as s:
        s.connect((server or ELSEWHERE[family], 53))
        s.send(query(name, kind or {4: A, 6: AAAA}[family]))
        return Answer(s.recv(4096))


def read_all(sock):
    data = b""
    with contextlib.suppress(OSError):
        while more := sock.recv(65536):
            data += more
    return data


@FAMILIES
def test_tls_passes_by_its_name_whatever_address_it_was_sent_to(gateway, net, origin, family):
    before = origin.seen
    sock = net.connect(ELSEWHERE[family], origin.port, family=family)
    with origin.client.wrap_socket(sock, server_hostname="ok.example.test") as t:
        echo(t)
    start, = gateway.wait_rows(kind="tunnel_start")
    assert (start["sandbox"], start["listener"]) == ("one", f"egress{family}")
    assert start["host"] == f"ok.example.test:{origin.port}"
    assert start["address"] == f"127.0.0.1:{origin.port}" and origin.seen == before + 1


@FAMILIES
def test_the_address_is_no_help_to_a_name_that_no_rule_allows(gateway, net, origin, family):
    before = origin.seen
    sock = net.connect(LITERAL[family], origin.port, family=family)
    with pytest.raises(ssl.SSLError):
        origin.client.wrap_socket(sock, server_hostname="denied.example.test")
    deny, = gateway.wait_rows(kind="deny")
    assert deny["code"] == "denied_by_policy" and deny["host"].startswith("denied.example.test:")
    assert origin.seen == before


@FAMILIES
def test_plain_http_passes_by_its_host_field(gateway, net, origin, family):
    sock = net.connect(ELSEWHERE[family], origin.port, family=family)
    host = f"ok.example.test:{origin.port}"
    sock.sendall(f"GET /x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert read_all(sock).endswith(b"plain")
    request, = gateway.wait_rows(kind="request")
    assert (request["host"], request["address"]) == (host, f"127.0.0.1:{origin.port}")
    sock = net.connect(ELSEWHERE[family], origin.port, family=family)
    sock.sendall(f"GET /x HTTP/1.1\r\nHost: no.example.test:{origin.port}\r\n\r\n".encode())
    head, error = read_refusal(sock)
    assert head.startswith("HTTP/1.1 403") and error["code"] == "denied_by_policy"


@FAMILIES
def test_a_tcp_rule_is_reached_by_the_address_that_dns_told(gateway, net, banner, family):
    address, = resolve(net, "db.example.test", family).addresses
    # Whichever of its addresses the sandbox asks from.
    other = {4: 6, 6: 4}[family]
    kind = {4: A, 6: AAAA}[family]
    assert resolve(net, "db.example.test", other, kind=kind).addresses == [address]
    sock = net.connect(address, banner, family=family)
    assert read_all(sock) == b"SSH-2.0-hello\r\n"
    start, = gateway.wait_rows(kind="tunnel_start")
    assert (start["host"], start["address"]) == (f"db.example.test:{banner}", f"127.0.0.1:{banner}")
    assert start["detail"] == "tcp"
    learned = gateway.cli("learn", "--sandbox", "one").stdout
    assert "db.example.test" in learned and "protocol: tcp" in learned, learned
    # It is this sandbox's own name for it: to the other one it means nothing.
    assert read_all(net.connect(address, banner, box="two", family=family)) == b""


@FAMILIES
def test_a_tcp_rule_with_an_address_is_reached_by_it(gateway, net, banner, family):
    assert read_all(net.connect(LITERAL[family], banner, family=family)) == b"SSH-2.0-hello\r\n"
    start, = gateway.wait_rows(kind="tunnel_start")
    assert start["host"] == start["address"] and start["address"].endswith(f":{banner}")
    assert read_all(net.connect(ELSEWHERE[family], banner, family=family)) == b""


@FAMILIES
def test_dns_is_answered_by_us_whatever_server_was_asked(gateway, net, family):
    assert len(resolve(net, "both.example.test", family).addresses) == 1
    no = resolve(net, "no.example.test", family)
    assert no.rcode == 3 and no.ede is not None and no.addresses == []
    packet = query("both.example.test", {4: A, 6: AAAA}[family])
    with net.connect(ELSEWHERE[family], 53, family=family) as s:
        s.sendall(struct.pack("!H", len(packet)) + packet)
        size, = struct.unpack("!H", s.recv(2))
        assert len(Answer(s.recv(size)).addresses) == 1


@FAMILIES
def test_a_source_that_nobody_registered_gets_nothing_and_a_row(gateway, net, origin, family):
    before = origin.seen
    sock = net.connect(ELSEWHERE[family], origin.port, family=family, source=STRANGER[family])
    with pytest.raises((ssl.SSLError, OSError)):
        origin.client.wrap_socket(sock, server_hostname="ok.example.test")
    with net.socket(family=family, kind=socket.SOCK_DGRAM, source=STRANGER[family]) as s:
        s.settimeout(0.5)
        s.connect((ELSEWHERE[family], 53))
        s.send(query("ok.example.test", A))
        with contextlib.suppress(TimeoutError):
            assert Answer(s.recv(4096)).addresses == []
    row = gateway.wait_rows(kind="deny", listener=f"egress{family}")[0]
    assert (row["code"], row["detail"]) == ("unknown_sandbox", f"from {STRANGER[family]}")
    assert origin.seen == before


@FAMILIES
def test_quic_is_told_at_once_that_there_is_none(gateway, net, family):
    for target in (FAR[family], HOST[family]):
        with net.socket(family=family, kind=socket.SOCK_DGRAM) as s:
            s.settimeout(2)
            s.connect((target, 443))
            with pytest.raises(ConnectionRefusedError):
                s.send(b"x")
                s.recv(1)


def echo_request(family):
    """An ICMP socket and what a ping sends."""
    kind = {4: 8, 6: 128}[family]
    packet = struct.pack("!BBHHH", kind, 0, 0xffff - (kind << 8) - 1, 0, 1)  # sum of 16-bit words
    return {4: socket.IPPROTO_ICMP, 6: socket.IPPROTO_ICMPV6}[family], packet


def traps(net, family):
    """Sockets that become readable when something got to the far network, or to the host."""
    everywhere = {4: "0.0.0.0", 6: "::"}[family]
    made = [net.far.do(socket.socket, FAMILY[family], socket.SOCK_STREAM),
            net.far.do(socket.socket, FAMILY[family], socket.SOCK_DGRAM),
            net.far.do(socket.socket, FAMILY[family], socket.SOCK_RAW, echo_request(family)[0]),
            net.host.do(socket.socket, FAMILY[family], socket.SOCK_DGRAM)]
    if family == 6:  # only pings: neighbours talk ICMP too (ICMP6_FILTER, RFC 3542)
        passes = [0xffffffff] * 8
        passes[128 // 32] &= ~1
        made[2].setsockopt(socket.IPPROTO_ICMPV6, 1, struct.pack("8I", *passes))
    for s, port in zip((made[0], made[1], made[3]), (7000, 7001, 7002)):
        s.bind((everywhere, port))
    made[0].listen()
    return made


def knock(net, family):
    """One try of each kind, from the sandbox."""
    proto, packet = echo_request(family)
    with net.socket(family=family, kind=socket.SOCK_DGRAM) as s:
        s.sendto(b"out", (FAR[family], 7001))
        s.sendto(b"out", (HOST[family], 7002))
    with net.boxes["one"].do(socket.socket, FAMILY[family], socket.SOCK_RAW, proto) as s:
        s.bind((SOURCES["one"][family], 0))
        s.sendto(packet, (FAR[family], 0))
    return read_all(net.connect(FAR[family], 7000, family=family))


@FAMILIES
def test_nothing_is_forwarded_and_the_host_itself_is_closed(gateway, net, family):
    made = traps(net, family)
    try:
        assert knock(net, family) == b""
        assert select.select(made, [], [], 0.3)[0] == []
        # The traps do catch: without the rules all of it arrives.
        net.host.run("nft", "flush", "ruleset")
        caught = threading.Thread(target=knock, args=(net, family), daemon=True)
        caught.start()
        wait_for(lambda: len(select.select(made, [], [], 0.3)[0]) == len(made))
    finally:
        for s in made:
            s.close()


def test_three_workers_share_the_sandboxes_by_their_addresses(gate, net, origin, banner):
    g = net.host.do(gate, config(origin, banner, "redirect", 3), listeners=())
    net.load(rules(g, "redirect"))
    for _ in range(6):
        for box in SOURCES:
            for family in FAMILY:
                sock = net.connect(ELSEWHERE[family], origin.port, box=box, family=family)
                with origin.client.wrap_socket(sock, server_hostname="ok.example.test") as t:
                    echo(t)
    used = {}
    for row in g.wait_rows(24, kind="tunnel_start"):
        value = 0
        for c in row["id"].upper():
            value = value * 32 + "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(c)
        used.setdefault((row["sandbox"], row["listener"]), set()).add(value >> 16 & 0xff)
    assert len(used) == 4 and all(len(w) == 1 for w in used.values()), used
    assert len(set().union(*used.values())) > 1, used


@FAMILIES
def test_a_pinned_address_is_worth_nothing_on_another_port(gate, net, origin, banner, family):
    g = net.host.do(gate, config(origin, banner, "redirect"), listeners=())
    pins = []
    for name, both in SOURCES.items():
        pins += ["--pin", f"{name},{net.mac(name)},{both[family]}"]
    net.load(rules(g, "redirect", *pins))
    bits = {4: 24, 6: 64}[family]
    with net.connect(ELSEWHERE[family], origin.port, family=family):
        pass
    net.boxes["two"].ip(f"addr del {SOURCES['two'][family]}/{bits} dev eth0")
    net.boxes["one"].ip(f"-{family} addr add {SOURCES['two'][family]}/{bits} dev eth0" + (" nodad" if family == 6 else ""))
    try:
        with net.socket("one", family, source=SOURCES["two"][family]) as s:
            s.settimeout(1)
            with pytest.raises(OSError) as e:
                s.connect((ELSEWHERE[family], origin.port))
            assert isinstance(e.value, TimeoutError) or e.value.errno == errno.EHOSTUNREACH
    finally:
        net.boxes["one"].ip(f"addr del {SOURCES['two'][family]}/{bits} dev eth0")
        net.boxes["two"].ip(f"-{family} addr add {SOURCES['two'][family]}/{bits} dev eth0" + (" nodad" if family == 6 else ""))


@pytest.mark.parametrize("etc, told", [
    ("mount -t tmpfs -o ro none /etc", "/etc/sandgate can't be made: Read-only file system"),
    ("mount -t tmpfs none /etc && mkdir /etc/sandgate && mount -o remount,ro /etc",
     "/etc/sandgate/sidecar.yaml can't be written: Read-only file system")])
def test_a_sidecar_tells_what_the_system_refused(etc, told):
    """The first process of namespaces of its own, as in a container."""
    done = subprocess.run(["unshare", "-mnpf", "--mount-proc", "sh", "-c", f"{etc} && exec {BIN}/sandgate sidecar"],
                          env={**os.environ, "OPENSANDBOX_EGRESS_TOKEN": "t"}, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (1, "") and f"sandgate sidecar: {told}\n" in done.stderr, done
