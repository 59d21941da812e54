"""Fifty secrets are used in every way; then they are looked for in each place that must not have them."""
import json
import os
import subprocess

import company_systems as systems
import pytest
from conftest import found, flow
from many import Many
from scan import in_files, in_memory

KINDS = {"path": "/botx/plain", "bucket": "/b/", "calls": "/company.Echo/Both"}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = Many(tmp_path_factory.mktemp("many"))
    follow = flow.BIN / "sandgate"
    with open(made.folder / "followed", "wb") as out:
        made.follower = subprocess.Popen([follow, "audit", "--follow", "--json", "-c", made.gate.file], stdout=out,
                                         stderr=subprocess.STDOUT)
    use(made)
    yield made
    made.follower.kill()
    made.follower.wait()
    made.close()


def each_system(w):
    for name in w.values:
        kind = name[:-2]
        if kind == "calls" and w.firm(name[-1]) is w.firms[1]:
            w.websocket(name)
            continue
        for version in ("--http1.1", "--http2"):
            words = ["--data-binary", "@-", "-H", "content-type: application/grpc", "-H", "te: trailers"] if kind == "calls" else []
            status = w.curl(name, KINDS.get(kind, "/echo/plain"), version, *words, input=systems.Grpc.framed(b"hello"))
            assert status == (503 if kind == "wrath" else 200), (name, version, w.received[-1], w.gate.text_of_log()[-2000:])


def each_echo(w):
    for i, form in enumerate(systems.Echo.forms):
        for j, end in enumerate(["", "/split", "/field", "/gzip"]):
            group = w.groups[(i + j) % len(w.groups)]
            assert w.curl(f"bearer-{group}", f"/echo/{form}{end}", ["--http1.1", "--http2"][(i + j) % 2]) == 200


def what_goes_wrong(w):
    """Tokens that are refused, paths and methods that are, a client that leaves, a system that is down."""
    for group in w.groups:
        for kind in ("crm", "mail"):
            w.systems[f"login-{group}"].valid.clear()
            assert w.curl(f"{kind}-{group}", "/echo/json") == 200
        assert w.curl(f"bearer-{group}", "/admin") == 403
        w.curl(f"basic-{group}", "/echo/plain", "-X", "TRACE")
        w.curl(f"field-{group}", "/echo/plain", "--data-binary", "@-", "--max-time", "0.05", input=os.urandom(1 << 20))
        assert (w.curl(f"bearer-{group}", "/echo/plain", source="127.0.0.2") == 200) == (group == "a")
        system = w.systems[f"bearer-{group}"]
        system.check = lambda r: "of another opinion"
        assert w.curl(f"bearer-{group}", "/echo/plain") == 401
        system.check = systems.bearer(w.values[f"bearer-{group}"])
    assert w.gate.cli("vault", "rotate", "basic-a/secret", input=w.new("a")).returncode == 0
    w.curl("basic-a", "/echo/base64")  # its system wants the older one, and shows nothing


def use(w):
    each_system(w)
    each_echo(w)
    what_goes_wrong(w)
    found.update(secrets=len(w.values), answers=len(w.received))
    assert len(w.values) == 50


def connectors(w):
    """{group: name of its process}"""
    return {g: f"connector.{i}" for i, g in enumerate(w.groups)}


def holders(w, pids, want):
    """{process: what it holds}, of processes that may hold none of what want(process) names."""
    bad = {}
    for name, pid in pids.items():
        held, octets, closed = in_memory(pid, w.needles, want(name))
        assert octets > 1 << 20 and all("secretmem" in c for c in closed), (name, octets, closed)
        found["octets of memory"] = found.get("octets of memory", 0) + octets
        if held:
            bad[name] = held
    return bad


def test_no_process_holds_what_is_not_its_groups(world):
    own = {name: g for g, name in connectors(world).items()}
    pids = {**world.pids(), "audit --follow": world.follower.pid}
    assert set(own) == {n for n in pids if n.startswith("connector.")}
    del pids["keeper"]
    assert holders(world, pids, lambda name: {m for m in world.marks if m[0] != own.get(name)}) == {}
    # They were used until now, so that the scan had something to find.
    assert all(in_memory(pids[name], world.needles)[0] for name in own)


def test_no_process_can_be_dumped(world):
    for name, pid in world.pids().items():
        if name == "super":
            continue
        with open(f"/proc/{pid}/limits") as f:
            core = next(line for line in f if line.startswith("Max core file size"))
        assert core.split()[4:6] == ["0", "0"], name
        assert os.stat(f"/proc/{pid}").st_uid != os.stat(f"/proc/{pid}/mem").st_uid or os.stat(f"/proc/{pid}/mem").st_uid == 0


def test_no_file_has_any(world):
    bad, files = in_files(world.gate.dir, world.needles)
    assert bad == set() and files > 5
    found["files"] = files
    assert any(p.suffix == ".db" or "vault" in p.name for p in world.gate.dir.rglob("*"))


def test_no_answer_to_a_sandbox_has_any(world):
    sandgate = "http://sandgate.internal"
    for path in ("/last", "/credentials", "/"):
        done = subprocess.run(["curl", "-sS", "-m", "10", "--proxy", "http://%s:%d" % world.gate.proxy, sandgate + path], capture_output=True)
        world.received.append(done.stdout)
    assert [(n, r[:300]) for r in world.received if (n := world.needles.found(r))] == []


def said_to_operators(g):
    last = g.rows(kind="deny")[-1]
    for words in (["status", "--json"], ["status"], ["audit", "--json"], ["audit"], ["audit", "export"], ["vault", "list", "--json"],
                  ["vault", "list"], ["vault", "status", "--json"], ["sandboxes", "--json"], ["connectors", "list"],
                  ["connectors", "test", "bearer-a"], ["connectors", "test", "mail-a"], ["connectors", "lint"], ["check", "--json"],
                  ["why", last["id"]], ["learn", "--sandbox", "demo"], ["ca", "export"],
                  ["explain", "--sandbox", "demo", "https://bearer-a.example.test/echo/plain"]):
        done = g.cli(*words)
        yield words, done.stdout + done.stderr
    for method, path in (("GET", "/v1/status"), ("GET", "/v1/sandboxes"), ("GET", "/v1/vault/status"), ("POST", "/v1/vault/list")):
        yield path, json.dumps(g.admin(method, path, {} if method == "POST" else None))


def test_no_answer_to_an_operator_has_any(world):
    said = list(said_to_operators(world.gate))
    assert all(text for _, text in said), [words for words, text in said if not text]
    assert [(words, n) for words, text in said if (n := world.needles.found(text.encode()))] == []
    assert not world.needles.found(world.gate.log.read_bytes())
    followed = (world.folder / "followed").read_bytes()
    assert followed.count(b"\n") > 100 and not world.needles.found(followed)


def test_what_was_used_is_in_the_ledger(world):
    used = {r["connector"] for r in world.gate.rows(kind="credential")}
    assert used == set(world.values)
