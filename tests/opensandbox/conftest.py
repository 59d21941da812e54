"""What the tests of OpenSandbox share.

    def test_x(fake):            f = fake(gateway=True); ...; judged when the test ends
    def test_y(real):            real.servers["standard"].url, real.run([...])

SANDGATE_REPORT names the file that counts and absences go to.  Under CI=true the official
server and both SDKs may not be absent.
"""
import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "flow")]

import fake_server  # noqa: E402
import front as fronts  # noqa: E402
import packages  # noqa: E402
import real_stack  # noqa: E402

from tally import absent, found, pytest_sessionfinish  # noqa: E402,F401

@pytest.fixture(scope="session")
def report():
    return found

@pytest.fixture(scope="session")
def shelf():
    """Everything that is brought from registries, side by side: {name: path or Missing}."""
    names = ["venv", "npm"] + ([] if real_stack.why_not() else ["image"])
    return packages.bring(names)


@pytest.fixture
def fake():
    """A maker of fakes; each is judged and closed when the test ends."""
    made = []

    def make(**options):
        made.append(fake_server.FakeServer(**options))
        return made[-1]

    yield make
    for one in made:
        one.close()
    for one in made:
        one.check()


def _fronts():
    """A maker of gateways in front of servers; all are closed when its scope ends."""
    made = []

    def make(servers, **options):
        made.append(fronts.Front(servers, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


front = pytest.fixture(_fronts, name="front")
front_for_all = pytest.fixture(_fronts, name="front_for_all", scope="module")


@pytest.fixture(scope="session")
def real(shelf):
    why = real_stack.why_not()
    for name in ("venv", "npm", "image"):
        if why is None and isinstance(shelf.get(name), packages.Missing):
            why = shelf[name]
    if why is not None:
        absent("real OpenSandbox", why)
    with real_stack.RealStack(runsc=(packages.SHELF / "bin/runsc").exists()) as stack:
        found["high tier"] = stack.isolation
        yield stack


def sdk(shelf, kind, url, key, *flags, around=lambda command: command):
    """The flow of one SDK (or `programs`) against `url`: {"steps": ..., "seconds": ...}."""
    if kind in ("python", "programs"):
        script = {"python": "sdk_flow.py", "programs": "programs_flow.py"}[kind]
        command = [shelf["venv"] / "python", HERE / script, url, key, *flags]
    else:
        command = ["node", HERE / "sdk_flow.mjs", shelf["npm"], url, key, *flags]
    done = subprocess.run(around([str(c) for c in command]), capture_output=True, text=True, timeout=400, check=False,
                          env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)
