"""A gateway with a preset of conf/connectors before systems of the test's own, and boxes of
`sandgate exec` in which real clients call them by nothing but their environment.

    h = house("grpc")
    h.move("billing.internal.example.test", port)        the system is there, at ADDRESS
    h.start(**{"billing/token": secret})                  what the vault gets
    h.inside("python3", "client.py").stdout               has none of these values in it

Only where a system lies is changed in a preset, and whatever `connector()` is told to.
"""
import os
import pathlib
import socket
import ssl
import subprocess

import yaml

from certificates import let_read, make_ca, make_leaf
from company import ADDRESS
from conftest import flow

PRESETS = pathlib.Path(__file__).resolve().parents[2] / "conf/connectors"
LOOPBACK = ["127.0.0.0/8"]


class House:
    def __init__(self, folder, preset=None, firm=None):
        let_read(folder)
        self.folder, self.firm = folder, firm
        self.ca = firm.ca if firm else make_ca(folder / "company")
        found = yaml.safe_load((PRESETS / f"{preset}.yaml").read_text()) if preset else []
        self.connectors = found if isinstance(found, list) else [found]
        self.hosts, self.allow, self.values, self.more = {}, [], {}, {}
        self.gate = flow.Gate()

    def leaf(self, *names):
        """(certificate, key) of a system"""
        return make_leaf(self.ca, *names)

    def connector(self, name, **changes):
        found = next(c for c in self.connectors if c["name"] == name)
        found.update(changes)
        return found

    def bearer(self, name, host, port, value, **more):
        """A connector of the test's own, all of its host."""
        self.hosts[host] = [ADDRESS]
        self.values[f"{name}/token"] = value
        self.connectors.append({"name": name, "hosts": [host], "upstream": f"https://{host}:{port}", "addresses": LOOPBACK,
                                "auth": {"kind": "bearer", "secret": f"{name}/token"}, "allow": [{"paths": ["/**"]}], **more})

    def move(self, host, port=None):
        """Every connector of this host calls it at our address."""
        self.hosts[host] = [ADDRESS]
        port = port or self.firm.port
        for c in self.connectors:
            if host in c["hosts"]:
                name = c.get("upstream", f"https://{host}").split("//")[1].split(":")[0]
                self.hosts[name] = [ADDRESS]
                c.update(upstream=f"https://{name}:{port}", addresses=LOOPBACK)

    def open(self, host, port, **rule):
        """A host without a connector; a rule with methods or paths has it intercepted."""
        self.hosts[host] = [ADDRESS]
        self.allow.append({"hosts": [host], "ports": [port], "addresses": LOOPBACK, **rule})

    def start(self, **values):
        ca = self.gate.dir / "company.pem"
        ca.write_bytes(self.ca.file.read_bytes())
        ca.chmod(0o644)
        self.gate.write({
            "resolver": {"servers": ["127.0.0.1"], "timeout": "200ms", "tries": 1, "hosts": self.hosts},
            "upstream_tls": {"ca_file": str(ca)}, "connectors": self.connectors,
            "sandboxes": [{"id": "demo", "source": "127.0.0.1", "user": "alice", "policy": "coding"}],
            "policies": {"coding": {"allow": self.allow, "connectors": [c["name"] for c in self.connectors]}}, **self.more})
        self.gate.start()
        self.values.update(values)
        self.trusted = self.folder / "gateway.pem"
        self.trusted.write_text(self.gate.cli("ca", "export", check=True).stdout)
        for c in self.connectors:
            self.put(c)
        return self

    def put(self, c):
        name = c["auth"].get("secret")
        if name is None:
            return
        for words in (["put", name], ["grant", name]):
            done = self.gate.cli("vault", *words, "--connector", c["name"], input=self.values[name])
            if done.returncode == 0:
                return
        raise AssertionError(done.stderr)

    def tunnel(self, host, port=443, protocol="h2"):
        """TLS to a host, from the sandbox of this machine."""
        sock = socket.create_connection(self.gate.proxy, 20)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        assert sock.recv(4096).startswith(b"HTTP/1.1 200")
        context = ssl.create_default_context(cafile=self.trusted)
        context.set_alpn_protocols([protocol])
        return context.wrap_socket(sock, server_hostname=host)

    def curl(self, *words, **kw):
        """A running curl of the sandbox of this machine."""
        return subprocess.Popen(["curl", "-sS", "-N", "--proxy", "http://%s:%d" % self.gate.proxy, "--cacert", self.trusted, *words],
                                stdout=subprocess.PIPE, **kw)

    def box(self, *words, env=None, cwd=None, **kw):
        """What runs a command in a box, as arguments of subprocess."""
        clean = {k: v for k, v in os.environ.items() if "proxy" not in k.lower()}
        return {"args": [str(w) for w in (flow.BIN / "sandgate", "exec", "-c", self.gate.file, "--policy", "coding", "--", *words)],
                "env": {**clean, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}, "cwd": cwd or self.folder, **kw}

    def inside(self, *words, timeout=120, ok=True, **kw):
        done = subprocess.run(**self.box(*words, **kw), capture_output=True, text=True, timeout=timeout, check=False)
        for value in self.values.values():
            assert value not in done.stdout + done.stderr
        assert not ok or done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:], self.gate.text_of_log()[-1500:])
        return done

    def memory(self):
        """{role: KiB that it has for itself}"""
        found = {}
        for name, pid in self.gate.pids().items():
            rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
            found[name] = sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Private_"))
        return found

    def close(self):
        self.gate.close()
        if self.firm:
            self.firm.close()
            assert not self.firm.errors
