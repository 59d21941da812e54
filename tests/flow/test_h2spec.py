"""Our HTTP/2 is HTTP/2: every case of h2spec, also the strict ones."""
import subprocess

import h2spec
import pytest

from conftest import BIN


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return h2spec.build(tmp_path_factory.mktemp("h2spec"))


@pytest.fixture
def echo():
    """A server that is nothing but our front: whatever fails here is the session's."""
    p = subprocess.Popen([BIN / "h2_echo", "0", "20"], stdout=subprocess.PIPE, text=True)
    yield int(p.stdout.readline())
    p.terminate()
    p.wait()


def test_the_front_by_itself_passes_every_case(program, echo):
    passed, failures = h2spec.run(program, echo)
    h2spec.tell(**{"h2spec cases passed by the front": passed})
    assert passed == h2spec.CASES, failures
