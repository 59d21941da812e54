"""The dialer as its neighbours see it: DIAL and RESOLVE against resolvers that lie.

Runs in a network namespace of its own where every address is local: one server on all of
them writes down which address was really dialled.  That list is the oracle.
"""
import collections
import ctypes
import os
import pathlib
import select
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mmdb  # noqa: E402
from conftest import end_server  # noqa: E402
from fake_dns import FakeDns  # noqa: E402
from role_line import NONE, STATUS, Role, Wire, compile_file, str16  # noqa: E402

CLONE_NEWNET = 0x40000000
WAY_ANY, WAY_TCP = 0, 3
PUBLIC, PUBLIC_TOO, PUBLIC6 = "93.184.216.34", "93.184.216.35", "2606:2800:220:1::1"
SANDBOX = "127.0.0.5"
PORT = 443

CONFIG = """
listeners:
  - {{name: proxy, kind: proxy, address: "127.0.0.1:3128"}}
  - {{name: wide, kind: transparent, address: "0.0.0.0:15001"}}
resolver: {{servers: [{servers}], timeout: {timeout}, tries: 2, ttl_min: {ttl_min}, ttl_max: 300s, hosts: {{pinned.test: [93.184.216.40], inside.test: [10.9.9.9]}}}}
timeouts: {{connect: {connect}}}
{extra}
sandboxes:
  - {{id: demo, source: 127.0.0.5, user: alice, agent: coder, session: s1, policy: p}}
  - {{id: other, source: 93.184.216.99, user: bob, agent: coder, session: s2, policy: p}}
policies:
  p:
    allow:
      - {{hosts: [ok.test, "*.ok.test", pinned.test, inside.test], ports: [443]}}
      - {{hosts: [self.test], ports: [443, 3128, 15001], addresses: ["127.0.0.0/8"]}}
      - {{hosts: [private.test], ports: [443], addresses: ["10.0.0.0/8"]}}
      - {{hosts: [db.test], ports: [5432], protocol: tcp}}
{rules}      - {{cidrs: ["93.184.216.0/24"], ports: [443], protocol: tcp}}
    deny:
      - {{hosts: [bad.ok.test]}}
{connectors}"""


@pytest.fixture(scope="module")
def network():
    if os.geteuid() != 0:
        pytest.skip("a network namespace of its own needs root here")
    libc = ctypes.CDLL(None, use_errno=True)
    old = os.open("/proc/self/ns/net", os.O_RDONLY)
    if libc.unshare(CLONE_NEWNET) != 0:
        pytest.skip("no network namespaces here")
    for command in ("link set lo up", "route add local default dev lo",
                    "-6 route add local default dev lo", f"-6 addr add {PUBLIC6}/128 dev lo nodad"):
        subprocess.run(["ip", *command.split()], check=True)
    yield
    libc.setns(old, CLONE_NEWNET)
    os.close(old)


class Sink:
    """Accepts on every address of one port and remembers which was dialled."""

    def __init__(self, port=PORT):
        self.dialled = []
        self.sock = socket.create_server(("::", port), family=socket.AF_INET6, backlog=1024,
                                         dualstack_ipv6=True)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while True:
            try:
                conn, _ = self.sock.accept()
            except OSError:
                return
            self.dialled.append(conn.getsockname()[0].removeprefix("::ffff:"))
            conn.close()

    def close(self):
        end_server(self.sock, self.thread)


@pytest.fixture(scope="module")
def sink(network):
    made = Sink()
    yield made
    made.close()


class Gate:
    def __init__(self, tmp_path, dns, **more):
        self.tmp_path = tmp_path
        self.role = Role("sandgate-dialer", self.image(dns, **more),
                         ["WORKER", "DNS", "CONTROL", "CONNECTOR"])
        self.listener = socket.create_server(("127.0.0.1", 0))

    def image(self, dns, extra="", rules="", ttl_min="5s", connect="5s", timeout="300ms",
              connectors=""):
        servers = ", ".join(f'"{d.address}:{d.port}"' for d in dns)
        path = self.tmp_path / "sandgate.yaml"
        path.write_text(CONFIG.format(servers=servers, extra=extra, rules=rules,
                                      ttl_min=ttl_min,
                                      connect=connect, timeout=timeout, connectors=connectors))
        return compile_file(path)

    def accepted(self, source=SANDBOX):
        """(the sandbox's end, the worker's end)"""
        client = socket.create_connection(self.listener.getsockname(),
                                          source_address=(source, 0))
        return client, self.listener.accept()[0]

    def ask(self, host, port=PORT, way=WAY_ANY, fd=None, line=None):
        body = str16(host) + struct.pack("!HB", port, way)
        return (line or self.role.lines["WORKER"]).send("DIAL", body, [fd])

    def hear(self, seq, line=None):
        body, fds = (line or self.role.lines["WORKER"]).answer(seq)
        wire = Wire(body)
        got = {"status": STATUS[wire.get("H")], "rule": wire.get("I"),
               "address": wire.str16().decode(), "country": wire.str16().decode(),
               "attempts": wire.get("B"), "via": wire.get("B")}
        wire.end()
        assert len(fds) == (got["status"] == "OK")
        got["peer"] = None
        if fds:
            with socket.socket(fileno=fds[0]) as sock:
                got["peer"] = sock.getpeername()[0]
        return got

    def fetch(self, connector, host, port=PORT, source=SANDBOX):
        """source None: the connector's own business."""
        line = self.role.lines["CONNECTOR"]
        body = str16(connector) + str16(host) + struct.pack("!H", port)
        if source is None:
            return self.hear(line.send("FETCH", body), line)
        client, worker = self.accepted(source)
        with client, worker:
            return self.hear(line.send("FETCH", body, [worker.fileno()]), line)

    def dial(self, host, port=PORT, way=WAY_ANY, source=SANDBOX):
        client, worker = self.accepted(source)
        with client, worker:
            return self.hear(self.ask(host, port, way, worker.fileno()))

    def resolve(self, name, want=1, handle=1, generation=None):
        body, _ = self.role.lines["DNS"].call(
            "RESOLVE", struct.pack("!IQ", handle, generation or self.role.generation) + str16(name) + struct.pack("!B", want))
        wire = Wire(body)
        status, ttl, count = STATUS[wire.get("H")], wire.get("I"), wire.get("B")
        addrs = [socket.inet_ntop(socket.AF_INET if want == 1 else socket.AF_INET6,
                                  wire.str16()) for _ in range(count)]
        wire.end()
        return status, ttl, addrs

    def close(self):
        self.listener.close()
        assert self.role.is_alive()
        assert self.role.close() == 0


@pytest.fixture
def gate(network, tmp_path):
    """Makes gates; each must still be alive at the end and end cleanly."""
    made = []

    def make(*dns, **more):
        made.append(Gate(tmp_path, dns, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_the_answer_is_a_socket_to_the_address_that_was_resolved(gate, sink):
    with FakeDns({"ok.test": {"A": [PUBLIC]}}) as dns:
        got = gate(dns).dial("ok.test")
    assert got["status"] == "OK" and got["peer"] == PUBLIC
    assert got["address"] == f"{PUBLIC}:443" and got["attempts"] == 1 and got["via"] == 0
    assert got["rule"] != NONE


def test_ipv6_goes_first_and_ipv4_is_tried_when_it_is_refused(gate, sink):
    with FakeDns({"ok.test": {"A": [PUBLIC], "AAAA": [PUBLIC6]},
                  "half.ok.test": {"A": [PUBLIC], "AAAA": ["fd00::1", "::1"]}}) as dns:
        one = gate(dns)
        assert one.dial("ok.test")["peer"] == PUBLIC6
        assert one.dial("half.ok.test")["peer"] == PUBLIC


def test_a_denied_name_causes_no_packet(gate, sink):
    with FakeDns({"*.test": {"A": [PUBLIC]}}) as dns:
        one = gate(dns)
        before = len(sink.dialled)
        for host, port, status in (("evil.test", 443, "DENIED"), ("bad.ok.test", 443, "DENIED_RULE"),
                                   ("ok.test", 80, "DENIED_PORT"), ("a..test", 443, "BAD_HOST"),
                                   ("0x7f.1", 443, "IP_NONSTANDARD"), ("ok.test%00", 443, "BAD_HOST"),
                                   ("10.0.0.1", 443, "IP_LITERAL")):
            assert one.dial(host, port)["status"] == status, host
        assert one.resolve("evil.test")[0] == "DENIED"
        assert one.resolve("bad.ok.test")[0] == "DENIED_RULE"
        assert dns.queries == [] and len(sink.dialled) == before


CONNECTORS = """
connectors:
  - {name: tracker, hosts: [tracker.test], auth: {kind: bearer, secret: t}, allow: [{methods: [GET]}]}
  - {name: inner, hosts: [inner.test], addresses: ["10.0.0.0/8"], auth: {kind: oauth2_client_credentials, secret: t,
     client_id: c, token_url: "https://idp.test/t"}, allow: [{methods: [GET]}]}
  - {name: other, group: another, hosts: [other.test], auth: {kind: bearer, secret: t}, allow: [{methods: [GET]}]}
  - {name: unused, hosts: [unused.test], auth: {kind: bearer, secret: t}, allow: [{methods: [GET]}]}
"""


def test_a_connector_reaches_what_it_is_for_and_nothing_else(gate, sink):
    with FakeDns({"*.test": {"A": [PUBLIC]}, "tracker.test": {"A": [PUBLIC]}, "idp.test": {"A": [PUBLIC_TOO]},
                  "inner.test": {"A": ["10.1.2.3"]}, "private.test": {"A": ["10.1.2.3"]}}) as dns:
        one = gate(dns, extra=CONNECTORS, connectors="    connectors: [tracker, inner]\n")
        assert one.fetch("tracker", "tracker.test", source=None)["peer"] == PUBLIC
        assert one.fetch("tracker", "ok.test", source=None)["status"] == "DENIED"
        assert one.fetch("tracker", "tracker.test", 444, source=None)["status"] == "DENIED"
        assert one.fetch("inner", "inner.test", source=None)["peer"] == "10.1.2.3"
        assert one.fetch("inner", "idp.test", source=None)["peer"] == PUBLIC_TOO
        assert one.fetch("nosuch", "tracker.test", source=None)["status"] == "DENIED"
        # Another group's connector is another process's.
        assert one.fetch("other", "other.test", source=None)["status"] == "DENIED"
        # For a sandbox: only if its policy lists the connector.
        assert one.fetch("tracker", "tracker.test")["peer"] == PUBLIC
        assert one.fetch("unused", "unused.test", source=None)["peer"] == PUBLIC
        assert one.fetch("unused", "unused.test")["status"] == "DENIED"
        assert one.fetch("tracker", "tracker.test", source="127.0.0.9")["status"] == "UNKNOWN_SANDBOX"
        # A worker has no business there.
        assert one.dial("tracker.test")["status"] == "NEEDS_CONNECTOR"


def test_who_holds_no_socket_of_a_sandbox_gets_nothing(gate, sink):
    with FakeDns({"ok.test": {"A": [PUBLIC]}}) as dns:
        one = gate(dns)
        assert one.dial("ok.test", source="127.0.0.6")["status"] == "UNKNOWN_SANDBOX"
        for sock in (one.listener, socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
                     socket.socketpair()[0]):
            assert one.hear(one.ask("ok.test", fd=sock.fileno()))["status"] == "UNKNOWN_SANDBOX"
        assert dns.queries == []


FORBIDDEN = ["127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "169.254.1.1",
             "0.0.0.0", "0.1.2.3", "198.18.0.1", "192.0.2.1", "224.0.0.1", "240.0.0.1",
             "255.255.255.255", "::", "::1", "fd00::1", "fe80::1", "ff02::1", "2001:db8::1",
             "::ffff:10.0.0.1", "::ffff:127.0.0.1", "::10.0.0.1", "::127.0.0.1",
             "64:ff9b::a00:1", "64:ff9b::7f00:1", "2002:a00:1::1", "2002:7f00:1::1",
             "2001:0:a00:1::f5ff:fffe"]
METADATA = ["169.254.169.254", "169.254.170.2", "fd00:ec2::254", "168.63.129.16",
            "100.100.100.200", "192.0.0.192", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"]


@pytest.mark.parametrize("address", FORBIDDEN + METADATA)
def test_a_private_address_of_an_allowed_name_is_never_dialled(gate, sink, address):
    kind = "AAAA" if ":" in address else "A"
    with FakeDns({"ok.test": {kind: [address]}}) as dns:
        one = gate(dns)
        before = len(sink.dialled)
        want = "ADDRESS_METADATA" if address in METADATA else "ADDRESS_PRIVATE"
        assert one.dial("ok.test")["status"] == want
        assert one.resolve("ok.test", 2 if kind == "AAAA" else 1)[0] == want
        assert len(sink.dialled) == before


def test_addresses_of_a_rule_allow_private_ones_but_never_metadata(gate, sink):
    with FakeDns({"private.test": [{"A": ["10.1.2.3"]}, {"A": ["169.254.169.254"]}]}) as dns:
        one = gate(dns, ttl_min="0s")
        dns.zone["private.test"] = {"A": ["10.1.2.3"], "ttl": 0}
        assert one.dial("private.test")["peer"] == "10.1.2.3"
        assert one.resolve("private.test")[2] == ["10.1.2.3"]
        dns.zone["private.test"] = {"A": ["169.254.169.254"], "ttl": 0}
        assert one.dial("private.test")["status"] == "ADDRESS_METADATA"


def test_ten_thousand_rebindings_reach_nothing_private(gate, sink):
    flips = int(os.environ.get("SG_FLIPS", "10000"))
    answers = [{"A": [PUBLIC], "AAAA": ["::ffff:10.0.0.5"]}, {"A": ["127.0.0.1"], "AAAA": ["::1"]},
               {"A": ["10.0.0.1", PUBLIC_TOO], "AAAA": ["fd00::1", "64:ff9b::a00:1"]},
               {"A": ["0.0.0.0"], "AAAA": ["::"], "cname": "localhost"}]
    answers = [dict(entry, ttl=0) for entry in answers]
    names = [f"n{i}.ok.test" for i in range(50)]
    statuses = {}
    sink.dialled.clear()
    zone = {name: answers[i % 4:] + answers[:i % 4] for i, name in enumerate(names)}
    with FakeDns(dict(zone, localhost={"A": ["127.0.0.1"]})) as dns:
        one = gate(dns, ttl_min="0s")
        client, worker = one.accepted()
        with client, worker:
            for _ in range(flips // len(names)):
                seqs = [one.ask(name, fd=worker.fileno()) for name in names]
                for seq in seqs:
                    status = one.hear(seq)["status"]
                    statuses[status] = statuses.get(status, 0) + 1
        assert len(dns.queries) >= 2 * flips  # nothing came from a cache
    assert statuses == {"OK": flips // 2, "ADDRESS_PRIVATE": flips // 2}
    assert set(sink.dialled) == {PUBLIC, PUBLIC_TOO}


def test_own_listeners_are_refused_whatever_a_rule_says(gate, sink):
    with FakeDns({"self.test": {"A": ["127.0.0.1"]}}) as dns:
        one = gate(dns)
        assert one.dial("self.test", 3128)["status"] == "ADDRESS_SELF"
        assert one.dial("self.test", 15001)["status"] == "ADDRESS_SELF"  # wildcard-bound
        assert one.dial("self.test", 443)["peer"] == "127.0.0.1"
    with FakeDns({"self.test": {"A": ["93.184.216.99"], "AAAA": ["::", "::ffff:0.0.0.0"]}}) as dns:
        one = gate(dns)
        assert one.dial("self.test")["status"] == "ADDRESS_SELF"  # another sandbox


def test_the_next_resolver_is_asked_when_one_is_dead(gate, sink):
    with FakeDns({"*.test": {"do": ["drop"]}}) as dead, \
            FakeDns({"ok.test": {"A": [PUBLIC]}, "a.ok.test": {"A": [PUBLIC]}}) as alive:
        one = gate(dead, alive)
        assert one.dial("ok.test")["peer"] == PUBLIC
        before = len(dead.queries)
        start = time.monotonic()
        assert one.dial("a.ok.test")["peer"] == PUBLIC
        assert time.monotonic() - start < 0.25  # the one that answered is asked first now
        assert len(dead.queries) == before


@pytest.mark.parametrize("deed", ["wrong_case", "wrong_id", "wrong_name", "short_rdata", "tc_loop",
                                  "cname_chain", "drop"])
def test_a_lying_resolver_is_not_believed(gate, sink, deed):
    before = len(sink.dialled)
    with FakeDns({"ok.test": {"A": [PUBLIC], "AAAA": [PUBLIC6], "do": [deed]}}) as liar:
        assert gate(liar).dial("ok.test")["status"] == "DNS_FAILED"
        assert len(sink.dialled) == before
        with FakeDns({"ok.test": {"A": [PUBLIC]}}) as honest:
            assert gate(liar, honest).dial("ok.test")["peer"] == PUBLIC


@pytest.mark.parametrize("deed", ["truncate", "stray", "two_answers"])
def test_what_surrounds_a_true_answer_does_no_harm(gate, sink, deed):
    with FakeDns({"ok.test": {"A": [PUBLIC], "do": [deed]}}) as dns:
        assert gate(dns).dial("ok.test")["peer"] == PUBLIC
        if deed == "truncate":
            assert any(q.transport == "tcp" for q in dns.queries)


@pytest.mark.parametrize("rcode,status", [(3, "DNS_NOT_FOUND"), (2, "DNS_FAILED"), (5, "DNS_FAILED")])
def test_what_is_not_there_is_told_from_what_failed(gate, sink, rcode, status):
    with FakeDns({"ok.test": {"rcode": rcode}}) as dns:
        one = gate(dns)
        assert one.dial("ok.test")["status"] == status
        assert one.resolve("ok.test")[0] == status


def test_a_name_without_that_type_is_an_empty_answer(gate, sink):
    with FakeDns({"ok.test": {"A": [PUBLIC]}}) as dns:
        one = gate(dns)
        assert one.resolve("ok.test", 1) == ("OK", 30, [PUBLIC])
        assert one.resolve("ok.test", 2) == ("OK", 5, [])


def test_queries_differ_in_id_port_and_letters(gate, sink):
    with FakeDns({"*.ok.test": {"A": [PUBLIC]}}) as dns:
        one = gate(dns)
        for i in range(64):
            assert one.resolve(f"name-with-letters-{i}.ok.test")[0] == "OK"
        queries = dns.queries[:64]
    assert len({q.id for q in queries}) > 60
    assert len({q.source[1] for q in queries}) > 55
    letters = {"".join("U" if c.isupper() else "l" for c in q.name) for q in queries}
    assert len(letters) > 60


def test_a_port_serves_a_few_questions_only(gate, sink):
    with FakeDns({"*.ok.test": {"A": [PUBLIC]}}) as dns:
        one = gate(dns)
        for i in range(1500):
            assert one.resolve(f"n{i}.ok.test")[0] == "OK"
        ports = collections.Counter(q.source[1] for q in dns.queries)
    # A socket serves 16; two may have drawn the same port.
    assert max(ports.values()) <= 48 and len(ports) > 80


def test_many_askers_cause_one_question(gate, sink):
    with FakeDns({"ok.test": {"A": [PUBLIC], "delay": 0.1}}) as dns:
        one = gate(dns)
        client, worker = one.accepted()
        with client, worker:
            seqs = [one.ask("ok.test", fd=worker.fileno()) for _ in range(100)]
            assert {one.hear(seq)["peer"] for seq in seqs} == {PUBLIC}
        assert len(dns.asked("ok.test", "A")) == 1 and len(dns.asked("ok.test", "AAAA")) == 1


def test_answers_are_kept_within_their_bounds(gate, sink):
    with FakeDns({"ok.test": {"A": [PUBLIC], "ttl": 0}, "a.ok.test": {"A": [PUBLIC], "ttl": 2 ** 31 - 1},
                  "b.ok.test": {"rcode": 3}}) as dns:
        one = gate(dns, ttl_min="1s")
        assert one.resolve("ok.test")[1] == 1
        assert one.resolve("a.ok.test")[1] == 300
        assert one.resolve("b.ok.test")[0] == one.resolve("b.ok.test")[0] == "DNS_NOT_FOUND"
        one.resolve("ok.test")
        assert len(dns.asked("ok.test")) == 1 and len(dns.asked("b.ok.test")) == 1
        time.sleep(1.1)
        one.resolve("ok.test")
        assert len(dns.asked("ok.test")) == 2


def test_hosts_of_the_configuration_need_no_packet(gate, sink):
    with FakeDns({}) as dns:
        one = gate(dns)
        assert one.dial("pinned.test")["peer"] == "93.184.216.40"
        assert one.dial("inside.test")["status"] == "ADDRESS_PRIVATE"
        assert one.resolve("pinned.test") == ("OK", 5, ["93.184.216.40"])
        assert dns.queries == []


def test_literals_pass_only_by_network_rules(gate, sink):
    with FakeDns({}) as dns:
        one = gate(dns)
        assert one.dial(PUBLIC, way=WAY_TCP)["peer"] == PUBLIC
        assert one.dial("8.8.8.8", way=WAY_TCP)["status"] == "IP_LITERAL"
        assert one.dial("93.184.216.99", way=WAY_TCP)["status"] == "ADDRESS_SELF"


def test_a_refusing_host_and_a_silent_one_are_told_apart(gate, network):
    with FakeDns({"db.test": {"A": [PUBLIC]}}) as dns:
        assert gate(dns).dial("db.test", 5432, WAY_TCP)["status"] == "CONNECT_REFUSED"
        full = fill(PUBLIC, 5432)
        got = gate(dns, connect="500ms").dial("db.test", 5432, WAY_TCP)
        assert got["status"] == "CONNECT_TIMEOUT" and got["attempts"] == 1
        for sock in full:
            sock.close()


def fill(address, port):
    """A listener whose queue is full: connects to it hang."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sockets = [socket.create_server((address, port), family=family, backlog=0)]
    for _ in range(4):
        sockets.append(socket.socket(family))
        sockets[-1].setblocking(False)
        sockets[-1].connect_ex((address, port))
    return sockets


def test_a_silent_address_is_overtaken_by_the_next(gate, network):
    silent = fill(PUBLIC6, 5432)
    with FakeDns({"db.test": {"A": [PUBLIC_TOO], "AAAA": [PUBLIC6]}}) as dns, \
            socket.create_server((PUBLIC_TOO, 5432)):
        one = gate(dns)
        start = time.monotonic()
        got = one.dial("db.test", 5432, WAY_TCP)
        assert got["peer"] == PUBLIC_TOO and got["attempts"] == 2
        assert 0.2 < time.monotonic() - start < 1  # RFC 8305: 250 ms between attempts
    for sock in silent:
        sock.close()


def test_a_slow_aaaa_answer_is_not_waited_for(gate, sink):
    with FakeDns({"ok.test": {"A": [PUBLIC], "AAAA": [PUBLIC6], "delay": {"AAAA": 1}}}) as dns:
        one = gate(dns, timeout="5s")
        start = time.monotonic()
        assert one.dial("ok.test")["peer"] == PUBLIC
        assert time.monotonic() - start < 0.5


def test_a_dial_dies_with_the_socket_but_not_with_its_sending_half(gate, sink):
    with FakeDns({"ok.test": {"A": [PUBLIC], "AAAA": [], "delay": 0.2}}) as dns:
        one = gate(dns, connect="3s", timeout="3s")
        client, worker = one.accepted()
        seq = one.ask("ok.test", fd=worker.fileno())
        client.shutdown(socket.SHUT_WR)
        assert one.hear(seq)["peer"] == PUBLIC
        client.close()
        worker.close()
        dns.zone["a.ok.test"] = {"A": [PUBLIC], "delay": 2}
        client, worker = one.accepted()
        seq = one.ask("a.ok.test", fd=worker.fileno())
        time.sleep(0.1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        start = time.monotonic()
        assert one.hear(seq)["status"] == "CLIENT_GONE"
        assert time.monotonic() - start < 1
        worker.close()


def test_a_lost_line_takes_its_dials_along(gate, sink):
    with FakeDns({"ok.test": {"A": [PUBLIC], "delay": 0.2}}) as dns:
        one = gate(dns)
        before = len(sink.dialled)
        line = one.role.new_line("WORKER")
        client, worker = one.accepted()
        with client, worker:
            for _ in range(20):
                one.ask("ok.test", fd=worker.fileno(), line=line)
            time.sleep(0.1)
            line.close()
            time.sleep(0.6)
            assert len(sink.dialled) == before
            assert one.hear(one.ask("ok.test", fd=worker.fileno()))["peer"] == PUBLIC


def test_a_malformed_ask_ends_its_line_and_no_other(gate, sink):
    with FakeDns({"ok.test": {"A": [PUBLIC]}}) as dns:
        one = gate(dns)
        for ask, body, with_fd in (("DIAL", b"", True), ("DIAL", str16("ok.test") + b"\1\xbb\0", False),
                                   ("DIAL", str16("ok.test") + b"\1\xbb\0more", True),
                                   ("DIAL", str16("ok.test") + b"\1\xbb\x09", True),
                                   ("GRANT", b"\0" * 20, False)):
            line = one.role.new_line("WORKER")
            line.send(ask, body, [one.listener.fileno()] if with_fd else [])
            assert line.receive(5) is None, (ask, body)
            line.close()
        assert one.dial("ok.test")["peer"] == PUBLIC


def test_a_sandbox_has_so_many_dials_and_no_more(gate, sink):
    with FakeDns({"ok.test": {"A": [PUBLIC], "delay": 0.2}}) as dns:
        one = gate(dns, extra="limits: {connections: 5}")
        client, worker = one.accepted()
        with client, worker:
            seqs = [one.ask("ok.test", fd=worker.fileno()) for _ in range(8)]
            got = sorted(one.hear(seq)["status"] for seq in seqs)
            assert got == ["LIMIT_CONNECTIONS"] * 3 + ["OK"] * 5
            assert one.hear(one.ask("ok.test", fd=worker.fileno()))["status"] == "OK"


def test_a_new_policy_judges_dials_that_run(gate, sink, tmp_path):
    with FakeDns({"ok.test": {"A": [PUBLIC], "delay": 0.2}}) as dns:
        one = gate(dns)
        before = len(sink.dialled)
        client, worker = one.accepted()
        with client, worker:
            seq = one.ask("ok.test", fd=worker.fileno())
            path = tmp_path / "sandgate.yaml"
            path.write_text(path.read_text().replace("[bad.ok.test]", "[bad.ok.test, ok.test]"))
            one.role.take(compile_file(path))
            assert one.hear(seq)["status"] == "DENIED_RULE"
        time.sleep(0.5)
        assert len(sink.dialled) == before


def test_new_resolvers_empty_the_cache(gate, sink):
    with FakeDns({"ok.test": {"A": [PUBLIC]}}) as old, FakeDns({"ok.test": {"A": [PUBLIC_TOO]}}) as new:
        one = gate(old)
        assert one.dial("ok.test")["peer"] == PUBLIC
        one.role.take(one.image([old]))
        assert one.dial("ok.test")["peer"] == PUBLIC and len(old.asked("ok.test", "A")) == 1
        one.role.take(one.image([new]))
        assert one.dial("ok.test")["peer"] == PUBLIC_TOO


def test_a_parent_proxy_is_dialled_in_place_of_the_host(gate, sink):
    parent = Sink(3129)
    extra = 'upstream_proxy: {address: "10.0.0.9:3129", no_proxy: "pinned.test, 93.184.216.0/24"}'
    with FakeDns({}) as dns:
        one = gate(dns, extra=extra)
        got = one.dial("ok.test")
        assert got["peer"] == "10.0.0.9" and got["via"] == 1 and got["address"] == "10.0.0.9:3129"
        assert got["rule"] != NONE
        assert one.dial("evil.test")["status"] == "DENIED"
        got = one.dial("pinned.test")
        assert got["peer"] == "93.184.216.40" and got["via"] == 0
        assert dns.queries == []
    assert parent.dialled == ["10.0.0.9"]
    parent.close()


GEO_RULES = """      - {hosts: [de.test], countries: [DE]}
      - {hosts: [as.test], asns: [64500]}
"""


def test_countries_and_networks_come_from_the_databases(gate, sink, tmp_path):
    mmdb.write(tmp_path / "country.mmdb", {"93.184.216.34/32": {"country": {"iso_code": "DE"}},
                                           "93.184.216.35/32": {"country": {"iso_code": "FR"}},
                                           "2606:2800::/32": {"country": {"iso_code": "DE"}}})
    mmdb.write(tmp_path / "asn.mmdb", {"93.184.216.34/32": {"autonomous_system_number": ("u32", 64500)},
                                       "93.184.216.35/32": {"autonomous_system_number": ("u32", 64501)}})
    extra = f"geo: {{country_db: {tmp_path}/country.mmdb, asn_db: {tmp_path}/asn.mmdb}}"
    zone = {"de.test": {"A": [PUBLIC]}, "as.test": {"A": [PUBLIC]}}
    with FakeDns(zone) as dns:
        one = gate(dns, extra=extra, rules=GEO_RULES, ttl_min="0s")
        got = one.dial("de.test")
        assert got["peer"] == PUBLIC and got["country"] == "DE"
        assert one.dial("as.test")["peer"] == PUBLIC
        zone["de.test"] = {"A": [PUBLIC_TOO], "AAAA": [PUBLIC6], "ttl": 0}
        zone["as.test"] = {"A": [PUBLIC_TOO], "ttl": 0}
        one = gate(dns, extra=extra, rules=GEO_RULES, ttl_min="0s")
        assert one.dial("de.test")["peer"] == PUBLIC6
        assert one.dial("as.test")["status"] == "DENIED_COUNTRY"
        zone["de.test"] = {"A": ["93.184.216.77"], "ttl": 0}  # in no database
        one = gate(dns, extra=extra, rules=GEO_RULES, ttl_min="0s")
        assert one.dial("de.test")["status"] == "DENIED_COUNTRY"


@pytest.mark.parametrize("damage", ["cut", "noise", "no metadata", "wrong count"])
def test_a_damaged_database_is_refused_and_the_old_policy_stays(gate, sink, tmp_path, damage):
    path = tmp_path / "country.mmdb"
    extra = f"geo: {{country_db: {path}}}"
    mmdb.write(path, {"93.184.216.0/24": {"country": {"iso_code": "DE"}}})
    good = path.read_bytes()
    with FakeDns({"ok.test": {"A": [PUBLIC]}}) as dns:
        one = gate(dns, extra=extra)
        assert one.dial("ok.test")["country"] == "DE"
        path.write_bytes({"cut": good[:20], "noise": bytes(range(256)) * 8,
                          "no metadata": good[:-120],
                          "wrong count": good.replace(b"node_count\xc1", b"node_count\xc4")}[damage])
        try:
            descriptors = one.image([dns], extra=extra)
        except ValueError:
            return  # the compiler saw it first
        assert one.role.prepare(descriptors) == "BAD_CONFIG"
        assert one.dial("ok.test")["country"] == "DE"


def test_a_grant_is_for_one_socket_alone(gate, sink):
    with FakeDns({"ok.test": {"A": [PUBLIC]}}) as dns:
        one = gate(dns)
        client, worker = one.accepted("127.0.0.6")
        with client, worker:
            assert one.hear(one.ask("ok.test", fd=worker.fileno()))["status"] == "UNKNOWN_SANDBOX"
            cookie = worker.getsockopt(socket.SOL_SOCKET, 57, 8)  # SO_COOKIE

            def grant(generation):
                return one.role.lines["CONTROL"].call(
                    "GRANT", struct.pack("!QIQ", int.from_bytes(cookie, sys.byteorder), 1, generation))[0]

            # handles count the sandboxes of one generation: by another's they name a neighbour
            for generation, said in ((0, "RELOADED"), (2, "RELOADED"), (1, "OK")):
                assert one.hear(one.ask("ok.test", fd=worker.fileno()))["status"] == "UNKNOWN_SANDBOX"
                assert STATUS[Wire(grant(generation)).get("H")] == said
            assert one.hear(one.ask("ok.test", fd=worker.fileno()))["peer"] == PUBLIC
        assert one.dial("ok.test", source="127.0.0.6")["status"] == "UNKNOWN_SANDBOX"


def test_a_question_stays_its_sandboxes_when_a_reload_puts_another_before_it(gate, sink):
    with FakeDns({"ok.test": {"A": [PUBLIC], "delay": 0.15}}) as dns:
        one = gate(dns)
        answers = []
        asker = threading.Thread(target=lambda: answers.append(one.resolve("ok.test")))
        asker.start()
        time.sleep(0.05)
        one.image([dns])
        path = one.tmp_path / "sandgate.yaml"
        text = path.read_text().replace("sandboxes:\n", "sandboxes:\n  - {id: aaa, source: 127.0.0.9, user: eve, policy: q}\n")
        path.write_text(text + "  q: {allow: [{hosts: [else.test], ports: [443]}]}\n")
        one.role.take(compile_file(path))
        asker.join(5)
        assert answers[0][0] == "OK" and answers[0][2] == [PUBLIC]
        assert one.resolve("ok.test")[0] == "DENIED"
        assert one.resolve("ok.test", handle=2)[0] == "OK"
        assert one.resolve("ok.test", generation=1)[0] == "RELOADED"


def test_one_sandbox_with_slow_names_leaves_room_for_others(gate, sink):
    zone = {"*.ok.test": {"do": ["drop"]}, "self.test": {"A": ["127.0.0.1"]}}
    extra = "limits: {connections: 512}"
    with FakeDns(zone) as dns:
        one = gate(dns, extra=extra, timeout="2s")
        client, worker = one.accepted()
        other, other_worker = one.accepted("93.184.216.99")
        with client, worker, other, other_worker:
            for i in range(400):
                one.ask(f"slow{i}.ok.test", fd=worker.fileno())
            start = time.monotonic()
            assert one.hear(one.ask("self.test", fd=other_worker.fileno()))["peer"] == "127.0.0.1"
            assert time.monotonic() - start < 1


def test_a_drain_waits_for_what_runs_and_takes_nothing_new(gate, sink):
    with FakeDns({"ok.test": {"A": [PUBLIC], "delay": 0.2}}) as dns:
        one = gate(dns)
        client, worker = one.accepted()
        with client, worker:
            running = one.ask("ok.test", fd=worker.fileno())
            time.sleep(0.05)
            drain = one.role.super.send("DRAIN", struct.pack("!I", 5000))
            time.sleep(0.05)
            late = one.ask("ok.test", fd=worker.fileno())
            assert one.hear(late)["status"] == "DRAINING"
            assert not select.select([one.role.super.sock], [], [], 0)[0]
            assert one.hear(running)["status"] == "OK"
            one.role.super.answer(drain)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q", *sys.argv[1:]]))
