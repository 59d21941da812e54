"""One connector process for each group: they come and go with the policy."""
import os
import time

from conftest import wait_for


def connector(name, group):
    return {"name": name, "hosts": ["%s.example.test" % name], "group": group,
            "auth": {"kind": "bearer", "secret": "x/%s" % name}, "allow": [{"methods": ["GET"]}]}


def config(*connectors):
    return {"connectors": [connector(*c) for c in connectors],
            "policies": {"coding": {"connectors": [c[0] for c in connectors]}}}


def processes(g):
    """{name: pid} of the connectors that serve."""
    return {r["name"]: r["pid"] for r in g.admin()[1]["roles"] if r["name"].startswith("connector.")}


def roles(g):
    return {r["name"]: (r["pid"], r["state"]) for r in g.admin()[1]["roles"]}


def serving(g, n):
    found = {k: v for k, v in roles(g).items() if k.startswith("connector.")}
    return len(found) == n and all(s == "serving" for _, s in found.values())


def test_each_group_has_a_process_of_its_own(gate):
    g = gate(config(("one", "a"), ("two", "a"), ("three", "b")))
    assert serving(g, 2)


def test_groups_come_and_go_with_a_reload(gate):
    g = gate(config(("one", "a")))
    first = processes(g)["connector.0"]
    g.write(config(("one", "a"), ("two", "b")))
    assert g.cli("reload").returncode == 0
    wait_for(lambda: serving(g, 2))
    assert processes(g)["connector.0"] == first
    g.write(config(("two", "b")))
    assert g.cli("reload").returncode == 0
    wait_for(lambda: not os.path.exists("/proc/%d" % first))
    assert serving(g, 1)
    g.write(config(("one", "a"), ("two", "b")))
    assert g.cli("reload").returncode == 0
    wait_for(lambda: serving(g, 2))
    assert processes(g)["connector.0"] != first


def test_a_group_that_no_policy_lists_has_no_process(gate):
    text = config(("one", "a"), ("two", "b"))
    text["policies"]["coding"]["connectors"] = ["one"]
    g = gate(text)
    assert serving(g, 1)
    g.write(config(("one", "a"), ("two", "b")))
    assert g.cli("reload").returncode == 0
    wait_for(lambda: serving(g, 2))


def test_a_connector_that_dies_comes_back(gate):
    g = gate(config(("one", "a")))
    first = processes(g)["connector.0"]
    os.kill(first, 9)
    wait_for(lambda: serving(g, 1) and processes(g)["connector.0"] != first)
    wait_for(lambda: g.rows(kind="role_death"))


def test_a_gateway_with_connectors_stops_cleanly(gate):
    g = gate(config(("one", "a"), ("two", "b")))
    began = time.monotonic()
    assert g.stop() == 0
    assert time.monotonic() - began < 5
