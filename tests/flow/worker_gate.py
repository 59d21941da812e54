"""A worker alone, its host that speaks TLS, and the words of its ways in."""
import socket
import ssl
import struct
import subprocess
import threading

import pytest

from worker_line import Worker

CONFIG = """
listeners:
  - {{name: egress, kind: transparent, address: "127.0.0.1:{transparent}"}}
  - {{name: proxy, kind: proxy, address: "127.0.0.1:{proxy}"}}
timeouts: {{hello: 1s, request_head: 1s, tunnel_idle: 60s, stalled: 60s}}
sandboxes:
  - {{id: demo, source: 127.0.0.5, user: alice, agent: coder, session: s1, policy: p}}
  - {{id: small, source: 127.0.0.6, user: bob, policy: p, limits: {{connections: 2}}}}
  - {{id: ci, token_sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", user: ci-bot, policy: p}}
policies:
  p:
    allow:
      - {{hosts: [ok.test, "*.ok.test", gone.test, slow.test, plain.test], ports: [443, {transparent}]}}
      - {{hosts: [db.test], ports: [5432], protocol: tcp}}
    deny:
      - {{hosts: [bad.ok.test]}}
"""


class Origin:
    """Echoes, over TLS or not; ends its direction after the client has."""

    def __init__(self, context=None, first=b""):
        self.context, self.first = context, first
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.address = self.sock.getsockname()
        self.got = bytearray()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            conn, _ = self.sock.accept()
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def serve(self, conn):
        try:
            if self.context:
                conn = self.context.wrap_socket(conn, server_side=True)
            conn.sendall(self.first)
            while data := conn.recv(65536):
                self.got += data
                conn.sendall(data)
            conn.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        finally:
            conn.close()


@pytest.fixture(scope="session")
def tls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "3", "-subj", "/CN=ok.test", "-addext", "subjectAltName=DNS:ok.test,DNS:a.ok.test",
                    "-keyout", folder / "key", "-out", folder / "cert"], check=True, stderr=subprocess.DEVNULL)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "cert", folder / "key")
    client = ssl.create_default_context(cafile=folder / "cert")
    return server, client


@pytest.fixture
def gate(tmp_path, tls):
    origin, db, plain = Origin(tls[0]), Origin(first=b"hello from db\n"), Origin(first=b"SSH-2.0-x\r\n")
    gone = socket.create_server(("127.0.0.1", 0))
    nobody = gone.getsockname()
    gone.close()
    worker = Worker(tmp_path, CONFIG, {
        "ok.test": origin.address, "a.ok.test": origin.address, "bad.ok.test": origin.address,
        "evil.test": origin.address, "db.test": db.address, "gone.test": nobody, "plain.test": plain.address,
    }, {("ci", "test"): 1})  # handles count the sandboxes in the order of their ids
    worker.client, worker.origin, worker.db, worker.plain = tls[1], origin, db, plain
    yield worker
    assert worker.close() == 0


def connect(gate, target, more="", **kw):
    sock = gate.connect(**kw)
    sock.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{more}\r\n".encode())
    return sock


def socks(gate, host, port, source="127.0.0.5", user=None):
    sock = gate.connect(source=source)
    sock.sendall(b"\x05\x01\x02" if user else b"\x05\x01\x00")
    method = sock.recv(2)
    if user:
        assert method == b"\x05\x02"
        sock.sendall(b"\x01" + b"".join(bytes([len(u)]) + u.encode() for u in user))
        if sock.recv(2) != b"\x01\x00":
            return sock, None
    sock.sendall(b"\x05\x01\x00\x03" + bytes([len(host)]) + host.encode() + struct.pack("!H", port))
    return sock, sock.recv(10)[1]


def echo(sock, text=b"through the tunnel"):
    sock.sendall(text)
    got = b""
    while len(got) < len(text):
        got += sock.recv(65536)
    assert got == text


def secure(gate, sock, name="ok.test"):
    return gate.client.wrap_socket(sock, server_hostname=name)


def end_rows(gate, n=1):
    return gate.rows("tunnel_start", "tunnel_end", "deny", least=n)
