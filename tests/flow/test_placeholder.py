"""Placeholders through the whole gateway: how a sandbox learns its own, and what happens to one
that leaves by another way than its connector's."""
import base64
import json

import pytest

from http_line import Client, config, make

CONNECTORS = [
    {"name": "forge", "hosts": ["forge.example.test"],
     "auth": {"kind": "bearer", "secret": "forge/token", "placeholder": "ghp_" + 36 * "*", "env": "FORGE_TOKEN"},
     "allow": [{"methods": ["GET"]}]},
    {"name": "plain", "hosts": ["plain.example.test"], "auth": {"kind": "bearer", "secret": "plain/token"},
     "allow": [{"methods": ["GET"]}]},
]


def with_connectors(port):
    text = config(port, connectors=CONNECTORS)
    text["policies"]["coding"]["connectors"] = ["forge", "plain"]
    return text


@pytest.fixture(scope="module")
def world():
    gate, origin = make()
    gate.write(with_connectors(gate.ports["egress"]))
    gate.start()
    yield gate, origin
    gate.close()
    origin.close()


def page(gate, path, source="127.0.0.1"):
    c = Client(gate, "absolute", "sandgate.internal", source=source, port=80)
    m = c.get(path)
    assert m.status == 200
    return m.body


def own(gate, **kw):
    return json.loads(page(gate, "/credentials", **kw))["placeholders"]


def test_a_sandbox_reads_its_own_placeholders(world):
    gate, _ = world
    (mine,) = own(gate)
    (others,) = own(gate, source="127.0.0.5")
    assert (mine["connector"], mine["env"]) == ("forge", "FORGE_TOKEN")
    text = mine["placeholder"]
    assert text.startswith("ghp_") and len(text) == 40 and text[4:].isalnum()
    assert others["placeholder"] != text
    assert b"/credentials" in page(gate, "/")


def test_they_stay_after_a_reload_and_after_a_new_start(world):
    gate, _ = world
    before = own(gate)
    gate.reload()
    assert own(gate) == before
    gate.stop()
    gate.start()
    assert own(gate) == before


@pytest.mark.parametrize("place", ["path", "query", "field", "basic", "body", "chunked", "trailer"])
def test_one_that_leaves_by_another_way_is_an_alarm(world, place):
    gate, origin = world
    origin.reset()
    text = own(gate)[0]["placeholder"]
    c, body, fields, path = Client(gate), b"", "", "/"
    if place == "path":
        path = f"/x/{text}"
    elif place == "query":
        path = "/?k=%67" + text[1:]
    elif place == "field":
        fields = f"User-Agent: a {text}\r\n"
    elif place == "basic":
        fields = "Authorization: Basic " + base64.b64encode(f"x:{text}".encode()).decode() + "\r\n"
    elif place == "body":
        body = b'{"token": "%s"}' % text.encode()
        fields = f"Content-Length: {len(body)}\r\n"
    else:
        fields = "Transfer-Encoding: chunked\r\n"
        half = text.encode()[:20]
        body = b"14\r\n%s\r\n14\r\n%s\r\n0\r\n\r\n" % (half, text.encode()[20:])
        if place == "trailer":
            body = b"1\r\nx\r\n0\r\nX-Sum: %s\r\n\r\n" % text.encode()
    before = len(gate.rows(kind="alarm"))
    m = c.request("POST", path, fields, body).response()
    assert (m.status, json.loads(m.body)["error"]["code"]) == (403, "placeholder_misplaced")
    assert all(text.encode() not in r.body for r in origin.requests)
    rows = gate.wait_rows(before + 1, kind="alarm")
    assert rows[-1]["sandbox"] == "demo" and "placeholder" in rows[-1]["detail"]
    assert gate.wait_rows(1, kind="deny", code="placeholder_misplaced")


def test_other_texts_and_other_sandboxes_placeholders_pass(world):
    gate, origin = world
    origin.reset()
    text = own(gate)[0]["placeholder"]
    body = (text[:-1] + "!").encode()
    m = Client(gate).request("POST", "/", f"Content-Length: {len(body)}\r\n", body).response()
    assert m.status == 200
    body = text.encode()
    m = Client(gate, source="127.0.0.5").request("POST", "/", f"Content-Length: {len(body)}\r\n", body).response()
    assert m.status == 200
    assert [r.body for r in origin.requests] == [(text[:-1] + "!").encode(), text.encode()]


def test_large_bodies_that_hold_beginnings_of_one_pass_whole(world):
    gate, origin = world
    origin.reset()
    text = own(gate)[0]["placeholder"]
    body = (text[:-1] + "\n").encode() * 500_000
    m = Client(gate).request("POST", "/", f"Content-Length: {len(body)}\r\n", body).response()
    assert m.status == 200
    assert len(origin.requests) == 1 and origin.requests[0].body == body
