"""A stand-in for OpenSandbox's egress sidecar: its API (/policy, /credential-vault,
/healthz) with the real one's shapes and order of rules.  It enforces nothing: that is
what the gateway under test is for.  Runs as the sidecar image and inside the fake."""
import json
import os
import re
import signal
import threading

from wire import Server

PORT = 18080
MAX_RULES, MAX_BODY = 4096, 1 << 20


def verdict(policy, host):
    """First match wins; *.x is any depth below x and not x itself."""
    for rule in policy.get("egress", []):
        target = rule["target"].lower()
        if host == target or (target.startswith("*.") and host.endswith(target[1:])):
            return rule["action"]
    return policy.get("defaultAction", "deny")


class Egress:
    """One sandbox's policy and vault.  `token` is the one that each request must carry."""

    def __init__(self, policy=None, token=None, mode="dns"):
        self.policy, self.token, self.mode = policy or {"defaultAction": "deny", "egress": []}, token, mode
        self.vault, self.lock = None, threading.Lock()

    def handle(self, request, exchange):
        if self.token and request.get("opensandbox-egress-auth") != self.token:
            return exchange.answer(401, b"unauthorized\n", "text/plain; charset=utf-8")
        with self.lock:
            if request.path == "/healthz":
                return exchange.answer(200, b"ok", "text/plain; charset=utf-8")
            if request.path == "/policy":
                return self._policy(request, exchange)
            if request.path.startswith("/credential-vault"):
                return self._vault(request, exchange)
        return exchange.answer(404, b"404 page not found\n", "text/plain; charset=utf-8")

    def _policy(self, request, exchange):
        method = request.method
        if method not in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            return exchange.answer(405)
        if method != "GET":
            if len(request.body()) > MAX_BODY:
                return exchange.answer(413, b"too large\n", "text/plain")
            why = self._change(method, request.json() if request.body() else {})
            if why:
                return exchange.answer(400, why.encode() + b"\n", "text/plain; charset=utf-8")
        rules, default = self.policy.get("egress", []), self.policy.get("defaultAction", "deny")
        mode = "enforcing" if rules else f"{default}_all"
        return exchange.json(200, {"status": "ok", "mode": mode, "enforcementMode": self.mode,
                                   "policy": {"defaultAction": default, "egress": rules}})

    def _change(self, method, wish):
        rules = list(self.policy.get("egress", []))
        if method in ("POST", "PUT"):
            rules, default = wish.get("egress") or [], wish.get("defaultAction") or "deny"
        elif method == "PATCH":
            fresh = {}
            for rule in wish:
                fresh.setdefault(rule.get("target"), rule)  # the first of a payload wins
            rules, default = [*fresh.values(), *(r for r in rules if r["target"] not in fresh)], None
        else:
            rules, default = [r for r in rules if r["target"] not in set(wish)], None
        if len(rules) > MAX_RULES:
            return "too many rules"
        for rule in rules:
            if rule.get("action") not in ("allow", "deny") or not rule.get("target"):
                return f"bad rule {rule}"
        self.policy = {"defaultAction": default or self.policy.get("defaultAction", "deny"), "egress": rules}
        return None

    # -- the vault: values go in and never come out --

    def _state(self):
        return {"revision": self.vault["revision"],
                "credentials": [{"name": n, "sourceType": "inline", "revision": r}
                                for n, (r, _) in self.vault["credentials"].items()],
                "bindings": [{"name": n, "revision": r, "match": b["match"],
                              "auth": {k: v for k, v in b["auth"].items() if k in ("type", "name")}}
                             for n, (r, b) in self.vault["bindings"].items()]}

    def _vault(self, request, exchange):
        if request.path == "/credential-vault":
            return getattr(self, "_vault_" + request.method.lower())(request, exchange)
        found = re.fullmatch(r"/credential-vault/(credentials|bindings)(?:/([^/]+))?", request.path)
        if self.vault is None or not found:
            return exchange.answer(404, b"not found\n", "text/plain")
        kind, name = found.groups()
        items = self._state()[kind]
        if name is None:
            return exchange.json(200, {"revision": self.vault["revision"], kind: items})
        one = next((item for item in items if item["name"] == name), None)
        return exchange.json(200, one) if one else exchange.answer(404, b"not found\n", "text/plain")

    def _vault_post(self, request, exchange):
        body = request.json()
        if self.vault is not None:
            return exchange.answer(409, b"vault exists\n", "text/plain")
        hosts = [h for b in body["bindings"] for h in b["match"]["hosts"]]
        if any(verdict(self.policy, h) != "allow" for h in hosts):
            return exchange.answer(412, b"a host without an allow rule\n", "text/plain")
        self.vault = {"revision": 1, "credentials": {c["name"]: (1, c) for c in body["credentials"]},
                      "bindings": {b["name"]: (1, b) for b in body["bindings"]}}
        return exchange.json(201, self._state())

    def _vault_get(self, _, exchange):
        if self.vault is None:
            return exchange.answer(404, b"not found\n", "text/plain")
        return exchange.json(200, self._state())

    def _vault_patch(self, request, exchange):
        body = request.json()
        if self.vault is None:
            return exchange.answer(404, b"not found\n", "text/plain")
        if body.get("expectedRevision", self.vault["revision"]) != self.vault["revision"]:
            return exchange.answer(409, b"revision\n", "text/plain")
        self.vault["revision"] += 1
        for kind in ("credentials", "bindings"):
            change = body.get(kind) or {}
            for name in change.get("delete", []):
                self.vault[kind].pop(name, None)
            for item in [*change.get("add", []), *change.get("replace", [])]:
                self.vault[kind][item["name"]] = (self.vault["revision"], item)
        return exchange.json(200, self._state())

    def _vault_delete(self, _, exchange):
        if self.vault is None:
            return exchange.answer(404, b"not found\n", "text/plain")
        self.vault = None
        return exchange.answer(204)


def main():
    # The first process of a container has no default handlers: without this a stop takes ten seconds.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    rules = json.loads(os.environ.get("OPENSANDBOX_EGRESS_RULES") or "{}")
    egress = Egress(rules, os.environ.get("OPENSANDBOX_EGRESS_TOKEN"), os.environ.get("OPENSANDBOX_EGRESS_MODE", "dns"))
    server = Server(egress.handle, "0.0.0.0", PORT)
    threading.Event().wait()
    server.close()


if __name__ == "__main__":
    main()
