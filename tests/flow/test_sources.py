"""Secrets that OpenBao keeps: logged in to, read, renewed, gone when it says so or when it says nothing for too long."""
import json
import subprocess
import time

import pytest

import company_systems as systems
from bao import Bao, Token
from company import ADDRESS, Answer, Company
from conftest import wait_for
from certificates import let_read, make_ca

HOST, STORE = "api.example.test", "bao.example.test"
FIRST, NEXT = "canary-51c0ffee77-one", "canary-51c0ffee77-two"


class World:
    def __init__(self, gate, folder, protocols=("h2", "http/1.1"), **bao):
        self.gate, self.folder, self.g = gate, folder, None
        self.firm = Company(folder / "ca", protocols=list(protocols))
        self.api = self.firm.add(HOST, systems.System())
        self.bao = self.firm.add(STORE, Bao(**bao))
        self.bao.put("apps/tracker", token=FIRST, other="no")

    def config(self, auth, source=None, items=None, vault=None):
        addresses = {"addresses": ["127.0.0.0/8"]}
        one = {"name": "bao", "url": f"https://{STORE}:{self.firm.port}", "auth": auth, "refresh": "1s", "keep": "4s", **addresses,
               "secrets": items or {"tracker": {"path": "apps/tracker", "field": "token"}}, **(source or {})}
        return {
            "upstream_tls": {"ca_file": str(self.firm.ca.file)},
            "resolver": {"servers": ["127.0.0.1"], "hosts": {HOST: [ADDRESS], STORE: [ADDRESS]}},
            "sandboxes": [{"id": "demo", "source": "127.0.0.1", "user": "alice", "policy": "coding", "trusts_ca": True}],
            "policies": {"coding": {"connectors": ["tracker"]}},
            "vault": {"sources": [one], **(vault or {})},
            "connectors": [{"name": "tracker", "hosts": [HOST], "upstream": f"https://{HOST}:{self.firm.port}", **addresses,
                            "auth": {"kind": "bearer", "secret": "bao/tracker"}, "allow": [{"paths": ["/**"]}]}]}

    def start(self, auth, login=None, **more):
        self.g = self.gate(self.config(auth, **more))
        if login is not None:
            self.g.cli("vault", "put", auth["secret"], input=login, check=True)
        self.ca = self.folder / "gateway.pem"
        self.ca.write_text(self.g.cli("ca", "export", check=True).stdout)
        return self

    def approle(self, **more):
        self.bao.roles["role-1"] = "id-of-role-1"
        return self.start({"kind": "approle", "role": "role-1", "secret": "login/bao"}, "id-of-role-1", **more)

    def call(self):
        """(status, code, what the company system was shown)"""
        before = len(self.api.seen)
        done = subprocess.run(["curl", "-sS", "-m", "10", "-o", "-", "-w", "\n%{http_code}", "-x", "http://%s:%d" % self.g.proxy,
                               "--cacert", self.ca, f"https://{HOST}/x"], capture_output=True, text=True, timeout=30)
        body, _, status = done.stdout.rpartition("\n")
        code = json.loads(body)["error"]["code"] if status != "200" and body.startswith("{") else ""
        shown = [r.one("authorization") for r in self.api.seen[before:]]
        return int(status), code, shown[0] if shown else None

    def gets(self, value, seconds=8):
        wait_for(lambda: self.call() == (200, "", "Bearer " + value), seconds, 0.1)

    def is_refused(self, code, seconds=8):
        wait_for(lambda: self.call() == (503, code, None), seconds, 0.1)

    def listed(self):
        done = self.g.cli("vault", "list", "--json", check=True)
        return {s["name"]: s for s in json.loads(done.stdout)["sources"]}

    def test(self, name):
        done = self.g.cli("connectors", "test", name, "--json")
        return json.loads(done.stdout)


@pytest.fixture
def world(gate, tmp_path):
    made = []

    def make(**kw):
        made.append(World(gate, tmp_path, **kw))
        return made[-1]

    yield make
    for w in made:
        w.firm.close()
        assert not w.firm.errors


@pytest.mark.parametrize("protocols", [("h2",), ("http/1.1",)], ids=["h2", "h1"])
def test_a_secret_is_read_and_each_new_version_of_it(world, protocols):
    w = world(protocols=protocols).approle()
    w.gets(FIRST)
    w.bao.put("apps/tracker", token=NEXT)
    w.gets(NEXT)
    assert w.bao.logins == 1 and w.bao.most_at_once == 1
    rows = w.g.wait_rows(1, kind="vault", detail="source bao/tracker version 2")
    assert len(rows) == 1 and rows[0]["code"] == "ok"
    lease = w.g.wait_rows(1, kind="lease", detail="bao/tracker version 2 to tracker")
    assert lease[0]["sandbox"] == "demo"


def test_a_token_is_used_as_an_operator_made_it(world):
    w = world()
    w.bao.tokens["hvs.made"] = Token(ttl=6, renewable=True, most=600)
    w.start({"kind": "token", "secret": "login/bao"}, "hvs.made")
    w.gets(FIRST)
    wait_for(lambda: w.bao.renewals >= 1, 10)
    time.sleep(4)
    w.gets(FIRST)
    assert w.bao.logins == 0


def test_a_token_that_may_do_nothing_but_read_reads_and_a_wrong_one_does_not(world):
    w = world()
    w.bao.tokens["hvs.made"], w.bao.no_self = Token(), True
    w.start({"kind": "token", "secret": "login/bao"}, "hvs.wrong")
    w.is_refused("secret_source_refused")
    w.g.cli("vault", "rotate", "login/bao", input="hvs.made", check=True)
    w.gets(FIRST)


def test_a_pods_account_logs_in(world, tmp_path):
    folder = tmp_path / "mounted"
    folder.mkdir()
    (folder / "token").write_text("jwt-of-the-pod")
    let_read(folder)
    w = world()
    w.bao.accounts["agents"] = "jwt-of-the-pod"
    w.start({"kind": "kubernetes", "role": "agents", "secret": "files/token"}, vault={"files": str(folder)})
    w.gets(FIRST)
    assert w.bao.logins == 1
    (folder / "token").write_text("next-jwt-of-the-pod")  # as a projected volume does
    w.bao.accounts["agents"] = "next-jwt-of-the-pod"
    w.bao.revoke()
    w.bao.put("apps/tracker", token=NEXT)
    w.gets(NEXT, 25)


def test_a_lease_is_renewed_before_its_end_and_replaced_at_its_last(world):
    w = world(ttl=3, most=7).approle()
    w.gets(FIRST)
    begun = time.monotonic()
    while time.monotonic() - begun < 11:
        assert w.call() == (200, "", "Bearer " + FIRST)
        time.sleep(0.2)
    assert w.bao.renewals >= 2 and 2 <= w.bao.logins <= 4


def test_one_that_can_not_be_renewed_is_replaced_before_its_end(world):
    w = world(ttl=3, renewable=False).approle()
    w.gets(FIRST)
    begun = time.monotonic()
    while time.monotonic() - begun < 6:
        assert w.call() == (200, "", "Bearer " + FIRST)
        time.sleep(0.2)
    assert w.bao.renewals == 0 and 3 <= w.bao.logins <= 5


def test_a_pinned_version_a_namespace_and_mounts_of_their_own(world):
    w = world(mount="kv/teams", space="team-a")
    w.bao.mounts = {"machines": "approle"}
    w.bao.put("apps/tracker", token=NEXT)
    w.bao.roles["role-1"] = "id-of-role-1"
    w.start({"kind": "approle", "role": "role-1", "secret": "login/bao", "mount": "machines"}, "id-of-role-1",
            source={"namespace": "team-a", "mount": "kv/teams"},
            items={"tracker": {"path": "apps/tracker", "field": "token", "version": 1}})
    w.gets(FIRST)
    assert all(r.query == "version=1" for r in w.bao.seen if r.method == "GET")


def test_what_it_no_longer_has_is_gone_with_the_next_read(world):
    w = world().approle()
    w.gets(FIRST)
    w.bao.delete("apps/tracker")
    w.is_refused("no_secret", 3)
    w.g.wait_rows(1, kind="vault", detail="source bao/tracker", code="no_secret")
    w.bao.put("apps/tracker", token=NEXT)
    w.gets(NEXT)
    w.bao.destroy("apps/tracker")
    w.is_refused("no_secret", 3)
    w.bao.put("apps/tracker", nothing="of it")
    w.is_refused("no_secret", 3)
    w.bao.kv.clear()
    w.is_refused("no_secret", 3)


def test_a_token_that_was_revoked_is_replaced_once_and_what_is_denied_is_gone(world):
    w = world().approle()
    w.gets(FIRST)
    w.bao.revoke()
    w.bao.put("apps/tracker", token=NEXT)
    w.gets(NEXT)
    assert w.bao.logins == 2
    w.bao.denied.add("apps/tracker")
    w.is_refused("secret_source_refused", 3)
    logins, reads = w.bao.logins, w.bao.reads
    time.sleep(2.5)
    assert w.bao.logins - logins <= 3 and w.bao.reads - reads <= 6  # one more of each in a round
    w.bao.denied.clear()
    w.gets(NEXT)


def test_a_login_that_is_refused_takes_back_what_was_read(world):
    w = world().approle()
    w.gets(FIRST)
    w.bao.roles["role-1"] = "another"
    w.bao.revoke()
    w.is_refused("secret_source_refused", 4)
    said = w.test("bao")
    assert (said["ok"], said["login"], said["read"]) == (False, "secret_source_refused", 0)
    w.g.cli("vault", "rotate", "login/bao", input="another", check=True)
    w.gets(FIRST)


@pytest.mark.parametrize("status", [503, 502])
def test_one_that_says_nothing_serves_on_to_the_bound_and_no_longer(world, status):
    """Sealed, or behind a proxy that has lost it."""
    w = world().approle()
    w.gets(FIRST)
    w.bao.sealed = status == 503
    w.bao.instead = (lambda r: Answer(status, b"")) if status == 502 else None
    begun = time.monotonic()
    while time.monotonic() - begun < 2:
        assert w.call() == (200, "", "Bearer " + FIRST)
        time.sleep(0.2)
    w.is_refused("secret_source_silent", 6)
    assert 2 < time.monotonic() - begun < 6
    w.bao.sealed, w.bao.instead = False, None
    w.gets(FIRST)


def hostile(status=200, body=b"", fields=()):
    return lambda r: Answer(status, body, fields) if "/data/" in r.path else None


def of(value, **metadata):
    return json.dumps({"data": {"data": {"token": value},
                                "metadata": {"version": 9, "deletion_time": "", "destroyed": False, **metadata}}}).encode()


NOTHING = [
    (200, b"{" + b" " * (300 * 1024) + b"}"), (200, b'{"data":'), (200, b"[" * 5000), (200, b"null"), (200, of("x", version="9")),
    (200, of("x", deletion_time="soon")), (307, b"", [("Location", f"https://{HOST}/v1/secret/data/apps/tracker")]),
    (200, of("x")[:40], [("Content-Encoding", "gzip")]), (429, b""), (204, b""), (500, of("x"))]
NO_VALUES = [17, None, "", "a\r\nX-Evil: 1", "a\u0000b", " edge", "x" * 8193]


def test_an_answer_that_is_none_teaches_nothing_and_a_bad_value_is_none(world):
    w = world()
    w.bao.instead = hostile(*NOTHING[0])
    w.approle()
    for answer in NOTHING:
        w.bao.instead = hostile(*answer)
        said = w.test("bao")
        assert (said["ok"], said["failed"], said["read"]) == (False, "secret_source_silent", 0), answer
    w.is_refused("secret_source_silent")
    for value in NO_VALUES:
        w.bao.instead = hostile(200, of(value))
        said = w.test("bao")
        assert said.get("failed") == "secret_source_bad", (value, said)
        w.is_refused("secret_source_bad")
    assert not any("/v1/" in r.path for r in w.api.seen)  # nobody follows
    w.bao.instead = None
    w.gets(FIRST)


def test_a_slow_answer_is_not_waited_for(world):
    w = world().approle()
    w.gets(FIRST)
    w.bao.slow_s = 60
    w.is_refused("secret_source_silent", 20)
    w.bao.slow_s = 0
    w.gets(FIRST, 20)


def test_one_that_does_not_prove_itself_is_shown_nothing(world, tmp_path):
    w = world()
    w.firm.context.load_verify_locations(w.firm.ca.file)
    other = make_ca(tmp_path / "other", "Other CA")
    config = {**w.config({"kind": "token", "secret": "login/bao"}), "upstream_tls": {"ca_file": str(other.file)}}
    w.g = w.gate(config)
    w.g.cli("vault", "put", "login/bao", input="hvs.made", check=True)
    said = w.test("bao")
    assert said["upstream"] == "upstream_untrusted" and not w.bao.seen


def test_operators_see_where_it_comes_from_and_until_when_and_no_value(world):
    w = world().approle()
    w.gets(FIRST)
    one = w.listed()["bao/tracker"]
    assert (one["source"], one["version"], one["code"]) == ("openbao", 1, "ok")
    assert time.time() - 2 < one["expires"] < time.time() + 6
    said = w.test("tracker")
    assert (said["ok"], said["source"], said["version"]) == (True, "bao", 1) and said["expires"] > time.time() - 5
    said = w.test("bao")
    assert (said["ok"], said["login"], said["secrets"], said["read"], said["upstream"]) == (True, "ok", 1, 1, "ok")
    assert said["login_expires"] > time.time() + 3000
    text = w.g.cli("vault", "list").stdout + w.g.cli("connectors", "test", "bao").stdout + w.g.cli("connectors", "list").stdout
    assert "bao/tracker" in text and "1 of 1 secrets" in text and "source of secrets" in text
    counted = [s for s in w.g.admin()[1]["roles"] if s["name"].startswith("connector")]
    assert any(s["counters"]["source_logins"] == 1 and s["counters"]["source_reads"] >= 1 for s in counted), counted
    everything = text + json.dumps(w.g.rows()) + w.g.text_of_log()
    for value in (FIRST, "id-of-role-1", *w.bao.tokens):
        assert value not in everything
    assert w.g.cli("vault", "put", "bao/tracker", input="x").returncode != 0


def test_a_keeper_and_a_reader_that_died_come_back(world):
    w = world().approle()
    w.gets(FIRST)
    roles = w.g.admin()[1]["roles"]
    pids = [r["pid"] for r in roles if r["name"].startswith(("keeper", "connector"))]
    for pid in pids:
        subprocess.run(["kill", "-9", str(pid)], check=True)
        w.gets(FIRST, 20)


def test_at_its_end_it_gives_back_what_a_login_brought(world):
    w = world().approle()
    w.gets(FIRST)
    assert len(w.bao.tokens) == 1
    w.g.stop()
    assert not w.bao.tokens


def test_a_source_that_hangs_holds_up_no_end(world):
    w = world().approle()
    w.gets(FIRST)
    w.bao.slow_s = 30
    begun = time.monotonic()
    w.g.stop()
    assert time.monotonic() - begun < 8


def test_a_reload_reads_anew_and_keeps_the_token(world):
    w = world().approle()
    w.gets(FIRST)
    w.bao.put("apps/next", token=NEXT)
    config = w.config({"kind": "approle", "role": "role-1", "secret": "login/bao"},
                      items={"tracker": {"path": "apps/next", "field": "token"}})
    assert w.g.reload(config)[0] == 200
    first = w.call()
    assert first[2] != "Bearer " + FIRST
    w.gets(NEXT)
    assert w.bao.logins == 1
