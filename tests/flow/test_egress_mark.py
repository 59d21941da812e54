"""egress_mark: what the gateway sends and listens on carries a packet mark."""
import os
import re
import socket
import subprocess

import pytest

from conftest import Gate
from fake_dns import FakeDns

MARK, NOBODY = 0x5347, 65534
NET_ADMIN = 1 << 12

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a mark needs root")


def marks(*which):
    """{(local port, peer port): mark} of this machine's sockets."""
    said = subprocess.run(["ss", "-Hne", *which], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in said.splitlines():
        ports = [int(p) if p.isdigit() else 0 for p in re.findall(r":(\d+|\*)\s", line)[:2]]
        mark = re.search(r"fwmark:(0x[0-9a-f]+)", line)
        found[tuple(ports)] = int(mark[1], 16) if mark else 0
    return found


def capabilities(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"CapEff:\s*(\S+)", status.read())[1], 16)


def config(port, mark):
    return {"egress_mark": mark, "resolver": {"servers": [f"127.0.0.1:{port}"]},
            "policies": {"coding": {"allow": [{"hosts": ["ok.example.test"], "ports": ["1-65535"], "addresses": ["127.0.0.0/8"]}]}}}


@pytest.mark.parametrize("mark", [MARK, 0])
def test_connections_and_listeners_carry_the_mark_and_one_role_may_set_it(gate, mark):
    origin = socket.create_server(("127.0.0.1", 0))
    with FakeDns({"ok.example.test": {"A": ["127.0.0.1"]}}) as dns:
        g = gate(config(dns.port, mark))
        port = origin.getsockname()[1]
        with socket.create_connection(g.proxy, timeout=10) as client:
            client.sendall(f"GET http://ok.example.test:{port}/ HTTP/1.1\r\nHost: ok.example.test:{port}\r\n\r\n".encode())
            origin.settimeout(10)
            upstream, _ = origin.accept()
            ours = [m for (_, peer), m in marks("-t").items() if peer == port]
            assert ours == [mark]
            assert {m for (_, peer), m in marks("-u").items() if peer == dns.port} <= {mark}
            assert {m for (local, _), m in marks("-tl").items() if local in g.ports.values()} == {mark}
        kept = {name: capabilities(pid) for name, pid in g.pids().items()}
        assert kept.pop("dialer") == (NET_ADMIN if mark else 0)
        assert set(kept.values()) == {0}
        upstream.close()
        # A reload gives no capability; what can't be done is refused and changes nothing.
        if not mark:
            g.write(config(dns.port, MARK))
            assert g.cli("reload").returncode != 0
            assert "egress_mark needs CAP_NET_ADMIN" in g.text_of_log()
    origin.close()


def test_without_the_capability_it_says_so(tmp_path):
    g = Gate({"egress_mark": MARK}, user=NOBODY)
    try:
        with pytest.raises(AssertionError, match="egress_mark needs CAP_NET_ADMIN"):
            g.start()
    finally:
        g.close()
