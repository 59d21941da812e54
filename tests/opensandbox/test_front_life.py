"""Warm sandboxes, reuse, sleep and waking, as a caller sees them."""
import time

import front as fronts
import pytest
from judge import Fault
from raw import PROXY, made, only

WARM = {"name": "py", "tier": "standard", "size": 2, "image": fronts.IMAGE, "entrypoint": ["tail", "-f", "/dev/null"],
        "limits": {"cpu": "1", "memory": "256Mi"}}


def start(answer):
    return {name.lower(): value for name, value in answer[2].items()}["x-sandgate-start"]


@pytest.fixture
def one(fake, front):
    standard = fake(gateway=True)
    gate = front({"standard": (standard.url, standard.key)})
    gate.standard = standard
    return gate


def command(one, ident, text="true", key=None):
    return one.ask("POST", PROXY.format(ident) + "/command", {"command": text}, key)[0]


def test_a_warm_sandbox_is_given_at_once_and_one_that_differs_is_made(fake, front):
    standard = fake(gateway=True)
    one = front({"standard": (standard.url, standard.key)}, more={"exec": {"warm": [WARM]}})
    ready = set(fronts.flow.wait_for(lambda: len(warm := one.warm()) == 2 and warm, 20))
    assert ready == {box.metadata["sandgate/id"] for box in list(standard.sandboxes.values())}
    standard.faults.add(Fault("POST", "/sandboxes", delay=5))  # who had to wait for another would wait so long
    began = time.monotonic()
    answer = one.create()
    assert answer[0] == 202 and start(answer) == "warm" and answer[1]["id"] in ready and time.monotonic() - began < 4
    assert command(one, answer[1]["id"]) == 200
    for more in ({"env": {"A": "b"}}, {"entrypoint": ["sleep", "9"]}, {"image": {"uri": "sg/other:1"}},
                 {"resourceLimits": {"cpu": "2", "memory": "256Mi"}}):
        other = one.create(**more)
        assert other[0] == 202 and start(other) == "cold" and other[1]["id"] not in ready, more
    fronts.flow.wait_for(lambda: len([b for b in list(standard.sandboxes.values())
                                      if b.metadata["sandgate/id"] not in ready]) == 5, 20)


def test_a_sandbox_that_idles_sleeps_and_its_next_call_wakes_it(fake, front):
    standard = fake(gateway=True)
    one = front({"standard": (standard.url, standard.key)}, more={"exec": {"idle": "pause", "idle_after": "1s"}})
    ident = made(one)
    assert command(one, ident) == 200
    box = only(standard)
    fronts.flow.wait_for(lambda: box.state == "Paused", 15)
    status, text, _ = one.ask("POST", PROXY.format(ident) + "/command", {"command": "echo awake"})
    assert status == 200 and "awake" in text and box.state == "Running"


def test_a_session_and_a_task_are_their_users_own(one):
    bob, seen = one.user("bob"), {}
    for kind in ("Session", "Task"):
        for key in (one.key, bob):
            answers = [one.create(key=key, fields={f"X-Sandgate-{kind}": "same"}) for _ in range(3)]
            assert [a[0] for a in answers] == [202] * 3 and [start(a) for a in answers] == ["cold", "reused", "reused"]
            assert len({a[1]["id"] for a in answers}) == 1
            seen[kind, key] = answers[0][1]["id"]
    assert len(set(seen.values())) == 4 == len(one.standard.sandboxes)
    task = seen["Task", one.key]
    assert one.ask("DELETE", f"/v1/sandboxes/{task}", key=bob)[0] == 404
    assert one.ask("DELETE", f"/v1/sandboxes/{task}")[0] == 204 and len(one.standard.sandboxes) == 3
    again = one.create(fields={"X-Sandgate-Task": "same"})
    assert start(again) == "cold" and again[1]["id"] != task


def test_an_idempotency_key_makes_one_sandbox_of_its_user(one):
    fields = {"Idempotency-Key": "k-1"}
    first, again = one.create(fields=fields), one.create(fields=fields)
    assert (start(first), start(again)) == ("cold", "repeated") and first[1]["id"] == again[1]["id"]
    assert one.create(fields=fields, env={"A": "b"})[0] == 409
    other = one.create(key=one.user("bob"), fields=fields)
    assert start(other) == "cold" and other[1]["id"] != first[1]["id"] and len(one.standard.sandboxes) == 2
