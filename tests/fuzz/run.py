#!/usr/bin/env python3
"""Every fuzz target, on a copy of its corpus, and how much of each parser the corpora reach.

usage: run.py BUILD_DIR [--seconds N] [--no-coverage] [--grow] [TARGET ...]

Without --seconds: a fixed number of inputs a target from a fixed seed, over a million in
all.  With it: N seconds a target, each run its own way.  Any crash, leak or broken
property fails and leaves the input that did it in BUILD_DIR/found.  --grow puts what was
found on the way into the tree: the fewest inputs that reach as much.
"""
import argparse
import base64
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LEAST_INPUTS = 1_000_000
AT_ONCE = 2
# Those that make files, sockets, a signature or a whole image for each input get fewer.
INPUTS = 90_000
FEWER = {"canon": 60_000, "certificate": 30_000, "conf": 20_000, "connector": 20_000, "exec_judge": 40_000,
         "exec_tap": 30_000, "h2": 40_000, "head": 50_000, "hello": 40_000, "image": 6_000, "inflate": 40_000,
         "jwt": 8_000, "jwt_verify": 40_000, "multipart_tap": 60_000, "policy": 12_000, "pty_tap": 60_000,
         "redact": 5_000, "risk": 15_000, "row": 25_000, "rowring": 15_000, "scrub": 8_000, "vault_file": 15_000}
# What a run reaches is not what is counted: that is what the corpora in the tree reach.
NO_PROFILE = {**os.environ, "LLVM_PROFILE_FILE": "/dev/null"}
# A corpus stays small enough to read and to run whole in a second.
CORPUS_FILES, CORPUS_BYTES = 300, 200_000
LIMITS = ["-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1"]


def targets(names):
    every = sorted(p.stem.removeprefix("fuzz_") for p in HERE.glob("fuzz_*.c"))
    unknown = set(names) - set(every)
    if unknown:
        sys.exit(f"no target {', '.join(sorted(unknown))}; there are {' '.join(every)}")
    return list(names) or every


def corpus_of(name):
    folder = HERE / "corpus" / name
    return folder if folder.is_dir() and any(folder.iterdir()) else None


def stat(log, word):
    found = re.search(rf"stat::{word}:\s*(\d+)", log)
    return int(found.group(1)) if found else 0


class Fuzz:
    """The runs of one build, in a scratch folder that goes away."""

    def __init__(self, build, scratch, seconds):
        self.build, self.scratch, self.seconds = build, scratch, seconds
        self.found = build / "found"
        self.found.mkdir(exist_ok=True)

    def budget(self, name):
        if self.seconds is not None:
            return [f"-max_total_time={self.seconds}"]
        return [f"-runs={FEWER.get(name, INPUTS)}", "-seed=1"]

    def run(self, name):
        """(name, inputs, seconds, None or what went wrong, the reason last)"""
        folder = self.scratch / name
        folder.mkdir()
        if corpus_of(name):
            shutil.copytree(corpus_of(name), folder, dirs_exist_ok=True)
        begun = time.monotonic()
        done = subprocess.run(
            [self.build / "bin" / f"fuzz_{name}", *LIMITS, *self.budget(name),
             f"-artifact_prefix={self.found}/{name}-", folder],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=self.scratch, env=NO_PROFILE)
        log = done.stderr.decode(errors="replace")
        wrong = None
        if done.returncode:
            left = re.findall(r"Test unit written to (\S+)", log)
            reason = re.search(r"^.*(needed: |ERROR: |ALARM: |SUMMARY: ).*$", log, re.MULTILINE)
            wrong = [*log.splitlines()[-40:], f"reproducer of fuzz_{name}: {left[-1] if left else 'none'}",
                     *(text_of(left[-1]) if left else ()), reason.group() if reason else f"gave {done.returncode}"]
        return name, stat(log, "number_of_executed_units"), time.monotonic() - begun, wrong

    def grow(self, name):
        """The fewest inputs of tree and run together that reach as much as all of them."""
        least = self.scratch / f"{name}-least"
        least.mkdir()
        subprocess.run([self.build / "bin" / f"fuzz_{name}", "-merge=1", *LIMITS, least,
                        *([corpus_of(name)] if corpus_of(name) else []), self.scratch / name],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.scratch, check=True, env=NO_PROFILE)
        home = HERE / "corpus" / name
        home.mkdir(parents=True, exist_ok=True)
        # The seeds that people wrote keep their names; what a run found is named by its hash.
        have = {p.read_bytes() for p in home.iterdir()}
        for p in sorted(least.iterdir(), key=lambda p: p.stat().st_size):
            if not fits(home, p.stat().st_size):
                break
            if p.read_bytes() not in have:
                shutil.copy(p, home / p.name)


def text_of(path):
    """A small reproducer, in lines that a log keeps whole."""
    data = pathlib.Path(path).read_bytes()
    if len(data) < 4096:
        text = base64.b64encode(data).decode()
        for at in range(0, len(text), 280):
            yield f"base64: {text[at:at + 280]}"


def fits(folder, *more):
    sizes = [*(p.stat().st_size for p in folder.iterdir()), *more]
    return len(sizes) <= CORPUS_FILES and sum(sizes) <= CORPUS_BYTES


def corpus_faults(names):
    for name in names:
        if not corpus_of(name):
            yield f"corpus/{name} is empty"
        elif not fits(corpus_of(name)):
            yield f"corpus/{name} has more than {CORPUS_FILES} files or {CORPUS_BYTES} bytes"


def least_lines():
    rows = [line.split() for line in (HERE / "coverage.tsv").read_text().splitlines()
            if line and not line.startswith("#")]
    return {path: float(percent) for path, percent in rows}


def measure(folder, names, scratch):
    """What share of the lines of each file the corpora reach: {path: percent}."""
    raw = []
    for name in names:
        raw.append(scratch / f"{name}.profraw")
        subprocess.run([folder / "bin" / f"fuzz_{name}", "-runs=0", corpus_of(name)], cwd=scratch,
                       env={**os.environ, "LLVM_PROFILE_FILE": str(raw[-1])}, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    merged = scratch / "all.profdata"
    subprocess.run(["llvm-profdata-14", "merge", "-sparse", *raw, "-o", merged], check=True)
    objects = [folder / "bin" / f"fuzz_{n}" for n in names]
    out = subprocess.run(
        ["llvm-cov-14", "export", "-summary-only", f"-instr-profile={merged}", objects[0],
         *(f"-object={o}" for o in objects[1:])], check=True, capture_output=True, text=True).stdout
    return {str(pathlib.Path(f["filename"]).resolve().relative_to(ROOT)): f["summary"]["lines"]["percent"]
            for f in json.loads(out)["data"][0]["files"]}


def check_coverage(folder, names, scratch):
    """(least percentage of any parser, faults)"""
    if not shutil.which("llvm-cov-14"):
        sys.exit("llvm-cov-14 is missing: install llvm-14")
    reached, faults = measure(folder, names, scratch), []
    print(f"\n{'parser':28} lines  at least")
    for path, least in least_lines().items():
        got = reached.get(path, 0.0)
        print(f"{path:28} {got:5.1f}  {least:5.1f}")
        if got < least:
            faults.append(f"{path}: its corpora reach {got:.1f}% of the lines, not {least:.1f}%")
    return min(reached.get(path, 0.0) for path in least_lines()), faults


def fuzz_all(fuzz, names):
    """(inputs, faults)"""
    total, faults = 0, []
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for name, inputs, seconds, wrong in pool.map(fuzz.run, names):
            total += inputs
            print(f"fuzz_{name:16} {inputs:9,} inputs {seconds:5.0f} s{'  FAILED' if wrong else ''}", flush=True)
            if wrong:
                print("\n".join(wrong[:-1]))
                faults.append(f"fuzz_{name}: {wrong[-1]}")
    return total, faults


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("target", nargs="*")
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--no-coverage", action="store_true")
    parser.add_argument("--grow", action="store_true")
    return parser.parse_intermixed_args()


def main():
    options = arguments()
    build, names = options.build.resolve(), targets(options.target)
    least = None
    with tempfile.TemporaryDirectory() as scratch:
        fuzz = Fuzz(build, pathlib.Path(scratch), options.seconds)
        total, faults = fuzz_all(fuzz, names)
        if options.grow and not faults:
            with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(fuzz.grow, names))
        faults += corpus_faults(names)
        if not options.target and options.seconds is None and total < LEAST_INPUTS:
            faults.append(f"only {total:,} inputs")
        if not options.target and not options.no_coverage:
            least, short = check_coverage(build, names, pathlib.Path(scratch))
            faults += short
    for fault in faults:
        print(f"FAILED {fault}")
    reach = "not measured" if least is None else f"min {least:.1f}%"
    print(f"{len(names)} targets, {total:,} inputs, line coverage {reach}")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
