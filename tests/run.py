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
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
CLEAN_ENV = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}


class Absent(Exception):
    """This part can't run here; the text says why."""


class Failed(Exception):
    """What a part found."""


def run(command, timeout=1800, **kw):
    env = {**CLEAN_ENV, **kw.pop("env", {})}
    done = subprocess.run([str(c) for c in command], cwd=ROOT, timeout=timeout, env=env, **kw)
    if done.returncode:
        raise Failed(f"{' '.join(str(c) for c in command[:4])} gave {done.returncode}")
    return done


def build(preset, *options):
    run(["cmake", "--preset", preset, *options], stdout=subprocess.DEVNULL)
    run(["cmake", "--build", f"build/{preset}"])
    return ROOT / "build" / preset


def part_lint(_):
    run([PYTHON, TESTS / "lint/run.py", build("release"), build("clang")])


def part_unit(_):
    count = 0
    for preset in ("asan", "clang"):
        folder = build(preset)
        log = folder / "ctest.log"
        with open(log, "w") as out:
            done = subprocess.run(["ctest", "--test-dir", folder, "--output-on-failure", "-j2"],
                                  cwd=ROOT, env=CLEAN_ENV, stdout=out, stderr=subprocess.STDOUT)
        text = log.read_text()
        if done.returncode:
            print(text[-8000:])
            raise Failed(f"ctest in {preset}")
        count += int(re.search(r"out of (\d+)", text).group(1))
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
    out = run([PYTHON, TESTS / "fuzz/run.py", folder, *(["--seconds", options.seconds] if options.seconds else [])],
              capture_output=True, text=True, timeout=3600).stdout
    print(out, end="")
    return out.strip().splitlines()[-1]


def part_demo(_):
    run([PYTHON, TESTS / "demo/demo.py", build("release") / "bin"])


def part_fresh(options):
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        raise Absent("needs root and debootstrap")
    out = run([TESTS / "fresh/fresh.sh", "bookworm"], timeout=2400)
    return "Debian 12: ./dev demo in a root of its own"


def part_fresh13(options):
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        raise Absent("needs root and debootstrap")
    run([TESTS / "fresh/fresh.sh", "trixie"], timeout=2400)
    return "Debian 13: ./dev demo in a root of its own"


def part_long(_):
    run([PYTHON, TESTS / "long/run.py", build("release") / "bin"], timeout=4 * 3600)


PARTS = {name.removeprefix("part_"): fn for name, fn in list(globals().items()) if name.startswith("part_")}
ORDER = ["unit", "lint", "flow", "cases", "jail", "escape", "kill", "clients", "fuzz", "demo", "fresh", "fresh13"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--seconds", default=None)
    options = parser.parse_args()
    rows, failed = [], 0
    for name in options.parts or ORDER:
        if name not in PARTS:
            parser.error(f"no part {name}; there are {' '.join(PARTS)}")
        print(f"== {name}", flush=True)
        begun = time.monotonic()
        try:
            note = PARTS[name](options)
            rows.append((name, "RAN", note or "passed", time.monotonic() - begun))
        except Absent as why:
            rows.append((name, "ABSENT", str(why), 0))
        except (Failed, subprocess.TimeoutExpired, OSError) as why:
            failed += 1
            rows.append((name, "FAILED", str(why), time.monotonic() - begun))
    absent_file = ROOT / "build" / "absent.txt"
    print("\n== parts")
    for name, how, note, seconds in rows:
        print(f"{name:10} {how:7} {seconds:5.0f} s  {note}")
    if absent_file.exists():
        print(absent_file.read_text(), end="")
    print(f"\n{len(rows) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
