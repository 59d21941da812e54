"""skopeo before an OCI registry: a token service says who may pull, blobs lie behind a redirect."""
import gzip
import hashlib
import json
import os
import secrets
import time

import pytest
from conftest import documented

from company import Company, System
from company_systems import Blobs, Registry, Tokens, basic

REGISTRY, AUTH, BLOBS, IMAGE = "registry.example.test", "auth.example.test", "blobs.example.test", "docker://registry.example.test/team/app:1.0"
LAYER = 20 << 20


class Passes(System):
    """Tokens for the one account, good for what they were asked for."""

    unauthorized = [("WWW-Authenticate", 'Basic realm="tokens"')]

    def __init__(self):
        self.password, self.given = secrets.token_urlsafe(24), {}
        super().__init__(basic("puller", self.password))

    def answer(self, r):
        asked = dict(r.parameters())
        if r.method != "GET" or asked.get("service") != "company" or asked.get("scope") != "repository:team/app:pull":
            return Tokens.json(403, {"errors": [{"code": "DENIED"}]})
        token = secrets.token_urlsafe(40)
        self.given[token] = time.time() + 300
        return Tokens.json(200, {"token": token, "access_token": token, "expires_in": 300})

    def check_bearer(self, r):
        """What a registry makes of it."""
        kind, _, token = (r.one("authorization") or "").partition(" ")
        return None if kind == "Bearer" and self.given.get(token, 0) > time.time() else "no token of ours"


class Yard:
    def __init__(self, house, folder, protocol):
        self.folder, firm = folder, Company(folder / "firm", protocols=[protocol])
        self.passes = firm.add(AUTH, Passes())
        self.registry = firm.add(REGISTRY, Registry(self.passes, f"https://{AUTH}/token", f"https://{BLOBS}:{firm.port}"))
        layers = [gzip.compress(b"a layer" * 1000), os.urandom(LAYER)]
        manifest = json.loads(self.registry.manifest)
        manifest["layers"] = [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", **self.registry.keep(data)} for data in layers]
        self.registry.manifest, self.layers = json.dumps(manifest).encode(), layers
        self.blobs = firm.add(BLOBS, Blobs(self.registry.content))
        self.h = house("oci-registry", firm=firm)
        for host in (REGISTRY, AUTH):
            self.h.move(host)
        # As the preset says; and read, because clients know only our authority, not the company's.
        self.h.open(BLOBS, firm.port, methods=["GET"])
        self.h.start(**{"registry/pull": self.passes.password})
        # Which images it takes is skopeo's own policy, that Debian has a file for in another package.
        (folder / ".config/containers").mkdir(parents=True)
        (folder / ".config/containers/policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')

    def skopeo(self, *words, **kw):
        return self.h.inside("skopeo", *words, env={"HOME": str(self.folder)}, **kw)


@pytest.fixture(scope="module", params=["h2", "http/1.1"])
def yard(house, tmp_path_factory, request):
    return Yard(house, tmp_path_factory.mktemp("yard"), request.param)


def test_an_image_is_pulled_without_a_password(yard):
    yard.h.inside(*documented("skopeo"), env={"HOME": str(yard.folder)}, cwd=yard.folder)
    for data in yard.layers:
        assert (yard.folder / "image" / hashlib.sha256(data).hexdigest()).read_bytes() == data
    assert (yard.folder / "image/manifest.json").read_bytes() == yard.registry.manifest
    assert len(yard.blobs.seen) == 3 and [r.refused for r in yard.blobs.seen + yard.passes.seen if r.refused] == []
    # Only the first question came without the token that it asks for.
    assert [r.path for r in yard.registry.seen if r.refused] == ["/v2/"]
    rows = yard.h.gate.wait_rows(kind="credential")
    assert {r["connector"] for r in rows} == {"oci-token"}


def test_a_password_of_the_clients_own_goes_nowhere(yard):
    yard.skopeo("inspect", "--creds", "me:mine", "--config", "--raw", IMAGE)
    assert yard.passes.seen[-1].refused is None and "mine" not in str([r.fields for r in yard.passes.seen])


def test_nothing_is_pushed(yard):
    before = len(yard.registry.seen)
    done = yard.skopeo("copy", "-q", f"dir:{yard.folder}/image", IMAGE, ok=False)
    assert done.returncode != 0 and "403" in done.stderr, done.stderr
    assert all(r.method in ("GET", "HEAD") for r in yard.registry.seen[before:])
