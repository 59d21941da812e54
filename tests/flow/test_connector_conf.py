"""Connectors in the configuration, as an operator meets them: check, explain, presets."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("SANDGATE_BIN", ROOT / "build/release/bin"))
PRESETS = sorted((ROOT / "conf/connectors").glob("*.yaml"))

TEXT = """
resolver: {servers: [192.0.2.1], hosts: {tracker-in: [10.0.0.5], wiki.example.test: [10.0.0.6]}}
sandboxes:
  - {id: alice, source: 10.77.0.2, user: alice, policy: p, trusts_ca: true}
  - {id: nobody, source: 10.77.0.3, policy: p}
connectors:
  - name: tracker
    hosts: [tracker.example.test]
    upstream: https://tracker-in:8443
    addresses: [10.0.0.0/24]
    group: internal
    auth: {kind: bearer, secret: "users/{user}/tracker"}
    allow:
      - {methods: [GET, POST], paths: ["/api/issues/**"]}
      - {methods: [GET], paths: [/search], query: [q]}
    deny: [{paths: ["/api/issues/*/secret"]}]
  - name: wiki
    hosts: [wiki.example.test]
    auth: {kind: header, name: X-Token, secret: wiki/token}
    allow: [{paths: ["/**"]}]
policies:
  p:
    allow: [{hosts: [open.example.test]}, {hosts: [read.example.test], methods: [GET]}]
    connectors: [tracker, wiki]
tests:
  - {sandbox: alice, url: "https://tracker.example.test/api/issues/7", expect: allow}
  - {sandbox: alice, url: "https://tracker.example.test/api/users", expect: deny, code: denied_path}
  - {sandbox: alice, url: "https://wiki.example.test/x", expect: deny, code: address_private}
"""


def cli(*args):
    return subprocess.run([BIN / "sandgate", *args], capture_output=True, text=True, timeout=60)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "sandgate.yaml"
    path.write_text(TEXT)
    return path


def test_tests_in_the_file_ask_about_requests_inside_tls(config):
    done = cli("check", "-c", config)
    assert done.returncode == 0 and "0 of 3 tests failed" in done.stdout, done.stdout + done.stderr
    assert "sandgate.yaml:5:5: warning: no `user`: connector `tracker`" in done.stderr


@pytest.mark.parametrize("url,method,code,connector", [
    ("https://tracker.example.test/api/issues/7?a=b", "GET", "ok", "tracker"),
    ("https://tracker.example.test/api/issues/7", "DELETE", "denied_method", "tracker"),
    ("https://tracker.example.test/api/users", "GET", "denied_path", "tracker"),
    ("https://tracker.example.test/api/issues/7/secret", "GET", "denied_by_rule", "tracker"),
    ("https://tracker.example.test/api/issues/7/%73ecret", "GET", "bad_path", "tracker"),
    ("https://tracker.example.test/search?q=x", "GET", "ok", "tracker"),
    ("https://tracker.example.test/search?q=x&all=1", "GET", "denied_query", "tracker"),
    ("https://tracker.example.test/", "TRACE", "method_refused", "tracker"),
    ("https://tracker.example.test:444/api/issues/7", "GET", "denied_port", None),
    ("http://tracker.example.test/api/issues/7", "GET", "denied_port", None),
    ("http://tracker.example.test:443/api/issues/7", "GET", "needs_tls", "tracker"),
    ("tracker.example.test:443", "GET", "needs_tls", "tracker"),
    ("https://open.example.test/x", "GET", "ok", None),
])
def test_explain_tells_what_the_connector_lets_pass(config, url, method, code, connector):
    told = json.loads(cli("explain", "-c", config, "--sandbox", "alice", "-X", method, "--json", url).stdout)
    assert told["code"] == code and told.get("connector") == connector, told
    assert told["intercepted"] == (connector is not None and url.startswith("https")), told


def test_explain_says_which_connector_and_why_tls_is_ended(config):
    text = cli("explain", "-c", config, "--sandbox", "alice", "https://tracker.example.test/api/issues/7").stdout
    assert re.search(r"way .*intercepted: \S*sandgate.yaml:\d+ belongs to a connector", text), text
    assert "connector    tracker, group internal, auth bearer, secret users/{user}/tracker, calls tracker-in:8443" in text
    assert "a synthetic address" in text and "10.0.0.5 (private)" in text and "trusts_ca" not in text
    text = cli("explain", "-c", config, "--sandbox", "nobody", "https://tracker.example.test/api/issues/7").stdout
    assert "may not use it" in text and "trusts_ca" in text
    text = cli("explain", "-c", config, "--sandbox", "alice", "https://read.example.test/x").stdout
    assert "looks at methods, paths or query" in text and "request      GET /x" in text
    text = cli("explain", "-c", config, "--sandbox", "alice", "https://open.example.test/x").stdout
    assert "method and path stay hidden" in text and "request" not in text


def test_a_raw_rule_past_a_connector_refuses_the_file(config):
    config.write_text(TEXT.replace("{hosts: [open.example.test]}", "{hosts: [\"*.example.test\"]}"))
    done = cli("check", "-c", config)
    assert done.returncode == 2
    assert "*.example.test reaches a host of connector `tracker` past the connector's `allow`" in done.stderr


def test_presets_are_there_for_the_systems_that_are_promised():
    names = {path.stem for path in PRESETS}
    assert {"github", "github-app", "gitlab", "jira", "slack", "openai", "anthropic", "aws-s3", "google",
            "azure-openai", "package-index", "oci-registry", "grpc", "mtls"} <= names


@pytest.mark.parametrize("preset", PRESETS, ids=lambda path: path.stem)
def test_a_preset_beside_the_main_file_passes_check(tmp_path, preset):
    (tmp_path / "connectors").mkdir()
    shutil.copy(preset, tmp_path / "connectors")
    names = re.findall(r"^(?:- )?name: (\S+)$", preset.read_text(), re.M)
    path = tmp_path / "sandgate.yaml"
    path.write_text("resolver: {servers: [192.0.2.1]}\n"
                    "sandboxes: [{id: s, user: u, policy: p}]\n"
                    f"policies: {{p: {{allow: [], connectors: [{', '.join(names)}]}}}}\n")
    done = cli("check", "-c", path, "--werror")
    assert names and done.returncode == 0, done.stdout + done.stderr
    assert "sandgate vault put" in preset.read_text(), "and says what to put where"


def presets(tmp_path, *stems):
    (tmp_path / "connectors").mkdir()
    names = []
    for stem in stems:
        text = (ROOT / f"conf/connectors/{stem}.yaml").read_text()
        (tmp_path / f"connectors/{stem}.yaml").write_text(text)
        names += re.findall(r"^(?:- )?name: (\S+)$", text, re.M)
    path = tmp_path / "sandgate.yaml"
    path.write_text("resolver: {servers: [192.0.2.1]}\nsandboxes: [{id: s, user: u, policy: p}]\n"
                    f"policies: {{p: {{allow: [], connectors: [{', '.join(names)}]}}}}\n")
    return path


@pytest.mark.parametrize("preset,method,url,code", [
    ("github", "GET", "https://github.com/acme/app.git/info/refs?service=git-upload-pack", "ok"),
    ("github", "POST", "https://github.com/acme/app.git/git-receive-pack", "ok"),
    ("github", "GET", "https://github.com/settings/tokens", "denied_path"),
    ("github", "GET", "https://api.github.com/repos/acme/app/actions/secrets/public-key", "denied_by_rule"),
    ("gitlab", "POST", "https://gitlab.example.test/group/sub/app.git/git-upload-pack", "ok"),
    ("gitlab", "GET", "https://gitlab.example.test/api/v4/projects/7/variables/KEY", "denied_by_rule"),
    ("jira", "PUT", "https://jira.example.test/rest/api/3/issue/AB-1", "ok"),
    ("slack", "POST", "https://slack.com/api/chat.postMessage", "ok"),
    ("slack", "POST", "https://slack.com/api/admin.users.remove", "denied_path"),
    ("openai", "POST", "https://api.openai.com/v1/chat/completions", "ok"),
    ("openai", "DELETE", "https://api.openai.com/v1/models/x", "denied_method"),
    ("anthropic", "POST", "https://api.anthropic.com/v1/messages", "ok"),
    ("aws-s3", "GET", "https://example-bucket.s3.eu-west-1.amazonaws.com/?list-type=2&prefix=a%2F", "ok"),
    ("aws-s3", "PUT", "https://example-bucket.s3.eu-west-1.amazonaws.com/agents/x?acl", "denied_by_rule"),
    ("aws-s3", "PUT", "https://example-bucket.s3.eu-west-1.amazonaws.com/other/x", "denied_path"),
    ("aws-s3", "GET", "https://sts.eu-west-1.amazonaws.com/?Action=AssumeRole", "denied_by_policy"),
    ("google", "GET", "https://storage.googleapis.com/storage/v1/b/example-bucket/o/a%2Fb", "ok"),
    ("azure-openai", "POST", "https://example.openai.azure.com/openai/deployments/d/chat/completions?api-version=1", "ok"),
    ("package-index", "GET", "https://packages.example.test/pypi/simple/requests/", "ok"),
    ("package-index", "POST", "https://packages.example.test/pypi/legacy/", "ok"),
    ("oci-registry", "HEAD", "https://registry.example.test/v2/app/manifests/latest", "ok"),
    ("oci-registry", "PUT", "https://registry.example.test/v2/app/manifests/latest", "denied_method"),
    ("grpc", "POST", "https://billing.internal.example.test/acme.billing.v1.Invoices/Get", "ok"),
    ("grpc", "POST", "https://billing.internal.example.test/acme.billing.v1.Invoices/Delete", "denied_path"),
    ("mtls", "GET", "https://payments.internal.example.test/v2/transfers/1", "ok"),
])
def test_a_preset_lets_pass_what_it_says(tmp_path, preset, method, url, code):
    told = json.loads(cli("explain", "-c", presets(tmp_path, preset), "--sandbox", "s", "-X", method, "--json", url).stdout)
    assert told["code"] == code, told


def test_two_presets_for_one_system_in_one_policy_are_refused(tmp_path):
    done = cli("check", "-c", presets(tmp_path, "github", "github-app"))
    assert done.returncode == 2 and "neither path is more specific" in done.stderr
    assert "connectors/github" in done.stderr, "and it is said where"


def test_all_other_presets_lie_beside_each_other(tmp_path):
    stems = [path.stem for path in PRESETS if path.stem != "github-app"]
    done = cli("check", "-c", presets(tmp_path, *stems), "--werror")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def schema():
    jsonschema, yaml = pytest.importorskip("jsonschema"), pytest.importorskip("yaml")
    text = json.loads((BIN.parent / "docs/sandgate.schema.json").read_text())

    def faults(document):
        return list(jsonschema.Draft202012Validator(text).iter_errors(yaml.safe_load(document)))
    return faults


@pytest.mark.parametrize("preset", PRESETS, ids=lambda path: path.stem)
def test_the_json_schema_takes_a_preset(schema, preset):
    lines = preset.read_text().splitlines()
    assert schema("\n".join(["connectors:", *("  " + line for line in lines)])) == []


@pytest.mark.parametrize("auth", [
    "{kind: bearer}", "{kind: barer, secret: s}", "{kind: passthrough, secret: s}", "{kind: query, secret: s}",
    "{kind: jwt_bearer, secret: s, issuer: i, algorithm: none}", "{secret: s}"])
def test_the_json_schema_refuses_what_check_refuses(schema, tmp_path, auth):
    text = f"connectors: [{{name: c, hosts: [c.example.test], auth: {auth}, allow: [{{methods: [GET]}}]}}]\n"
    assert schema(text) != []
    path = tmp_path / "sandgate.yaml"
    path.write_text(text)
    assert cli("check", "-c", path).returncode == 2


def test_the_json_schema_takes_the_whole_of_a_file(schema):
    assert schema(TEXT) == [] and schema((ROOT / "conf/sandgate.yaml").read_text()) == []
