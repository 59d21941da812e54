"""Reloads, drains and deaths while requests run: what is allowed goes on, what is not ends."""
import json
import os
import signal
import socket
import threading
import time

import pytest

from conftest import free_port, wait_for
from http_line import Client, config, hello, make

FAST = {"connections": 4000, "connections_per_second": 100000, "connections_burst": 100000,
        "requests_per_second": 1000000, "requests_burst": 1000000}


@pytest.fixture
def world():
    gate, origin = make(limits=FAST, timeouts={"drain": "3s"})
    gate.start()
    yield gate, origin
    gate.close()
    origin.close()
    assert not origin.errors, origin.errors


def test_a_hundred_reloads_fail_none_of_ten_thousand_requests(world):
    g, _ = world
    port, stop, done, failed = g.ports["egress"], threading.Event(), [0] * 4, []

    def run(i):
        c = None
        while not stop.is_set():
            try:
                c = c or Client(g, ["absolute", "connect"][i % 2])
                m = c.get(f"/{i}/{done[i]}")
                if m.status != 200:
                    failed.append((m.first, m.body))
                done[i] += 1
                if m["connection"] == "close":
                    c.close()
                    c = None
            except (OSError, EOFError) as why:
                failed.append(repr(why))
                c = None

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(4)]
    for t in threads:
        t.start()
    begun, reloads = time.monotonic(), 0
    while reloads < 100 or (sum(done) < 10000 and time.monotonic() - begun < 45):
        more = {"hosts": [f"n{reloads}.example.test"]}
        new = config(port, limits=FAST, timeouts={"drain": "3s"})
        new["policies"]["coding"]["allow"].insert(0, more)
        try:
            code, said = g.reload(new)
        except OSError as why:
            raise AssertionError(g.text_of_log()[-3000:]) from why
        assert code == 200, said
        reloads += 1
        time.sleep(0.12)
    stop.set()
    for t in threads:
        t.join()
    assert failed == [] and reloads >= 100 and sum(done) >= 10000, (len(failed), failed[:3], reloads, sum(done))
    assert g.cli("audit", "verify").returncode == 0


@pytest.mark.parametrize("text, place", [
    ("polices: {}\n", ":1:1:"), ("policies: {a: {allow: [{hosts: [\"*.com\"]}]}}\n", ":1:"), ("a: [\n", ":"),
    ("timeouts:\n  keepalive: soon\n", ":2:")])
def test_a_broken_file_changes_nothing_and_says_where(world, text, place):
    g, _ = world
    c = Client(g)
    assert c.get().status == 200
    g.write(text)
    said = g.cli("reload")
    assert said.returncode != 0 and f"sandgate.yaml{place}" in said.stdout + said.stderr, said
    assert c.get().status == 200 and g.status()["generation"] == 1


def test_the_next_request_on_a_kept_connection_is_judged_by_the_new_policy(world):
    g, o = world
    port = g.ports["egress"]
    c, d = Client(g), Client(g, "connect")
    assert c.get().status == d.get().status == 200
    new = config(port)
    new["policies"]["coding"]["allow"][0]["hosts"] = ["also.example.test"]
    assert g.reload(new)[0] == 200
    m = c.get()
    assert m.status == 403 and json.loads(m.body)["error"]["code"] == "denied_by_policy"
    assert c.get(host="also.example.test").status == 200
    try:
        assert d.get().status == 403
    except (OSError, EOFError):
        pass  # or the pinned connection is closed: it can reach nothing any more
    assert len(o.requests) == 3


def test_a_request_that_waits_for_its_dial_is_judged_again(world):
    g, o = world
    dialer = g.pids()["dialer"]
    new = config(g.ports["egress"])
    new["policies"]["coding"]["allow"][0]["hosts"] = ["also.example.test"]
    g.write(new)
    os.kill(dialer, signal.SIGSTOP)
    c = Client(g).request()
    time.sleep(0.1)
    answers = []
    reload = threading.Thread(target=lambda: answers.append(g.reload()))
    reload.start()
    time.sleep(0.1)
    os.kill(dialer, signal.SIGCONT)
    reload.join()
    m = c.response()
    # Either the dial came first, under the old policy, or the new one forbids it.
    assert m.status in (200, 403) and (m.status == 200) == bool(o.requests), (m.first, answers)


def test_websockets_that_the_new_policy_forbids_are_closed_before_the_reload_returns(world):
    from test_http_upgrade import WANTS, switch
    g, o = world
    o.reset(switch, is_raw=True)
    gone, stays = Client(g, host="ok.example.test"), Client(g, host="also.example.test")
    for c in (gone, stays):
        assert c.request(fields=WANTS).response().status == 101
    new = config(g.ports["egress"])
    new["policies"]["coding"]["allow"][0]["hosts"] = ["also.example.test"]
    assert g.reload(new)[0] == 200
    gone.sock.settimeout(0.5)
    try:
        assert gone.sock.recv(1) == b""
    except ConnectionError:
        pass
    stays.send("still here")
    assert stays.exactly(10) == b"still here"


def test_a_download_outlives_reloads_and_keeps_its_row(world):
    g, o = world
    go = threading.Event()

    def script(peer, r):
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
        go.wait(10)
        peer.send("world")

    o.reset(script)
    c = Client(g).request(path="/long")
    c.until(b"hello")
    new = config(g.ports["egress"])
    new["policies"]["coding"]["allow"] = []
    assert g.reload(new)[0] == 200
    go.set()
    assert c.exactly(5) == b"world"
    row = g.wait_rows(kind="response")[-1]
    assert (row["code"], row["bytes_down"]) == ("ok", 10)


def test_sighup_is_a_reload(world):
    g, _ = world
    new = config(g.ports["egress"])
    new["policies"]["coding"]["allow"] = []
    g.write(new)
    g.process.send_signal(signal.SIGHUP)
    wait_for(lambda: Client(g).get().status == 403)


def test_listeners_come_and_go_while_requests_run(world):
    g, _ = world
    port, extra = g.ports["egress"], free_port()
    c = Client(g)
    new = {"name": "more", "kind": "proxy", "address": f"127.0.0.1:{extra}"}
    for _ in range(5):
        assert g.reload(config(port, listeners=g.listeners() + [new]))[0] == 200
        old, g.ports["proxy"] = g.ports["proxy"], extra
        d = Client(g)
        g.ports["proxy"] = old
        assert c.get().status == d.get().status == 200
        assert g.reload(config(port, listeners=g.listeners()))[0] == 200
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", extra), timeout=2).sendall(b"x" * 100)
            raise ConnectionRefusedError
        assert c.get().status == 200


def test_sigterm_lets_a_download_end_and_takes_nothing_new(world):
    g, o = world
    size = 3_000_000

    def script(peer, r):
        peer.send(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n")
        for _ in range(30):
            peer.send(b"d" * (size // 30))
            time.sleep(0.06)  # well within timeouts.drain

    o.reset(script)
    idle = Client(g)
    idle.request("HEAD", host="denied.example.test").response("HEAD")
    c = Client(g).request()
    c.until(b"\r\n\r\n")
    process = g.process
    process.send_signal(signal.SIGTERM)
    time.sleep(0.05)
    process.send_signal(signal.SIGTERM)  # as timeout(1) does
    time.sleep(0.1)
    refused = False
    try:
        with socket.create_connection(g.proxy, timeout=2) as s:
            s.sendall(b"GET http://ok.example.test/ HTTP/1.1\r\nHost: ok.example.test\r\n\r\n")
            said = s.recv(100)
            refused = said == b"" or b" 503 " in said
    except OSError:
        refused = True
    assert refused
    assert len(c.exactly(size)) == size
    assert process.wait(10) == 0


def test_a_second_sigterm_ends_it_at_once(world):
    g, o = world
    o.reset(lambda peer, r: peer.rest() and True, is_raw=True)
    Client(g).request()
    wait_for(lambda: o.requests)
    begun = time.monotonic()
    g.process.send_signal(signal.SIGTERM)
    time.sleep(0.8)
    assert g.stop() == 0
    assert time.monotonic() - begun < 2.5  # timeouts.drain is 3s


def test_sigterm_ends_at_its_deadline(world):
    g, o = world
    o.reset(lambda peer, r: peer.rest() and True, is_raw=True)
    Client(g).request()
    wait_for(lambda: o.requests)
    begun = time.monotonic()
    assert g.stop() == 0
    assert 2.5 < time.monotonic() - begun < 8


@pytest.mark.parametrize("role", ["worker.0", "dialer", "ledger", "control", "keeper", "dns"])
def test_a_role_that_is_killed_while_it_serves_is_back_and_nothing_fails_open(world, role):
    g, o = world
    before, stop, codes = g.pids(), threading.Event(), []

    def forbidden():
        while not stop.is_set():
            try:
                m = Client(g, host="rest.example.test").get("/forbidden")
                codes.append(m.status)
            except (OSError, EOFError):
                time.sleep(0.005)

    o.reset(hello)
    t = threading.Thread(target=forbidden)
    t.start()
    time.sleep(0.1)
    os.kill(before[role], signal.SIGKILL)

    def back():
        try:
            return g.pids()[role] not in (0, before[role]) and Client(g).get("/fine").status == 200
        except (OSError, EOFError):
            return False

    wait_for(back)
    time.sleep(0.1)
    stop.set()
    t.join()
    after = g.pids()
    assert {n for n in after if after[n] != before[n]} == {role}
    assert not [r for r in o.requests if "forbidden" in r.first]
    assert codes and not [c for c in codes if c < 400]
    assert any(role in r["detail"] for r in g.wait_rows(kind="role_death"))
    assert g.cli("audit", "verify").returncode == 0


def test_a_download_goes_on_while_every_other_role_dies(world):
    g, o = world
    go = threading.Event()

    def script(peer, r):
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
        go.wait(20)
        peer.send("world")

    o.reset(script)
    c = Client(g).request()
    c.until(b"hello")
    for role, pid in g.pids().items():
        if role != "worker.0":
            os.kill(pid, signal.SIGKILL)
    go.set()
    assert c.exactly(5) == b"world"
    o.reset()
    wait_for(lambda: Client(g).get().status == 200)


@pytest.mark.parametrize("method, path", [("POST", "/v1/reload"), ("GET", "/v1/status")])
def test_an_operator_who_asks_too_often_is_told_so_and_control_lives(world, method, path):
    g, _ = world
    control, codes = g.pids()["control"], []

    def run():
        while time.monotonic() < end:
            codes.append(g.admin(method, path)[0])

    end = time.monotonic() + 1.5
    threads = [threading.Thread(target=run) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert {200, 429} <= set(codes) <= {200, 409, 422, 429}, set(codes)
    time.sleep(1)
    assert g.pids()["control"] == control and g.reload()[0] == 200
    assert "line: limit_rate" not in g.text_of_log()
