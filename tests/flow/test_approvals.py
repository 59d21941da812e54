"""A person is asked: through a whole gateway, with a server that is ours, callers and several operators."""
import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import signal
import socket
import sys
import threading
import time

import pytest

from conftest import free_port, wait_for

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "opensandbox"))
from fake_server import FakeServer  # noqa: E402

KEY = "real-key"
PEOPLE = {"bob": "approver", "carol": "viewer", "alice": "operator", "dora": "operator"}  # alice is a caller, too


def token(name):
    return f"token-of-{name}"


def padded(number):
    """As a worker's row names an approval."""
    return "".join("0123456789abcdefghjkmnpqrstvwxyz"[number >> 5 * i & 31] for i in range(12, -1, -1))


def roles():
    return [{"token_sha256": hashlib.sha256(token(name).encode()).hexdigest(), "name": name, "role": role}
            for name, role in PEOPLE.items()]


class World:
    """A gateway before one server; alice's key and one sandbox of hers."""

    def __init__(self, gate, timeout="60s", address="unix:admin.sock", **more):
        self.server = FakeServer(key=KEY, gateway=True)
        self.g = gate({"policies": {"coding": {"allow": []}}, "sandboxes": [],
                       "admin": {"address": address, "roles": roles()},
                       "risk": {"rules": [{"level": "high", "why": "a dangerous word", "command": ["echo"], "args": ["danger*"]}]},
                       "servers": [{"name": "standard", "url": self.server.url, "key": "opensandbox/standard",
                                    "endpoints": ["127.0.0.0/8"]}],
                       **more, "exec": {"policy": "coding", "approval_timeout": timeout, **more.get("exec", {})}},
                      listeners=("exec",))
        self.g.cli("vault", "put", "opensandbox/standard", "--connector", "standard", input=KEY, check=True)
        self.key = self.g.cli("keys", "add", "--user", "alice", "--agent", "coder", "--quiet", check=True).stdout.strip()
        status, box = self.call("POST", "/v1/sandboxes", {
            "image": {"uri": "sg/base:local"}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 600,
            "resourceLimits": {"cpu": "1", "memory": "256Mi"}})
        assert status in (200, 201, 202), box
        self.box = box["id"]

    def call(self, method, path, body=None, **fields):
        link = http.client.HTTPConnection(*self.g.exec, timeout=60)
        try:
            link.request(method, path, None if body is None else json.dumps(body),
                         {"OPEN-SANDBOX-API-KEY": self.key, "Content-Type": "application/json", **fields})
            answer = link.getresponse()
            text = answer.read()
        finally:
            link.close()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text.decode()

    def run(self, command, **fields):
        return self.call("POST", f"/v1/sandboxes/{self.box}/proxy/44772/command", {"command": command}, **fields)

    def hold(self, command, **fields):
        """A request that waits: (thread, where its answer will be)."""
        before, got = len(self.pending()), []
        thread = threading.Thread(target=lambda: got.append(self.run(command, **fields)), daemon=True)
        thread.start()
        wait_for(lambda: len(self.pending()) > before or got)
        return thread, got

    @contextlib.contextmanager
    def person(self, name):
        self.g.env["SANDGATE_ADMIN_TOKEN"] = token(name)
        try:
            yield
        finally:
            del self.g.env["SANDGATE_ADMIN_TOKEN"]

    def says(self, name, *words, code=0):
        with self.person(name):
            done = self.g.cli("approvals", *words)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def pending(self, *words):
        return json.loads(self.g.cli("approvals", "list", "--json", *words, check=True).stdout)["approvals"]

    def states(self):
        return {a["id"]: a["state"] for a in self.pending("--all")}


def refusal(got):
    """What an execution's stream, or a whole answer, says that was refused; empty: it ran."""
    status, body = got
    if status != 200:
        return body["code"]
    events = [json.loads(e) for e in body.split("\n\n") if e]
    return next((f'{e["error"]["ename"]}: {e["error"]["evalue"]}' for e in events if e["type"] == "error"), "")


@pytest.fixture
def world(gate):
    made = []

    def make(**more):
        made.append(World(gate, **more))
        return made[-1]
    yield make
    for one in made:
        one.server.close()


def test_what_is_dangerous_waits_until_another_person_allows_it(world):
    w = world()
    assert w.run("echo harmless")[0] == 200
    thread, got = w.hold("echo danger; curl -u me:hunter2hunter2 http://127.0.0.1:1/")
    one, = w.pending()
    assert (one["user"], one["agent"], one["level"], one["state"], one["sandbox"]) == ("alice", "coder", "high", "pending", w.box)
    assert "a dangerous word" in one["why"] and "hunter2" not in json.dumps(one)
    text = w.says("carol", "show", one["id"])
    assert "echo danger" in text and "hunter2" not in text and "[redacted]" in text
    time.sleep(0.2)
    assert got == []
    assert "allowed by bob" in w.says("bob", "allow", one["id"], "--note", "he may")
    thread.join(20)
    assert got[0][0] == 200 and "danger" in got[0][1]
    asked, decided = w.g.wait_rows(2, kind="approval")
    assert asked["exec"]["state"] == "pending" and asked["user"] == "alice" and asked["exec"]["level"] == "high"
    assert (decided["exec"]["state"], decided["exec"]["by"], decided["exec"]["note"]) == ("allowed", "bob", "he may")
    assert asked["exec"]["sha256"] == decided["exec"]["sha256"]
    assert "hunter2" not in json.dumps(w.g.rows())
    assert w.says("bob", "deny", one["id"], code=1).startswith("sandgate: conflict: approval `")
    assert w.pending() == [] and w.states() == {one["id"]: "allowed"}


def test_a_no_and_nobody_s_answer_are_refusals_of_their_own(world):
    w = world(timeout="3s")
    thread, got = w.hold("echo danger")
    w.says("bob", "deny", w.pending()[0]["id"], "--note", "not today")
    thread.join(20)
    assert "said no" in refusal(got[0])
    assert "nobody answered in time" in refusal(w.run("echo danger again"))
    assert sorted(w.states().values()) == ["denied", "expired"]
    assert [r["code"] for r in w.g.wait_rows(4, kind="approval")] == ["again", "approval_denied", "again", "approval_expired"]


def test_nobody_decides_on_their_own_and_roles_hold(world):
    w = world()
    thread, got = w.hold("echo danger")
    one, = w.pending()
    for verb in ("allow", "deny"):
        assert "approval_of_own" in w.says("alice", verb, one["id"], code=1)
        assert "role_too_low" in w.says("carol", verb, one["id"], code=1)
    assert "role_too_low" in w.says("carol", "revoke", "1", code=1)
    w.g.env["SANDGATE_ADMIN_TOKEN"] = "guess"
    assert "auth_failed" in w.g.cli("approvals", "list").stderr
    del w.g.env["SANDGATE_ADMIN_TOKEN"]
    with w.person("bob"):
        assert "role_too_low" in w.g.cli("reload").stderr
        assert "role_too_low" in w.g.cli("keys", "add", "--user", "x").stderr
        assert w.g.cli("status").returncode == 0
    with w.person("carol"):
        assert w.g.cli("sandboxes").returncode == 0
    assert w.states() == {one["id"]: "pending"} and got == []
    w.says("dora", "allow", one["id"])
    thread.join(20)
    assert got[0][0] == 200
    wait_for(lambda: {"alice", "carol", "dora"} <= {
        r["user"] for r in w.g.rows(kind="operator") if (r.get("detail") or "").startswith("approvals/")})


def test_no_web_page_decides(world):
    w = world()
    thread, got = w.hold("echo danger")
    one, = w.pending()
    bearer = {"Authorization": f"Bearer {token('bob')}"}
    for fields in ({"Origin": "http://evil.test"}, {"Origin": "null"}, {"Origin": "http://localhost", **bearer}):
        status, body = w.g.admin("POST", "/v1/approvals/allow", None, fields)
        assert status == 403, body
    status, _ = w.g.admin("GET", "/v1/approvals/allow", None, bearer)
    assert status == 405
    assert w.states() == {one["id"]: "pending"}
    w.says("bob", "deny", one["id"])
    thread.join(20)


def test_over_a_port_a_name_that_was_rebound_decides_nothing(gate):
    port = free_port()
    gate({"admin": {"address": f"127.0.0.1:{port}", "roles": roles()}})

    def ask(**fields):
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        link.request("POST", "/v1/approvals/grants", None, fields)
        return link.getresponse().status

    bearer = {"Authorization": f"Bearer {token('carol')}"}
    assert ask(**bearer) in (200, 404)
    assert ask() == 401 and ask(Authorization="Bearer guess") == 401 and ask(Authorization=token("carol")) == 401
    assert ask(Host="evil.test", **bearer) == 403
    assert ask(Host=f"evil.test:{port}", **bearer) == 403
    assert ask(Origin=f"http://127.0.0.1:{port}", **bearer) == 403


def test_a_caller_who_hangs_up_no_longer_waits(world):
    w = world()
    body = json.dumps({"command": "echo danger"})
    s = socket.create_connection(w.g.exec)
    s.sendall((f"POST /v1/sandboxes/{w.box}/proxy/44772/command HTTP/1.1\r\nHost: a\r\nOPEN-SANDBOX-API-KEY: {w.key}\r\n"
               f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode())
    one, = wait_for(w.pending)
    s.close()
    wait_for(lambda: w.states() == {one["id"]: "cancelled"})
    assert "conflict" in w.says("bob", "allow", one["id"], code=1)


def test_a_wider_scope_lets_the_same_text_pass_until_it_is_revoked(world):
    w = world()
    fields = {"X-Sandgate-Session": "s1"}
    thread, got = w.hold("echo danger one", **fields)
    one, = w.pending()
    assert w.says("bob", "allow", one["id"], "--scope", "ever", code=1) == \
        "sandgate: bad_request: scope is once, session or always\n"
    assert "bad_request" in w.says("bob", "allow", one["id"], "--for", "1h", code=1)
    w.says("bob", "allow", one["id"], "--scope", "session", "--for", "1h")
    thread.join(20)
    assert got[0][0] == 200
    assert w.run("echo danger one", **fields)[0] == 200
    grant, = json.loads(w.says("carol", "grants", "--json"))["grants"]
    assert (grant["user"], grant["session"], grant["by"], grant["scope"]) == ("alice", "s1", "bob", "session")
    assert abs(grant["expires"] - time.time() - 3600) < 60
    # another text, another session, none at all
    for command, more in (("echo danger two", fields), ("echo danger one", {"X-Sandgate-Session": "s2"}), ("echo danger one", {})):
        thread, got = w.hold(command, **more)
        held, = w.pending()
        assert f"approval {held['id']}\n" in w.says("carol", "show", padded(held["id"]))
        w.says("bob", "deny", padded(held["id"]).upper())
        thread.join(20)
        assert "said no" in refusal(got[0]), (command, more)
    w.says("bob", "revoke", grant["id"])
    assert json.loads(w.says("carol", "grants", "--json"))["grants"] == []
    assert "grant" in w.says("bob", "revoke", grant["id"], code=1)
    thread, got = w.hold("echo danger one", **fields)
    w.says("bob", "deny", w.pending()[0]["id"])
    thread.join(20)
    assert "said no" in refusal(got[0])


def test_what_waits_ends_with_control(world):
    w = world()
    thread, got = w.hold("echo danger")
    one, = w.pending()
    os.kill(w.g.pids()["control"], signal.SIGKILL)
    thread.join(20)
    assert refusal(got[0]) and "danger" not in got[0][1]
    wait_for(lambda: w.g.cli("approvals", "list").returncode == 0)
    assert w.states() == {one["id"]: "cancelled"}


def test_what_would_move_a_terminal_s_cursor_is_shown_escaped(world):
    w = world()
    thread, got = w.hold("echo danger \x1b[2J\u202e\necho two")
    one, = w.pending()
    for words in (("list",), ("show", one["id"])):
        text = w.says("carol", *words)
        assert "\x1b" not in text and "\u202e" not in text and "danger" in text
    w.says("bob", "deny", one["id"])
    thread.join(20)


class Hook(threading.Thread):
    """Takes what is posted; refuses it so many times first."""

    def __init__(self, failures=0):
        super().__init__(daemon=True)
        self.failures, self.got = failures, []
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.sock.getsockname()[1]
        self.start()

    def run(self):
        while True:
            try:
                s, _ = self.sock.accept()
            except OSError:
                return
            with s, s.makefile("rb") as f:
                line = f.readline().decode()
                fields = {k.lower(): v.strip() for k, v in
                          (h.decode().split(":", 1) for h in iter(f.readline, b"\r\n") if h)}
                body = f.read(int(fields.get("content-length", 0)))
                self.got.append((line.split(), fields, body))
                status = b"503 No" if len(self.got) <= self.failures else b"200 OK"
                s.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize("failures, posts", [(0, 1), (1, 2), (9, 3)])
def test_each_new_one_is_posted_to_the_webhook_and_nothing_waits_for_it(world, failures, posts):
    hook = Hook(failures)
    w = world(connectors=[{"name": "hook", "hosts": ["hook.example.test"], "upstream": hook.url, "addresses": ["127.0.0.0/8"],
                           "auth": {"kind": "passthrough"}, "allow": [{"methods": ["POST"], "paths": ["/"]}]}], exec={"approval_webhook": "hook"})
    thread, got = w.hold("echo danger TOKEN=abcdefgh12345678abcdefgh")
    one, = w.pending()
    wait_for(lambda: len(hook.got) == posts, 15)
    (method, target, _), fields, body = hook.got[-1]
    assert (method, target, fields["content-type"]) == ("POST", "/", "application/json")
    told = json.loads(body)
    assert (told["id"], told["state"], told["user"], told["level"]) == (one["id"], "pending", "alice", "high")
    assert "danger" in told["text"] and b"abcdefgh12345678" not in body
    w.says("bob", "allow", one["id"])
    thread.join(20)
    assert got[0][0] == 200
    hook.sock.close()


def test_a_webhook_that_is_down_holds_up_nothing(world):
    hook = Hook()
    hook.sock.close()
    w = world(connectors=[{"name": "hook", "hosts": ["hook.example.test"], "upstream": hook.url, "addresses": ["127.0.0.0/8"],
                           "auth": {"kind": "passthrough"}, "allow": [{"methods": ["POST"], "paths": ["/"]}]}], exec={"approval_webhook": "hook"})
    thread, got = w.hold("echo danger")
    w.says("bob", "allow", w.pending()[0]["id"])
    thread.join(20)
    assert got[0][0] == 200


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be other users")
def test_local_users_are_known_by_their_number(gate):
    g = gate({"admin": {"roles": [{"uid": 12345, "name": "erin", "role": "viewer"}, {"uid": 0, "name": "root", "role": "operator"}]}})
    g.state.chmod(0o711)
    assert (g.state / "admin.sock").stat().st_mode & 0o777 == 0o666
    assert g.cli("status", user=12345).returncode == 0
    assert "role_too_low" in g.cli("reload", user=12345).stderr
    assert g.cli("status", user=54321).returncode == 1
    assert g.cli("reload").returncode == 0
    wait_for(lambda: {"erin", "root"} >= {r["user"] for r in g.rows(kind="operator")} and g.rows(kind="operator"))


def test_without_roles_only_the_gateway_s_user_may_connect(gate):
    g = gate()
    assert (g.state / "admin.sock").stat().st_mode & 0o777 == 0o600
    assert g.cli("status").returncode == 0


def test_a_dangerous_create_waits_too(world):
    w = world()
    body = {"image": {"uri": "sg/base:local"}, "entrypoint": ["echo", "danger"], "timeout": 600,
            "resourceLimits": {"cpu": "1", "memory": "256Mi"}}
    status, box = w.call("POST", "/v1/sandboxes", body)
    one, = wait_for(w.pending)
    assert status == 202 and one["what"] == "create" and one["sandbox"] == box["id"]
    assert w.call("GET", f"/v1/sandboxes/{box['id']}")[1]["status"]["state"] == "Pending"
    w.says("bob", "allow", one["id"])
    wait_for(lambda: w.call("GET", f"/v1/sandboxes/{box['id']}")[1]["status"]["state"] == "Running")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q", *sys.argv[1:]]))
