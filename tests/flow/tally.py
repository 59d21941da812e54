"""What a part of the tests tells the table at the end of a run: what it counted, and what is absent.

    found["secrets"] = 50           # a row of the table
    absent("node", "no parser")     # skips, and says so there; under CI=true it fails
    program("go")                   # its path; absent without it

A conftest.py imports pytest_sessionfinish, which writes the file that SANDGATE_REPORT names.
"""
import importlib.util
import json
import os
import pathlib
import shutil

import pytest

found = {}
# Go's own archive is unpacked to a folder that no PATH names; servers lie in one that only root's names.
PATH = f"{os.environ['PATH']}:/usr/local/go/bin:/usr/sbin"


def pytest_sessionfinish():
    if os.environ.get("SANDGATE_REPORT"):
        pathlib.Path(os.environ["SANDGATE_REPORT"]).write_text(json.dumps(found))


def missing(name, why):
    """For what a fresh machine can have, where a test goes on without it."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"absent: {name}: {why}")
    found[f"absent: {name}"] = str(why)


def absent(name, why):
    missing(name, why)
    pytest.skip(f"ABSENT {name}: {why}")


def find(name):
    """The path of a program, or None."""
    return shutil.which(name, path=PATH)


def program(name):
    return find(name) or absent(name, "it is not installed")


def load(path, name):
    """A module by its path: every folder's conftest has the same name."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
