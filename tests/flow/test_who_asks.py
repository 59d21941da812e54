"""Who asks on an execution listener, through a whole gateway: keys, scopes, tokens of an issuer whose
keys are in a file or fetched, and nobody."""
import base64
import http.client
import json
import ssl
import time

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from certificates import make_ca, make_leaf
from conftest import free_port, wait_for
from connector_line import System, reply

ISSUER = "https://idp.example.test"


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(n, size=None):
    return b64(n.to_bytes(size or (n.bit_length() + 7) // 8, "big"))


class Signer:
    """A key of an issuer: its member of the set, and tokens."""

    def __init__(self, alg, kid):
        self.alg, self.kid = alg, kid
        self.key = {"RS256": lambda: rsa.generate_private_key(65537, 2048),
                    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
                    "EdDSA": ed25519.Ed25519PrivateKey.generate}[alg]()

    @property
    def jwk(self):
        public = self.key.public_key()
        common = {"kid": self.kid, "alg": self.alg, "use": "sig"}
        if self.alg == "RS256":
            n = public.public_numbers()
            return {**common, "kty": "RSA", "n": number(n.n), "e": number(n.e)}
        if self.alg == "ES256":
            n = public.public_numbers()
            return {**common, "kty": "EC", "crv": "P-256", "x": number(n.x, 32), "y": number(n.y, 32)}
        return {**common, "kty": "OKP", "crv": "Ed25519", "x": b64(public.public_bytes(Encoding.Raw, PublicFormat.Raw))}

    def sign(self, text):
        if self.alg == "RS256":
            return self.key.sign(text, padding.PKCS1v15(), hashes.SHA256())
        if self.alg == "ES256":
            r, s = decode_dss_signature(self.key.sign(text, ec.ECDSA(hashes.SHA256())))
            return r.to_bytes(32, "big") + s.to_bytes(32, "big")
        return self.key.sign(text)

    def token(self, header=None, **claims):
        now = int(time.time())
        head = {"alg": self.alg, "kid": self.kid, "typ": "JWT", **(header or {})}
        body = {"iss": ISSUER, "aud": "sandgate", "sub": "alice", "azp": "coder", "iat": now, "exp": now + 300, **claims}
        text = f"{b64(json.dumps(head).encode())}.{b64(json.dumps(body).encode())}".encode()
        return f"{text.decode()}.{b64(self.sign(text))}"


def config(jwt=(), **more):
    return {"sandboxes": [], "servers": [{"name": "one", "url": f"http://127.0.0.1:{free_port()}", "key": "one/key",
                                          "endpoints": ["127.0.0.0/8"]}],
            "exec": {"jwt": list(jwt)} if jwt else {"approval": "never"}, **more}


def ask(g, method="GET", path="/v1/sandboxes", body=None, **fields):
    """(status, code or None) of one request."""
    c = http.client.HTTPConnection(*g.exec, timeout=20)
    try:
        c.request(method, path, body, {k.replace("_", "-"): v for k, v in fields.items()})
        r = c.getresponse()
        text = r.read()
    finally:
        c.close()
    return r.status, json.loads(text).get("code") if text else None


def by_key(g, key, *words, **fields):
    return ask(g, *words, OPEN_SANDBOX_API_KEY=key, **fields)


def by_token(g, token, *words, **fields):
    return ask(g, *words, Authorization=f"Bearer {token}", **fields)


def new_key(g, *words):
    made = json.loads(g.cli("keys", "add", "--json", *words, check=True).stdout)
    return made["id"], made["key"]


# Keys

def test_nobody_gets_in_without_a_key(gate):
    g = gate(config(), listeners=("exec",))
    _, key = new_key(g, "--user", "alice")
    assert ask(g) == (401, "MISSING_API_KEY")
    assert by_key(g, key[:-1] + ("A" if key[-1] != "A" else "E")) == (401, "INVALID_API_KEY")
    assert by_key(g, "opensandbox-key") == (401, "INVALID_API_KEY")
    assert by_key(g, key.upper()) == (401, "INVALID_API_KEY")
    assert by_key(g, key) == (200, None)
    assert by_token(g, key) == (200, None)
    assert ask(g, path="/health")[0] == 200


def test_a_revoked_key_ends_with_its_next_request_also_on_a_kept_connection(gate):
    g = gate(config(), listeners=("exec",))
    key_id, key = new_key(g, "--user", "alice")
    c = http.client.HTTPConnection(*g.exec, timeout=20)
    for status in (200, 200, 401, 401):
        if status == 401:
            g.cli("keys", "revoke", key_id)
        c.request("GET", "/v1/sandboxes", headers={"OPEN-SANDBOX-API-KEY": key})
        r = c.getresponse()
        r.read()
        assert r.status == status
    c.close()


def test_a_key_is_good_after_a_restart_and_its_use_is_written_down(gate):
    g = gate(config(), listeners=("exec",))
    key_id, key = new_key(g, "--user", "alice")
    assert by_key(g, key) == (200, None)
    g.stop()
    g.start()
    assert by_key(g, key) == (200, None)
    one, = json.loads(g.cli("keys", "list", "--json").stdout)["keys"]
    assert one["id"] == key_id and abs(one["last_used"] - time.time()) < 60


def test_scopes_are_held(gate):
    g = gate(config(), listeners=("exec",))
    _, reader = new_key(g, "--user", "alice", "--scopes", "read")
    _, runner = new_key(g, "--user", "alice", "--scopes", "run")
    body = json.dumps({"image": {"uri": "x"}, "entrypoint": ["sh"], "resourceLimits": {}})
    assert by_key(g, reader) == (200, None)
    assert by_key(g, reader, "POST", "/v1/sandboxes", body) == (403, "SANDGATE::MISSING_SCOPE")
    assert by_key(g, runner) == (403, "SANDGATE::MISSING_SCOPE")
    for path in ("44772/command", "8080/", "44772/proxy/8080/", "44772/pty"):
        assert by_key(g, reader, "POST", f"/v1/sandboxes/sb-x/proxy/{path}", "{}") == (403, "SANDGATE::MISSING_SCOPE")
    assert by_key(g, runner, "GET", "/v1/sandboxes/sb-x/proxy/44772/files/info?path=/") == (403, "SANDGATE::MISSING_SCOPE")


def test_only_who_may_asks_on_behalf_of_others(gate):
    g = gate(config(), listeners=("exec",))
    _, alone = new_key(g, "--user", "alice")
    _, front = new_key(g, "--user", "platform", "--may-delegate")
    assert by_key(g, alone, X_Sandgate_On_Behalf_Of="bob") == (403, "SANDGATE::MAY_NOT_DELEGATE")
    assert by_key(g, front, X_Sandgate_On_Behalf_Of="bob") == (200, None)
    assert by_key(g, front, X_Sandgate_On_Behalf_Of="bob/../x") == (400, "SANDGATE::BAD_PRINCIPAL")
    assert by_key(g, alone, X_Sandgate_Session="a b") == (400, "SANDGATE::BAD_PRINCIPAL")


def test_guesses_are_limited_and_lock_nobody_out(gate):
    g = gate(config(), listeners=("exec",))
    _, key = new_key(g, "--user", "alice")
    seen = [by_key(g, "sgk_" + "x" * 43)[0] for _ in range(60)]
    assert set(seen) <= {401, 429} and seen.count(401) >= 20
    assert by_key(g, key) == (200, None)


# Tokens

def in_file(gate, tmp_path, *signers, **more):
    """The file is named beside the configuration, which is written first."""
    path = tmp_path / "id.json"
    path.write_text(json.dumps({"keys": [s.jwk for s in signers]}))
    for parent in (tmp_path, *list(tmp_path.parents)[:2]):
        parent.chmod(0o755)
    return gate(config([{"issuer": ISSUER, "audience": "sandgate", "jwks_file": str(path), **more}]), listeners=("exec",))


def test_tokens_of_an_issuer_are_taken_by_each_kind_of_key(gate, tmp_path):
    signers = [Signer(alg, f"k{i}") for i, alg in enumerate(["RS256", "ES256", "EdDSA"])]
    g = in_file(gate, tmp_path, *signers)
    for s in signers:
        assert by_token(g, s.token()) == (200, None), s.alg
        assert by_token(g, s.token(aud=["x", "sandgate"])) == (200, None)


def test_tokens_that_are_not_good_are_refused(gate, tmp_path):
    s, other = Signer("EdDSA", "k"), Signer("EdDSA", "k")
    g = in_file(gate, tmp_path, s)
    now = int(time.time())
    none = ".".join([b64(b'{"alg":"none"}'), s.token().split(".")[1], ""])
    for bad in (other.token(), s.token(aud="x"), s.token(iss="https://evil.example.test"), s.token(exp=now - 100),
                s.token(nbf=now + 200), s.token(header={"alg": "none"}), s.token(header={"crit": ["exp"]}), none,
                s.token(header={"kid": "../../dev/null"}), other.token(header={"jwk": other.jwk}),
                s.token(header={"typ": "logout+jwt"}), s.token() + ".x", "x"):
        assert by_token(g, bad) == (401, "INVALID_API_KEY"), bad
        time.sleep(0.06)  # fewer than are limited
    assert by_token(g, s.token(sub="a b")) == (400, "SANDGATE::BAD_PRINCIPAL")
    assert by_token(g, s.token()) == (200, None)


def test_what_tokens_are_good_for_says_the_configuration(gate, tmp_path):
    s = Signer("EdDSA", "k")
    g = in_file(gate, tmp_path, s, scopes=["run"], may_delegate=True)
    assert by_token(g, s.token(scope="read", scopes=["read"])) == (403, "SANDGATE::MISSING_SCOPE")
    assert by_token(g, s.token(), "POST", "/v1/sandboxes", "{}", X_Sandgate_On_Behalf_Of="bob")[0] not in (401, 403)


class Idp:
    """An issuer behind TLS that counts who asks for its keys."""

    def __init__(self, folder):
        self.ca = make_ca(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*make_leaf(self.ca, "idp.example.test"))
        context.set_alpn_protocols(["http/1.1"])
        self.keys, self.status = [], 200
        self.system = System(context, lambda r: reply(self.status, json.dumps({"keys": [s.jwk for s in self.keys]}).encode()))

    @property
    def asked(self):
        return [r.target for r in self.system.requests]


@pytest.fixture
def idp(tmp_path):
    for parent in (tmp_path, *list(tmp_path.parents)[:2]):
        parent.chmod(0o755)
    return Idp(tmp_path)


def fetching(gate, idp):
    return gate(config(
        [{"issuer": ISSUER, "audience": "sandgate", "jwks_connector": "idp", "jwks_path": "/keys?v=1"}],
        upstream_tls={"ca_file": str(idp.ca.file)},
        resolver={"servers": ["127.0.0.1"], "hosts": {"idp.example.test": ["127.0.0.1"]}},
        connectors=[{"name": "idp", "hosts": ["idp.example.test"], "addresses": ["127.0.0.0/8"],
                     "upstream": f"https://idp.example.test:{idp.system.port}", "auth": {"kind": "passthrough"},
                     "allow": [{"methods": ["GET"], "paths": ["/**"]}]}]), listeners=("exec",))


def test_keys_of_an_issuer_are_fetched_once(gate, idp):
    s = Signer("ES256", "k")
    idp.keys = [s]
    g = fetching(gate, idp)
    assert idp.asked == []
    assert by_token(g, s.token(aud="x")) == (401, "INVALID_API_KEY")
    assert idp.asked == []
    for _ in range(5):
        assert by_token(g, s.token()) == (200, None)
    assert idp.asked == ["/keys?v=1"]
    # One that isn't known is looked for once a minute.
    for _ in range(3):
        assert by_token(g, Signer("ES256", "new").token()) == (401, "INVALID_API_KEY")
    assert idp.asked == ["/keys?v=1"]
    assert by_token(g, s.token()) == (200, None)


def test_an_issuer_that_fails_is_told_from_a_bad_token(gate, idp):
    s = Signer("EdDSA", "k")
    idp.keys, idp.status = [s], 500
    g = fetching(gate, idp)
    assert by_token(g, s.token()) == (503, "SANDGATE::ISSUER_SILENT")
    idp.status = 200
    assert by_token(g, s.token()) == (503, "SANDGATE::ISSUER_SILENT")
    assert wait_for(lambda: by_token(g, s.token()) == (200, None), 30, 1)  # asked again after 5 s
    assert len(idp.asked) < 8
