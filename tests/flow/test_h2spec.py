"""Our HTTP/2 is HTTP/2: every case of h2spec, also the strict ones."""
import pathlib
import select
import socket
import subprocess
import threading

import h2spec
import pytest

from conftest import BIN
from h2_gate import NAME, H2Gate


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


class Relay:
    """Plain bytes in, TLS through the gateway's proxy out: h2spec knows no proxies."""

    def __init__(self, address, gate):
        self.gate = gate
        self.server = socket.create_server((address, gate.host.port))
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self.join, args=(client,), daemon=True).start()

    def join(self, client):
        try:
            host = self.gate.connect()
        except OSError:
            client.close()
            return
        # One thread for both ways: an SSL socket must not be read and written at once.
        while self.pump(client, host):
            pass
        client.close()
        host.close()

    @staticmethod
    def pump(client, host):
        ready = [host] if host.pending() else select.select([client, host], [], [], 10)[0]
        try:
            for source in ready:
                data = source.recv(65536)
                (client if source is host else host).sendall(data)
                if not data:
                    return False
        except OSError:
            return False
        return bool(ready)

    def close(self):
        self.server.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.server.close()


@pytest.fixture
def intercepted(tmp_path):
    """(port, words before h2spec): the name leads to the gateway, which ends TLS there."""
    gate = H2Gate(tmp_path)
    relay = Relay("127.0.0.77", gate)
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n127.0.0.77 {NAME}\n")
    yield gate.host.port, ["unshare", "-rm", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$@"', "h2spec"]
    relay.close()
    gate.stop()


def test_a_gateway_that_ends_tls_passes_every_case(program, intercepted):
    port, wrap = intercepted
    passed, failures = h2spec.run(pathlib.Path(program), port, "-h", NAME, "-P", "/v1/x", wrap=wrap)
    h2spec.tell(**{"h2spec cases passed by the gateway": passed})
    assert passed == h2spec.CASES, failures
