#!/usr/bin/env python3
"""Every row of the attack lists has its line in tests/cases.tsv.  usage: check_cases.py ROOT

A line is: row, what it is, tests (comma between them), ways in, issue.  A row of the core
names at least one test that exists: file.py::function, file.c::function or a program of
tests/fuzz.  The lists lie beside the project; where they don't, the rows that the file has
are checked alone and ABSENT is said, except under CI.
"""
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1]).resolve()
TABLE = ROOT / "tests/cases.tsv"
LISTS = {"threats": ROOT / "../shared/threats.md", "cases": ROOT / "../shared/cases.md"}
SECTIONS = {"threats": r"### (2\.[1-8]|3\.1) ", "cases": r"### 3\.([A-G]) "}
ISSUES = {"core", "connectors", "opensandbox"}
WAYS = {"transparent", "transparent6", "connect", "absolute", "socks", "attach", "exec", "dns", "gateway", "cli", "-"}
bad = []


def rows_of(name, text):
    """The rows of a list, as they are named in the table."""
    section = None
    for line in text.splitlines():
        if line.startswith("##"):
            found = re.match(SECTIONS[name], line)
            section = found[1] if found else None
        first = line.split("|")[1].strip() if section and line.startswith("| ") else ""
        if first and first not in ("ID", "#", "Attack"):
            yield f"{name} {section} {first}" if name == "threats" else f"{name} {first}"


def exists(test):
    """Is there such a test?"""
    path, _, function = test.partition("::")
    file = ROOT / "tests" / path
    if not file.is_file():
        return False
    text = file.read_text()
    if path.endswith(".py"):
        return re.search(rf"^def {re.escape(function)}\(", text, re.M) is not None
    if path.startswith("fuzz/"):
        return not function and "LLVMFuzzerTestOneInput" in text
    # Defined, and named in the table that main() runs.
    return (re.search(rf"^{re.escape(function)}\(void \*\*state\)", text, re.M) is not None
            and re.search(rf"\(\s*{re.escape(function)}\s*[,)]", text) is not None)


def check_line(number, line, seen):
    fields = line.split("\t")
    if len(fields) != 5:
        return bad.append(f"line {number}: {len(fields)} fields, not 5")
    row, _, tests, ways, issue = fields
    tests = [t for t in tests.split(",") if t != "-"]
    if row in seen:
        bad.append(f"line {number}: {row} stands there twice")
    seen[row] = tests
    if issue not in ISSUES:
        bad.append(f"{row}: no such issue: {issue}")
    bad.extend(f"{row}: no such way in: {way}" for way in ways.split(",") if way not in WAYS)
    bad.extend(f"{row}: no such test: {test}" for test in tests if not exists(test))
    if issue == "core" and not tests:
        bad.append(f"{row}: concerns the core and has no test")
    return None


def main():
    seen, absent = {}, []
    for number, line in enumerate(TABLE.read_text().splitlines(), 1):
        if line and not line.startswith("#"):
            check_line(number, line, seen)
    for name, path in LISTS.items():
        if not path.is_file():
            absent.append(name)
            continue
        wanted = list(rows_of(name, path.read_text()))
        bad.extend(f"{row}: not in tests/cases.tsv" for row in wanted if row not in seen)
        bad.extend(f"{row}: in no list" for row in seen if row.startswith(name + " ") and row not in wanted)
    if absent and os.environ.get("CI") == "true":
        bad.append(f"the lists are not beside the project: {', '.join(absent)}")
    print("\n".join(bad) or f"{len(seen)} rows" + (f"; ABSENT: {', '.join(absent)}" if absent else ""))
    return bool(bad)


sys.exit(main())
