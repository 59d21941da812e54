"""The official SDKs, unmodified, against the fake and against the real servers, by the same
flow: where both print the same, the fake may stand for the real one."""
import http.client
import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import packages
import pytest
from conftest import absent, sdk
from real_stack import end, wait

WAYS = [("python", False), ("python", True), ("npm", False), ("npm", True)]
NAMES = [f"{kind} {'through the server' if proxy else 'direct'}" for kind, proxy in WAYS]
WRONG_KEY = r"lifecycle: API key wrong"  # the last step of a flow comes with one
SEEN = {}


def flags(proxy, policy=True):
    return (["--proxy"] if proxy else []) + (["--policy"] if policy else [])


def good(steps):
    assert {name: seen for name, seen in steps.items() if isinstance(seen, dict) and "error" in seen} == {}
    return steps


def on_fake(fake, shelf, kind, proxy):
    """Once for each way; the tests that compare ask again."""
    if (kind, proxy) not in SEEN:
        f = fake()
        SEEN[kind, proxy] = good(sdk(shelf, kind, f.url, f.key, *flags(proxy))["steps"])
        assert f.forgive(WRONG_KEY) == 1
        assert not f.sandboxes, "a flow leaves no sandbox"
    return SEEN[kind, proxy]


def need(shelf, kind):
    name = "venv" if kind == "python" else "npm"
    if isinstance(shelf[name], packages.Missing):
        absent(f"{kind} SDK", shelf[name])


@pytest.mark.parametrize(("kind", "proxy"), WAYS, ids=NAMES)
def test_an_sdk_goes_through_its_whole_flow_at_the_fake(fake, shelf, kind, proxy):
    need(shelf, kind)
    steps = on_fake(fake, shelf, kind, proxy)
    assert steps["command"]["both"] == {"exit": 3, "out": ["out"], "err": ["err"], "id": True}
    assert steps["streams"] == {"events": 3, "spread": True} and steps["pause"]["kept"]
    assert steps["kill"] == {"info": 404, "again": 404} and steps["refused"] == 401


def test_both_sdks_see_the_same_at_the_fake(fake, shelf):
    need(shelf, "python")
    need(shelf, "npm")
    python, npm = (on_fake(fake, shelf, kind, False) for kind in ("python", "npm"))
    for name in sorted((python.keys() & npm.keys()) - {"create", "metadata", "command"}):
        assert python[name] == npm[name], name


def test_the_command_line_and_the_mcp_server_work_at_the_fake(fake, shelf):
    need(shelf, "python")
    f = fake()
    seen = sdk(shelf, "programs", f.url, f.key)["steps"]
    assert seen["osb"] == {"upload": 0, "run": [0, "from here\n"], "rm": 0, "listed": [True], "kill": 0}
    assert seen["mcp"] == {"tools": True, "out": True, "read": True, "gone": {"failed": True}, "killed": True}
    assert not f.sandboxes


@pytest.fixture(scope="module")
def flows(real, shelf):
    """Every way at both tiers.  The two servers side by side, one flow at a time at each."""
    took = time.monotonic()

    def tier(server, policy):
        return {(kind, proxy): sdk(shelf, kind, server.url, server.key, *flags(proxy, policy),
                                   around=lambda command: [*real.inside(), *command])["steps"]
                for kind, proxy in WAYS}

    with ThreadPoolExecutor(2) as pool:
        # gVisor has no nat table, so its server refuses a networkPolicy.
        jobs = {name: pool.submit(tier, server, name == "standard") for name, server in real.servers.items()}
        seen = {name: job.result() for name, job in jobs.items()}
    seen["seconds"] = time.monotonic() - took
    return seen


@pytest.mark.parametrize(("kind", "proxy"), WAYS, ids=NAMES)
@pytest.mark.parametrize("tier", ["standard", "high"])
def test_the_real_server_and_the_fake_agree(fake, shelf, flows, report, tier, kind, proxy):
    fakes, reals = on_fake(fake, shelf, kind, proxy), good(flows[tier][kind, proxy])
    report["flows at real servers"] = report.get("flows at real servers", 0) + 1
    for name in fakes:
        if (tier, name) != ("high", "policy"):
            assert reals[name] == fakes[name], name


def test_single_requests_are_answered_alike_by_the_real_server_and_the_fake(real, fake):
    f, server = fake(), real.servers["standard"]

    def probe(url, key, around=()):
        command = [*around, packages.PYTHON, str(packages.HERE / "probes.py"), url, key]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)

    fakes, reals = probe(f.url, f.key), probe(server.url, server.key, real.inside())
    # Two without a right key and two that are no JSON, on purpose.
    assert f.forgive("API key|JSON body") == 4
    assert {n: (fakes[n], reals[n]) for n in fakes if fakes[n] != reals[n]} == {}
    for item in lifecycle(real, server, "GET", "/v1/sandboxes")["items"]:
        lifecycle(real, server, "DELETE", f"/v1/sandboxes/{item['id']}")


def test_no_sandbox_of_the_flows_is_left(real, flows):
    left = real.docker("ps", "-a", "--format", "{{.Names}}").stdout.split()
    assert left == []


def test_the_high_tier_is_the_runtime_that_it_says(real):
    """Isolation is real or declared simulated, and the server's sandboxes do run under it."""
    made = python(real, "high", "print((await box.commands.run('uname -a')).logs.stdout[0].text)")
    assert ("gvisor" in made.lower()) == (real.isolation == "gVisor"), made


def python(real, tier, line):
    server = real.servers[tier]
    code = f"""
import asyncio
from opensandbox import Sandbox
from opensandbox.config import ConnectionConfig
async def main():
    config = ConnectionConfig(domain="{server.url.removeprefix('http://')}", api_key="{server.key}")
    box = await Sandbox.create("sg/base:local", connection_config=config, resource={{"cpu": "1", "memory": "256Mi"}})
    try:
        {line}
    finally:
        await box.kill()
asyncio.run(main())
"""
    done = real.run([packages.venv() / "python", "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


PTY = """
import json, sys
sys.path.insert(0, {here!r})
import wire
host, port, path, fields = {host!r}, {port}, {path!r}, {fields!r}
import http.client
link = http.client.HTTPConnection(host, port)
link.request("POST", path + "/pty", json.dumps({{"cwd": "/tmp"}}), {{"Content-Type": "application/json", **dict(fields)}})
ident = json.loads(link.getresponse().read())["session_id"]
sock = wire.Websocket.dial(host, port, path + "/pty/" + ident + "/ws?pty=0", fields)
seen = [json.loads(sock.receive()[1])["mode"]]
sock.send(b"\\0pwd; exit 5\\n")
while (got := sock.receive())[0] != wire.CLOSE:
    seen.append(got[1][1:].decode() if got[0] == wire.BINARY else json.loads(got[1]).get("exit_code"))
print(json.dumps(seen))
"""


def pty_code(endpoint):
    host, _, rest = endpoint.partition(":")
    port, _, path = rest.partition("/")
    path = "/" + path
    return PTY.format(here=str(packages.HERE), host=host, port=int(port), path=path, fields=[])


def lifecycle(real, server, method, path, body=None):
    """One call from inside the namespace; JSON or None."""
    code = ("import json, sys, urllib.request\n"
            f"request = urllib.request.Request({server.url + path!r}, {json.dumps(body).encode() if body else None!r},"
            f" {{'OPEN-SANDBOX-API-KEY': {server.key!r}, 'Content-Type': 'application/json'}}, method={method!r})\n"
            "sys.stdout.buffer.write(urllib.request.urlopen(request, timeout=60).read())")
    done = real.run([packages.PYTHON, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    return json.loads(done.stdout) if done.stdout else None


BODY = {"image": {"uri": "sg/base:local"}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 600,
        "resourceLimits": {"cpu": "1", "memory": "256Mi"}}


@pytest.mark.parametrize("through", [False, True], ids=["direct", "through the server"])
def test_a_terminal_works_at_the_real_server_as_at_the_fake(real, fake, through):
    server = real.servers["standard"]
    box = lifecycle(real, server, "POST", "/v1/sandboxes", BODY)["id"]
    try:
        where = lifecycle(real, server, "GET", f"/v1/sandboxes/{box}/endpoints/44772?use_server_proxy={through}".lower())
        code = pty_code(where["endpoint"])
        for _ in range(50):
            done = real.run([packages.PYTHON, "-c", code], capture_output=True, text=True, check=False, timeout=60)
            if done.returncode == 0:
                break
            time.sleep(0.1)  # execd comes up after the container
        assert done.returncode == 0, done.stderr[-2000:]
    finally:
        lifecycle(real, server, "DELETE", f"/v1/sandboxes/{box}")
    f = fake()
    box = json.loads(post(f.server.authority, "/v1/sandboxes", BODY, f.key))["id"]
    where = f"{f.server.authority}/v1/sandboxes/{box}/proxy/44772" if through else f.sandboxes[box].endpoint(44772)["endpoint"]
    other = subprocess.run([packages.PYTHON, "-c", pty_code(where)], capture_output=True, text=True,
                           check=True, timeout=60)
    assert json.loads(done.stdout) == json.loads(other.stdout) == ["pipe", "/tmp\n", 5]


def post(authority, path, body, key):
    link = http.client.HTTPConnection(authority)
    link.request("POST", path, json.dumps(body), {"Content-Type": "application/json", "OPEN-SANDBOX-API-KEY": key})
    return link.getresponse().read()


def test_a_server_that_is_killed_finds_its_sandboxes_again(real):
    """Why a gateway may reconcile by listing: the docker runtime keeps its state in labels."""
    server = real.servers["standard"]
    box = lifecycle(real, server, "POST", "/v1/sandboxes", {**BODY, "metadata": {"kept": "yes"}})["id"]
    server.process.kill()
    end(server.process)
    real.start(server)
    wait("the server again", lambda: real.healthy(server))
    found = lifecycle(real, server, "GET", "/v1/sandboxes?metadata=kept%3Dyes")["items"]
    assert [item["id"] for item in found] == [box]
    lifecycle(real, server, "DELETE", f"/v1/sandboxes/{box}")
