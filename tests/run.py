#!/usr/bin/env python3
"""Everything `./dev test` runs, part by part, with one table at the end.

usage: run.py [PART ...] [--seconds N]     no part: all of them but `agents`, `bare` and `long`

A part either RAN (with its result) or is ABSENT with the reason.  Under CI=true only
what no fresh machine could have may be absent; a part that failed fails the run.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
CLEAN_ENV = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}


class Absent(Exception):
    """This part can't run here; the text says why."""


class Failed(Exception):
    """What a part found."""


# What says why a part failed: of pytest, ctest, cmocka, compilers, and fuzz/run.py.
DECISIVE = re.compile(r"FAILED[: ]|ERROR tests/|tests/\S+\.py:\d+: \w|\s*\d+ - \S+ \((?!Passed)\w|\[  (ERROR|FAILED)  |"
                      r"\S+:\d+:\d+: (fatal )?error: |reproducer of |base64: ")
# Of the lint it is all but this.
GOOD_LINT = re.compile(r"lint \w+: ok|\[\d+/\d+\] |ninja: |\s*$")
DECISIVE_LINES = 40


def decisive(name, lines):
    """What is told of a part's log once more at the very end, as only the end of a run's is kept."""
    if name == "lint":
        found = [line for line in lines if not GOOD_LINT.match(line)]
    else:
        found = [line for line in lines if DECISIVE.match(line)]
    return (found or lines[-DECISIVE_LINES // 2:])[-DECISIVE_LINES:]


class Log(threading.local):
    """Where the part that runs in this thread writes."""

    out = None


LOG = Log()


def run(command, timeout=1800, **kw):
    env = {**CLEAN_ENV, **kw.pop("env", {})}
    kw.setdefault("stdout", LOG.out)
    kw.setdefault("stderr", LOG.out)
    LOG.out.flush()
    done = subprocess.run([str(c) for c in command], cwd=ROOT, timeout=timeout, env=env, **kw)
    if done.returncode:
        raise Failed(f"{' '.join(str(c) for c in command[:4])} gave {done.returncode}")
    return done


def build(preset, target="all"):
    """Built once a run, with the tests' own programs, also where `./dev demo` built without them before."""
    with BUILDING[preset]:
        if preset not in BUILT:
            run(["cmake", "--preset", preset, "-DSG_TESTS=ON"], stdout=subprocess.DEVNULL)
            run(["cmake", "--build", f"build/{preset}", "--target", target])
            BUILT.add(preset)
    return ROOT / "build" / preset


BUILT = set()
BUILDING = {preset: threading.Lock() for preset in ("release", "asan", "clang", "fuzz")}


def part_lint(_):
    run([PYTHON, TESTS / "lint/run.py", build("release"), build("clang")], timeout=3600)


def part_unit(_):
    count = 0
    for preset in ("asan", "clang"):
        folder = build(preset)
        run(["ctest", "--test-dir", folder, "--output-on-failure", "-j2", "-O", folder / "ctest.log"])
        count += int(re.search(r"out of (\d+)", (folder / "ctest.log").read_text()).group(1))
    return f"{count} test programs, gcc with sanitizers and clang"


class Lane(threading.Thread):
    """Runs files of tests, one behind the other, as long as there are any left."""

    def __init__(self, paths, env, end):
        super().__init__()
        self.paths, self.env, self.end, self.seen, self.bad = paths, env, end, {}, []
        self.good_logs, self.bad_logs = [], []

    def run(self):
        while True:
            try:
                self.one(self.paths.popleft())
            except IndexError:
                return

    def one(self, files):
        report = pathlib.Path(self.env["SANDGATE_REPORT"])
        report.unlink(missing_ok=True)
        with tempfile.TemporaryFile("w+", errors="replace") as log:
            try:
                done = subprocess.run(
                    [PYTHON, "-m", "pytest", "-q", "-x" if os.environ.get("SG_STOP") else "-q", "-rfEs", "-p",
                     "no:cacheprovider", *files], cwd=ROOT, env={**CLEAN_ENV, **self.env}, stdout=log, stderr=log,
                    timeout=max(1, self.end - time.monotonic()))
                code = done.returncode
            except subprocess.TimeoutExpired:
                code = "no end"
            log.seek(0)
            (self.bad_logs if code else self.good_logs).append(log.read())
        if code:
            self.bad.append(f"{files[0].name if len(files) == 1 else files[0].parent.name} gave {code}")
        if report.exists():
            self.seen.update(json.loads(report.read_text()))
            report.unlink()


def pytest(folder, bin_dir, timeout=1500, lanes=1):
    """In more than one lane where most of the time is spent waiting for clocks."""
    files = sorted(folder.glob("test_*.py"), key=lambda p: (-p.stat().st_size, p.name))
    if not files:
        raise Failed(f"{folder.relative_to(ROOT)} has no tests")
    name, running = f"{folder.name}-{bin_dir.parent.name}", []
    # One lane keeps what tests of a folder share; of more, each file is on its own.
    paths = collections.deque([sorted(files)] if lanes == 1 else [[f] for f in files])
    for i in range(lanes):
        env = {"SANDGATE_BIN": str(bin_dir), "SANDGATE_REPORT": str(ROOT / "build" / f"{name}.{i}.json"),
               "SANDGATE_LANE": f"{i}/{lanes}"}
        running.append(Lane(paths, env, time.monotonic() + timeout))
        running[-1].start()
    seen, bad = {}, []
    for lane in running:
        lane.join()
        seen.update(lane.seen)
        bad += lane.bad
    # What failed comes last, where it is shown.
    LOG.out.write("".join(text for lane in running for text in lane.good_logs))
    LOG.out.write("".join(text for lane in running for text in lane.bad_logs))
    (ROOT / "build" / f"{name}.json").write_text(json.dumps(seen))
    if bad:
        raise Failed(", ".join(bad))
    return ", ".join(f"{k} {v}" for k, v in seen.items()) or None


def part_flow(_):
    return pytest(TESTS / "flow", build("release") / "bin", lanes=3)


def part_cases(_):
    return pytest(TESTS / "cases", build("asan") / "bin")


def part_clients(_):
    return pytest(TESTS / "clients", build("release") / "bin")


def part_systems(_):
    return pytest(TESTS / "systems", build("release") / "bin")


def part_escape(_):
    return pytest(TESTS / "escape", build("release") / "bin", lanes=3)  # 12 s of work in 130


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


def build_fuzz():
    return build("fuzz", "fuzz_targets")


def part_fuzz(options):
    folder = build_fuzz()
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


def part_bare(_):
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        raise Absent("needs root and debootstrap")
    run([TESTS / "fresh/fresh.sh", "bookworm", "./dev", "test", *BARE], timeout=3 * 3600)
    return f"Debian 12: ./dev test {' '.join(BARE)} in a root of its own"


def part_long(_):
    run([PYTHON, TESTS / "long/run.py", build("release") / "bin"], timeout=4 * 3600)


PARTS = {name.removeprefix("part_"): fn for name, fn in list(globals().items()) if name.startswith("part_")}
# What a machine that has everything may hide the want of.
BARE = ["unit", "flow", "clients", "kubernetes"]
# One after the other: what waits for a clock is not tried beside what takes the whole
# machine, or a stall of the machine passes for one of the gateway.
ORDER = ["unit", "lint", "demo", "flow", "cases", "jail", "separation", "escape", "kill", "clients", "systems",
         "opensandbox", "kubernetes", "fresh", "fresh13", "fuzz"]


class Quiet(threading.Thread):
    """The lint, and then the build for the fuzzing, in what time the other parts leave over.

    They wait for no clock, and the others mostly do.  SCHED_IDLE, which the children of a
    thread inherit, runs only where nobody else wants to: whoever wakes up has the processor
    at once, so that this is none of the stalls that ORDER is about.
    """

    def __init__(self, names, options, rows):
        super().__init__()
        self.names, self.options, self.rows = names, options, rows

    def run(self):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        one("lint", self.options, self.rows)
        if "fuzz" in self.names:
            with open(ROOT / "build/quiet.log", "w", errors="replace") as LOG.out:
                try:
                    build_fuzz()
                except (Failed, subprocess.TimeoutExpired):
                    pass  # the part builds what is missing, and tells


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
    print(f"== {name}: {how} after {seconds:.0f} s: {note}")
    show(log_of(name)[-(150 if how == "FAILED" else 4):])


def log_of(name):
    return (ROOT / "build" / f"part-{name}.log").read_text(errors="replace").splitlines()


def show(lines):
    print("\n".join("   " + line[:300] for line in lines), flush=True)


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
    quiet = Quiet(names, options, rows)
    for name in names:
        if name == "lint":
            quiet.start()
            continue
        if name == "fuzz" and quiet.is_alive():
            quiet.join()  # takes the whole machine, as the lint then may
        one(name, options, rows)
    if quiet.is_alive():
        quiet.join()
    print("\n== parts")
    for name in names:
        how, note, seconds = rows[name]
        print(f"{name:10} {how:7} {seconds:5.0f} s  {note}")
    for line in absences():
        print(f"absent     {line}")
    failed = [name for name in names if rows[name][0] == "FAILED"]
    for name in failed:
        print(f"\n== why {name} failed")
        show(decisive(name, log_of(name)))
    print(f"\n{len(rows) - len(failed)} passed, {len(failed)} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
