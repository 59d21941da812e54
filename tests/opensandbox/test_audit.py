"""What ran in a sandbox, from the ledger: `audit --exec`, `replay`, `why`, `sandboxes`."""
import hashlib
import http.client
import json
import os
import signal
import sqlite3
import threading
import time

import pytest

SECRET = "hunter2-canary-9f31"


@pytest.fixture
def box(fake, front):
    """A gateway before a fake server, and a sandbox of alice's in which things were done."""
    standard = fake(gateway=True)
    one = front({"standard": (standard.url, standard.key)})
    one.standard = standard
    code, made, _ = one.create(fields={"X-Sandgate-Session": "s1"})
    assert code == 202, made
    one.id = made["id"]
    return one


def run(box, command, key=None, **more):
    return box.ask("POST", f"/v1/sandboxes/{box.id}/proxy/44772/command", {"command": command, **more}, key)


def audit(box, *words):
    return box.must("audit", "--exec", *words)


def replayed(box, *words, code=0):
    done = box.gate.cli("replay", "--json", *words)
    assert done.returncode == code, done.stderr + done.stdout
    return json.loads(done.stdout)


def ended(box, n=1, op="command.run"):
    """So many of alice's have ended, and it stands in the ledger: rows are stored a moment later."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if len([r for r in box.gate.rows(kind="exec_end", user="alice") if r["exec"]["op"] == op]) >= n:
            return
        time.sleep(0.1)
    raise AssertionError(audit(box))


def of(told, op):
    """(start row, end row) of each step with this operation."""
    steps = [[r["row"] for r in s["rows"]] for s in told["steps"]]
    return [(rows[0], rows[-1]) for rows in steps if rows[0]["exec"]["op"] == op]


def test_what_ran_is_told_in_order_with_its_end(box):
    assert run(box, "echo one; echo two >&2", cwd="/tmp")[0] == 200
    assert run(box, f"export API_TOKEN={SECRET}\nexit 3")[0] == 200
    ended(box, 2)
    told = replayed(box, box.id)
    assert told["whole"] and told["fits"] and told["sandbox"] == box.id
    (first, first_end), (second, second_end) = of(told, "command.run")
    assert first["kind"] == "exec" and first["exec"]["command"] == "echo one; echo two >&2" and first["exec"]["cwd"] == "/tmp"
    assert (first["user"], first["agent"], first["session"], first["sandbox"]) == ("alice", "coder", "s1", box.id)
    assert first_end["kind"] == "exec_end" and first_end["exec"]["exit"] == 0
    out = first_end["exec"]["stdout"]
    assert out == {"bytes": len("one\n"), "sha256": hashlib.sha256(b"one\n").hexdigest()} or out["bytes"] > 0
    assert second["exec"]["command"] == "export API_TOKEN=[redacted]\nexit 3" and second_end["exec"]["exit"] == 3
    # The same by its session; and people are told it in more than one line.
    assert [s["step"] for s in replayed(box, "--session", "s1")["steps"]] == [s["step"] for s in told["steps"]]
    text = box.must("replay", box.id)
    assert "    command\n      export API_TOKEN=[redacted]\n      exit 3\n" in text and "are what was written" in text
    assert SECRET not in text + json.dumps(told)


def test_what_the_gateway_does_itself_is_told_before_it_is_done(box):
    for verb in ("pause", "resume"):
        assert box.ask("POST", f"/v1/sandboxes/{box.id}/{verb}")[0] == 202
    assert box.ask("DELETE", f"/v1/sandboxes/{box.id}")[0] == 204
    ended(box, op="sandbox.kill")
    told = replayed(box, box.id)
    for op in ("sandbox.create", "sandbox.pause", "sandbox.resume", "sandbox.kill"):
        (start, end), = of(told, op)
        assert (start["kind"], end["kind"]) == ("exec", "exec_end") and start["turn"] == end["turn"], op
        assert start["user"] == end["user"] == "alice" and start["sandbox"] == end["sandbox"] == box.id
    assert all(s["has_start"] == any(r["row"]["kind"] == "exec" for r in s["rows"]) for s in told["steps"])
    allowed = [line for line in audit(box).splitlines() if " sandbox.kill allowed " in line]
    assert len(allowed) == 1 and f" alice/coder {box.id} " in allowed[0]


def test_execution_requests_are_one_line_each_and_chosen_by_who_and_where(box):
    bob = box.user("bob")
    assert run(box, "echo \x1b[2J'é'\n")[0] == 200
    assert run(box, "id", key=bob)[0] == 404
    ended(box)
    deadline = time.monotonic() + 20
    while not box.gate.rows(user="bob") and time.monotonic() < deadline:  # maybe another worker's
        time.sleep(0.1)
    lines = [line for line in audit(box).splitlines() if " command.run " in line and " alice/" in line]
    begun, = [line for line in lines if " allowed " in line]
    assert f" alice/coder {box.id} command.run allowed ok echo \\x1b[2J'é'\\n" in begun
    end, = [line for line in lines if " ended " in line]
    assert " exit=0 " in end and "stdout=" in end
    assert audit(box, "--user", "alice", "--sandbox", box.id, "--session", "s1").count(" command.run ") == 2
    assert audit(box, "--user", "nobody") == "" and audit(box, "--session", "other") == ""
    assert " bob/- " in audit(box) and " by bob\n" in box.must("replay", box.id)
    assert audit(box, "--limit", "1") == audit(box).splitlines(keepends=True)[-1]
    # What is no execution isn't there, and the listing of all has them with their operation.
    assert " role_start " not in audit(box)
    assert " op=command.run" in box.must("audit")


def test_why_tells_what_was_to_run(box):
    assert run(box, "echo a\necho b")[0] == 200
    ended(box)
    begun = [r for r in box.gate.rows(kind="exec") if r["exec"]["op"] == "command.run"][0]
    text = box.must("why", begun["id"])
    assert "Allowed (exec)" in text and "Operation command.run" in text
    assert "          command\n            echo a\n            echo b\n" in text
    assert "Same turn" in text and "exit=0" in text


def test_files_are_told_with_sizes_and_hashes(box):
    data = b"x" * 1000
    body = (b"--b\r\nContent-Disposition: form-data; name=\"metadata\"; filename=\"m\"\r\nContent-Type: application/json\r\n\r\n"
            b"{\"path\":\"/tmp/a b\",\"mode\":644}\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n"
            + data + b"\r\n--b--\r\n")
    link = http.client.HTTPConnection(box.authority, timeout=30)
    link.request("POST", f"/v1/sandboxes/{box.id}/proxy/44772/files/upload", body,
                 {"OPEN-SANDBOX-API-KEY": box.key, "Content-Type": "multipart/form-data; boundary=b"})
    assert link.getresponse().status == 200
    link.close()
    ended(box, 1, "files.upload")
    (_, end), = of(replayed(box, box.id), "files.upload")
    assert end["exec"]["files"] == [{"path": "/tmp/a b", "bytes": 1000, "sha256": hashlib.sha256(data).hexdigest(), "mode": 644}]
    assert "/tmp/a b" in box.must("replay", box.id)


def test_who_allowed_it_stands_in_the_step_that_was_allowed(fake, front):
    standard = fake(gateway=True)
    roles = [{"token_sha256": hashlib.sha256(b"token-of-bob").hexdigest(), "name": "bob", "role": "approver"}]
    box = front({"standard": (standard.url, standard.key)}, more={
        "admin": {"address": "unix:admin.sock", "roles": roles}, "exec": {"approval": "high"},
        "risk": {"rules": [{"level": "high", "why": "a dangerous word", "command": ["echo"], "args": ["danger*"]}]}})
    code, made, _ = box.create()
    assert code == 202, made
    box.id = made["id"]
    assert run(box, "echo harmless")[0] == 200
    got = []
    thread = threading.Thread(target=lambda: got.append(run(box, "echo danger")), daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not (pending := json.loads(box.must("approvals", "list", "--json"))["approvals"]) and time.monotonic() < deadline:
        time.sleep(0.1)
    box.gate.env["SANDGATE_ADMIN_TOKEN"] = "token-of-bob"
    box.must("approvals", "allow", pending[0]["id"])
    del box.gate.env["SANDGATE_ADMIN_TOKEN"]
    thread.join(20)
    assert got and got[0][0] == 200
    ended(box, 2)
    steps = [[r["row"] for r in s["rows"]] for s in replayed(box, box.id)["steps"]]
    step, = [rows for rows in steps if rows[0]["kind"] == "approval"]
    assert [r["kind"] for r in step] == ["approval", "approval", "exec", "exec_end"]
    assert (step[1]["exec"]["state"], step[1]["exec"]["by"]) == ("allowed", "bob") and step[2]["exec"]["by"] == "bob"
    text = box.must("replay", box.id)
    assert "  approval " in text and "    by bob\n" in text and "    state allowed\n" in text
    assert " by=bob" in audit(box)


def test_a_row_that_was_changed_is_marked(box):
    assert run(box, "echo before")[0] == 200
    assert run(box, "echo after")[0] == 200
    ended(box, 2)
    db = sqlite3.connect(next(box.gate.state.rglob("ledger.db")), timeout=10)
    seq, payload = next((s, p) for s, p in db.execute("SELECT seq, payload FROM rows") if p and b'"command":"echo after"' in p)
    db.execute("UPDATE rows SET payload = ? WHERE seq = ?", (payload.replace(b"echo after", b"echo never"), seq))
    db.commit()
    db.close()
    told = replayed(box, box.id, code=1)
    fits = {r["seq"]: r["fits"] for s in told["steps"] for r in s["rows"]}
    assert not told["whole"] and not told["fits"] and told["first_misfit"] == seq
    assert not fits[seq] and fits[min(fits)]
    text = box.gate.cli("replay", box.id).stdout
    assert f"DOES NOT FIT (row {seq} of the ledger)" in text and "was changed" in text


def test_what_ran_when_its_worker_was_killed_has_its_beginning(box):
    over = threading.Event()
    next(iter(box.standard.sandboxes.values())).execd.scripts["late"] = lambda stream: (
        stream.start("late-1"), over.wait(60), stream.finish(0))

    def serve():
        try:
            run(box, "late")
        except (OSError, http.client.HTTPException):
            pass
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    deadline = time.monotonic() + 10
    while not any(r["exec"].get("command") == "late" for r in box.gate.rows(kind="exec")) and time.monotonic() < deadline:
        time.sleep(0.05)
    for name, pid in box.gate.pids().items():
        if "worker" in name:
            os.kill(pid, signal.SIGKILL)
    thread.join(20)
    over.set()
    told = replayed(box, box.id)
    step, = [s for s in told["steps"] if s["rows"][0]["row"]["exec"].get("command") == "late"]
    assert told["fits"] and step["has_start"] and not step["has_end"]
    assert "no end is told" in box.must("replay", box.id)


def test_nothing_of_somebody_who_never_ran_anything(box):
    done = box.gate.cli("replay", "sb-nobody")
    assert done.returncode == 1 and done.stdout == "" and "no execution" in done.stderr
    assert box.gate.cli("replay").returncode == 2
    assert box.gate.cli("replay", "a", "b").returncode == 2


def test_what_servers_run_is_shown_with_whose_it_is(box):
    shown = json.loads(box.must("sandboxes", "--json"))
    one, = [s for s in shown["executions"] if s["id"] == box.id]
    assert (one["server"], one["tier"], one["user"], one["agent"], one["session"]) == ("standard", "standard", "alice", "coder", "s1")
    assert one["state"] == "running" and 0 <= one["age_s"] < 60 and 0 < one["ttl_s"] <= 601
    text = box.must("sandboxes")
    line, = [line for line in text.splitlines() if line.startswith(box.id)]
    assert " alice " in line and " running " in line and "left" in text
    assert box.ask("DELETE", f"/v1/sandboxes/{box.id}")[0] == 204
    shown = json.loads(box.must("sandboxes", "--json"))
    assert shown["costs"]["create"]["times"] == shown["costs"]["kill"]["times"] == 1
    assert shown["costs"]["kill"]["freed"] is None and shown["costs"]["kill"]["measured"] == 0, "no docker was named"
    text = box.must("sandboxes")
    line, = [line for line in text.splitlines() if line.startswith("kill ")]
    assert "since the start" in text and line.split()[1] == "1" and line.split()[-1] == "-"
    assert box.id not in [s["id"] for s in json.loads(box.must("sandboxes", "--json"))["executions"] if s["state"] == "running"]
