"""Tunnels through the whole gateway: dialer, ledger and reload included.

The oracle of what got out is the origin: it writes down whom it has spoken with.
"""
import os
import signal
import socket
import ssl
import threading

import pytest

from conftest import wait_for
from tls_world import read_head, read_refusal
from tunnel_world import NAMES, by_connect, config, echo, open_connect, open_socks, origin, secure  # noqa: F401 (a fixture)


@pytest.mark.parametrize("way", [open_connect, open_socks])
def test_a_tunnel_passes_and_is_told_in_the_ledger(gate, origin, way):
    g = gate(config(origin))
    with secure(origin, way(g, "ok.example.test", origin.port), "ok.example.test") as t:
        echo(t)
    start, = g.wait_rows(kind="tunnel_start")
    end, = g.wait_rows(kind="tunnel_end")
    assert start["host"] == f"ok.example.test:{origin.port}" and start["address"] == f"127.0.0.1:{origin.port}"
    assert end["turn"] == start["id"] and end["bytes_up"] > 0 and end["bytes_down"] > 0
    assert g.cli("audit", "verify").returncode == 0


def test_a_transparent_tunnel_passes_by_the_name_in_the_hello(gate, origin):
    g = gate(config(origin))
    g.write(config(origin, ports=[g.ports["egress"]]))
    assert g.reload()[0] == 200
    # The listener's own port stands for the original one, and nobody listens there.
    before = origin.seen
    with pytest.raises((ssl.SSLError, OSError)):
        secure(origin, socket.create_connection(g.egress), "ok.example.test")
    assert origin.seen == before
    assert g.wait_rows(kind="deny")[0]["host"] == f"ok.example.test:{g.ports['egress']}"


def test_a_refusal_names_an_id_that_why_explains(gate, origin):
    g = gate(config(origin))
    before = origin.seen
    head, error = read_refusal(by_connect(g, "denied.example.test", origin.port))
    assert head.startswith("HTTP/1.1 403 denied_by_policy") and error["code"] == "denied_by_policy"
    g.wait_rows(kind="deny")
    told = g.cli("why", error["id"])
    assert told.returncode == 0 and "denied.example.test" in told.stdout, told
    assert origin.seen == before


def test_a_private_address_is_refused_by_the_dialer_and_told_by_alert(gate, origin):
    g = gate({**config(origin), "resolver": {"servers": ["127.0.0.1"], "timeout": "200ms", "tries": 1,
                                             "hosts": {"nowhere.example.test": ["127.0.0.1"]}}})
    before = origin.seen
    with pytest.raises(ssl.SSLError, match="(?i)access.denied"):
        secure(origin, open_connect(g, "nowhere.example.test", origin.port), "nowhere.example.test")
    assert g.wait_rows(kind="deny")[0]["code"] in ("address_private", "address_self") and origin.seen == before


def test_plain_http_inside_connect_and_in_absolute_form(gate, origin):
    g = gate(config(origin))
    sock = open_connect(g, "ok.example.test", origin.port)
    host = f"ok.example.test:{origin.port}"
    sock.sendall(f"GET /x HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert read_head(sock).startswith("HTTP/1.1 200") and sock.recv(5) == b"plain"
    sock = socket.create_connection(g.proxy, timeout=10)
    sock.sendall(f"GET http://{host}/x HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert read_head(sock).startswith("HTTP/1.1 200") and sock.recv(5) == b"plain"
    # And a tunnel on the same kept connection.
    sock.sendall(f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert read_head(sock).startswith("HTTP/1.1 200 ")
    with secure(origin, sock, "ok.example.test") as t:
        echo(t)


@pytest.mark.parametrize("way", [open_connect, open_socks])
def test_our_own_pages_are_reached_by_every_proxy_protocol(gate, origin, way):
    g = gate(config(origin))
    sock = way(g, "sandgate.internal", 80)
    sock.sendall(b"GET /me HTTP/1.1\r\nHost: sandgate.internal\r\nConnection: close\r\n\r\n")
    assert read_head(sock).startswith("HTTP/1.1 200 ")
    body = b""
    while more := sock.recv(4096):
        body += more
    assert b"demo" in body and g.wait_rows(kind="page")


def test_another_host_inside_connect_is_refused(gate, origin):
    g = gate(config(origin))
    sock = open_connect(g, "ok.example.test", origin.port)
    sock.sendall(f"GET /x HTTP/1.1\r\nHost: too.example.test:{origin.port}\r\n\r\n".encode())
    head, error = read_refusal(sock)
    assert head.startswith("HTTP/1.1 421 ") and error["code"] == "name_mismatch"


def test_a_reload_closes_what_it_forbids_and_nothing_else(gate, origin):
    g = gate(config(origin))
    one, two = (secure(origin, open_connect(g, n, origin.port), n) for n in NAMES[:2])
    echo(one)
    echo(two)
    code, _ = g.reload(config(origin, ["too.example.test"]))
    assert code == 200
    one.settimeout(2)
    with pytest.raises((ssl.SSLError, OSError, AssertionError)):
        echo(one)
    echo(two)
    assert g.wait_rows(kind="tunnel_end")[0]["code"] == "policy_changed"


LOOKS = {
    "methods": {"allow": [{"methods": ["GET"]}]}, "deny": {"allow": [{}], "deny": [{"paths": ["/secret"]}]},
    "connector": {"allow": [], "connectors": ["c"]},
}


@pytest.mark.parametrize("rules", LOOKS.values(), ids=LOOKS)
def test_a_reload_closes_what_it_wants_to_look_into(gate, origin, rules):
    g = gate(config(origin))
    gone, kept = (secure(origin, open_connect(g, n, origin.port), n) for n in NAMES[:2])
    here = {"hosts": ["ok.example.test"], "ports": [origin.port], "addresses": ["127.0.0.0/8"]}
    new = config(origin, hosts=("too.example.test",))
    policy = new["policies"]["coding"]
    policy["allow"] += [{**here, **rule} for rule in rules["allow"]]
    policy["deny"] = [{"hosts": ["ok.example.test"], **rule} for rule in rules.get("deny", [])]
    policy["connectors"] = rules.get("connectors", [])
    new["connectors"] = [{"name": "c", **here, "auth": {"kind": "passthrough"}, "allow": [{"methods": ["GET"]}]}]
    assert g.reload(new)[0] == 200
    gone.settimeout(2)
    with pytest.raises((ssl.SSLError, OSError, AssertionError)):
        echo(gone)
    echo(kept)
    assert g.wait_rows(kind="tunnel_end")[0]["code"] == "policy_changed"


def test_tunnels_outlive_the_dialer(gate, origin):
    g = gate(config(origin))
    t = secure(origin, open_connect(g, "ok.example.test", origin.port), "ok.example.test")
    old = g.pids()["dialer"]
    os.kill(old, signal.SIGKILL)
    echo(t)
    wait_for(lambda: g.pids()["dialer"] not in (0, old))

    def another():
        try:
            with secure(origin, open_connect(g, "too.example.test", origin.port), "too.example.test") as new:
                echo(new)
            return True
        except (ssl.SSLError, OSError):
            return False

    wait_for(another)
    echo(t)


def test_sigterm_waits_for_a_tunnel_until_its_deadline(gate, origin):
    g = gate(config(origin))
    t = secure(origin, open_connect(g, "ok.example.test", origin.port), "ok.example.test")
    g.process.send_signal(signal.SIGTERM)
    echo(t)
    assert g.stop() == 0


@pytest.mark.parametrize("nft", [(), ("--without-nft",)])
def test_a_tcp_rule_is_reached_by_name_from_a_box_though_the_server_speaks_first(gate, nft):
    with socket.create_server(("127.0.0.77", 0)) as server:
        port = server.getsockname()[1]

        def serve():
            conn, _ = server.accept()
            conn.sendall(b"SSH-2.0-hello\r\n")
            conn.close()

        threading.Thread(target=serve, daemon=True).start()
        g = gate({"resolver": {"servers": ["127.0.0.1"], "timeout": "200ms", "tries": 1,
                               "hosts": {"db.example.test": ["127.0.0.77"]}},
                  "policies": {"coding": {"allow": [{"hosts": ["db.example.test"], "ports": [port], "protocol": "tcp",
                                                     "addresses": ["127.0.0.0/8"]}]}}})
        client = f"import socket; print(socket.create_connection(('db.example.test', {port}), 5).recv(99))"
        done = g.cli("exec", "--policy", "coding", *nft, "--", "python3", "-c", client)
        if "refuses user namespaces" in done.stderr and not os.environ.get("CI"):
            pytest.skip(done.stderr)
        assert done.returncode == 0 and "SSH-2.0-hello" in done.stdout, done
        start, = g.wait_rows(kind="tunnel_start")
        assert start["host"] == f"db.example.test:{port}" and start["address"] == f"127.0.0.77:{port}"
