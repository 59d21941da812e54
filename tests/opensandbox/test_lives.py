"""Lives of sandboxes through a whole gateway: ready ones, sleep and waking, and what happens when
control dies in the middle."""
import datetime
import os
import signal
import sqlite3
import threading
import time

import pytest
from front import IMAGE
from raw import PROXY, Raw

ENTRY = ["tail", "-f", "/dev/null"]
WARM = [{"name": "py", "tier": "standard", "size": 2, "image": IMAGE, "entrypoint": ENTRY,
         "limits": {"cpu": "1", "memory": "256Mi"}}]


def until(what, seconds=15.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it didn't come")


def ready(front, ident):
    return front.ask("GET", f"/v1/sandboxes/{ident}/proxy/44772/ping")[0]


@pytest.fixture
def lives(fake, front):
    def make(**more):
        standard = fake(gateway=True)
        one = front({"standard": (standard.url, standard.key)}, more={"exec": more})
        one.standard = standard
        return one
    return make


def test_a_ready_one_comes_at_once_and_is_made_again(lives):
    one = lives(warm=WARM)
    until(lambda: len(one.warm()) == 2)
    before = set(one.standard.sandboxes)
    status, made, fields = one.create()
    assert status == 202 and fields["X-Sandgate-Start".lower()] == "warm", fields
    assert ready(one, made["id"]) == 200
    until(lambda: len(one.standard.sandboxes) == 3 and before < set(one.standard.sandboxes))
    status, other, fields = one.create(env={"A": "1"})
    assert status == 202 and fields["x-sandgate-start"] == "cold"
    labels = until(lambda: [b.view()["metadata"] for b in list(one.standard.sandboxes.values())
                            if b.view()["metadata"].get("sandgate/id") == made["id"]])
    assert labels[0]["sandgate/user"].startswith("u-")
    for ident in (made["id"], other["id"]):
        assert one.ask("DELETE", f"/v1/sandboxes/{ident}")[0] == 204


def test_what_is_not_used_sleeps_and_its_next_call_wakes_it_once(lives):
    one = lives(idle_after="1s")
    _, made, _ = one.create()
    box = next(iter(one.standard.sandboxes.values()))
    until(lambda: box.state == "Paused")
    assert one.ask("GET", f"/v1/sandboxes/{made['id']}")[1]["status"]["state"] == "Paused"
    seen = []
    callers = [threading.Thread(target=lambda: seen.append(ready(one, made["id"]))) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert seen == [200] * 8 and box.state == "Running"
    assert one.ask("DELETE", f"/v1/sandboxes/{made['id']}")[0] == 204


def test_a_session_keeps_its_sandbox_when_control_dies(lives):
    one = lives()
    mine = {"X-Sandgate-Session": "s1"}
    _, made, _ = one.create(fields=mine)
    os.kill(one.gate.pids()["control"], signal.SIGKILL)
    status, again, fields = until(lambda: (lambda a: a if a[0] == 202 else None)(one.create(fields=mine)))
    assert again["id"] == made["id"] and fields["x-sandgate-start"] == "reused"
    assert ready(one, made["id"]) == 200 and len(one.standard.sandboxes) == 1
    bob = one.user("bob")
    _, other, _ = one.create(key=bob, fields=mine)
    assert other["id"] != made["id"]
    assert one.ask("DELETE", f"/v1/sandboxes/{made['id']}")[0] == 204
    assert one.ask("DELETE", f"/v1/sandboxes/{other['id']}", key=bob)[0] == 204


class Endless:
    """A command that says something when it is told to."""

    def __init__(self):
        self.go = threading.Event()

    def __call__(self, stream):
        stream.start("endless-1")
        self.go.wait(60)
        stream.finish(0)


def test_a_long_stream_keeps_its_sandbox_also_when_control_dies(lives):
    one = lives(idle_after="1s")
    _, made, _ = one.create()
    box, play = next(iter(one.standard.sandboxes.values())), Endless()
    box.execd.scripts["endless"] = play
    with sqlite3.connect(one.gate.state / "control" / "exec.db") as db:  # its last quarter
        db.execute("UPDATE sandboxes SET expires_s = ?", (int(time.time()) + 100,))
    db.close()
    with Raw(one) as link:
        link.send("POST", PROXY.format(made["id"]) + "/command", {"command": "endless"})
        assert link.head()[0] == 200 and link.event()["type"] == "init"
        until(lambda: box.expires.timestamp() > time.time() + 590)
        told = one.ask("GET", f"/v1/sandboxes/{made['id']}")[1]["expiresAt"]
        assert abs(datetime.datetime.fromisoformat(told.replace("Z", "+00:00")).timestamp() - time.time() - 600) < 10
        before = one.gate.pids()["control"]
        os.kill(before, signal.SIGKILL)
        until(lambda: one.gate.pids().get("control", before) != before)
        end = time.monotonic() + 5.5  # three seconds until sleep is thought of, and the one that is slept after
        while time.monotonic() < end:
            assert box.state == "Running"
            time.sleep(0.1)
        play.go.set()
        while link.event()["type"] != "execution_complete":
            pass
    until(lambda: box.state == "Paused")
    assert one.ask("DELETE", f"/v1/sandboxes/{made['id']}")[0] == 204


def test_a_policy_is_the_sandboxs_own_and_plain_text_says_what_is_wrong(lives):
    one = lives()
    _, made, _ = one.create()
    api = f"/v1/sandboxes/{made['id']}/proxy/18080"
    assert one.ask("GET", f"{api}/healthz")[:2] == (200, "ok")
    rule = {"action": "allow", "target": "pypi.example.test"}
    status, told, _ = one.ask("POST", f"{api}/policy", {"defaultAction": "deny", "egress": [rule]})
    assert status == 200 and told["mode"] == "enforcing" and told["policy"]["egress"] == [rule]
    assert one.ask("GET", f"/v1/sandboxes/{made['id']}/networkpolicy")[1]["policy"]["egress"] == [rule]
    assert one.ask("POST", f"{api}/policy", {"egress": 7})[0] == 400
    assert one.ask("DELETE", f"/v1/sandboxes/{made['id']}")[0] == 204


def test_one_users_creates_leave_others_their_servers(lives):
    one, go, asked = lives(), threading.Event(), []
    bob = one.user("bob")
    _, his, _ = one.create(key=bob)
    create = one.standard.create

    def slow(request, exchange):
        asked.append(request)
        go.wait(60)
        return create(request, exchange)
    one.standard.routes = [(methods, path, slow if to == create else to) for methods, path, to in one.standard.routes]
    seen = []
    callers = [threading.Thread(target=lambda: seen.append(one.create()[0])) for _ in range(300)]
    for caller in callers:
        caller.start()
    until(lambda: len(asked) == 128 and len(seen) == 300 - 128, 60)
    assert set(seen) == {429}
    assert one.ask("POST", f"/v1/sandboxes/{his['id']}/pause", key=bob)[0] == 202
    assert one.ask("GET", f"/v1/sandboxes/{his['id']}/proxy/44772/ping", key=bob)[0] == 200
    assert one.ask("DELETE", f"/v1/sandboxes/{his['id']}", key=bob)[0] == 204
    go.set()
    for caller in callers:
        caller.join()
    assert sorted(seen) == [202] * 128 + [429] * 172
