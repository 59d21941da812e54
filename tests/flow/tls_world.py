"""Authorities, leaves and hosts over TLS for tests of interception."""
import http.server
import json
import socket
import ssl
import subprocess
import threading


def openssl(*words, **kw):
    return subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, **kw).stdout


class Authority:
    def __init__(self, folder, name="a test's authority"):
        self.folder, self.count = folder, 0
        folder.mkdir(exist_ok=True)
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj",
                f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE", "-addext",
                "keyUsage=critical,keyCertSign,cRLSign", "-keyout", folder / "ca.key", "-out", folder / "ca.pem")
        self.file = folder / "ca.pem"

    def leaf(self, names, *, eku="serverAuth", days=20, key="ec", more=()):
        """(certificate, key): files of a leaf with these alternative names, "DNS:x" or "IP:y"."""
        self.count += 1
        base = self.folder / f"leaf{self.count}"
        lines = ["basicConstraints=critical,CA:FALSE", "keyUsage=critical,digitalSignature",
                 "subjectKeyIdentifier=hash", "authorityKeyIdentifier=keyid", *more]
        if eku:
            lines.append(f"extendedKeyUsage={eku}")
        if names:
            lines.append("subjectAltName=" + ",".join(names))
        (base.with_suffix(".ext")).write_text("\n".join(lines) + "\n")
        how = ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"] if key == "ec" else [key]
        first = names[0].split(":", 1)[1] if names else "ok.example.test"
        openssl("req", "-newkey", *how, "-nodes", "-subj", f"/CN={first}", "-keyout", base.with_suffix(".key"),
                "-out", base.with_suffix(".csr"))
        openssl("x509", "-req", "-in", base.with_suffix(".csr"), "-CA", self.file, "-CAkey", self.folder / "ca.key",
                "-set_serial", str(1000 + self.count), "-days", days, "-extfile", base.with_suffix(".ext"), "-out",
                base.with_suffix(".pem"))
        return base.with_suffix(".pem"), base.with_suffix(".key")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body, more=()):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        for name, value in more:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.server.seen.append((self.command, self.path, self.headers.get("Host")))
        if self.path.startswith("/v1/big/"):
            self.answer(b"0123456789abcdef" * (int(self.path[8:]) // 16))
        elif self.path == "/v1/cut":
            # Without length and without close_notify: a third party could have cut it.
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\nhalf of it")
            self.close_connection = True
            self.connection.unwrap = lambda: None
        else:
            self.answer(f"{self.command} {self.path}\n".encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.command, self.path, self.headers.get("Host")))
        self.answer(b"%d" % len(body))

    def log_message(self, *_):
        pass


class Host:
    """An HTTPS server with this certificate; `seen` are the requests, `meetings` the connections."""

    def __init__(self, leaf, protocols=("http/1.1",)):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_ciphers("DEFAULT:@SECLEVEL=0")  # a weak key is for the gateway to refuse
        context.load_cert_chain(*leaf)
        context.set_alpn_protocols(list(protocols))
        self.meetings = 0
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.seen = []
        plain = self.server.get_request

        def get_request():
            sock, peer = plain()
            self.meetings += 1
            sock.settimeout(20)
            return context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False), peer

        self.server.get_request = get_request
        self.server.handle_error = lambda *_: None
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    @property
    def seen(self):
        return self.server.seen

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def tunnel(gate, host, port, timeout=10, source="127.0.0.1"):
    """A socket behind CONNECT host:port on the gateway's proxy listener."""
    sock = socket.create_connection(gate.proxy, timeout, source_address=(source, 0))
    sock.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        data = sock.recv(1)
        assert data, head
        head += data
    assert head.startswith(b"HTTP/1.1 200"), head
    return sock


def read_head(sock):
    data = b""
    while b"\r\n\r\n" not in data and (more := sock.recv(1)):
        data += more
    return data.decode()


def read_refusal(sock):
    head = read_head(sock)
    size = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
    body = b""
    while len(body) < size:
        body += sock.recv(size - len(body))
    return head, json.loads(body)["error"]


def read_answer(sock):
    """(status, fields, body) of one HTTP/1.1 response with a length."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = sock.recv(65536)
        assert part, data
        data += part
    head, body = data.split(b"\r\n\r\n", 1)
    lines = head.decode().split("\r\n")
    fields = {n.lower(): v.strip() for n, v in (line.split(":", 1) for line in lines[1:])}
    while len(body) < int(fields.get("content-length", 0)):
        part = sock.recv(65536)
        assert part, (head, len(body))
        body += part
    return int(lines[0].split()[1]), fields, body
