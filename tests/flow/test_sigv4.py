"""The signer against botocore, Amazon's own, where it is installed, and against a model of
the written rules always."""
import datetime
import hashlib
import hmac
import random
import re
import subprocess
import urllib.parse

import pytest

from role_line import find_binaries

ID, KEY, DATE = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "20150830T123600Z"
PIECES = ["a", "b1", "-", "_", ".", "~", "%20", "%2F", "%2f", "%41", "x y".replace(" ", "%20"), "(", ")", "!", "*", "'",
          ":", "@", "$", ",", ";", "+", "%C3%A9", "%25", "A"]


def requests(seed, n=400):
    r = random.Random(seed)

    def text(least=0):
        return "".join(r.choice(PIECES) for _ in range(r.randrange(least, 5)))

    for _ in range(n):
        # Dot segments never come so far.
        segments = [s if s not in (".", "..") else "x" for s in (text() for _ in range(r.randrange(0, 4)))]
        query = "&".join(text(1).replace("+", "%2B") + r.choice(["", "=", "=" + text().replace("+", "%2B")])
                         for _ in range(r.randrange(0, 5)))
        fields = [("Host", "example.amazonaws.com"), ("X-Amz-Date", DATE)]
        for name in r.sample(["X-Amz-Meta-A", "x-amz-acl", "Content-Type", "X-AMZ-B"], r.randrange(0, 4)):
            fields.append((name, r.choice(["v", " v  w ", "a,b", "A   b   c"])))
        yield (r.choice(["s3", "service"]), r.choice(["GET", "PUT"]), "/" + "/".join(segments), query,
               hashlib.sha256(text().encode()).hexdigest(), fields)


def ours(all_requests):
    text = "".join("\t".join([s, m, p, q, h, *("%s:%s" % f for f in fields)]) + "\n"
                   for s, m, p, q, h, fields in all_requests)
    out = subprocess.run([find_binaries() / "canon_dump"], input=text, capture_output=True, text=True, check=True)
    return out.stdout.splitlines()


def model(service, method, path, query, payload, fields):
    """As the documentation has it."""
    def strict(b, keep=""):
        return urllib.parse.quote(b, safe="-_.~" + keep)

    if service == "s3":
        canonical_path = strict(urllib.parse.unquote_to_bytes(path), "/")
    else:
        kept = [s for s in path.split("/") if s]
        canonical_path = strict(("/" + "/".join(kept) + ("/" if path.endswith("/") and kept else "")).encode(), "/")
    pairs = []
    for one in filter(None, query.split("&")):
        name, _, value = one.partition("=")
        pairs.append(tuple(strict(urllib.parse.unquote_to_bytes(x)) for x in (name, value)))
    names = sorted({n.lower() for n, _ in fields})
    lines = ["%s:%s\n" % (n, ",".join(re.sub(" +", " ", v.strip()) for k, v in fields if k.lower() == n)) for n in names]
    signed = ";".join(names)
    canonical = "\n".join([method, canonical_path, "&".join("%s=%s" % p for p in sorted(pairs)), "".join(lines), signed,
                           payload])
    scope = "%s/us-east-1/%s/aws4_request" % (DATE[:8], service)
    key = ("AWS4" + KEY).encode()
    for part in (DATE[:8], "us-east-1", service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    text = "\n".join(["AWS4-HMAC-SHA256", DATE, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    return "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s" % (
        ID, scope, signed, hmac.new(key, text.encode(), hashlib.sha256).hexdigest())


@pytest.mark.parametrize("seed", range(3))
def test_signatures_are_those_of_the_written_rules(seed):
    asked = list(requests(seed))
    for request, got in zip(asked, ours(asked)):
        assert got == model(*request), request


def test_signatures_are_those_of_botocore():
    auth = pytest.importorskip("botocore.auth")
    awsrequest = pytest.importorskip("botocore.awsrequest")
    credentials = pytest.importorskip("botocore.credentials").Credentials(ID, KEY)

    def theirs(service, method, path, query, payload, fields):
        class Signer(auth.S3SigV4Auth if service == "s3" else auth.SigV4Auth):
            def payload(self, request):
                return payload

            def _inject_signature_to_request(self, request, signature):
                request.context["all"] = "AWS4-HMAC-SHA256 Credential=%s, SignedHeaders=%s, Signature=%s" % (
                    self.scope(request), self.signed_headers(self.headers_to_sign(request)), signature)

        url = "https://example.amazonaws.com" + path + ("?" + query if query else "")
        request = awsrequest.AWSRequest(method, url, headers=dict(fields))
        request.context["timestamp"] = DATE
        signer = Signer(credentials, service, "us-east-1")
        canonical = signer.canonical_request(request)
        signer._inject_signature_to_request(request, signer.signature(signer.string_to_sign(request, canonical), request))
        return request.context["all"]

    # What it is given it takes to be encoded strictly already.
    plain = re.compile(r"(?:[\w.~/=&-]|%[0-9A-F]{2})*\Z")
    asked = [r for r in requests(7, 4000)
             if plain.match(r[2]) and plain.match(r[3]) and not re.search(r"%41|%2F", r[2] + r[3]) and "//" not in r[2]
             and all("=" in p for p in r[3].split("&") if p)]
    assert len(asked) > 50
    for request, got in zip(asked, ours(asked)):
        assert got == theirs(*request), request
