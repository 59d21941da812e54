"""The company's systems by themselves: each takes its credential, and nothing that only looks like it."""
import base64
import datetime
import hashlib
import hmac
import json
import secrets
import socket
import ssl
import subprocess
import urllib.parse

import pytest

import company_systems as systems
from certificates import make_ca, make_leaf
from company import ADDRESS, Company, System
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

HOST = "api.example.test"
VERSIONS = ["--http1.1", "--http2"]


@pytest.fixture
def firm(tmp_path):
    made = Company(tmp_path / "ca")
    yield made
    made.close()
    assert not made.errors


def curl(firm, path, *words, host=HOST, version="--http1.1"):
    """(status, headers and body as they came)"""
    done = subprocess.run(["curl", "-sS", "-i", version, "--cacert", firm.ca.file, "--resolve", f"{host}:{firm.port}:{ADDRESS}",
                           *words, f"https://{host}:{firm.port}{path}"], capture_output=True, timeout=30)
    assert done.returncode == 0, done.stderr
    blocks = done.stdout.split(b"\r\n\r\n")
    while blocks[0].split()[1] in (b"100", b"103"):
        blocks = blocks[1:]
    return int(blocks[0].split()[1]), done.stdout


@pytest.mark.parametrize("check, right, wrong", [
    (systems.bearer("s1"), ["-H", "Authorization: Bearer s1"], ["-H", "Authorization: Bearer s2"]),
    (systems.basic("u", "s1"), ["-u", "u:s1"], ["-u", "u:s1", "-H", "X-Api-Key: s1"]),
    (systems.field("X-Api-Key", "s1"), ["-H", "X-Api-Key: s1"], ["-H", "Authorization: Bearer s1"]),
    (systems.in_form("pass", "s1"), ["-d", "a=1&pass=s1"], ["-d", "pass=s1&pass=s1"]),
    (systems.parameter("key", "s1"), ["-G", "-d", "key=s1"], ["-G", "-d", "key=s1&key=s1"]),
], ids=["bearer", "basic", "field", "form", "parameter"])
def test_a_credential_in_its_place_is_taken_and_in_another_it_is_not(firm, check, right, wrong):
    firm.add(HOST, System(check))
    assert curl(firm, "/x", *right)[0] == 200
    assert curl(firm, "/x", *wrong)[0] == 401
    assert curl(firm, "/x")[0] == 401
    assert [r.refused is None for r in firm.at(HOST).seen] == [True, False, False]


def test_a_credential_that_may_be_indexed_is_refused(firm):
    firm.add(HOST, System(systems.bearer("s1")))
    # nghttp2, which curl is made with, never indexes authorization.
    status = curl(firm, "/x", "-H", "Authorization: Bearer s1", version="--http2")[0]
    assert status == (200 if "authorization" in firm.at(HOST).seen[0].never_indexed else 401)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_echo_shows_a_credential_in_every_form(firm, version):
    firm.add(HOST, systems.Echo())
    for name, form in systems.Echo.forms.items():
        for end in ["", "/split", "/field"]:
            status, text = curl(firm, f"/echo/{name}{end}", "-H", "Authorization: Bearer s3cr3t", version=version)
            assert status == 200
            # The whole is in another alignment than the value; the value alone is in the field.
            assert form(b"Bearer s3cr3t") in text or end != "/field"
            assert b"s3cr3t" in text or (name != "plain" and end != "/field")  # the latter for its hint
    assert curl(firm, "/echo", "-H", "Range: bytes=0-3", version=version)[0] == 206


@pytest.fixture(scope="module")
def key():
    made = rsa.generate_private_key(65537, 2048)
    return made.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def jwt(pem, **claims):
    def part(b):
        return base64.urlsafe_b64encode(b).rstrip(b"=").decode()
    text = part(b'{"alg":"RS256","typ":"JWT"}') + "." + part(json.dumps(claims).encode())
    private = serialization.load_pem_private_key(pem, None)
    return text + "." + part(private.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))


def test_tokens_are_given_for_what_the_grants_ask_and_live_their_time(firm, key):
    tokens = firm.add("login.example.test", systems.Tokens(public_key=systems.public_half(key)))
    firm.add(HOST, System(tokens.check_bearer))

    def ask(*words, path="/token"):
        status, text = curl(firm, path, *words, host="login.example.test")
        return json.loads(text.rpartition(b"\r\n\r\n")[2]) if status in (200, 201) else None

    client = ["-u", f"agents:{tokens.client_secret}"]
    assert ask("-d", "grant_type=client_credentials") is None
    token = ask(*client, "-d", "grant_type=client_credentials")["access_token"]
    assert curl(firm, "/", "-H", f"Authorization: Bearer {token}")[0] == 200
    tokens.valid[token] = 0
    assert curl(firm, "/", "-H", f"Authorization: Bearer {token}")[0] == 401
    old = tokens.refresh
    assert ask("-d", f"grant_type=refresh_token&refresh_token={old}")["refresh_token"] == tokens.refresh
    assert ask("-d", f"grant_type=refresh_token&refresh_token={old}") is None
    now = int(datetime.datetime.now().timestamp())
    good = jwt(key, iss="agents", iat=now, exp=now + 300)
    grant = "grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&assertion="
    assert ask("-d", grant + good)["access_token"] in tokens.valid
    assert ask("-d", grant + good[:-8] + "AAAAAAAA") is None
    assert ask("-d", grant + jwt(key, iss="agents", exp=now - 1)) is None
    app = "/app/installations/7/access_tokens"
    assert ask("-X", "POST", "-H", f"Authorization: Bearer {good}", path=app)["token"] in tokens.valid


def signed(s3, host, method, path, body=b""):
    date = datetime.datetime.utcnow().strftime("%Y%m%dT%H%M%SZ")
    scope, digest = f"{date[:8]}/{s3.region}/s3/aws4_request", hashlib.sha256(body).hexdigest()
    names = "host;x-amz-content-sha256;x-amz-date"
    canonical = f"{method}\n{path}\n\nhost:{host}\nx-amz-content-sha256:{digest}\nx-amz-date:{date}\n\n{names}\n{digest}"
    key = b"AWS4" + s3.secret.encode()
    for part in (date[:8], s3.region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    whole = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    sign = hmac.digest(key, whole.encode(), "sha256").hex()
    return ["-X", method, "-H", f"x-amz-date: {date}", "-H", f"x-amz-content-sha256: {digest}", "-H",
            f"Authorization: AWS4-HMAC-SHA256 Credential={s3.id}/{scope}, SignedHeaders={names}, Signature={sign}"]


def test_a_bucket_takes_what_is_signed(firm):
    s3 = firm.add(HOST, systems.S3())
    host = f"{HOST}:{firm.port}"
    assert curl(firm, "/b/k", *signed(s3, host, "PUT", "/b/k", b"data"), "--data-binary", "data")[0] == 200
    status, text = curl(firm, "/b/k", *signed(s3, host, "GET", "/b/k"))
    assert status == 200 and text.endswith(b"data")
    assert curl(firm, "/b/other", *signed(s3, host, "GET", "/b/k"))[0] == 401
    assert curl(firm, "/b/k", *signed(s3, host, "PUT", "/b/k", b"data"), "--data-binary", "datA")[0] == 401
    assert b"<Key>k</Key>" in curl(firm, "/b/", *signed(s3, host, "GET", "/b/"))[1]


def test_a_registry_asks_for_a_token_and_its_blobs_want_none(firm):
    tokens = firm.add("login.example.test", systems.Tokens())
    store = firm.add("blobs.example.test", systems.Blobs({}))
    r = firm.add(HOST, systems.Registry(tokens, "https://login.example.test/token", f"https://blobs.example.test:{firm.port}"))
    store.content = r.content
    status, text = curl(firm, "/v2/", "-X", "GET")
    assert status == 401 and b'Bearer realm="https://login.example.test/token"' in text
    show = ["-H", f"Authorization: Bearer {tokens.token()}"]
    assert curl(firm, "/v2/app/manifests/latest", *show)[0] == 200
    digest = json.loads(r.manifest)["layers"][0]["digest"]
    status, text = curl(firm, f"/v2/app/blobs/{digest}", *show)
    assert status == 307
    where = urllib.parse.urlsplit(text.split(b"Location: ")[1].split(b"\r\n")[0].decode())
    assert curl(firm, f"{where.path}?{where.query}", host="blobs.example.test")[0] == 200
    assert curl(firm, f"{where.path}?{where.query}", *show, host="blobs.example.test")[0] == 401


def test_git_clones_and_pushes_with_the_password_only(firm, tmp_path):
    secret = secrets.token_urlsafe(12)
    firm.add(HOST, systems.Git(tmp_path / "git", systems.basic("agents", secret)))
    bare = tmp_path / "git/team/app.git"
    subprocess.run(["git", "init", "-q", "--bare", bare], check=True)
    subprocess.run(["git", "-C", bare, "config", "http.receivepack", "true"], check=True)

    def git(*words, password=secret, cwd=tmp_path):
        return subprocess.run(["git", "-c", f"http.sslCAInfo={firm.ca.file}", "-c",
                               f"http.curloptResolve={HOST}:{firm.port}:{ADDRESS}", "-c", "user.name=x", "-c", "user.email=x@x",
                               *(w.replace("URL", f"https://agents:{password}@{HOST}:{firm.port}/team/app.git") for w in words)],
                              cwd=cwd, capture_output=True, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path),
                                                                 "GIT_TERMINAL_PROMPT": "0"})

    assert git("clone", "-q", "URL", "one").returncode == 0
    (tmp_path / "one/file").write_text("text")
    git("add", "file", cwd=tmp_path / "one")
    git("commit", "-qm", "first", cwd=tmp_path / "one")
    assert git("push", "-q", "URL", "HEAD:main", cwd=tmp_path / "one").returncode == 0
    assert git("clone", "-q", "-b", "main", "URL", "two").returncode == 0
    assert (tmp_path / "two/file").read_text() == "text"
    assert git("clone", "-q", "URL", "three", password="wrong").returncode != 0


def test_grpc_messages_come_back(firm):
    firm.add(HOST, systems.Grpc(systems.field("authorization", "Bearer s1")))
    message = systems.Grpc.framed(b"hello") + systems.Grpc.framed(b" you")
    for kind, want in [("Both", message), ("Up", systems.Grpc.framed(b"hello you"))]:
        done = subprocess.run(["curl", "-sS", "--http2", "--cacert", firm.ca.file, "--resolve", f"{HOST}:{firm.port}:{ADDRESS}",
                               "-H", "Authorization: Bearer s1", "-H", "content-type: application/grpc", "-H", "te: trailers",
                               "--data-binary", "@-", f"https://{HOST}:{firm.port}/company.Echo/{kind}"], input=message,
                              capture_output=True, timeout=30)
        assert (done.returncode, done.stdout) == (0, want) or "authorization" not in firm.at(HOST).seen[0].never_indexed


def test_sockets_echo_frames(firm):
    firm.add(HOST, systems.Sockets(systems.bearer("s1")))
    context = ssl.create_default_context(cafile=firm.ca.file)
    with context.wrap_socket(socket.create_connection((ADDRESS, firm.port)), server_hostname=HOST) as s:
        s.sendall(f"GET /ws HTTP/1.1\r\nHost: {HOST}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nAuthorization: Bearer s1\r\n"
                  "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode())
        f = s.makefile("rb")
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += f.readline()
        assert b" 101 " in head and b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head
        assert f.read(2 + 9) == b"\x81\x09Bearer s1"
        s.sendall(b"\x81\x85" + b"\0\0\0\0" + b"hello")
        assert f.read(7) == b"\x81\x05hello"


def test_a_client_certificate_is_asked_for(tmp_path):
    clients = make_ca(tmp_path / "clients")
    firm = Company(tmp_path / "ca", clients=clients)
    firm.add(HOST, System(systems.client_certificate))
    cert, key = make_leaf(clients, "agents", client=True)
    assert curl(firm, "/", "--cert", str(cert), "--key", str(key))[0] == 200
    with pytest.raises(AssertionError):
        curl(firm, "/")
    firm.close()
