"""sandgate in front of servers, fake or real, as an operator would set it up.

    front = Front({"standard": (url, key), "high": (url, key)})
    front.url, front.key                   # what an SDK is given
    front.user("bob")                      # the key of somebody else
    front.gate                             # tests/flow's Gate: cli(), admin(), rows(), ...

The servers' keys go into the vault by standard input; callers get keys of sandgate's own.
"""
import http.client
import json
import pathlib
import sys

FLOW = pathlib.Path(__file__).resolve().parents[1] / "flow"
IMAGE = "sg/base:local"
sys.path.append(str(FLOW))
from tally import load  # noqa: E402  (its folder is known only now)

flow = load(FLOW / "conftest.py", "flow_conftest")
POLICY = {"allow": [{"hosts": ["*.example.test", "example.test"], "ports": [80, 443], "addresses": ["127.0.0.0/8"]}]}


class Front:
    """One gateway; close() ends it."""

    def __init__(self, servers, more=None, around=(), workers=2):
        more = more or {}
        self.servers = servers
        config = {"workers": workers, "policies": {"coding": POLICY}, "sandboxes": [],
                  "servers": [{"name": name, "url": url, "key": f"opensandbox/{name}", "tier": name.partition("-")[0],
                               "endpoints": ["127.0.0.0/8", "172.16.0.0/12"], "addresses": ["127.0.0.0/8"]}
                              for name, (url, _) in servers.items()],
                  **more, "exec": {"policy": "coding", "approval": "never", **more.get("exec", {})}}
        self.gate = flow.Gate(config, listeners=("exec",), around=around)
        try:
            self.gate.start()
            for name, (_, key) in servers.items():
                self.must("vault", "put", f"opensandbox/{name}", "--connector", name, input=key)
            self.key = self.user("alice", "--agent", "coder")
        except BaseException:
            self.close()
            raise

    def must(self, *words, **kw):
        done = self.gate.cli(*words, **kw)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}\n{self.gate.text_of_log()[-3000:]}"
        return done.stdout

    def user(self, name, *words):
        return self.must("keys", "add", "--user", name, "--quiet", *words).strip()

    @property
    def authority(self):
        return f"127.0.0.1:{self.gate.exec[1]}"

    @property
    def url(self):
        return f"http://{self.authority}"

    def ask(self, method, path, body=None, key=None, **fields):
        """(status, JSON or text, fields) of one call of the lifecycle API."""
        link = http.client.HTTPConnection(self.authority, timeout=60)
        headers = {"OPEN-SANDBOX-API-KEY": self.key if key is None else key,
                   **({"Content-Type": "application/json"} if body is not None else {}),
                   **{k.replace("_", "-"): v for k, v in fields.items()}}
        try:
            link.request(method, path, None if body is None else json.dumps(body), headers)
            answer = link.getresponse()
            text = answer.read()
        finally:
            link.close()
        try:
            return answer.status, json.loads(text), dict(answer.getheaders())
        except ValueError:
            return answer.status, text.decode(errors="replace"), dict(answer.getheaders())

    def create(self, key=None, fields=None, **more):
        body = {"image": {"uri": IMAGE}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 600,
                "resourceLimits": {"cpu": "1", "memory": "256Mi"}, **more}
        return self.ask("POST", "/v1/sandboxes", body, key, **(fields or {}))

    def warm(self):
        """The sandboxes that are ready to be given away."""
        shown = json.loads(self.must("sandboxes", "--json"))["executions"]
        return [s["id"] for s in shown if s["warm"] and s["state"] == "running"]

    def close(self):
        self.gate.close()
