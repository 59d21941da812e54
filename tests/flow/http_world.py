"""One gateway and one origin for the tests of HTTP/1."""
import json

import pytest

from http_line import make


@pytest.fixture(scope="module")
def world():
    gate, origin = make(limits={"connections": 2000, "connections_per_second": 100000, "connections_burst": 100000,
                                "requests_per_second": 1000000, "requests_burst": 1000000, "request_body": "1GiB",
                                "denied_drain": "1MiB"})
    gate.start()
    yield gate, origin
    gate.close()
    origin.close()


@pytest.fixture
def w(world):
    gate, origin = world
    origin.reset()
    pid = gate.pids()["worker.0"]
    yield world
    assert not origin.errors, origin.errors
    assert gate.pids()["worker.0"] == pid, gate.text_of_log()[-2000:]


def code_of(m):
    return json.loads(m.body)["error"]["code"]
