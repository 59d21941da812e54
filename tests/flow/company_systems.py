"""The systems of a company (company.py), each as strict as the real one about its credential.

What a sandbox must never see is random per system and in `secret`, so that a test can look for
it everywhere.
"""
import base64
import datetime
import gzip
import hashlib
import hmac
import json
import os
import re
import secrets
import subprocess
import threading
import time
import urllib.parse
import zlib
from xml.sax.saxutils import escape

import brotli
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding

import websocket_line
from company import Answer, System, Wrong

# Names under which clients show credentials: a strict system wants just one of them.
CREDENTIALS = ("authorization", "proxy-authorization", "x-api-key", "api-key", "private-token", "x-auth-token", "cookie")


def only(r, name, value):
    """The credential stands in this field and in no other."""
    others = [n for n in CREDENTIALS if n != name and r.all(n)]
    if others:
        return f"also {others[0]}"
    if len(r.all(name)) != 1:
        return f"{name} stands there {len(r.all(name))} times"
    if r.version == "2" and name not in r.never_indexed:
        return f"{name} may be indexed"
    return None if hmac.compare_digest(r.one(name).encode(), value.encode()) else f"{name} is wrong"


def bearer(secret, prefix="Bearer "):
    return lambda r: only(r, "authorization", prefix + secret)


def basic(user, password):
    return lambda r: only(r, "authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())


def field(name, secret, prefix=""):
    return lambda r: only(r, name.lower(), prefix + secret)


def unindexed_path(r, wrong):
    """Where it holds a credential, no table may hold it (RFC 7541 section 7.1.3)."""
    return wrong or (":path may be indexed" if r.version == "2" and ":path" not in r.never_indexed else None)


def parameter(name, secret):
    def check(r):
        found = [v for n, v in r.parameters() if n == name]
        return unindexed_path(r, None if found == [secret] else f"{name} is {len(found)} times there, or wrong")
    return check


def in_path(prefix, secret):
    return lambda r: unindexed_path(r, None if r.path.startswith(f"{prefix}{secret}/") else "not in the path")


def in_form(name, secret):
    def check(r):
        found = [v for n, v in urllib.parse.parse_qsl(r.read().decode(), keep_blank_values=True) if n == name]
        return None if found == [secret] else f"{name} is {len(found)} times there, or wrong"
    return check


def client_certificate(r):
    return None if r.peer else "no client certificate"


# What S3 takes in place of a body's hash: chunks have a sum behind them that nobody signed.
UNSIGNED = ("UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")


class Echo(System):
    """Shows what it was sent in whatever form the path says: the worst neighbour of a credential."""

    forms = {
        "plain": lambda b: b,
        "percent": lambda b: urllib.parse.quote_from_bytes(b, safe="").encode(),
        "json": lambda b: json.dumps(b.decode("latin-1")).encode(),
        "json-u": lambda b: b"".join(b"\\u%04x" % c for c in b),
        "hex": lambda b: b.hex().encode(),
        "hex-upper": lambda b: b.hex().upper().encode(),
        "base64": base64.b64encode,
        "base64-1": lambda b: base64.b64encode(b"x" + b),
        "base64-2": lambda b: base64.b64encode(b"xy" + b),
        "base64url": lambda b: base64.urlsafe_b64encode(b"\xff" + b),
    }
    codings = {
        "gzip": gzip.compress,
        "deflate": zlib.compress,
        "br": brotli.compress,
        "zstd": lambda b: subprocess.run(["zstd", "-qc"], input=b, capture_output=True, check=True).stdout,
    }

    def shown(self, r):
        return "\n".join(f"{n}: {v}" for n, v in r.fields).encode("latin-1") + b"\n" + r.target.encode() + b"\n" + r.read()

    def answer(self, r):
        words = r.path.strip("/").split("/")[1:] or ["plain"]
        body = self.forms[words[0]](self.shown(r))
        credential = (r.one("authorization") or "none").encode()
        if "field" in words:
            return Answer(200, b"see the fields\n", [("X-Echo", self.forms[words[0]](credential).decode("latin-1"))],
                          hints=[[("Link", f"</{credential.decode()}>; rel=preload")]])
        if "split" in words:  # a piece for each octet
            return Answer(200, (body[i:i + 1] for i in range(len(body))), trailers=[("X-Echo", credential.decode())])
        coding = words[-1] if words[-1] in self.codings else None
        if coding:
            return Answer(200, self.codings[coding](body), [("Content-Encoding", coding)])
        if span := re.fullmatch(r"bytes=(\d+)-(\d+)", r.one("range") or ""):
            first, last = map(int, span.groups())
            return Answer(206, body[first:last + 1], [("Content-Range", f"bytes {first}-{last}/{len(body)}")])
        return Answer(200, body, [("Content-Type", "text/plain")])


class Tokens(System):
    """OAuth 2 (RFC 6749, 7523) and a GitHub App's installations.  `valid`: token -> until when."""

    def __init__(self, client_id="agents", client_secret=None, public_key=None, lifetime=3600):
        super().__init__()
        self.client_id, self.client_secret = client_id, client_secret or secrets.token_urlsafe(24)
        self.public_key, self.lifetime = public_key, lifetime
        self.refresh, self.valid, self.given, self.assertions = secrets.token_urlsafe(24), {}, 0, set()

    def token(self):
        text = "at_" + secrets.token_urlsafe(24)
        self.valid[text] = time.time() + self.lifetime
        self.given += 1
        return text

    def check_bearer(self, r):
        """For the systems that take these tokens."""
        value = r.one("authorization") or ""
        kind, _, text = value.partition(" ")
        if kind == "Basic":
            text = base64.b64decode(text).decode().partition(":")[2]
        if text not in self.valid:
            return "unknown token"
        return only(r, "authorization", value) if self.valid[text] > time.time() else "expired token"

    def is_client(self, r, form):
        if auth := r.one("authorization"):
            return auth == "Basic " + base64.b64encode(f"{self.client_id}:{self.client_secret}".encode()).decode()
        return form.get("client_id") == self.client_id and form.get("client_secret") == self.client_secret

    def claims(self, text):
        """Of a JWT (RFC 7515) that our key has signed; never twice the same."""
        def part(s):
            return base64.urlsafe_b64decode(s + "=" * (-len(s) % 4))
        head, body, signature = text.split(".")
        if json.loads(part(head))["alg"] != "RS256":
            raise Wrong("not RS256")
        self.public_key.verify(part(signature), f"{head}.{body}".encode(), padding.PKCS1v15(), hashes.SHA256())
        claims = json.loads(part(body))
        if not claims["exp"] - 3600 <= time.time() < claims["exp"]:
            raise Wrong("not of this time")
        return claims

    def has_assertion(self, text):
        try:
            return bool(self.claims(text)["iss"])
        except (InvalidSignature, KeyError, ValueError, Wrong):
            return False

    def grant(self, r):
        form = dict(urllib.parse.parse_qsl(r.read().decode(), strict_parsing=True))
        kind = form.get("grant_type")
        if kind == "client_credentials" and self.is_client(r, form):
            return {}
        if kind == "refresh_token" and form.get("refresh_token") == self.refresh:
            self.refresh = secrets.token_urlsafe(24)
            return {"refresh_token": self.refresh}
        if kind == "urn:ietf:params:oauth:grant-type:jwt-bearer" and self.has_assertion(form.get("assertion", "")):
            return {}
        return None

    def answer(self, r):
        if r.method != "POST":
            return Answer(405)
        if re.fullmatch(r"/app/installations/\d+/access_tokens", r.path):
            value = r.one("authorization") or ""
            if not self.has_assertion(value.removeprefix("Bearer ")):
                return Answer(401, b'{"message": "no"}')
            until = datetime.datetime.utcnow() + datetime.timedelta(seconds=self.lifetime)
            return self.json(201, {"token": self.token(), "expires_at": until.strftime("%Y-%m-%dT%H:%M:%SZ")})
        more = self.grant(r)
        if more is None:
            return self.json(400, {"error": "invalid_grant"})
        return self.json(200, {"access_token": self.token(), "token_type": "Bearer", "expires_in": self.lifetime, **more})

    @staticmethod
    def json(status, what):
        return Answer(status, json.dumps(what).encode(), [("Content-Type", "application/json"), ("Cache-Control", "no-store")])


class S3(System):
    """Buckets in memory, behind AWS Signature Version 4 in the header form."""

    unauthorized = []

    def __init__(self, region="eu-west-1", service="s3"):
        super().__init__(self.signed)
        self.region, self.service = region, service
        self.id, self.secret = "AKIA" + secrets.token_hex(8).upper(), secrets.token_urlsafe(30)
        self.objects = {}

    @staticmethod
    def quote(text):
        return urllib.parse.quote(text, safe="-_.~")

    def canonical(self, r, names, payload):
        pairs = sorted((self.quote(n), self.quote(v)) for n, v in r.parameters())
        host = {"host": r.authority}
        lines = [f"{n}:{' '.join((r.one(n) or host.get(n) or '').split())}\n" for n in names]
        path = urllib.parse.quote(urllib.parse.unquote(r.path), safe="/-_.~")
        return "\n".join([r.method, path, "&".join(f"{n}={v}" for n, v in pairs), "".join(lines), ";".join(names), payload])

    def signature(self, text, date, scope):
        key = b"AWS4" + self.secret.encode()
        for part in (date[:8], self.region, self.service, "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        whole = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(text.encode()).hexdigest()])
        return hmac.digest(key, whole.encode(), "sha256").hex()

    def signed(self, r):
        m = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})",
                         r.one("authorization") or "")
        if not m:
            return "no signature"
        owner, scope, names, given = m.groups()
        date, payload = r.one("x-amz-date") or "", r.one("x-amz-content-sha256")
        if payload is None:  # only S3 takes a body that nobody signed
            payload = "UNSIGNED-PAYLOAD" if self.service == "s3" else hashlib.sha256(r.read()).hexdigest()
        names = names.split(";")
        if owner != self.id or scope != f"{date[:8]}/{self.region}/{self.service}/aws4_request":
            return "another key or scope"
        if "host" not in names or any(n.startswith("x-amz-") and n not in names for n, _ in r.fields):
            return "a field is not signed"
        if payload not in UNSIGNED and payload != hashlib.sha256(r.read()).hexdigest():
            return "another body"
        then = datetime.datetime.strptime(date, "%Y%m%dT%H%M%SZ")
        if abs((datetime.datetime.utcnow() - then).total_seconds()) > 900:
            return "too old"
        want = self.signature(self.canonical(r, names, payload), date, scope)
        return None if hmac.compare_digest(want, given) else "wrong signature"

    def listing(self, bucket, r):
        prefix = dict(r.parameters()).get("prefix", "")
        items = "".join(f"<Contents><Key>{escape(k)}</Key><Size>{len(v)}</Size></Contents>"
                        for (b, k), v in sorted(self.objects.items()) if b == bucket and k.startswith(prefix))
        return (f'<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>{bucket}</Name>'
                f"<IsTruncated>false</IsTruncated>{items}</ListBucketResult>").encode()

    def answer(self, r):
        bucket, _, key = urllib.parse.unquote(r.path[1:]).partition("/")
        if not key:
            return Answer(200, self.listing(bucket, r), [("Content-Type", "application/xml")])
        if r.method == "PUT":
            self.objects[bucket, key] = r.read()
        elif r.method == "DELETE":
            self.objects.pop((bucket, key), None)
            return Answer(204)
        if (bucket, key) not in self.objects:
            return Answer(404, b"<Error><Code>NoSuchKey</Code></Error>", [("Content-Type", "application/xml")])
        data = self.objects[bucket, key]
        return Answer(200, b"" if r.method == "PUT" else data, [("ETag", f'"{hashlib.md5(data).hexdigest()}"')])


class Sts(System):
    """AssumeRole: the bucket's own key pair, with a session token, for whoever signs with the agents'."""

    def __init__(self, bucket):
        self.agents = S3(service="sts")
        super().__init__(self.agents.signed)
        self.bucket, self.session = bucket, secrets.token_urlsafe(24)

    def answer(self, r):
        if "Action=AssumeRole" not in r.read().decode() + r.query:
            return Answer(400, b"<Error><Code>InvalidAction</Code></Error>")
        return Answer(200, f"""<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
            <AccessKeyId>{self.bucket.id}</AccessKeyId><SecretAccessKey>{self.bucket.secret}</SecretAccessKey>
            <SessionToken>{self.session}</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>
            </Credentials></AssumeRoleResult></AssumeRoleResponse>""".encode(), [("Content-Type", "text/xml")])


class Registry(System):
    """An OCI registry for pulling: a token service says who may, blobs lie on another host."""

    def __init__(self, tokens, realm, blobs):
        super().__init__(tokens.check_bearer)
        self.blobs = blobs  # https://HOST:PORT of a Blobs
        self.unauthorized = [("WWW-Authenticate", f'Bearer realm="{realm}",service="company"')]
        self.content = {}
        layer = gzip.compress(b"a layer" * 1000)
        config = self.keep(json.dumps({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}}).encode())
        self.manifest = json.dumps({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **config},
            "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", **self.keep(layer)}]}).encode()

    def keep(self, data):
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        self.content[digest] = data
        return {"digest": digest, "size": len(data)}

    def answer(self, r):
        if r.path == "/v2/":
            return Answer(200, b"{}")
        m = re.fullmatch(r"/v2/(.+)/(manifests|blobs)/([^/]+)", r.path)
        if m and m[2] == "manifests":
            return Answer(200, self.manifest, [("Content-Type", "application/vnd.oci.image.manifest.v1+json"),
                                               ("Docker-Content-Digest", "sha256:" + hashlib.sha256(self.manifest).hexdigest())])
        if m and m[3] in self.content:
            return Answer(307, b"", [("Location", f"{self.blobs}/{m[3]}?sig={secrets.token_hex(8)}")])
        return Answer(404)


class Blobs(System):
    """The store behind a registry: a signed URL is all it takes, and a credential is a mistake."""

    def __init__(self, content):
        super().__init__(lambda r: next((f"{n} has no business here" for n in CREDENTIALS if r.all(n)), None))
        self.content = content

    def answer(self, r):
        data = self.content.get(urllib.parse.unquote(r.path[1:]))
        return Answer(200, data) if data and r.query.startswith("sig=") else Answer(404)


class Git(System):
    """git http-backend over a folder of bare repositories."""

    unauthorized = [("WWW-Authenticate", 'Basic realm="git"')]

    def __init__(self, folder, check):
        super().__init__(check)
        self.folder = folder

    @staticmethod
    def feed(pipe, chunks):
        try:
            for piece in chunks:
                pipe.write(piece)
            pipe.close()
        except OSError:
            pass  # it has heard enough

    @staticmethod
    def pieces(backend, feeder):
        while piece := backend.stdout.read1(65536):
            yield piece
        feeder.join()
        backend.wait()

    def answer(self, r):
        """Nothing is kept: a repository may be larger than what we have memory for."""
        env = {**os.environ, "GIT_PROJECT_ROOT": str(self.folder), "GIT_HTTP_EXPORT_ALL": "1", "REMOTE_USER": "agents",
               "PATH_INFO": urllib.parse.unquote(r.path), "QUERY_STRING": r.query, "REQUEST_METHOD": r.method,
               "CONTENT_TYPE": r.one("content-type") or "", "HTTP_CONTENT_ENCODING": r.one("content-encoding") or "",
               "GIT_PROTOCOL": r.one("git-protocol") or ""}
        if r.one("content-length"):
            env["CONTENT_LENGTH"] = r.one("content-length")
        backend = subprocess.Popen(["git", "http-backend"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        feeder = threading.Thread(target=self.feed, args=(backend.stdin, r.chunks), daemon=True)
        feeder.start()
        fields = []
        while line := backend.stdout.readline().rstrip(b"\r\n"):
            fields.append(tuple(line.decode().split(": ", 1)))
        status = next((int(v.split()[0]) for n, v in fields if n == "Status"), 200)
        return Answer(status, self.pieces(backend, feeder), [f for f in fields if f[0] != "Status"])


class Grpc(System):
    """/company.Echo/{Unary,Up,Down,Both}: messages come back, in the four kinds of calls."""

    unauthorized = [("grpc-status", "16"), ("content-type", "application/grpc")]

    @staticmethod
    def messages(chunks):
        held = b""
        for piece in chunks:
            held += piece
            while len(held) >= 5 and len(held) >= 5 + (n := int.from_bytes(held[1:5], "big")):
                yield held[5:5 + n]
                held = held[5 + n:]

    @staticmethod
    def framed(message):
        return b"\0" + len(message).to_bytes(4, "big") + message

    def answer(self, r):
        kind, asked = r.path.rpartition("/")[2], self.messages(r.chunks)
        if kind == "Up":
            replies = iter([b"".join(asked)])
        elif kind == "Down":
            replies = (b"%d %s" % (i, m) for m in asked for i in range(5))
        else:
            replies = asked
        return Answer(200, (self.framed(m) for m in replies), [("content-type", "application/grpc")], [("grpc-status", "0")])


class Sockets(System):
    """WebSocket (RFC 6455) over HTTP/1.1: frames come back as they are, unmasked."""

    def answer(self, r):
        taken = websocket_line.switch(r.one("sec-websocket-key") or "")
        shown = (r.one("authorization") or "").encode()

        def carry(sock, file):
            sock.sendall(taken + bytes([0x81, len(shown)]) + shown)
            while head := file.read(2):
                n, mask = head[1] & 127, b""
                n = int.from_bytes(file.read(2), "big") if n == 126 else n
                mask = file.read(4)
                data = bytes(b ^ mask[i % 4] for i, b in enumerate(file.read(n)))
                sock.sendall(bytes([head[0]]) + (bytes([n]) if n < 126 else b"\x7e" + n.to_bytes(2, "big")) + data)
                if head[0] & 15 == 8:
                    return
        return carry


def public_half(pem):
    return serialization.load_pem_private_key(pem, None).public_key()
