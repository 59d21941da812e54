"""Hosts whose requests the policy wants to see: TLS ends in the gateway and begins again.

The clients are those that sandboxes have; the host writes down what reached it.
"""
import datetime
import http.client
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

from certificates import let_read
from conftest import ROOT, Gate, wait_for
from intercept_world import NAMES, World, config, url
from tls_world import Authority, Host, openssl, read_answer, tunnel


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    folder = tmp_path_factory.mktemp("authority")
    let_read(folder)
    return Authority(folder)


@pytest.fixture(scope="module")
def host(authority):
    made = Host(authority.leaf([f"DNS:{n}" for n in NAMES]))
    yield made
    made.close()


@pytest.fixture(scope="module")
def world(authority, host, tmp_path_factory):
    g = Gate(config(authority, host)).start()
    yield World(g, authority, tmp_path_factory.mktemp("world"))
    g.close()


# The clients.

@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_curl(world, host, version):
    assert world.curl(version, url(host, "/v1/x")) == b"GET /v1/x\n"
    told = json.loads(world.curl(version, url(host, "/v2/x")))["error"]
    assert told["code"] == "denied_path" and "sandgate.yaml:" in told["rule"]
    assert world.curl(version, "-X", "DELETE", "-o", "/dev/null", "-w", "%{http_code} %{http_version}",
                      url(host, "/v1/x")) == b"403 " + (b"2" if version == "--http2" else b"1.1")
    assert [s for s in host.seen if s[0] == "DELETE" or s[1] == "/v2/x"] == []


def test_python(world, host):
    link = http.client.HTTPSConnection(*world.gate.proxy, context=ssl.create_default_context(cafile=world.ca), timeout=20)
    link.set_tunnel("api.example.test", host.port)
    for i in range(20):
        link.request("GET", f"/v1/{i}")
        assert link.getresponse().read() == b"GET /v1/%d\n" % i
    link.request("POST", "/v1/up", bytes(3_000_000))
    assert link.getresponse().read() == b"3000000"
    link.close()


def test_node(world, host, tmp_path):
    script = tmp_path / "get.mjs"
    script.write_text("""
import http from 'node:http'; import https from 'node:https'; import tls from 'node:tls';
const [proxy, name, port, path] = process.argv.slice(2);
http.request({host: '127.0.0.1', port: proxy, method: 'CONNECT', path: `${name}:${port}`, headers: {host: `${name}:${port}`}})
  .on('connect', (_, socket) => {
    https.get({host: name, port, path, createConnection: () => tls.connect({socket, servername: name})},
      r => { r.pipe(process.stdout); r.on('end', () => process.exit(0)); });
  }).end();
""")
    done = subprocess.run(["node", str(script), str(world.gate.proxy[1]), "api.example.test", str(host.port), "/v1/node"],
                          env={**os.environ, "NODE_EXTRA_CA_CERTS": str(world.ca)}, capture_output=True, timeout=30)
    assert done.stdout == b"GET /v1/node\n", done.stderr


def test_go(world, host, tmp_path):
    (tmp_path / "get.go").write_text("""
package main
import ("io"; "net/http"; "os")
func main() {
	r, err := http.Get(os.Args[1])
	if err != nil { println(err.Error()); os.Exit(1) }
	io.Copy(os.Stdout, r.Body)
	println(r.Proto)
}
""")
    env = {**os.environ, "GOCACHE": str(ROOT / "build/gocache"), "GOPATH": str(tmp_path / "go"), "GOFLAGS": "",
           "GO111MODULE": "off", "HTTPS_PROXY": "http://%s:%d" % world.gate.proxy, "SSL_CERT_FILE": str(world.ca)}
    subprocess.run(["go", "build", "-o", "get", "get.go"], cwd=tmp_path, env=env, check=True, timeout=300)
    done = subprocess.run([tmp_path / "get", url(host, "/v1/go")], env=env, capture_output=True, timeout=30)
    assert done.stdout == b"GET /v1/go\n" and b"HTTP/2.0" in done.stderr, done.stderr


def test_openssl_resumes_no_session_and_speaks_both_versions(world, host):
    for version in ("-tls1_2", "-tls1_3"):
        done = subprocess.run(
            ["openssl", "s_client", "-proxy", "%s:%d" % world.gate.proxy, "-connect", f"api.example.test:{host.port}",
             "-servername", "api.example.test", "-CAfile", world.ca, "-verify_return_error", "-x509_strict", version,
             "-quiet"], input=f"GET /v1/s HTTP/1.1\r\nHost: api.example.test:{host.port}\r\nConnection: close\r\n\r\n",
            capture_output=True, text=True, timeout=30)
        assert "GET /v1/s" in done.stdout, done.stderr
    first = world.connect("api.example.test", host.port)
    first.sendall(b"GET /v1/x HTTP/1.1\r\nHost: api.example.test:%d\r\n\r\n" % host.port)
    read_answer(first)
    assert first.session is None or not first.session.has_ticket
    for version in (ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1):
        old = world.client(minimum_version=ssl.TLSVersion.TLSv1, maximum_version=version)
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises((ssl.SSLError, OSError)):
            world.connect("api.example.test", host.port, old)


# The certificate.

def test_the_leaf_is_as_strict_verifiers_want_it(world, host):
    sock = world.connect("api.example.test", host.port)
    text = openssl("x509", "-noout", "-text", "-inform", "DER", input=sock.getpeercert(True)).decode()
    cert = sock.getpeercert()
    assert cert["subjectAltName"] == (("DNS", "api.example.test"),)
    assert "NIST CURVE: P-256" in text and "ecdsa-with-SHA256" in text and "Version: 3" in text
    assert "CA:FALSE" in text and "TLS Web Server Authentication" in text
    assert "Subject Key Identifier" in text and "Authority Key Identifier" in text
    begins, ends = (datetime.datetime.strptime(cert[k], "%b %d %H:%M:%S %Y GMT") for k in ("notBefore", "notAfter"))
    now = datetime.datetime.utcnow()
    assert now - datetime.timedelta(hours=2) < begins < now - datetime.timedelta(minutes=30)
    assert now + datetime.timedelta(hours=12) < ends < now + datetime.timedelta(days=8)


def test_many_first_connections_cost_one_leaf(world, host):
    name, said = "hello.example.test", []

    def one():
        said.append(world.get(name, host.port, "/v1/x")[0])

    threads = [threading.Thread(target=one) for _ in range(40)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert said == [200] * 40
    assert len(world.gate.wait_rows(kind="mint", host=name)) == 1


def test_a_session_is_never_resumed_by_this_name_or_another(world, host):
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = world.client(maximum_version=version)
        first = world.connect("api.example.test", host.port, context)
        world.get("api.example.test", host.port, "/v1/x", sock=first)
        for name in ("api.example.test", "hello.example.test"):
            sock = tunnel(world.gate, name, host.port)
            again = context.wrap_socket(sock, server_hostname=name, session=first.session)
            assert not again.session_reused and world.get(name, host.port, "/v1/x", sock=again)[0] == 200


def test_a_flood_of_names_is_rationed_and_others_are_served(gate, authority, host, tmp_path):
    g = gate(config(authority, host, rules=[{"hosts": ["*.flood.example.test"], "methods": ["GET"]}]))
    w, met = World(g, authority, tmp_path), 0
    began = time.monotonic()
    for i in range(90):
        try:
            w.connect(f"n{i}.flood.example.test", host.port).close()
            met += 1
        except (ssl.SSLError, OSError):
            pass
    assert 40 <= met <= 55 + 10 * (time.monotonic() - began), met
    assert g.wait_rows(kind="deny", code="limit_rate")
    time.sleep(0.5)
    assert w.get("api.example.test", host.port, "/v1/x")[0] == 200


# One name on every layer.

def test_names_that_differ_are_refused(world, host):
    answer = world.get("api.example.test", host.port, "/v1/x", to="ok.example.test")
    assert answer[0] == 421 and b"name_mismatch" in answer[2]
    with pytest.raises((ssl.SSLError, OSError)):
        world.connect("api.example.test", host.port, sni="hello.example.test")
    assert world.gate.wait_rows(kind="deny", code="name_mismatch", n=2)


def test_protocols_are_chosen_from_ours(world, host):
    assert world.connect("api.example.test", host.port, world.client(["h2", "http/1.1"])).selected_alpn_protocol() == "h2"
    assert world.connect("api.example.test", host.port,
                         world.client(["http/1.1"])).selected_alpn_protocol() == "http/1.1"
    none = world.connect("api.example.test", host.port, world.client(None))
    assert none.selected_alpn_protocol() is None
    assert world.get("api.example.test", host.port, "/v1/x", sock=none)[0] == 200
    with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
        world.connect("api.example.test", host.port, world.client(["acme-tls/1", "ftp"]))


# Refusals.

def refused(gate, context, name):
    """What a transparent connection to a name that no rule allows is told."""
    with socket.create_connection(gate.egress, 10) as sock:
        with context.wrap_socket(sock, server_hostname=name) as tls:
            tls.sendall(f"GET / HTTP/1.1\r\nHost: {name}:{gate.egress[1]}\r\n\r\n".encode())
            return read_answer(tls)


def test_a_refused_name_is_told_inside_where_the_sandbox_trusts_us(world):
    status, fields, body = refused(world.gate, world.client(), "evil.example.test")
    assert status == 403 and json.loads(body)["error"]["code"] == "denied_by_policy"
    assert "sandgate" in fields["proxy-status"]
    assert world.gate.wait_rows(kind="mint", host="evil.example.test")[0]["detail"]
    row = world.gate.wait_rows(kind="deny", code="denied_by_policy", host=f"evil.example.test:{world.gate.egress[1]}")[0]
    assert row["method"] == "GET"
    # Known before TLS it is told by CONNECT, and our own pages stay plain.
    with socket.create_connection(world.gate.proxy, 10) as sock:
        sock.sendall(b"CONNECT evil.example.test:443 HTTP/1.1\r\nHost: evil.example.test:443\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 403 denied_by_policy")


def test_refusals_inside_are_rationed(gate, authority, host, tmp_path):
    # Above 50 refusals a second the ledger counts instead of listing.
    g = gate({**config(authority, host), "ledger": {"denials_per_second": 1000}})
    context, inside, alerts = World(g, authority, tmp_path).client(), 0, 0
    for i in range(60):
        try:
            inside += refused(g, context, f"n{i}.example.test")[0] == 403
        except ssl.SSLError as e:
            alerts += "ACCESS_DENIED" in str(e).upper().replace(" ", "_")
    assert inside + alerts == 60 and 20 <= inside < 50 and alerts >= 10, (inside, alerts)
    assert len(g.wait_rows(kind="deny", n=60)) == 60, "each is in the ledger, however it was told"


def test_a_refused_name_gets_an_alert_where_the_sandbox_does_not_trust_us(gate, authority, host, tmp_path):
    g = gate(config(authority, host, trusts=False))
    with pytest.raises(ssl.SSLError, match="(?i)access.denied"):
        refused(g, World(g, authority, tmp_path).client(), "evil.example.test")
    assert g.wait_rows(kind="deny", code="denied_by_policy") and g.rows(kind="mint") == []


def hello_of(name, *more):
    """The bytes of a real ClientHello, with more extensions."""
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(into, out, server_hostname=name).do_handshake()
    record = out.read()
    body = bytearray(record[9:])  # behind the headers of record and message
    at = 2 + 32
    at += 1 + body[at]
    at += 2 + struct.unpack_from("!H", body, at)[0]
    at += 1 + body[at]
    extensions = bytes(body[at + 2:]) + b"".join(more)
    body = bytes(body[:at]) + struct.pack("!H", len(extensions)) + extensions
    message = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x01" + struct.pack("!H", len(message)) + message


ECH = struct.pack("!HH", 0xfe0d, 10 + 32 + 144) + b"\x00\x00\x01\x00\x01\x07" + struct.pack("!H", 32) + bytes(32) + \
    struct.pack("!H", 144) + bytes(144)


@pytest.mark.parametrize("trusts", [True, False])
def test_ech_ends_here_or_not_at_all(gate, authority, host, trusts):
    g = gate(config(authority, host, trusts=trusts))
    sock = tunnel(g, "ok.example.test", host.port)
    before = host.meetings
    sock.sendall(hello_of("ok.example.test", ECH))
    first = sock.recv(1)
    assert first == (b"\x16" if trusts else b"\x15")
    if trusts:
        assert g.wait_rows(kind="mint", host="ok.example.test")
    else:
        assert g.wait_rows(kind="deny", code="ech")
    assert host.meetings == before, "the host never saw it"
    # The same name without it goes through unread.
    sock = tunnel(g, "ok.example.test", host.port)
    sock.sendall(hello_of("ok.example.test"))
    assert sock.recv(1) == b"\x16"
    assert wait_for(lambda: host.meetings == before + 1)


# Hosts that are not who they should be.

@pytest.mark.parametrize("make,code", [
    (lambda a: a.leaf(["DNS:other.example.test"]), "upstream_wrong_name"),
    (lambda a: a.leaf(["DNS:api.example.test"], days=-1), "upstream_certificate_expired"),
    (lambda a: a.leaf([]), "upstream_wrong_name"),
    (lambda a: a.leaf(["DNS:api.example.test"], eku=None), "upstream_certificate_bad"),
    (lambda a: a.leaf(["DNS:api.example.test"], eku="clientAuth"), "upstream_certificate_bad"),
    (lambda a: a.leaf(["DNS:api.example.test"], key="rsa:1024"), "upstream_certificate_bad"),
    (lambda a: Authority(a.folder / "rogue").leaf(["DNS:api.example.test"]), "upstream_untrusted"),
], ids=["name", "expired", "no-san", "no-eku", "client-eku", "weak", "untrusted"])
def test_a_host_that_does_not_prove_itself_gets_no_request(gate, authority, tmp_path, make, code):
    evil = Host(make(authority))
    try:
        g = gate(config(authority, evil))
        answer = World(g, authority, tmp_path).get("api.example.test", evil.port, "/v1/secret")
        assert answer[0] == 502 and json.loads(answer[2])["error"]["code"] == code, answer
        assert evil.seen == []
        assert g.wait_rows(kind="deny", code=code)[0]["detail"], "the row says what was wrong"
    finally:
        evil.close()


def test_a_body_without_end_that_breaks_off_is_not_passed_for_whole(world, host):
    sock = world.connect("api.example.test", host.port)
    sock.sendall(b"GET /v1/cut HTTP/1.1\r\nHost: api.example.test:%d\r\n\r\n" % host.port)
    data = b""
    with pytest.raises((ssl.SSLError, OSError)):
        while part := sock.recv(65536):
            data += part
        if data.endswith(b"0\r\n\r\n"):
            pytest.fail(f"it ended well: {data}")
        raise OSError("no end of the chunks")


def test_large_bodies_go_both_ways(world, host):
    n = 64 * 1024 * 1024
    got = world.curl("--http1.1", url(host, f"/v1/big/{n}"))
    assert len(got) == n and got[:16] == got[-16:] == b"0123456789abcdef"
    assert len(world.curl("--http2", url(host, f"/v1/big/{n}"))) == n


def test_nothing_that_a_certificate_names_is_fetched(gate, authority, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as trap:
        at = f"URI:http://127.0.0.1:{trap.getsockname()[1]}"
        other = Host(authority.leaf(["DNS:api.example.test"], more=[
            f"authorityInfoAccess=OCSP;{at}/ocsp,caIssuers;{at}/issuer", f"crlDistributionPoints={at}/crl"]))
        try:
            w = World(gate(config(authority, other)), authority, tmp_path)
            assert w.get("api.example.test", other.port, "/v1/x")[0] == 200
        finally:
            other.close()
        trap.settimeout(0.5)
        with pytest.raises(TimeoutError):
            trap.accept()


# Clients that do not go along.

def test_a_client_that_refuses_our_certificate_is_in_the_ledger(world, host):
    strange = ssl.create_default_context(cafile=None)
    with pytest.raises(ssl.SSLCertVerificationError):
        world.connect("api.example.test", host.port, strange)
    row = wait_for(lambda: next((r for r in world.gate.rows(kind="deny", code="client_tls_failed")
                                 if "unknown ca" in r["detail"]), None))
    assert row["host"] == f"api.example.test:{host.port}"


def test_a_handshake_that_stops_is_closed(gate, authority, host):
    g = gate(config(authority, host, timeouts={"hello": "500ms", "drain": "1s"}))
    sock = tunnel(g, "api.example.test", host.port)
    sock.sendall(hello_of("api.example.test"))
    assert sock.recv(1) == b"\x16"
    began = time.monotonic()
    while sock.recv(65536):
        pass
    assert time.monotonic() - began < 5
    assert g.wait_rows(kind="deny", code="timeout")


def test_a_hello_in_single_bytes_with_a_request_behind_its_end(world, host):
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = world.client().wrap_bio(into, out, server_hostname="api.example.test")
    sock = tunnel(world.gate, "api.example.test", host.port)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in out.read():
        sock.sendall(bytes([byte]))
    while True:
        into.write(sock.recv(65536))
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            pass
    tls.write(b"GET /v1/x HTTP/1.1\r\nHost: api.example.test:%d\r\n\r\n" % host.port)
    sock.sendall(out.read())  # the end of the handshake and the request in one flight
    data = b""
    while b"GET /v1/x\n" not in data:
        into.write(sock.recv(65536))
        try:
            while part := tls.read(65536):
                data += part
        except ssl.SSLWantReadError:
            pass


# The keeper.

def test_a_keeper_that_dies_costs_no_connection_that_has_its_leaf(gate, authority, host, tmp_path):
    g = gate(config(authority, host))
    w = World(g, authority, tmp_path)
    assert w.get("api.example.test", host.port, "/v1/1")[0] == 200
    os.kill(g.pids()["keeper"], signal.SIGKILL)
    assert w.get("api.example.test", host.port, "/v1/2")[0] == 200
    g.pids()
    assert wait_for(lambda: w.get("hello.example.test", host.port, "/v1/3")[0] == 200, 10)


def test_a_new_authority_signs_at_once_or_behind_an_overlap(gate, authority, host, tmp_path):
    g = gate(config(authority, host))
    (tmp_path / "old").mkdir()
    (tmp_path / "both").mkdir()
    old = World(g, authority, tmp_path / "old")
    assert old.get("api.example.test", host.port, "/v1/1")[0] == 200
    assert g.cli("ca", "rotate", "--grace", "1d").returncode == 0
    both = World(g, authority, tmp_path / "both")
    assert both.ca.read_text().count("BEGIN") == 2
    for world in (old, both):
        for name in ("api.example.test", "hello.example.test"):
            assert world.get(name, host.port, "/v1/2")[0] == 200, "both are trusted, the old one signs"
    assert g.cli("ca", "rotate").returncode == 0
    new = World(g, authority, tmp_path)
    assert new.ca.read_text().count("BEGIN") == 1
    assert wait_for(lambda: new.get("api.example.test", host.port, "/v1/3")[0] == 200)
    with pytest.raises(ssl.SSLCertVerificationError):
        old.get("api.example.test", host.port, "/v1/4")


def test_reload_takes_interception_back(gate, authority, host, tmp_path):
    g = gate(config(authority, host))
    w = World(g, authority, tmp_path)
    kept = w.connect("api.example.test", host.port)
    assert w.get("api.example.test", host.port, "/v1/1", sock=kept)[0] == 200
    plain = config(authority, host)
    plain["policies"]["coding"]["allow"][0].update({"paths": ["/v9/**"]})
    assert g.reload(plain)[0] == 200
    answer = w.get("api.example.test", host.port, "/v1/2", sock=kept)
    assert answer[0] == 403 and b"denied_path" in answer[2], "the newest policy judges a kept connection"
    plain["upstream_tls"]["ca_file"] = str(g.dir / "none.pem")
    code, told = g.reload(plain)
    assert code != 200 and "none.pem" in json.dumps(told)
    (g.dir / "none.pem").write_text("not a certificate\n")
    assert g.reload(plain)[0] != 200
    assert w.get("api.example.test", host.port, "/v9/2", sock=kept)[0] == 200, "a refused reload changes nothing"
