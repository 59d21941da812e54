"""A gateway that ends TLS for some hosts, and what a client needs to believe both."""
import ssl
import subprocess

from tls_world import read_answer, tunnel

NAMES = ["api.example.test", "ok.example.test", "old.example.test", "other.example.test", "hello.example.test"]


def config(authority, host, *, trusts=True, rules=(), **more):
    local = {"ports": [host.port], "addresses": ["127.0.0.0/8"]}
    return {
        "upstream_tls": {"ca_file": str(authority.file)},
        "resolver": {"servers": ["127.0.0.1"], "timeout": "200ms", "tries": 1,
                     "hosts": {n: ["127.0.0.1"] for n in NAMES}},
        "sandboxes": [{"id": "demo", "source": "127.0.0.1", "user": "alice", "policy": "coding", "trusts_ca": trusts}],
        "policies": {"coding": {"allow": [
            {"hosts": ["api.example.test"], "methods": ["GET", "POST"], "paths": ["/v1/**"], **local},
            {"hosts": ["hello.example.test"], "methods": ["GET"], **local},
            {"hosts": ["ok.example.test"], **local}, *({**r, **local} for r in rules)]}},
        **more,
    }


class World:
    """A gateway, its certificate, and what a client needs to believe both it and the host."""

    def __init__(self, gate, authority, folder):
        self.gate = gate
        done = gate.cli("ca", "export")
        assert done.returncode == 0, done.stderr
        self.ca = folder / "gateway.pem"
        self.ca.write_text(done.stdout)
        self.bundle = folder / "bundle.pem"
        self.bundle.write_text(done.stdout + authority.file.read_text())

    def client(self, protocols=("http/1.1",), **kw):
        context = ssl.create_default_context(cafile=self.ca)
        if protocols:
            context.set_alpn_protocols(list(protocols))
        for name, value in kw.items():
            setattr(context, name, value)
        return context

    def connect(self, name, port, context=None, sni=None):
        sock = tunnel(self.gate, name, port)
        return (context or self.client()).wrap_socket(sock, server_hostname=sni or name)

    def get(self, name, port, path, method="GET", body=b"", sock=None, to=None):
        sock = sock or self.connect(name, port)
        sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: {to or name}:{port}\r\n"
                     f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return read_answer(sock)

    def curl(self, *words, code=0):
        done = subprocess.run(["curl", "-sS", "--max-time", "20", "-x", "http://%s:%d" % self.gate.proxy, "--cacert",
                               str(self.ca), *map(str, words)], capture_output=True)
        assert done.returncode == code, (done.returncode, done.stderr)
        return done.stdout


def url(host, path, name="api.example.test"):
    return f"https://{name}:{host.port}{path}"
