"""The world around a docker network, told from inside of its namespace: hosts that a sandbox may
reach, and everything that it may not, which says who came.

usage: witness.py TARGET_CERTIFICATE TARGET_KEY (in a namespace of its own; a line of JSON for each
event to standard output; "up" first)

    host      sockets of the machine that the gateway runs on: bridge, metadata, wan0
    outside   another machine: a namespace at the other end of wan0, where each packet is seen
    web       plain HTTP on 127.0.0.1:80, says "fine"
    target    HTTPS on 127.0.0.1:443: what it was asked, and by which Authorization
"""
import ctypes
import http.server
import json
import os
import select
import socket
import ssl
import subprocess
import sys
import threading

OUTSIDE, OUTSIDE6, HERE4, HERE6, METADATA = "203.0.113.66", "2001:db8::66", "203.0.113.1", "2001:db8::1", "169.254.169.254"
TCP, UDP = (22, 53, 443, 853, 4444, 7001), (53, 443, 853, 4444, 5353)
LOCK = threading.Lock()


def say(where, **what):
    with LOCK:
        print(json.dumps({"where": where, **what}), flush=True)


def run(*words):
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


def listen(address, port, kind):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    s = socket.socket(family, kind)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    s.bind((address, port))
    if kind == socket.SOCK_STREAM:
        s.listen(8)
    return s


def sinks(where, ports):
    """Everybody who comes is told, and answered: silence could be anything."""
    open_ = {}
    for kind, several in ports.items():
        for port in several:
            for address in ("0.0.0.0", "::"):
                open_[listen(address, port, kind)] = port
    while True:
        for s in select.select(list(open_), [], [])[0]:
            if s.type == socket.SOCK_DGRAM:
                data, peer = s.recvfrom(100)
                say(where, udp=open_[s], peer=peer[0], data=data.decode(errors="replace"))
                s.sendto(b"escaped", peer)
            else:
                c, peer = s.accept()
                say(where, tcp=open_[s], peer=peer[0])
                c.close()


class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(b"fine\n")

    def log_message(self, *_):
        pass


class Target(Web):
    def do_GET(self):
        say("target", host=self.headers["Host"], path=self.path, authorization=self.headers["Authorization"])
        self.answer(json.dumps({"seen": self.headers["Authorization"], "path": self.path}).encode())


def serve(port, handler, context=None):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def outside():
    """A child in a namespace of its own: sinks, and a socket that sees what no sink is for."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid:
        run("ip", "link", "add", "wan0", "type", "veth", "peer", "name", "wan1")
        ours.recv(1)
        run("ip", "link", "set", "wan1", "netns", str(pid))
        run("ip", "addr", "add", HERE4 + "/24", "dev", "wan0")
        run("ip", "addr", "add", HERE6 + "/64", "dev", "wan0", "nodad")
        run("ip", "link", "set", "wan0", "up")
        ours.send(b"x")
        ours.recv(1)
        run("ip", "route", "add", "default", "via", OUTSIDE)
        run("ip", "-6", "route", "add", "default", "via", OUTSIDE6)
        return ours, pid
    ctypes.CDLL(None).prctl(1, 9)  # with its parent
    if ctypes.CDLL(None, use_errno=True).unshare(0x40000000):
        os._exit(1)
    theirs.send(b"x")
    theirs.recv(1)
    run("ip", "addr", "add", OUTSIDE + "/24", "dev", "wan1")
    run("ip", "addr", "add", OUTSIDE6 + "/64", "dev", "wan1", "nodad")
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "set", "wan1", "up")
    threading.Thread(target=sinks, args=("outside", {socket.SOCK_STREAM: TCP, socket.SOCK_DGRAM: UDP}), daemon=True).start()
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    wire.bind(("wan1", 0))
    theirs.send(b"x")
    while True:
        frame, (_, _, direction, _, _) = wire.recvfrom(2000)
        kind = frame[12:14].hex()
        # Neighbours that are looked for, and groups that are joined, are the machine's own.
        if direction != 4 and kind != "0806" and not (kind == "86dd" and frame[38:40] in (b"\xff\x02", b"\xfe\x80")) \
                and not (kind == "86dd" and frame[20] == 58 and frame[54] in (135, 136)):
            say("wire", frame=frame[:80].hex())


def main():
    ours, pid = outside()
    run("ip", "addr", "add", METADATA + "/32", "dev", "wan0")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*sys.argv[1:3])
    serve(80, Web)
    serve(443, Target, context)
    host = {socket.SOCK_STREAM: (22, 7001, 4444), socket.SOCK_DGRAM: (53, 4444, 5353)}
    threading.Thread(target=sinks, args=("host", host), daemon=True).start()
    print(json.dumps({"up": pid}), flush=True)
    ours.recv(1)  # until somebody ends us


if __name__ == "__main__":
    main()
