"""Execution servers in the configuration, as an operator writes them: the shipped example, the
JSON schema, files that are named, and what the compiler makes of it all."""
import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("SANDGATE_BIN", ROOT / "build/release/bin")).resolve()
EXAMPLE = ROOT / "conf/opensandbox.yaml"
FRONT = """
listeners: [{name: e, kind: opensandbox, address: "127.0.0.1:8090"}]
servers: [{name: one, url: "http://127.0.0.1:8080", key: k, endpoints: ["127.0.0.0/8"]}]
"""


def check(path, *more):
    return subprocess.run([BIN / "sandgate", "check", "-c", path, *more], capture_output=True, text=True, timeout=60)


def written(folder, text):
    path = folder / "sandgate.yaml"
    path.write_text(text)
    return path


def test_the_example_is_without_fault():
    done = check(EXAMPLE, "--werror")
    assert done.returncode == 0, done.stderr


def test_a_server_is_told_from_a_connector(tmp_path):
    path = written(tmp_path, FRONT)
    done = subprocess.run([BIN / "sandgate", "connectors", "list", "-c", path, "--json"],
                          capture_output=True, text=True, timeout=60)
    [one] = json.loads(done.stdout)["connectors"]
    assert (one["auth"], one["group"], one["secret"]) == ("execution server", "server/one", "k")


def test_a_named_file_of_keys_is_read_from_where_the_configuration_lies(tmp_path, monkeypatch):
    text = FRONT + "exec: {jwt: [{issuer: i, audience: a, jwks_file: keys/id.json}]}\n"
    path = written(tmp_path, text)
    done = check(path)
    assert done.returncode == 2 and ":4:50: `keys/id.json` is not a readable file" in done.stderr
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/id.json").write_text('{"keys": []}')
    monkeypatch.chdir("/")
    assert check(path).returncode == 0
    (tmp_path / "keys/id.json").write_text('{"keys": [' + " " * 262144 + "]}")
    assert "larger than 262144 bytes" in check(path).stderr
    (tmp_path / "keys/id.json").write_text("not a set")
    assert "is not a set of keys" in check(path).stderr


def test_a_pipe_or_a_folder_is_no_file_of_keys(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", ".", "/dev/zero"):
        path = written(tmp_path, FRONT + f"exec: {{jwt: [{{issuer: i, audience: a, jwks_file: {name}}}]}}\n")
        done = check(path)
        assert done.returncode == 2 and "is not a readable file" in done.stderr, name


def test_all_faults_are_told_in_one_go(tmp_path):
    done = check(written(tmp_path, """
listeners: [{name: e, kind: opensandbox, address: "0.0.0.0:8090"}]
servers: [{name: one, url: "http://os.example.test", tier: odd}]
exec: {placement: [{tier: high}], warm: [{}], jwt: [{}], volumes: [x], policy: p}
"""))
    assert done.returncode == 2
    for text in ("keys of callers would travel readable", "`key`", "`endpoints`", "the server's key would travel",
                 "none of `servers` is of tier high", "`image` is missing", "`issuer` is missing",
                 "a path starts with `/`", "no policy `p`", "`odd` is not one of"):
        assert text in done.stderr, (text, done.stderr)


@pytest.mark.parametrize("network, policy, docker, warned", [
    ("sg", "p", "/run/docker.sock", []), (None, "p", None, []),
    ("sg", "p", None, [":4:92: warning: nothing is pinned here: without exec.docker"]),
    ("sg", "p", "''", [":4:92: warning: nothing is pinned here: without exec.docker"]),
    (None, "p", "/run/docker.sock", []),
    ("sg", None, "/run/docker.sock", [":4:92: warning: sandboxes on this network reach nothing: exec.policy"]),
])
def test_what_is_not_pinned_is_a_warning(tmp_path, network, policy, docker, warned):
    """A network of docker's without its socket; the socket alone is of use for more."""
    own = f", network: {network}" if network else ""
    more = ", ".join(f"{k}: {v}" for k, v in (("docker", docker), ("policy", policy)) if v)
    done = check(written(tmp_path, f"""policies: {{p: {{allow: []}}}}
listeners: [{{name: e, kind: opensandbox, address: "127.0.0.1:8090"}}]
servers:
  - {{name: one, url: "http://127.0.0.1:8080", key: k, endpoints: ["127.0.0.0/8"]{own}}}
exec: {{{more}}}
"""))
    assert done.returncode == 0 and done.stderr.count("warning: ") == len(warned), done.stderr
    assert all(text in done.stderr for text in warned), done.stderr


@pytest.fixture(scope="module")
def schema():
    jsonschema, yaml = pytest.importorskip("jsonschema"), pytest.importorskip("yaml")
    text = json.loads((BIN.parent / "docs/sandgate.schema.json").read_text())

    def faults(document):
        return list(jsonschema.Draft202012Validator(text).iter_errors(yaml.safe_load(document)))
    return faults


def test_the_json_schema_takes_the_example(schema):
    assert schema(EXAMPLE.read_text()) == []


@pytest.mark.parametrize("more", [
    "exec: {approval: always}", "exec: {placement: [{risk: high}]}", "exec: {warm: [{name: a}]}",
    "exec: {jwt: [{issuer: i, audience: a}]}", "exec: {jwt: [{issuer: i, audience: a, jwks_connector: c}]}",
    "exec: {unknown: 1}", "exec: {placement: [{tier: standard, volumes: false}]}"])
def test_the_json_schema_refuses_what_check_refuses(schema, tmp_path, more):
    assert schema(FRONT + more) != []
    assert check(written(tmp_path, FRONT + more + "\n")).returncode == 2
