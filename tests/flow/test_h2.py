"""HTTP/2 of sandboxes: inside TLS that is ended here, and in the clear by prior knowledge."""
import json
import struct

import pytest

import h2spec
from h2_gate import DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, Frames, H2Gate, field, frame, request


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    g = H2Gate(tmp_path_factory.mktemp("h2"))
    yield g
    g.stop()


def ask(link, fields, stream=1, flags=END_HEADERS | END_STREAM):
    link.send(frame(HEADERS, flags, stream, fields))


def test_prior_knowledge_in_the_clear(gate):
    link = Frames(gate, sock=gate.connect_plain())
    for i in range(3):
        ask(link, request(gate, port=gate.plain.port, scheme="http", path=f"/v1/{i}"), 2 * i + 1)
        assert link.until(DATA, 2 * i + 1)[3] == f"GET /v1/{i}\n".encode()
    assert [path for _, path, _ in gate.plain.server.seen] == ["/v1/0", "/v1/1", "/v1/2"]
    link.close()


def test_many_requests_on_one_connection(gate):
    link = Frames(gate)
    for i in range(40):
        ask(link, request(gate, path=f"/v1/{i}"), 2 * i + 1)
    got = {}
    while len(got) < 40:
        kind, flags, stream, payload = link.read()
        if kind == DATA and payload:
            got[stream] = payload
    assert got == {2 * i + 1: f"GET /v1/{i}\n".encode() for i in range(40)}
    link.close()


@pytest.mark.parametrize("more, port, scheme, code", [
    (field("host", "other.example.test"), None, "https", "name_mismatch"),
    (b"", 1, "https", "name_mismatch"),
    (field("content_length", "5"), None, "https", "bad_header"),
    (field("expect", "x"), None, "https", "expect_failed"),
    (b"", None, "ftp", "bad_target"),
])
def test_a_request_that_is_refused_is_told_why(gate, more, port, scheme, code):
    link = Frames(gate)
    ask(link, request(gate, port=port, scheme=scheme) + more)
    link.until(HEADERS, 1)
    assert json.loads(link.until(DATA, 1)[3])["error"]["code"] == code
    # The connection is as good as before.
    ask(link, request(gate, path="/v1/next"), 3)
    assert link.until(DATA, 3)[3] == b"GET /v1/next\n"
    link.close()


def test_what_is_no_message_is_reset(gate):
    link = Frames(gate)
    ask(link, request(gate) + field("connection", "close"))
    assert struct.unpack(">I", link.until(RST_STREAM, 1)[3])[0] == 1
    ask(link, request(gate, path="/v1/next"), 3)
    assert link.until(DATA, 3)[3] == b"GET /v1/next\n"
    link.close()


def test_an_upload_arrives_whole_through_a_small_window(gate):
    link = Frames(gate)
    body = bytes(range(256)) * 4096
    ask(link, request(gate, method="POST") + field("content-length", str(len(body))), flags=END_HEADERS)
    room, sent = 65535, 0
    while sent < len(body):
        n = min(16384, room, len(body) - sent)
        if n:
            last = END_STREAM if sent + n == len(body) else 0
            link.send(frame(DATA, last, 1, body[sent:sent + n]))
            sent, room = sent + n, room - n
            continue
        kind, _, stream, payload = link.read()
        if kind == 8 and stream == 1:
            room += struct.unpack(">I", payload)[0]
    assert link.until(DATA, 1)[3] == b"%d" % len(body)
    link.close()


def test_prior_knowledge_passes_every_case(gate, tmp_path_factory):
    """h2spec through a relay that is a tunnel of the proxy: what it asks for is refused, in HTTP/2."""
    program = h2spec.build(tmp_path_factory.mktemp("h2spec"))
    relay = h2spec.Relay("127.0.0.78", gate.plain.port, gate.connect_plain)
    try:
        passed, failures = h2spec.run(program, gate.plain.port, "-h", "127.0.0.78")
    finally:
        relay.close()
    assert passed == h2spec.CASES, failures
