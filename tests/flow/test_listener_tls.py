"""A proxy listener that speaks TLS itself: the certificate is our authority's, and inside is what is on any
proxy listener.  The clients are those that can be told of an https proxy."""
import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time

import pytest

from conftest import Gate, ROOT, wait_for
from listener_world import GATE, NAME, TOKENS, World, line
from tally import program
from tls_world import read_answer


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = World(tmp_path_factory.mktemp("tls"))
    yield made
    made.close()


@pytest.fixture
def fresh(tmp_path):
    made = []

    def start(**how):
        made.append(World(tmp_path, **how))
        return made[-1]

    yield start
    for one in made:
        one.close()


def code_of(answer):
    return json.loads(answer[2])["error"]["code"]


# The clients.

@pytest.mark.parametrize("scheme", ["http", "https"])
def test_curl_by_an_https_proxy(world, scheme):
    assert world.curl("-k", world.url("/v1/x", scheme)) == b"GET /v1/x\n"
    # curl 60: the proxy's certificate is nobody's whom it trusts.
    done = subprocess.run(["curl", "-sS", "-x", f"https://127.0.0.1:{world.port}", world.url("/v1/x")],
                          capture_output=True)
    assert done.returncode == 60, done


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_curl_with_a_token_from_an_address_nobody_knows(world, scheme):
    assert world.curl("-k", "--proxy-user", f"ci:{TOKENS['ci']}", world.url("/v1/x", scheme),
                      source="127.0.0.9") == b"GET /v1/x\n"
    assert world.curl("-o", "/dev/null", "-w", "%{http_code}", "--proxy-user", "ci:wrong", world.url("/v1/x"),
                      source="127.0.0.9") == b"407"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_python_by_an_https_proxy(world, scheme):
    """urllib3, which requests, pip and most others speak with; for https it is TLS inside TLS."""
    urllib3 = pytest.importorskip("urllib3")
    both = world.folder / "both.pem"
    both.write_text(world.ca.read_text() + (world.folder / "authority" / "ca.pem").read_text())
    with urllib3.ProxyManager(f"https://localhost:{world.port}", ca_certs=str(both), timeout=10, retries=False,
                              proxy_ssl_context=world.context(), source_address=("127.0.0.5", 0)) as pool:
        for i in range(2):
            assert pool.request("GET", world.url(f"/v1/{i}", scheme)).data == b"GET /v1/%d\n" % i


def test_node_by_an_https_proxy(world, tmp_path):
    script = tmp_path / "t.js"
    script.write_text("""
const https = require('https'), fs = require('fs'), [port, ca, url, host] = process.argv.slice(2);
https.get({host: '127.0.0.1', localAddress: '127.0.0.5', port, path: url, headers: {host}, servername: 'gw.example.test', ca: fs.readFileSync(ca)}, r => {
  r.setEncoding('utf8'); r.on('data', d => process.stdout.write(r.statusCode + ' ' + d));
}).on('error', e => { console.error(e); process.exit(1); });
""")
    done = subprocess.run(["node", script, str(world.port), world.ca, world.url("/v1/x"), f"{NAME}:{world.web.port}"],
                          capture_output=True, timeout=30)
    assert done.stdout == b"200 GET /v1/x\n", done


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_go_by_an_https_proxy(world, tmp_path, scheme):
    go = program("go")
    (tmp_path / "main.go").write_text(r"""
package main
import ("crypto/tls"; "crypto/x509"; "fmt"; "io"; "net/http"; "net/url"; "os")
func main() {
	pool := x509.NewCertPool()
	for _, f := range os.Args[3:] { b, _ := os.ReadFile(f); pool.AppendCertsFromPEM(b) }
	proxy, _ := url.Parse(os.Args[1])
	c := http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: pool}}}
	r, err := c.Get(os.Args[2])
	if err != nil { fmt.Println(err); os.Exit(1) }
	b, _ := io.ReadAll(r.Body)
	fmt.Print(string(b))
}
""")
    env = {**os.environ, "GOCACHE": str(ROOT / "build/gocache"), "GOPATH": str(tmp_path / "go"), "GOFLAGS": "",
           "GO111MODULE": "off"}
    subprocess.run([go, "build", "-o", "get", "main.go"], cwd=tmp_path, env=env, check=True, timeout=300)
    done = subprocess.run([tmp_path / "get", f"https://ci:{TOKENS['ci']}@127.0.0.1:{world.port}",
                           world.url("/v1/x", scheme), world.ca, world.folder / "authority" / "ca.pem"],
                          capture_output=True, timeout=30)
    assert done.stdout == b"GET /v1/x\n", done


# Inside.

def test_several_requests_and_then_a_connect_on_one_connection(world):
    with world.connect() as sock:
        for i in range(3):
            sock.sendall(f"GET {world.url(f'/v1/{i}')} HTTP/1.1\r\nHost: {NAME}:{world.web.port}\r\n\r\n".encode())
            assert read_answer(sock)[2] == b"GET /v1/%d\n" % i
        sock.sendall(f"CONNECT {NAME}:{world.host.port} HTTP/1.1\r\nHost: {NAME}:{world.host.port}\r\n\r\n".encode())
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")


def socks(sock, name, port, user=None):
    sock.sendall(b"\x05\x01" + (b"\x02" if user else b"\x00"))
    assert sock.recv(2) == (b"\x05\x02" if user else b"\x05\x00")
    if user:
        who, token = user[0].encode(), user[1].encode()
        sock.sendall(bytes([1, len(who)]) + who + bytes([len(token)]) + token)
        if sock.recv(2) != b"\x01\x00":
            return None
    sock.sendall(b"\x05\x01\x00\x03" + bytes([len(name)]) + name.encode() + struct.pack(">H", port))
    return sock.recv(10)[1]


def test_socks_inside(world):
    with world.connect() as sock:
        assert socks(sock, "raw.example.test", world.web.port) == 0
        sock.sendall(b"GET /v1/s HTTP/1.1\r\nHost: x.test\r\n\r\n")
        assert read_answer(sock)[2] == b"GET /v1/s\n"
    with world.connect(source="127.0.0.9") as sock:
        assert socks(sock, "raw.example.test", world.web.port, ("ci", TOKENS["ci"])) == 0
    with world.connect(source="127.0.0.9") as sock:
        assert socks(sock, "raw.example.test", world.web.port, ("ci", "wrong")) is None


def test_what_is_denied_is_told_inside(world):
    with world.connect() as sock:
        sock.sendall(b"GET http://no.example.test/ HTTP/1.1\r\nHost: no.example.test\r\n\r\n")
        answer = read_answer(sock)
    assert answer[0] == 403 and code_of(answer) == "denied_by_policy"
    row = world.wait_rows(kind="deny", host="no.example.test:80")[-1]
    assert row["listener"] == "secure" and row["sandbox"] == "demo"


def test_a_token_is_asked_for_and_a_second_try_is_taken(world):
    with world.connect(source="127.0.0.9") as sock:
        ask = f"CONNECT {NAME}:{world.host.port} HTTP/1.1\r\nHost: {NAME}:{world.host.port}\r\n"
        sock.sendall((ask + "\r\n").encode())
        status, fields, _ = read_answer(sock)
        assert status == 407 and fields["proxy-authenticate"].startswith("Basic ")
        sock.sendall((ask + line("ci") + "\r\n").encode())
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")


def test_one_connection_is_never_two_sandboxes(world):
    ask = f"GET {world.url('/v1/x')} HTTP/1.1\r\nHost: {NAME}:{world.web.port}\r\n"
    with world.connect(source="127.0.0.9") as sock:
        sock.sendall((ask + line("ci") + "\r\n").encode())
        assert read_answer(sock)[0] == 200
        sock.sendall((ask + line("other") + "\r\n").encode())
        answer = read_answer(sock)
        assert answer[0] == 407 and code_of(answer) == "auth_failed"


def test_large_bodies_go_both_ways(world):
    body = os.urandom(3_000_000)
    with world.connect() as sock:
        ask = f"POST {world.url('/v1/up')} HTTP/1.1\r\nHost: {NAME}:{world.web.port}\r\nContent-Length: {len(body)}\r\n"
        sock.sendall((ask + "\r\n").encode() + body)
        assert read_answer(sock)[2] == b"3000000"
    for scheme in "http", "https":
        assert len(world.curl("-k", world.url("/v1/big/16000000", scheme))) == 16_000_000


def test_a_body_that_breaks_off_is_not_passed_for_whole(world):
    """Without a length, its end is the connection's: close_notify would say it is all."""
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    config = world.config()
    config["policies"]["coding"]["allow"][1]["ports"].append(port)
    assert world.reload(config)[0] == 200

    def serve():
        sock, _ = server.accept()
        sock.recv(65536)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it")
        sock.close()

    thread = threading.Thread(target=serve)
    thread.start()
    with world.context().wrap_socket(world.raw(), server_hostname=GATE, suppress_ragged_eofs=False) as sock:
        sock.sendall(f"GET http://{NAME}:{port}/ HTTP/1.0\r\nHost: {NAME}:{port}\r\n\r\n".encode())
        with pytest.raises((ConnectionError, ssl.SSLError)):
            while sock.recv(65536):
                pass
    thread.join()
    server.close()


# The certificate.

def test_the_certificate_has_the_names_of_the_listener(world):
    for name in GATE, "127.0.0.1":
        with world.connect(name=name) as sock:
            alt = sock.getpeercert()["subjectAltName"]
            assert set(alt) == {("DNS", GATE), ("IP Address", "127.0.0.1"), ("DNS", "localhost")}
    with pytest.raises(ssl.SSLCertVerificationError):
        world.connect(name="other.example.test")
    row = world.wait_rows(kind="mint")[0]
    assert row["listener"] == "secure" and row["detail"] == "for a listener"


def test_status_tells_which_listeners_speak_tls(world):
    told = {l["name"]: l["tls"] for l in world.status()["listeners"]}
    assert told["secure"] == [GATE, "127.0.0.1", "localhost"] and told["proxy"] == []
    assert f"TLS as {GATE}, 127.0.0.1, localhost" in world.cli("status").stdout


def test_protocols_are_chosen_from_ours(world):
    for offered, want in (("h2", "http/1.1"), "h2"), (("http/1.1",), "http/1.1"), ((), None):
        with world.connect(context=world.context(offered)) as sock:
            assert sock.selected_alpn_protocol() == want
    with pytest.raises(ssl.SSLError):
        world.connect(context=world.context(("acme-tls/1",)))
    for version in ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3:
        world.works(context=world.context(maximum_version=version))
    old = world.context(minimum_version=ssl.TLSVersion.TLSv1, maximum_version=ssl.TLSVersion.TLSv1_1)
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        world.connect(context=old)


def test_many_first_connections_cost_one_leaf(fresh):
    world = fresh()
    threads = [threading.Thread(target=world.works) for _ in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(world.wait_rows(kind="mint")) == 1


def test_a_new_authority_and_other_names_are_taken_up(fresh):
    world = fresh()
    world.works()
    assert world.cli("ca", "rotate").returncode == 0

    def is_taken():
        try:
            world.connect().close()
        except ssl.SSLCertVerificationError:
            return True

    wait_for(is_taken)
    world.export()
    world.works()
    world.names = ["new.example.test"]
    assert world.reload(world.config())[0] == 200
    world.works(name="new.example.test")
    with pytest.raises(ssl.SSLCertVerificationError):
        world.connect()


def test_without_a_keeper_what_has_its_leaf_goes_on(fresh):
    world = fresh()
    world.works()
    os.kill(world.pids()["keeper"], signal.SIGKILL)
    world.works()


def test_a_sealed_vault_gives_no_certificate(fresh):
    world = fresh()
    assert world.cli("vault", "seal").returncode == 0
    with pytest.raises(ssl.SSLError):
        world.connect()
    assert world.wait_rows(kind="deny", listener="secure")[-1]["code"].startswith("vault_")
    with socket.create_connection(world.proxy, 10, source_address=("127.0.0.5", 0)) as sock:
        sock.sendall(f"GET {world.url('/v1/x')} HTTP/1.1\r\nHost: {NAME}:{world.web.port}\r\n\r\n".encode())
        assert read_answer(sock)[2] == b"GET /v1/x\n"
    assert world.cli("vault", "unseal").returncode == 0
    world.works()


# Attacks.

def test_plain_http_gets_a_word_and_other_bytes_none(world):
    with world.raw() as sock:
        sock.sendall(f"CONNECT {NAME}:443 HTTP/1.1\r\nHost: {NAME}\r\n\r\n".encode())
        answer = read_answer(sock)
        assert answer[0] == 400 and code_of(answer) == "listener_wants_tls" and sock.recv(1) == b""
    for bytes_ in b"\x05\x01\x00", b"\x80\x2e\x01\x00\x02", b"\x00" * 100, b"\xff":
        with world.raw() as sock:
            sock.sendall(bytes_)
            assert sock.recv(100) == b""
    world.works()


def test_a_handshake_that_stops_is_ended_and_silence_too(fresh):
    world = fresh(timeouts={"drain": "1s", "hello": "1s"})
    hello = hello_of()
    for part in b"", hello[:1], hello[:40], hello:
        with world.raw() as sock:
            began = time.monotonic()
            sock.sendall(part)
            sock.settimeout(5)
            while sock.recv(65536):
                pass
            assert 0.5 < time.monotonic() - began < 4
    with world.raw() as sock:  # a byte at a time buys no more time
        began = time.monotonic()
        with pytest.raises(OSError):
            for i in range(len(hello)):
                sock.sendall(hello[i:i + 1])
                time.sleep(0.05)
        assert time.monotonic() - began < 5
    world.works()


def hello_of():
    """A ClientHello as OpenSSL writes it."""
    side, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    made = ssl.create_default_context().wrap_bio(side, out, server_hostname=GATE)
    with pytest.raises(ssl.SSLWantReadError):
        made.do_handshake()
    return out.read()


def test_a_hello_in_single_bytes_is_one(world):
    context = world.context()
    side, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    made = context.wrap_bio(side, out, server_hostname=GATE)
    with world.raw() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                made.do_handshake()
                break
            except ssl.SSLWantReadError:
                for b in out.read():
                    sock.sendall(bytes([b]))
                side.write(sock.recv(65536))
        assert made.version() == "TLSv1.3"


def test_a_flood_of_handshakes_from_an_unknown_address_is_rationed(fresh):
    world = fresh()
    hello, fails = hello_of(), 0
    for _ in range(500):
        with world.raw("127.0.0.66") as sock:
            sock.sendall(hello)
            try:
                answer = sock.recv(5)
                fails += answer[:1] != b"\x16"
            except ConnectionError:
                fails += 1
    assert fails > 20
    began = time.monotonic()
    world.works()
    with world.connect(source="127.0.0.9") as sock:
        sock.sendall(f"GET {world.url('/v1/x')} HTTP/1.1\r\nHost: {NAME}:{world.web.port}\r\n{line('ci')}\r\n".encode())
        assert read_answer(sock)[0] == 200
    assert time.monotonic() - began < 3


def test_a_client_that_refuses_our_certificate_is_in_the_ledger(world):
    with pytest.raises(ssl.SSLError):
        world.connect(context=ssl.create_default_context())
    assert wait_for(lambda: any("unknown ca" in r.get("detail", "") for r in
                                world.rows(kind="deny", code="client_tls_failed", listener="secure")))


def test_no_renegotiation(world):
    done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{world.port}", "-CAfile", str(world.ca),
                           "-tls1_2"], input=b"R\n", capture_output=True, timeout=20)
    assert b"renegotiation" in done.stderr.lower(), done
    world.works()


def test_limits_of_a_sandbox_count_its_tls_connections_once(fresh):
    world = fresh(limits={"connections": 4})
    socks_ = [world.connect() for _ in range(4)]
    with pytest.raises((ssl.SSLError, ConnectionError)):
        world.connect()
    socks_.pop().close()
    wait_for(lambda: world.counter("open") <= 6)
    world.works()
    for s in socks_:
        s.close()


def test_a_reload_and_a_drain_with_connections_open(fresh):
    world = fresh()
    with world.connect() as sock:
        ask = f"GET {world.url('/v1/x')} HTTP/1.1\r\nHost: {NAME}:{world.web.port}\r\n\r\n".encode()
        sock.sendall(ask)
        assert read_answer(sock)[0] == 200
        assert world.reload(world.config())[0] == 200
        sock.sendall(ask)
        assert read_answer(sock)[0] == 200
        config = world.config(sandboxes=world.base["sandboxes"][1:])
        assert world.reload(config)[0] == 200
        assert sock.recv(100) == b""
    assert world.stop() == 0


def test_no_connection_is_left_behind(fresh):
    world = fresh()
    for end in ("close", "reset", "half"):
        for _ in range(10):
            sock = world.connect()
            sock.sendall(f"GET {world.url('/v1/big/4000000')} HTTP/1.1\r\nHost: {NAME}:{world.web.port}\r\n\r\n".encode())
            sock.recv(1000)
            if end == "reset":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if end == "half":
                socket.socket.shutdown(sock, socket.SHUT_WR)
            sock.close()
    wait_for(lambda: world.status()["counters"]["open"] == 0)


# The configuration.

@pytest.mark.parametrize("tls, kind, address, words", [
    ({"nmaes": ["a.test"]}, "proxy", "127.0.0.1:1", "unknown key `nmaes`; did you mean names?"),
    ({"names": []}, "proxy", "127.0.0.1:1", "`names` is empty"),
    ({}, "proxy", "0.0.0.0:1", "`names` is missing"),
    ({"names": ["*.a.test"]}, "proxy", "127.0.0.1:1", "no pattern here"),
    ({"names": ["https://a.test"]}, "proxy", "127.0.0.1:1", "is no host name and no address"),
    ({"names": ["a.test", "A.test"]}, "proxy", "127.0.0.1:1", "`a.test` is there twice"),
    ({"names": [f"{i}.test" for i in range(17)]}, "proxy", "127.0.0.1:1", "at most 16 names"),
    ({"key_file": "/x", "names": ["a.test"]}, "proxy", "127.0.0.1:1", "a listener has no key file"),
    ({"names": ["a.test"]}, "transparent", "127.0.0.1:1", "tls is for proxy and opensandbox listeners"),
    ({"names": ["a.test"]}, "dns", "127.0.0.1:1", "tls is for proxy and opensandbox listeners"),
    ("yes", "proxy", "127.0.0.1:1", "a single value where a mapping belongs"),
])
def test_what_is_wrong_is_said(tmp_path, tls, kind, address, words):
    g = Gate({"listeners": [{"name": "x", "kind": kind, "address": address, "tls": tls}]})
    try:
        done = g.cli("check")
        assert done.returncode == 2 and words in done.stdout + done.stderr, done
    finally:
        g.close()


def test_the_default_name_is_the_address(tmp_path):
    g = Gate({"listeners": [{"name": "x", "kind": "proxy", "address": "127.0.0.1:1", "tls": {}}]})
    try:
        done = g.cli("check")
        assert done.returncode == 0, done
    finally:
        g.close()
