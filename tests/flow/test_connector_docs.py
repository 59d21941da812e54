"""The documents in docs/CONNECTORS.md are what they are said to be."""
import pathlib
import re
import subprocess

import pytest

from conftest import BIN

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/CONNECTORS.md").read_text()
LISTS = [b for b in re.findall(r"```yaml\n(.*?)```", TEXT, re.S) if not b.startswith("connectors:")]


@pytest.mark.parametrize("number", range(len(LISTS)))
def test_a_list_of_connectors_is_right(tmp_path, number):
    file = tmp_path / "all.yaml"
    file.write_text(LISTS[number])
    done = subprocess.run([BIN / "sandgate", "connectors", "lint", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_is_one_of_each_kind():
    kinds = re.findall(r'^AUTH\(\w+, "(\w+)"', (ROOT / "conf/auth_kinds.def").read_text(), re.M)
    shown = set(re.findall(r"kind: (\w+)", "".join(LISTS)))
    assert shown == set(kinds)
    for kind in kinds:
        assert f"| `{kind}`" in TEXT or f"`{kind}`" in TEXT.split("| kind |")[1].split("\n\n")[0]
