"""`ca_file`: where the docker of an execution server finds the certificates that its sandboxes trust."""
import os
import stat

import pytest

from conftest import wait_for


@pytest.fixture
def place(gate, tmp_path):
    for parent in (tmp_path, *list(tmp_path.parents)[:2]):
        parent.chmod(0o755)

    def start(path, **more):
        server = {"name": "standard", "url": "http://127.0.0.1:9", "key": "k/standard", "endpoints": ["127.0.0.0/8"],
                  "network": "boxes", "ca_file": str(path)}
        config = {"servers": [server], "exec": {"policy": "coding"}, **more}
        return gate(config, listeners=("exec",)), config
    return start, tmp_path


def exported(g):
    return g.cli("ca", "export", check=True).stdout


def test_it_is_there_and_stays_what_the_authority_is(place):
    start, folder = place
    file = folder / "made/ca.pem"  # its folder is made too
    g, config = start(file)
    wait_for(file.exists)
    assert file.read_text() == exported(g) and "PRIVATE" not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    before = file.stat().st_ino
    g.cli("ca", "rotate", "--grace", "1h", check=True)
    wait_for(lambda: file.read_text() == exported(g))
    assert file.read_text().count("BEGIN CERTIFICATE") == 2
    assert file.stat().st_ino != before, "what is mounted somewhere stays as it was"
    assert os.listdir(file.parent) == ["ca.pem"]
    # Another place by a reload.
    other = folder / "other.pem"
    config["servers"][0]["ca_file"] = str(other)
    assert g.reload(config)
    wait_for(other.exists)
    assert other.read_text() == file.read_text()


def test_nobody_else_has_a_hand_in_it(place):
    start, folder = place
    ours, secret = folder / "ours", folder / "secret"
    ours.mkdir(mode=0o755)
    secret.write_text("keep")
    (ours / "ca.pem").symlink_to(secret)
    (ours / ".ca.pem.new").symlink_to(secret)
    g, config = start(ours / "ca.pem")
    wait_for(lambda: not (ours / "ca.pem").is_symlink())
    assert secret.read_text() == "keep" and (ours / "ca.pem").read_text() == exported(g)
    # Who may write there could put another authority in its place.
    theirs = folder / "theirs"
    theirs.mkdir()
    theirs.chmod(0o777)
    config["servers"][0]["ca_file"] = str(theirs / "ca.pem")
    assert g.reload(config)
    wait_for(lambda: "writable by nobody else" in g.text_of_log())
    assert os.listdir(theirs) == []


def test_a_sealed_vault_says_it_when_it_is_opened(place):
    start, folder = place
    file = folder / "ca.pem"
    g, _ = start(file, vault={"master_key": "passphrase"})
    assert not file.exists()
    g.cli("vault", "init", input="one long passphrase\none long passphrase\n", check=True)
    wait_for(file.exists)
    assert file.read_text() == exported(g)
