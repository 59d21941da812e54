"""The manifests' own commands, rules and configurations at work, as a node would start them."""
import json
import os
import shutil
import subprocess
import tempfile

import pytest
from conftest import HERE, ROOT, absent, flow


@pytest.fixture
def node():
    """node("sidecar"): what node.py saw."""
    if os.geteuid() != 0:
        absent("a node", "needs root for namespaces of its own")
    # Not pytest's own: users of containers must get there.
    folder = tempfile.mkdtemp(prefix="sandgate-node-")
    os.chmod(folder, 0o755)

    def start(form):
        done = subprocess.run(
            ["unshare", "-nm", "/usr/bin/python3", "-B", HERE / "node.py", form, flow.BIN, folder,
             ROOT / f"conf/kubernetes/{form}.yaml"], capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout)

    yield start
    shutil.rmtree(folder)


def test_a_sandbox_beside_a_sidecar_reaches_what_its_policy_says_and_nothing_else(node):
    seen = node("sidecar")
    for who in ("user", "root"):
        got = seen[who]
        assert got["allowed"].startswith("HTTP/1.1 200") and got["allowed"].endswith("fine"), got
        assert "denied_path" in got["path"]
        assert got["lie"].endswith("fine"), "where it goes says the name, not the address"
        for refused in ("host", "host6"):
            assert got[refused].startswith("HTTP/1.1 403"), got
        assert "fine" not in got["port"]
        assert got["name"] == got["name6"] == [0, 1]
        assert got["stolen name"] == [3, 0]
        for forbidden in ("raw", "packet", "mark", "gateway's user"):
            assert got[forbidden] == "error 1", (forbidden, got)
        assert got["flush"] != 0
        assert "sent" not in got["udp"]
        assert "sent" not in got["bound"], "a packet for loopback left by eth0"
        again = got["again"]
        assert again["udp"] and all(said == "error 1" for said in again["udp"]), "what the gateway began is not the sandbox's to go on with"
        assert again["tcp"] and all("denied_path" in said for said in again["tcp"]), again
    assert seen["sink"] == []
    assert {name.lower() for name in seen["asked"]} == {"mirror.example.com"}
    assert {row["sandbox"] for row in seen["rows"] if row["kind"] == "deny"} == {"pod"}
    assert seen["trust"] > 1 and seen["exit"] == 0


def test_a_nodes_gateway_needs_no_capability_and_writes_to_its_volume_only(node):
    seen = node("gateway")
    assert seen["change-me"].startswith("HTTP/1.1 403"), seen
    assert seen["another"].startswith("HTTP/1.1 407"), seen
    denied = [row for row in seen["rows"] if row["kind"] == "deny"]
    assert [row["sandbox"] for row in denied if row.get("code", "").startswith("denied")] == ["demo"]
    assert seen["sink"] == [] and seen["exit"] == 0
