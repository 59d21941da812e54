#!/usr/bin/env python3
"""Everything `./dev test` runs, part by part, with one table at the end.

usage: run.py [PART ...] [--seconds N]     no part: all of them but `long`

A part either RAN (with its result) or is ABSENT with the reason.  Under CI=true only
what no fresh machine could have may be absent; a part that failed fails the run.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
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


LOG = threading.local()  # .out: where the part that runs in this thread writes


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
    """Built once a run; parts of both lanes wait for it."""
    with BUILDING:
        if preset not in BUILT:
            run(["cmake", "--preset", preset, *options], stdout=subprocess.DEVNULL)
            run(["cmake", "--build", f"build/{preset}"])
            BUILT.add(preset)
    return ROOT / "build" / preset


BUILDING, BUILT = threading.Lock(), set()


def part_lint(_):
    run([PYTHON, TESTS / "lint/run.py", build("release"), build("clang")])


def part_unit(_):
    count = 0
    for preset in ("asan", "clang"):
        folder = build(preset)
        run(["ctest", "--test-dir", folder, "--output-on-failure", "-j2", "-O", folder / "ctest.log"])
        count += int(re.search(r"out of (\d+)", (folder / "ctest.log").read_text()).group(1))
    return f"{count} test programs, gcc with sanitizers and clang"


def pytest(folder, bin_dir, timeout=1500):
    if not any(folder.glob("test_*.py")):
        raise Failed(f"{folder.relative_to(ROOT)} has no tests")
    report = ROOT / "build" / f"{folder.name}-{bin_dir.parent.name}.json"
    report.unlink(missing_ok=True)
    run([PYTHON, "-m", "pytest", "-q", "-x" if os.environ.get("SG_STOP") else "-q", "-p", "no:cacheprovider", folder],
        timeout=timeout, env={"SANDGATE_BIN": str(bin_dir), "SANDGATE_REPORT": str(report)})
    if report.exists():
        return ", ".join(f"{k} {v}" for k, v in json.loads(report.read_text()).items())
    return None


def part_flow(_):
    return pytest(TESTS / "flow", build("release") / "bin")


def part_cases(_):
    return pytest(TESTS / "cases", build("asan") / "bin")


def part_clients(_):
    return pytest(TESTS / "clients", build("release") / "bin")


def part_escape(_):
    return pytest(TESTS / "escape", build("release") / "bin")


def part_jail(_):
    return pytest(TESTS / "jail", build("release") / "bin")


def part_kill(_):
    return pytest(TESTS / "kill", build("release") / "bin")


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
# Two lanes for two processors: what computes beside what mostly waits.
LANES = (["unit", "lint", "fuzz", "fresh", "fresh13"],
         ["demo", "flow", "cases", "jail", "escape", "kill", "clients"])


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
    with PRINTING:
        print(f"== {name}: {how} after {seconds:.0f} s: {note}")
        print("\n".join("   " + line[:300] for line in tail), flush=True)


PRINTING = threading.Lock()


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
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--seconds", default=None)
    options = parser.parse_args()
    unknown = [name for name in options.parts if name not in PARTS]
    if unknown:
        parser.error(f"no part {unknown[0]}; there are {' '.join(PARTS)}")
    (ROOT / "build").mkdir(exist_ok=True)
    rows = {}
    lanes = (options.parts,) if options.parts else LANES
    threads = [threading.Thread(target=lambda names: [one(n, options, rows) for n in names], args=(lane,))
               for lane in lanes]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print("\n== parts")
    for name in [n for lane in lanes for n in lane]:
        how, note, seconds = rows.get(name, ("FAILED", "did not end", 0))
        print(f"{name:10} {how:7} {seconds:5.0f} s  {note}")
    for line in absences():
        print(f"absent     {line}")
    failed = sum(rows.get(n, ("FAILED",))[0] == "FAILED" for lane in lanes for n in lane)
    print(f"\n{len(rows) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
