"""What a reload takes up at once, what it closes, and what it can only announce."""
import base64
import hashlib
import socket

import pytest

from conftest import free_port, wait_for
from dns_gate import A, Answer, query
from tls_world import read_head
from tunnel_world import config, echo, origin, secure  # noqa: F401 (a fixture)


def ask(address, name="no.example.test"):
    """The rcode that a DNS listener gives."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        s.connect(address)
        s.send(query(name, A))
        return Answer(s.recv(4096)).rcode


def test_dns_listeners_come_and_go_and_the_process_stays(gate):
    g = gate()
    pids, old = g.pids(), g.dns
    held = socket.create_connection(old, timeout=5)
    g.ports["dns"] = free_port()
    extra = {"name": "more", "kind": "proxy", "address": f"127.0.0.1:{free_port()}"}
    assert g.reload({"listeners": [extra] + g.listeners()})[0] == 200
    assert ask(g.dns) == 3
    with pytest.raises(OSError):
        ask(old)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(old, timeout=5)
    # A connection that was open is served to its end.
    packet = query("no.example.test", A)
    held.sendall(len(packet).to_bytes(2, "big") + packet)
    assert len(held.recv(4096)) > 12
    held.close()
    assert g.pids() == pids
    assert {r["listener"] for r in g.wait_rows(2, kind="deny")} == {"dns"}


@pytest.mark.parametrize("change", [{"workers": 2}, {"admin": {"address": "unix:other.sock"}},
                                    {"state_dir": "/tmp/of-no-gateway"}])
def test_what_needs_a_restart_is_said(gate, change):
    g = gate()
    code, said = g.reload(change)
    key = {"admin": "admin.address"}.get(*change, *change)
    assert (code, said["ok"]) == (200, True)
    line, = said["messages"]
    assert f"warning: `{key}` has changed; that takes effect after a restart" in line
    assert g.reload()[1]["messages"] == []
    assert len(g.pids()) == 6


def test_a_token_that_was_changed_closes_what_it_opened(gate, origin):  # noqa: F811
    def sandboxes(*tokens):
        return {**config(origin), "sandboxes": [
            {"id": name, "policy": "coding", "token_sha256": hashlib.sha256(t.encode()).hexdigest()}
            for name, t in tokens]}

    def tunnel(name, token):
        sock = socket.create_connection(g.proxy, timeout=5)
        host = f"ok.example.test:{origin.port}"
        auth = base64.b64encode(f"{name}:{token}".encode()).decode()
        sock.sendall(f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\nProxy-Authorization: Basic {auth}\r\n\r\n".encode())
        assert read_head(sock).startswith("HTTP/1.1 200 ")
        return secure(origin, sock, "ok.example.test")

    g = gate(sandboxes(("one", "first"), ("two", "second")))
    one, two = tunnel("one", "first"), tunnel("two", "second")
    # Only another order: both go on, each as who it is.
    assert g.reload(sandboxes(("two", "second"), ("one", "first")))[0] == 200
    echo(one)
    echo(two)
    assert g.reload(sandboxes(("two", "second"), ("one", "third")))[0] == 200
    echo(two)
    with pytest.raises((OSError, AssertionError)):
        echo(one)
    end, = g.wait_rows(kind="tunnel_end")
    assert (end["sandbox"], end["code"]) == ("one", "policy_changed")
    with pytest.raises(AssertionError):
        tunnel("one", "first")
    tunnel("one", "third").close()
    wait_for(lambda: len(g.rows(kind="tunnel_end")) == 2)
