"""opencode and openclaw, unmodified, with a model that follows a script: all of the agent in
`sandgate exec`, or only what it executes, by OpenSandbox's MCP server through sandgate."""
import json
import os
import ssl
import subprocess
import sys
import types

import packages
import pytest
from certificates import make_ca, make_leaf
from conftest import OSB, ROOT, absent, flow, load
from model import Model

KEY = "sk-of-the-company-0123456789"
HOST = "models.example.test"
TRIES = "echo ran-$((40+2)); curl -sS http://evil.example.test/ 2>&1; env"


def documented(agent, mcp):
    """What docs/AGENTS.md says to write: for all of an agent in exec, or with the MCP server."""
    blocks = [json.loads(part.split("```", 1)[0]) for part in (ROOT / "docs/AGENTS.md").read_text().split("```json\n")[1:]]
    assert len(blocks) == 4
    own = blocks[sorted(AGENTS, reverse=True).index(agent)]
    return {**own, **blocks[2 + sorted(AGENTS, reverse=True).index(agent)]} if mcp else own


# The tool that runs commands, the configuration's name, how it is started, what it wants to be told.
AGENTS = {"opencode": ("bash", "opencode.json", ["run", "--auto", "--format", "json", "go"],
                       {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}),
          "openclaw": ("exec", "agent.json", ["agent", "exec", "go", "--config", "agent.json", "--json"], {})}


@pytest.fixture(params=sorted(AGENTS))
def agent(request, tmp_path):
    """agent.write(...) makes its configuration, with our addresses for the documented; agent.words start it."""
    tool, file, words, env = AGENTS[request.param]
    try:
        start = packages.bring(request.param)
    except packages.Missing as why:
        absent(request.param, why)

    def write(base, **more):
        text = json.dumps(documented(request.param, "mcp" in more))
        for old, new in {"https://models.example.com/v1": base, **more.get("mcp", {})}.items():
            assert old in text
            text = text.replace(old, new)
        (tmp_path / file).write_text(text)

    return types.SimpleNamespace(name=request.param, tool=tool, write=write, words=[*start, *words],
                                 env={**env, "HOME": str(tmp_path), "PWD": str(tmp_path)}, dir=tmp_path)


@pytest.fixture
def model():
    made = []

    def start(*args, **kw):
        made.append(Model(*args, **kw))
        return made[-1]

    yield start
    for one in made:
        one.close()


def call_of(agent, command):
    return (agent.tool, {"command": command, **({"description": "what is asked"} if agent.name == "opencode" else {})})


def test_an_agent_in_exec_works_with_a_key_that_it_never_holds(agent, model, tmp_path):
    ca = make_ca(tmp_path / "ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make_leaf(ca, HOST))
    one = model([call_of(agent, TRIES)], tls=context)
    gate = flow.Gate({
        "upstream_tls": {"ca_file": str(ca.file)}, "sandboxes": [],
        "resolver": {"servers": ["127.0.0.1"], "timeout": "200ms", "tries": 1, "hosts": {HOST: ["127.0.0.1"]}},
        "connectors": [{"name": "model", "hosts": [HOST], "upstream": f"https://{HOST}:{one.port}", "addresses": ["127.0.0.0/8"],
                        "auth": {"kind": "bearer", "secret": "model/key"},
                        "allow": [{"methods": ["POST"], "paths": ["/v1/chat/completions"]}]}],
        "policies": {"agents": {"allow": [], "connectors": ["model"]}}}, listeners=("proxy",))
    try:
        gate.start()
        put = gate.cli("vault", "put", "model/key", "--connector", "model", input=KEY)
        assert put.returncode == 0, put.stderr
        agent.write(f"https://{HOST}/v1")
        done = subprocess.run([flow.BIN / "sandgate", "exec", "-c", gate.file, "--policy", "agents", "--user", "alice",
                               "--agent", agent.name, "--session", "s1", "--", *agent.words], cwd=agent.dir,
                              env={**os.environ, **agent.env}, capture_output=True, text=True, timeout=400,
                              stdin=subprocess.DEVNULL, check=False)
        said = f"{done.stdout[-2000:]}{done.stderr[-2000:]}\n{gate.rows()[-5:]}"
        assert done.returncode == 0 and "all done" in done.stdout, said
        assert one.wrong == [] and one.keys == {f"Bearer {KEY}"}
        result, = one.results
        assert "ran-42" in result and "HOME=" in result and KEY not in result + done.stdout + done.stderr
        rows = [row for row in gate.rows() if row.get("agent") == agent.name]
        assert {row["user"] for row in rows} == {"alice"}
        asked = [row for row in rows if row.get("connector") == "model" and row.get("path") == "/v1/chat/completions"]
        assert len(asked) >= 2 and {row["method"] for row in asked} == {"POST"}
        assert any(row["kind"] == "deny" and "evil.example.test" in json.dumps(row) for row in rows)
    finally:
        gate.close()


@pytest.fixture
def front():
    """sandgate before one strict fake of OpenSandbox's server, and what to tell the MCP server."""
    sys.path.insert(0, str(OSB))
    fake_server, fronts = load(OSB / "fake_server.py", "osb_fake_server"), load(OSB / "front.py", "osb_front")
    tools = load(OSB / "packages.py", "osb_packages")
    sys.path.remove(str(OSB))
    got = tools.bring(["venv"])["venv"]
    if isinstance(got, tools.Missing):
        absent("opensandbox-mcp", got)
    fake = fake_server.FakeServer(gateway=True)
    made = fronts.Front({"standard": (fake.url, fake.key)})
    made.mcp = {'"opensandbox-mcp"': json.dumps(str(got / "opensandbox-mcp")), "127.0.0.1:8090": made.authority,
                "sgk_...": made.key}
    yield made
    made.close()
    fake.close()


def box_of(results):
    """The id that the first result tells."""
    return results[0].split("sb-", 1)[1].split('"', 1)[0].split("\\", 1)[0]


def test_what_an_agent_executes_by_mcp_runs_in_a_sandbox_of_its_users(agent, model, front, tmp_path):
    one = model([("sandbox_create", {"image": "sg/base:local", "resource": {"cpu": "1", "memory": "256Mi"}}),
                 ("command_run", lambda r: {"sandbox_id": "sb-" + box_of(r), "command": "echo ran-$((40+2)); exit 3"}),
                 ("sandbox_kill", lambda r: {"sandbox_id": "sb-" + box_of(r)})])
    agent.write(one.url, mcp=front.mcp)
    done = subprocess.run(agent.words, cwd=tmp_path, env={"PATH": os.environ["PATH"], **agent.env}, capture_output=True,
                          text=True, timeout=400, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0 and "all done" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    assert one.wrong == [] and len(one.results) == 3 and "ran-42" in one.results[1], one.results
    assert not {"bash", "exec", "write"} & set(one.tools)
    ran, = [row for row in front.gate.rows(kind="exec") if "ran-" in row["exec"].get("command", "")]
    end, = front.gate.wait_rows(kind="exec_end", turn=ran.get("turn", ran["id"]))
    assert (ran["user"], ran["agent"], end["exec"]["exit"]) == ("alice", "coder", 3)
    assert front.ask("GET", "/v1/sandboxes")[1]["pagination"]["totalItems"] == 0
