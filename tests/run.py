#!/usr/bin/env python3
"""Everything `./dev test` runs, part by part, with one table at the end.

usage: run.py [PART ...] [--seconds N]     no part: all of them but `agents` and `long`

A part either RAN (with its result) or is ABSENT with the reason.  Under CI=true only
what no fresh machine could have may be absent; a part that failed fails the run.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
CLEAN_ENV = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}


class Absent(Exception):
    """This part can't run here; the text says why."""


class Failed(Exception):
    """What a part found."""


class LOG:
    """Where the part that runs writes."""

    out = None


def run(command, timeout=1800, **kw):
    env = {**CLEAN_ENV, **kw.pop("env", {})}
    kw.setdefault("stdout", LOG.out)
    kw.setdefault("stderr", LOG.out)
    LOG.out.flush()
    done = subprocess.run([str(c) for c in command], cwd=ROOT, timeout=timeout, env=env, **kw)
    if done.returncode:
        raise Failed(f"{' '.join(str(c) for c in command[:4])} gave {done.returncode}")
    return done


def build(preset, *options):
    """Built once a run, with the tests' own programs, also where `./dev demo` built without them before."""
    if preset not in BUILT:
        run(["cmake", "--preset", preset, "-DSG_TESTS=ON", *options], stdout=subprocess.DEVNULL)
        run(["cmake", "--build", f"build/{preset}"])
        BUILT.add(preset)
    return ROOT / "build" / preset


BUILT = set()


def part_lint(_):
    run([PYTHON, TESTS / "lint/run.py", build("release"), build("clang")])


def part_unit(_):
    count = 0
    for preset in ("asan", "clang"):
        folder = build(preset)
        run(["ctest", "--test-dir", folder, "--output-on-failure", "-j2", "-O", folder / "ctest.log"])
        count += int(re.search(r"out of (\d+)", (folder / "ctest.log").read_text()).group(1))
    return f"{count} test programs, gcc with sanitizers and clang"


def lanes_of(folder, count):
    """Its files in lanes that take about as long; the size of a file stands for its time."""
    lanes = [[] for _ in range(count)]
    for path in sorted(folder.glob("test_*.py"), key=lambda p: (-p.stat().st_size, p.name)):
        min(lanes, key=lambda lane: sum(p.stat().st_size for p in lane)).append(path)
    if not lanes[0]:
        raise Failed(f"{folder.relative_to(ROOT)} has no tests")
    return [lane for lane in lanes if lane]


def pytest_lane(paths, env, log):
    return subprocess.Popen(
        [PYTHON, "-m", "pytest", "-q", "-x" if os.environ.get("SG_STOP") else "-q", "-rs", "-p", "no:cacheprovider",
         *map(str, paths)], cwd=ROOT, env={**CLEAN_ENV, **env}, stdout=log, stderr=log)


def pytest(folder, bin_dir, timeout=1500, lanes=1):
    """In more than one lane where most of the time is spent waiting for clocks."""
    name = f"{folder.name}-{bin_dir.parent.name}"
    reports, logs, running, seen = [], [], [], {}
    for i, paths in enumerate(lanes_of(folder, lanes)):
        reports.append(ROOT / "build" / f"{name}.{i}.json")
        reports[-1].unlink(missing_ok=True)
        logs.append(open(ROOT / "build" / f"part-{name}.{i}.log", "w+", errors="replace"))
        running.append(pytest_lane(paths, {"SANDGATE_BIN": str(bin_dir), "SANDGATE_REPORT": str(reports[-1]),
                                           "SANDGATE_LANE": f"{i}/{lanes}"}, logs[-1]))
    end, codes = time.monotonic() + timeout, []
    for lane in running:
        try:
            codes.append(lane.wait(timeout=max(1, end - time.monotonic())))
        except subprocess.TimeoutExpired:
            lane.kill()
            codes.append(lane.wait())
    for log, code in sorted(zip(logs, codes), key=lambda pair: pair[1] != 0):
        log.seek(0)
        shutil.copyfileobj(log, LOG.out)
        log.close()
    for path in reports:
        if path.exists():
            seen.update(json.loads(path.read_text()))
            path.unlink()
    (ROOT / "build" / f"{name}.json").write_text(json.dumps(seen))
    if any(codes):
        raise Failed(f"pytest {folder.relative_to(ROOT)} gave {codes}")
    return ", ".join(f"{k} {v}" for k, v in seen.items()) or None


def part_flow(_):
    return pytest(TESTS / "flow", build("release") / "bin", lanes=2)


def part_cases(_):
    return pytest(TESTS / "cases", build("asan") / "bin")


def part_clients(_):
    return pytest(TESTS / "clients", build("release") / "bin")


def part_systems(_):
    return pytest(TESTS / "systems", build("release") / "bin")


def part_escape(_):
    return pytest(TESTS / "escape", build("release") / "bin")


def part_jail(_):
    return pytest(TESTS / "jail", build("release") / "bin")


def part_separation(_):
    return pytest(TESTS / "separation", build("release") / "bin")


def part_kill(_):
    return pytest(TESTS / "kill", build("release") / "bin")


def bring_opensandbox():
    """Its server, SDKs and image come while other parts run: that is waiting for the network."""
    with open(ROOT / "build/opensandbox.log", "w") as out:
        return subprocess.Popen(["nice", PYTHON, TESTS / "opensandbox/packages.py"], cwd=ROOT, env=CLEAN_ENV, stdout=out,
                                stderr=out, stdin=subprocess.DEVNULL)


def part_opensandbox(options):
    folder = build("release") / "bin"
    options.brought.wait(1500)
    return pytest(TESTS / "opensandbox", folder)


def part_kubernetes(_):
    return pytest(TESTS / "kubernetes", build("release") / "bin")


def part_agents(_):
    return pytest(TESTS / "agents", build("release") / "bin")


def part_fuzz(options):
    folder = build("fuzz")
    more = ["--seconds", options.seconds] if options.seconds else []
    run([PYTHON, TESTS / "fuzz/run.py", folder, *more], timeout=3600)
    LOG.out.flush()
    return (ROOT / "build/part-fuzz.log").read_text(errors="replace").strip().splitlines()[-1]


def part_demo(_):
    run([PYTHON, TESTS / "demo/demo.py", build("release") / "bin"])


def part_fresh(options):
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        raise Absent("needs root and debootstrap")
    run([TESTS / "fresh/fresh.sh", "bookworm"], timeout=2400)
    return "Debian 12: ./dev demo in a root of its own"


def part_fresh13(options):
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        raise Absent("needs root and debootstrap")
    run([TESTS / "fresh/fresh.sh", "trixie"], timeout=2400)
    return "Debian 13: ./dev demo in a root of its own"


def part_long(_):
    run([PYTHON, TESTS / "long/run.py", build("release") / "bin"], timeout=4 * 3600)


PARTS = {name.removeprefix("part_"): fn for name, fn in list(globals().items()) if name.startswith("part_")}
# One after the other: what waits for a clock is not tried beside what takes the whole
# machine, or a stall of the machine passes for one of the gateway.
ORDER = ["unit", "lint", "fuzz", "demo", "flow", "cases", "jail", "separation", "escape", "kill", "clients", "systems",
         "opensandbox", "kubernetes", "fresh", "fresh13"]


def one(name, options, rows):
    path = ROOT / "build" / f"part-{name}.log"
    begun = time.monotonic()
    with open(path, "w+", errors="replace") as LOG.out:
        try:
            how, note = "RAN", PARTS[name](options) or "passed"
        except Absent as why:
            how, note = "ABSENT", str(why)
        except (Failed, subprocess.TimeoutExpired, OSError, ValueError, AttributeError) as why:
            how, note = "FAILED", str(why)
    seconds = time.monotonic() - begun
    rows[name] = (how, note, seconds)
    tail = path.read_text(errors="replace").splitlines()[-(150 if how == "FAILED" else 4):]
    print(f"== {name}: {how} after {seconds:.0f} s: {note}")
    print("\n".join("   " + line[:300] for line in tail), flush=True)


def absences():
    """What single tests reported as absent, of all parts."""
    for path in sorted((ROOT / "build").glob("*-*.json")):
        try:
            found = json.loads(path.read_text())
        except ValueError:
            continue
        for key, why in found.items():
            if key.startswith("absent"):
                yield f"{path.stem}: {key} {why}"


def main():
    # What a shell starts in the background ignores SIGINT, and so would all that is tried.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--seconds", default=None)
    options = parser.parse_args()
    unknown = [name for name in options.parts if name not in PARTS]
    if unknown:
        parser.error(f"no part {unknown[0]}; there are {' '.join(PARTS)}")
    (ROOT / "build").mkdir(exist_ok=True)
    rows = {}
    names = options.parts or ORDER
    if "opensandbox" in names:
        options.brought = bring_opensandbox()
    for name in names:
        one(name, options, rows)
    print("\n== parts")
    for name in names:
        how, note, seconds = rows[name]
        print(f"{name:10} {how:7} {seconds:5.0f} s  {note}")
    for line in absences():
        print(f"absent     {line}")
    failed = sum(rows[n][0] == "FAILED" for n in names)
    print(f"\n{len(rows) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
