"""The dialer as its neighbours see it: DIAL and RESOLVE against resolvers that lie.

Runs in a network namespace of its own where every address is local: one server on all of
them writes down which address was really dialled.  That list is the oracle.
"""
import os
import socket
import time

import pytest

import mmdb
from dialer_gate import PUBLIC, PUBLIC6, PUBLIC_TOO, WAY_TCP, Sink, gate, network, sink
from fake_dns import FakeDns
from role_line import NONE


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
