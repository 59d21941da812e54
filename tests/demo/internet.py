#!/usr/bin/env python3
"""A little internet on loopback: one DNS server and a few HTTPS and HTTP origins.

usage: internet.py DIR    writes DIR/ca.pem, DIR/token, DIR/ready.json, DIR/hits.json (on change)

Names: static.example.test 127.0.0.11, api.example.test 127.0.0.12, evil.example.test
127.0.0.13, tracker.example.test 127.0.0.14, a company system that wants the token as
Authorization: Bearer, and packages.example.test 127.0.0.15, an index with one package for pip;
HTTPS on 8443 and HTTP on 8080, or on free ports where those are taken.
Every connection and every query is counted.
"""
import http.server
import json
import os
import pathlib
import secrets
import socket
import ssl
import struct
import subprocess
import sys
import threading
import zipfile

NAMES = {"static.example.test": "127.0.0.11", "api.example.test": "127.0.0.12", "evil.example.test": "127.0.0.13",
         "tracker.example.test": "127.0.0.14", "packages.example.test": "127.0.0.15"}
COMPANY, INDEX = "tracker.example.test", "packages.example.test"
WHEEL = "greeting-1.0-py3-none-any.whl"
HTTPS, HTTP = 8443, 8080


class Hits:
    def __init__(self, path):
        self.path, self.lock, self.counts = path, threading.Lock(), {}

    def add(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1
            tmp = self.path.with_suffix(".tmp")
            tmp.write_text(json.dumps(self.counts))
            os.replace(tmp, self.path)


def certificates(folder):
    def openssl(*args):
        subprocess.run(["openssl", *args], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
            "-subj", "/CN=sandgate demo CA", "-keyout", "ca.key", "-out", "ca.pem",
            "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
    (folder / "san.cnf").write_text("subjectAltName=" + ",".join("DNS:" + n for n in NAMES)
                                    + "\nextendedKeyUsage=serverAuth\n")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=origin",
            "-keyout", "origin.key", "-out", "origin.csr")
    openssl("x509", "-req", "-in", "origin.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "30", "-extfile", "san.cnf", "-out", "origin.pem")


def serve_dns(sock, hits):
    while True:
        query, peer = sock.recvfrom(2048)
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode("latin-1"))
            at += 1 + query[at]
        question, kind = query[12:at + 5], struct.unpack("!H", query[at + 1:at + 3])[0]
        name = ".".join(labels).lower()
        hits.add(f"dns {name}")
        ip = NAMES.get(name)
        answer = b""
        if ip and kind == 1:
            answer = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + socket.inet_aton(ip)
        flags = 0x8180 if ip else 0x8183
        sock.sendto(query[:2] + struct.pack("!HHHHH", flags, 1, 1 if answer else 0, 0, 0) + question + answer, peer)


def handler(name, folder, hits):
    class Origin(http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def __init__(self, *args):
            super().__init__(*args, directory=str(folder / "www"))

        def do_GET(self):
            hits.add(f"{name} GET")
            if self.path.startswith("/git/") or name == INDEX:
                return super().do_GET()
            body = f"hello from {name}\n".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self):
            hits.add(f"{name} POST")
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    return Origin


def index(folder):
    """A simple index (PEP 503) with one pure package."""
    place = folder / "www/simple/greeting"
    place.mkdir(parents=True)
    (place / "index.html").write_text(f'<!DOCTYPE html><a href="{WHEEL}">{WHEEL}</a>\n')
    info = "greeting-1.0.dist-info/"
    with zipfile.ZipFile(place / WHEEL, "w") as wheel:
        wheel.writestr("greeting.py", "def hello():\n    return 'hello from a package'\n")
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: demo\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(info + "RECORD", f"greeting.py,,\n{info}METADATA,,\n{info}WHEEL,,\n{info}RECORD,,\n")


def tracker(folder, hits):
    """A company system: issues for whoever shows the token, and a page that says what it was sent."""
    token = (folder / "token").read_text()

    class Tracker(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            hits.add(f"{COMPANY} {self.command} {self.path}")
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Authorization") != f"Bearer {token}":
                self.say(401, {"error": "who are you?"})
            elif self.path == "/api/echo":
                self.say(200, {name.lower(): value for name, value in self.headers.items()})
            elif self.command == "POST":
                self.say(201, {"id": 8, **json.loads(body)})
            else:
                self.say(200, [{"id": 7, "title": "the build is red"}])

        def say(self, status, what):
            body = json.dumps(what).encode() + b"\n"
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = answer

        def log_message(self, *_):
            pass

    return Tracker


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    context = hits = name = None

    def get_request(self):
        sock, peer = super().get_request()
        self.hits.add(f"{self.name} connection")
        return sock, peer

    def finish_request(self, request, client_address):
        try:
            if self.context:
                request = self.context.wrap_socket(request, server_side=True)
            super().finish_request(request, client_address)
        except OSError:
            pass


def serve_all(wanted, make):
    """A server at each name's address, on one port: the wanted one, if it can be had."""
    for port in (wanted, *range(20000, 21000)):
        servers = []
        try:
            for name, ip in NAMES.items():
                servers.append(make(name, (ip, port)))
        except OSError:
            for server in servers:
                server.server_close()
            continue
        for server in servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        return port
    sys.exit("internet.py: no free port")


def main():
    folder = pathlib.Path(sys.argv[1])
    hits = Hits(folder / "hits.json")
    certificates(folder)
    index(folder)
    (folder / "token").write_text("demo-" + secrets.token_hex(16))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "origin.pem", folder / "origin.key")
    dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    dns.bind(("127.0.0.1", 0))
    threading.Thread(target=serve_dns, args=(dns, hits), daemon=True).start()

    def make(name, at, tls):
        server = Server(at, tracker(folder, hits) if name == COMPANY else handler(name, folder, hits))
        server.context, server.hits, server.name = tls, hits, name
        return server

    ports = {"https": serve_all(HTTPS, lambda name, at: make(name, at, context)),
             "http": serve_all(HTTP, lambda name, at: make(name, at, None))}
    (folder / "ready.json").write_text(json.dumps({"dns": dns.getsockname()[1], **ports}))
    threading.Event().wait()


main()
