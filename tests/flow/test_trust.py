"""What runs in a box, or is attached, believes the gateway's CA beside the roots it had.

The gateway here is only its admin socket, which gives out the certificate of a CA whose key
the test has: so a server inside the box can show a certificate that nobody else trusts.
"""
import http.server
import json
import os
import pathlib
import socketserver
import ssl
import subprocess
import sys
import threading

import pytest

from conftest import BIN, Gate
from tally import PATH, find, missing, program

HERE = pathlib.Path(__file__).resolve().parent
SYSTEM = "/etc/ssl/certs/ca-certificates.crt"


def run(*words, **kw):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=300, **kw)


class Authority:
    def __init__(self, folder):
        self.pem, self.key = folder / "ca.pem", folder / "ca.key"
        self.leaf, self.leaf_key = folder / "leaf.pem", folder / "leaf.key"
        request, names = folder / "leaf.csr", folder / "names"
        names.write_text("subjectAltName=DNS:localhost\n")
        for words in (
                ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                 "-subj", "/CN=test CA", "-keyout", self.key, "-out", self.pem],
                ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost",
                 "-keyout", self.leaf_key, "-out", request],
                ["x509", "-req", "-in", request, "-CA", self.pem, "-CAkey", self.key, "-CAcreateserial", "-days", "2",
                 "-extfile", names, "-out", self.leaf]):
            done = run("openssl", *words)
            assert done.returncode == 0, done.stderr
        self.body = "".join(self.pem.read_text().split("\n")[1:-2])


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class Fake(Gate):
    """The admin socket of a gateway; sandboxes are taken and lead nowhere."""

    def __init__(self, pem):
        super().__init__({"policies": {"coding": {"allow": []}}})
        self.state.mkdir()
        self.asked = []
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                size = int(self.headers.get("Content-Length", 0))
                body = json.loads(self.rfile.read(size) or b"null")
                fake.asked.append((self.path, body))
                is_there = self.path != "/v1/ca/export" or pem is not None
                said = json.dumps({"pem": pem, "ok": True, "handle": 1, "env": {"TRACKER_TOKEN": "trk-placeholder"}}
                                  if is_there else
                                  {"error": {"code": "not_found", "message": ""}}).encode()
                self.send_response(200 if is_there else 404)
                self.send_header("Content-Length", str(len(said)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(said)

            do_GET = do_POST = answer

            def log_message(self, *args):
                pass

            def address_string(self):
                return ""

        self.server = Server(str(self.state / "admin.sock"), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def body(self, path):
        return next(body for p, body in self.asked if p == path)

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        super().close()


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def fake(authority):
    g = Fake(authority.pem.read_text())
    yield g
    g.close()


def in_box(g, *command, env=None):
    return run(BIN / "sandgate", "exec", "-c", g.file, "--policy", "coding", "--", *command,
               env={**os.environ, "PATH": PATH, **(env or {})})


def certificates(text):
    return {"".join(block.split("-----END")[0].split()) for block in text.split("-----BEGIN CERTIFICATE-----")[1:]}


CLIENTS = {"curl": "curl", "curl bare": "curl", "python": "python3", "python bare": "python3", "requests": "python3",
           "pip": "python3", "node": "node", "npm": "npm", "go": "go", "git": "git", "java": "java",
           "java bare": "java"}


def has(client):
    good = find(CLIENTS[client]) and (client != "requests" or run(sys.executable, "-c", "import requests").returncode == 0)
    return good or missing(client, "it is not installed")


def test_clients_believe_it_by_their_environment_or_by_the_systems_bundle(fake, authority):
    there = [c for c in CLIENTS if has(c)]
    assert {"curl", "python", "git"} <= set(there)
    done = in_box(fake, sys.executable, HERE / "trust_inside.py", authority.leaf, authority.leaf_key, *there)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    wrong = {c: s for c, s in said.items() if s[0] != 0}
    assert wrong == {}
    assert "seen" in said["curl"][1] and "1111111111" in said["git"][1]
    assert fake.body("/v1/attach")["trusts_ca"] is True
    outside = run(sys.executable, HERE / "trust_inside.py", authority.leaf, authority.leaf_key, "curl")
    assert json.loads(outside.stdout)["curl"][0] == 60  # nobody else does


def test_the_roots_that_were_there_stay(fake, authority):
    before = certificates(pathlib.Path(SYSTEM).read_text())
    for path in (SYSTEM, "/run/sandgate/ca.crt"):
        inside = certificates(in_box(fake, "cat", path).stdout)
        assert inside == before | {authority.body}
    assert certificates(pathlib.Path(SYSTEM).read_text()) == before
    extra = in_box(fake, "sh", "-c", "cat $NODE_EXTRA_CA_CERTS")
    assert certificates(extra.stdout) == {authority.body}


def test_what_the_callers_variables_name_is_believed_too(fake, authority, tmp_path):
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    done = in_box(fake, "sh", "-c", "echo $SSL_CERT_FILE $PIP_CERT; cat $SSL_CERT_FILE",
                  env={"SSL_CERT_FILE": str(other.pem), "PIP_CERT": str(other.pem), "npm_config_cafile": "/x"})
    assert done.stdout.startswith("/run/sandgate/ca.crt /run/sandgate/ca.crt\n")
    assert {authority.body, other.body} <= certificates(done.stdout)
    assert done.stdout.count(other.body[:60]) == 1
    assert "cafile" not in in_box(fake, "env", env={"npm_config_cafile": "/x"}).stdout


def test_nothing_in_the_box_can_change_it(fake):
    done = in_box(fake, "sh", "-c", f"echo x >> {SYSTEM}; echo x >> /run/sandgate/ca.crt; rm -f /run/sandgate/ca.crt; "
                                    f"umount {SYSTEM}; wc -c < {SYSTEM}; wc -c < /run/sandgate/ca.crt")
    sizes = done.stdout.split()
    assert len(sizes) == 2 and sizes[0] == sizes[1] and int(sizes[0]) > os.stat(SYSTEM).st_size


def test_javas_own_tool_reads_the_store(fake, authority):
    program("keytool")
    done = in_box(fake, "keytool", "-list", "-keystore", "/run/sandgate/java.jks", "-storepass", "changeit")
    assert done.returncode == 0, done.stdout
    roots = certificates(pathlib.Path(SYSTEM).read_text()) | {authority.body}
    assert done.stdout.count("trustedCertEntry") == len(roots)
    assert in_box(fake, "keytool", "-list", "-keystore", "/run/sandgate/java.jks", "-storepass",
                  "other").returncode != 0  # its seal is right, then


def test_without_a_ca_nothing_is_changed():
    g = Fake(None)
    try:
        done = in_box(g, "sh", "-c", f"echo $SSL_CERT_FILE; ls /run/sandgate; cat {SYSTEM}", env={"SSL_CERT_FILE": "/x"})
        assert done.stdout.startswith("/x\n")
        assert certificates(done.stdout) == certificates(pathlib.Path(SYSTEM).read_text())
        assert g.body("/v1/attach")["trusts_ca"] is False
    finally:
        g.close()


def test_a_placeholder_takes_the_place_of_what_the_caller_has(fake):
    done = in_box(fake, "env", env={"TRACKER_TOKEN": "the real one", "OTHER_TOKEN": "stays"})
    assert "TRACKER_TOKEN=trk-placeholder" in done.stdout and "the real one" not in done.stdout
    assert "OTHER_TOKEN=stays" in done.stdout
    asked = fake.body("/v1/placeholders")
    assert asked["policy"] == "coding" and asked["id"] == fake.body("/v1/attach")["id"]


# Attach

@pytest.fixture
def container():
    """A process with namespaces of its own, of the network and of mounts."""
    made = []

    def start(*flags):
        p = subprocess.Popen(["unshare", "--net", *flags, "sh", "-c", "echo up; exec sleep 600"], stdout=subprocess.PIPE)
        assert p.stdout.readline() == b"up\n"
        made.append(p)
        return p.pid

    yield start
    for p in made:
        p.kill()
        p.wait()


def attach(g, pid, *words):
    return run(BIN / "sandgate", "attach", "-c", g.file, "--pid", pid, "--sandbox", "box", "--policy", "coding", *words)


def inside(pid, *command):
    return run("nsenter", "-t", pid, "-m", *command)


def test_attach_puts_it_over_the_bundles_of_a_container(fake, authority, container):
    before = certificates(pathlib.Path(SYSTEM).read_text())
    pid = container("--mount", "--propagation", "private")
    done = attach(fake, pid)
    assert done.returncode == 0, done.stderr
    assert "placeholder TRACKER_TOKEN=trk-placeholder\n" in done.stdout
    assert f"{SYSTEM} has the gateway's CA" in done.stdout and f"sandgate ca env {SYSTEM}" in done.stdout
    assert certificates(inside(pid, "cat", SYSTEM).stdout) == before | {authority.body}
    assert certificates(pathlib.Path(SYSTEM).read_text()) == before
    assert fake.body("/v1/attach")["trusts_ca"] is True
    left = inside(pid, "sh", "-c", "ls -d /run/sandgate-* /tmp/sandgate-?????? /dev/shm/sandgate-*; "
                                   "grep -c sandgate- /proc/self/mountinfo")
    assert left.stdout.split()[-1] in ("0", "2"), left.stdout  # only where it was meant to be


def test_attach_leaves_the_hosts_files_alone(fake, container):
    before = pathlib.Path(SYSTEM).read_bytes()
    for flags in ([], ["--mount", "--propagation", "shared"]):
        pid = container(*flags)
        done = attach(fake, pid)
        assert done.returncode == 0, done.stderr
        assert "was not installed" in done.stderr
        assert [body for path, body in fake.asked if path == "/v1/attach"][-1]["trusts_ca"] is False
        assert pathlib.Path(SYSTEM).read_bytes() == before
        assert inside(pid, "cat", SYSTEM).stdout.encode() == before


def test_an_operator_may_say_that_it_is_installed(fake, container):
    done = attach(fake, container(), "--trusts-ca")
    assert done.returncode == 0 and "not installed" not in done.stderr
    assert fake.body("/v1/attach")["trusts_ca"] is True


def test_the_variables_for_a_container_are_printed():
    done = run(BIN / "sandgate", "ca", "env", "/etc/roots")
    lines = done.stdout.splitlines()
    assert "SSL_CERT_FILE=/etc/roots" in lines and "NODE_EXTRA_CA_CERTS=/etc/roots" in lines
    assert all(line.endswith("=/etc/roots") for line in lines)
