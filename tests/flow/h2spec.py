"""h2spec, the conformance tests of RFC 9113 and RFC 7541: built once, run against a port."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

MODULE = pathlib.Path(__file__).resolve().parents[1] / "tools/h2spec"
CASES = 146


def tell(**told):
    """Add to what this part of the tests reports."""
    if os.environ.get("SANDGATE_REPORT"):
        report = pathlib.Path(os.environ["SANDGATE_REPORT"])
        before = json.loads(report.read_text()) if report.exists() else {}
        report.write_text(json.dumps({**before, **told}))


def build(folder):
    """The program; a machine without Go, or without a way to Go's modules, is told."""
    found = shutil.which("h2spec")
    if found:
        return found
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    done = go and subprocess.run([go, "build", "-mod=readonly", "-o", folder / "h2spec",
                                  "github.com/summerwind/h2spec/cmd/h2spec"],
                                 cwd=MODULE, capture_output=True, text=True, timeout=300)
    if done and done.returncode == 0:
        return folder / "h2spec"
    why = done.stderr.strip().splitlines()[-1] if done else "there is no Go compiler"
    tell(**{"absent: h2spec": f"HTTP/2 conformance is not tested ({why})"})
    assert os.environ.get("CI") != "true", f"absent: h2spec: {why}"
    pytest.skip(f"ABSENT h2spec: {why}")


def run(program, port, *more, wrap=()):
    """(cases passed, what it said of the others)."""
    done = subprocess.run([*wrap, program, "-S", "-o", "2", "-p", str(port), *more],
                          capture_output=True, text=True, timeout=300)
    text = re.sub(r"[^\n]*\r", "", done.stdout)
    said = re.search(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed", text)
    assert said, text + done.stderr
    assert int(said.group(1)) == CASES
    return int(said.group(2)), text[text.find("Failures:"):]
