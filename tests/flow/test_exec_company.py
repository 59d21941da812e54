"""`sandgate exec` before a company system: ordinary clients, told nothing, get its data with a
credential that is nowhere in the box."""
import http.server
import json
import os
import pathlib
import re
import ssl
import subprocess
import sys
import threading
import time

import pytest

from certificates import make_ca, make_leaf
from conftest import BIN
from tally import program

HOST, ADDRESS, SECRET = "tracker.example.test", "127.0.0.14", "ghp_Canary7b2e9d40c1A5f8E3b6D2c9F4a1B7e0"


class System(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, context):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                shown = self.headers.get("Authorization", "")
                fine = shown == f"Bearer {SECRET}"
                body = json.dumps({"data": "the build is red", "shown": shown}).encode()
                self.send_response(200 if fine else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        super().__init__((ADDRESS, 0), Handler)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass


@pytest.fixture
def company(gate, tmp_path):
    ca = make_ca(tmp_path / "company")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make_leaf(ca, HOST))
    system = System(context)
    port = system.server_address[1]
    g = gate({
        "upstream_tls": {"ca_file": str(ca.file)},
        "resolver": {"servers": ["127.0.0.1"], "hosts": {HOST: [ADDRESS]}},
        "policies": {"coding": {"allow": [], "connectors": ["tracker"]}},
        "connectors": [{"name": "tracker", "hosts": [HOST], "ports": [port], "addresses": ["127.0.0.0/8"],
                        "auth": {"kind": "bearer", "secret": "tracker/token", "placeholder": "ghp_" + "*" * 36,
                                 "env": "TRACKER_TOKEN"},
                        "allow": [{"methods": ["GET"], "paths": ["/api/**"]}]}]})
    done = g.cli("vault", "put", "tracker/token", input=SECRET)
    assert done.returncode == 0, done.stderr
    g.url = f"https://{HOST}:{port}/api/issues"
    yield g
    system.shutdown()


def inside(g, *command, env=None):
    return subprocess.run([BIN / "sandgate", "exec", "-c", g.file, "--policy", "coding", "--", *command],
                          capture_output=True, text=True, timeout=120, env={**os.environ, **(env or {})})


GO = """
package main
import ("fmt"; "io"; "net/http"; "os")
func main() {
	r, err := http.Get(os.Args[1])
	if err != nil { fmt.Println(err); os.Exit(1) }
	b, _ := io.ReadAll(r.Body)
	fmt.Println(r.Proto, string(b))
}
"""
JAVA = """
import java.net.URI;
import java.net.http.*;
public class Call {
    public static void main(String[] a) throws Exception {
        var r = HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create(a[0])).build(),
                                                HttpResponse.BodyHandlers.ofString());
        System.out.println(r.version() + " " + r.body());
    }
}
"""
CLIENTS = {
    "curl": ["curl", "-sS", "URL"],
    "curl http1.1": ["curl", "-sS", "--http1.1", "URL"],
    "curl captured": ["curl", "-sS", "--noproxy", "*", "URL"],
    "python": [sys.executable, "-c", "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())", "URL"],
    "node": ["node", "-e", "fetch(process.argv[1]).then(r => r.text()).then(console.log)", "URL"],
    "go": ["FOLDER/call", "URL"],
    "java": ["java", "FOLDER/Call.java", "URL"],
}


def prepare(client, folder):
    if client == "go":
        (folder / "call.go").write_text(GO)
        done = subprocess.run([program("go"), "build", "-o", "call", "call.go"], cwd=folder, capture_output=True, text=True,
                              env={**os.environ, "GO111MODULE": "off"})
        assert done.returncode == 0, done.stderr
    (folder / "Call.java").write_text(JAVA)


@pytest.mark.parametrize("client", CLIENTS)
def test_ordinary_clients_get_the_data_without_a_credential(company, client, tmp_path):
    program("go" if client == "go" else CLIENTS[client][0])
    prepare(client, tmp_path)
    words = [w.replace("URL", company.url).replace("FOLDER", str(tmp_path)) for w in CLIENTS[client]]
    done = inside(company, *words)
    assert "the build is red" in done.stdout, done.stdout + done.stderr
    assert "Bearer ghp_" in done.stdout and SECRET not in done.stdout


def test_a_client_that_insists_shows_its_placeholder(company):
    done = inside(company, "sh", "-c", f'echo "$TRACKER_TOKEN"; curl -sS -H "Authorization: Bearer $TRACKER_TOKEN" '
                                       f"{company.url}; curl -sS -d \"$TRACKER_TOKEN\" {company.url}",
                  env={"TRACKER_TOKEN": SECRET})
    first, rest = done.stdout.split("\n", 1)
    assert re.fullmatch("ghp_[A-Za-z0-9]{36}", first) and first != SECRET
    assert "the build is red" in rest and SECRET not in done.stdout


def test_the_ledger_tells_connector_version_and_what_was_scrubbed(company):
    assert inside(company, "curl", "-sS", company.url).returncode == 0
    row, = company.wait_rows(kind="response", connector="tracker")
    assert (row["secret_version"], row["scrubbed"], row["http_status"]) == (1, 1, 200)
    assert "connector=tracker secret_version=1 scrubbed=1" in company.cli("audit").stdout
    told = company.cli("why", row["id"]).stdout
    assert "Connector tracker, its secret in version 1; echoes of it replaced: 1\n" in told
    exported = [json.loads(line) for line in company.cli("audit", "export").stdout.splitlines()]
    assert any(r.get("secret_version") == 1 for r in exported)
    assert company.cli("audit", "verify").returncode == 0
    assert SECRET not in told + json.dumps(exported)


def test_a_sandbox_that_trusts_our_ca_is_told_so_in_the_registry(company):
    p = subprocess.Popen([BIN / "sandgate", "exec", "-c", company.file, "--policy", "coding", "--id", "box", "--",
                          "sleep", "30"])
    try:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            all_of_them = company.admin("GET", "/v1/sandboxes")[1]["sandboxes"]
            found = [s for s in all_of_them if s["id"] == "box"]
            if found:
                break
            time.sleep(0.1)
        assert found and found[0]["trusts_ca"] is True
        again = subprocess.run([BIN / "sandgate", "exec", "-c", company.file, "--policy", "coding", "--id", "box", "--", "true"],
                               capture_output=True, text=True, timeout=60)
        assert again.returncode == 125 and "`box` is attached already, with policy `coding`" in again.stderr, again
    finally:
        p.terminate()
        p.wait(20)


# --secret: a gateway of the command's own

def with_secret(*words, env=None, **kw):
    return subprocess.run([BIN / "sandgate", "exec", *words], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **(env or {})}, **kw)


def test_a_secret_of_the_callers_stays_outside():
    done = with_secret("--secret", "API_KEY@api.example.test", "--", "sh", "-c",
                       "echo $API_KEY; env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; "
                       "cat /tmp/sandgate-exec-*/sandgate.yaml; curl -sS http://sandgate.internal/policy",
                       env={"API_KEY": SECRET})
    assert done.returncode == 0, done.stderr
    assert re.fullmatch("ghp_[A-Za-z0-9]{36}", done.stdout.split("\n")[0])
    assert SECRET not in done.stdout + done.stderr
    assert "api.example.test" in done.stdout and '"connector":"secret-1"' in done.stdout


def test_no_process_of_the_gateway_has_it_in_its_environment():
    p = subprocess.Popen([BIN / "sandgate", "exec", "--secret", "API_KEY@api.example.test", "--", "sh", "-c",
                          "echo up; sleep 30"], stdout=subprocess.PIPE, env={**os.environ, "API_KEY": SECRET})
    try:
        assert p.stdout.readline() == b"up\n"
        holders = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if SECRET.encode() in (process / "environ").read_bytes():
                    holders.append((process / "cmdline").read_bytes())
            except OSError:
                continue
        assert holders == []
    finally:
        p.terminate()
        p.wait(20)


@pytest.mark.parametrize("words,env,why", [
    (["--secret", "NOT_THERE@api.example.test"], {}, "no such variable"),
    (["--secret", "API_KEY"], {"API_KEY": "x"}, "NAME@HOST"),
    (["--secret", "API_KEY@10.0.0.1"], {"API_KEY": "x"}, "not a host name"),
    (["--secret", "API_KEY@a.example.test"], {"API_KEY": "two\nlines"}, "bad_secret"),
    (["--secret", "API_KEY@a.example.test"], {"API_KEY": "x" * 9000}, "8 KiB"),
])
def test_a_secret_that_is_none_runs_nothing(words, env, why):
    done = with_secret(*words, "--", "echo", "ran", env=env)
    assert done.returncode == 125 and why in done.stderr and "ran" not in done.stdout


def test_a_policy_of_a_file_is_not_widened_and_how_to_is_told(company):
    for more in (["--policy", "coding"], ["-c", company.file], ["-c", company.file, "--policy", "coding"]):
        done = with_secret("--allow", "static.example.test:8443", "--secret", "API_KEY@api.example.test", *more, "--", "echo", "ran",
                           env={"API_KEY": SECRET})
        assert done.returncode == 125 and "ran" not in done.stdout and SECRET not in done.stderr
        assert "a policy of a configuration lets out what its file says" in done.stderr
    said = done.stderr.split("add to the file:\n")[1].split("and put each secret")[0]
    told = company.dir / "told.yaml"
    told.write_text(f"state_dir: {company.state}\n{said}")  # what is told is a configuration
    checked = subprocess.run([BIN / "sandgate", "check", "-c", told], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr + checked.stdout
    assert 'hosts: ["static.example.test"], ports: [8443]' in said and "  coding:\n    connectors: [secret-1]" in said
