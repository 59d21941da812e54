"""HTTP/2 of sandboxes: inside TLS that is ended here, and in the clear by prior knowledge."""
import json
import socket
import ssl
import struct

import pytest

import h2spec
from h2_gate import (DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, NAME, RST_STREAM, WINDOW_UPDATE, Frames, H2Gate, field,
                     frame, request)


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
    (b"", None, "http", "name_mismatch"),
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


@pytest.mark.parametrize("order", ["together", "answer first"])
@pytest.mark.parametrize("last, want", [
    (frame(DATA, END_STREAM, 1, b"four"), 1),
    (frame(DATA, END_STREAM, 1, b"not five"), 1),
    (frame(DATA, 0, 1, b"four") + frame(HEADERS, END_HEADERS | END_STREAM, 1, field("x-sum", "1")), 1),
    (frame(DATA, END_STREAM, 1, b"five.") + frame(DATA, END_STREAM, 1, b"more"), 5),
    (frame(DATA, 0, 1, b"five.") + frame(HEADERS, END_HEADERS, 1, field("x-sum", "1")), 1),
    (frame(DATA, 0, 1, b"five.") + frame(HEADERS, END_HEADERS | END_STREAM, 1, field(":path", "/")), 1),
    (frame(DATA, 0, 1, b"five.") + frame(HEADERS, END_HEADERS | END_STREAM, 1, field("Upper", "1")), 1),
], ids=["short", "long", "short before trailers", "data behind the end", "two trailers", "pseudo", "case"])
def test_what_is_wrong_with_a_request_is_told_though_it_was_refused(gate, last, want, order):
    link = Frames(gate)
    head = frame(HEADERS, END_HEADERS, 1, request(gate, method="PUT") + field("content-length", "5"))
    if order == "together":
        link.send(head + last)
    else:
        link.send(head)
        assert json.loads(link.until(DATA, 1)[3])["error"]["code"] == "denied_method"
        link.send(last)
    while one := link.read():
        if one[0] in (RST_STREAM, GOAWAY):
            break
    assert int.from_bytes(one[3][-4:] if one[0] == RST_STREAM else one[3][4:8], "big") == want
    link.close()


def test_the_rest_of_a_refused_request_is_dropped(gate):
    """Not reset at once: many a client takes that for the loss of its answer."""
    link = Frames(gate)
    ask(link, request(gate, method="PUT") + field("content-length", "10"), 1, END_HEADERS)
    link.until(DATA, 1)
    link.send(frame(DATA, 0, 1, b"5" * 5) + frame(DATA, END_STREAM, 1, b"5" * 5))
    ask(link, request(gate, path="/v1/next"), 3)
    while (one := link.read())[0] != DATA:
        assert one[0] != RST_STREAM
    assert one[2:] == (3, b"GET /v1/next\n")
    link.close()


def test_a_refused_request_that_does_not_end_is_ended(gate):
    link = Frames(gate)
    ask(link, request(gate, method="PUT"), 1, END_HEADERS)
    link.until(DATA, 1)
    assert struct.unpack(">I", link.until(RST_STREAM, 1)[3])[0] == 0
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


def proxy_link(gate):
    return Frames(gate, sock=socket.create_connection(gate.proxy, 10, source_address=("127.0.0.5", 0)))


def test_a_proxy_listener_takes_absolute_requests(gate):
    link = proxy_link(gate)
    for i in range(2):
        ask(link, request(gate, port=gate.plain.port, scheme="http", path=f"/v1/abs{i}"), 2 * i + 1)
        assert link.until(DATA, 2 * i + 1)[3] == f"GET /v1/abs{i}\n".encode()
    ask(link, request(gate, scheme="https"), 5)
    assert json.loads(link.until(DATA, 5)[3])["error"]["code"] == "bad_target"
    ask(link, field(":method", "GET") + field(":scheme", "http") + field(":authority", "evil.example.net")
        + field(":path", "/"), 7)
    assert json.loads(link.until(DATA, 7)[3])["error"]["code"] == "denied_by_policy"
    link.close()


def connect(link, target, stream):
    ask(link, field(":method", "CONNECT") + field(":authority", target), stream, END_HEADERS)
    return link.until(HEADERS, stream)


def test_connect_is_a_stream_of_many(gate):
    link = proxy_link(gate)
    for stream in (1, 3):
        assert connect(link, f"{NAME}:{gate.plain.port}", stream)[3][:1] == b"\x88"  # :status 200
    for stream in (3, 1):
        link.send(frame(DATA, 0, stream, f"GET /v1/s{stream} HTTP/1.1\r\nHost: {NAME}:{gate.plain.port}\r\n\r\n".encode()))
        text = b""
        while f"/v1/s{stream}\n".encode() not in text:
            text += link.until(DATA, stream)[3]
        assert text.startswith(b"HTTP/1.1 200 ")
    link.send(frame(DATA, END_STREAM, 1))
    while not link.until(DATA, 1)[1] & END_STREAM:
        pass
    link.close()


def test_connect_is_no_request_of_a_host(gate):
    link = Frames(gate)
    connect(link, f"{NAME}:{gate.host.port}", 1)
    assert json.loads(link.until(DATA, 1)[3])["error"]["code"] == "method_refused"
    link.close()


def test_connect_to_what_is_denied(gate):
    link = proxy_link(gate)
    connect(link, "evil.example.net:443", 1)
    assert json.loads(link.until(DATA, 1)[3])["error"]["code"] == "denied_by_policy"
    connect(link, "nonsense", 3)
    assert json.loads(link.until(DATA, 3)[3])["error"]["code"] in ("bad_target", "bad_host")
    link.close()


def test_tls_inside_a_connect_stream_is_seen_into(gate):
    """What ends here ends there too: the leaf is the gateway's, the names must agree."""
    link = proxy_link(gate)
    connect(link, f"{NAME}:{gate.host.port}", 1)
    context = ssl.create_default_context(cafile=gate.ca)
    near, far = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(near, far, server_hostname=NAME)

    def until(step):
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                link.send(frame(DATA, 0, 1, far.read()))
                near.write(link.until(DATA, 1)[3])

    until(tls.do_handshake)
    tls.write(f"GET /v1/inside HTTP/1.1\r\nHost: {NAME}:{gate.host.port}\r\n\r\n".encode())
    link.send(frame(DATA, 0, 1, far.read()))
    text = b""
    while b"GET /v1/inside\n" not in text:
        text += until(lambda: tls.read(65536))
    link.close()


def test_a_big_download_through_a_connect_stream(gate):
    link = proxy_link(gate)
    connect(link, f"{NAME}:{gate.plain.port}", 1)
    link.send(frame(DATA, 0, 1, f"GET /v1/big/3000000 HTTP/1.1\r\nHost: {NAME}:{gate.plain.port}\r\n\r\n".encode()))
    got = 0
    while got < 3000000:
        n = len(link.until(DATA, 1)[3])
        got += n
        for stream in (0, 1):
            link.send(frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", n)))
    link.send(frame(RST_STREAM, 0, 1, struct.pack(">I", 8)))
    ask(link, request(gate, port=gate.plain.port, scheme="http", path="/v1/after"), 3)
    assert link.until(DATA, 3)[3] == b"GET /v1/after\n"
    link.close()


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return h2spec.build(tmp_path_factory.mktemp("h2spec"))


@pytest.mark.parametrize("way", [h2spec.as_they_come, h2spec.one_by_one, h2spec.together], ids=lambda way: way.__name__)
def test_prior_knowledge_passes_every_case(gate, program, way):
    """h2spec through a relay that is a tunnel of the proxy: what it asks for is refused, in HTTP/2, and the refusal is
    there before the next frame, or it is not."""
    relay = h2spec.Relay("127.0.0.78", gate.plain.port, gate.connect_plain, way)
    try:
        passed, failures = h2spec.run(program, gate.plain.port, "-h", "127.0.0.78")
    finally:
        relay.close()
    assert passed == h2spec.CASES, failures
