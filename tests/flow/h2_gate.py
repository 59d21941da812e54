"""A gateway that ends TLS for one host, and frames of HTTP/2 made by hand for it."""
import http.server
import ssl
import struct
import threading

from certificates import let_read
from conftest import Gate
from tls_world import Authority, Handler, Host, tunnel

NAME = "api.example.test"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, ACK = 1, 4, 1
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Plain:
    """The same host without TLS."""

    def __init__(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.seen = []
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class H2Gate(Gate):
    def __init__(self, folder, **more):
        let_read(folder)
        authority = Authority(folder / "authority")
        (folder / "authority").chmod(0o755)
        self.host = Host(authority.leaf([f"DNS:{NAME}"]))
        self.plain = Plain()
        who = {"user": "alice", "policy": "coding", "trusts_ca": True}
        super().__init__({
            "upstream_tls": {"ca_file": str(authority.file)},
            "resolver": {"servers": ["127.0.0.1"], "timeout": "200ms", "tries": 1, "hosts": {NAME: ["127.0.0.1"]}},
            "sandboxes": [{"id": "demo", "source": "127.0.0.5", **who}, {"id": "other", "source": "127.0.0.6", **who}],
            "policies": {"coding": {"allow": [
                {"hosts": [NAME], "methods": ["GET", "POST"], "paths": ["/**"],
                 "ports": [self.host.port, self.plain.port], "addresses": ["127.0.0.0/8"]}]}}, **more})
        self.start()
        self.ca = folder / "gateway.pem"
        self.ca.write_text(self.cli("ca", "export").stdout)

    def connect(self, protocol="h2", source="127.0.0.5"):
        """A TLS socket that the gateway takes for one to the host."""
        context = ssl.create_default_context(cafile=self.ca)
        context.set_alpn_protocols([protocol])
        sock = context.wrap_socket(tunnel(self, NAME, self.host.port, source=source), server_hostname=NAME)
        assert sock.selected_alpn_protocol() == protocol
        return sock

    def connect_plain(self, source="127.0.0.5"):
        return tunnel(self, NAME, self.plain.port, source=source)

    def stop(self, *args):
        try:
            return super().stop(*args)
        finally:
            self.host.close()
            self.plain.close()


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def field(name, value, index=False):
    """A literal, into the table or not (RFC 7541 section 6.2)."""
    name, value = name.encode(), value.encode()
    assert len(name) < 127 and len(value) < 127
    return bytes([0x40 if index else 0, len(name)]) + name + bytes([len(value)]) + value


def request(gate, method="GET", path="/v1/x", port=None, scheme="https"):
    return (field(":method", method) + field(":scheme", scheme)
            + field(":authority", f"{NAME}:{port or gate.host.port}") + field(":path", path))


class Frames:
    """One connection, seen as frames."""

    def __init__(self, gate, settings=b"", sock=None, **more):
        self.sock = sock or gate.connect(**more)
        self.sock.settimeout(10)
        self.seen = b""
        self.send(PREFACE + frame(SETTINGS, payload=settings))

    def send(self, data):
        self.sock.sendall(data)

    def read(self):
        """(type, flags, stream, payload); None: the end."""
        while len(self.seen) < 9 or len(self.seen) < 9 + int.from_bytes(self.seen[:3], "big"):
            try:
                data = self.sock.recv(65536)
            except (ConnectionError, ssl.SSLError):
                return None
            if not data:
                return None
            self.seen += data
        n = int.from_bytes(self.seen[:3], "big")
        one = self.seen[3], self.seen[4], int.from_bytes(self.seen[5:9], "big"), self.seen[9:9 + n]
        self.seen = self.seen[9 + n:]
        return one

    def until(self, kind, stream=None):
        while one := self.read():
            if one[0] == kind and stream in (None, one[2]):
                return one
        return None

    def close(self):
        self.sock.close()
