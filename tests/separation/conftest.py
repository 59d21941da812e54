import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
FLOW = HERE.parent / "flow"
sys.path[:0] = [str(HERE), str(FLOW)]
from tally import absent, found, load, pytest_sessionfinish  # noqa: E402,F401  (its folder is known only now)

flow = load(FLOW / "conftest.py", "flow_conftest")
gate = flow.gate
wait_for = flow.wait_for


@pytest.fixture(scope="session", autouse=True)
def privileged():
    if os.geteuid() != 0:
        absent("separation", "needs root, to read the memory of others")
