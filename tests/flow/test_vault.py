"""The vault from an operator's side: secrets go in, are kept, changed and removed, and never
come out."""
import base64
import json
import os
import pathlib
import pty
import select
import signal
import socket
import subprocess
import time

import pytest

from conftest import BIN, Gate, wait_for

CANARY = "canary-5f3a9c71d2e84b60"


def vault(g, *words, value=None, code=0):
    done = g.cli("vault", *words, input=value)
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def listed(g, *words):
    return {s["name"]: s for s in json.loads(vault(g, "list", "--json", *words))["secrets"]}


def status(g):
    return json.loads(vault(g, "status", "--json"))


def test_a_vault_is_there_from_the_first_start_and_opens_by_itself(gate):
    g = gate()
    first = status(g)
    assert (first["state"], first["key"], first["secrets"]) == ("open", "file", 0)
    vault(g, "put", "tracker/token", value=CANARY)
    g.stop()
    g.start()
    assert status(g)["state"] == "open"
    assert set(listed(g)) == {"tracker/token"}
    assert "conflict" in vault(g, "init", code=1)


def test_a_secret_is_put_rotated_granted_and_removed(gate):
    g = gate()
    assert vault(g, "put", "tracker/token", "--expires", "90d", value=CANARY + "\n") == "tracker/token version 1\n"
    said = vault(g, "put", "tracker/token", value="again", code=1)
    assert "conflict" in said and "vault rotate" in said
    assert vault(g, "rotate", "tracker/token", "--grace", "1h", value="other") == "tracker/token version 2\n"
    one = listed(g)["tracker/token"]
    old, new = one["versions"]
    assert abs(old["expires"] - time.time() - 90 * 86400) < 60
    assert abs(old["retires"] - time.time() - 3600) < 60 and (new["version"], new["retires"]) == (2, 0)
    vault(g, "grant", "tracker/token", "--connector", "tracker", "--user", "alice")
    assert listed(g)["tracker/token"]["grants"] == [{"connector": "tracker", "user": "alice"}]
    assert "tracker:alice" in vault(g, "list")
    vault(g, "ungrant", "tracker/token", "--connector", "tracker", "--user", "alice")
    assert listed(g)["tracker/token"]["grants"] == []
    vault(g, "rm", "tracker/token")
    assert listed(g) == {}
    assert vault(g, "rm", "tracker/token", code=1).startswith("sandgate: no_secret: there is no secret `tracker/token`;")


def test_tenants_have_names_of_their_own(gate):
    g = gate()
    vault(g, "put", "token", value="one")
    vault(g, "put", "token", "--tenant", "red", value="two")
    vault(g, "rm", "token")
    assert listed(g) == {}
    assert [s["tenant"] for s in listed(g, "--tenant", "red").values()] == ["red"]


def test_a_long_list_comes_whole(gate):
    g = gate()
    names = [f"{'long-name-' * 5}/{i:03}" for i in range(60)]
    for name in names:
        vault(g, "put", name, value="x")
    assert sorted(listed(g)) == names


@pytest.mark.parametrize("value", ["a\nb", "a\r\nb", " a", "a ", "a\0b", "", "\n", "x" * 8193])
def test_what_no_header_could_carry_is_refused(gate, value):
    g = gate()
    said = vault(g, "put", "bad", value=value, code=1)
    assert "bad_secret" in said or "Value:" in said
    assert listed(g) == {}


def test_the_longest_value_and_a_key_in_lines_are_taken(gate):
    g = gate()
    vault(g, "put", "long", value="x" * 8192)
    pem = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA==\n-----END PRIVATE KEY-----\n"
    assert "bad_secret" in vault(g, "put", "key", value=pem, code=1)
    vault(g, "put", "key", "--pem", value=pem)
    assert listed(g)["key"]["kind"] == "pem"


def test_what_is_said_wrongly_is_told(gate):
    g = gate()
    for words in (["put"], ["put", "a//b"], ["put", "x", "--grace", "1h"], ["rotate", "x", "--connector", "c"],
                  ["put", "x", "--expires", "soon"], ["init", "--key", "magic"], ["list", "x"], ["export", "x"]):
        assert "usage:" in vault(g, *words, value="x", code=2)


# Nothing comes out

def values_found(g, value):
    """Where the value lies in plain, of all that the gateway wrote."""
    found = [str(p) for p in g.dir.rglob("*") if p.is_file() and value.encode() in p.read_bytes()]
    said = [g.cli("audit", "--json").stdout, g.cli("status", "--json").stdout, g.cli("vault", "list", "--json").stdout,
            vault(g, "status", "--json"), g.text_of_log()]
    return found + [s for s in said if value in s]


MAPPING_MAX = 1 << 30  # larger ones are shadows that a sanitizer reserved


def read_memory(memory, low, high):
    try:
        memory.seek(low)
        return memory.read(high - low)
    except (OSError, ValueError):
        return b""


def memory_holds(pid, value):
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            place, rights = line.split()[:2]
            if not rights.startswith("r") or "[v" in line:
                continue
            low, high = (int(x, 16) for x in place.split("-"))
            if high - low < MAPPING_MAX and value.encode() in read_memory(memory, low, high):
                return True
    return False


def test_a_value_is_in_no_file_no_answer_and_no_process(gate):
    g = gate()
    vault(g, "put", "tracker/token", value=CANARY)
    vault(g, "rotate", "tracker/token", "--grace", "1h", value=CANARY + "-new")
    assert values_found(g, CANARY) == []
    rows = [r["detail"] for r in g.wait_rows(4, kind="operator")]
    assert rows[::2] == ["vault/put tracker/token", "vault/rotate tracker/token"]
    assert memory_holds(os.getpid(), CANARY)  # the search finds what is there
    if os.geteuid() == 0:
        holders = [name for name, pid in g.pids().items() if memory_holds(pid, CANARY)]
        assert holders == []


def test_control_passes_a_value_on_unread(gate):
    g = gate()
    body = {"name": "x", "value": "in the text"}
    assert g.admin("POST", "/v1/vault/put", body)[0] == 400  # no descriptor, no value
    plain = os.memfd_create("value", os.MFD_ALLOW_SEALING)
    os.write(plain, b"not sealed")
    assert g.admin("POST", "/v1/vault/put", {"name": "x"}, fds=[plain])[0] == 400
    assert g.admin("POST", "/v1/vault/put", {"name": "x"}, fds=[plain, plain])[0] == 400
    assert g.admin("GET", "/v1/vault/status", fds=[plain])[0] == 400
    os.close(plain)
    assert g.admin("POST", "/v1/vault/put", {"name": "a\nb"})[0] == 400
    assert listed(g) == {}
    assert status(g)["state"] == "open"  # the keeper is still there


def test_over_a_port_nothing_secret_is_taken(gate):
    import hashlib
    from conftest import free_port
    port = free_port()
    g = Gate({"admin": {"address": f"127.0.0.1:{port}", "token_sha256": hashlib.sha256(b"t").hexdigest()}},
             env={"SANDGATE_ADMIN_TOKEN": "t"})
    try:
        g.start()
        for words in (["put", "x"], ["rotate", "x"], ["init", "--passphrase"], ["rekey", "--passphrase"]):
            assert "needs_unix_socket" in vault(g, *words, value="x", code=1)
        assert status(g)["state"] == "open" and listed(g) == {}
        assert "BEGIN CERTIFICATE" in g.cli("ca", "export").stdout
    finally:
        g.close()


# Keys

def test_a_passphrase_seals_and_five_wrong_ones_lock(gate):
    g = gate()
    vault(g, "put", "tracker/token", value=CANARY)
    vault(g, "rekey", "--passphrase", value="correct horse")
    assert status(g)["key"] == "passphrase"
    g.stop()
    g.start()
    assert status(g)["state"] == "sealed"
    assert "vault_sealed" in vault(g, "list", code=1)
    vault(g, "unseal", value="correct horse\n")
    assert set(listed(g)) == {"tracker/token"}
    vault(g, "seal")
    for _ in range(5):
        said = vault(g, "unseal", value="wrong", code=1)
        assert "bad_passphrase" in said or "vault_locked" in said
    assert "vault_locked" in vault(g, "unseal", value="correct horse", code=1)
    g.stop()
    g.start()
    assert "vault_locked" in vault(g, "unseal", value="correct horse", code=1)
    assert status(g)["locked_seconds"] > 60
    assert values_found(g, "correct horse") == []


def test_a_key_in_a_file_needs_nobody_to_type(gate):
    g = gate()
    vault(g, "put", "tracker/token", value=CANARY)
    assert "OK    vault" in g.cli("doctor").stdout
    vault(g, "seal")
    assert status(g)["state"] == "sealed"
    assert "WARN  vault" in g.cli("doctor").stdout
    vault(g, "unseal")
    assert set(listed(g)) == {"tracker/token"}


def test_an_older_copy_is_seen_and_taken_only_on_purpose(gate):
    g = gate()
    vault(g, "put", "first", value="one")
    g.stop()
    files = {p: p.read_bytes() for p in (g.state / "keeper").iterdir() if p.is_file() and "vault" in p.name}
    g.start()
    vault(g, "put", "second", value="two")
    g.stop()
    for path in (g.state / "keeper").iterdir():
        if "vault.db" in path.name and path not in files:
            path.unlink()
    for path, old in files.items():
        if path.name.startswith("vault.db"):
            path.write_bytes(old)
    g.start()
    assert status(g)["state"] == "rolled_back"
    assert "vault_" in vault(g, "list", code=1)
    vault(g, "adopt")
    assert set(listed(g)) == {"first"}


# The CA

def certificates(text):
    return text.count("-----BEGIN CERTIFICATE-----")


def test_the_ca_is_exported_and_rotated_with_an_overlap(gate):
    g = gate()
    first = g.cli("ca", "export")
    assert first.returncode == 0 and certificates(first.stdout) == 1
    both = g.cli("ca", "rotate", "--grace", "1d")
    assert certificates(both.stdout) == 2 and both.stdout.endswith(first.stdout)
    assert g.cli("ca", "export").stdout == both.stdout
    assert json.loads(g.cli("ca", "export", "--json").stdout) == {"pem": both.stdout}
    alone = g.cli("ca", "rotate").stdout
    assert first.stdout.strip() not in alone
    assert g.cli("ca", "rotate", "--grace", "soon").returncode == 2
    rows = [r["detail"] for r in g.wait_rows(4, kind="operator")]
    assert rows == ["ca/rotate"] * 4


def test_exec_believes_the_ca_of_a_real_gateway(gate):
    g = gate()
    ours = g.cli("ca", "rotate", "--grace", "1d").stdout
    done = subprocess.run([BIN / "sandgate", "exec", "-c", g.file, "--policy", "coding", "--", "cat",
                           "/etc/ssl/certs/ca-certificates.crt"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert all(block in done.stdout for block in ours.split("-----END CERTIFICATE-----\n"))


# Tokens of sandboxes

CI = {"sandboxes": [{"id": "ci", "token": "sandboxes/ci", "user": "bot", "policy": "coding"}],
      "resolver": {"servers": ["127.0.0.1"], "hosts": {"ok.example.test": ["127.0.0.9"]}}}
TAKEN = 200  # the hello would decide the rest


def login(g, token, name="ci"):
    auth = base64.b64encode(f"{name}:{token}".encode()).decode()
    with socket.create_connection(g.proxy, timeout=10) as sock:
        sock.sendall(f"CONNECT ok.example.test:443 HTTP/1.1\r\nHost: ok.example.test:443\r\n"
                     f"Proxy-Authorization: Basic {auth}\r\n\r\n".encode())
        return int(sock.recv(4096).split()[1])


def test_a_sandboxs_token_may_lie_in_the_vault(gate):
    g = gate(CI)
    assert login(g, CANARY) == 407
    vault(g, "put", "sandboxes/ci", value=CANARY)
    time.sleep(1.1)  # a no is a no for a second
    assert login(g, CANARY) == TAKEN
    assert login(g, "wrong") == 407 and login(g, "") == 407 and login(g, CANARY, "other") == 407
    vault(g, "rotate", "sandboxes/ci", "--grace", "1h", value=CANARY + "-new")
    time.sleep(1.1)
    assert login(g, CANARY + "-new") == TAKEN and login(g, CANARY) == TAKEN
    vault(g, "rotate", "sandboxes/ci", value=CANARY + "-last")
    time.sleep(5.1)  # what was said is believed so long
    assert login(g, CANARY + "-last") == TAKEN and login(g, CANARY) == 407
    vault(g, "seal")
    time.sleep(5.1)
    assert login(g, CANARY + "-last") == 407  # nobody is let in whom the keeper does not confirm
    assert values_found(g, CANARY) == []


def test_many_logins_at_once_ask_the_keeper_little(gate):
    g = gate(CI)
    vault(g, "put", "sandboxes/ci", value=CANARY)
    assert [login(g, CANARY) for _ in range(150)] == [TAKEN] * 150


# The keeper's death

def test_the_keepers_death_costs_no_secret_and_its_answers_come_back(gate):
    g = gate()
    vault(g, "put", "tracker/token", value=CANARY)
    vault(g, "rekey", "--passphrase", value="correct horse")
    os.kill(g.pids()["keeper"], signal.SIGKILL)

    def there():
        done = g.cli("vault", "list", "--json")
        return done.returncode == 0 and json.loads(done.stdout)["secrets"]
    assert wait_for(there)[0]["name"] == "tracker/token"  # unsealed still: nobody typed anything


# A terminal

class Terminal:
    def __init__(self, g, *words):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # what runs in the background ignores it
            os.execv(BIN / "sandgate", ["sandgate", "vault", words[0], "-c", str(g.file), *words[1:]])
        self.said = b""

    def expect(self, text, seconds=10):
        end = time.monotonic() + seconds
        while text not in self.said:
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            assert ready, self.said
            try:
                self.said += os.read(self.fd, 4096)
            except OSError:
                break
        assert text in self.said, self.said

    def type(self, text):
        os.write(self.fd, text)

    def wait(self):
        try:
            while True:
                more = os.read(self.fd, 4096)
                if not more:
                    break
                self.said += more
        except OSError:
            pass
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        return code


def test_on_a_terminal_a_value_is_asked_for_and_not_shown(gate):
    g = gate()
    t = Terminal(g, "put", "typed")
    t.expect(b"Value: ")
    t.type(CANARY.encode() + b"\n")
    assert t.wait() == 0
    assert CANARY.encode() not in t.said and b"typed version 1" in t.said
    t = Terminal(g, "rekey", "--passphrase")
    t.expect(b"New passphrase: ")
    t.type(b"one\n")
    t.expect(b"New passphrase again: ")
    t.type(b"other\n")
    assert t.wait() == 1 and b"not the same" in t.said and b"one" not in t.said
    assert status(g)["key"] == "file"


def test_an_interrupt_leaves_the_terminal_as_it_was(gate):
    import termios
    g = gate()
    t = Terminal(g, "put", "typed")
    t.expect(b"Value: ")
    assert not termios.tcgetattr(t.fd)[3] & termios.ECHO
    t.type(b"half\x03")
    wait_for(lambda: termios.tcgetattr(t.fd)[3] & termios.ECHO)
    assert t.wait() == -signal.SIGINT
    assert listed(g) == {}


def test_a_secret_that_nobody_was_granted_is_hinted_at(gate):
    token = {"id": "ci", "user": "ci-bot", "policy": "coding", "token": "boxes/ci"}
    tracker = {"name": "tracker", "hosts": ["tracker.example.test"], "auth": {"kind": "bearer", "secret": "tracker/{user}/token"},
               "allow": [{"methods": ["GET"], "paths": ["/**"]}]}
    blue = {**tracker, "name": "blue", "hosts": ["blue.example.test"], "tenant": "team", "auth": {"kind": "bearer", "secret": "blue/key"}}
    config = {"policies": {"coding": {"allow": [], "connectors": ["tracker"]}}, "sandboxes": [token]}
    g = gate({**config, "connectors": [tracker, blue]})

    def hint(*words):
        done = g.cli("vault", "put", *words, input=CANARY)
        assert done.returncode == 0 and done.stdout == f"{words[0]} version 1\n", done
        return done.stderr

    assert hint("tracker/alice/token") == hint("boxes/ci") == hint("other/x", "--connector", "tracker") == ""
    assert hint("other/y", "--connector", "trakcer") == \
        "sandgate: granted, but the configuration has no connector or server `trakcer`; is `tracker` meant?\n"
    assert "names `a`; once one does, `sandgate vault grant a` lets it" in hint("a")
    assert "is `tracker/{user}/token` meant?" in hint("tracker/token")
    assert "names `blue/kye`; is `blue/key` meant?" in hint("blue/kye")
    assert "connector `blue`, which names it, needs it with --tenant team" in hint("blue/key")
    assert "leave out --tenant team" in hint("tracker/bob/token", "--tenant", "team")
    # The file has it, and the gateway not yet.
    new = {**tracker, "name": "new", "hosts": ["new.example.test"], "auth": {"kind": "bearer", "secret": "new/key"}}
    g.write({**config, "connectors": [tracker, blue, new]})
    told = hint("new/key")
    assert "does not have connector `new` yet" in told
    g.cli("vault", "grant", "new/key", "--connector", "new", check=True)
    assert g.cli("reload").returncode == 0
    # A configuration that can't be read says nothing of it.
    g.file.write_text("policies: [")
    done = subprocess.run([BIN / "sandgate", "vault", "put", "--state", g.state, "unused/key"], input=CANARY, text=True,
                          capture_output=True, env=g.env, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
