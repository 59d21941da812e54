"""Sandboxes that come and go by address while the gateway runs, and what narrows them."""
import http.client
import json
import os
import signal
import socket
import ssl
import struct

import pytest

from conftest import wait_for
from fake_dns import encode_name
from test_connector_whole import HOST as COMPANY, SECRET, Whole
from tls_world import read_head, read_refusal
from tunnel_world import config as tunnel_config, echo, origin, secure  # noqa: F401

HERE, THERE, DEMO = "127.0.0.9", "127.0.0.10", "127.0.0.7"
NXDOMAIN = 3


def config(origin, **more):
    """The static sandbox isn't at the origin's address: nobody reaches another sandbox."""
    return {**tunnel_config(origin, **more),
            "sandboxes": [{"id": "demo", "source": DEMO, "user": "alice", "policy": "coding"}]}


def world(gate, origin, **more):
    return gate({**config(origin), **more})


def register(g, ident="box", source=HERE, policy="coding", narrow=None, **more):
    return g.admin("POST", "/v1/register", {"id": ident, "sources": [source] if isinstance(source, str) else source,
                                            "policy": policy, "narrow": narrow, "user": "carol", **more})


def connect(at, source=HERE):
    return socket.create_connection(at, timeout=10, source_address=(source, 0))


def by_connect(g, origin, host="ok.example.test", source=HERE):
    sock = connect(g.proxy, source)
    sock.sendall(f"CONNECT {host}:{origin.port} HTTP/1.1\r\nHost: {host}:{origin.port}\r\n\r\n".encode())
    return sock


def code(g, origin, host="ok.example.test", source=HERE):
    """What CONNECT says: "200", or the code of a refusal."""
    with by_connect(g, origin, host, source) as sock:
        head = read_head(sock)
        if head.startswith("HTTP/1.1 200 "):
            return "200"
        assert " 403 " in head.split("\r\n")[0], head
        return head.split(" ")[2].split("\r\n")[0]


def plain(g, origin, source=HERE):
    """The same of a plain request, for which the host is dialled before it is answered."""
    c = http.client.HTTPConnection(*g.proxy, timeout=10, source_address=(source, 0))
    c.request("GET", f"http://ok.example.test:{origin.port}/")
    said = c.getresponse()
    body = said.read()
    c.close()
    return "200" if said.status == 200 else json.loads(body)["error"]["code"]


def tunnel(g, origin, host="ok.example.test", source=HERE):
    sock = by_connect(g, origin, host, source)
    assert read_head(sock).startswith("HTTP/1.1 200 ")
    made = secure(origin, sock, host)
    echo(made)
    return made


def is_closed(sock):
    sock.settimeout(2)
    try:
        echo(sock)
        return False
    except (ssl.SSLError, OSError, AssertionError):
        return True


def ask_dns(g, name, source=HERE):
    """(rcode, number of answers)"""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind((source, 0))
        s.settimeout(5)
        s.sendto(struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0) + encode_name(name) + struct.pack("!2H", 1, 1), g.dns)
        said = s.recv(4096)
    return said[3] & 15, struct.unpack("!H", said[6:8])[0]


def page(g, path, source=HERE):
    c = http.client.HTTPConnection(*g.proxy, timeout=10, source_address=(source, 0))
    c.request("GET", f"http://sandgate.internal{path}")
    body = json.loads(c.getresponse().read())
    c.close()
    return body


def test_one_that_is_registered_reaches_what_its_policy_says_until_it_is_not(gate, origin):
    g = world(gate, origin)
    assert code(g, origin) == "unknown_sandbox" and ask_dns(g, "ok.example.test")[0] == 5
    said = g.cli("register", "--sandbox", "box", "--source", f"{HERE},fd00::9", "--policy", "coding", "--user", "carol")
    assert said.returncode == 0 and said.stdout == "registered box\n", said
    t = tunnel(g, origin)
    assert code(g, origin, "denied.example.test") == "denied_by_policy"
    assert page(g, "/me")["user"] == "carol" and "narrowed" not in page(g, "/policy")
    one, = [s for s in g.admin("GET", "/v1/sandboxes")[1]["sandboxes"] if s["id"] == "box"]
    assert one["source"] == [HERE, "fd00::9"] and one["policy"] == "coding" and one["narrow"] is None
    assert g.wait_rows(kind="attach")[0]["sandbox"] == "box"
    assert g.wait_rows(kind="tunnel_start")[0]["user"] == "carol"

    assert g.cli("unregister", "--sandbox", "box").stdout == "unregistered box\n"
    assert is_closed(t) and code(g, origin) == "unknown_sandbox"
    assert ask_dns(g, "ok.example.test")[0] == 5
    said = g.cli("register", "--sandbox", "box", "--source", HERE, "--policy", "codin")
    assert said.stderr == "sandgate: no_policy: the gateway that runs has no policy `codin`\n" and said.returncode == 1
    again = g.cli("unregister", "--sandbox", "box")
    assert again.returncode == 1 and "no sandbox `box` is registered" in again.stderr
    assert g.wait_rows(kind="detach")[0]["sandbox"] == "box"


def test_what_narrows_it_is_refused_in_every_way_and_told(gate, origin, tmp_path):
    g = world(gate, origin)
    g.write(config(origin, ports=[g.ports["egress"]]))
    assert g.reload()[0] == 200
    text = tmp_path / "narrow"
    text.write_text("default deny\nallow *.example.test\ndeny ok.example.test\n")
    said = g.cli("register", "--sandbox", "box", "--source", HERE, "--policy", "coding", "--narrow", text)
    assert said.returncode == 0, said
    assert code(g, origin) == "200"  # the first rule that matches decides
    # What only it allows is still denied.
    g.admin("POST", "/v1/narrow", {"id": "box", "narrow": "default deny\nallow denied.example.test\n"
                                                           "deny ok.example.test\nallow *.example.test\n"})
    assert code(g, origin, "too.example.test") == "200"
    assert code(g, origin, "denied.example.test") == "denied_by_policy"
    assert code(g, origin, "ok.example.test") == "narrowed"
    head, error = read_refusal(by_connect(g, origin))
    assert error["code"] == "narrowed" and "made with" in error["message"]
    # SOCKS
    with connect(g.proxy) as s:
        host = b"ok.example.test"
        s.sendall(b"\x05\x01\x00\x05\x01\x00\x03" + bytes([len(host)]) + host + struct.pack("!H", origin.port))
        assert s.recv(2) == b"\x05\x00" and s.recv(10)[1] == 2
    # The name of a TLS hello, at the transparent listener
    with pytest.raises((ssl.SSLError, OSError)):
        secure(origin, connect(g.egress), "ok.example.test")
    # DNS
    assert ask_dns(g, "ok.example.test") == (NXDOMAIN, 0)
    assert ask_dns(g, "too.example.test") == (0, 1)
    rows = g.wait_rows(3, code="narrowed")
    assert {r["kind"] for r in rows} == {"deny"} and all(r["sandbox"] == "box" for r in rows)
    assert {r["listener"] for r in rows} == {"proxy", "egress", "dns"}
    told = page(g, "/policy")["narrowed"]
    assert told["default"] == "deny" and told["rules"][1] == {"deny": "ok.example.test"}
    why = g.cli("why", error["id"])
    assert "networkPolicy" in why.stdout, why
    # Nobody else is narrowed by it.
    assert code(g, origin, source=DEMO) == "200"

    text.write_text("default allow\ndeny ok.example.test\n")
    url = f"https://ok.example.test:{origin.port}/"
    said = g.cli("explain", "--policy", "coding", "--narrow", text, url)
    assert said.returncode == 1 and "narrowed     yes" in said.stdout and "denied" in said.stdout, said
    assert g.cli("explain", "--policy", "coding", url).returncode == 0


def test_an_address_that_it_denies_is_not_dialled(gate, origin):
    g = world(gate, origin)
    before = origin.seen
    assert register(g, narrow="default allow\ndeny 127.0.0.0/8\n")[0] == 200
    assert plain(g, origin) == "narrowed" and origin.seen == before
    assert ask_dns(g, "ok.example.test")[1] == 0
    assert g.admin("POST", "/v1/narrow", {"id": "box", "narrow": "default allow\nallow 127.0.0.1\ndeny 127.0.0.0/8\n"})[0] == 200
    assert plain(g, origin) == "200" and ask_dns(g, "ok.example.test") == (0, 1)
    # A connection to the host that was kept is not used any more.
    before = origin.seen
    assert g.admin("POST", "/v1/narrow", {"id": "box", "narrow": "default allow\ndeny 127.0.0.1\n"})[0] == 200
    assert plain(g, origin) == "narrowed" and origin.seen == before


def test_another_narrowing_closes_what_it_forbids_and_nothing_else(gate, origin):
    g = world(gate, origin)
    assert register(g, narrow="default allow\n")[0] == 200
    gone, stays = (tunnel(g, origin, n) for n in ("ok.example.test", "too.example.test"))
    other = tunnel(g, origin, source=DEMO)
    assert ask_dns(g, "ok.example.test") == (0, 1)
    assert g.admin("POST", "/v1/narrow", {"id": "box", "narrow": "default deny\nallow too.example.test\n"})[0] == 200
    assert is_closed(gone)
    assert g.wait_rows(kind="tunnel_end")[0]["code"] == "policy_changed"
    echo(stays)
    echo(other)
    assert code(g, origin) == "narrowed" and ask_dns(g, "ok.example.test") == (NXDOMAIN, 0)
    assert g.wait_rows(kind="attach", detail="changed")
    # As wide as before: that it was narrower is forgotten.
    assert g.admin("POST", "/v1/narrow", {"id": "box", "narrow": None})[0] == 200
    assert code(g, origin) == "200"
    assert g.admin("POST", "/v1/narrow", {"id": "none", "narrow": None})[0] == 404


def test_a_tunnel_to_an_address_that_is_denied_now_is_closed(gate, origin):
    g = world(gate, origin)
    assert register(g, narrow="default allow\n")[0] == 200
    t = tunnel(g, origin)
    assert g.admin("POST", "/v1/narrow", {"id": "box", "narrow": "default allow\ndeny 10.0.0.0/8\n"})[0] == 200
    echo(t)
    assert g.admin("POST", "/v1/narrow", {"id": "box", "narrow": "default allow\ndeny 127.0.0.0/8\n"})[0] == 200
    assert is_closed(t)


@pytest.fixture
def whole(gate, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    for parent in (folder, *list(folder.parents)[:2]):
        parent.chmod(0o755)
    w = Whole(gate, folder)
    w.config["sandboxes"][0]["source"] = DEMO
    assert w.g.reload(w.config)[0] == 200
    yield w
    w.system.close()


def test_a_connectors_host_is_narrowed_too_and_its_websockets_end(whole):
    g = whole.g

    def ask():
        return whole.curl("/api/x", "--interface", HERE).stdout

    assert register(g, trusts_ca=True)[0] == 200
    assert " 200" in ask() and whole.seen() == ["Bearer " + SECRET]
    assert g.admin("POST", "/v1/narrow", {"id": "box", "narrow": f"default deny\nallow {COMPANY}\n"})[0] == 200
    assert " 200" in ask()  # where the connector calls is none of the sandbox's names
    s = connect(g.proxy)
    s.sendall(("CONNECT %s:443 HTTP/1.1\r\nHost: %s:443\r\n\r\n" % (COMPANY, COMPANY)).encode())
    assert s.recv(65536).startswith(b"HTTP/1.1 200")
    s = ssl.create_default_context(cafile=whole.ca).wrap_socket(s, server_hostname=COMPANY)
    s.sendall(("GET /api/ws HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
               "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" % COMPANY).encode())
    assert b" 101 " in s.recv(65536)
    before = len(whole.seen())
    assert g.admin("POST", "/v1/narrow", {"id": "box", "narrow": f"default allow\ndeny {COMPANY}\n"})[0] == 200
    s.settimeout(5)
    try:
        while s.recv(65536):
            pass
    except (ssl.SSLError, ConnectionError):
        pass
    assert "narrowed" in ask() and len(whole.seen()) == before
    # Those that use its credential know it again too.
    assert g.admin("POST", "/v1/narrow", {"id": "box", "narrow": f"default deny\nallow {COMPANY}\n"})[0] == 200
    for role in [r for r in g.pids() if r.startswith(("connector", "keeper"))]:
        old = g.pids()[role]
        os.kill(old, signal.SIGKILL)
        wait_for(lambda: g.pids()[role] not in (0, old))
    wait_for(lambda: " 200" in ask())


def test_registered_again_it_is_what_was_said_last(gate, origin):
    g = world(gate, origin, policies={**config(origin)["policies"], "none": {"allow": []}})
    handle = register(g)[1]["handle"]
    t = tunnel(g, origin)
    assert register(g, source=THERE)[1]["handle"] == handle
    assert is_closed(t) and code(g, origin) == "unknown_sandbox" and code(g, origin, source=THERE) == "200"
    t = tunnel(g, origin, source=THERE)
    assert register(g, source=THERE, policy="none")[0] == 200
    assert is_closed(t) and code(g, origin, source=THERE) == "denied_by_policy"


def test_nobody_takes_the_address_or_the_name_of_another(gate, origin):
    g = world(gate, origin)
    assert register(g, source=DEMO)[0] == 409 and register(g, "demo")[0] == 409
    assert register(g, source=f"::ffff:{DEMO}")[0] == 409
    assert register(g)[0] == 200 and register(g, "other")[0] == 409
    assert register(g, "other", [THERE, HERE])[0] == 409 and code(g, origin, source=THERE) == "unknown_sandbox"
    assert register(g, "box", DEMO)[0] == 409 and code(g, origin) == "200"
    for source in ("0.0.0.0", "224.0.0.1", "not an address", "", []):
        assert register(g, "x", source)[0] == 400, source
    assert register(g, "no name")[0] == 400 and register(g, "x", policy="nope")[0] == 403
    assert register(g, "x", THERE, narrow="allow everything")[0] == 400
    assert register(g, "x", THERE, narrow=5)[0] == 400
    # A configuration that has the address takes it; gone from there, it is the other's again.
    new = config(origin)
    new["sandboxes"] = [{"id": "static", "source": HERE, "policy": "coding", "user": "s"}]
    t = tunnel(g, origin)
    assert g.reload(new)[0] == 200 and is_closed(t) and page(g, "/me")["sandbox"] == "static"
    assert g.reload(config(origin))[0] == 200 and page(g, "/me")["sandbox"] == "box"


def test_sandboxes_do_not_reach_each_other_through_the_gateway(gate, origin):
    c = config(origin)
    c["resolver"]["hosts"]["ok.example.test"] = [THERE]
    g = gate(c)
    assert register(g)[0] == register(g, "peer", THERE)[0] == 200
    assert plain(g, origin) == "address_self"


@pytest.mark.parametrize("role", ["worker.0", "dialer", "dns", "control", "ledger"])
def test_a_role_that_dies_knows_it_again(gate, origin, role):
    g = world(gate, origin)
    assert register(g, narrow="default deny\nallow ok.example.test\n")[0] == 200
    old = g.pids()[role]
    os.kill(old, signal.SIGKILL)

    def is_back():
        try:
            return g.pids()[role] not in (0, old)
        except (OSError, http.client.HTTPException, ValueError):
            return False

    wait_for(is_back)

    def passes():
        try:
            return code(g, origin) == "200"
        except (OSError, AssertionError):
            return False

    wait_for(passes)
    assert code(g, origin, "too.example.test") == "narrowed"
    assert ask_dns(g, "ok.example.test") == (0, 1) and ask_dns(g, "too.example.test") == (NXDOMAIN, 0)
    assert g.cli("unregister", "--sandbox", "box").returncode == 0
    assert code(g, origin) == "unknown_sandbox"


def test_many_come_and_a_worker_that_dies_knows_all_of_them(gate, origin):
    g = world(gate, origin)
    narrow = "default deny\n" + "".join(f"allow h{i}.example.test\n" for i in range(400)) + "allow ok.example.test\n"
    for i in range(300):
        said, body = register(g, f"box{i}", f"127.1.{i // 250}.{1 + i % 250}", narrow=narrow)
        while said == 429:
            said, body = register(g, f"box{i}", f"127.1.{i // 250}.{1 + i % 250}", narrow=narrow)
        assert said == 200, (i, body)
    for role in ("worker.0", "dialer", "dns"):
        old = g.pids()[role]
        os.kill(old, signal.SIGKILL)
        wait_for(lambda: g.pids()[role] not in (0, old))
    for i in (0, 299):
        source = f"127.1.{i // 250}.{1 + i % 250}"
        assert code(g, origin, source=source) == "200" and code(g, origin, "too.example.test", source) == "narrowed"
