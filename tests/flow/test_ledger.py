"""The ledger of a running gateway: nothing is lost, everything is told, changes are found."""
import json
import os
import signal
import socket
import sqlite3
import time

from conftest import wait_for


def refuse(gate, host="no.example.test", path="/"):
    """One plain request that is refused; the error."""
    with socket.create_connection(gate.proxy, timeout=10) as s:
        s.sendall(f"GET http://{host}{path} HTTP/1.1\r\nHost: {host}\r\n"
                  "Connection: close\r\n\r\n".encode())
        data = b""
        while chunk := s.recv(65536):
            data += chunk
    return json.loads(data.partition(b"\r\n\r\n")[2])["error"]


def verify(gate):
    done = gate.cli("audit", "verify", "--json")
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def test_a_refusal_is_a_row_and_why_tells_it(gate):
    g = gate()
    error = refuse(g)
    row = g.wait_rows(kind="deny", id=error["id"])[0]
    assert row["sandbox"] == "demo" and row["code"] == error["code"]
    for ask in (error["id"], json.dumps({"error": error})):
        told = g.cli("why", ask)
        assert told.returncode == 0, told.stderr
        assert error["code"] in told.stdout and error["hint"] in told.stdout
        assert "sandbox demo, user alice" in told.stdout
    assert g.cli("why", "0000000000000").returncode == 1
    assert json.loads(g.cli("why", "--json", error["id"]).stdout)["row"]["id"] == error["id"]


def test_a_row_after_a_refusal_is_stored_as_soon_as_any(gate):
    g, slowest = gate(), 0
    begun = time.monotonic()
    g.rows()
    looking = time.monotonic() - begun  # a sanitized command line takes its time
    for i in range(6):
        begun = time.monotonic()
        wanted = refuse(g, f"h{i}.example.test")["id"]
        g.wait_rows(kind="deny", id=wanted)
        slowest = max(slowest, time.monotonic() - begun)
    assert slowest < 0.5 + 3 * looking  # ledger.sync is 50 ms; what counts refusals looks once a second


def test_last_knows_what_was_refused_a_moment_ago(gate):
    g = gate()
    wanted = [refuse(g, f"h{i}.example.test")["id"] for i in range(20)]
    with socket.create_connection(g.proxy, timeout=10) as s:
        s.sendall(b"GET http://sandgate.internal/last HTTP/1.1\r\n"
                  b"Host: sandgate.internal\r\nConnection: close\r\n\r\n")
        data = b""
        while chunk := s.recv(65536):
            data += chunk
    told = json.loads(data.partition(b"\r\n\r\n")[2])
    assert [r["id"] for r in told] == wanted[::-1][:16]


def test_kill_9_of_the_ledger_loses_no_row(gate):
    g = gate({"ledger": {"denials_per_second": 100000}})
    wanted = []
    for _ in range(8):
        old = g.pids()["ledger"]
        wanted += [refuse(g)["id"] for _ in range(40)]
        os.kill(old, signal.SIGKILL)
        wanted += [refuse(g)["id"] for _ in range(5)]
        wait_for(lambda old=old: g.pids()["ledger"] != old)
    rows = wait_for(lambda: len(r := g.rows(kind="deny")) >= len(wanted) and r)
    assert [r["id"] for r in rows] == wanted
    assert g.wait_rows(8, kind="role_death")
    assert verify(g)["whole"]


def test_a_flood_of_refusals_is_counted(gate):
    g = gate({"ledger": {"denials_per_second": 5}})
    for _ in range(200):
        refuse(g)
    more = g.wait_rows(kind="aggregate")
    assert more[0]["sandbox"] == "demo" and "more refusals" in more[0]["detail"]
    assert len(g.rows(kind="deny")) < 100
    assert verify(g)["whole"]


def test_segments_are_signed_and_a_changed_row_is_named(gate):
    g = gate({"ledger": {"segment_rows": 20, "denials_per_second": 100000}})
    for _ in range(100):
        refuse(g)
    g.wait_rows(4, kind="segment")
    assert g.stop() == 0
    whole = verify(g)
    assert whole["whole"] and whole["segments"] >= 5
    assert whole["signatures"] >= 5
    assert g.cli("audit", "verify", "--at", whole["tip"]).returncode == 0
    with sqlite3.connect(g.state / "ledger" / "ledger.db") as db:
        old, = db.execute("SELECT payload FROM rows WHERE seq = 42").fetchone()
        db.execute("UPDATE rows SET payload = ? WHERE seq = 42", (old[:-1] + b"!",))
    found = verify(g)
    assert not found["whole"] and found["first"] == found["last"] == 42
    assert g.cli("audit", "verify").returncode == 1


def test_what_is_learned_is_a_policy_that_allows_it(gate):
    g = gate()
    refuse(g, "one.example.org")
    refuse(g, "two.example.net", "/a/b")
    g.wait_rows(2, kind="deny")
    learned = g.cli("learn", "--sandbox", "demo", "--http")
    assert learned.returncode == 0, learned.stderr
    text = f"state_dir: {g.state}\n" + learned.stdout + (
        "sandboxes:\n  - {id: demo, source: 127.0.0.1, policy: learned-demo}\n")
    g.write(text)
    check = g.cli("check")
    assert check.returncode == 0, check.stdout + check.stderr
    for url in ("http://one.example.org/", "http://two.example.net/a/b"):
        assert g.cli("explain", "--sandbox", "demo", url).returncode == 0
    assert g.cli("explain", "--sandbox", "demo", "http://two.example.net/a/c").returncode == 1


def test_audit_follows_and_export_writes_json_lines(gate):
    g = gate()
    error = refuse(g)
    g.wait_rows(kind="deny")
    lines = g.cli("audit", "export").stdout.splitlines()
    assert any(json.loads(line).get("id") == error["id"] for line in lines)
    assert g.cli("audit", "--denied", "--since", "1h").stdout.count("\n") == 1
    assert g.cli("audit", "--denied", "--sandbox", "other").stdout == ""
    assert g.cli("audit", "--since", "yesterday").returncode == 2
    assert "connector" in g.cli("audit", "export", "--format", "otlp").stderr
