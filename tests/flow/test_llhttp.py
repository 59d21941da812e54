"""The HTTP/1 readers beside llhttp, the parser of Node: what it refuses as malformed we
refuse, what is well formed we take, and what both take is the same messages.

Stricter than llhttp is fine; that is what most of the malformed half of the corpus shows.
"""
import concurrent.futures
import functools
import json
import os
import pathlib
import random
import shutil
import subprocess

import pytest

from tally import absent, found

HERE = pathlib.Path(__file__).resolve().parents[1] / "llhttp"
ROOT = HERE.parents[1]
DUMP = pathlib.Path(os.environ.get("SANDGATE_BIN", ROOT / "build/release/bin")) / "h1_dump"
CORPUS = json.loads((HERE / "corpus.json").read_text())
MUTATIONS = 6000
# Not malformed: llhttp knows a fixed list of methods, and treats what follows a message
# that closes the connection as an error where we stop reading.
OTHER_ERRORS = {"HPE_INVALID_METHOD", "HPE_CLOSED_CONNECTION"}


@pytest.fixture(scope="module", autouse=True)
def node():
    if not shutil.which("node"):
        absent("node", "its parser is not compared with ours (Debian: nodejs)")
    found["messages compared with llhttp"] = len(CORPUS) + MUTATIONS


def octets(case):
    return case["bytes"].encode("latin1")


def by_llhttp(cases):
    lines = "".join(json.dumps({"kind": c["kind"], "bytes": c["bytes"]}) + "\n" for c in cases)
    done = subprocess.run(["node", HERE / "read.js"], input=lines, capture_output=True, text=True,
                          timeout=300, env={**os.environ, "NODE_NO_WARNINGS": "1"})
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.split("\n") if line]


@functools.cache
def knows_304():
    """That of Debian 12's node waits for the body that a 304 names."""
    one, = by_llhttp([{"kind": "response", "bytes": "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"}])
    return not one["error"]


def compared(cases):
    return [c for c in cases if knows_304() or " 304" not in c["bytes"]]


def by_us(case, piece=0):
    done = subprocess.run([DUMP, case["kind"], str(piece or 1 << 22)], input=octets(case),
                          capture_output=True, timeout=60, check=True)
    lines = [json.loads(line) for line in done.stdout.split(b"\n") if line]
    return {"heads": len(lines) - 1, "messages": [m for m in lines[:-1] if m["complete"]],
            "end": lines[-1]["end"]}


def all_by_us(cases, piece=0):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda c: by_us(c, piece), cases))


def is_same(ours, theirs):
    head = all(ours.get(key, theirs[key]) == theirs[key] for key in ("method", "target", "status", "minor"))
    # Other octets have another spelling in our JSON.
    return head and (not theirs["body"].isascii() or ours.get("body", "") == theirs["body"])


def judged(ours):
    """Without what the second reader refuses, that of targets, and all behind it."""
    for i, message in enumerate(ours["messages"]):
        if message.get("destination", "ok") != "ok":
            return {**ours, "heads": i, "messages": ours["messages"][:i]}
    return ours


def differs(ours, theirs):
    """Why what we made of a message may not stand beside what llhttp made of it, or None."""
    ours = judged(ours)
    if theirs["error"] in OTHER_ERRORS or (theirs["messages"] and theirs["messages"][-1]["upgrade"]):
        ours = {**ours, "heads": min(ours["heads"], theirs["heads"]),
                "messages": ours["messages"][:len(theirs["messages"])]}
    if ours["heads"] > theirs["heads"]:
        return f"a head is taken that llhttp refuses: {theirs['error']}"
    if len(ours["messages"]) > len(theirs["messages"]):
        return f"a message is taken that llhttp doesn't finish: {theirs['error']}"
    for mine, other in zip(ours["messages"], theirs["messages"]):
        if not is_same(mine, other):
            return f"not the same message: {mine} {other}"
    return None


def faults(cases, ours, theirs):
    found = []
    for case, mine, other in zip(cases, ours, theirs):
        why = differs(mine, other)
        if why:
            found.append(f"{case['name']}: {why}\n  {octets(case)[:200]!r}")
    return found


def test_the_corpus_is_large_enough():
    assert len(CORPUS) >= 300
    assert sum(c["messages"] is None for c in CORPUS) >= 150


def test_no_message_that_llhttp_refuses_is_taken_and_both_read_the_same():
    cases = compared(CORPUS)
    found = faults(cases, all_by_us(cases), by_llhttp(cases))
    assert not found, "\n".join(found[:20])


def test_every_well_formed_message_is_taken_by_both():
    cases = [c for c in compared(CORPUS) if c["messages"] is not None]
    found = []
    for case, mine, other in zip(cases, all_by_us(cases), by_llhttp(cases)):
        if len(other["messages"]) != case["messages"] or other["error"]:
            found.append(f"{case['name']}: llhttp reads {len(other['messages'])} messages, {other['error']}")
        if len(mine["messages"]) != case["messages"] or mine["heads"] != case["messages"]:
            found.append(f"{case['name']}: we read {len(mine['messages'])} messages, then {mine['end']}")
    assert not found, "\n".join(found[:20])


def test_no_malformed_message_is_taken_whole():
    cases = [c for c in CORPUS if c["messages"] is None]
    taken = [c["name"] for c, mine in zip(cases, all_by_us(cases)) if mine["messages"]]
    assert not taken, taken


def test_it_does_not_matter_how_a_message_arrives():
    whole = all_by_us(CORPUS)
    for piece in (1, 7):
        for case, a, b in zip(CORPUS, whole, all_by_us(CORPUS, piece)):
            assert a == b, f"{case['name']} in pieces of {piece}"


def mutate(rng, text):
    """One to three small changes of the kind that parsers disagree about."""
    bits = ["\r", "\n", "\r\n", "\0", " ", "\t", ":", ",", ";", "0", "1", "\x0b", "\x7f", "\xff", "-", "+",
            "Content-Length: 1\r\n", "Transfer-Encoding: chunked\r\n", "Host: x.test\r\n", "\r\n\r\n", "0\r\n\r\n"]
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text) + 1)
        # Most of what matters is near a line end.
        ends = [i for i, c in enumerate(text) if c in "\r\n:"]
        if ends and rng.random() < 0.6:
            at = min(len(text), rng.choice(ends) + rng.randint(0, 2))
        cut = rng.choice([0, 0, 1, 1, 2])
        text = text[:at] + rng.choice([*bits, ""]) + text[at + cut:]
    return text


def test_no_mutation_that_llhttp_refuses_is_taken():
    rng = random.Random(20240501)
    pool = [c for c in CORPUS if len(c["bytes"]) < 3000]
    cases = []
    for i in range(MUTATIONS):
        origin = rng.choice(pool)
        cases.append({"name": f"mutation {i} of {origin['name']}", "kind": origin["kind"],
                      "bytes": mutate(rng, origin["bytes"])})
    cases = compared(cases)
    found = faults(cases, all_by_us(cases), by_llhttp(cases))
    assert not found, f"{len(found)} of {MUTATIONS}\n" + "\n".join(found[:20])
