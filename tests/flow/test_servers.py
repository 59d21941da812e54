"""`sandgate servers`: control asks each execution server through its connector (CALL), whole."""
import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from conftest import BIN, free_port, wait_for

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "opensandbox"))
from fake_server import FakeServer  # noqa: E402

KEY = "canary-51b7e0c2-standard-key"


class Raw(threading.Thread):
    """Says `answer(request bytes)` to each request, on loopback."""

    def __init__(self, answer):
        super().__init__(daemon=True)
        self.answer, self.socket = answer, socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.socket.getsockname()[1]
        self.start()

    def run(self):
        while True:
            try:
                s, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.client, args=(s,), daemon=True).start()

    def client(self, s):
        try:
            with s:
                asked = b""
                while b"\r\n\r\n" not in asked:
                    data = s.recv(65536)
                    if not data:
                        return
                    asked += data
                self.answer(s, asked)
        except OSError:
            return


def ok(s, body=b"{}"):
    s.sendall(b"HTTP/1.1 200 X\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


def behind_health(then):
    return lambda s, asked: ok(s) if asked.startswith(b"GET /health ") else then(s, asked)


@pytest.fixture
def fake():
    f = FakeServer(key=KEY, secrets=["sandgate-"], gateway=True)
    yield f
    f.close()


def start(gate, servers, **more):
    return gate({"policies": {"none": {"allow": []}}, "sandboxes": [],
                 "servers": [{"name": name, "url": url, "key": f"opensandbox/{name}", "endpoints": ["127.0.0.0/8"], **kw}
                             for name, (url, kw) in servers.items()], **more})


def put(g, name, key):
    return g.cli("vault", "put", f"opensandbox/{name}", input=key, check=True)


def look(g):
    """What is told of each; it exits with 1 where one isn't well."""
    done = g.cli("servers", "--json")
    found = {s["name"]: s for s in json.loads(done.stdout)["servers"]}
    assert done.returncode == (0 if all(s["ok"] and not s.get("unbound") for s in found.values()) else 1), done
    return found


class Front:
    """A gateway that serves a user of its own before one server."""

    def __init__(self, gate, url, server=(), **more):
        self.g = gate({"policies": {"none": {"allow": []}}, "sandboxes": [], "exec": {"policy": "none"},
                       "servers": [{"name": "standard", "url": url, "key": "opensandbox/standard", "endpoints": ["127.0.0.0/8"],
                                    **dict(server)}], **more}, listeners=("exec",))
        put(self.g, "standard", KEY)
        self.key = self.g.cli("keys", "add", "--user", "alice", "--quiet", check=True).stdout.strip()

    def call(self, method, path, body=None):
        link = http.client.HTTPConnection(*self.g.exec, timeout=60)
        try:
            link.request(method, path, body and json.dumps(body),
                         {"OPEN-SANDBOX-API-KEY": self.key, "Content-Type": "application/json"})
            return link.getresponse().status
        finally:
            link.close()

    def create(self):
        return self.call("POST", "/v1/sandboxes", {"image": {"uri": "sg/base:local"}, "entrypoint": ["tail", "-f", "/dev/null"],
                                                   "timeout": 600, "resourceLimits": {"cpu": "1", "memory": "256Mi"}})

    def said(self, what):
        return [line for line in self.g.text_of_log().splitlines() if what in line]


def test_servers_that_answer_are_ok_and_say_how_many_sandboxes(gate, fake):
    other = FakeServer(key="other-key-8c2")
    g = start(gate, {"standard": (fake.url, {}), "strong": (other.url, {"tier": "high"})})
    put(g, "standard", KEY)
    put(g, "strong", "other-key-8c2")
    found = look(g)
    assert {n: (s["ok"], s["code"], s["tier"], s["sandboxes"]) for n, s in found.items()} == {
        "standard": (True, "ok", "standard", 0), "strong": (True, "ok", "high", 0)}
    text = g.cli("servers", check=True).stdout
    assert "standard" in text and "strong" in text and "high" in text
    fake.check()
    other.check()
    other.close()


def test_a_put_grants_the_key_to_the_server_s_connector(gate, fake):
    g = start(gate, {"standard": (fake.url, {})})
    assert look(g)["standard"]["code"] == "no_secret"
    told = put(g, "standard", KEY).stdout
    assert "standard" in told
    assert look(g)["standard"]["ok"]
    g.cli("vault", "ungrant", "opensandbox/standard", "--connector", "standard", check=True)
    assert look(g)["standard"]["code"] == "secret_not_granted"
    g.cli("vault", "grant", "opensandbox/standard", "--connector", "standard", check=True)
    assert look(g)["standard"]["ok"]


def test_a_wrong_key_is_told_as_such_until_it_is_rotated(gate, fake):
    g = start(gate, {"standard": (fake.url, {})})
    put(g, "standard", "not-the-key-5531")
    assert look(g)["standard"]["code"] == "server_key_refused"
    g.cli("vault", "rotate", "opensandbox/standard", input=KEY, check=True)
    assert look(g)["standard"]["ok"]


def test_one_bad_server_does_not_hold_up_the_others(gate, fake):
    with socket.create_server(("127.0.0.1", 0)) as dead:
        nobody = "http://127.0.0.1:%d" % dead.getsockname()[1]
    slow = Raw(lambda s, asked: time.sleep(30))
    g = start(gate, {"standard": (fake.url, {}), "dead": (nobody, {}), "slow": (slow.url, {})})
    put(g, "standard", KEY)
    put(g, "dead", "dead-key-1234")
    put(g, "slow", "slow-key-1234")
    found = look(g)
    assert {n: s["code"] for n, s in found.items()} == {"standard": "ok", "dead": "connect_refused", "slow": "upstream_timeout"}
    assert found["standard"]["ms"] < 4000 < found["slow"]["ms"] < 9000


def huge(s, asked):
    ok(s, b"[" + b"1," * (1 << 20) + b"1]")


def endless(s, asked):
    s.sendall(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        s.sendall(b"1000\r\n" + b"z" * 4096 + b"\r\n")


def echo(s, asked):
    ok(s, json.dumps({"items": [], "pagination": {"totalItems": 3}, "asked": asked.decode()}).encode())


@pytest.mark.parametrize("then, code", [
    (huge, "too_big"), (endless, "too_big"), (echo, "ok"),
    (lambda s, a: ok(s, b"[]"), "upstream_bad_response"), (lambda s, a: ok(s, b'{"items":[],"items":[]}'), "upstream_bad_response"),
    (lambda s, a: ok(s, b""), "upstream_bad_response"), (lambda s, a: s.sendall(b"SSH-2.0-x\r\n"), "upstream_bad_response"),
    (lambda s, a: ok(s, b'{"items":[' * 5000), "upstream_bad_response")])
def test_hostile_answers_are_told_and_nothing_else_happens(gate, fake, then, code):
    bad = Raw(behind_health(then))
    g = start(gate, {"standard": (fake.url, {}), "bad": (bad.url, {})})
    put(g, "standard", KEY)
    put(g, "bad", KEY)
    found = look(g)
    assert (found["bad"]["code"], found["standard"]["code"]) == (code, "ok")
    assert found["bad"].get("sandboxes") == (3 if then is echo else None)
    assert not [r for r in g.rows() if r.get("kind") == "death"]


def test_the_key_is_in_nothing_that_operators_see(gate):
    bad = Raw(behind_health(echo))
    g = start(gate, {"bad": (bad.url, {})})
    put(g, "bad", KEY)
    assert KEY not in g.cli("servers", "--json").stdout
    assert KEY not in g.text_of_log()
    assert "said our credential back" in g.text_of_log()
    assert KEY not in json.dumps(g.rows())


def test_each_use_of_a_key_is_in_the_ledger(gate, fake):
    g = start(gate, {"standard": (fake.url, {})})
    put(g, "standard", KEY)
    look(g)
    rows = wait_for(lambda: (lambda r: r if len(r) >= 2 else None)([r for r in g.rows() if r["kind"] == "credential"]))
    assert [(r["connector"], r["method"], r["path"]) for r in rows] == [
        ("standard", "GET", "/health"), ("standard", "GET", "/v1/sandboxes")]
    assert [r for r in g.rows() if r["kind"] == "lease"]


def test_a_server_s_connector_is_none_of_a_sandbox(gate, fake):
    """Neither named by a policy nor found by its host."""
    g = start(gate, {"standard": (fake.url, {})}, sandboxes=[{"id": "demo", "source": "127.0.0.3", "policy": "none"}])
    put(g, "standard", KEY)
    with socket.create_connection(g.proxy, source_address=("127.0.0.3", 0)) as s:
        s.sendall(f"GET {fake.url}/v1/sandboxes HTTP/1.1\r\nHost: {fake.url[7:]}\r\n\r\n".encode())
        assert s.recv(65536).startswith(b"HTTP/1.1 403")
    assert not fake.records


def test_a_process_that_died_is_back_soon(gate, fake):
    g = start(gate, {"standard": (fake.url, {})})
    put(g, "standard", KEY)
    assert look(g)["standard"]["ok"]
    os.kill(g.pids()["connector.0"], signal.SIGKILL)
    wait_for(lambda: look(g)["standard"]["ok"])


def test_no_parent_proxy_sees_a_key_in_plain_text(gate, fake):
    """127.0.0.1 would be the parent's own, and a name be called readable through it."""
    asked = []
    parent = Raw(lambda s, asked_: asked.append(asked_))
    port = fake.url.rpartition(":")[2]
    g = start(gate, {"standard": (fake.url, {}), "named": (f"http://osb.example.test:{port}", {"plain": True, "addresses": ["127.0.0.0/8"]}),
                     "far": ("https://far.example.test", {})},
              upstream_proxy={"address": parent.url[7:]},
              resolver={"servers": ["127.0.0.1"], "hosts": {"osb.example.test": ["127.0.0.1"]}})
    for name in ("standard", "named", "far"):
        put(g, name, KEY)
    found = look(g)
    assert (found["standard"]["code"], found["named"]["code"]) == ("ok", "ok")
    assert not found["far"]["ok"]
    assert asked and all(a.startswith(b"CONNECT far.example.test:443 ") for a in asked)


def test_a_reload_brings_servers_and_takes_them_away(gate, fake):
    g = start(gate, {})
    assert look(g) == {}
    one = {"name": "standard", "url": fake.url, "key": "opensandbox/standard", "endpoints": ["127.0.0.0/8"]}
    base = {"policies": {"none": {"allow": []}}, "sandboxes": []}
    assert g.reload({**base, "servers": [one]})[0] == 200
    g.cli("vault", "put", "opensandbox/standard", "--connector", "standard", input=KEY, check=True)
    wait_for(lambda: look(g)["standard"]["ok"])
    renamed = {**base, "servers": [{**one, "name": "renamed"}]}
    assert g.reload(renamed)[0] == 422  # its key is granted to a connector of another name
    assert look(g)["standard"]["ok"]
    g.cli("vault", "grant", "opensandbox/standard", "--connector", "renamed", check=True)
    assert g.reload(renamed)[0] == 200
    wait_for(lambda: look(g)["renamed"]["ok"])
    assert g.reload({**base, "servers": []})[0] == 200
    assert look(g) == {}


def test_without_servers_there_are_none(gate):
    g = gate({"policies": {"none": {"allow": []}}, "sandboxes": []})
    assert look(g) == {}


def test_the_exit_code_says_whether_all_are_well(gate, fake):
    with socket.create_server(("127.0.0.1", 0)) as dead:
        nobody = "http://127.0.0.1:%d" % dead.getsockname()[1]
    g = start(gate, {"standard": (fake.url, {}), "dead": (nobody, {})})
    put(g, "standard", KEY)
    put(g, "dead", KEY)
    for words in ((), ("--json",)):
        done = g.cli("servers", *words)
        assert done.returncode == 1 and done.stderr == "" and "connect_refused" in done.stdout, done
    g.reload({"policies": {"none": {"allow": []}}, "sandboxes": [], "servers": [
        {"name": "standard", "url": fake.url, "key": "opensandbox/standard", "endpoints": ["127.0.0.0/8"]}]})
    assert g.cli("servers").returncode == 0


def test_the_log_says_once_that_a_server_is_down_and_once_that_it_is_up_again(gate):
    port = free_port()
    f = Front(gate, f"http://127.0.0.1:{port}")
    down, up = "execution server standard is down: connect_refused: ", "execution server standard is up again"
    for _ in range(3):
        assert f.create() == 503
    assert len(f.said(down)) == 1 and not f.said(up)
    server = FakeServer(key=KEY, port=port, gateway=True)
    try:
        for _ in range(3):
            assert f.create() == 202
        assert len(f.said(down)) == len(f.said(up)) == 1
    finally:
        server.close()
    for _ in range(3):  # again within the minute: the log has been told enough
        f.create()
    assert len(f.said(down)) == len(f.said(up)) == 1


def test_the_log_says_that_a_server_refuses_the_key(gate):
    server = FakeServer(key="another-key-77c1")
    f = Front(gate, server.url)
    try:
        assert f.create() == 503
        assert len(f.said("execution server standard is down: server_key_refused: ")) == 1
    finally:
        server.close()


def test_a_network_that_no_sandbox_is_found_on_is_told(gate, fake):
    """Its name can't be known before: a server tells no address of it."""
    f = Front(gate, fake.url, {"network": "boxez"})
    assert (look(f.g)["standard"]["network"], look(f.g)["standard"]["unbound"]) == ("boxez", 0)
    for _ in range(2):
        assert f.create() == 202
    found = look(f.g)["standard"]
    assert (found["ok"], found["pinned"], found["unbound"], found["unbound_code"]) == (True, False, 2, "upstream_bad_response")
    text = f.g.cli("servers").stdout
    assert "network boxez: " in text and "exec.docker isn't set" in text and "docker network ls" in text
    assert "`sandgate doctor` asks it" in text
    assert "2 sandboxes on it have no way out: upstream_bad_response" in text
    f.create()
    ident = json.loads(f.g.cli("sandboxes", "--json", check=True).stdout)["executions"][0]["id"]
    assert f.call("DELETE", f"/v1/sandboxes/{ident}") == 204
    assert look(f.g)["standard"]["unbound"] == 2


DOCKER = "HTTP/1.1 {}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}"


def test_doctor_asks_docker_for_each_network(tmp_path):
    """Before any sandbox: of a name that docker doesn't have, and of a docker that can't be asked."""
    known = {"sgbr0": "200 OK", "odd": "500 Internal Server Error"}
    servers = [{"name": name, "url": "http://127.0.0.1:8080", "key": "k", "endpoints": ["127.0.0.0/8"], "network": network}
               for name, network in (("a", "sgbr0"), ("b", "sgbro"), ("c", "odd"))]

    def networks(docker):
        path = tmp_path / "sandgate.yaml"
        path.write_text(json.dumps({
            "state_dir": str(tmp_path / "state"), "policies": {"none": {"allow": []}}, "servers": servers,
            "listeners": [{"name": "e", "kind": "opensandbox", "address": "127.0.0.1:8090"}],
            "exec": {"policy": "none", **({"docker": str(docker)} if docker else {})}}))
        done = subprocess.run([BIN / "sandgate", "doctor", "-c", path, "--json"], capture_output=True, text=True, timeout=60)
        told = [c for c in json.loads(done.stdout)["checks"] if c["check"] == "network"]
        assert done.returncode == (1 if any(c["level"] == "FAIL" for c in told) else 0), done
        return [(c["level"], c["text"]) for c in told]

    with socket.socket(socket.AF_UNIX) as docker:
        docker.bind(str(tmp_path / "docker.sock"))
        docker.listen()

        def answer():
            for _ in servers:
                with docker.accept()[0] as s:
                    method, target, _ = s.recv(4096).decode().split(" ", 2)
                    assert (method, target[:10]) == ("GET", "/networks/")
                    s.sendall(DOCKER.format(known.get(target[10:], "404 Not Found")).encode())
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        a, b, c = networks(tmp_path / "docker.sock")
        thread.join(10)
    assert a == ("OK", "docker has sgbr0 of server a")
    assert b[0] == "FAIL" and b[1].startswith("docker has no sgbro, which server b names: its sandboxes have no way out")
    assert c[0] == "WARN" and "odd of server c is not known" in c[1]
    assert {level for level, text in networks(tmp_path / "none.sock") if text.endswith("No such file or directory")} == {"WARN"}
    assert [level for level, text in networks(None) if "exec.docker isn't set" in text] == ["WARN"] * 3
    with socket.socket(socket.AF_UNIX) as docker:
        docker.bind(str(tmp_path / "slow.sock"))
        docker.listen()

        def trickle():
            with docker.accept()[0] as s, contextlib.suppress(OSError):
                for octet in b"HTTP/1.1 200" * 3:
                    s.sendall(bytes([octet]))
                    time.sleep(1)
        threading.Thread(target=trickle, daemon=True).start()
        begun = time.monotonic()
        assert {level for level, text in networks(tmp_path / "slow.sock") if "is not known" in text} == {"WARN"}
        assert time.monotonic() - begun < 15, "one that answers nothing is waited for once"
