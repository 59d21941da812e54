"""What `cmake --install` leaves runs from where it lies."""
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from conftest import BIN

ROLES = {"super", "compile", "worker", "dns", "dialer", "ledger", "keeper", "control", "connector", "locator"}


@pytest.fixture(scope="module")
def prefix():
    if not (BIN.parent / "cmake_install.cmake").exists():
        pytest.skip("these executables lie in no build folder")
    # The roles' user must be able to get there: pytest's own folders are closed to others.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sandgate-install-"))
    folder.chmod(0o755)
    subprocess.run(["cmake", "--install", BIN.parent, "--prefix", folder], check=True, capture_output=True)
    yield folder
    shutil.rmtree(folder)


def test_all_roles_and_papers_are_there(prefix):
    assert {p.name for p in (prefix / "bin").iterdir()} == {"sandgate"}
    assert {p.name for p in (prefix / "libexec/sandgate").iterdir()} == {f"sandgate-{r}" for r in ROLES}
    for name in ("man/man1/sandgate.1", "man/man5/sandgate.yaml.5", "sandgate/sandgate.schema.json",
                 "sandgate/examples/sandgate.yaml", "doc/sandgate/README.md", "doc/sandgate/docs/THREATS.md"):
        assert (prefix / "share" / name).stat().st_size > 0


def test_the_roles_are_found_from_there(prefix):
    done = subprocess.run([prefix / "bin/sandgate", "exec", "--allow", "example.test", "--", "sh", "-c", "exit 7"],
                          capture_output=True, text=True, timeout=60, cwd="/")
    assert done.returncode == 7, done.stderr


def test_the_example_is_good_where_it_is_put(prefix):
    done = subprocess.run([prefix / "bin/sandgate", "check", "--werror", "-c",
                           prefix / "share/sandgate/examples/sandgate.yaml"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_unit_names_what_was_installed(prefix):
    unit = (prefix / "lib/systemd/system/sandgate.service").read_text()
    started = [line.partition("=")[2].split()[0] for line in unit.splitlines() if line.startswith(("ExecStart=", "ExecReload="))]
    assert started == [str(prefix / "bin/sandgate")] * 2 and os.access(started[0], os.X_OK)
    if shutil.which("systemd-analyze"):
        subprocess.run(["systemd-analyze", "--man=no", "verify", prefix / "lib/systemd/system/sandgate.service"],
                       check=True, timeout=60)
