#!/usr/bin/env python3
"""The public hosts of the client tests: everything a client may want of an origin.

usage: origin.py DIR     serves ports 80 and 443 of every address, both families, with
                         DIR/origin.pem; writes DIR/origin.ready, and a line to
                         DIR/evil.log for each connection to the host that isn't allowed

By path: /small /big /redirect /redirect-denied /sse /ack /ws, POST anywhere.  By host:
git.example.test is `git http-backend` over DIR/git; pypi, npm and deb serve DIR/www/HOST.
"""
import base64
import hashlib
import http.server
import os
import pathlib
import socket
import ssl
import struct
import subprocess
import sys
import threading
import urllib.parse

DIR = pathlib.Path(sys.argv[1])
EVIL = ("11.77.0.66",)
BIG = bytes(range(256)) * 4096  # 1 MiB, sent 20 times
WS_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
BACKEND = "/usr/lib/git-core/git-http-backend"
ACKS = {}  # (stream, number) -> Event
ACKS_LOCK = threading.Lock()


def ack(stream, number):
    with ACKS_LOCK:
        return ACKS.setdefault((stream, int(number)), threading.Event())


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 65536

    def log_message(self, *_):
        pass

    def answer(self, code, data=b"", **fields):
        self.send_response(code)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def handle_expect_100(self):
        super().handle_expect_100()
        self.wfile.flush()
        return True

    def chunks(self):
        while True:
            size = int(self.rfile.readline().split(b";")[0], 16)
            data = self.rfile.read(size)
            self.rfile.readline()
            if size == 0:
                return
            yield data

    def body(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            return b"".join(self.chunks())
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_GET(self):
        host = self.headers.get("Host", "").split(":")[0]
        path, _, query = self.path.partition("?")
        if host == "git.example.test":
            return self.git(path, query)
        if (DIR / "www" / host).is_dir():
            return self.file(DIR / "www" / host, path)
        what = getattr(self, "at_" + path.strip("/").replace("-", "_"), None)
        if what is None:
            return self.answer(404, b"nothing here\n")
        return what(host, dict(urllib.parse.parse_qsl(query)))

    do_HEAD = do_GET

    def do_POST(self):
        path, _, query = self.path.partition("?")
        if self.headers.get("Host", "").startswith("git.example.test"):
            return self.git(path, query)
        data, how = self.body(), self.headers.get("Transfer-Encoding", "length")
        return self.answer(200, f"{len(data)} {hashlib.sha256(data).hexdigest()} {how}\n".encode())

    do_PUT = do_POST

    # by path

    def at_small(self, host, _):
        self.answer(200, f"small thing of {host}\n".encode(), X_Origin=host,
                    X_Peer=str(self.client_address[1]), Content_Type="text/plain")

    def at_big(self, *_):
        self.send_response(200)
        self.send_header("Content-Length", str(20 * len(BIG)))
        self.end_headers()
        for _ in range(20 if self.command != "HEAD" else 0):
            self.wfile.write(BIG)

    def go(self, host):
        scheme = "https" if isinstance(self.connection, ssl.SSLSocket) else "http"
        self.answer(302, b"", Location=f"{scheme}://{host}/small")

    def at_redirect(self, *_):
        self.go("other.example.test")

    def at_redirect_denied(self, *_):
        self.go("evil.example.test")

    def at_sse(self, _, asked):
        """Five events; each but the first only after the one before was acknowledged."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for n in range(5):
            event = f"data: event {n}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            self.wfile.flush()
            if not ack(asked["id"], n).wait(8):
                self.close_connection = True
                return
        self.wfile.write(b"0\r\n\r\n")

    def at_ack(self, _, asked):
        ack(asked["id"], asked["n"]).set()
        self.answer(204)

    def at_ws(self, *_):
        """Greets in the same packet as the 101, then echoes until a close."""
        key = self.headers["Sec-WebSocket-Key"].encode()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key + WS_GUID).digest()).decode())
        self.end_headers()
        self.wfile.write(b"\x81\x05hello")
        self.wfile.flush()
        self.close_connection = True
        while self.echo():
            pass

    def echo(self):
        first, size = self.rfile.read(2)
        size &= 0x7f
        if size == 126:
            size, = struct.unpack("!H", self.rfile.read(2))
        elif size == 127:
            size, = struct.unpack("!Q", self.rfile.read(8))
        mask = self.rfile.read(4)
        data = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(size)))
        head = bytes([first]) + (bytes([len(data)]) if len(data) < 126 else b"\x7e" + struct.pack("!H", len(data))
                                 if len(data) < 65536 else b"\x7f" + struct.pack("!Q", len(data)))
        self.wfile.write(head + data)
        self.wfile.flush()
        return first & 0x0f != 8

    # by host

    def file(self, root, path):
        found = (root / urllib.parse.unquote(path).lstrip("/")).resolve()
        if found.is_dir():
            found /= "index.html"
        if not found.is_relative_to(root.resolve()) or not found.is_file():
            return self.answer(404, b"no such file\n")
        kind = {"json": "application/json", "html": "text/html"}.get(found.suffix[1:], "application/octet-stream")
        return self.answer(200, found.read_bytes(), Content_Type=kind)

    def git(self, path, query):
        data = self.body() if self.command == "POST" else b""
        env = {**os.environ, "GIT_PROJECT_ROOT": str(DIR / "git"), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
               "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_USER": "anyone", "REMOTE_ADDR": "127.0.0.1",
               "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(data)),
               "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
               "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "GIT_CONFIG_COUNT": "1",
               "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
        out = subprocess.run([BACKEND], input=data, env=env, stdout=subprocess.PIPE, check=False).stdout
        head, _, rest = out.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().splitlines() if ": " in line)
        self.answer(int(fields.pop("Status", "200").split()[0]), rest, **fields)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads, request_queue_size, context = True, 256, None

    def finish_request(self, request, client_address):
        try:
            if request.getsockname()[0] in EVIL:
                with open(DIR / "evil.log", "a") as log:
                    log.write(f"{client_address}\n")
            request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.context:
                request = self.context.wrap_socket(request, server_side=True)
            super().finish_request(request, client_address)
        except (OSError, ValueError):
            pass  # who asked is gone


class Server6(Server):
    address_family = socket.AF_INET6

    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        super().server_bind()


def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(DIR / "origin.pem", DIR / "origin.key")
    for port, tls in ((80, None), (443, context)):
        for server in (Server(("0.0.0.0", port), Origin), Server6(("::", port), Origin)):
            server.context = tls
            threading.Thread(target=server.serve_forever, daemon=True).start()
    (DIR / "origin.ready").touch()
    threading.Event().wait()


main()
