#!/usr/bin/env python3
"""What sandgate adds to OpenSandbox: the same commands and streams directly and through the
gateway, by turns, at a real server (docker) where that can run, else at the strict fake.

usage: bench_exec.py [--rounds N] [--commands N] [--events N] [--fake] [--json FILE]

Latency: of a whole command, median of the rounds' medians, and what is added.  Processor: of
all processes of the gateway by the scheduler's account, per command and per event.  Then the
life of a sandbox as its caller sees it: cold create, warm claim, pause, resume, snapshot.
"""
import argparse
import contextlib
import ctypes
import http.client
import json
import os
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "opensandbox"))
os.environ.setdefault("SANDGATE_BIN", str(HERE.parents[1] / "build/release/bin"))

import fake_server  # noqa: E402
import front  # noqa: E402
import packages  # noqa: E402
import real_stack  # noqa: E402

CLONE_NEWNET = 0x40000000
SHAPE = {"image": {"uri": front.IMAGE}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 600,
         "resourceLimits": {"cpu": "1", "memory": "256Mi"}}
WARM = [{"name": "bench", "size": 2, "image": front.IMAGE, "entrypoint": SHAPE["entrypoint"],
         "limits": SHAPE["resourceLimits"]}]


class Way:
    """One way to a sandbox: `authority` and the path before execd's own."""

    def __init__(self, authority, prefix, fields):
        self.link, self.prefix, self.fields = http.client.HTTPConnection(authority, timeout=120), prefix, fields

    def wait(self):
        """execd comes up a moment after its container."""
        for _ in range(200):
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.link.request("GET", self.prefix + "/ping", headers=self.fields)
                answer = self.link.getresponse()
                answer.read()
                if answer.status == 200:
                    return
            self.link.close()
            time.sleep(0.05)
        sys.exit("bench: execd does not answer")

    def command(self, text):
        """Seconds of one command, and its events."""
        began = time.perf_counter()
        self.link.request("POST", self.prefix + "/command", json.dumps({"command": text}),
                          {"Content-Type": "application/json", **self.fields})
        answer = self.link.getresponse()
        body = answer.read()
        took = time.perf_counter() - began
        if answer.status != 200 or b"execution_complete" not in body:
            sys.exit(f"bench: {answer.status} {body[:300]!r}")
        return took, body.count(b'"stdout"')


def cpu_ns(pids):
    """Of all threads that ever ran there (there is one each)."""
    return sum(int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids)


def rounds(options, ways, pids):
    """Alternating, so that what else the machine does meets both alike."""
    seen = {name: [] for name in ways}
    cost, ran = 0, 0
    for _ in range(options.rounds):
        for name, way in ways.items():
            before = cpu_ns(pids)
            seen[name].append(statistics.median(way.command("true")[0] for _ in range(options.commands)))
            if name == "sandgate":
                cost, ran = cost + cpu_ns(pids) - before, ran + options.commands
    return {name: statistics.median(times) * 1e3 for name, times in seen.items()}, cost / ran / 1e3


def events(options, way, pids):
    """Processor time of the gateway per event of a stream that comes as fast as it can."""
    before = cpu_ns(pids)
    _, count = way.command(f"seq {options.events}")
    return (cpu_ns(pids) - before) / max(count, 1) / 1e3, count


def timed(gate, method, path, body=None, **fields):
    began = time.perf_counter()
    status, answer, _ = gate.ask(method, path, body, **fields)
    if status >= 300:
        sys.exit(f"bench: {method} {path}: {status} {answer}")
    return (time.perf_counter() - began) * 1e3, answer


def wait_warm(gate):
    """Until as many are ready as are wanted."""
    for _ in range(600):
        if gate.gate.cli("sandboxes").stdout.count("(warm)") >= WARM[0]["size"]:
            return
        time.sleep(0.1)
    sys.exit("bench: no warm sandbox")


def life(gate, n=3):
    """Medians in ms."""
    times = {}

    def note(name, pair):
        times.setdefault(name, []).append(pair[0])
        return pair[1]

    for i in range(n):
        cold = note("cold create", timed(gate, "POST", "/v1/sandboxes", {**SHAPE, "env": {"COLD": str(i)}}))["id"]
        wait_warm(gate)
        warm = note("warm claim", timed(gate, "POST", "/v1/sandboxes", SHAPE))["id"]
        note("pause", timed(gate, "POST", f"/v1/sandboxes/{cold}/pause"))
        note("resume", timed(gate, "POST", f"/v1/sandboxes/{cold}/resume"))
        note("snapshot", timed(gate, "POST", f"/v1/sandboxes/{cold}/snapshots", {"name": "bench"}))
        for box in (cold, warm):
            note("kill", timed(gate, "DELETE", f"/v1/sandboxes/{box}"))
    return {name: statistics.median(values) for name, values in times.items()}


@contextlib.contextmanager
def hands(fake):
    """(what runs commands, {name: (url, key)}, words that enter its namespace)."""
    why = "asked for" if fake else real_stack.why_not()
    if why is None:
        missing = [str(v) for v in packages.bring().values() if isinstance(v, packages.Missing)]
        why = missing[0] if missing else None
    if why is not None:
        one = fake_server.FakeServer()
        try:
            yield f"the strict fake ({why})", {"standard": (one.url, one.key)}, ()
        finally:
            one.close()
        return
    with real_stack.RealStack(tiers={"standard": "runc"}) as stack:
        yield "opensandbox-server, docker, runc", {n: (s.url, s.key) for n, s in stack.servers.items()}, stack.inside()


def enter(around):
    """This process joins the namespace of the servers: their ports are on its loopback."""
    if around:
        pid = around[around.index("--target") + 1]
        with open(f"/proc/{pid}/ns/net", encoding="ascii") as space:
            if ctypes.CDLL(None, use_errno=True).setns(space.fileno(), CLONE_NEWNET) != 0:
                sys.exit(f"bench: setns: {os.strerror(ctypes.get_errno())}")


def measure(options, what, servers, around):
    gate = front.Front(servers, around=around, workers=1, more={"exec": {"warm": WARM}})
    try:
        enter(around)
        box = timed(gate, "POST", "/v1/sandboxes", {**SHAPE, "metadata": {"bench": "direct"}})[1]["id"]
        url, key = servers["standard"]
        link = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
        link.request("GET", "/v1/sandboxes?metadata=bench%3Ddirect", headers={"OPEN-SANDBOX-API-KEY": key})
        upstream = json.loads(link.getresponse().read())["items"][0]["id"]
        link.request("GET", f"/v1/sandboxes/{upstream}/endpoints/44772", headers={"OPEN-SANDBOX-API-KEY": key})
        host, _, rest = json.loads(link.getresponse().read())["endpoint"].partition("/")
        ways = {"direct": Way(host, "/" + rest, {}),
                "sandgate": Way(gate.authority, f"/v1/sandboxes/{box}/proxy/44772", {"OPEN-SANDBOX-API-KEY": gate.key})}
        for way in ways.values():
            way.wait()
            for _ in range(20):
                way.command("true")
        pids = list(gate.gate.pids().values())
        latency, cost = rounds(options, ways, pids)
        per_event, count = events(options, ways["sandgate"], pids)
        found = {"at": what, "direct_ms": latency["direct"], "sandgate_ms": latency["sandgate"],
                 "added_us": (latency["sandgate"] - latency["direct"]) * 1e3, "cpu_us_per_command": cost,
                 "cpu_us_per_event": per_event, "events": count, "ms": life(gate)}
    finally:
        gate.close()
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--commands", type=int, default=40)
    parser.add_argument("--events", type=int, default=20000)
    parser.add_argument("--fake", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    with hands(options.fake) as (what, servers, around):
        found = measure(options, what, servers, around)
    print(f"at {found['at']}, load {os.getloadavg()[0]:.1f}")
    print(f"command            direct {found['direct_ms']:.2f} ms, sandgate {found['sandgate_ms']:.2f} ms: "
          f"{found['added_us']:+.0f} us")
    print(f"processor          {found['cpu_us_per_command']:.0f} us a command, {found['cpu_us_per_event']:.1f} us an event "
          f"({found['events']} events)")
    for name, ms in found["ms"].items():
        print(f"{name:18} {ms:.1f} ms")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(found, indent=1))


main()
