import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
FLOW = HERE.parent / "flow"
sys.path[:0] = [str(HERE), str(FLOW)]
from tally import found, load, pytest_sessionfinish  # noqa: E402,F401  (its folder is known only now)

flow = load(FLOW / "conftest.py", "flow_conftest")


def documented(word):
    """The line of docs/CONNECTORS.md that says how to call a client."""
    text = (HERE.parents[1] / "docs/CONNECTORS.md").read_text().split("## What clients need to be told", 1)[1]
    line, = [line for line in text.split("```sh\n", 1)[1].split("```", 1)[0].splitlines() if word in line]
    return ["sh", "-ec", line]


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """house(preset, ...) makes one (house.py); all of a module are closed behind it."""
    from house import House  # which asks this module for things
    made = []

    def make(*words, **kw):
        made.append(House(tmp_path_factory.mktemp("house"), *words, **kw))
        return made[-1]

    yield make
    for one in made:
        one.close()
