"""The dns role as its neighbours see it: sandboxes ask, we are super and the dialer.

The oracle for "no packet upstream" is the line to the dialer: it must stay silent.
"""
import socket
import struct
import time

import pytest

from dns_gate import (A, AAAA, ANY, DEMO, FORMERR, HANDLE_ATTACHED, HTTPS, NOBODY, NOERROR, NOTIMP, NXDOMAIN, OTHER,
                      PTR, REFUSED, RING_SIZE, SEEN, SERVFAIL, SOA, SVCB, TXT, Box, Gate, framed, gate, hear,
                      hear_stream, query, tell_sandbox)


@pytest.mark.parametrize("name, code", [
    ("evil.test", "denied_by_policy"), ("secret.data.evil.test", "denied_by_policy"),
    ("bad.ok.test", "denied_by_rule"), ("single", "denied_by_policy"),
    ("1.2.3.4", "ip_literal"), ("127.1", "ip_literal_nonstandard"),
    ("-a.ok.test", "bad_host"), ("xn--a.ok.test", "bad_host"), ("", "bad_host"),
])
def test_a_refused_name_causes_no_question_upstream(gate, name, code):
    for kind in (A, AAAA, TXT, HTTPS, ANY):
        got = gate.ask(name, kind)
        assert (got.rcode, got.soa, got.ttls, got.addresses) == (NXDOMAIN, True, [5], [])
        assert got.ede == (15, code)
    assert gate.heard(0.1) is None
    rows = gate.ring.rows()
    assert len(rows) == 5
    assert all(r["kind"] == "deny" and r["code"] == code and r["sandbox"] == "demo" and
               r["user"] == "alice" and r["host"] == name and r["listener"] == "names"
               for r in rows)
    if code == "denied_by_rule":
        assert "sandgate.yaml:" in rows[0]["rule"]


def test_without_edns_there_is_no_opt_and_the_operator_may_choose_refused(gate):
    got = gate.ask("evil.test", opt=None)
    assert (got.rcode, got.opt, got.ede) == (NXDOMAIN, False, None)
    gate.reload(denied="refused")
    assert gate.ask("evil.test").rcode == REFUSED


def test_an_allowed_name_is_asked_of_the_dialer(gate):
    packet = query("wWw.Ok.Test")
    gate.client().send(packet)
    seq, handle, name, want = gate.heard()
    assert (handle, name, want) == (1, "www.ok.test", 1)
    row, = gate.ring.rows()  # before anything was sent upstream
    assert (row["kind"], row["code"], row["host"]) == ("dns", "ok", "www.ok.test")
    gate.resolved(seq, "OK", ["93.184.216.34", "93.184.216.35"])
    got = hear(gate.client())
    assert got.addresses == ["93.184.216.34", "93.184.216.35"]
    assert got.ttls == [33, 33] and got.ede is None
    assert got.question == packet[12:12 + len(got.question)]  # with its letters


def test_ipv6_and_names_without_addresses(gate):
    gate.client().send(query("ok.test", AAAA))
    seq, _, _, want = gate.heard()
    assert want == 2
    gate.resolved(seq, "OK", ["2606:2800:220:1::1"])
    assert hear(gate.client()).addresses == ["2606:2800:220:1::1"]
    gate.client().send(query("none.ok.test", AAAA))
    gate.resolved(gate.heard()[0], "OK")
    got = hear(gate.client())
    assert (got.rcode, got.soa, got.addresses) == (NOERROR, True, [])


def test_the_same_question_is_answered_from_memory_and_its_repeats_share_a_row(gate):
    gate.client().send(query("ok.test"))
    gate.resolved(gate.heard()[0], "OK", ["93.184.216.34"])
    first = hear(gate.client())
    for _ in range(3):
        again = gate.ask("OK.test")
        assert again.addresses == first.addresses and 0 < again.ttls[0] <= first.ttls[0]
    assert gate.heard(0.1) is None
    assert [r["detail"] for r in gate.ring.rows()] == ["A"]
    time.sleep(2.2)
    row, = gate.ring.rows()
    assert (row["kind"], row["host"], row["sandbox"]) == ("dns", "ok.test", "demo")
    assert row["detail"] == "A, asked 3 times more within a second"
    gate.client().send(query("ok.test", AAAA))
    assert gate.heard()[3] == 2  # another question


def test_what_is_remembered_ends_with_the_policy_and_is_one_sandboxs_own(gate):
    gate.client().send(query("ok.test"))
    gate.resolved(gate.heard()[0], "OK", ["93.184.216.34"])
    assert hear(gate.client()).addresses == ["93.184.216.34"]
    gate.client(SEEN).send(query("ok.test"))
    gate.resolved(gate.heard()[0], "OK", ["93.184.216.35"])
    assert hear(gate.client(SEEN)).addresses == ["93.184.216.35"]
    gate.reload(denied="refused")
    gate.client().send(query("ok.test"))
    gate.resolved(gate.heard()[0], "OK", ["93.184.216.36"])
    assert hear(gate.client()).addresses == ["93.184.216.36"]


@pytest.mark.parametrize("status, rcode, ede", [
    ("DNS_NOT_FOUND", NXDOMAIN, None), ("DNS_FAILED", SERVFAIL, (22, "dns_failed")),
    ("ADDRESS_PRIVATE", SERVFAIL, (15, "address_private")),
    ("NOMEM", SERVFAIL, (0, "no_memory")),
])
def test_what_the_dialer_could_not_do_is_told(gate, status, rcode, ede):
    gate.client().send(query("ok.test"))
    gate.resolved(gate.heard()[0], status)
    got = hear(gate.client())
    assert (got.rcode, got.ede) == (rcode, ede)
    kinds = [r["kind"] for r in gate.ring.rows()]
    assert kinds == (["dns", "deny"] if status == "ADDRESS_PRIVATE" else ["dns"])


def test_observing_lets_a_name_pass_and_says_what_would_have_been(gate):
    gate.client(SEEN).send(query("evil.test"))
    gate.resolved(gate.heard()[0], "OK", ["93.184.216.34"])
    assert hear(gate.client(SEEN)).addresses == ["93.184.216.34"]
    row, = gate.ring.rows()
    assert (row["kind"], row["code"], row["observed"]) == ("dns", "denied_by_policy", 1)


def test_a_name_of_a_tcp_rule_gets_an_address_of_the_sandboxs_own(gate):
    got = gate.ask("db.example.test").addresses + gate.ask("db.example.test", AAAA).addresses
    assert got[0].startswith("198.18.") and got[0] != "198.18.0.1"
    assert got[1].startswith("fd5a:6761:7465::")
    assert gate.ask("DB.example.test").addresses == got[:1]
    assert gate.heard(0.1) is None
    assert [r["kind"] for r in gate.ring.rows()] == ["dns"] * 3


def test_the_gateways_own_name_needs_no_policy(gate):
    assert gate.ask("sandgate.internal").addresses == ["198.18.0.1"]
    got = gate.ask("sandgate.internal", AAAA)
    assert (got.rcode, got.addresses, got.soa) == (NOERROR, [], True)
    assert gate.ask("x.sandgate.internal").rcode == NXDOMAIN
    assert gate.heard(0.1) is None


@pytest.mark.parametrize("kind", [HTTPS, SVCB, TXT, SOA, ANY, 2, 15, 33, 257])
def test_other_types_of_an_allowed_name_have_no_data(gate, kind):
    got = gate.ask("ok.test", kind)
    assert (got.rcode, got.soa, got.addresses) == (NOERROR, True, [])
    assert gate.heard(0.1) is None


def test_nothing_is_looked_up_backwards(gate):
    assert gate.ask("4.3.2.10.in-addr.arpa", PTR).rcode == NXDOMAIN
    assert gate.ask("ok.test", PTR).rcode == NXDOMAIN
    assert gate.heard(0.1) is None


def test_an_unknown_source_gets_nothing_of_its_bytes_back(gate):
    got = gate.raw(query("secret.ok.test"), NOBODY)
    assert (got.rcode, len(got.packet)) == (REFUSED, 12)
    row, = gate.ring.rows()
    assert (row["code"], row["sandbox"], row["host"]) == ("unknown_sandbox", "", "")


@pytest.mark.parametrize("packet, rcode", [
    (query("ok.test")[:-1], FORMERR), (query("ok.test") + b"!", FORMERR),
    (query("ok.test", opt=None)[:4] + b"\0\0" + query("ok.test", opt=None)[6:], FORMERR),
    (query("ok.test", opt=None)[:4] + b"\xff\xff" + query("ok.test", opt=None)[6:], FORMERR),
    (struct.pack("!HHHHHH", 0x1234, 0x100, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1", FORMERR),
    (query("ok.test", flags=0x2000), NOTIMP), (query("ok.test", flags=0x2800), NOTIMP),
    (query("ok.test") + bytes(5000), FORMERR), (query("a*b.ok.test"), FORMERR),
])
def test_malformed_queries(gate, packet, rcode):
    got = gate.raw(packet)
    assert (got.rcode, got.ident, len(got.packet)) == (rcode, 0x1234, 12)
    assert gate.heard(0.1) is None
    assert gate.ask("evil.test").rcode == NXDOMAIN


def test_what_is_no_query_is_not_answered(gate):
    for packet in (b"", b"x", bytes(11), query("ok.test", flags=0x8180)):
        assert gate.raw(packet, timeout=0.1) is None
    assert gate.ring.rows() == []


def test_other_edns_versions_and_classes(gate):
    assert gate.ask("ok.test", version=1).rcode == 16
    got = gate.ask("version.bind", TXT, klass=3)
    assert (got.rcode, got.ede) == (NOTIMP, (15, "method_refused"))


def test_answers_that_do_not_fit_are_truncated_and_whole_over_tcp(gate):
    many = [f"2606:2800:220:1::{i:x}" for i in range(1, 31)]
    gate.client().send(query("ok.test", AAAA, opt=600))
    gate.resolved(gate.heard()[0], "OK", many)
    got = hear(gate.client())
    assert got.truncated and got.addresses == [] and len(got.packet) <= 600
    with gate.stream() as sock:
        sock.sendall(framed(query("all.ok.test", AAAA)))
        gate.resolved(gate.heard()[0], "OK", many)
        assert hear_stream(sock).addresses == many


def test_the_answer_leaves_from_the_address_that_was_asked(gate):
    for to in ("127.0.0.1", "127.8.8.8", "127.1.1.1"):
        assert gate.ask("evil.test", to=to).rcode == NXDOMAIN


def test_a_socket_for_both_families(gate):
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as both:
        both.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        both.bind(("::", 0))
        gate.role.give("LISTENER", 1, "udp", [both.fileno()])
        port = both.getsockname()[1]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as four:
            four.bind((DEMO, 0))
            four.connect(("127.9.9.9", port))
            four.send(query("evil.test"))
            assert hear(four).rcode == NXDOMAIN
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as six:
            six.connect(("::1", port))
            six.send(query("evil.test"))
            assert hear(six).rcode == REFUSED  # nobody has that source


def test_tcp_byte_by_byte_and_pipelined(gate):
    with gate.stream() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in framed(query("evil.test")):
            sock.send(bytes([byte]))
            time.sleep(0.002)
        assert hear_stream(sock).rcode == NXDOMAIN
        sock.sendall(b"".join(framed(query("evil.test", ident=i)) for i in range(300)))
        assert [hear_stream(sock).ident for _ in range(300)] == list(range(300))


def test_tcp_answers_come_when_they_are_ready(gate):
    with gate.stream() as sock:
        sock.sendall(framed(query("a.ok.test", ident=1)) + framed(query("evil.test", ident=2)))
        assert hear_stream(sock).ident == 2
        sock.shutdown(socket.SHUT_WR)
        gate.resolved(gate.heard()[0], "OK", ["93.184.216.34"])
        assert hear_stream(sock).ident == 1
        assert sock.recv(1) == b""


def test_more_under_way_than_a_connection_may_have_just_wait(gate):
    with gate.stream() as sock:
        sock.sendall(b"".join(framed(query(f"n{i}.ok.test", ident=i)) for i in range(40)))
        got = []
        for _ in range(40):
            seq, _, name, _ = gate.heard()
            gate.resolved(seq, "OK", ["93.184.216.34"])
            got.append(hear_stream(sock).ident)
        assert sorted(got) == list(range(40))


@pytest.mark.parametrize("junk", [b"\0\0", b"\0\x0b", b"\xff\xff", b"GET / HTTP/1.1\r\n\r\n",
                                  framed(query("ok.test", flags=0x8180))])
def test_tcp_that_is_not_dns_is_closed(gate, junk):
    with gate.stream() as sock:
        sock.sendall(junk)
        try:
            assert sock.recv(1) == b""
        except ConnectionResetError:
            pass
    assert gate.heard(0.1) is None


def test_a_connection_that_never_finishes_a_query_is_closed(gate):
    gate.reload(idle="400ms")
    with gate.stream() as slow, gate.stream() as waiting:
        waiting.sendall(framed(query("ok.test")))
        seq, _, _, _ = gate.heard()
        for byte in framed(query("evil.test"))[:20]:
            time.sleep(0.05)
            try:
                slow.send(bytes([byte]))
            except OSError:
                break
        try:
            assert slow.recv(1) == b""
        except ConnectionResetError:
            pass
        gate.resolved(seq, "OK", ["93.184.216.34"])  # it is we who were slow
        assert hear_stream(waiting).addresses == ["93.184.216.34"]


def test_one_sandbox_cannot_take_all_connections(gate):
    open_now = [gate.stream() for _ in range(40)]
    served = 0
    for sock in open_now:
        try:
            sock.sendall(framed(query("evil.test")))
            served += hear_stream(sock) is not None
        except OSError:
            pass
    assert served == 32
    with gate.stream(OTHER) as sock:
        sock.sendall(framed(query("evil.test")))
        assert hear_stream(sock).rcode == NXDOMAIN
    for sock in open_now:
        sock.close()
    time.sleep(0.1)
    with gate.stream() as sock:
        sock.sendall(framed(query("evil.test")))
        assert hear_stream(sock).rcode == NXDOMAIN


def test_one_sandbox_asking_fast_does_not_hurt_the_other(gate):
    gate.reload(rate=5)
    got = [gate.ask("evil.test") for _ in range(60)]
    assert sum(a.rcode == NXDOMAIN for a in got) in range(10, 13)
    assert got[-1].rcode == REFUSED and got[-1].ede == (15, "limit_rate")
    assert gate.ask("evil.test", source=OTHER).rcode == NXDOMAIN
    codes = [r["code"] for r in gate.ring.rows()]
    assert codes.count("limit_rate") in (1, 2)  # told once a second


def test_a_sandbox_may_have_only_so_many_questions_under_way(gate):
    for i in range(80):
        gate.client().send(query(f"n{i}.ok.test"))
    asked = 0
    while gate.heard(0.3):
        asked += 1
    assert asked == 64
    gate.client(OTHER).send(query("ok.test"))
    assert gate.heard() is not None


def test_a_full_ring_stops_everything(tmp_path):
    gate = Gate(tmp_path, ring_head=RING_SIZE)
    for name in ("evil.test", "ok.test", "db.example.test", "sandgate.internal"):
        got = gate.ask(name)
        assert (got.rcode, got.ede) == (SERVFAIL, (0, "no_ledger"))
    assert gate.heard(0.1) is None
    gate.close()


def test_a_question_under_way_is_judged_by_the_newest_policy(gate):
    gate.client().send(query("ok.test"))
    seq, _, _, _ = gate.heard()
    gate.reload(hosts="[elsewhere.test]")
    gate.resolved(seq, "OK", ["93.184.216.34"])
    got = hear(gate.client())
    assert (got.rcode, got.addresses, got.ede) == (NXDOMAIN, [], (15, "denied_by_policy"))


def test_a_dead_dialer_is_told_and_a_new_one_used(gate):
    gate.client().send(query("ok.test"))
    assert gate.heard()
    gate.dialer.close()
    got = hear(gate.client())
    assert (got.rcode, got.ede) == (SERVFAIL, (0, "no_dialer"))
    assert gate.ask("ok.test").ede == (0, "no_dialer")
    gate.dialer = gate.role.lines["DIALER"] = gate.role.new_line("DIALER")
    gate.reload()  # answered in order, so the line has arrived by now
    gate.client().send(query("ok.test"))
    gate.resolved(gate.heard()[0], "OK", ["93.184.216.34"])
    assert hear(gate.client()).addresses == ["93.184.216.34"]


def test_what_runs_may_finish_while_draining(gate):
    gate.client().send(query("ok.test"))
    seq, _, _, _ = gate.heard()
    drain = gate.role.super.send("DRAIN", struct.pack("!I", 5000))
    time.sleep(0.1)
    assert gate.ask("evil.test", source=OTHER).ede == (15, "draining")
    gate.resolved(seq, "OK", ["93.184.216.34"])
    assert hear(gate.client()).addresses == ["93.184.216.34"]
    gate.role.super.answer(drain)


def test_an_attached_socket_is_the_identity(gate):
    box = Box()
    handle = HANDLE_ATTACHED + 3
    gate.role.give("ATTACHED", handle, "dns-udp", [box.udp.fileno()])
    gate.role.give("ATTACHED", handle, "dns-tcp", [box.tcp.fileno()])
    box.client.send(query("ok.test"))
    assert hear(box.client).rcode == REFUSED  # nobody yet
    tell_sandbox(gate, handle, True, box.cookie)
    box.client.send(query("evil.test"))  # to 8.8.8.8, and from there comes the answer
    assert hear(box.client).rcode == NXDOMAIN
    assert gate.ring.rows()[-1]["sandbox"] == "box"
    box.stream.sendall(framed(query("ok.test")))
    seq, asked, _, _ = gate.heard()
    assert asked == handle
    gate.resolved(seq, "OK", ["93.184.216.34"])
    assert hear_stream(box.stream).addresses == ["93.184.216.34"]
    tell_sandbox(gate, handle, False)
    assert box.stream.recv(1) == b""
    box.client.send(query("evil.test"))
    assert hear(box.client, 0.2) is None  # only we hold the socket now
    assert gate.ask("evil.test").rcode == NXDOMAIN
    box.close()


def test_a_useless_attached_socket_does_not_end_the_role(gate):
    ours, theirs = socket.socketpair()
    gate.role.give("ATTACHED", HANDLE_ATTACHED + 9, "dns-udp", [ours.fileno()])
    gate.role.give("ATTACHED", HANDLE_ATTACHED + 9, "other", [theirs.fileno()])
    assert gate.ask("evil.test").rcode == NXDOMAIN
    ours.close(), theirs.close()


def test_a_flood_of_one_socket_does_not_starve_the_other(gate):
    gate.reload(rate=1000000)
    flood, other = gate.client(), gate.client(OTHER)
    for _ in range(5):  # as a resolver does; the socket's buffer may be full for a moment
        for _ in range(400):
            flood.send(query("evil.test"))
        other.send(query("evil.test"))
        got = hear(other, 1)
        if got:
            break
    assert got.rcode == NXDOMAIN
