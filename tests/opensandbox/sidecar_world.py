"""What lies outside of a sandbox with a sidecar: hosts at two public addresses, and their DNS.

usage: sidecar_world.py CERTIFICATE KEY

Answers with what it was asked as JSON; what came by UDP, to the second address's DNS, or over IPv6
goes into the list that GET http://seen.example.test/ tells.
"""
import http.server
import json
import pathlib
import socket
import socketserver
import ssl
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "flow"))
from fake_dns import FakeDns  # noqa: E402

FIRST, SECOND = "93.184.216.34", "93.184.216.35"
ZONE = {"ok.example.test": {"A": [FIRST]}, "no.example.test": {"A": [SECOND]}, "api.example.test": {"A": [FIRST]},
        "seen.example.test": {"A": [FIRST]}, "inner.example.test": {"A": ["172.17.0.1"]}}
SEEN = []


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        host = self.headers.get("Host", "")
        told = SEEN if host == "seen.example.test" else {
            "host": host, "path": self.path, "authorization": self.headers.get("Authorization"),
            "at": self.server.server_address[0]}
        body = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Greeter(socketserver.StreamRequestHandler):
    """Speaks first, as ssh and databases do."""

    def handle(self):
        self.wfile.write(b"hello at " + self.server.server_address[0].encode() + b"\n")


class Six(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6

    def verify_request(self, request, client_address):
        SEEN.append("ipv6")
        return True


def udp(address, port):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((address, port))

    def serve():
        while True:
            _, source = sock.recvfrom(2000)
            SEEN.append(f"udp {port}")
            sock.sendto(b"escaped", source)

    threading.Thread(target=serve, daemon=True).start()


def serve(server):
    threading.Thread(target=server.serve_forever, daemon=True).start()


def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*sys.argv[1:3])
    for address in (FIRST, SECOND):
        serve(http.server.ThreadingHTTPServer((address, 80), Handler))
        secure = http.server.ThreadingHTTPServer((address, 443), Handler)
        secure.socket = context.wrap_socket(secure.socket, server_side=True)
        serve(secure)
        serve(socketserver.ThreadingTCPServer((address, 2222), Greeter))
        for port in (443, 4444):
            udp(address, port)
    udp(SECOND, 53)
    for port in (4446, 15053):
        udp("127.0.0.1", port)
    serve(Six(("::", 8066), Handler))
    with FakeDns(ZONE, FIRST, 53):
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
