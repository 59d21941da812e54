"""What is around a pod, in a network namespace of its own: the cluster's DNS, one host that
a policy allows, and sinks that note whoever comes.  Runs below `unshare -n`.

Each line of standard input is answered by one: "go" (eth1 is here now) and "seen".
"""
import json
import pathlib
import socket
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "flow"))
import fake_dns  # noqa: E402

POD, POD6, DNS = "10.244.1.7", "fd00:10:244::7", "10.96.0.10"
GOOD, SINK, SINK6 = "93.184.216.34", "8.8.8.8", "2620:fe::fe"


class World:
    def __init__(self):
        self.got, self.fetched = [], []

    def go(self):
        for words in (f"addr add {DNS}/32 dev eth1", f"addr add {GOOD}/32 dev eth1", f"addr add {SINK}/32 dev eth1",
                      f"addr add {SINK6}/128 dev eth1 nodad", "addr add fd00:10:244::1/64 dev eth1 nodad",
                      "addr add 10.244.1.1/24 dev eth1", "link set lo up", "link set eth1 up"):
            subprocess.run(["ip", *words.split()], check=True, timeout=60)
        self.dns = fake_dns.FakeDns({"mirror.example.com": {"A": [GOOD]}, "evil.example.org": {"A": [SINK]}}, DNS, 53)
        self.dns.__enter__()
        threading.Thread(target=self.answer, args=(socket.create_server((GOOD, 80)),), daemon=True).start()
        for address in (SINK, SINK6):
            for port in (53, 80, 443, 4444):
                self.sink(address, port)
        return "ready"

    def seen(self):
        ports = {"udp": [q.source[1] for q in self.dns.queries if q.transport == "udp"], "tcp": self.fetched}
        return {"sink": self.got, "asked": [q.name for q in self.dns.queries], "ports": ports}

    def sink(self, address, port):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            s = socket.socket(family, kind)
            s.bind((address, port))
            if kind == socket.SOCK_STREAM:
                s.listen(8)
            threading.Thread(target=self.note, args=(s, f"{address} {port} {kind.name}"), daemon=True).start()

    def note(self, s, name):
        while True:
            if s.type == socket.SOCK_DGRAM:
                s.recv(100)
            else:
                s.accept()[0].close()
            self.got.append(name)

    def answer(self, listener):
        while True:
            c, peer = listener.accept()
            self.fetched.append(peer[1])
            with c:
                c.recv(4096)
                c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)  # closed by us, so the gateway's port is free again
                c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfine")
                c.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    world = World()
    for line in sys.stdin:
        print(json.dumps(getattr(world, line.strip())()), flush=True)
