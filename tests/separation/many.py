"""A gateway before fifty systems of a company in five groups, whose every secret and access token
can be told from all other octets; and its sandboxes, with all that they were sent.

A mark begins with `common`, and then says what it is in: (group, "secret") or (group, "token").
"""
import secrets
import socket
import ssl
import string
import subprocess
from concurrent.futures import ThreadPoolExecutor

import company_systems as systems
from certificates import let_read
from company import ADDRESS, Answer, Company
from conftest import flow
from scan import Needles

PATHS = [{"paths": ["/echo/**", "/bot*/**", "/b/**", "/company.Echo/**"]}]
HOLD_S = 20


def word(n):
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(n))


class Tokens(systems.Tokens):
    """Whose tokens have a mark each."""

    def __init__(self, world, group):
        super().__init__(client_secret=world.new(group))
        self.refresh, self.fresh = world.new(group), lambda: world.new(group)
        self.access = lambda: world.new(group, "token")

    def token(self):
        text = self.access()
        self.valid[text] = float("inf")
        self.given += 1
        return text

    def grant(self, r):
        more = super().grant(r)
        if more:
            self.refresh = more["refresh_token"] = self.fresh()
        return more


class Wrath(systems.Echo):
    """Shows it all, with an error."""

    def answer(self, r):
        return Answer(503, self.shown(r), [("X-Echo", r.one("authorization"))])


class Quiet(systems.System):
    """Shows nothing."""

    def answer(self, r):
        r.read()
        return Answer(200, b"done")


class Many:
    def __init__(self, folder, groups="abcde", echo=systems.Echo, wrath=Wrath):
        let_read(folder)
        common, self.echo, self.wrath = word(9), echo, wrath
        self.folder, self.groups, self.received, self.open = folder, groups, [], []
        self.marks = {(g, what): common + word(7) for g in groups for what in ("secret", "token")}
        self.needles = Needles(common.encode(), {name: mark.encode() for name, mark in self.marks.items()})
        self.firms = [Company(folder / "two", protocols=["h2"]), Company(folder / "one", protocols=["http/1.1"])]
        self.connectors, self.values, self.systems = [], {}, {}
        for group in groups:
            self.build(group)
        for firm in self.firms:  # one certificate for all of them
            name, system = firm.systems.popitem()
            firm.add(name, system)
        self.start()

    def new(self, group, what="secret"):
        """The mark twice: memory that is used again loses its first octets."""
        mark = self.marks[group, what]
        return "-".join(["tok", word(5), mark, word(3), mark, word(6)])

    def firm(self, group):
        """HTTP/2 is spoken by the systems of every other group."""
        return self.firms[self.groups.index(group) % 2]

    def connector(self, kind, group, make, auth, value=None):
        name, firm, value = f"{kind}-{group}", self.firm(group), value or self.new(group)
        self.values[name] = value
        self.systems[name] = firm.systems[f"{name}.example.test"] = make(value)
        self.connectors.append({"name": name, "hosts": [f"{name}.example.test"], "ports": [firm.port], "group": group,
                                "addresses": ["127.0.0.0/8"], "allow": PATHS, "auth": {"secret": f"{name}/secret", **auth}})

    def build(self, g):
        echo, firm = self.echo, self.firm(g)
        login = f"login-{g}.example.test"
        tokens = self.systems[f"login-{g}"] = firm.systems[login] = Tokens(self, g)
        url = {"token_url": f"https://{login}:{firm.port}/token", "client_id": "agents"}
        self.connector("bearer", g, lambda s: echo(systems.bearer(s)), {"kind": "bearer"})
        self.connector("basic", g, lambda s: echo(systems.basic("agents", s)), {"kind": "basic", "user": "agents"})
        self.connector("field", g, lambda s: echo(systems.field("X-Api-Key", s)), {"kind": "header", "name": "X-Api-Key"})
        self.connector("query", g, lambda s: echo(systems.parameter("key", s)), {"kind": "query", "name": "key"})
        self.connector("path", g, lambda s: echo(systems.in_path("/bot", s)), {"kind": "path", "prefix": "/bot"})
        self.connector("wrath", g, lambda s: self.wrath(systems.bearer(s)), {"kind": "bearer"})
        self.connector("crm", g, lambda s: echo(tokens.check_bearer), {"kind": "oauth2_client_credentials", **url}, tokens.client_secret)
        self.connector("mail", g, lambda s: echo(tokens.check_bearer), {"kind": "oauth2_refresh", **url}, tokens.refresh)
        bucket = systems.S3()
        bucket.secret = self.new(g)
        self.connector("bucket", g, lambda s: bucket, {"kind": "sigv4", "region": "eu-west-1", "service": "s3"},
                       f"{bucket.id}:{bucket.secret}")
        calls = systems.Grpc if firm is self.firms[0] else systems.Sockets
        self.connector("calls", g, lambda s: calls(systems.bearer(s)), {"kind": "bearer"})

    def start(self):
        roots = self.folder / "roots.pem"
        roots.write_text("".join(firm.ca.file.read_text() for firm in self.firms))
        hosts = [*self.firms[0].systems, *self.firms[1].systems]
        names = [c["name"] for c in self.connectors]
        self.gate = flow.Gate({
            "upstream_tls": {"ca_file": str(roots)},
            "resolver": {"servers": ["127.0.0.1"], "timeout": "200ms", "tries": 1, "hosts": {n: [ADDRESS] for n in hosts}},
            "sandboxes": [{"id": n, "source": s, "user": u, "policy": p, "trusts_ca": True} for n, s, u, p in
                          (("demo", "127.0.0.1", "alice", "all"), ("small", "127.0.0.2", "bob", "one"))],
            "connectors": self.connectors,
            "policies": {"all": {"connectors": names}, "one": {"connectors": ["bearer-a"]}}}).start()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self.put, names))
        self.ca = self.folder / "gateway.pem"
        self.ca.write_text(self.gate.cli("ca", "export").stdout)

    def put(self, name):
        done = self.gate.cli("vault", "put", f"{name}/secret", "--connector", name, input=self.values[name])
        assert done.returncode == 0, done.stderr

    # what a sandbox does

    def url(self, name, path):
        return f"https://{name}.example.test:{self.firm(name[-1]).port}{path}"

    def curl(self, name, path, *words, source="127.0.0.1", **kw):
        """The status; all that came is kept."""
        done = subprocess.run(["curl", "-sS", "-i", "-m", "20", "--interface", source, "--proxy", "http://%s:%d" % self.gate.proxy,
                               "--cacert", self.ca, "-w", "\n%{http_code}", *map(str, words), self.url(name, path)],
                              capture_output=True, timeout=60, **kw)
        self.received.append(done.stdout + done.stderr)
        return int(done.stdout.rpartition(b"\n")[2] or 0)

    def connect(self, name, source="127.0.0.1"):
        """A connection to the system after CONNECT."""
        sock = socket.create_connection(self.gate.proxy, source_address=(source, 0), timeout=HOLD_S)
        to = f"{name}.example.test:{self.firm(name[-1]).port}"
        sock.sendall(f"CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n".encode())
        answer = sock.recv(4096)
        assert b" 200" in answer, answer
        return sock

    def websocket(self, name):
        """One that stays open, after its first message has come."""
        tls = ssl.create_default_context(cafile=self.ca).wrap_socket(self.connect(name), server_hostname=f"{name}.example.test")
        tls.sendall(f"GET /echo/ws HTTP/1.1\r\nHost: {name}.example.test:{self.firm(name[-1]).port}\r\nUpgrade: websocket\r\n"
                    "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode())
        got = b""
        while b"Bearer " not in got:
            data = tls.recv(65536)
            assert data, got
            got += data
        self.received.append(got)
        self.open.append(tls)

    def pids(self):
        """{name: pid} of all processes."""
        return {"super": self.gate.process.pid, **self.gate.pids()}

    def close(self):
        for sock in self.open:
            sock.close()
        self.gate.close()
        for firm in self.firms:
            firm.close()
