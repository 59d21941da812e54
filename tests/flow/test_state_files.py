"""What operators, and those who may write where they should not, do to the files of the vault while no gateway runs:
it never opens on what others may have read or put there, and the log says what is wrong."""
import os
import stat

import pytest

from conftest import Gate


def linked(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def other(path):
    os.chown(path, 1234, 1234)


KEY, VAULT = "keeper/master.key", "keeper/vault.db"
WORDS = "master.key in the state directory: not the vault's key"
CASES = {
    "a key that all may read": (KEY, lambda p: p.chmod(0o644), "sealed", WORDS),
    "a key that is a link": (KEY, linked, "sealed", WORDS),
    "a key of another's": (KEY, other, "sealed", WORDS),
    "a key that is a pipe": (KEY, lambda p: (p.unlink(), os.mkfifo(p, 0o600)), "sealed", WORDS),
    "another key": (KEY, lambda p: p.write_text("0" * 64), "sealed", WORDS),
    "a vault that is a link": (VAULT, linked, "damaged", ""),
    "half a vault": (VAULT, lambda p: os.truncate(p, 5000), "damaged", ""),
    "no vault": (VAULT, lambda p: p.unlink(), "damaged", ""),
}


@pytest.fixture
def stopped():
    g = Gate({"vault": {"master_key": "file"}})
    g.start()
    done = g.cli("vault", "put", "a/b", input="s3cr3t-value")
    assert done.returncode == 0, done.stderr
    g.stop()
    yield g
    g.close()


@pytest.mark.parametrize("what", CASES)
def test_no_vault_opens_on_files_that_are_not_its_own(stopped, what):
    if os.geteuid() != 0 and CASES[what][1] is other:
        pytest.skip("needs root, to give files away")
    file, change, state, words = CASES[what]
    before = len(stopped.text_of_log())
    change(stopped.state / file)
    stopped.start()
    done = stopped.cli("vault", "list", "--json")
    assert done.returncode != 0 and f"vault_{state}" in done.stderr, done
    said = stopped.text_of_log()[before:]
    assert f"vault: {state}" in said and words in said


@pytest.mark.parametrize("role", ["keeper", "ledger", "control"])
def test_nobody_else_may_write_where_the_files_lie(stopped, role):
    folder = stopped.state / role
    folder.chmod(0o777)
    stopped.start()
    assert stat.S_IMODE(folder.stat().st_mode) & 0o022 == 0
    assert stopped.cli("vault", "list").returncode == 0


STORES = {
    "no database": lambda p: p.write_bytes(b"not a database" * 1000),
    "half of one": lambda p: os.truncate(p, 20000),
    "a link": linked,
    "another's": lambda p: p.write_bytes((p.parents[1] / "keeper/vault.db").read_bytes()),
}


@pytest.mark.parametrize("what", STORES)
def test_without_the_file_of_sandboxes_all_else_is_served(stopped, what):
    before = len(stopped.text_of_log())
    for log in ("exec.db-wal", "exec.db-shm"):
        (stopped.state / "control" / log).unlink(missing_ok=True)
    STORES[what](stopped.state / "control/exec.db")
    stopped.start()
    assert stopped.cli("vault", "list").returncode == 0
    assert "control/exec.db: " in stopped.text_of_log()[before:]


def test_a_state_directory_of_before_gets_what_it_lacks(stopped):
    for path in (stopped.state / "control").iterdir():
        path.unlink()
    (stopped.state / "control").rmdir()
    stopped.start()
    assert (stopped.state / "control/exec.db").stat().st_mode & 0o077 == 0
    assert "exec.db" not in stopped.text_of_log()
