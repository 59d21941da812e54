"""The connector process: who may use it, what it adds, what comes back."""
import base64
import gzip
import re
import socket
import struct
import threading
import time

import pytest

from certificates import make_ca, make_leaf
from connector_line import HOST, Connector, Lane, reply
from connector_world import OAUTH, REFRESH, TRACKER, Idp, ParentProxy, with_idp
from role_line import STATUS, Wire, str16


@pytest.fixture
def start(tmp_path):
    running = []

    def make(connectors=TRACKER, serve=lambda r: reply(), **more):
        c = Connector(tmp_path, connectors, serve, **more)
        running.append(c)
        return c

    yield make
    for c in running:
        assert c.is_alive()
        assert c.close() == 0


def test_a_request_gets_its_credential(start):
    c = start()
    a = c.lane().call("GET", "/api/issues?x=1", [("authorization", "Bearer mine"), ("x-api-key", "mine"), ("accept", "a/b")])
    assert (a.status, a.body, a.reason) == (200, b"ok", None)
    assert a.headers["sandgate-secret-version"] == "7"
    r, = c.system.requests
    assert (r.method, r.target, r.headers["host"]) == ("GET", "/api/issues?x=1", HOST)
    assert [v for n, v in r.all if n == "authorization"] == ["Bearer s3cr3t-value"]
    assert "x-api-key" not in r.headers and r.headers["accept"] == "a/b"
    assert r.headers["accept-encoding"] == "identity"
    assert c.keeper.asked == [("tracker", "tracker/token", 1)]
    assert c.fetcher.asked == [("tracker", HOST, 443, 1)]
    row, = c.rows("credential", least=1)
    assert (row["sandbox"], row["user"], row["connector"], row["secret_version"]) == ("demo", "alice", "tracker", 7)
    assert (row["host"], row["method"], row["path"]) == (HOST + ":443", "GET", "/api/issues")


def test_who_may_not_use_it_is_told_so_whatever_the_reason(start):
    c = start()
    assert c.open(source="127.0.0.9")[0] == "UNKNOWN_SANDBOX"
    assert c.open(source="127.0.0.7")[0] == "DENIED"
    assert c.open(name="nosuch")[0] == "DENIED"
    assert c.open(generation=99)[0] == "RELOADED"
    assert c.keeper.asked == [] and c.fetcher.asked == []


def test_a_lane_that_is_refused_is_in_the_ledger(start):
    c = start()
    c.open(source="127.0.0.9")
    c.open(source="127.0.0.7")
    c.open(name="nosuch")
    c.open(generation=99)  # asked again at once by the next one, and so no row
    rows = c.rows("deny", least=3)
    assert [(r["sandbox"], r["connector"], r["reason"]) for r in rows] == [
        ("", "tracker", "unknown_sandbox"), ("third", "tracker", "denied_by_policy"), ("demo", "nosuch", "denied_by_policy")]


def test_a_request_that_no_honest_worker_sends_is_in_the_ledger(start):
    c = start()
    lane = c.lane()
    assert lane.call("DELETE", "/api/x").reason == "denied_method"
    assert lane.call("GET", "/api/x", host="static.example.test").status == 403
    rows = c.rows("deny", least=2)
    assert [(r["sandbox"], r["connector"], r["host"], r["method"], r["path"], r["reason"]) for r in rows] == [
        ("demo", "tracker", HOST + ":443", "DELETE", "/api/x", "denied_method"),
        ("demo", "tracker", "static.example.test:443", "GET", "/api/x", rows[1]["reason"])]


def test_a_burst_of_first_requests_costs_the_keeper_one_answer(start):
    c = start()
    c.keeper.delay = 0.3
    lanes = [c.lane(), c.lane(), c.lane(source="127.0.0.6")]  # the last one of another sandbox
    streams = [(lane, lane.ask("GET", "/api/%d" % i)) for i in range(20) for lane in lanes]
    assert {lane.answer(stream).status for lane, stream in streams} == {200}
    assert c.keeper.asked == [("tracker", "tracker/token", 1)] * 2
    assert {r.headers["authorization"] for r in c.system.requests} == {"Bearer s3cr3t-value"}
    assert len(c.rows("credential", least=60)) == 60


def test_who_waits_for_a_lease_may_go_and_the_others_get_it(start):
    c = start()
    c.keeper.delay = 0.3
    lanes = [c.lane(), c.lane(), c.lane()]
    streams = [lane.ask("GET", "/api/x") for lane in lanes]
    time.sleep(0.1)
    lanes[0].sock.close()  # whose socket the keeper was shown
    lanes[1].h2.reset_stream(streams[1])
    lanes[1].flush()
    assert lanes[2].answer(streams[2]).status == 200
    assert lanes[1].call("GET", "/api/y").status == 200
    assert c.keeper.asked == [("tracker", "tracker/token", 1)]


def test_a_lease_that_nobody_waits_for_any_more_is_asked_for_anew(start):
    c = start()
    c.keeper.delay = 0.3
    lane = c.lane()
    lane.ask("GET", "/api/x")
    time.sleep(0.1)
    lane.sock.close()
    time.sleep(0.1)
    assert c.lane().call("GET", "/api/x").status == 200
    assert len(c.keeper.asked) == 2


def test_a_lease_that_is_revoked_while_it_is_asked_for_is_asked_for_anew(start):
    c = start()
    c.keeper.delay = 0.4
    lane = c.lane()
    streams = [lane.ask("GET", "/api/x") for _ in range(3)]
    time.sleep(0.1)
    c.keeper.secrets["tracker/token"] = b"another-value"  # the answer on its way was read before
    body, _ = c.lines["CONTROL"].call("REVOKE", str16("") + str16("tracker/token"))
    assert body == bytes(2)
    assert {lane.answer(s).status for s in streams} == {200}
    assert {r.headers["authorization"] for r in c.system.requests} == {"Bearer another-value"}


def test_a_lease_that_is_refused_is_refused_to_all_who_wait(start):
    c = start(secrets={})
    c.keeper.delay = 0.2
    lane = c.lane()
    streams = [lane.ask("GET", "/api/x") for _ in range(5)]
    assert {lane.answer(s).reason for s in streams} == {"no_secret"}
    assert len(c.keeper.asked) == 1


def test_each_request_is_judged_here_again(start):
    c = start()
    lane = c.lane()
    assert lane.call("GET", "/other").reason == "denied_path"
    assert lane.call("DELETE", "/api/x").reason == "denied_method"
    assert lane.call("GET", "/api/x", host="static.example.test").status == 403
    assert lane.call("GET", "/api/x", host=HOST + ":444").status == 403
    assert lane.call("GET", "/api/../x").reason == "bad_path"
    for method in ("TRACE", "TRACK"):
        a = lane.call(method, "/api/x")
        assert (a.status, a.reason) == (405, "method_refused")
    assert c.system.requests == [] and c.keeper.asked == []
    assert lane.call("GET", "/api/x").status == 200


def test_an_answer_says_nothing_in_the_connectors_name(start):
    c = start(serve=lambda r: reply(302, b"", [("Location", "https://elsewhere.example.test/"), ("Sandgate-Reason", "x"),
                                               ("sandgate-secret-version", "99"), ("Set-Cookie", "a=1"),
                                               ("Set-Cookie", "b=2")]))
    a = c.lane().call("GET", "/api/x")
    assert (a.status, a.reason) == (302, None)
    assert a.headers["location"] == "https://elsewhere.example.test/"
    assert a.headers["sandgate-secret-version"] == "7"
    assert [v for n, v in a.all if n == "set-cookie"] == ["a=1", "b=2"]
    assert len(c.system.requests) == 1


def test_connection_can_not_nominate_what_is_added(start):
    c = start(TRACKER.replace("{kind: bearer, secret: tracker/token}",
                              "{kind: header, secret: tracker/token, name: x-own-key}"))
    lane = c.lane()
    # HTTP/2 has no such field; it comes through all the same if a taken worker sends it.
    assert lane.call("GET", "/api/x", [("x-own-key", "mine"), ("x_own_key", "mine")]).status == 200
    r, = c.system.requests
    assert [(n, v) for n, v in r.all if "own" in n] == [("x-own-key", "s3cr3t-value")]


def test_a_missing_secret_and_a_dead_system_are_told_apart(start):
    c = start(secrets={}, hosts={HOST: "CONNECT_REFUSED"})
    lane = c.lane()
    assert lane.call("GET", "/api/x").reason == "connect_refused"
    c.fetcher.hosts[HOST] = c.system.port
    a = lane.call("GET", "/api/x")
    assert (a.status, a.reason) == (503, "no_secret")
    c.keeper.secrets["tracker/token"] = "SECRET_DENIED"
    assert lane.call("GET", "/api/x").reason == "secret_not_granted"
    assert c.system.requests == []


def test_a_certificate_for_another_name_gets_no_credential(start):
    c = start()
    c.system.context = c.context("other.example.test")
    a = c.lane().call("GET", "/api/x")
    assert (a.status, a.reason) == (502, "upstream_wrong_name")
    assert c.keeper.asked == []


def test_connections_are_kept_for_the_same_sandbox_only(start):
    c = start()
    lane = c.lane()
    for _ in range(3):
        assert lane.call("GET", "/api/x").status == 200
    assert len(c.fetcher.asked) == 1
    other = c.lane(source="127.0.0.6")
    assert other.call("GET", "/api/x").status == 200
    assert len(c.fetcher.asked) == 2


def test_a_kept_connection_that_the_system_closes_costs_nothing(start):
    c = start(serve=lambda r: reply())
    lane = c.lane()
    assert lane.call("GET", "/api/x").status == 200
    c.system.clients[0].close()
    assert lane.call("GET", "/api/x").status == 200
    assert lane.call("POST", "/api/x", body=b"abc").status == 200


def test_bodies_go_both_ways_whatever_their_size(start):
    c = start(serve=lambda r: reply(200, r.body))
    body = bytes(range(256)) * 8192
    a = c.lane().call("POST", "/api/x", body=body)
    assert a.body == body
    assert c.system.requests[0].headers["transfer-encoding"] == "chunked"
    a = c.lane().call("POST", "/api/x", [("content-length", "5")], body=b"12345")
    assert a.body == b"12345" and c.system.requests[1].headers["content-length"] == "5"


def test_echoes_come_back_without_the_secret(start):
    def serve(r):
        if r.target == "/api/gzip":
            return reply(200, gzip.compress(r.headers["authorization"].encode()), [("Content-Encoding", "gzip")])
        return reply(200, str(r.all).encode() + base64.b64encode(b"x s3cr3t-value y"),
                     [("X-Echo", r.headers["authorization"])])

    c = start(serve=serve)
    a = c.lane().call("GET", "/api/x", [("range", "bytes=0-5")])
    assert b"s3cr3t" not in a.body and "s3cr3t" not in str(a.all)
    placeholder = a.headers["x-echo"].removeprefix("Bearer ").encode()
    assert re.fullmatch(rb"s[0-9][a-z]{2}[0-9][a-z]-[a-z]{5}", placeholder) and placeholder != b"s3cr3t-value"
    assert b"Bearer " + placeholder in a.body
    assert base64.b64decode(a.body[-24:]).count(b"x " + placeholder + b" y") == 1
    assert "range" not in c.system.requests[0].headers
    assert int(a.trailers["sandgate-scrubbed"]) == 3
    a = c.lane().call("GET", "/api/gzip", [("accept-encoding", "gzip")])
    assert a.body == b"Bearer " + placeholder and "content-encoding" not in a.headers


def test_streams_are_not_held_up(start):
    def serve(r):
        r.socket.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i in range(5):
            r.socket.sendall(b"8\r\ndata: %d\n\r\n" % i)
            assert gates[i].wait(5)
        r.socket.sendall(b"0\r\nX-Sum: 1\r\n\r\n")

    gates = [threading.Event() for _ in range(5)]
    c = start(serve=serve)
    lane = c.lane()
    s = lane.ask("GET", "/api/x")
    for i in range(5):
        while len(lane.answers[s]["body"]) < 8 * (i + 1):
            lane.pump()
        gates[i].set()
    a = lane.answer(s)
    assert a.body == b"".join(b"data: %d\n" % i for i in range(5)) and a.trailers["x-sum"] == "1"


def test_headers_are_stripped_and_added_as_the_operator_wrote(start):
    c = start(TRACKER + """
    headers:
      request: {strip: [x-drop], add: {x-tenant: acme}}
      response: {strip: [server], add: {x-through: gate}}
""", serve=lambda r: reply(200, b"", [("Server", "secret/1.0")]))
    a = c.lane().call("GET", "/api/x", [("x-drop", "1"), ("x-tenant", "mine")])
    assert "server" not in a.headers and a.headers["x-through"] == "gate"
    r, = c.system.requests
    assert "x-drop" not in r.headers and [v for n, v in r.all if n == "x-tenant"] == ["acme"]


FORM = TRACKER.replace("{kind: bearer, secret: tracker/token}", "{kind: form, secret: tracker/token, name: token}")


def test_a_form_is_gathered_and_sent_with_its_new_length(start):
    c = start(FORM)
    lane = c.lane()
    a = lane.call("POST", "/api/x", [("content-type", "application/x-www-form-urlencoded"), ("expect", "100-continue")],
                  body=b"a=1&token=mine")
    assert a.status == 200
    r, = c.system.requests
    assert r.body == b"a=1&token=s3cr3t-value" and r.headers["content-length"] == "22"
    assert "expect" not in r.headers
    a = lane.call("POST", "/api/x", [("content-type", "application/json")], body=b"{}")
    assert (a.status, a.reason) == (400, "no_credential_slot")
    a = lane.call("POST", "/api/x", [("content-type", "application/x-www-form-urlencoded")], body=b"a" * (1 << 20) + b"b")
    assert a.reason == "too_big"


def test_many_requests_get_one_token(start):
    idp = Idp()
    c = with_idp(start, OAUTH, idp)
    idp.delay = 0.3
    lane = c.lane()
    streams = [lane.ask("GET", "/api/x") for _ in range(8)]
    assert [lane.answer(s).status for s in streams] == [200] * 8
    assert {r.headers["authorization"] for r in c.system.requests} == {"Bearer access-1-token"}
    assert idp.n == 1 and idp.seen[0]["grant_type"] == "client_credentials"
    assert c.fetcher.asked[-1][1:] == ("idp.example.test", 443, 0) or ("tracker", "idp.example.test", 443, 0) in c.fetcher.asked
    assert c.lane(source="127.0.0.6").call("GET", "/api/x").status == 200
    assert idp.n == 1


def test_a_refused_token_is_got_anew_once(start):
    idp = Idp()
    good = ["Bearer access-2-token"]
    c = with_idp(start, OAUTH, idp, serve=lambda r: reply(200 if r.headers["authorization"] in good else 401))
    lane = c.lane()
    assert lane.call("GET", "/api/x").status == 200
    assert [r.headers["authorization"] for r in c.system.requests] == ["Bearer access-1-token", "Bearer access-2-token"]
    good.clear()
    assert lane.call("GET", "/api/x").status == 401
    assert idp.n == 3 and len(c.system.requests) == 4
    # A body that has gone is not sent twice, but the next request has the new token.
    good.append("Bearer access-4-token")
    assert lane.call("POST", "/api/x", body=b"x").status == 401
    assert lane.call("POST", "/api/x", body=b"x").status == 200


def test_a_new_refresh_token_is_durable_before_the_token_is_used(start):
    idp = Idp(rotates=True)
    c = with_idp(start, REFRESH, idp)
    lane = c.lane()
    c.keeper.rotate_status = "SYSTEM"
    assert lane.call("GET", "/api/x").reason == "system_error"
    assert c.system.requests == [] and idp.seen[0]["refresh_token"] == "s3cr3t-value"
    c.keeper.rotate_status = "OK"
    time.sleep(2.1)
    assert lane.call("GET", "/api/x").status == 200
    # The one that was got stays good: the service was not asked again.
    assert idp.n == 1 and c.keeper.rotated == [b"refresh-1"]


def test_no_token_no_request(start):
    idp = Idp()
    idp.status = 400
    c = with_idp(start, OAUTH, idp)
    lane = c.lane()
    for _ in range(3):
        a = lane.call("GET", "/api/x")
        assert (a.status, a.reason, a.body) == (502, "token_failed", b"")
    assert len(idp.seen) == 1 and c.system.requests == []


def test_a_client_certificate_is_shown_by_the_key_that_was_leased(start, tmp_path):
    ca = make_ca(tmp_path / "clients", "Client CA")
    cert, key = make_leaf(ca, "gateway", client=True)
    config = TRACKER.replace("{kind: bearer, secret: tracker/token}",
                             "{kind: mtls, secret: tracker/token, certificate: tracker/chain}")
    c = start(config, secrets={"tracker/token": key.read_bytes(), "tracker/chain": cert.read_bytes()},
              client_ca=ca.file)
    lane = c.lane()
    assert lane.call("GET", "/api/x", [("authorization", "Bearer mine")]).status == 200
    assert c.system.requests[0].headers["authorization"] == "Bearer mine"
    assert sorted(n for _, n, _ in c.keeper.asked) == ["tracker/chain", "tracker/token"]


AWS = """
  - name: tracker
    hosts: [tracker.example.test]
    auth: {kind: sigv4, secret: tracker/token, region: eu-west-1, service: s3}
    allow: [{methods: [GET, PUT], paths: ["/**"]}]
"""


def test_s3_is_signed_and_its_body_streamed(start):
    c = start(AWS, secrets={"tracker/token": b"AKID:key-of-the-operator"})
    lane = c.lane()
    assert lane.call("PUT", "/b/k", [("x-amz-security-token", "mine"), ("authorization", "AWS4-HMAC-SHA256 x")],
                     body=b"abc").status == 200
    h = c.system.requests[0].headers
    assert h["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKID/") and "/eu-west-1/s3/" in h["authorization"]
    assert h["x-amz-content-sha256"] == "UNSIGNED-PAYLOAD" and "x-amz-security-token" not in h
    a = lane.call("GET", "/b/k?X-Amz-Signature=1")
    assert (a.status, a.reason) == (403, "sigv4_form_refused")


def test_a_role_is_assumed_before_the_call(start):
    xml = (b"<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleResult><Credentials>"
           b"<AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>temporary-key</SecretAccessKey><SessionToken>session-token"
           b"</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult>"
           b"</AssumeRoleResponse>")
    config = AWS.replace("service: s3", 'service: s3, assume_role: "arn:aws:iam::1:role/r", '
                                        'token_url: "https://idp.example.test/"')
    c = with_idp(start, config, lambda r: reply(200, xml), secrets={"tracker/token": b"AKID:key-of-the-operator"})
    assert c.lane().call("GET", "/b/k").status == 200
    h = c.system.requests[0].headers
    assert "Credential=ASIA1/" in h["authorization"] and h["x-amz-security-token"] == "session-token"
    assert "Credential=AKID/" in c.idp.requests[0].headers["authorization"]
    assert "/eu-west-1/sts/" in c.idp.requests[0].headers["authorization"]


def test_limits_hold_for_all_sandboxes_together(start):
    c = start(TRACKER + "    limits: {requests_per_second: 1, requests_burst: 2}\n")
    a, b = c.lane(), c.lane(source="127.0.0.6")
    assert [a.call("GET", "/api/x").status, b.call("GET", "/api/x").status] == [200, 200]
    assert a.call("GET", "/api/x").reason == "limit_rate"


def test_a_lane_whose_worker_has_it_wait_holds_up_no_other(start):
    """Whether calls wait is a matter of the open file: who passed one end of a pair on may keep that end, too."""
    c = start(serve=lambda r: reply(200, bytes(100000)))
    ours, theirs = socket.socketpair()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    ends = c.sandbox()
    body, _ = c.lines["WORKER"].call("LANE", str16("tracker") + struct.pack("!Q", c.generation), [theirs.fileno(), ends[1].fileno()])
    assert STATUS[Wire(body).get("H")] == "OK"
    theirs.setblocking(True)
    taken = Lane(ours)
    taken.ask("GET", "/api/x")
    time.sleep(0.3)
    assert c.lane(source="127.0.0.6").call("GET", "/api/x").status == 200


def test_a_lane_ends_with_its_sandbox(start):
    c = start()
    lane = c.lane()
    assert lane.call("GET", "/api/x").status == 200
    ours, theirs = c.ends
    ours.close()
    theirs.close()
    while not lane.closed:
        lane.pump()


def test_a_reload_judges_what_comes(start):
    c = start()
    lane = c.lane()
    assert lane.call("GET", "/api/x").status == 200
    c.take(c.image(TRACKER.replace("/api/**", "/v2/**")))
    assert lane.call("GET", "/api/x").reason == "denied_path"
    assert lane.call("GET", "/v2/x").status == 200
    assert len(c.fetcher.asked) == 2


def test_a_reload_that_takes_the_connector_ends_the_lane(start):
    c = start(TRACKER + TRACKER.replace("tracker", "second"), names=("tracker", "second"))
    lane = c.lane()
    assert lane.call("GET", "/api/x").status == 200
    c.take(c.image(TRACKER.replace("tracker", "second"), ("second",)))
    while not lane.closed:
        lane.pump()
    assert c.open()[0] == "DENIED"


def test_many_streams_at_once_and_some_are_reset(start):
    c = start(serve=lambda r: reply(200, b"x" * 50000))
    lane = c.lane()
    streams = [lane.ask("GET", "/api/x") for _ in range(60)]
    for s in streams[::3]:
        lane.h2.reset_stream(s)
    lane.flush()
    assert all(len(lane.answer(s).body) == 50000 for i, s in enumerate(streams) if i % 3)


def test_a_parent_proxy_is_told_where_to(start):
    c = start()
    parent = ParentProxy(c.system.port)
    c.fetcher.via = parent.port
    assert c.lane().call("GET", "/api/x").status == 200
    assert parent.said[0] == b"CONNECT %s:443 HTTP/1.1\r\n" % HOST.encode()
    parent.socket.close()


def test_no_sandbox_has_more_lanes_than_connections(start):
    c = start(TRACKER, extra="limits: {connections: 3}")
    held = [c.open() for _ in range(4)]
    assert [status for status, _, _ in held] == ["OK", "OK", "OK", "LIMIT_CONNECTIONS"]
    assert c.open(source="127.0.0.6")[0] == "OK"
    assert held[0][1].call("GET", "/api/x").status == 200
