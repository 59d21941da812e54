"""A worker that somebody took over asks connectors and the keeper for every secret: it gets what the
connections that it holds may use, and that is in the ledger."""
import os
import socket
import struct

import pytest
from conftest import found, wait_for
from connector_line import Lane
from many import Many
from role_line import str16
from taken import CLOSE, SOCKETPAIR, copy_of, inject, line_to, no_injector, say, tcp_of

HELD, OTHER = "127.0.0.2", "127.0.0.1"  # may use bearer-a alone; may use all
POINT = bytes.fromhex("046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
                      "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5")  # of P-256: its base point


class Taken:
    def __init__(self, world):
        self.world, self.g, self.pids = world, world.gate, world.pids()
        self.pid = self.pids["worker.0"]

    def accepted(self, source):
        return tcp_of(self.pid, lambda l, r, st: l == self.g.proxy and r[0] == source and st == "01")

    def listening(self):
        return tcp_of(self.pid, lambda l, r, st: l == self.g.proxy and st == "0A")

    def pair(self):
        """Descriptors of a pair of sockets that the worker makes."""
        before = set(os.listdir(f"/proc/{self.pid}/fd"))
        assert inject(self.pid, SOCKETPAIR, 1, 1, 0, "&0", "--data", "00" * 8) == ("returned", 0)
        return sorted(int(fd) for fd in set(os.listdir(f"/proc/{self.pid}/fd")) - before)

    def lane(self, name, sandbox, generation=None):
        """The worker's end of a lane that it asked for; closed at once when it was refused."""
        ours, theirs = self.pair()
        line = line_to(self.pid, self.pids[f"connector.{self.world.groups.index(name[-1])}"])
        say(self.pid, line, "LANE", str16(name) + struct.pack("!Q", generation or self.g.status()["generation"]),
            [theirs, sandbox])
        end = copy_of(self.pid, ours)
        for fd in (ours, theirs):
            inject(self.pid, CLOSE, fd)
        found["asks of a taken worker"] = found.get("asks of a taken worker", 0) + 1
        return end

    def gets(self, name, sandbox, path="/echo/plain", host=None, **kw):
        """What a request on such a lane brings; None: no lane."""
        with self.lane(name, sandbox, **kw) as end:
            try:
                return Lane(end).call("GET", path, host=host or f"{name}.example.test:{self.world.firm(name[-1]).port}")
            except (OSError, EOFError):
                return None

    def seen(self):
        return sum(len(s.seen) for s in self.world.systems.values())


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    why = no_injector()
    if why:
        pytest.skip(why)
    made = Many(tmp_path_factory.mktemp("taken"), "ab")
    yield made
    made.close()


@pytest.fixture
def taken(world):
    with world.connect("bearer-a", HELD):
        yield Taken(world)
    wait_for(lambda: world.curl("bearer-a", "/echo/plain") == 200)  # all is well again, whoever died


def test_what_a_connection_may_use_it_gets_and_that_is_in_the_ledger(taken):
    """Also: the other tests can see what they look for."""
    before = len(taken.g.rows(kind="credential", sandbox="small"))
    answer = taken.gets("bearer-a", taken.accepted(HELD))
    assert answer.status == 200 and answer.body
    assert not taken.world.needles.found(answer.body + repr(answer.all).encode())
    rows = taken.g.wait_rows(before + 1, kind="credential", sandbox="small")
    assert {r["connector"] for r in rows} == {"bearer-a"}


def test_no_other_connector_serves_that_connection(taken):
    before, held = taken.seen(), taken.accepted(HELD)
    for name in taken.world.values:
        if name != "bearer-a":
            assert taken.gets(name, held) is None, name
    assert taken.seen() == before
    assert {r["connector"] for r in taken.g.rows(kind="credential", sandbox="small")} <= {"bearer-a"}


def test_a_lane_leads_to_its_connectors_hosts_and_paths_only(taken):
    before, held = taken.seen(), taken.accepted(HELD)
    port = taken.world.firm("a").port
    for host, path in ((f"basic-a.example.test:{port}", "/echo/plain"), (f"bearer-b.example.test:{port}", "/echo/plain"),
                       (f"bearer-a.example.test:{port}", "/admin"), ("127.0.0.9", "/echo/plain"), (f"login-a.example.test:{port}", "/token")):
        answer = taken.gets("bearer-a", held, path, host)
        assert answer is None or answer.status >= 400 or answer.reset is not None, (host, path)
    assert taken.seen() == before


@pytest.mark.parametrize("what", ["a listening socket", "its line to the keeper", "the other end of a pair", "an older policy"])
def test_what_is_no_connection_of_a_sandbox_opens_no_lane(taken, what):
    before = taken.seen()
    fd = {"a listening socket": taken.listening, "its line to the keeper": lambda: line_to(taken.pid, taken.pids["keeper"]),
          "the other end of a pair": lambda: taken.pair()[0], "an older policy": lambda: taken.accepted(HELD)}[what]()
    assert taken.gets("bearer-a", fd, generation=77 if what == "an older policy" else None) is None
    assert taken.seen() == before


@pytest.mark.parametrize("name", ["basic-a", "bucket-b"])
def test_a_lease_is_no_workers_to_ask_for(taken, name):
    say(taken.pid, line_to(taken.pid, taken.pids["keeper"]), "LEASE", str16(name) + str16(f"{name}/secret"), [taken.accepted(HELD)])
    wait_for(lambda: taken.world.pids()["worker.0"] != taken.pid)  # its line was closed, so it had to end
    assert taken.g.wait_rows(1, kind="role_death")
    assert not any(name in r["detail"] for r in taken.g.rows(kind="lease"))


def test_a_leaf_is_for_hosts_that_some_policy_lets_out_and_is_told(taken):
    line = line_to(taken.pid, taken.pids["keeper"])
    for host in ("basic-b.example.test", "bank.example.test"):
        say(taken.pid, line, "MINT", str16(host) + bytes([0]) + POINT)
    rows = taken.g.wait_rows(1, kind="mint", host="bank.example.test")
    assert {r["code"] for r in rows} == {"denied_by_policy"}
    assert taken.g.wait_rows(1, kind="mint", host="basic-b.example.test", code="ok")
