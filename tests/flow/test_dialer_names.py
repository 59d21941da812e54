"""The dialer and resolvers: who is believed, what is kept, what is asked."""
import collections
import socket
import time

import pytest

from dialer_gate import PUBLIC, PUBLIC6, WAY_TCP, gate, network, sink
from fake_dns import FakeDns


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
