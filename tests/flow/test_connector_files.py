"""`sandgate connectors`: company systems as they are written, before any of them is called."""
import json
import subprocess

from conftest import BIN, Gate

TRACKER = """
name: tracker
hosts: [tracker.example.test]
auth: {kind: bearer, secret: tracker/token}
allow: [{methods: [GET], paths: ["/api/**"]}]
"""


def lint(*words):
    done = subprocess.run([str(w) for w in (BIN / "sandgate", "connectors", "lint", "--json", *words)],
                          capture_output=True, text=True, timeout=60)
    return done.returncode, json.loads(done.stdout)


def test_a_connector_is_judged_by_itself(tmp_path):
    one = tmp_path / "tracker.yaml"
    one.write_text(TRACKER)
    assert lint(one) == (0, {"ok": True, "errors": 0, "warnings": 0, "messages": []})
    one.write_text(TRACKER.replace("bearer", "bearr"))
    code, said = lint(one)
    assert code == 2 and said["errors"] == 1
    message, = said["messages"]
    assert (message["file"], message["line"]) == (str(one), 4) and "did you mean bearer" in message["message"]


def test_two_that_match_the_same_requests_are_an_error(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(TRACKER.replace("tracker\n", name + "\n"))
    code, said = lint(tmp_path / "a.yaml", tmp_path / "b.yaml")
    assert code == 2 and "match the same requests" in said["messages"][0]["message"]
    assert lint(tmp_path / "a.yaml", tmp_path / "missing.yaml")[0] == 2


def test_those_of_a_configuration_are_listed_by_what_they_name():
    g = Gate({"connectors": [{"name": "tracker", "hosts": ["tracker.example.test"],
                              "auth": {"kind": "bearer", "secret": "tracker/token"},
                              "allow": [{"methods": ["GET"], "paths": ["/api/**"]}]}],
              "policies": {"coding": {"allow": [], "connectors": ["tracker"]}}})
    try:
        done = g.cli("connectors", "list", "--json")
        one, = json.loads(done.stdout)["connectors"]
        assert (one["name"], one["auth"], one["secret"], one["group"]) == ("tracker", "bearer", "tracker/token", "default")
        assert "tracker/token" in g.cli("connectors", "list").stdout
        assert g.cli("connectors", "lint").returncode == 0
    finally:
        g.close()
