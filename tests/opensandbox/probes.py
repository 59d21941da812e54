"""Single requests of the lifecycle API, good and bad, and what each is answered: the part
of the contract that no SDK shows.

usage: probes.py URL KEY      prints {name: [status, content type, what the body has]}
"""
import datetime
import http.client
import json
import re
import sys
import time

BODY = {"image": {"uri": "sg/base:local"}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 600,
        "resourceLimits": {"cpu": "1", "memory": "256Mi"}}
NONE = "00000000-0000-4000-8000-000000000000"


class Prober:
    def __init__(self, url, key):
        self.where, self.key = url.removeprefix("http://"), key

    def ask(self, method, path, body=None, **fields):
        head = {"OPEN-SANDBOX-API-KEY": self.key, **{n.replace("_", "-"): v for n, v in fields.items()}}
        head = {n: v for n, v in head.items() if v is not None}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            head.setdefault("Content-Type", "application/json")
        link = http.client.HTTPConnection(self.where, timeout=60)
        try:
            link.request(method, path, body, head)
            answer = link.getresponse()
            return answer.status, {n.lower(): v for n, v in answer.getheaders()}, answer.read()
        finally:
            link.close()

    def shape(self, method, path, body=None, **fields):
        """Status, type, and of JSON the names (of an error its code too)."""
        status, head, data = self.ask(method, path, body, **fields)
        kind = head.get("content-type", "").partition(";")[0]
        extra = sorted(n for n in ("location", "deprecation", "allow") if n in head)
        if kind != "application/json" or not data:
            return [status, kind, len(data) > 0, extra, "x-request-id" in head]
        value = json.loads(data)
        names = sorted(value) if isinstance(value, dict) else type(value).__name__
        code = value.get("code") if isinstance(value, dict) else None
        return [status, kind, names, code, extra, "x-request-id" in head]

    def until(self, path, test, seconds=30):
        """The JSON at `path` when it fits: a snapshot takes its time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = json.loads(self.ask("GET", path)[2])
            if test(value):
                return value
            time.sleep(0.1)
        raise TimeoutError(path)


def probes(p):
    seen = {}

    def probe(name, *args, **fields):
        seen[name] = p.shape(*args, **fields)

    probe("health", "GET", "/health", OPEN_SANDBOX_API_KEY=None)
    probe("no key", "GET", "/v1/sandboxes", OPEN_SANDBOX_API_KEY=None)
    probe("wrong key", "GET", "/sandboxes", OPEN_SANDBOX_API_KEY="wrong")
    probe("no such route", "GET", "/v1/nothing")
    probe("no such method", "PUT", "/v1/sandboxes")
    for name, body in {
            "no body": b"", "no JSON": b"{", "a list": [], "nothing": {}, "two sources": {**BODY, "snapshotId": NONE},
            "no entrypoint": {k: v for k, v in BODY.items() if k != "entrypoint"},
            "no limits": {k: v for k, v in BODY.items() if k != "resourceLimits"},
            "short timeout": {**BODY, "timeout": 1}, "text timeout": {**BODY, "timeout": "soon"},
            "unknown snapshot": {"snapshotId": NONE, "resourceLimits": BODY["resourceLimits"]}, "secure access": {**BODY, "secureAccess": True},
            "bad label": {**BODY, "metadata": {"a": "not a label!"}},
            "reserved label": {**BODY, "metadata": {"opensandbox.io/id": "x"}},
            "host volume": {**BODY, "volumes": [{"name": "v", "mountPath": "/v", "host": {"path": "../etc"}}]},
            "bad policy": {**BODY, "networkPolicy": {"egress": [{"action": "perhaps", "target": "x"}]}},
            "bad extension": {**BODY, "extensions": {"access.renew.extend.seconds": "1"}}}.items():
        probe("create: " + name, "POST", "/v1/sandboxes", body, Content_Type="application/json")
    seen |= life(p)
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume"), ("POST", "/snapshots"),
                         ("GET", "/endpoints/44772"), ("GET", "/proxy/44772/ping"), ("GET", "/diagnostics/logs"),
                         ("GET", "/diagnostics/summary"), ("GET", "/networkpolicy")):
        probe(f"unknown: {method} {path}", method, f"/v1/sandboxes/{NONE}{path}")
    for path in ("page=0", "pageSize=0", "pageSize=201", "page=x", "metadata=broken", "state=Nowhere", "page=9"):
        probe("list: " + path, "GET", "/v1/sandboxes?" + path)
    probe("unknown snapshot", "GET", f"/v1/snapshots/{NONE}")
    probe("delete unknown snapshot", "DELETE", f"/v1/snapshots/{NONE}")
    probe("list snapshots", "GET", "/v1/snapshots?state=Ready&page=1")
    probe("pools", "GET", "/pools")
    probe("pool", "GET", "/v1/pools/x")
    probe("telemetry", "POST", "/v1/metrics/events", {"eventType": "sandbox.create", "createDurationMs": 5, "success": True})
    return seen


def life(p):
    """A sandbox from its create to its end."""
    seen = {}
    status, _, data = p.ask("POST", "/sandboxes", {**BODY, "metadata": {"probe": "yes"}, "extensions": {"mine": "kept"}})
    box = json.loads(data)
    seen["create"] = [status, sorted(box), sorted(box["status"]), box["status"]["state"], box["metadata"]]
    here, v1 = f"/sandboxes/{box['id']}", f"/v1/sandboxes/{box['id']}"
    whole = json.loads(p.ask("GET", here)[2])
    seen["get"] = [sorted(whole), sorted(whole["status"]), whole["status"]["state"]]
    page = json.loads(p.ask("GET", "/sandboxes?metadata=probe%3Dyes&state=Running")[2])
    seen["list"] = [sorted(page), page["pagination"], [item["id"] == box["id"] for item in page["items"]]]
    for prefix in (here, v1):
        for port in (44772, 18080, 8080, 9999):
            for more in ("", "?use_server_proxy=true"):
                where = json.loads(p.ask("GET", f"{prefix}/endpoints/{port}{more}")[2])
                text = re.sub(r":\d+", ":PORT", where["endpoint"].replace(box["id"], "ID"))
                seen[f"endpoint {prefix.replace(box['id'], 'ID')} {port}{more}"] = [sorted(where), text]
    soon = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)).isoformat()
    rows = {
        "endpoint 0": ("GET", "/endpoints/0"), "endpoint big": ("GET", "/endpoints/70000"),
        "endpoint word": ("GET", "/endpoints/http"), "endpoint signed": ("GET", "/endpoints/8080?expires=1900000000"),
        "signed and proxied": ("GET", "/endpoints/8080?expires=1900000000&use_server_proxy=true"),
        "renew": ("POST", "/renew-expiration", {"expiresAt": soon}),
        "renew earlier": ("POST", "/renew-expiration", {"expiresAt": soon.replace("+00:00", "Z")}),
        "renew past": ("POST", "/renew-expiration", {"expiresAt": "2020-01-01T00:00:00Z"}),
        "renew nothing": ("POST", "/renew-expiration", {}), "renew word": ("POST", "/renew-expiration", {"expiresAt": "x"}),
        "patch": ("PATCH", "/metadata", {"probe": None, "two": "2"}), "patch bad": ("PATCH", "/metadata", {"a": "b c"}),
        "patch reserved": ("PATCH", "/metadata", {"opensandbox.io/id": "x"}), "patch list": ("PATCH", "/metadata", []),
        "resume running": ("POST", "/resume"), "pause": ("POST", "/pause"), "pause again": ("POST", "/pause"),
        "snapshot paused": ("POST", "/snapshots", {}), "resume": ("POST", "/resume"),
        "logs": ("GET", "/diagnostics/logs"), "logs by scope": ("GET", "/diagnostics/logs?scope=container"),
        "events": ("GET", "/diagnostics/events"), "events by scope": ("GET", "/diagnostics/events?scope=lifecycle"),
        "inspect": ("GET", "/diagnostics/inspect"), "summary": ("GET", "/diagnostics/summary"),
        "no policy": ("GET", "/networkpolicy"), "proxy head": ("HEAD", "/proxy/44772/ping"),
        "proxy options": ("OPTIONS", "/proxy/44772/ping"), "proxy closed port": ("GET", "/proxy/9/x"),
        "snapshot": ("POST", "/snapshots", {"name": "probe"})}
    for name, row in rows.items():
        seen[name] = p.shape(row[0], v1 + row[1], *row[2:])
    shot = json.loads(p.ask("GET", f"/v1/snapshots?sandboxId={box['id']}")[2])["items"][0]["id"]
    ready = p.until(f"/v1/snapshots/{shot}", lambda s: s["status"]["state"] != "Creating")
    seen["snapshot ready"] = [sorted(ready), ready["status"]["state"], ready.get("name")]
    again = p.ask("POST", "/v1/sandboxes", {"snapshotId": shot, "resourceLimits": BODY["resourceLimits"], "timeout": 600})
    seen["from snapshot"] = [again[0], sorted(json.loads(again[2]))]
    if again[0] == 202:
        other = json.loads(again[2])["id"]
        seen["got from snapshot"] = sorted(json.loads(p.ask("GET", f"/v1/sandboxes/{other}")[2]))
        p.ask("DELETE", f"/v1/sandboxes/{other}")
    seen["delete snapshot"] = p.shape("DELETE", f"/v1/snapshots/{shot}")
    seen["delete"] = p.shape("DELETE", here)
    seen["delete again"] = p.shape("DELETE", v1)
    return seen


if __name__ == "__main__":
    json.dump(probes(Prober(*sys.argv[1:3])), sys.stdout, indent=1)
