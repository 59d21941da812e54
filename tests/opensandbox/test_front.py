"""sandgate in front of the strict fake: both SDKs see what they see without it, and what is
not the caller's isn't there."""
import front as fronts
import pytest
from conftest import sdk
from test_sdk import NAMES, WAYS, WRONG_KEY, flags, good, need, on_fake


@pytest.fixture
def fronted(fake, front):
    """One server of each tier behind a gateway."""
    standard, high = fake(gateway=True), fake(gateway=True)
    one = front({"standard": (standard.url, standard.key), "high": (high.url, high.key)})
    one.standard, one.high = standard, high
    return one


@pytest.mark.parametrize(("kind", "proxy"), WAYS, ids=NAMES)
def test_an_sdk_sees_through_sandgate_what_it_sees_without(fake, fronted, shelf, kind, proxy):
    need(shelf, kind)
    direct = on_fake(fake, shelf, kind, proxy)
    through = good(sdk(shelf, kind, fronted.url, fronted.key, *flags(proxy))["steps"])
    for name in direct:
        assert through[name] == direct[name], name
    assert not fronted.standard.sandboxes and not fronted.high.sandboxes, "a flow leaves no sandbox"


def test_the_command_line_and_the_mcp_server_work_through_sandgate(fronted, shelf):
    need(shelf, "python")
    seen = sdk(shelf, "programs", fronted.url, fronted.key)["steps"]
    assert seen["osb"] == {"upload": 0, "run": [0, "from here\n"], "rm": 0, "listed": [True], "kill": 0}
    assert seen["mcp"] == {"tools": True, "out": True, "read": True, "gone": {"failed": True}, "killed": True}


def test_what_is_somebody_elses_is_not_there(fronted):
    bob = fronted.user("bob")
    code, made, _ = fronted.create()
    assert code == 202, made
    box = f"/v1/sandboxes/{made['id']}"
    for method, path in [("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume"),
                         ("GET", "/endpoints/44772"), ("GET", "/proxy/44772/ping"), ("GET", "/proxy/8080/"),
                         ("GET", "/diagnostics/summary")]:
        mine, theirs = fronted.ask("GET", "/v1/sandboxes/sb-nobody"), fronted.ask(method, box + path, key=bob)
        assert theirs[0] == 404, (method, path, theirs)
        if path == "" and method == "GET":
            assert str(mine[1]).replace("sb-nobody", made["id"]) == str(theirs[1])
    assert fronted.ask("GET", "/v1/sandboxes", key=bob)[1]["pagination"]["totalItems"] == 0
    assert fronted.ask("GET", "/v1/sandboxes")[1]["pagination"]["totalItems"] == 1
    assert fronted.ask("DELETE", box)[0] == 204


def test_no_key_of_a_server_and_no_id_of_its_is_shown(fronted):
    code, made, fields = fronted.create()
    upstream = next(iter(fronted.standard.sandboxes))
    seen = [made, fields, fronted.ask("GET", "/v1/sandboxes"), fronted.ask("GET", f"/v1/sandboxes/{made['id']}"),
            fronted.ask("GET", f"/v1/sandboxes/{made['id']}/endpoints/44772"),
            fronted.ask("GET", f"/v1/sandboxes/{made['id']}/endpoints/18080")]
    assert code == 202 and upstream not in str(seen) and fronted.standard.key not in str(seen)
    assert fronted.authority in str(seen[-2])
    assert fronted.ask("DELETE", f"/v1/sandboxes/{made['id']}")[0] == 204


def test_a_wrong_or_missing_key_is_told_as_the_server_tells_it(fronted):
    assert fronted.create(key="wrong")[0] == 401
    assert fronted.create(key="")[0] == 401
    assert fronted.create(key=fronted.standard.key)[0] == 401
    assert not fronted.standard.sandboxes


def test_everything_that_ran_is_in_the_ledger(fronted, shelf):
    need(shelf, "python")
    good(sdk(shelf, "python", fronted.url, fronted.key, "--skip", "policy", "pool")["steps"])
    fronts.flow.wait_for(lambda: [r for r in fronted.gate.rows(kind="exec_end") if r["exec"]["op"] == "sandbox.kill"])
    rows = fronted.gate.rows(kind="exec_end")
    ends = {row["turn"]: row["exec"] for row in rows if "turn" in row}
    ran = [{**ends.get(row.get("turn", row["id"]), {}), **row["exec"]} for row in fronted.gate.rows(kind="exec")
           if "command" in row["exec"]]
    first = next(row for row in ran if "echo out" in row["command"])
    assert first["exit"] == 3 and first["stdout"]["bytes"] == 3 and first["stderr"]["bytes"] == 3
    assert all(row["user"] == "alice" and row["agent"] == "coder" for row in rows)
