"""Floods of TLS records that say nothing: on a listener that speaks TLS, and inside a CONNECT where TLS ends here."""
import socket
import ssl
import threading
import time

import pytest

from listener_world import GATE, NAME, World
from tls_records import ALERT, CCS, HANDSHAKE, USER_CANCELED, Records

V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = World(tmp_path_factory.mktemp("records"))
    # Requests to the host over TLS are looked at.
    made.base["policies"]["coding"]["allow"][0].update(methods=["GET", "POST"], paths=["/**"])
    assert made.reload(made.config())[0] == 200
    yield made
    made.close()


def open_link(world, way, version):
    if way == "listener":
        return Records(world.raw(), world.ca, GATE, world.folder, version)
    sock = socket.create_connection(world.proxy, 10, source_address=("127.0.0.5", 0))
    sock.sendall(f"CONNECT {NAME}:{world.host.port} HTTP/1.1\r\nHost: {NAME}:{world.host.port}\r\n\r\n".encode())
    assert sock.recv(65536).endswith(b"\r\n\r\n")
    return Records(sock, world.ca, NAME, world.folder, version)


def head(world, way):
    if way == "listener":
        return f"GET {world.url('/v1/x')} HTTP/1.1\r\nHost: {NAME}:{world.web.port}\r\n\r\n".encode()
    return f"GET /v1/x HTTP/1.1\r\nHost: {NAME}:{world.host.port}\r\n\r\n".encode()


def post(world, way, n):
    return head(world, way).replace(b"GET", b"POST").replace(b"\r\n\r\n", b"\r\nContent-Length: %d\r\n\r\n" % n)


def empty(link, i):
    return link.record()


def mostly_empty(link, i):
    return link.record(b"x" if i % 31 == 30 else b"")


def alerts(link, i):
    return link.record(USER_CANCELED, ALERT)


def alerts_and_bytes(link, i):
    return link.record(b"x") if i % 4 == 3 else link.record(USER_CANCELED, ALERT)


def change_cipher_spec(link, i):
    return b"\x14\x03\x03\x00\x01\x01"


def key_updates(link, i):
    return link.update()


def key_updates_and_bytes(link, i):
    return link.record(b"x") if i % 4 == 3 else link.update()


def hello_again(link, i):
    """Renegotiation."""
    return link.record(b"\x01\x00\x00\x29\x03\x03" + bytes(32) + b"\x00\x00\x02\xc0\x2b\x01\x00", HANDSHAKE)


def empty_handshake(link, i):
    return link.record(b"", HANDSHAKE)


def encrypted_change(link, i):
    return link.record(b"\x01", CCS)


CASES = [(f, v) for f in (empty, mostly_empty, alerts, alerts_and_bytes, change_cipher_spec, hello_again,
                          empty_handshake, encrypted_change) for v in (V12, V13)]
CASES += [(f, V13) for f in (key_updates, key_updates_and_bytes)]


@pytest.mark.parametrize("way", ["listener", "inside"])
@pytest.mark.parametrize("flood, version", CASES, ids=lambda p: getattr(p, "__name__", str(p)))
def test_a_flood_that_says_nothing_ends_its_connection(world, way, flood, version):
    link = open_link(world, way, version)
    # A request whose body they are in: nothing but TLS has a reason to end it.
    link.send(post(world, way, 10_000_000))
    sent, most = 0, 20000
    link.sock.settimeout(10)
    try:
        for i in range(0, most, 50):
            link.sock.sendall(b"".join(flood(link, i + k) for k in range(50)))
            sent += 50
            if i % 1000 == 0:
                time.sleep(0.01)
    except OSError:
        pass
    assert sent < most, "still listened to"
    link.close()
    world.works()


@pytest.mark.parametrize("way", ["listener", "inside"])
@pytest.mark.parametrize("version", [V12, V13])
def test_some_of_all_that_is_no_harm(world, way, version):
    link = open_link(world, way, version)
    for b in head(world, way):
        link.send()
        link.send(USER_CANCELED, ALERT)
        if version == V13:
            link.sock.sendall(link.update())
        link.send(bytes([b]))
    assert b"200 OK" in link.read()
    link.close()


@pytest.mark.parametrize("way", ["listener", "inside"])
@pytest.mark.parametrize("version", [V12, V13])
def test_tiny_records_are_slow_for_their_sender_alone(world, way, version):
    """Each carries a byte, so each is welcome; the others are served meanwhile."""
    link = open_link(world, way, version)
    body = 50_000
    records = [link.record(bytes([b])) for b in post(world, way, body)] + [link.record(b"x") for _ in range(body)]
    done = threading.Event()
    waits = []

    def others():
        while not done.is_set():
            began = time.monotonic()
            world.works()
            waits.append(time.monotonic() - began)

    thread = threading.Thread(target=others)
    thread.start()
    try:
        link.sock.settimeout(30)
        link.sock.sendall(b"".join(records))
        answer = b""
        while not answer.endswith(b"\r\n\r\n%d" % body):
            data = link.read()
            assert data, answer
            answer += data
    finally:
        done.set()
        thread.join()
    link.close()
    assert max(waits) < 2, max(waits)
