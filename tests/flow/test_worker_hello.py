"""The worker alone: hellos, whole, cut and false."""
import ssl
import struct

import pytest

from tls_world import read_head
from worker_gate import connect, echo, gate, secure, socks, tls


def hello_of(context, name):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


def with_extension(hello, kind, body):
    """The same hello with one more extension at its end."""
    message = bytearray(hello[5:])
    at = 4 + 2 + 32
    at += 1 + message[at]
    at += 2 + int.from_bytes(message[at:at + 2], "big")
    at += 1 + message[at]
    more = struct.pack("!HH", kind, len(body)) + body
    message[at:at + 2] = struct.pack("!H", int.from_bytes(message[at:at + 2], "big") + len(more))
    message += more
    message[1:4] = (len(message) - 4).to_bytes(3, "big")
    return records(bytes(message), 1 << 14)


def records(message, size):
    parts = [message[i:i + size] for i in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + struct.pack("!H", len(p)) + p for p in parts)


def alert_of(sock):
    got = b""
    try:
        while more := sock.recv(100):
            got += more
    except ConnectionResetError:
        pass
    return got[6] if got[:1] == b"\x15" and len(got) == 7 else got


def refusals_of_hello(gate, hello):
    """The codes with which it is refused on each way."""
    transparent = gate.connect(gate.transparent)
    pinned = connect(gate, "ok.test:443")
    read_head(pinned)
    through_socks, _ = socks(gate, "ok.test", 443)
    for sock in (transparent, pinned, through_socks):
        sock.sendall(hello)
        alert_of(sock)
    return [r["reason"] for r in gate.rows("deny", least=3)]


def test_hellos_that_no_way_lets_pass(gate, tls):
    plain = hello_of(tls[1], "ok.test")
    alpn = ssl.create_default_context()
    alpn.set_alpn_protocols(["acme-tls/1"])
    no_name = ssl.create_default_context()
    no_name.check_hostname = False
    cases = {
        "ech": with_extension(plain, 0xfe0d, b"\0" * 40), "alpn_refused": hello_of(alpn, "ok.test"),
        "no_sni": hello_of(no_name, None), "hello_too_large": records(b"\1\1\x10\0" + b"x" * 70000, 16384),
        "hello_unparsable": plain[:60] + b"\xff" * (len(plain) - 60),
    }
    seen = 0
    for code, hello in cases.items():
        assert refusals_of_hello(gate, hello)[seen:] == [code] * 3
        seen += 3
    assert gate.dialer.asked == []


@pytest.mark.parametrize("size", [1, 2, 7, 100, 1000])
def test_a_hello_cut_into_records_passes_or_is_refused_but_never_taken_for_plain(gate, size):
    message = hello_of(gate.client, "ok.test")[5:]
    hello = records(message, size)
    sock = connect(gate, "ok.test:443")
    read_head(sock)
    sock.sendall(hello)
    sock.recv(100)
    if -(-len(message) // size) <= 256:
        assert gate.dialer.asked[0][0] == "ok.test" and gate.rows("tunnel_start", least=1)
    else:
        assert gate.rows("deny", least=1)[0]["reason"] == "hello_too_large"


def test_names_are_one_whatever_their_spelling(gate):
    sock = connect(gate, "OK.TEST.:443")
    assert read_head(sock).startswith("HTTP/1.1 200 ")
    with secure(gate, sock) as t:
        echo(t)
    assert gate.dialer.asked == [("ok.test", 443, 1, "127.0.0.5")]
