"""What filter.h promises to filters: a worker whose chain has one that does as it is told."""
import json
import os
import shutil
import threading
import time

import pytest

import conftest
from certificates import let_read
from conftest import BIN
from http_line import WAYS, Client, hello, make


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    if not (BIN / "filtered-worker").exists():
        pytest.fail("filtered-worker is not built")
    # Beside the other executables, under the name that super looks for.
    folder = tmp_path_factory.mktemp("bin")
    let_read(folder)
    for path in BIN.glob("sandgate*"):
        os.link(path, folder / path.name) if path.stat().st_dev == folder.stat().st_dev else \
            shutil.copy(path, folder / path.name)
    (folder / "sandgate-worker").unlink()
    shutil.copy(BIN / "filtered-worker", folder / "sandgate-worker")
    before, conftest.BIN = conftest.BIN, folder
    gate, origin = make()
    gate.start()
    yield gate, origin
    gate.close()
    origin.close()
    conftest.BIN = before


@pytest.fixture
def w(world):
    gate, origin = world
    origin.reset()
    yield world
    assert not origin.errors, origin.errors


def probe(word):
    return f"X-Probe: {word}\r\n"


def code_of(m):
    return json.loads(m.body)["error"]["code"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("where", ["hold", "hold-open", "hold-response", "hold-all"])
def test_what_holds_goes_on(w, way, where):
    g, o = w
    c = Client(g, way)
    for path in ("/1", "/2", "/3"):
        assert c.get(path, fields=probe(where)).body == f"{path} 0".encode()
    c.request("HEAD", "/4", probe(where))
    assert c.response("HEAD").status == 200
    m = c.request("POST", "/5", probe(where) + "Content-Length: 300000\r\n", b"b" * 300_000).response()
    assert m.body == b"/5 300000" and len(o.requests) == 5


@pytest.mark.parametrize("word, status, code", [
    ("deny", 403, "denied_by_rule"), ("fail", 503, "filter_failed"), ("deny-response", 403, "denied_by_rule")])
def test_what_is_denied_is_told(w, word, status, code):
    g, o = w
    m = Client(g).get("/x", fields=probe(word))
    assert (m.status, code_of(m)) == (status, code)
    assert len(o.requests) == (word == "deny-response")


@pytest.mark.parametrize("word", ["answer", "answer-response"])
def test_a_filter_may_answer_in_place_of_the_host(w, word):
    g, o = w
    c = Client(g)
    m = c.get("/x", fields=probe(word))
    assert (m.status, m.body) == (203, b"answered by the filter")
    assert len(o.requests) == (word == "answer-response")
    assert Client(g).get("/y").body == b"/y 0"


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_word_in_an_upload_is_found_however_it_is_cut(w, framing):
    g, o = w
    o.reset(lambda peer, r: peer.rest() and True, is_raw=True)
    for cut in range(5):
        pieces = [b"before STOP after"]
        if cut:
            pieces = [b"before " + b"STOP"[:cut], b"STOP"[cut:] + b" after"]
        c = Client(g)
        if framing == "length":
            c.request("POST", "/", f"Content-Length: {sum(map(len, pieces))}\r\n")
        else:
            c.request("POST", "/", "Transfer-Encoding: chunked\r\n")
        for p in filter(None, pieces):
            c.send(p if framing == "length" else f"{len(p):x}\r\n".encode() + p + b"\r\n")
            time.sleep(0.02)
        m = c.response()
        assert (m.status, code_of(m)) == (403, "denied_by_rule"), cut


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_a_body_passes_whole_though_its_ends_look_like_the_word(w, framing):
    g, o = w
    body, before = b"S ST STO ends in STO", len(g.rows(kind="response"))

    def script(peer, r):
        assert r.body == (body if r.first.startswith("POST") else b"")
        if framing == "length":
            peer.send(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n")
        elif framing == "chunked":
            peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        else:
            peer.send("HTTP/1.1 200 OK\r\n\r\n")
        for i in range(len(body)):
            piece = body[i:i + 1]
            peer.send(b"1\r\n" + piece + b"\r\n" if framing == "chunked" else piece)
            if i % 7 == 0:
                time.sleep(0.01)
        if framing == "chunked":
            peer.send("0\r\nX-T: 1\r\n\r\n")
        return framing == "close"

    o.script = script
    c = Client(g)
    for _ in range(2):
        if framing == "chunked":
            c.request("POST", "/", "Transfer-Encoding: chunked\r\n",
                      b"".join(b"1\r\n" + body[i:i + 1] + b"\r\n" for i in range(len(body))) + b"0\r\n\r\n")
        else:
            c.request("POST", "/", f"Content-Length: {len(body)}\r\n", body)
        m = c.response()
        assert m.body == body and m.trailers == ([("X-T", "1")] if framing == "chunked" else [])
    row = g.wait_rows(before + 2, kind="response")[-1]
    assert (row["bytes_up"], row["bytes_down"]) == (len(body), len(body))


def test_a_word_in_a_response_cuts_it_off(w):
    g, o = w
    o.script = lambda peer, r: peer.send("HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nfine so far, ST",
                                         "OP and what follows")
    c = Client(g).request()
    c.head()
    with pytest.raises((EOFError, ConnectionError)):
        c.exactly(30)
    assert b"STOP" not in c.data


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_a_body_that_waits_goes_on_in_both_directions(w, framing):
    g, o = w

    def script(peer, r):
        peer.send({"length": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nWAIT",
                   "chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nWAIT\r\n",
                   "close": "HTTP/1.1 200 OK\r\n\r\nWAIT"}[framing])
        if "slow" in r.first:
            time.sleep(0.05)
        peer.send("5\r\n more\r\n0\r\n\r\n" if framing == "chunked" else " more")
        return framing == "close"

    o.script = script
    c = Client(g)
    for path in ("/at-once", "/slow", "/at-once"):
        assert c.get(path).body == b"WAIT more"
    o.script = hello
    for body in (b"WAIT", b"WAIT and more", b"x" * 100_000 + b"WAIT" + b"y" * 300_000):
        m = c.request("POST", "/up", f"Content-Length: {len(body)}\r\n", body).response()
        assert m.body == f"/up {len(body)}".encode()


def test_a_whole_body_is_gathered_up_to_a_bound(w):
    g, o = w
    c = Client(g)
    m = c.request("POST", "/", probe("whole") + "Content-Length: 100000\r\n", b"x" * 100_000).response()
    assert m.body == b"/ 100000"
    o.reset(lambda peer, r: peer.rest() and True, is_raw=True)
    c = Client(g)
    threading.Thread(target=lambda: c.request("POST", "/", probe("whole") + "Content-Length: 900000\r\n",
                                              b"x" * 900_000), daemon=True).start()
    m = c.response()
    assert (m.status, code_of(m)) == (413, "too_big")
