"""One gateway in a world of its own for all tests here; see world.py for the oracle.

    def test_x(battery):
        battery.run([("what it is", way, {"bad_host"}, question), ...])

question is an async function of nothing that gives a Got.  Each is followed by a good
request on the same way in, which must succeed; then nothing may have leaked and the
ledger must hold a row with a right code for each refusal.
"""
import asyncio
import collections
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import world as w  # noqa: E402
from hello import hello  # noqa: E402
from ways import Got, Ways  # noqa: E402

sys.path.append(str(HERE.parent / "flow"))
from tally import absent, found, load, pytest_sessionfinish  # noqa: E402,F401

FLOW = load(HERE.parent / "flow/conftest.py", "gate_of_flow")
AT_ONCE = 24
PLENTY = 1_000_000
CONFIG = {
    "workers": 2,
    "listeners": [{"name": "egress", "kind": "transparent", "address": "0.0.0.0:15001"},
                  {"name": "egress6", "kind": "transparent", "address": f"[{w.WORLD6}]:15001"},
                  {"name": "proxy", "kind": "proxy", "address": f"{w.WORLD4}:3128"},
                  {"name": "dns", "kind": "dns", "address": f"{w.WORLD4}:53"},
                  {"name": "dns6", "kind": "dns", "address": f"[{w.WORLD6}]:53"}],
    "resolver": {"servers": [w.RESOLVER], "timeout": "1s", "tries": 1},
    "timeouts": {"request_head": "3s", "hello": "3s", "stalled": "2s", "drain": "1s"},
    "limits": {"connections": 2000, "connections_per_second": PLENTY, "connections_burst": PLENTY,
               "dns_per_second": 3000},
    "ledger": {"denials_per_second": PLENTY},
    "sandboxes": [{"id": "box", "source": w.BOX4, "user": "alice", "policy": "p"},
                  {"id": "box6", "source": w.BOX6, "user": "alice", "policy": "p"},
                  {"id": "empty", "source": w.OTHERS["empty"], "user": "bob", "policy": "nothing"},
                  {"id": "watched", "source": w.OTHERS["watched"], "user": "eve", "policy": "watch"},
                  {"id": "slow", "source": w.OTHERS["slow"], "user": "bob", "policy": "p",
                   "limits": {"connections": 64, "connections_per_second": 100, "connections_burst": 100}}],
    "policies": {
        "nothing": {"allow": []},
        "watch": {"mode": "observe", "allow": [{"hosts": ["ok.test"], "ports": [80, 443]}]},
        "p": {"allow": [
            {"hosts": ["ok.test", "*.w.test", "*.ans.test", "metadata.google.internal"], "ports": [80, 443]},
            {"hosts": ["path.test"], "ports": [80], "methods": ["GET"], "paths": ["/public/**"]},
            {"hosts": ["narrow.test"], "ports": [80], "paths": ["/public/sub/**"]},
            {"hosts": ["only443.test"], "ports": [443]},
            {"hosts": ["db.test"], "ports": [5432], "protocol": "tcp"},
        ], "deny": [{"hosts": ["bad.w.test"]}, {"hosts": ["narrow.test"], "paths": ["/public/sub/not/**"]}]},
    },
}


class Rows:
    """The ledger as `audit --follow` tells it."""

    def __init__(self, gate):
        self.rows = []
        self.process = subprocess.Popen(
            [FLOW.BIN / "sandgate", "audit", "-c", gate.file, "--follow", "--json"], stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.rows.append(json.loads(line))

    def denied(self, since):
        return [r for r in self.rows[since:] if r["kind"] == "deny"]


class Battery:
    def __init__(self, world, gate, rows):
        self.world, self.gate, self.rows, self.ways = world, gate, rows, Ways(world)
        self.inputs, self.asked, self.by_row = set(), 0, collections.Counter()
        self.known_questions = {"ok.test", "db.test", "path.test", "narrow.test", "only443.test",
                                "metadata.google.internal"}

    def go(self, coroutine):
        """Run it; then nothing may have leaked."""
        got = asyncio.run(coroutine)
        self.check_leaks()
        return got

    def check_leaks(self):
        packets, where = self.world.leaks()
        assert (packets, where) == (0, []), "what left for where nothing may go"
        odd = [n for n in self.world.resolver.seen
               if n not in self.known_questions and not n.endswith((".w.test", ".ans.test"))]
        assert odd == [], "names that the resolver should never hear"

    async def good(self, way):
        ns, kind = way
        if kind in ("absolute", "http"):
            got = await self.ways.http((ns, "absolute"), b"GET @@/good HTTP/1.1\r\nHost: ok.test\r\n\r\n")
        elif kind == "host":
            got = await self.ways.http((ns, "transparent"), b"GET /good HTTP/1.1\r\nHost: ok.test\r\n\r\n")
        elif kind == "dns":
            got = await self.ways.dns(ns, "ok.test")
        else:
            kind = "transparent" if kind == "sni" else kind
            got = await self.ways.tls((ns, kind), hello())
        return got.how == "ok"

    def run(self, items, closes=None):
        """items: (label, way, codes that are right, question).  Gives the Gots.
        closes: the code in the ledger where the protocol leaves no room but to close."""
        items, since = list(items), len(self.rows.rows)
        name = sys._getframe(1).f_code.co_name
        bad, refusals, gots = [], [], []
        gate = None

        async def one(item):
            label, way, codes, question = item
            codes = {codes} if isinstance(codes, str) else codes
            async with gate:
                got = await question()
                gots.append((label, way, got))
                if not any(got.is_for(c) for c in codes):
                    bad.append(f"{label!r} by {way}: {got}, wanted {codes}")
                if not await self.good(way):
                    bad.append(f"{label!r} by {way}: the good request afterwards failed")
                if got.how == "closed" and closes:
                    refusals.append((label, way, {closes}, Got("closed", closes)))
                elif got.how not in ("ok", "closed"):
                    refusals.append((label, way, codes, got))

        async def all_of_them():
            nonlocal gate
            gate = asyncio.Semaphore(AT_ONCE)
            await asyncio.gather(*(one(i) for i in items))

        self.go(all_of_them())
        self.inputs |= {(name, i[0]) for i in items}
        self.asked += len(items)
        self.by_row[name] += len(items)
        assert not bad, f"{len(bad)} of {len(items)}:\n" + "\n".join(bad[:40])
        self.check_rows(refusals, since)
        return gots

    def count(self, name, n):
        """Inputs that were tried without run()."""
        self.inputs |= {(name, i) for i in range(n)}
        self.asked += n

    def check_rows(self, refusals, since):
        """A row for each refusal, with a code that the sandbox was told."""
        wanted = collections.Counter()
        for _, _, codes, got in refusals:
            # Packets that are no question are told once a second; that upstream has no
            # answer is no refusal of ours.
            if got.how != "dns" or got.code not in (None, "dns_failed", "dns_not_found"):
                wanted[frozenset({got.code} if got.code else {c for c in codes if got.is_for(c)})] += 1
        end = time.monotonic() + 8
        while (missing := self.unmatched(wanted, since)) and time.monotonic() < end:
            time.sleep(0.1)
        assert not missing, f"refusals without a row in the ledger: {missing}"

    def unmatched(self, wanted, since):
        """Sets of codes of which more were told than written down."""
        told = collections.Counter(r["code"] for r in self.rows.denied(since))
        short = {}
        for codes in [*wanted, frozenset().union(*wanted)]:
            n = sum(k for c, k in wanted.items() if c <= codes)
            if n > sum(told[c] for c in codes):
                short[codes] = (n, told)
        return short


@pytest.fixture(scope="session")
def battery():
    if os.geteuid() != 0:
        absent("cases", "network namespaces of this kind need root")
    world = w.World()
    gate = FLOW.Gate(CONFIG, listeners=())
    try:
        gate.start(60)
        world.capture(gate.cli("rules", "--interface", "veth-w", check=True).stdout)
        gate.cli("attach", "--pid", world.cell_pid, "--sandbox", "cell", "--policy", "p", check=True)
        rows = Rows(gate)
        made = Battery(world, gate, rows)
        yield made
        report(made)
        rows.process.kill()
        log = gate.text_of_log()
        assert "ERROR: AddressSanitizer" not in log and "runtime error:" not in log, log[-6000:]
        assert "role_death" not in {r["kind"] for r in rows.rows}, log[-6000:]
        assert gate.cli("audit", "verify").returncode == 0
        assert gate.stop() == 0
    finally:
        gate.close()
        world.close()


def report(battery):
    packets, where = battery.world.leaks()
    told = {"inputs": len(battery.inputs), "inputs_x_ways": battery.asked, "leaks": packets + len(where)}
    print("\n" + ", ".join(f"{k} {v}" for k, v in told.items()))
    found.update(told)
