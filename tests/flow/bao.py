"""OpenBao as its API says it is (HashiCorp Vault's is the same): logins, tokens, KV version 2.

    bao = firm.add("bao.example.test", Bao())     company.py
    bao.put("apps/tracker", token="s3cr3t")       a new version
    bao.roles["role-1"] = "secret-id"             AppRole;  bao.accounts["role"] = "jwt": Kubernetes
    bao.tokens["t"] = Token(...)                  made by an operator

What no client may send is kept in the company's errors, which fail a test: a request without
X-Vault-Request, two tokens or a token where none belongs, one that a table of HPACK could keep, a
body that is not the one object that the documentation has, a parameter or a path that it hasn't.
"""
import copy
import datetime
import json
import re
import secrets
import time
import urllib.parse

from company import Answer, System, Wrong

LOGINS = {"approle": {"role_id", "secret_id"}, "kubernetes": {"role", "jwt"}}


def no_twins(pairs):
    if len({k for k, _ in pairs}) != len(pairs):
        raise Wrong("a key stands there twice")
    return dict(pairs)


class Token:
    def __init__(self, ttl=0, renewable=False, most=None, space=""):
        self.ttl, self.renewable, self.made, self.space = ttl, renewable, time.monotonic(), space
        self.most = ttl if most is None else most
        self.end, self.uses = time.monotonic() + ttl if ttl else None, 0

    def is_good(self):
        return self.end is None or time.monotonic() < self.end

    def renew(self):
        self.end = min(time.monotonic() + self.ttl, self.made + self.most)

    def left(self):
        return 0 if self.end is None else max(0, round(self.end - time.monotonic()))


class Bao(System):
    def __init__(self, mount="secret", space="", ttl=3600, renewable=True, most=None):
        super().__init__()
        self.mount, self.space, self.ttl, self.renewable, self.most = mount, space, ttl, renewable, most
        self.mounts = {"approle": "approle", "kubernetes": "kubernetes"}  # path -> method
        self.kv, self.roles, self.accounts, self.tokens, self.denied = {}, {}, {}, {}, set()
        self.sealed, self.instead, self.slow_s, self.no_self = False, None, 0, False
        self.logins = self.renewals = self.reads = self.answered = self.at_once = self.most_at_once = 0

    # what an operator does

    def put(self, path, **fields):
        self.kv.setdefault(path, []).append({"data": fields, "end": "", "destroyed": False})

    def delete(self, path, version=0, at=None):
        at = at or datetime.datetime.now(datetime.timezone.utc)
        self.kv[path][version - 1]["end"] = at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def destroy(self, path, version=0):
        self.kv[path][version - 1]["destroyed"] = True

    def revoke(self):
        self.tokens.clear()

    # what is asked

    @staticmethod
    def say(status, body):
        return Answer(status, json.dumps(body).encode() + b"\n",
                      [("Content-Type", "application/json"), ("Cache-Control", "no-store")])

    def no(self, status, *why):
        return self.say(status, {"errors": list(why)})

    def yes(self, data=None, auth=None):
        return self.say(200, {"request_id": secrets.token_hex(16), "lease_id": "", "renewable": False, "lease_duration": 0,
                              "data": data, "wrap_info": None, "warnings": None, "auth": auth})

    def check_frame(self, r):
        if r.one("x-vault-request") != "true":
            raise Wrong("no X-Vault-Request")
        if r.all("authorization") or r.all("cookie"):
            raise Wrong("a credential in another place")
        if (r.one("x-vault-namespace") or "") != self.space:
            raise Wrong(f"namespace {r.one('x-vault-namespace')}")
        if not r.path.startswith("/v1/") or "//" in r.path or "%" in r.path:
            raise Wrong(f"path {r.path}")
        if r.version == "2" and r.all("x-vault-token") and "x-vault-token" not in r.never_indexed:
            raise Wrong("a token that may be indexed")
        if r.one("accept-encoding") not in (None, "identity"):
            raise Wrong("an encoding that nobody needs")

    def read_object(self, r, keys):
        if r.method not in ("POST", "PUT") or r.query:
            raise Wrong(f"{r.method} {r.target}")
        if r.one("content-type") != "application/json":
            raise Wrong("a body of another type")
        body = json.loads(r.read().decode(), object_pairs_hook=no_twins)
        if not isinstance(body, dict) or set(body) != keys or not all(isinstance(v, str) for v in body.values()):
            raise Wrong(f"a body with {sorted(body)}")
        return body

    def answer(self, r):
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            self.check_frame(r)
            time.sleep(self.slow_s)
            if self.instead and (a := self.instead(r)):
                r.read()
                return copy.copy(a)
            if self.sealed:
                r.read()
                return self.no(503, "Vault is sealed")
            return self.route(r)
        finally:
            self.at_once -= 1
            self.answered += 1

    def route(self, r):
        login = re.fullmatch(r"/v1/auth/(.+)/login", r.path)
        if login:
            return self.login(r, login[1])
        found = r.one("x-vault-token")
        token = self.tokens.get(found)
        if r.path in ("/v1/auth/token/renew-self", "/v1/auth/token/revoke-self"):
            self.read_object(r, set())
        elif r.method != "GET" or r.read():
            raise Wrong(f"{r.method} {r.target} with a body of {len(r.read())}")
        if token is None or not token.is_good() or token.space != self.space:
            return self.no(403, "permission denied")
        token.uses += 1
        if self.no_self and r.path.startswith("/v1/auth/token/"):  # without the policy "default"
            return self.no(403, "permission denied")
        if r.path == "/v1/auth/token/renew-self":
            return self.renew(found, token)
        if r.path == "/v1/auth/token/revoke-self":
            del self.tokens[found]
            return Answer(204, b"")
        if r.path == "/v1/auth/token/lookup-self":
            return self.yes({"id": found, "ttl": token.left(), "renewable": token.renewable, "creation_ttl": token.ttl})
        return self.read(r)

    def lent(self, name, token):
        return {"client_token": name, "accessor": secrets.token_hex(8), "policies": ["default"], "metadata": None,
                "lease_duration": token.left(), "renewable": token.renewable, "entity_id": "", "token_type": "service", "orphan": True}

    def login(self, r, mount):
        method = self.mounts.get(mount)
        if r.all("x-vault-token"):
            raise Wrong("a token with a login")
        if method is None:
            r.read()
            return self.no(403, "permission denied")
        body = self.read_object(r, LOGINS[method])
        self.logins += 1
        if method == "approle" and self.roles.get(body["role_id"]) != body["secret_id"]:
            return self.no(400, "invalid role or secret ID")
        if method == "kubernetes" and self.accounts.get(body["role"]) != body["jwt"]:
            return self.no(403, "permission denied")
        name = "hvs." + secrets.token_urlsafe(24)
        self.tokens[name] = Token(self.ttl, self.renewable, self.most, self.space)
        return self.yes(auth=self.lent(name, self.tokens[name]))

    def renew(self, name, token):
        self.renewals += 1
        if not token.renewable:
            return self.no(400, "lease is not renewable")
        token.renew()
        return self.yes(auth=self.lent(name, token))

    def read(self, r):
        prefix = f"/v1/{self.mount}/data/"
        if not r.path.startswith(prefix):
            return self.no(403, "permission denied")
        query = urllib.parse.parse_qs(r.query, strict_parsing=bool(r.query))
        if set(query) - {"version"} or not all(re.fullmatch("[1-9][0-9]*", v[0]) and len(v) == 1 for v in query.values()):
            raise Wrong(f"query {r.query}")
        self.reads += 1
        path = r.path[len(prefix):]
        versions = self.kv.get(path, [])
        number = int(query.get("version", [len(versions)])[0])
        if path in self.denied:
            return self.no(403, "permission denied")
        if not 1 <= number <= len(versions):
            return self.no(404)
        v = versions[number - 1]
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        is_gone = v["destroyed"] or (v["end"] and v["end"] <= now)
        data = {"data": None if is_gone else v["data"],
                "metadata": {"created_time": "2026-01-02T03:04:05.678901234Z", "custom_metadata": None,
                             "deletion_time": v["end"], "destroyed": v["destroyed"], "version": number}}
        a = self.yes(data)
        a.status = 404 if is_gone else 200
        return a
