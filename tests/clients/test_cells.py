"""Legitimate clients: each row of cells.tsv is a client that does one thing by one way in.

A cell passes, or is ABSENT with the reason (under CI=true nothing that Debian has may be).
None may be refused; where a client follows a redirect to the host that isn't allowed, the
refusal is the pass, and nothing reaches that host.
"""
import collections
import json
import os
import pathlib
import time

import pytest

import programs
import world as worlds

HERE = pathlib.Path(__file__).resolve().parent
COUNT = 777
FIELDS = ("client", "way", "scheme", "feature", "expected")
Cell = collections.namedtuple("Cell", ("number", *FIELDS))


def read_cells():
    lines = (HERE / "cells.tsv").read_text().splitlines()
    assert tuple(lines[0].split("\t")) == FIELDS
    return [Cell(n, *line.split("\t")) for n, line in enumerate(lines[1:], 1)]


CELLS = read_cells()


class Run:
    """What came of each cell; clients that do many things in one process do them once."""

    def __init__(self, world):
        self.world, self.results, self.said, self.why_absent = world, {}, {}, {}
        self.go = None if programs.absent("go", world.env) else programs.start_go(world)

    def absent(self, client):
        if client not in self.why_absent:
            self.why_absent[client] = programs.absent(client, self.world.env)
            if client == "go" and self.go:
                assert self.go.wait(300) == 0, (self.world.dir / "go.log").read_text()
        return self.why_absent[client]

    def together(self, cell, desk):
        key = cell.client, cell.way, cell.scheme
        if key not in self.said:
            features = [c.feature for c in CELLS if (c.client, c.way, c.scheme) == key]
            command = programs.together(cell.client, self.world, cell.scheme, features)
            self.said[key] = desk.way.run(self.world, command, desk.env(), 120)
        code, out, seconds = self.said[key]
        lines = [line for line in out.splitlines() if line.split(" ")[0] == cell.feature]
        if lines == [f"{cell.feature} ok"]:
            return None
        return "\n".join(lines) or f"exit {code} after {seconds:.1f} s, of {key}\n{out[-3000:]}"

    def steps(self, cell, desk):
        for step in programs.PROGRAMS[cell.client](desk, cell.feature):
            code, out, seconds = desk.way.run(self.world, step.command, {**desk.env(), **step.env})
            wrong = step.wrong(code, out)
            if wrong:
                words = " ".join(str(w) for w in step.command)
                return f"{wrong}\n$ {words[:2000]}\n{out[-3000:]}\n({seconds:.1f} s)"
        return None

    def cell(self, cell):
        desk = programs.Desk(self.world, worlds.WAYS[cell.way], cell.scheme, cell.number)
        ask = self.steps if cell.client in programs.PROGRAMS else self.together
        return ask(cell, desk)

    def last_rows(self):
        time.sleep(0.3)  # a row is in the file a moment after it was made
        rows = [r for r in self.world.rows() if r["code"] != "ok"]
        return "\n".join(json.dumps(r) for r in rows[-5:])


@pytest.fixture(scope="session")
def run():
    if os.geteuid() != 0:
        pytest.skip("needs root for namespaces joined by links")
    world = worlds.World()
    try:
        world.open()
        done = Run(world)
        yield done
        report(done)
    finally:
        world.close()


def report(run):
    where = os.environ.get("SANDGATE_REPORT")
    if not where:
        return
    counts = collections.Counter(run.results.values())
    absences = {f"absent: {c}": why for c, why in run.why_absent.items() if why}
    pathlib.Path(where).write_text(json.dumps(
        {"cells": len(CELLS), "passed": counts["passed"], "failed": counts["failed"], "absent": counts["absent"], **absences}))


def test_the_cells_are_as_many_as_they_were():
    assert len(CELLS) == COUNT >= 200
    assert len({c[1:5] for c in CELLS}) == COUNT, "a cell twice"
    assert {c.expected for c in CELLS} == {"pass", "denied"}
    assert {c.way for c in CELLS} == set(worlds.WAYS)


@pytest.mark.parametrize("cell", CELLS, ids=lambda c: "-".join(c[1:5]))
def test_cell(run, cell):
    why = run.absent(cell.client)
    if why:
        run.results[cell.number] = "absent"
        assert os.environ.get("CI") != "true", f"absent: {why}"
        pytest.skip(f"ABSENT {why}")
    wrong = run.cell(cell)
    run.results[cell.number] = "failed" if wrong else "passed"
    if wrong:
        pytest.fail(f"{wrong}\nrefusals, newest last:\n{run.last_rows()}\n"
                    f"gateway: {(run.world.dir / 'gateway.log').read_text()[-1500:]}", pytrace=False)


def test_every_cell_came_to_something(run):
    assert set(run.results) == {c.number for c in CELLS}


def test_nothing_legitimate_was_refused(run):
    # A client that is asked for its token first is not refused; a flow that ends with its
    # sandbox is told of as one that policy no longer covers.
    time.sleep(0.5)
    usual = {"auth_required", "policy_changed"}
    refused = [r for r in run.world.rows("--denied")
               if not r.get("host", "").startswith("evil.example.test") and r["code"] not in usual
               and not r.get("host", "").startswith("_")]  # apt looks for SRV records first
    assert refused == []
    assert all(r["listener"] == "local" for r in run.world.rows("--denied") if r["code"] == "auth_required")
    assert all(r["sandbox"].startswith("exec-") for r in run.world.rows("--denied") if r["code"] == "policy_changed")
    assert run.world.evil() == ""
