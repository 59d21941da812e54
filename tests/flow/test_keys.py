"""API keys of those who execute, from an operator's side: shown once, kept nowhere."""
import hashlib
import json
import re
import socket
import time

from conftest import Gate, free_port, wait_for


def keys(g, *words, code=0):
    done = g.cli("keys", *words)
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def listed(g):
    return {k["id"]: k for k in json.loads(keys(g, "list", "--json"))["keys"]}


def add(g, *words):
    made = json.loads(keys(g, "add", "--json", *words))
    assert re.fullmatch(r"sgk_[A-Za-z0-9_-]{43}", made["key"]) and set(made) == {"id", "key"}
    return made["id"], made["key"]


def said(g, *details):
    """The ledger says these of keys; rows are stored a moment later."""
    rows = wait_for(lambda: (r := g.rows()) and set(details) <= {row.get("detail") for row in r} and r)
    return [r["detail"] for r in rows if (r.get("detail") or "").startswith("keys/")]


def everything(g):
    """What the gateway has written down."""
    return b"".join(p.read_bytes() for p in g.state.rglob("*") if p.is_file())


def test_a_key_is_shown_once_and_kept_nowhere(gate):
    g = gate()
    done = g.cli("keys", "add", "--user", "alice", "--agent", "coder", "--scopes", "run,read", "--expires", "30d",
                 "--label", "a laptop")
    key, key_id = done.stdout.strip(), re.search(r"key (key-\w+)", done.stderr)[1]
    assert re.fullmatch(r"sgk_[A-Za-z0-9_-]{43}", key)
    one = listed(g)[key_id]
    assert (one["user"], one["agent"], one["scopes"], one["label"], one["may_delegate"], one["tenant"]) == (
        "alice", "coder", "read,run", "a laptop", False, "")
    assert abs(one["expires"] - time.time() - 30 * 86400) < 60
    assert (one["revoked"], one["last_used"]) == (0, 0)
    text = keys(g, "list")
    assert key_id in text and "good" in text and key not in text
    assert key.encode() not in everything(g) and key[4:].encode() not in everything(g)
    assert said(g, f"keys/add {key_id}") == ["keys/add", f"keys/add {key_id}"]
    assert key not in json.dumps(g.rows())


def test_quiet_prints_nothing_but_the_key(gate):
    g = gate()
    done = g.cli("keys", "add", "--user", "alice", "--quiet")
    assert re.fullmatch(r"sgk_[A-Za-z0-9_-]{43}\n", done.stdout) and done.stderr == ""


def test_two_keys_are_never_alike(gate):
    g = gate()
    made = [add(g, "--user", "alice") for _ in range(5)]
    assert len({k for k, _ in made}) == len({v for _, v in made}) == 5
    assert listed(g).keys() == {k for k, _ in made}


def test_a_key_is_rotated_and_revoked(gate):
    g = gate()
    old, _ = add(g, "--user", "alice", "--may-delegate", "--tenant", "blue")
    new = json.loads(keys(g, "rotate", old, "--grace", "1h", "--json"))["id"]
    both = listed(g)
    assert abs(both[old]["expires"] - time.time() - 3600) < 60 and both[old]["revoked"] == 0
    assert (both[new]["user"], both[new]["tenant"], both[new]["may_delegate"], both[new]["expires"]) == (
        "alice", "blue", True, 0)
    last = json.loads(keys(g, "rotate", new, "--json"))["id"]
    assert listed(g)[new]["revoked"] > 0
    assert keys(g, "revoke", last) == ""
    assert "ended already" in keys(g, "revoke", last, code=1)
    assert "no key" in keys(g, "revoke", "key-0", code=1)
    assert said(g, f"keys/rotate {old} {new}", f"keys/revoke {last}")


def test_what_is_no_key_is_told(gate):
    g = gate()
    for words, told in ((("add",), "--user"), (("add", "--user", "al ice"), "user: 1 to 128 letters, digits and -_.@+:|=~"),
                        (("add", "--user", "a" * 129), "user: 1 to 128 letters"),
                        (("add", "--user", "a", "--agent", "b/c"), "agent: 1 to 128 letters"),
                        (("add", "--user", "a", "--scopes", "admin"), "not a list of read, run"),
                        (("add", "--user", "a", "--expires", "2001-01-01T00:00:00Z"), "expires: a time to come"),
                        (("add", "--user", "a", "--label", "x\ny"), "label: 200 bytes"),
                        (("add", "--user", "a", "--tenant", "a/b"), "tenant: 1 to 128 letters"),
                        (("list", "--user", "a"), "add"), (("revoke",), "it wants `an ID`"),
                        (("burn", "x"), "burn"), (("revoke", "key-0"), "there is no key `key-0`"),
                        (("revoke", "x", "--grace", "1h"), "rotate"), (("rotate", "../x"), "what `keys list` has"),
                        (("rotate", "key-0", "--grace", "100d"), "grace: 90 days"), (("revoke", "../x"), "what `keys list` has")):
        done = g.cli("keys", *words)
        assert done.returncode != 0 and told in done.stderr and "HTTP" not in done.stderr, (words, done.stderr)
    assert listed(g) == {}


def test_over_a_port_no_key_is_told(gate):
    port = free_port()
    g = Gate({"admin": {"address": f"127.0.0.1:{port}", "token_sha256": hashlib.sha256(b"t").hexdigest()}},
             env={"SANDGATE_ADMIN_TOKEN": "t"})
    try:
        g.start()
        assert "needs_unix_socket" in keys(g, "add", "--user", "alice", code=1)
        assert "needs_unix_socket" in keys(g, "rotate", "key-0", code=1)
        assert "no key" in keys(g, "revoke", "key-0", code=1)
        assert listed(g) == {}
    finally:
        g.close()


def test_keys_outlive_the_gateway_and_its_control(gate):
    g = gate()
    first, _ = add(g, "--user", "alice")
    g.stop()
    g.start()
    assert set(listed(g)) == {first}


def test_a_long_list_comes_whole(gate):
    g = gate()
    sock = g.state / "admin.sock"

    def post(path, body):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(sock))
            text = json.dumps(body).encode()
            s.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path, len(text)) + text)
            return b"".join(iter(lambda: s.recv(65536), b""))

    for i in range(510):
        assert b"200 OK" in post(b"/v1/keys/add", {"user": f"user-{i}"})
    assert len(listed(g)) == 510
