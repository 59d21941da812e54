"""check, explain, policy from-tools and the compiler, as an operator runs them."""
import array
import json
import os
import pathlib
import socket
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("SANDGATE_BIN", ROOT / "build/release/bin"))
EXAMPLE = ROOT / "conf/sandgate.yaml"

GOOD = """
resolver: {hosts: {meta.example: 169.254.169.254, inside.example: 10.1.2.3}}
sandboxes: [{id: demo, source: 10.77.0.2, user: alice, policy: coding}]
policies:
  coding:
    allow:
      - {hosts: [static.example.com], ports: [443]}
      - {hosts: [api.example.com], ports: [80], methods: [GET], paths: ['/v1/**']}
      - {hosts: [db.example.com], ports: [5432], protocol: tcp}
      - {hosts: [meta.example, inside.example, '*.cdn.example.com'], ports: [443]}
    deny:
      - {hosts: [bad.cdn.example.com]}
"""


def cli(*args):
    return subprocess.run([BIN / "sandgate", *args], capture_output=True, text=True, timeout=60)


@pytest.fixture
def config(tmp_path):
    def write(text):
        path = tmp_path / "sandgate.yaml"
        path.write_text(text)
        return path
    return write


def compile_(path):
    """Status, messages and names of the descriptors that the compiler sends."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        fd = theirs.fileno()
        child = subprocess.Popen([BIN / "sandgate-compile", path], pass_fds=[3],
                                 preexec_fn=lambda: os.dup2(fd, 3, inheritable=True))
        theirs.close()
        data, control, _, _ = ours.recvmsg(40000, 1000)
        child.wait(timeout=30)
    fds = array.array("i")
    for _, _, raw in control:
        fds.frombytes(raw)
    names = [os.readlink(f"/proc/self/fd/{fd}") for fd in fds]
    for fd in fds:
        os.close(fd)
    return int.from_bytes(data[:2], "big"), data[2:].decode().splitlines(), names


def test_the_example_that_we_ship_has_no_fault_and_its_tests_pass():
    done = cli("check", "-c", EXAMPLE, "--werror")
    assert done.returncode == 0, done.stderr
    assert "0 errors, 0 warnings, 0 of 8 tests failed" in done.stdout


def test_every_fault_is_told_with_file_line_and_column(config):
    path = config("lisners: []\nworkers: many\npolicies: {p: {allow: [{host: [a.test]}]}}\n")
    done = cli("check", "-c", path)
    assert done.returncode == 2
    assert f"{path}:1:1: unknown key `lisners`; did you mean listeners?" in done.stderr
    assert f"{path}:2:10: `many` is not a whole number" in done.stderr
    assert f"{path}:3:25: unknown key `host`; did you mean hosts?" in done.stderr
    told = json.loads(cli("check", "-c", path, "--json").stdout)
    assert not told["ok"] and told["errors"] == 4 and told["messages"][0]["line"] == 1


@pytest.mark.parametrize("text,at,told", [
    ("limits: [1\nworkers: 2\n", "2:8", "while parsing a flow sequence that begins in line 1"),
    ("limits:\n\tworkers: 2\n", "2:1", "blanks indent, not tabs")])
def test_what_is_no_yaml_is_told_with_where_to_look(config, text, at, told):
    path = config(text)
    assert any(line.startswith(f"{path}:{at}: not YAML: ") and told in line for line in cli("check", "-c", path).stderr.splitlines())


def test_warnings_fail_only_when_asked(config):
    path = config("policies: {p: {deny: [{hosts: [a.test]}]}}\n")
    assert cli("check", "-c", path).returncode == 0
    assert cli("check", "-c", path, "--werror").returncode == 1


def test_names_that_nobody_resolves_are_warned_of(config):
    told = cli("check", "-c", config("policies: {p: {allow: [{hosts: [a.test]}]}}\n"))
    assert told.returncode == 0 and "no `resolver.servers`" in told.stderr
    for rest in ("resolver: {servers: [127.0.0.53]}", "resolver: {hosts: {a.test: [127.0.0.9]}}",
                 "upstream_proxy: {address: 'proxy.test:3128'}"):
        path = config(f"{rest}\npolicies: {{p: {{allow: [{{hosts: [a.test]}}]}}}}\n")
        assert cli("check", "-c", path, "--werror").returncode == 0


def test_a_test_in_the_file_that_fails_is_told(config):
    path = config(GOOD + "tests:\n"
                  "  - {sandbox: demo, url: 'https://static.example.com/', expect: deny}\n"
                  "  - {sandbox: demo, url: 'https://other.example.com/', expect: deny, code: denied_port}\n")
    done = cli("check", "-c", path)
    assert done.returncode == 2
    assert "test failed: https://static.example.com/ is allowed by" in done.stderr
    assert "is denied (denied_by_policy)" in done.stderr
    assert len(json.loads(cli("check", "-c", path, "--json").stdout)["failed"]) == 2


@pytest.mark.parametrize("method,url,code", [
    ("GET", "https://static.example.com/any/path", "ok"),
    ("GET", "https://STATIC.example.com.:443/", "ok"),
    ("GET", "http://static.example.com/", "denied_port"),
    ("GET", "http://api.example.com/v1/x?y", "ok"),
    ("HEAD", "http://api.example.com/v1/x", "ok"),
    ("POST", "http://api.example.com/v1/x", "denied_method"),
    ("GET", "http://api.example.com/v2", "denied_path"),
    ("GET", "http://api.example.com/v1/../v2", "bad_path"),
    ("TRACE", "http://api.example.com/v1/x", "method_refused"),
    ("GET", "https://a.cdn.example.com/", "ok"),
    ("GET", "https://bad.cdn.example.com/", "denied_by_rule"),
    ("GET", "https://cdn.example.com/", "denied_by_policy"),
    ("GET", "db.example.com:5432", "ok"),
    ("GET", "db.example.com:5433", "denied_port"),
    ("GET", "static.example.com:443", "denied_protocol"),
    ("GET", "https://meta.example/", "address_metadata"),
    ("GET", "https://inside.example/", "address_private"),
    ("GET", "https://192.0.2.1/", "ip_literal"),
    ("GET", "https://0x7f.1/", "ip_literal_nonstandard"),
    ("GET", "https://user@static.example.com/", "bad_host"),
])
def test_explain_tells_the_verdict(config, method, url, code):
    done = cli("explain", "-c", config(GOOD), "--sandbox", "demo", "-X", method, "--json", url)
    told = json.loads(done.stdout)
    assert told["code"] == code
    assert told["allowed"] == (code == "ok")
    assert done.returncode == (0 if code == "ok" else 1)


def test_explain_names_the_rule_by_file_and_line(config):
    path = config(GOOD)
    done = cli("explain", "-c", path, "--sandbox", "demo", "https://bad.cdn.example.com/")
    assert done.returncode == 1
    assert f"decided by   {path}:12" in done.stdout
    assert "dns          NXDOMAIN" in done.stdout
    assert "verdict      denied: denied_by_rule" in done.stdout
    done = cli("explain", "-c", path, "--policy", "coding", "db.example.com:5432")
    assert "a synthetic address" in done.stdout and done.returncode == 0


@pytest.mark.parametrize("text,line", [("", 1), ("default dny", 1), ("default deny\n\nallow a.test\nalow b.test\ndeny c.test\n", 4),
                                       ("default deny\nallow a.test\nallow not a name", 3)])
def test_a_narrowing_that_is_none_is_told_with_its_line(config, tmp_path, text, line):
    narrow = tmp_path / "narrow"
    narrow.write_text(text)
    said = cli("explain", "-c", config(GOOD), "--policy", "coding", "--narrow", narrow, "https://a.test/")
    assert said.returncode == 2 and said.stderr.startswith(f"sandgate: {narrow}:{line}: wants `default allow`")


def test_explain_of_nobody_is_an_error(config):
    assert cli("explain", "-c", config(GOOD), "--sandbox", "nobody", "https://a.test/").returncode == 2
    assert cli("explain", "-c", config("x: 1\n"), "--sandbox", "demo", "https://a.test/").returncode == 2


def test_the_compiler_sends_a_sealed_image_and_the_databases(config, tmp_path):
    (tmp_path / "asn.mmdb").write_bytes(b"networks")
    (tmp_path / "country.mmdb").write_bytes(b"countries")
    path = config(GOOD + "geo: {country_db: country.mmdb, asn_db: asn.mmdb}\n")
    status, lines, names = compile_(path)
    assert status == 0 and lines == []
    assert "memfd:sandgate-image" in names[0]
    assert names[1].endswith("country.mmdb") and names[2].endswith("asn.mmdb")


def test_the_compiler_of_a_bad_file_sends_messages_and_nothing_else(config):
    status, lines, names = compile_(config("workers: many\n"))
    assert status != 0 and names == []
    assert lines[0].endswith(":1:10: `many` is not a whole number")


def test_more_messages_than_fit_are_cut_at_a_line(config):
    long = "x" * 300
    status, lines, _ = compile_(config("".join(f"{long}{i}: 1\n" for i in range(300))))
    assert status != 0 and len(lines) > 40
    assert all("unknown key" in line for line in lines)


def test_a_database_that_is_missing_refuses_the_file(config):
    status, lines, names = compile_(config(GOOD + "geo: {country_db: /nonexistent.mmdb}\n"))
    assert status != 0 and names == []
    assert lines == ["/nonexistent.mmdb: No such file or directory"]


def test_from_tools_asks_the_tools_that_are_there(tmp_path):
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    (bin_dir / "go").write_text("#!/bin/sh\necho 'https://user:secret@goproxy.example/x,direct'\n"
                                "echo 'sums.example+abc https://sums.mirror.example'\n")
    (bin_dir / "apt-get").write_text("#!/bin/sh\necho http://deb.example/debian\necho file:/srv\n")
    (bin_dir / "npm").write_text('#!/bin/sh\n[ "$2" = list ] && echo \'{"@co:registry": "https://co.example/"}\' '
                                 "|| echo https://npm.example/\n")
    (bin_dir / "python3").write_text("#!/bin/sh\n[ \"$1\" = -m ] && "
                                     "echo \"global.index-url='https://index.example/simple'\"\n")
    for tool in bin_dir.iterdir():
        tool.chmod(0o755)
    done = subprocess.run([BIN / "sandgate", "policy", "from-tools", "pip", "npm", "apt", "go", "cargo"],
                          capture_output=True, text=True, timeout=60, env={"PATH": f"{bin_dir}"})
    assert done.returncode == 0
    for host in ("index", "co", "npm", "goproxy", "sums.mirror"):
        assert f"hosts: [{host}.example], ports: [443]" in done.stdout, host
    assert "hosts: [deb.example], ports: [80]" in done.stdout
    assert "secret" not in done.stdout
    assert "cargo is not installed" in done.stderr
    policy = tmp_path / "tools.yaml"
    policy.write_text(done.stdout)
    assert cli("check", "-c", policy).returncode == 0


COMMANDS = ["attach", "audit", "audit verify", "audit export", "ca", "check", "connectors", "detach", "doctor", "exec", "explain", "learn",
            "policy", "policy from-tools", "reload", "rules", "run", "sandboxes", "sidecar", "status", "vault", "why"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_is_an_answer_not_a_mistake(command, option):
    said = cli(*command.split(), option)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith("usage: sandgate " + command.split()[0])


@pytest.mark.parametrize("args", [["run"], ["check"], ["connectors", "lint"], ["rules", "--interface", "br0"],
                                  ["explain", "--policy", "p", "https://example.com/"]])
def test_who_names_no_configuration_is_told_where_one_was_looked_for(args, tmp_path):
    said = subprocess.run([BIN / "sandgate", *args], env={"XDG_CONFIG_HOME": str(tmp_path)}, capture_output=True, text=True, timeout=60)
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr == (f"sandgate: no configuration: there is no {tmp_path}/sandgate/sandgate.yaml and no "
                           "/etc/sandgate/sandgate.yaml; give one with -c FILE\n")


def test_the_sidecar_touches_no_rules_but_a_containers():
    said = cli("sidecar")
    assert said.returncode == 1 and "first process of a container" in said.stderr


@pytest.mark.parametrize("args,word", [
    (["audit", "--since", "yesterday"], "yesterday"), (["audit", "--limit", "x"], "x"), (["audit", "foo"], "foo"),
    (["audit", "verify", "--at", "garbage"], "garbage"), (["learn", "--sandbox", "s", "--since", "soon"], "soon"),
    (["why", "nope"], "nope"), (["check", "--bogus"], "--bogus"),
    (["explain", "--policy", "p", "ftp://example.com/"], "ftp://example.com/"),
    (["learn"], "--sandbox ID"), (["detach"], "--sandbox ID"), (["attach", "--pid", "1"], "--sandbox ID"),
    (["register", "--sandbox", "s", "--policy", "p"], "--source ADDRESS"), (["approvals", "allow"], "an ID"),
    (["ca", "expor"], "expor"), (["ca", "env"], "a PATH"), (["replay"], "a SANDBOX or --session"), (["explain", "--policy", "p"], "a URL"),
    (["explain", "http://example.com/"], "one of --sandbox and --policy"),
    (["explain", "--policy", "p", "example.com"], "example.com"), (["explain", "--policy", "p", ""], "")])
def test_who_calls_wrongly_is_told_which_word_is_wrong(args, word):
    said = cli(*args)
    assert (said.returncode, said.stdout) == (2, "")
    assert f"`{word}`" in said.stderr.splitlines()[0]


@pytest.mark.parametrize("args", [["--help"], ["rules"], ["check", "-c", EXAMPLE], ["audit", "--help"]])
def test_what_cannot_be_written_was_not_done(args):
    with open("/dev/full", "w") as full:
        done = subprocess.run([BIN / "sandgate", *args], stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode not in (0, None)


@pytest.mark.parametrize("url", ["htps://static.example.com/", "static.example.com"])
def test_a_test_in_the_file_that_asks_nothing_is_an_error(config, url):
    done = cli("check", "-c", config(GOOD + f"tests:\n  - {{policy: coding, url: '{url}', expect: deny}}\n"))
    assert done.returncode == 2
    assert f"`{url}` is not http://..., https://... or HOST:PORT" in done.stderr
