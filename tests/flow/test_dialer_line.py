"""What a line to the dialer carries: whose dials they are, and what becomes of them."""
import select
import socket
import struct
import sys
import threading
import time

from dialer_gate import PUBLIC, PUBLIC_TOO, gate, network, sink
from fake_dns import FakeDns
from role_line import STATUS, Wire, compile_file, str16


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
