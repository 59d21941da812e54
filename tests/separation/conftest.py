import importlib.util
import json
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
FLOW = HERE.parent / "flow"
sys.path[:0] = [str(HERE), str(FLOW)]


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


flow = load(FLOW / "conftest.py", "flow_conftest")
gate = flow.gate
wait_for = flow.wait_for
absent, counts = {}, {}


@pytest.fixture(scope="session", autouse=True)
def report():
    yield
    path = os.environ.get("SANDGATE_REPORT")
    if path:
        pathlib.Path(path).write_text(json.dumps({**counts, **{f"absent {k}": v for k, v in absent.items()}}))


@pytest.fixture(scope="session", autouse=True)
def privileged():
    if os.geteuid() != 0:
        absent["separation"] = "needs root, to read the memory of others"
        pytest.skip(absent["separation"])
