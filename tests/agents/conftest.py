import importlib.util
import json
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OSB = HERE.parent / "opensandbox"
sys.path[:0] = [str(HERE), str(HERE.parent / "flow")]


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


flow = load(HERE.parent / "flow/conftest.py", "flow_conftest")
REPORT = {}


def pytest_sessionfinish():
    if os.environ.get("SANDGATE_REPORT"):
        pathlib.Path(os.environ["SANDGATE_REPORT"]).write_text(json.dumps(REPORT))


def absent(name, why):
    """Skips, and says so in the table; in CI what a fresh machine can have is a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{name}: {why}")
    REPORT[f"absent: {name}"] = str(why)
    pytest.skip(f"{name}: {why}")
