"""Our HTTP/2 is HTTP/2: every case of h2spec, also the strict ones."""
import pathlib
import subprocess

import h2spec
import pytest

from conftest import BIN
from h2_gate import NAME, H2Gate
from tally import found


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
    found["h2spec cases passed by the front"] = passed
    assert passed == h2spec.CASES, failures


@pytest.fixture
def intercepted(tmp_path):
    """(port, words before h2spec): the name leads to the gateway, which ends TLS there."""
    gate = H2Gate(tmp_path)
    relay = h2spec.Relay("127.0.0.77", gate.host.port, gate.connect)
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n127.0.0.77 {NAME}\n")
    yield gate.host.port, ["unshare", "-rm", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$@"', "h2spec"]
    relay.close()
    gate.stop()


def test_a_gateway_that_ends_tls_passes_every_case(program, intercepted):
    port, wrap = intercepted
    passed, failures = h2spec.run(pathlib.Path(program), port, "-h", NAME, "-P", "/v1/x", wrap=wrap)
    found["h2spec cases passed by the gateway"] = passed
    assert passed == h2spec.CASES, failures
