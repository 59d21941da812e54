"""What one sandbox sent is in nothing that another gets: memory that is used again shows nothing of before (the
kind of Squid's CVE-2025-62168 and of buffers from a pool)."""
import contextlib
import secrets
import socket
import ssl

import pytest

from h2_gate import DATA, END_HEADERS, END_STREAM, HEADERS, NAME, Frames, H2Gate, field, frame, request

FIRST, SECOND = "127.0.0.5", "127.0.0.6"
MARK = secrets.token_hex(8)
SIZES = [1, 500, 4000, 16000, 65000, 300000]


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    g = H2Gate(tmp_path_factory.mktemp("before"))
    yield g
    g.stop()


def ask(sock, *parts):
    """All that comes back until the end, or until nothing comes."""
    sock.settimeout(0.7)
    got = b""
    with contextlib.suppress(OSError):
        for part in parts:
            sock.sendall(part if isinstance(part, bytes) else part.encode())
        while data := sock.recv(65536):
            got += data
    sock.close()
    return got


def mark(n):
    return (MARK * (n // len(MARK) + 1))[:max(n, len(MARK))]


def fill(gate):
    """Fields, paths and bodies of every size, allowed and refused, in each protocol, whole and cut off."""
    authority = f"{NAME}:{gate.host.port}"
    for n in SIZES:
        body = mark(n)
        head = f"POST /v1/{MARK} HTTP/1.1\r\nHost: {authority}\r\nAuthorization: {mark(min(n, 8000))}\r\nConnection: close\r\n"
        for length in (n, n + 1000):
            ask(gate.connect("http/1.1", source=FIRST), head, f"Content-Length: {length}\r\n\r\n", body[:n])
        ask(gate.connect_plain(source=FIRST), head.replace("POST", MARK[:9]), f"Content-Length: {n}\r\n\r\n", body[:n])
        link = Frames(gate, source=FIRST)
        for stream, method in ((1, "POST"), (3, "PUT")):
            link.send(frame(HEADERS, END_HEADERS, stream, request(gate, method=method, path=f"/v1/{MARK}") + field("x", mark(100))))
            link.send(frame(DATA, END_STREAM, stream, body[:min(n, 16000)].encode()))
            link.until(HEADERS, stream)
        link.close()
    ask(socket.create_connection(gate.proxy, source_address=(FIRST, 0)), f"GET http://evil.example.net/{MARK} HTTP/1.1\r\n",
        "Host: evil.example.net\r\nConnection: close\r\n\r\n")


def everything(gate):
    """What a sandbox can be told: answers of the host, also short ones, refusals and pages."""
    authority, got = f"{NAME}:{gate.host.port}", b""
    plain = "Connection: close\r\n\r\n"
    for line, fields in [("GET /v1/x", ""), ("HEAD /v1/big/100000", ""), ("GET /v1/cut", ""), ("GET /v1/big/300000", ""), ("PUT /v1/x", ""),
                         ("GET /" + "a" * 20000, ""), ("GET /v1/x", "X: " + "a" * 20000 + "\r\n"), ("GET /v1/x", "X\r\n"), ("", "")]:
        text = f"{line} HTTP/1.1\r\nHost: {authority}\r\n{fields}{plain}"
        got += ask(gate.connect("http/1.1", source=SECOND), text) + ask(gate.connect_plain(source=SECOND), text)
    for page in ("/", "/me", "/policy", "/last", "/nothing"):
        got += ask(socket.create_connection(gate.proxy, source_address=(SECOND, 0)),
                   f"GET http://sandgate.internal{page} HTTP/1.1\r\nHost: sandgate.internal\r\n{plain}")
    got += ask(socket.create_connection(gate.proxy, source_address=(SECOND, 0)), b"\x05\x01\x02", bytes(300))
    for method, path in (("GET", "/v1/x"), ("PUT", "/v1/x"), ("GET", "/v1/cut"), ("GET", "x")):
        link = Frames(gate, source=SECOND)
        link.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, request(gate, method=method, path=path)))
        link.sock.settimeout(0.7)
        with contextlib.suppress(OSError, ssl.SSLError):
            while one := link.read():
                got += one[3]
        link.close()
    return got


def test_nothing_of_one_sandbox_is_in_what_another_gets(gate):
    fill(gate)
    got = everything(gate)
    assert len(got) > 300000 and b"denied" in got and b"0123456789abcdef" in got
    for piece in (MARK[:8], MARK[8:]):
        assert piece.encode() not in got


HELPERS = ["/open?url={}", "/browse?u={}", "/fetch?url={}", "/proxy/{}", "/callback?redirect_uri={}", "/last?url={}", "/policy?url={}",
           "/?url={}", "/hook?to={}"]


def test_no_page_of_ours_goes_anywhere_for_a_sandbox(gate):
    """There is no helper that opens, fetches or calls back: what looks like one is a page that is not there."""
    before = len(gate.plain.server.seen)
    for helper in HELPERS:
        for method in ("GET", "POST", "PUT"):
            path = helper.format(f"http://{NAME}:{gate.plain.port}/v1/{MARK}")
            got = ask(socket.create_connection(gate.proxy, source_address=(FIRST, 0)),
                      f"{method} http://sandgate.internal{path} HTTP/1.1\r\nHost: sandgate.internal\r\n"
                      "Content-Length: 0\r\nConnection: close\r\n\r\n")
            status = got.split(b" ")[1]
            assert status in (b"200", b"403", b"404", b"405"), got
            assert b"\nlocation:" not in got.lower() and b"\nrefresh:" not in got.lower(), got
    assert len(gate.plain.server.seen) == before
