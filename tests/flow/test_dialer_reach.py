"""Endpoints of execution servers: who may be connected to them, and where they may lie."""
import socket
import struct
import sys
import time

import pytest

from dialer_gate import PORT, PUBLIC, PUBLIC_TOO, gate, network, sink
from fake_dns import FakeDns
from role_line import STATUS, Wire, compile_file, str16

SERVERS = """servers:
  - {name: standard, url: "http://127.0.0.1:8080", key: opensandbox/standard, endpoints: ["127.0.0.0/8", "93.184.216.34/32"]}
  - {name: strong, url: "http://127.0.0.1:8081", key: opensandbox/strong, tier: high, endpoints: ["10.0.0.0/8"]}
"""
STRANGER = "127.0.0.9"  # no sandbox: callers are none


class Reach:
    """What control and a worker say to a dialer for one caller's connection."""

    def __init__(self, one, source=STRANGER):
        self.one = one
        self.client, self.worker = one.accepted(source)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()
        self.worker.close()

    def grant(self, host, port=PORT, server="standard"):
        cookie = int.from_bytes(self.worker.getsockopt(socket.SOL_SOCKET, 57, 8), sys.byteorder)
        body, _ = self.one.role.lines["CONTROL"].call(
            "GRANT_REACH", struct.pack("!Q", cookie) + str16(server) + str16(host) + struct.pack("!H", port))
        return STATUS[Wire(body).get("H")]

    def ask(self, host, port=PORT, server="standard", fd=None):
        line = self.one.role.lines["WORKER"]
        return line.send("REACH", str16(server) + str16(host) + struct.pack("!H", port),
                         [self.worker.fileno() if fd is None else fd])

    def reach(self, host, port=PORT, server="standard", fd=None):
        return self.one.hear(self.ask(host, port, server, fd))


@pytest.fixture
def dns():
    with FakeDns({"end.test": {"A": [PUBLIC], "AAAA": []}, "two.test": {"A": [PUBLIC_TOO, PUBLIC], "AAAA": []},
                  "out.test": {"A": [PUBLIC_TOO], "AAAA": []}, "slow.test": {"A": [PUBLIC], "delay": 0.3},
                  "meta.test": {"A": ["169.254.169.254"], "AAAA": []}}) as server:
        yield server


@pytest.fixture
def caller(gate, sink, dns):
    with Reach(gate(dns, extra=SERVERS, timeout="2s")) as made:
        yield made


def test_what_was_granted_to_a_socket_is_reached_through_it(caller):
    assert caller.reach("127.0.0.1")["status"] == "NOT_GRANTED"
    assert caller.grant("127.0.0.1") == "OK"
    got = caller.reach("127.0.0.1")
    assert got["status"] == "OK" and got["peer"] == "127.0.0.1" and got["via"] == 0
    assert caller.reach("127.0.0.1")["status"] == "OK"  # again, as for a second request


def test_a_grant_is_for_that_server_host_port_and_socket_alone(caller):
    assert caller.grant("127.0.0.1") == "OK"
    for more in ({"host": "127.0.0.2"}, {"host": "127.0.0.1", "port": PORT + 1},
                 {"host": "127.0.0.1", "server": "strong"}, {"host": "127.0.0.1", "server": "none"},
                 {"host": "[127.0.0.1]"}, {"host": "127.1"}):
        assert caller.reach(**more)["status"] == "NOT_GRANTED", more
    with Reach(caller.one) as other:
        assert other.reach("127.0.0.1")["status"] == "NOT_GRANTED"
        assert other.reach("127.0.0.1", fd=caller.worker.fileno())["status"] == "OK"


def test_a_sandbox_without_a_grant_reaches_nothing(gate, sink, dns):
    with Reach(gate(dns, extra=SERVERS), source="127.0.0.5") as one:
        assert one.reach(PUBLIC)["status"] == "NOT_GRANTED"
        assert one.reach("127.0.0.1")["status"] == "NOT_GRANTED"


def test_what_is_no_connection_speaks_for_nobody(caller):
    assert caller.grant("127.0.0.1") == "OK"
    assert caller.reach("127.0.0.1", fd=caller.one.listener.fileno())["status"] == "NOT_GRANTED"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        assert caller.reach("127.0.0.1", fd=datagrams.fileno())["status"] == "NOT_GRANTED"
    with open("/dev/null") as null:
        assert caller.reach("127.0.0.1", fd=null.fileno())["status"] == "NOT_GRANTED"


def test_only_addresses_of_the_servers_endpoints_are_dialled(caller, sink):
    for host, status in (("end.test", "OK"), (PUBLIC, "OK"), ("out.test", "ADDRESS_PRIVATE"),
                         (PUBLIC_TOO, "ADDRESS_PRIVATE"), ("meta.test", "ADDRESS_METADATA"),
                         ("169.254.169.254", "ADDRESS_METADATA")):
        assert caller.grant(host) == "OK"
        assert caller.reach(host)["status"] == status, host
    assert caller.grant("127.0.0.1", server="strong") == "OK"
    assert caller.reach("127.0.0.1", server="strong")["status"] == "ADDRESS_PRIVATE"
    before = len(sink.dialled)
    assert caller.grant("two.test") == "OK"
    assert caller.reach("two.test")["peer"] == PUBLIC
    time.sleep(0.05)
    assert sink.dialled[before:] == [PUBLIC]


def test_our_own_listeners_are_never_endpoints(caller):
    for port in (3128, 15001):
        assert caller.grant("127.0.0.1", port) == "OK"
        assert caller.reach("127.0.0.1", port)["status"] == "ADDRESS_SELF"


def test_an_endpoint_may_be_the_address_of_a_registered_sandbox(caller):
    assert caller.grant("127.0.0.5") == "OK"
    assert caller.reach("127.0.0.5")["peer"] == "127.0.0.5"


def test_no_parent_proxy_stands_before_endpoints(gate, sink, dns):
    with Reach(gate(dns, extra=SERVERS + 'upstream_proxy: {address: "93.184.216.35:8118"}')) as one:
        assert one.grant(PUBLIC) == "OK"
        got = one.reach(PUBLIC)
        assert got["peer"] == PUBLIC and got["via"] == 0


def test_a_server_that_left_the_configuration_is_reached_no_longer(caller, tmp_path):
    assert caller.grant("slow.test") == "OK"
    seq = caller.ask("slow.test")
    time.sleep(0.1)
    path = tmp_path / "sandgate.yaml"
    path.write_text(path.read_text().replace("name: standard", "name: renamed"))
    caller.one.role.take(compile_file(path))
    assert caller.one.hear(seq)["status"] == "NOT_GRANTED"
    assert caller.reach("slow.test")["status"] == "NOT_GRANTED"


def test_it_dies_with_the_callers_connection(caller):
    assert caller.grant("slow.test") == "OK"
    seq = caller.ask("slow.test")
    time.sleep(0.1)
    caller.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    caller.client.close()
    assert caller.one.hear(seq)["status"] == "CLIENT_GONE"


def test_one_callers_address_has_so_many_at_once(gate, sink, dns):
    one = gate(dns, extra=SERVERS + "limits: {connections: 5}", timeout="2s")
    with Reach(one) as greedy, Reach(one, source="127.0.0.10") as other:
        assert greedy.grant("slow.test") == "OK" and other.grant("slow.test") == "OK"
        seqs = [greedy.ask("slow.test") for _ in range(8)]
        late = other.ask("slow.test")
        assert sorted(one.hear(seq)["status"] for seq in seqs) == ["LIMIT_CONNECTIONS"] * 3 + ["OK"] * 5
        assert one.hear(late)["status"] == "OK"


def test_a_malformed_ask_ends_its_line(caller):
    whole = str16("standard") + str16("127.0.0.1") + struct.pack("!H", PORT)
    for ask, body, with_fd in (("REACH", whole, False), ("REACH", whole + b"x", True), ("REACH", b"", True),
                               ("GRANT_REACH", b"\0" * 8 + whole, False)):
        line = caller.one.role.new_line("WORKER")
        line.send(ask, body, [caller.worker.fileno()] if with_fd else [])
        assert line.receive(5) is None, (ask, body)
        line.close()
    line = caller.one.role.new_line("CONTROL")
    line.send("GRANT_REACH", b"\0" * 8)
    assert line.receive(5) is None
    line.close()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q", *sys.argv[1:]]))
