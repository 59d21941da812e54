"""A lane is HTTP/2 too: who took a worker over says there what he likes, and every case of h2spec is one of that."""
import ssl
import threading

import pytest

import h2spec
from certificates import make_leaf
from conftest import free_port
from connector_line import HOST, Connector, reply

PORT = free_port()
TRACKER = f"""
  - name: tracker
    hosts: [{HOST}]
    ports: [443, {PORT}]
    auth: {{kind: bearer, secret: tracker/token}}
    allow: [{{methods: [GET, POST], paths: ["/api/**"]}}]
"""


@pytest.fixture
def connector(tmp_path):
    c = Connector(tmp_path, TRACKER, lambda r: reply(body=b"what the system says"))
    yield c
    assert c.is_alive() and c.close() == 0


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return h2spec.build(tmp_path_factory.mktemp("h2spec"))


@pytest.mark.parametrize("way", [h2spec.as_they_come, h2spec.one_by_one, h2spec.together], ids=lambda way: way.__name__)
def test_a_lane_passes_every_case(connector, program, tmp_path, way):
    """To h2spec it is an HTTPS host of the connector's name, behind TLS that ends in the relay."""
    held, one_at_a_time = [], threading.Lock()

    def lane():
        with one_at_a_time:
            status, sock, ends = connector.open_bare()
        assert status == "OK"
        held.append(ends)  # a lane ends with its sandbox's connection
        return sock

    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n127.0.0.79 {HOST}\n")
    wrap = ["unshare", "-rm", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$@"', "h2spec"]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make_leaf(connector.ca, HOST))
    context.set_alpn_protocols(["h2"])
    relay = h2spec.Relay("127.0.0.79", PORT, lane, way, context)
    try:
        passed, failures = h2spec.run(program, PORT, "-h", HOST, "-P", "/api/x", "-t", "-k", wrap=wrap)
    finally:
        relay.close()
    assert passed == h2spec.CASES, failures
    a = connector.lane().call("GET", "/api/after")
    assert (a.status, a.body) == (200, b"what the system says")
