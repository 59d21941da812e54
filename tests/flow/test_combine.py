"""Every protocol of a client with every protocol of a host: HTTP/1.1 or HTTP/2 inside TLS that
is ended here, to a host that speaks one or the other, directly or by way of a connector."""
import pytest

from combine_world import FAR, OK, Inside, World, prior, proxy
from conftest import wait_for


@pytest.fixture(scope="module")
def world():
    w = World()
    yield w
    w.close()


WAYS = [(c, h, n) for c in ("h1", "h2") for h in ("h1", "h2") for n in (OK, FAR)]
each = pytest.mark.parametrize("speaks,host,name", WAYS, ids=lambda v: {OK: "direct", FAR: "lane"}.get(v, v))


@each
def test_requests_and_answers_pass(world, speaks, host, name):
    c = world.client(speaks, host, name)
    for i in range(3):
        r = c.ask(path=f"/a/{i}?q=1")
        assert (r.status, r.body) == (200, f"GET /a/{i}?q=1 0".encode())
        assert not [k for k in r.fields if k.startswith("sandgate-")]
    r = c.ask("HEAD", "/h")
    assert (r.status, r.body, r.fields["content-length"]) == (200, b"", str(len("HEAD /h 0")))
    assert world.hosts[host].requests[-1][:3] == (host, "HEAD", "/h")


@each
def test_bodies_and_trailers_pass_both_ways(world, speaks, host, name):
    c = world.client(speaks, host, name)
    body = bytes(i * 7 % 251 for i in range(700_000))
    assert c.ask("POST", "/up", body).body == b"POST /up 700000"
    assert world.hosts[host].requests[-1][3] == body
    assert c.ask("PUT", "/t", body[:70_000], trailers=[("x-end", "yes")]).body == b"PUT /t 70000"
    got = {k.lower(): v for k, v in world.hosts[host].requests[-1][4].items()}
    assert got.get("x-end") == "yes"
    r = c.ask(path="/stream")
    assert (len(r.body), r.trailers.get("x-sum")) == (64 * 65536, "64")


@each
def test_interim_heads_pass(world, speaks, host, name):
    r = world.client(speaks, host, name).ask(path="/early")
    assert (r.interim, r.body) == (["103"], b"GET /early 0")


@each
def test_a_refusal_is_told_inside(world, speaks, host, name):
    c = world.client(speaks, host, name)
    r = c.ask("DELETE", "/x")
    assert r.status == 403 and b'"code"' in r.body and "proxy-status" in r.fields
    assert c.ask(path="/after").status == 200
    if name == OK:
        assert c.ask(path="/never/x").status == 403


@each
def test_another_authority_is_misdirected(world, speaks, host, name):
    c = world.client(speaks, host, name)
    assert c.ask(authority="other.example.test").status == 421


@pytest.mark.parametrize("host", ["h1", "h2"])
@pytest.mark.parametrize("name", [OK, FAR], ids=["direct", "lane"])
def test_many_requests_share_a_connection(world, host, name):
    c = world.client("h2", host, name)
    ids = [c.send(path=f"/m/{i}") for i in range(50)]
    for i, sid in enumerate(ids):
        assert c.take(sid).body == f"GET /m/{i} 0".encode()


@pytest.mark.parametrize("name", [OK, FAR], ids=["direct", "lane"])
def test_a_stalled_stream_does_not_hold_its_neighbours(world, name):
    c = world.client("h2", "h2", name)
    # Nothing of these is acknowledged, so their windows close.
    acknowledge, c.conn.acknowledge_received_data = c.conn.acknowledge_received_data, lambda *a: None
    held = [c.send(path="/stream") for _ in range(8)]
    r = c.ask(path="/quick")
    assert r.body == b"GET /quick 0"
    c.conn.acknowledge_received_data = acknowledge
    assert not any(c.replies[s].is_over for s in held)


@pytest.mark.parametrize("name", [OK, FAR], ids=["direct", "lane"])
def test_rows_tell_the_way(world, name):
    c = world.client("h2", "h2", name)
    assert c.ask(path="/row").status == 200
    rows = wait_for(lambda: [r for r in world.gate.rows(kind="response") if r["path"] == "/row" and name in r["host"]])
    assert rows[-1]["http_status"] == 200
    assert rows[-1].get("connector") == (None if name == OK else "tracker") or rows[-1].get("connector") == ""


HANDSHAKE = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13"),
             ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]


@pytest.mark.parametrize("name", [OK, FAR], ids=["direct", "lane"])
def test_websockets_pass_from_http1(world, name):
    c = world.client("h1", "h1", name)
    r = c.ask(path="/ws", fields=HANDSHAKE)
    assert (r.status, r.fields["sec-websocket-accept"]) == (101, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    c.send(b"echo" * 1000)
    assert c.exactly(4000) == b"echo" * 1000


@pytest.mark.parametrize("name", [OK, FAR], ids=["direct", "lane"])
def test_websockets_pass_from_http2_and_share_its_connection(world, name):
    c = world.client("h2", "h1", name)
    one, two = c.websocket(), c.websocket()
    assert c.replies[one].status == c.replies[two].status == 200
    c.push(one, b"one")
    c.push(two, b"two")
    assert (c.wait(two, 3), c.wait(one, 3)) == (b"two", b"one")
    assert c.ask(path="/beside").body == b"GET /beside 0"


@pytest.mark.parametrize("name", [OK, FAR], ids=["direct", "lane"])
@pytest.mark.parametrize("host, cold, warm", [("h1", "h1", "h1"), ("both", "h1", "h2"), ("deaf", "h1", "h1")])
@pytest.mark.parametrize("speaks", ["h1", "h2"])
def test_websockets_take_the_way_that_the_host_has_announced(world, name, host, cold, warm, speaks):
    """RFC 8441 where a connection is there that has said so, HTTP/1.1 everywhere else."""
    world.gate.reload()  # no connection of the tests before
    world.hosts[host].requests.clear()
    for want, path in ((cold, "/cold"), (warm, "/warm")):
        c = world.client(speaks, host, name)
        if path == "/warm":
            assert c.ask(path="/before").body == b"GET /before 0"
        if speaks == "h1":
            r = c.ask(path=path, fields=HANDSHAKE)
            assert (r.status, r.fields["sec-websocket-accept"]) == (101, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
            c.send(b"echo" * 1000)
            assert c.exactly(4000) == b"echo" * 1000
        else:
            sid = c.websocket(path)
            assert c.replies[sid].status == 200
            c.push(sid, b"echo" * 1000)
            assert c.wait(sid, 4000) == b"echo" * 1000
            assert c.ask(path="/beside").body == b"GET /beside 0"
        assert (want, "WS", path, b"", {}) in world.hosts[host].requests


@pytest.mark.parametrize("name", [OK, FAR], ids=["direct", "lane"])
def test_a_websocket_over_http2_ends_alone(world, name):
    world.gate.reload()
    c = world.client("h2", "both", name)
    c.ask(path="/before")
    one, two = c.websocket(), c.websocket()
    c.push(two, b"two")
    assert c.wait(two, 3) == b"two"
    c.conn.end_stream(one)
    c.flush()
    assert not c.take(one).is_reset
    c.push(two, b"more")
    assert c.wait(two, 4) == b"more"
    assert c.ask(path="/after").body == b"GET /after 0"


def test_http2_needs_no_tls(world):
    c = prior(world)
    assert c.ask(path="/p", scheme="http").body == b"GET /p 0"
    assert c.ask("DELETE", "/p", scheme="http").status == 403
    assert c.ask(path="/p", scheme="https").status == 421
    assert c.ask(path="/p", scheme="http", authority="other.example.test").status == 421


def test_the_proxy_listener_takes_http2(world):
    c = proxy(world)
    port = world.hosts["plain"].port
    assert c.ask(path="/a", scheme="http", authority=f"{OK}:{port}").body == b"GET /a 0"
    r = c.ask(path="/a", scheme="http", authority="denied.example.test")
    assert r.status == 403 and r.fields["proxy-status"].startswith("sandgate;")
    assert c.ask(path="/me", scheme="http", authority="sandgate.internal").status == 200


def test_connect_over_http2_carries_what_any_connect_does(world):
    c = proxy(world)
    port = world.hosts["plain"].port
    sid = c.connect(f"{OK}:{port}")
    assert c.replies[sid].status == 200
    c.push(sid, f"GET /inside HTTP/1.1\r\nHost: {OK}:{port}\r\n\r\n".encode())
    assert c.wait(sid, 15) == b"HTTP/1.1 200 OK"
    for host in ("h1", "h2"):
        port = world.hosts[host].port
        sid = c.connect(f"{OK}:{port}")
        inside = Inside(c, sid, world)
        assert inside.ask("/tls", port).endswith(b"GET /tls 0")
    assert c.ask(path="/beside", scheme="http", authority=f"{OK}:{world.hosts['plain'].port}").status == 200


def test_connect_over_http2_is_judged(world):
    c = proxy(world)
    sid = c.connect("denied.example.test:443")
    r = c.take(sid)
    assert r.status == 403 and b"denied_by_policy" in r.body
    wait_for(lambda: [x for x in world.gate.rows(kind="deny") if x["host"] == "denied.example.test:443"])
    # What runs inside must be for the target of its own CONNECT.
    port = world.hosts["plain"].port
    sid = c.connect(f"{OK}:{port}")
    c.push(sid, f"GET / HTTP/1.1\r\nHost: other.example.test:{port}\r\n\r\n".encode())
    assert c.wait(sid, 12) == b"HTTP/1.1 421"


def test_a_passage_ends_with_its_stream(world):
    before = world.gate.counter("open")
    c = proxy(world)
    port = world.hosts["plain"].port
    ids = [c.connect(f"{OK}:{port}") for _ in range(5)]
    wait_for(lambda: world.gate.counter("open") == before + 6)
    for sid in ids[:3]:
        c.conn.reset_stream(sid)
    c.conn.end_stream(ids[3])
    c.flush()
    wait_for(lambda: world.gate.counter("open") == before + 2)
    c.sock.close()
    wait_for(lambda: world.gate.counter("open") == before)
