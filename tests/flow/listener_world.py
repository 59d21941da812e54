"""A gateway whose proxy listener speaks TLS, with a host behind it."""
import base64
import hashlib
import socket
import ssl
import subprocess

from certificates import let_read
from conftest import Gate, free_port
from h2_gate import Plain
from tls_world import Authority, Host, read_answer

NAME, GATE = "api.example.test", "gw.example.test"
TOKENS = {"ci": "a-long-token-of-ci", "other": "a-long-token-of-other"}


def basic(who, token=None):
    return base64.b64encode(f"{who}:{token or TOKENS[who]}".encode()).decode()


def line(who, token=None):
    return f"Proxy-Authorization: Basic {basic(who, token)}\r\n"


class World(Gate):
    """127.0.0.5 is a sandbox by its address; others are known by a token only."""

    def __init__(self, folder, names=(GATE, "127.0.0.1", "localhost"), **more):
        let_read(folder)
        authority = Authority(folder / "authority")
        (folder / "authority").chmod(0o755)
        self.host, self.web = Host(authority.leaf([f"DNS:{NAME}"])), Plain()
        self.port, self.folder, self.names = free_port(), folder, list(names)
        self.base = {
            "upstream_tls": {"ca_file": str(authority.file)},
            "resolver": {"servers": ["127.0.0.1"], "timeout": "200ms", "tries": 1,
                         "hosts": {NAME: ["127.0.0.1"], "raw.example.test": ["127.0.0.1"]}},
            "sandboxes": [{"id": "demo", "source": "127.0.0.5", "policy": "coding"},
                          *({"id": who, "token_sha256": hashlib.sha256(token.encode()).hexdigest(), "policy": "coding"}
                            for who, token in TOKENS.items())],
            "policies": {"coding": {"allow": [
                {"hosts": [NAME], "ports": [self.host.port], "addresses": ["127.0.0.0/8"]},
                {"hosts": [NAME], "ports": [self.web.port], "addresses": ["127.0.0.0/8"]},
                {"hosts": ["raw.example.test"], "ports": [self.web.port], "protocol": "tcp",
                 "addresses": ["127.0.0.0/8"]}]}}, **more}
        super().__init__()
        self.write(self.config())
        self.start()
        self.ca = folder / "gateway.pem"
        self.export()

    def config(self, **more):
        tls = {"name": "secure", "kind": "proxy", "address": f"127.0.0.1:{self.port}", "tls": {"names": self.names}}
        return {**self.base, "listeners": [*self.listeners(), tls], **more}

    def export(self):
        self.ca.write_text(self.cli("ca", "export", check=True).stdout)

    def context(self, protocols=(), **more):
        context = ssl.create_default_context(cafile=self.ca)
        if protocols:
            context.set_alpn_protocols(list(protocols))
        for name, value in more.items():
            setattr(context, name, value)
        return context

    def raw(self, source="127.0.0.5"):
        return socket.create_connection(("127.0.0.1", self.port), 10, source_address=(source, 0))

    def connect(self, source="127.0.0.5", context=None, name=GATE):
        return (context or self.context()).wrap_socket(self.raw(source), server_hostname=name)

    def url(self, path, scheme="http", name=NAME):
        return f"{scheme}://{name}:{self.web.port if scheme == 'http' else self.host.port}{path}"

    def curl(self, *words, code=0, source="127.0.0.5", more=("--proxy-cacert",)):
        done = subprocess.run(["curl", "-sS", "--max-time", "20", "--interface", source, "-x",
                               f"https://127.0.0.1:{self.port}", *more, str(self.ca), *map(str, words)],
                              capture_output=True)
        assert done.returncode == code, (done.returncode, done.stderr)
        return done.stdout

    def works(self, **how):
        with self.connect(**how) as sock:
            sock.sendall(f"GET {self.url('/v1/x')} HTTP/1.1\r\nHost: {NAME}:{self.web.port}\r\n\r\n".encode())
            assert read_answer(sock)[2] == b"GET /v1/x\n"

    def close(self):
        super().close()
        self.host.close()
        self.web.close()
