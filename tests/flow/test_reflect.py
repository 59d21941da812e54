"""A company system that shows what it was sent, in every form and cut, through the whole gateway:
the sandbox sees its placeholder and never the credential."""
import gzip
import json
import secrets
import socket
import ssl
import subprocess

import pytest

import company_systems as systems
from certificates import let_read
from company import ADDRESS, Answer, Company
from conftest import Gate
from http_line import rss

HOST, OPEN, SOCKET = "echo.example.test", "open.example.test", "socket.example.test"
VERSIONS = ["--http1.1", "--http2"]
SHAPE = "tok_" + 28 * "*"


BOMB = gzip.compress(bytes(100 << 20), 9)


class Worse(systems.Echo):
    """Also answers with what nobody should have to decode."""

    def answer(self, r):
        if r.path == "/echo/bomb":
            return Answer(200, BOMB, [("Content-Encoding", "gzip")])
        if r.path == "/echo/unknown":
            return Answer(200, b"x", [("Content-Encoding", "compress")])
        if r.path == "/echo/part":
            return Answer(206, b"x", [("Content-Range", "bytes 0-0/2")])
        if r.path == "/echo/cut":
            return Answer(200, BOMB[:1000], [("Content-Encoding", "gzip")])
        return super().answer(r)


class World:
    def __init__(self, folder, protocols):
        let_read(folder)
        self.secret = "tok_" + secrets.token_hex(14)
        self.firm = Company(folder / "ca", protocols=protocols)
        self.echo = self.firm.add(HOST, Worse(systems.bearer(self.secret)))
        self.firm.add(OPEN, systems.Echo(systems.bearer(self.secret)))
        self.sockets = self.firm.add(SOCKET, systems.Sockets(systems.bearer(self.secret)))
        self.gate = Gate()
        self.gate.write(self.config())
        self.gate.start()
        done = self.gate.cli("vault", "put", "echo/token", "--connector", "echo", input=self.secret)
        assert done.returncode == 0, done.stderr
        assert self.gate.cli("vault", "grant", "echo/token", "--connector", "open").returncode == 0
        self.ca = folder / "gateway.pem"
        self.ca.write_text(self.gate.cli("ca", "export").stdout)
        page = self.curl("/credentials", url="http://sandgate.internal")
        self.placeholder = json.loads(page.rpartition(b"\r\n\r\n")[2])["placeholders"][0]["placeholder"]

    def config(self):
        local = {"ports": [self.firm.port], "addresses": ["127.0.0.0/8"],
                 "allow": [{"methods": ["GET", "POST"], "paths": ["/echo/**"]}]}
        return {
            "upstream_tls": {"ca_file": str(self.firm.ca.file)},
            "resolver": {"servers": ["127.0.0.1"], "timeout": "200ms", "tries": 1, 
                         "hosts": {n: [ADDRESS] for n in (HOST, OPEN, SOCKET)}},
            "sandboxes": [{"id": "demo", "source": "127.0.0.1", "user": "alice", "policy": "coding", "trusts_ca": True}],
            "connectors": [
                {"name": "echo", "hosts": [HOST, SOCKET], "auth": {"kind": "bearer", "secret": "echo/token", "placeholder": SHAPE}, **local},
                {"name": "open", "hosts": [OPEN], "auth": {"kind": "bearer", "secret": "echo/token"}, "redact": False, **local}],
            "policies": {"coding": {"allow": [], "connectors": ["echo", "open"]}},
        }

    def ask(self, path, *words, url=None, host=HOST):
        proxy = "http://%s:%d" % self.gate.proxy
        return subprocess.run(["curl", "-sS", "-i", "-m", "20", "--suppress-connect-headers", "--proxy", proxy, "--cacert", self.ca, *words,
                               (url or f"https://{host}:{self.firm.port}") + path], capture_output=True)

    def curl(self, path, *words, **kw):
        done = self.ask(path, *words, **kw)
        assert done.returncode == 0, (done.stderr, done.stdout, self.gate.text_of_log()[-2000:])
        return done.stdout

    def is_clean(self, text):
        """Not there in any form, wherever it begins."""
        held, secret = text.lower(), self.secret.encode()
        for form in systems.Echo.forms.values():
            for inner in (secret, b"x" + secret, b"xy" + secret):
                shown = form(inner)
                if shown[4:-4].lower() in held:
                    return False
        return True

    def close(self):
        self.gate.close()
        self.firm.close()
        assert not self.firm.errors, self.firm.errors


@pytest.fixture(scope="module", params=["h2", "http/1.1"])
def world(request, tmp_path_factory):
    made = World(tmp_path_factory.mktemp("reflect"), [request.param])
    yield made
    made.close()


@pytest.mark.parametrize("form", systems.Echo.forms)
def test_where_nothing_is_masked_the_credential_is_found(world, form):
    assert not world.is_clean(world.curl(f"/echo/{form}/field", host=OPEN))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("form", systems.Echo.forms)
def test_every_form_and_cut_shows_the_placeholder(world, form, version):
    say = systems.Echo.forms[form]
    for end in ["", "/split", "/field", *(f"/{c}" for c in systems.Echo.codings)]:
        text = world.curl(f"/echo/{form}{end}", version)
        assert text.count(b" 200") == 1, text
        assert world.is_clean(text), (end, text)
        if form == "plain" or end == "/field":
            assert say(b"Bearer " + world.placeholder.encode()) in text, (end, text)
    assert not any(r.refused for r in world.echo.seen)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_part_of_the_answer_is_never_asked_for(world, version):
    text = world.curl("/echo/plain", version, "-H", "Range: bytes=30-60", "-H", "If-Range: x", "-H", "Accept-Encoding: gzip")
    assert b" 200" in text.split(b"\r\n\r\n")[-2] and world.is_clean(text)
    seen = world.echo.seen[-1]
    assert not seen.all("range") and not seen.all("if-range") and seen.all("accept-encoding") == ["identity"]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_sandbox_puts_before_an_echo_does_not_hide_it(world, version):
    for trick in ["%25", "%2525", "%5C", "%5Cu00", "tok_"]:
        text = world.curl(f"/echo/plain?before={trick}", version, "-H", f"X-Zz: {trick}")
        assert world.is_clean(text) and world.placeholder.encode() in text


def test_the_row_of_an_answer_counts_the_echoes(world):
    world.curl("/echo/plain", "--http1.1")
    rows = world.gate.wait_rows(1, kind="response", scrubbed=1)
    assert rows and rows[-1]["connector"] == "echo"


def test_the_placeholder_may_be_shown_to_its_own_host_and_to_no_other_field(world):
    text = world.curl("/echo/plain", "-H", f"Authorization: Bearer {world.placeholder}")
    assert b" 200" in text and world.is_clean(text)
    text = world.curl("/echo/plain", "-H", f"X-Note: {world.placeholder}")
    assert b"placeholder_misplaced" in text


@pytest.mark.parametrize("version", VERSIONS)
def test_a_bomb_ends_its_own_answer_and_costs_little(world, version):
    pid = next(p for n, p in world.gate.pids().items() if n.startswith("connector"))
    before = rss(pid)
    done = world.ask("/echo/bomb", version)
    assert done.returncode != 0 or b" 502" in done.stdout
    assert len(done.stdout) < 4 << 20
    assert rss(pid) - before < 4 << 20
    assert b" 200" in world.curl("/echo/plain", version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", ["/echo/unknown", "/echo/part"])
def test_what_can_not_be_read_is_not_passed_on(world, path, version):
    text = world.curl(path, version)
    assert b"upstream_bad_response" in text


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_that_is_cut_off_does_not_look_whole(world, version):
    assert world.ask("/echo/cut", version).returncode != 0


def websocket(world):
    """(TLS socket, its file) behind the 101."""
    sock = socket.create_connection(world.gate.proxy, timeout=10)
    name = f"{SOCKET}:{world.firm.port}"
    sock.sendall(f"CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
    assert b" 200 " in sock.recv(4096)
    tls = ssl.create_default_context(cafile=world.ca).wrap_socket(sock, server_hostname=SOCKET)
    tls.sendall(f"GET /echo/ws HTTP/1.1\r\nHost: {name}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n".encode())
    file = tls.makefile("rb")
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = file.readline()
        assert line, head
        head += line
    assert b" 101 " in head and b"sandgate-" not in head.lower(), head
    return tls, file


@pytest.mark.parametrize("world", ["http/1.1"], indirect=True)
def test_messages_of_a_websocket_are_masked_and_none_is_held(world):
    tls, file = websocket(world)
    want = b"Bearer " + world.placeholder.encode()
    assert file.read(2 + len(want)) == bytes([0x81, len(want)]) + want
    assert not world.sockets.seen[-1].all("sec-websocket-extensions")
    # A message that ends as an echo would begin comes at once.
    for message in [b"hello", b"tok_", world.secret[:4].encode()]:
        tls.sendall(bytes([0x81, 0x80 | len(message)]) + bytes(4) + message)
        assert file.read(2 + len(message)) == bytes([0x81, len(message)]) + message
    tls.close()
