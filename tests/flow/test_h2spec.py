"""Our HTTP/2 is HTTP/2: every case of h2spec, also the strict ones."""
import os
import pathlib
import select
import socket
import ssl
import subprocess
import threading

import h2spec
import pytest

from conftest import BIN, Gate
from tls_world import Authority, Host, tunnel

NAME = "api.example.test"


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

    def __init__(self, address, port, gate, ca):
        self.gate, self.port = gate, port
        self.context = ssl.create_default_context(cafile=ca)
        self.context.set_alpn_protocols(["h2"])
        self.server = socket.create_server((address, port))
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
            host = self.context.wrap_socket(tunnel(self.gate, NAME, self.port), server_hostname=NAME)
        except OSError:
            client.close()
            return
        assert host.selected_alpn_protocol() == "h2"
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
    folder = tmp_path
    for path in (folder, *folder.parents):  # the gateway's own user reads it
        if path.stat().st_uid == os.geteuid() and path != path.parent:
            path.chmod(path.stat().st_mode | 0o055)
    authority = Authority(folder / "authority")
    (folder / "authority").chmod(0o755)
    host = Host(authority.leaf([f"DNS:{NAME}"]))
    gate = Gate({
        "upstream_tls": {"ca_file": str(authority.file)},
        "resolver": {"servers": ["127.0.0.1"], "timeout": "200ms", "tries": 1, "hosts": {NAME: ["127.0.0.1"]}},
        "sandboxes": [{"id": "demo", "source": "127.0.0.1", "user": "alice", "policy": "coding", "trusts_ca": True}],
        "policies": {"coding": {"allow": [
            {"hosts": [NAME], "methods": ["GET", "POST"], "paths": ["/**"], "ports": [host.port],
             "addresses": ["127.0.0.0/8"]}]}}}).start()
    ca = folder / "gateway.pem"
    ca.write_text(gate.cli("ca", "export").stdout)
    relay = Relay("127.0.0.77", host.port, gate, ca)
    hosts = folder / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n127.0.0.77 {NAME}\n")
    yield host.port, ["unshare", "-rm", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$@"', "h2spec"]
    relay.close()
    gate.stop()
    host.close()


def test_a_gateway_that_ends_tls_passes_every_case(program, intercepted):
    port, wrap = intercepted
    passed, failures = h2spec.run(pathlib.Path(program), port, "-h", NAME, "-P", "/v1/x", wrap=wrap)
    h2spec.tell(**{"h2spec cases passed by the gateway": passed})
    assert passed == h2spec.CASES, failures
