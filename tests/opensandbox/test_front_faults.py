"""Servers that fail, lie, break off and come back; and processes of ours that are killed in the
middle of creates: no sandbox is left behind and none is given away twice.

Not here, for it takes minutes: a create is waited for ten of them (BRAIN_CREATE_MS).
"""
import concurrent.futures
import json
import os
import re
import signal
import socket
import threading
import time

import fake_server
import front as fronts
import pytest
from judge import Fault, hostile
from raw import PROXY, Raw, made, only

EXEC = {"placement": [{"tier": "high", "labels": {"tier": "high"}}]}


@pytest.fixture
def one(fake, front):
    standard = fake(gateway=True)
    gate = front({"standard": (standard.url, standard.key)})
    gate.standard = standard
    return gate


@pytest.fixture(scope="module")
def shared(front_for_all):
    """For what leaves a gateway as it was."""
    standard = fake_server.FakeServer(gateway=True)
    gate = front_for_all({"standard": (standard.url, standard.key)})
    gate.standard = standard
    yield gate
    standard.close()
    standard.check()


def rows_of(one):
    """What the gateway shows its operator: everybody's sandboxes."""
    return json.loads(one.must("sandboxes", "--json"))["executions"]


def command(one, ident, text, key=None):
    return one.ask("POST", PROXY.format(ident) + "/command", {"command": text}, key)


def server_gone(fake_):
    """Its port refuses from now on."""
    fake_.server.close()


# -- what a server says --

@pytest.mark.parametrize(("status", "body"), [
    (500, {"code": "DOCKER::CREATE_FAILED", "message": "za\u017c\u00f3\u0142\u0107"}), (422, {"detail": [{"loc": ["body"], "msg": "x"}]}),
    (409, {"code": "DOCKER::CONFLICT", "message": "m"}), (400, {"code": "X::Y", "message": "", "extra": [1, None, 1e9]}),
    (507, {"code": "A::B", "message": "full"}), (504, {"code": "A::B", "message": "late"})])
def test_what_a_server_refuses_is_told_as_it_says_it(shared, status, body):
    text = json.dumps(body, ensure_ascii=False, indent=1).encode()
    shared.standard.faults.add(Fault("POST", "/sandboxes", status=status, body=text))
    with Raw(shared) as link:
        wish = {"image": {"uri": fronts.IMAGE}, "entrypoint": ["true"], "timeout": 600, "resourceLimits": {}}
        seen = link.send("POST", "/v1/sandboxes", wish).whole()
    assert (seen[0], seen[1]) == (status, text)
    assert not shared.standard.sandboxes
    status, made_, _ = shared.create()
    assert status == 202, "the next one is taken"
    assert shared.ask("DELETE", f"/v1/sandboxes/{made_['id']}")[0] == 204


@pytest.mark.parametrize("status", [401, 429, 503])
def test_a_server_that_takes_none_is_no_server(shared, status):
    shared.standard.faults.add(Fault("POST", "/sandboxes", status=status))
    seen, told, _ = shared.create()
    assert seen == 503 and told["code"] == "SANDGATE::UPSTREAM_UNAVAILABLE" and shared.standard.key not in str(told)
    status, box, _ = shared.create()
    assert status == 202 and shared.ask("DELETE", f"/v1/sandboxes/{box['id']}")[0] == 204


HOSTILE = {**hostile(),
           "no object": b"[]", "a number": b"7", "an id that is none": b'{"id":7}', "no id": b"{}", "an empty id": b'{"id":""}',
           "a blank in an id": b'{"id":"a b"}', "NUL in an id": b'{"id":"a\\u0000b"}', "NUL": b'{"id":"a\x00"}',
           "a long id": b'{"id":"' + b"a" * 5000 + b'"}', "a huge number": b'{"id":"a","expiresAt":1' + b"0" * 5000 + b"}",
           "a huge text": b'{"id":"a","x":"' + b"y" * (5 << 20) + b'"}', "many members": b'{"id":"a b"' + b"".join(
               b',"m%d":1' % i for i in range(100000)) + b"}", "deep objects": b'{"a":' * 100000 + b"1" + b"}" * 100000,
           "more behind it": b'{"id":"a"}{"id":"b"}', "half of it": b'{"id":"a', "a lone surrogate": b'{"id":"\\ud800"}',
           "a slash": b'{"id":"a/b"}', "dots": b'{"id":".."}', "a question": b'{"id":"a?x=1"}', "a line end": b'{"id":"a\\r\\nX: y"}'}


def packed(data):
    if data.startswith((b"HTTP/", b"\x16")) or len(data) in (0, 4096):
        return data
    return b"HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(data), data)


@pytest.mark.parametrize("name", HOSTILE)
def test_an_answer_that_no_server_gives_makes_no_sandbox(shared, name):
    pids = shared.gate.pids()
    shared.standard.faults.add(Fault("POST", "/sandboxes", raw=packed(HOSTILE[name])))
    began = time.monotonic()
    status, told, _ = shared.create()
    assert 500 <= status < 600 and isinstance(told, dict), (status, told)
    assert shared.ask("GET", "/v1/sandboxes")[1]["pagination"]["totalItems"] == 0
    ident = made(shared)
    for path in ("", "/endpoints/44772"):
        shared.standard.faults.add(Fault("GET", f"/sandboxes/[^/]+{path}", raw=packed(HOSTILE[name]), times=1))
        shared.ask("GET", f"/v1/sandboxes/{ident}{path}")
        shared.standard.faults.clear()
    assert command(shared, ident, "echo whole")[0] == 200
    assert shared.ask("DELETE", f"/v1/sandboxes/{ident}")[0] == 204
    assert shared.gate.pids() == pids and time.monotonic() - began < 10


def test_an_endless_answer_ends(shared):
    """Both in bytes and in time: what trickles is waited for, but not for ever by others."""
    def pour(exchange):
        exchange.begin(202, "application/json")
        try:
            exchange.write(b'{"x":"')
            for _ in range(4000):
                exchange.write(b"y" * 65536)
        except OSError:
            ended.set()
    ended = threading.Event()
    real, shared.standard.create = shared.standard.create, None
    shared.standard.routes[0] = ("POST", "/sandboxes", lambda request, exchange: (request.body(), pour(exchange)))
    try:
        status, told, _ = shared.create()
        assert status >= 500 and isinstance(told, dict) and ended.wait(10)
    finally:
        shared.standard.create = real
        shared.standard.routes[0] = ("POST", "/sandboxes", real)


def test_a_slow_server_holds_up_only_who_asked(one):
    one.standard.faults.add(Fault("POST", "/sandboxes", delay=6))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        slow = pool.submit(one.create)
        time.sleep(0.3)
        for _ in range(5):
            began = time.monotonic()
            status, box, _ = one.create()
            assert status == 202 and command(one, box["id"], "true")[0] == 200 and time.monotonic() - began < 3
        assert slow.result()[0] == 202
    assert one.ask("GET", "/v1/sandboxes")[1]["pagination"]["totalItems"] == 6


def test_a_create_whose_caller_went_is_ended_and_one_with_a_key_is_found_again(one):
    one.standard.faults.add(Fault("POST", "/sandboxes", delay=1.5, times=2))
    wish = {"image": {"uri": fronts.IMAGE}, "entrypoint": ["true"], "timeout": 600, "resourceLimits": {}}
    for fields in ({}, {"Idempotency-Key": "again"}):
        with Raw(one) as link:
            link.send("POST", "/v1/sandboxes", wish, fields)
            time.sleep(0.3)
    fronts.flow.wait_for(lambda: len(one.standard.of("lifecycle", "POST", "/v1/sandboxes")) == 2 and
                         len(one.standard.sandboxes) == 1 and one.standard.of("lifecycle", "DELETE"), 15)
    with Raw(one) as link:
        status, text, fields = link.send("POST", "/v1/sandboxes", wish, {"Idempotency-Key": "again"}).whole()
    fields = {name.lower(): value for name, value in fields.items()}
    assert status == 202 and fields["x-sandgate-start"] == "repeated", (status, text)
    assert len(one.standard.sandboxes) == 1
    assert command(one, json.loads(text)["id"], "true")[0] == 200


def test_an_answer_that_is_lost_leaves_no_sandbox(one):
    """The server has made it; we never heard.  The next look at its list ends it."""
    one.standard.faults.add(Fault("POST", "/sandboxes", done=True))
    status, told, _ = one.create()
    assert status == 503 and len(one.standard.sandboxes) == 1
    os.kill(one.gate.pids()["control"], signal.SIGKILL)  # rather than wait a minute for the next look
    one.gate.pids()
    fronts.flow.wait_for(lambda: not one.standard.sandboxes, 20)


@pytest.mark.parametrize("cut", [0, 20, 150])
def test_a_stream_that_is_cut_is_cut_for_the_caller_too(shared, cut):
    ident = made(shared)
    shared.standard.faults.add(Fault("POST", "/command", surface="execd", cut=cut))
    with Raw(shared) as link:
        link.send("POST", PROXY.format(ident) + "/command", {"command": "echo x; sleep 1; echo y"})
        try:
            status, body, _ = link.whole()
        except (ConnectionError, fronts.http.client.HTTPException):
            status, body = None, b""
    assert b"execution_complete" not in body and (cut > 100 or status in (502, None))
    assert command(shared, ident, "echo whole")[0] == 200
    assert shared.ask("DELETE", f"/v1/sandboxes/{ident}")[0] == 204


def test_a_list_that_is_long_is_whole(one):
    """200 sandboxes of a page: more than a message between processes takes."""
    pids, many = one.gate.pids(), {f"label{i}": "v" * 60 for i in range(20)}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        idents = set(pool.map(lambda _: made(one, metadata=many), range(120)))
    status, told, _ = one.ask("GET", "/v1/sandboxes?pageSize=200")
    assert status == 200 and {box["id"] for box in told["items"]} == idents
    assert len(json.dumps(told)) > 100_000 and one.gate.pids() == pids


# -- who a server says a sandbox is --

def test_an_id_that_comes_twice_is_one_owners(one):
    bob = one.user("bob")
    first = made(one)
    upstream = next(iter(one.standard.sandboxes))
    one.standard.duplicate_id = upstream
    status, told, _ = one.create(key=bob)
    assert status >= 400, told
    fronts.flow.wait_for(lambda: one.ask("GET", "/v1/sandboxes", key=bob)[1]["pagination"]["totalItems"] == 0)
    assert one.ask("GET", f"/v1/sandboxes/{first}", key=bob)[0] == 404
    assert one.ask("GET", f"/v1/sandboxes/{first}")[0] == 200


def test_a_stale_endpoint_is_asked_for_again(one):
    ident = made(one)
    assert command(one, ident, "true")[0] == 200
    one.standard.stale_endpoints = True
    for way in ("asked", "by itself"):
        assert one.ask("POST", f"/v1/sandboxes/{ident}/pause")[0] == 202
        if way == "asked":
            assert one.ask("POST", f"/v1/sandboxes/{ident}/resume")[0] == 202
        status, text, _ = command(one, ident, f"echo {way}")
        assert status == 200 and way in text


def spied():
    """A port that must not be dialled, and whether it was."""
    sock = socket.create_server(("127.0.0.1", 0))
    sock.settimeout(0.01)
    return sock


def was_dialled(sock):
    try:
        sock.accept()[0].close()
    except TimeoutError:
        return False
    return True


ENDPOINTS = ["user@{h}:{p}", "user:pass@{h}:{p}", "http://{h}:{p}", "//{h}:{p}", "{h}:{p}@169.254.169.254", "{h}:{p}?x", "{h}:{p}#x",
             "{h}:{p}/a/../b", "{h}:{p}/a//b", "{h}:{p}/%2e%2e/x", "{h}:{p}/a b", "{h}:{p}\\x", "{h}:{p}\r\nX: y", "{h}:{p}\x00", " {h}:{p}",
             "{h}:{p} ", "{h}:", "{h}:0", "{h}:99999", "{h}:+{p}", "{h}:0x50", ":{p}", "2130706433:{p}", "0x7f000001:{p}", "0177.0.0.1:{p}",
             "127.1:{p}", "127.0.0.1.:{p}", "[::ffff:169.254.169.254]:80", "[::1%lo]:{p}", "[::1", "[fe80::1]:80",
             "169.254.169.254:80", "169.254.170.2:80", "[fd00:ec2::254]:80", "metadata.google.internal:80", "10.1.2.3:80", "8.8.8.8:53",
             "0.0.0.0:{p}", "[::]:{p}", "255.255.255.255:80", "224.0.0.1:80", "100.100.100.200:80", "localhost.evil.test:{p}",
             "xn--nxasmq6b.test:{p}", "\u0661\u0662\u0667.0.0.1:{p}"]


@pytest.mark.parametrize("text", ENDPOINTS)
def test_an_endpoint_that_is_none_of_the_servers_is_never_dialled(shared, text):
    ident, spy = made(shared), spied()
    try:
        shared.standard.endpoint_override = text.format(h="127.0.0.1", p=spy.getsockname()[1])
        status, told, _ = shared.ask("GET", PROXY.format(ident) + "/ping")
        assert status >= 400 and isinstance(told, dict) and told["code"].startswith("SANDGATE::"), (status, told)
        assert not was_dialled(spy)
    finally:
        shared.standard.endpoint_override = None
        spy.close()
    assert shared.ask("DELETE", f"/v1/sandboxes/{ident}")[0] == 204


def test_an_endpoint_outside_its_servers_ranges_is_never_dialled(fake, front):
    standard = fake(gateway=True)
    one = front({"standard": (standard.url, standard.key)}, more={"servers": [
        {"name": "standard", "url": standard.url, "key": "opensandbox/standard", "endpoints": ["127.0.0.2/32"],
         "addresses": ["127.0.0.0/8"]}]})
    ident, spy = made(one), spied()
    standard.endpoint_override = "127.0.0.1:%d" % spy.getsockname()[1]
    status, told, _ = one.ask("GET", PROXY.format(ident) + "/ping")
    assert status >= 400 and told["code"].startswith("SANDGATE::") and not was_dialled(spy)
    spy.close()


# -- servers that are down --

@pytest.fixture
def tiers(fake, front):
    """Two of the standard tier and one of the high one."""
    servers = {name: fake(gateway=True) for name in ("standard", "standard-b", "high")}
    gate = front({name: (f.url, f.key) for name, f in servers.items()}, more={"exec": EXEC})
    gate.of = servers
    return gate


def test_a_server_that_is_down_fails_over_within_its_tier_and_never_to_a_weaker_one(tiers):
    server_gone(tiers.of["standard"])
    for _ in range(6):
        made(tiers)
    assert len(tiers.of["standard-b"].sandboxes) == 6 and not tiers.of["high"].sandboxes
    assert tiers.create(metadata={"tier": "high"})[0] == 202 and len(tiers.of["high"].sandboxes) == 1
    server_gone(tiers.of["high"])
    status, told, _ = tiers.create(metadata={"tier": "high"})
    assert status == 503 and told["code"] == "SANDGATE::UPSTREAM_UNAVAILABLE"
    assert len(tiers.of["standard-b"].sandboxes) == 6
    server_gone(tiers.of["standard-b"])
    assert tiers.create()[0] == 503, "nor to a stronger one: that is somebody's choice"
    status, listed, _ = tiers.ask("GET", "/v1/sandboxes")
    assert status == 200 and listed["pagination"]["totalItems"] == 7


def test_a_server_that_came_back_is_used_again(fake, front):
    standard = fake(gateway=True)
    one = front({"standard": (standard.url, standard.key)})
    ident, port = made(one), standard.server.port
    assert command(one, ident, "true")[0] == 200
    server_gone(standard)
    assert one.create()[0] == 503
    assert command(one, ident, "echo still")[0] == 200, "its way is known, and no server is in it"
    standard.server = fake_server.wire.Server(standard._lifecycle, standard.host, port,
                                              judge=standard.judge_as("lifecycle", ""))
    assert one.create()[0] == 202 and one.ask("GET", f"/v1/sandboxes/{ident}")[0] == 200


# -- kill -9 in the middle of it --

def killed_in_creates(one, role, fakes):
    """Creates and DELETEs of three users go on while processes of the role are killed; what
    the callers saw in the end."""
    keys = {name: one.user(name) for name in ("u1", "u2", "u3")}
    over, mine = threading.Event(), {name: {} for name in keys}

    def lives(name):
        turn = 0
        while not over.is_set():
            turn += 1
            fields = {"Idempotency-Key": f"{name}-{turn}"} if turn % 3 else {"X-Sandgate-Session": f"s{turn % 2}"}
            try:
                status, box, _ = one.create(key=keys[name], fields=fields)
                if status == 202:
                    mine[name].setdefault(box["id"], set()).add(str(fields))
                if status == 202 and turn % 4 == 0:
                    one.ask("DELETE", f"/v1/sandboxes/{box['id']}", key=keys[name])
            except (OSError, fronts.http.client.HTTPException):
                time.sleep(0.02)
    threads = [threading.Thread(target=lives, args=(name,)) for name in keys for _ in range(2)]
    for f in fakes:
        f.faults.add(Fault("POST", "/sandboxes", delay=0.15, times=10**6))
    for thread in threads:
        thread.start()
    for _ in range(4):
        time.sleep(0.5)
        for name, pid in one.gate.pids().items():
            if re.match(role, name):
                os.kill(pid, signal.SIGKILL)
    time.sleep(0.5)
    over.set()
    for thread in threads:
        thread.join(60)
    for f in fakes:
        f.faults.clear()
    return keys, mine


def settled(one, fakes):
    """Each sandbox of a server is exactly one row's, and each row's sandbox is there."""
    named = sorted(r["id"] for r in rows_of(one) if r["state"] in ("running", "paused"))
    there = sorted(box.metadata["sandgate/id"] for f in fakes for box in list(f.sandboxes.values()))
    return there == named


@pytest.mark.parametrize("role", ["control", "worker", "connector|server/"])
def test_processes_killed_in_creates_leave_no_orphan_and_give_nothing_twice(fake, front, role):
    standard = fake(gateway=True)
    one = front({"standard": (standard.url, standard.key)})
    keys, mine = killed_in_creates(one, role, [standard])
    os.kill(one.gate.pids()["control"], signal.SIGKILL)  # its first look at the server's list is at its start
    one.gate.pids()
    fronts.flow.wait_for(lambda: settled(one, [standard]), 30, every=0.3)
    owners, running = {}, []
    for name, key in keys.items():
        for page in range(1, 4):
            for box in one.ask("GET", f"/v1/sandboxes?page={page}&pageSize=100", key=key)[1]["items"]:
                assert owners.setdefault(box["id"], name) == name, "two have it"
                if box["status"]["state"] == "Running":
                    running.append((box["id"], key))
    assert set(owners) and all(owners.get(ident, name) == name for name, boxes in mine.items() for ident in boxes)
    assert not {i for a in mine for b in mine if a < b for i in mine[a].keys() & mine[b].keys()}, "given twice"
    assert all(command(one, ident, "true", key)[0] == 200 for ident, key in running[:3])
