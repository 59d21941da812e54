"""A strict fake of OpenSandbox: a lifecycle server on loopback, and for each sandbox an
execd with an egress API behind it, as the docker runtime publishes them.

    fake = FakeServer(key="real-key", secrets=["sandgate-key"], gateway=True)
    fake.url                          # http://127.0.0.1:PORT
    fake.records                      # every request, byte-exact, of every surface
    fake.faults.add(Fault("POST", "/sandboxes", status=503))
    fake.check()                      # raises with every breach of the contract so far

What a client sends is judged: HTTP itself (wire.py), the API key, JSON (type, no name
twice, known fields), forms, content types, fields that have no business there, and words
of `secrets` anywhere.  With gateway=True the caller is sandgate, so what an SDK may do and
a gateway may not is a breach too: the key inside a sandbox, dangerous env names.
"""
import datetime
import json
import math
import re
import socket
import threading
import time
import uuid
from urllib.parse import parse_qsl

import execd
import wire
from accepts import clean, unfit
from egress import Egress
from judge import Judge

UTC = datetime.timezone.utc
CREATE = {"image", "snapshotId", "timeout", "resourceLimits", "resourceRequests", "env", "metadata", "entrypoint",
          "networkPolicy", "credentialProxy", "secureAccess", "volumes", "extensions", "platform", "lifecycle",
          "templateId"}
# Names by which a caller's env would steer the bootstrap or weaken the sidecar (contract 3.4 and 7.1).
STEERING = re.compile(r"EXECD(_.*)?|BOOTSTRAP_(CMD|SHELL)|OPENSANDBOX_EGRESS_.*|OPENSANDBOX_CREDENTIAL_.*|"
                      r"OTEL_EXPORTER_.*|LD_PRELOAD|LD_LIBRARY_PATH|BASH_ENV|ENV")
STEERS_NOT = {"EXECD_ACCESS_TOKEN"}  # a gateway sets it itself
SCOPES = {"logs": {"container", "all"}, "events": {"runtime", "all"}}
PROXIED = ("GET", "POST", "PUT", "DELETE", "PATCH")


class Sandbox:
    """One sandbox: its state, its execd on a port of its own, its policy."""

    def __init__(self, fake, ident, body):
        self.fake, self.ident, self.body = fake, ident, body
        now = datetime.datetime.now(UTC)
        self.state, self.reason, self.created, self.changed = "Running", "RUNNING", now, now
        timeout = body.get("timeout")
        self.expires = now + datetime.timedelta(seconds=timeout) if timeout else None
        self.metadata = dict(body.get("metadata") or {})
        policy = body.get("networkPolicy")
        self.egress = Egress(policy, "egress-" + ident[:8] if policy else None)
        token = (body.get("env") or {}).get("EXECD_ACCESS_TOKEN")
        self.execd = execd.Execd(token, {18080: self._egress} if policy else {})
        self.awake = threading.Event()
        self.awake.set()
        self.inside = {}  # port in the sandbox -> where a test's application really listens
        self.server = None
        self.listen()
        self.web = wire.Server(self._web, fake.host, judge=fake.judge_as("execd", ident))

    def listen(self, port=None):
        host = self.fake.host
        if port is None and self.fake.ports:
            port = next(p for p in self.fake.ports if p not in self.fake.taken and free(host, p))
            self.fake.taken.add(port)
        self.server = wire.Server(self._execd, host, port or 0, judge=self.fake.judge_as("execd", self.ident))
        self.execd.own_port = execd.PORT

    def _execd(self, request, exchange):
        self.awake.wait()  # a frozen container's connections hang, they aren't refused
        self.fake.serve("execd", self.ident, request, exchange, self.execd.handle)

    def _web(self, request, exchange):
        """The other published port: 8080 of the sandbox, without execd between."""
        self.awake.wait()
        self.fake.serve("app", self.ident, request, exchange,
                        lambda r, x: self.execd.proxy(r, x, self.inside.get(8080, 8080), r.path))

    def _egress(self, request, exchange):
        self.fake.judge_fields("egress", request, self.ident)
        self.egress.handle(request, exchange)

    def move(self, state, reason):
        self.state, self.reason, self.changed = state, reason, datetime.datetime.now(UTC)

    def endpoint(self, port):
        if port == 8080:
            return {"endpoint": self.web.authority}
        answer = {"endpoint": f"{self.server.authority}/proxy/{port}"}
        if port == 18080 and self.egress.token:
            answer["headers"] = {"OPENSANDBOX-EGRESS-AUTH": self.egress.token}
        return answer

    def view(self, whole=True):
        seen = {"id": self.ident, "status": {"state": self.state, "reason": self.reason,
                                             "message": f"Sandbox is {self.state.lower()}",
                                             "lastTransitionAt": stamp(self.changed)},
                "metadata": self.metadata if whole or self.metadata else None, "createdAt": stamp(self.created),
                "entrypoint": self.body.get("entrypoint") or ["tail", "-f", "/dev/null"]}
        if self.expires:
            seen["expiresAt"] = stamp(self.expires)
        if whole:
            seen |= {k: self.body[k] for k in ("image", "snapshotId") if self.body.get(k)}
        kept = {k: v for k, v in (self.body.get("extensions") or {}).items() if k.startswith("opensandbox.extensions.")}
        seen |= {k: v for k, v in (("extensions", kept), ("platform", self.body.get("platform"))) if v}
        return {k: v for k, v in seen.items() if v is not None}

    def close(self):
        self.awake.set()
        self.server.close()
        self.web.close()
        self.execd.close()


def stamp(moment):
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def free(host, port):
    with socket.socket() as sock:
        try:
            sock.bind((host, port))
        except OSError:
            return False
    return True


class FakeServer(Judge):
    """`ports`: the range that endpoints lie in; `pools_work`: as on Kubernetes; more: Judge."""

    def __init__(self, key="real-key", host="127.0.0.1", port=0, **options):
        self.key, self.host = key, host
        super().__init__(options)
        self.ports, self.taken = options.get("ports"), set()
        self.sandboxes, self.snapshots, self.pools, self.events = {}, {}, {}, []
        self.duplicate_id, self.endpoint_override, self.stale_endpoints = None, None, False
        self.pools_work = options.get("pools_work", False)
        self.routes = self._routes()
        self.server = wire.Server(self._lifecycle, host, port, judge=self.judge_as("lifecycle", ""))

    @property
    def url(self):
        return f"http://{self.server.authority}"

    def _routes(self):
        box = "/sandboxes/([^/]+)"
        return [("POST", "/sandboxes", self.create), ("GET", "/sandboxes", self.list), ("GET", box, self.get),
                ("DELETE", box, self.delete), ("PATCH", box + "/metadata", self.patch),
                ("POST", box + "/pause", self.pause), ("POST", box + "/resume", self.resume),
                ("POST", box + "/renew-expiration", self.renew),
                ("GET", box + "/endpoints/([^/]+)", self.endpoints), ("POST", box + "/snapshots", self.snapshot),
                ("GET", "/snapshots", self.list_snapshots), ("GET", "/snapshots/([^/]+)", self.get_snapshot),
                ("DELETE", "/snapshots/([^/]+)", self.delete_snapshot),
                ("GET", box + "/diagnostics/(logs|events|inspect|summary)", self.diagnostics),
                ("GET|PUT|PATCH|DELETE", box + "/networkpolicy", self.policy),
                ("POST", "/pools", self.make_pool), ("GET", "/pools", self.list_pools),
                ("GET|PUT|DELETE", "/pools/([^/]+)", self.pool), ("POST", "/metrics/events", self.event)]

    # -- lifecycle --

    def _lifecycle(self, request, exchange):
        self.serve("proxy" if "/proxy/" in request.path else "lifecycle", "", request, exchange, self._answer)

    def _answer(self, request, exchange):
        path = request.path.removeprefix("/v1")
        exchange.extra = [("X-Request-ID", request.get("x-request-id") or uuid.uuid4().hex)]
        if path in ("/health", "/version"):
            return exchange.json(200, {"status": "healthy"} if path == "/health" else {"version": "1.1.1"})
        found = re.fullmatch(r"/sandboxes/([^/]+)/proxy/(\d+)(/.*)?", path)
        if found:
            return self._proxy(request, exchange, found)
        keys = request.all("open-sandbox-api-key")
        if keys != [self.key]:
            self.breach(f"lifecycle: API key {'wrong' if keys else 'missing'}", f"{request.method} {request.target}")
            code = "INVALID_API_KEY" if keys else "MISSING_API_KEY"
            return exchange.fail(401, code, "Authentication credentials are missing or invalid")
        return self._route(request, exchange, path)

    def _route(self, request, exchange, path):
        allowed = []
        for method, pattern, target in self.routes:
            found = re.fullmatch(pattern, path)
            allowed += method.split("|") if found else []
            if found and re.fullmatch(method, request.method):
                try:
                    return target(request, exchange, *found.groups())
                except KeyError as why:
                    return exchange.fail(404, "DOCKER::SANDBOX_NOT_FOUND", f"{why} not found")
                except wire.Broken as why:
                    self.breach(f"lifecycle: {why}", f"{request.method} {request.target}")
                    return exchange.json(422, {"detail": [{"loc": ["body"], "msg": str(why)}]})
        if allowed:
            return exchange.json(405, {"detail": "Method Not Allowed"}, [("Allow", ", ".join(allowed))])
        return exchange.json(404, {"detail": "Not Found"})

    def create(self, request, exchange):
        body = request.json()
        why = unfit(body)
        if why:
            return exchange.json(422, {"detail": [{"loc": ["body"], "msg": why, "type": "value_error"}]})
        refusal = self._judge_create(body)
        if refusal:
            return exchange.fail(*refusal)
        with self.lock:
            ident, self.duplicate_id = self.duplicate_id or str(uuid.uuid4()), None
            twin = self.sandboxes.get(ident)
            box = Sandbox(self, ident, body)
            self.sandboxes[ident] = box
        if twin:
            twin.close()
        return exchange.json(202, box.view(whole=False))

    def _judge_create(self, body):
        for name in set(body) - CREATE:
            self.breach(f"create: unknown field {name}")
        for name in body.get("env") or {}:
            if self.gateway and STEERING.fullmatch(name) and name not in STEERS_NOT:
                self.breach(f"create: env {name} reached the server")
        if body.get("secureAccess"):
            return 400, "SANDBOX::INVALID_PARAMETER", "secureAccess is not supported when runtime.type='docker'"
        extend = (body.get("extensions") or {}).get("access.renew.extend.seconds")
        if extend is not None and not (extend.isdigit() and 300 <= int(extend) <= 86400):
            return 400, "SANDBOX::INVALID_PARAMETER", "access.renew.extend.seconds: 300 to 86400"
        if body.get("snapshotId") and body["snapshotId"] not in self.snapshots:
            return 404, "SNAPSHOT::NOT_FOUND", "no such snapshot"
        why = clean(body.get("metadata") or {})
        return (400, "SANDBOX::INVALID_METADATA_LABEL", why) if why else None

    def list(self, request, exchange):
        states = [v for n, v in request.args if n == "state"]
        try:
            wanted = dict(parse_qsl(request.arg("metadata") or "", strict_parsing=bool(request.arg("metadata"))))
        except ValueError as why:
            return exchange.fail(400, "INVALID_METADATA_FORMAT", f"Invalid metadata format: {why}")
        with self.lock:
            found = [b for b in self.sandboxes.values() if (not states or b.state in states)
                     and all(b.metadata.get(k) == v for k, v in wanted.items())]
        found.sort(key=lambda b: b.created, reverse=True)
        return self._page(request, exchange, [b.view() for b in found])

    @staticmethod
    def _page(request, exchange, items):
        try:
            page, size = int(request.arg("page") or 1), int(request.arg("pageSize") or 20)
        except ValueError:
            page = 0
        if page < 1 or not 1 <= size <= 200:
            return exchange.json(422, {"detail": [{"loc": ["query", "page"], "msg": "out of range"}]})
        pages = math.ceil(len(items) / size)
        return exchange.json(200, {"items": items[(page - 1) * size: page * size], "pagination": {
            "page": page, "pageSize": size, "totalItems": len(items), "totalPages": pages,
            "hasNextPage": page < pages}})

    def get(self, _, exchange, ident):
        exchange.json(200, self.sandboxes[ident].view())

    def delete(self, _, exchange, ident):
        with self.lock:
            box = self.sandboxes.pop(ident)
        box.close()
        exchange.answer(204)

    def patch(self, request, exchange, ident):
        box, change = self.sandboxes[ident], request.json()
        if not isinstance(change, dict):
            return exchange.json(422, {"detail": [{"loc": ["body"], "msg": "no object", "type": "dict_type"}]})
        why = clean(change)
        if why:
            return exchange.fail(400, ("" if "reserved" in why else "SANDBOX::") + "INVALID_METADATA_LABEL", why)
        for key, value in change.items():
            if value is None:
                box.metadata.pop(key, None)
            else:
                box.metadata[key] = value
        return exchange.json(200, box.view())

    def pause(self, _, exchange, ident):
        box = self.sandboxes[ident]
        if box.state != "Running":
            return exchange.fail(409, "DOCKER::SANDBOX_NOT_RUNNING", "Sandbox is not in a running state.")
        box.awake.clear()
        box.move("Paused", "PAUSED")
        return exchange.answer(202)

    def resume(self, _, exchange, ident):
        box = self.sandboxes[ident]
        if box.state != "Paused":
            return exchange.fail(409, "DOCKER::SANDBOX_NOT_PAUSED", "Sandbox is not in a paused state.")
        box.move("Running", "RUNNING")
        box.awake.set()
        if self.stale_endpoints:
            box.server.close()
            box.listen()
        return exchange.answer(202)

    def renew(self, request, exchange, ident):
        box = self.sandboxes[ident]
        try:
            when = datetime.datetime.fromisoformat(request.json()["expiresAt"].replace("Z", "+00:00"))
        except (KeyError, ValueError, AttributeError):
            return exchange.json(422, {"detail": [{"loc": ["body", "expiresAt"], "msg": "no date"}]})
        if when <= datetime.datetime.now(UTC):
            return exchange.fail(400, "DOCKER::INVALID_EXPIRATION", "New expiration time must be in the future")
        box.expires = when
        return exchange.json(200, {"expiresAt": stamp(when)})

    def endpoints(self, request, exchange, ident, port):
        through, signed = request.arg("use_server_proxy") == "true", request.arg("expires") is not None
        if not port.isdigit():
            return exchange.json(422, {"detail": [{"loc": ["path", "port"], "msg": "no integer", "type": "int_parsing"}]})
        if signed:
            code = "INVALID_PARAMETER" if through else "API_NOT_SUPPORTED"
            return exchange.fail(400, "SANDBOX::" + code, "signed routes are for Kubernetes")
        if not 1 <= int(port) <= 65535:
            return exchange.fail(400, "DOCKER::INVALID_PORT", "port must be between 1 and 65535")
        box = self.sandboxes[ident]
        if self.endpoint_override:
            return exchange.json(200, {"endpoint": self.endpoint_override})
        answer = box.endpoint(int(port))
        if through:
            mount = "/v1" if request.path.startswith("/v1/") else ""
            answer["endpoint"] = f"{request.get('host')}{mount}/sandboxes/{ident}/proxy/{port}"
        return exchange.json(200, answer)

    def _proxy(self, request, exchange, found):
        """The server's own proxy: strips what the real one strips, and needs no key."""
        ident, port, path = found.groups()
        if request.method not in PROXIED:
            return exchange.json(405, {"detail": "Method Not Allowed"}, [("Allow", ", ".join(PROXIED))])
        box = self.sandboxes.get(ident)
        if box is None:
            return exchange.fail(404, "DOCKER::SANDBOX_NOT_FOUND", f"{ident} not found")
        gone = {"open-sandbox-api-key", "authorization", "cookie"}
        request.fields = [f for f in request.fields if f[0].lower() not in gone]
        box.awake.wait()
        if int(port) != execd.PORT and int(port) not in box.execd.apps:
            return self._proxy_app(request, exchange, box.inside.get(int(port), int(port)), path or "/")
        if int(port) != execd.PORT:
            return box.execd.proxy(request, exchange, int(port), path or "/")
        request.path = path or "/"
        return box.execd.handle(request, exchange)

    @staticmethod
    def _proxy_app(request, exchange, port, path):
        try:
            other = socket.create_connection(("127.0.0.1", port), 10)
        except OSError as why:
            return exchange.fail(502, "BACKEND_CONNECTION_FAILED", f"Could not connect to the backend sandbox: {why}")
        with other:
            other.settimeout(None)
            return execd.relay(request, exchange, other, path + ("?" + request.query if request.query else ""))

    def snapshot(self, request, exchange, ident):
        box = self.sandboxes[ident]
        if box.state != "Running":
            return exchange.fail(409, "SNAPSHOT::INVALID_SOURCE_STATE", "only a running sandbox")
        name = request.json().get("name") if request.body() else None
        shot = {"id": str(uuid.uuid4()), "sandboxId": ident, "createdAt": stamp(datetime.datetime.now(UTC)),
                "status": {"state": "Creating", "reason": "CREATING", "message": "", "lastTransitionAt":
                           stamp(datetime.datetime.now(UTC))}}
        if name:
            shot["name"] = name
        self.snapshots[shot["id"]] = shot
        exchange.json(202, shot, [("Location", f"/v1/snapshots/{shot['id']}")])
        shot["status"] = shot["status"] | {"state": "Ready", "reason": "READY"}
        return None

    def list_snapshots(self, request, exchange):
        wanted = {"sandboxId": request.arg("sandboxId"), "name": request.arg("name")}
        states = [v for n, v in request.args if n == "state"]
        self._page(request, exchange, [s for s in self.snapshots.values()
                                       if all(v is None or s.get(k) == v for k, v in wanted.items())
                                       and (not states or s["status"]["state"] in states)])

    def get_snapshot(self, _, exchange, ident):
        if ident not in self.snapshots:
            return exchange.fail(404, "SNAPSHOT::NOT_FOUND", "no such snapshot")
        return exchange.json(200, self.snapshots[ident])

    def delete_snapshot(self, _, exchange, ident):
        if self.snapshots.pop(ident, None) is None:
            return exchange.fail(404, "SNAPSHOT::NOT_FOUND", "no such snapshot")
        return exchange.answer(204)

    def diagnostics(self, request, exchange, ident, kind):
        box = self.sandboxes[ident]
        scope = request.arg("scope")
        if scope is None or kind in ("inspect", "summary"):
            fields = [("Deprecation", "true")] if kind in ("logs", "events") else []
            return exchange.answer(200, f"{kind} of {box.ident}\n".encode(), "text/plain; charset=utf-8", fields)
        if scope not in SCOPES[kind]:
            return exchange.fail(400, "DIAGNOSTICS_SCOPE_UNSUPPORTED", f"no scope {scope}")
        text = f"{kind} of {box.ident}\n"
        return exchange.json(200, {"sandboxId": ident, "kind": kind, "scope": scope, "delivery": "inline",
                                   "contentType": "text/plain; charset=utf-8", "content": text,
                                   "contentLength": len(text), "truncated": False})

    def policy(self, request, exchange, ident):
        box = self.sandboxes[ident]
        request.path = "/policy"
        if not box.egress.token:
            return exchange.fail(502, "BACKEND_CONNECTION_FAILED", "no egress sidecar")
        request.fields.append(("OPENSANDBOX-EGRESS-AUTH", box.egress.token))
        return box.egress.handle(request, exchange)

    # -- pools (Kubernetes only; on docker 501) --

    def _pool_ok(self, exchange):
        if not self.pools_work:
            exchange.fail(501, "KUBERNETES::POOL_NOT_SUPPORTED",
                          "Pool management is only available when runtime.type is 'kubernetes'.")
        return self.pools_work

    def make_pool(self, request, exchange):
        body = request.json()
        if self._pool_ok(exchange):
            self.pools[body["name"]] = body
            exchange.json(201, self._pool_view(body))

    @staticmethod
    def _pool_view(body):
        return {"name": body["name"], "capacitySpec": body["capacitySpec"],
                "status": {"total": 0, "allocated": 0, "available": 0, "revision": "1"}}

    def list_pools(self, _, exchange):
        if self._pool_ok(exchange):
            exchange.json(200, {"items": [self._pool_view(p) for p in self.pools.values()]})

    def pool(self, request, exchange, name):
        if not self._pool_ok(exchange):
            return
        pool = self.pools[name]
        if request.method == "DELETE":
            del self.pools[name]
            exchange.answer(204)
            return
        if request.method == "PUT":
            pool |= request.json()
        exchange.json(200, self._pool_view(pool))

    def event(self, request, exchange):
        self.events.append(request.json())
        exchange.answer(204)

    # -- what tests do to it --

    def restart(self, keep=True, down=0.0):
        """The server process dies and comes back on its port, with or without its sandboxes."""
        host, port = self.server.host, self.server.port
        self.server.close()
        if not keep:
            for box in self.sandboxes.values():
                box.close()
            self.sandboxes, self.snapshots = {}, {}
        time.sleep(down)
        self.server = wire.Server(self._lifecycle, host, port, judge=self.judge_as("lifecycle", ""))

    def crash(self, ident):
        """A container that dies by itself: still listed, Terminated."""
        box = self.sandboxes[ident]
        box.close()
        box.move("Terminated", "CONTAINER_EXITED")

    def close(self):
        self.server.close()
        for box in list(self.sandboxes.values()):
            box.close()


def main():
    """By hand: a fake on a port, its breaches on standard output as they come."""
    fake = FakeServer(port=18090)
    print(json.dumps({"url": fake.url, "key": fake.key}), flush=True)
    while True:
        time.sleep(1)
        try:
            fake.check()
        except AssertionError as why:
            print(why, flush=True)


if __name__ == "__main__":
    main()
