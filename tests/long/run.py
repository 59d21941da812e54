#!/usr/bin/env python3
"""What shows only with time: leaks under a mixed load, reloads under load, long fuzzing.

usage: run.py BIN_DIR [--minutes N] [--part fuzz|load|reload|power|execution ...]

The minutes (20) are shared: half for the fuzz targets, most of the rest for the load.
  load    tunnels, HTTP, SOCKS5, DNS, refusals, nonsense and hang-ups from several clients;
          the memory of the processes must not grow and no descriptor may stay behind
  reload  100 reloads while the same load runs: not one allowed request fails
  execution  1 GiB up and down through an execution listener, a terminal idle for ten minutes
  power   ten thousand power cuts while the vault is changed: it is the old or the new one
Prints the figures; fails on any of them.
"""
import argparse
import collections
import http.client
import http.server
import os
import pathlib
import random
import socket
import socketserver
import struct
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOST, RAW, OTHER = "ok.example.test", "raw.example.test", "denied.example.test"
CLIENTS, RELOADS = 6, 100
BODY = b"x" * 3000
# Growth between the second and the last third that isn't noise of the allocator.
GROWTH_SHARE, GROWTH_KB = 0.02, 2048
# In less time caches still fill.
WARM_SECONDS = 60


class Origin(socketserver.ThreadingTCPServer):
    """Answers HTTP, or echoes what comes."""
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 256

    class Answers(http.server.BaseHTTPRequestHandler):
        protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY)

        do_POST = do_GET

        def log_message(self, *_):
            pass

    class Echoes(socketserver.BaseRequestHandler):
        def handle(self):
            try:
                while data := self.request.recv(65536):
                    self.request.sendall(data)
            except OSError:
                pass

    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)
        self.open = set()
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def get_request(self):
        sock, peer = super().get_request()
        self.open.add(sock)
        return sock, peer

    def shutdown_request(self, sock):
        self.open.discard(sock)
        super().shutdown_request(sock)

    def hang_up(self):
        """What the gateway keeps for the next request isn't left behind."""
        for sock in list(self.open):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def handle_error(self, *_):
        pass


def read_exactly(sock, n):
    data = b""
    while len(data) < n:
        part = sock.recv(n - len(data))
        if not part:
            raise OSError(f"closed after {len(data)} of {n} bytes")
        data += part
    return data


def read_head(sock):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += read_exactly(sock, 1)
    return head


class Client(threading.Thread):
    """One of several that do what sandboxes do, at random, until told to stop."""

    def __init__(self, gate, web, echo, number):
        super().__init__(daemon=True)
        self.gate, self.web, self.raw, self.rng = gate, web, echo, random.Random(number)
        self.done, self.failed, self.is_over = collections.Counter(), [], False

    def run(self):
        kinds = [self.http, self.http, self.http, self.tunnel, self.tunnel, self.socks, self.dns,
                 self.denied, self.nonsense, self.hang_up]
        while not self.is_over:
            kind = self.rng.choice(kinds)
            try:
                kind()
                self.done[kind.__name__] += 1
            except (OSError, AssertionError, http.client.HTTPException) as why:
                self.failed.append(f"{kind.__name__}: {why!r}")

    def connect(self):
        sock = socket.create_connection(self.gate.proxy, timeout=20)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def http(self):
        link = http.client.HTTPConnection(*self.gate.proxy, timeout=20)
        for _ in range(self.rng.randint(1, 20)):
            body = b"y" * self.rng.choice([0, 10, 20000]) if self.rng.random() < 0.3 else None
            link.request("POST" if body else "GET", f"http://{HOST}:{self.web.port}/a?b", body)
            answer = link.getresponse()
            assert answer.status == 200 and answer.read() == BODY, answer.status
            self.done["requests"] += 1
        link.close()

    def echo(self, sock):
        for _ in range(self.rng.randint(1, 5)):
            data = self.rng.randbytes(self.rng.choice([1, 100, 30000]))
            sock.sendall(data)
            assert read_exactly(sock, len(data)) == data, "not what was sent"

    def tunnel(self):
        with self.connect() as sock:
            sock.sendall(f"CONNECT {RAW}:{self.raw.port} HTTP/1.1\r\nHost: {RAW}:{self.raw.port}\r\n\r\n".encode())
            head = read_head(sock)
            assert head.startswith(b"HTTP/1.1 200"), head[:60]
            self.echo(sock)

    def socks(self):
        with self.connect() as sock:
            sock.sendall(b"\5\1\0")
            assert read_exactly(sock, 2) == b"\5\0", "no method"
            sock.sendall(b"\5\1\0\3" + bytes([len(RAW)]) + RAW.encode() + struct.pack("!H", self.raw.port))
            answer = read_exactly(sock, 10)
            assert answer[1] == 0, answer
            self.echo(sock)

    def dns(self):
        query = struct.pack("!6H", self.rng.randrange(65536), 0x100, 1, 0, 0, 0)
        query += b"".join(bytes([len(p)]) + p.encode() for p in HOST.split(".")) + b"\0\0\1\0\1"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(20)
            sock.sendto(query, self.gate.dns)
            answer = sock.recv(2048)
        assert answer[:2] == query[:2] and answer[3] & 15 == 0, answer[:12]

    def denied(self):
        with self.connect() as sock:
            sock.sendall(f"CONNECT {OTHER}:443 HTTP/1.1\r\nHost: {OTHER}:443\r\n\r\n".encode())
            head = read_head(sock)
            assert head.startswith(b"HTTP/1.1 403"), head[:60]

    def nonsense(self):
        with self.connect() as sock:
            try:
                sock.sendall(self.rng.randbytes(self.rng.randint(1, 2000)) + b"\r\n\r\n")
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(4096):
                    pass
            except OSError:
                pass

    def hang_up(self):
        with self.connect() as sock:
            sock.sendall(f"GET http://{HOST}:{self.web.port}/ HTTP/1.1\r\nHost: {HOST}".encode())
            if self.rng.random() < 0.5:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def config(web, echo, marker):
    many = 1_000_000
    return {
        "timeouts": {"drain": "1s", "keepalive": "1s", "request_head": "5s", "hello": "2s"},
        "limits": {"connections": 10000, "connections_per_second": many, "connections_burst": many,
                   "requests_per_second": many, "requests_burst": many, "dns_per_second": many},
        "ledger": {"denials_per_second": 100000},
        "resolver": {"servers": ["127.0.0.1"], "hosts": {HOST: ["127.0.0.1"], RAW: ["127.0.0.1"], f"{marker}.example.test": ["127.0.0.1"]}},
        "policies": {"coding": {"allow": [
            {"hosts": [HOST], "ports": [web.port], "addresses": ["127.0.0.0/8"]},
            {"hosts": [RAW], "ports": [echo.port], "protocol": "tcp", "addresses": ["127.0.0.0/8"]},
            {"hosts": [f"{marker}.example.test"], "ports": [80], "addresses": ["127.0.0.0/8"]}]}},
    }


def is_alive(pid):
    return pathlib.Path(f"/proc/{pid}").exists()


def memory_kb(pid):
    """What is its own: shared mappings count for nobody."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return 0  # the end of the load tells
    for line in status.splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    return 0


def descriptors(pid):
    return len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))


def opened(pid):
    """What they are, the newest last."""
    links = sorted(pathlib.Path(f"/proc/{pid}/fd").iterdir(), key=lambda p: int(p.name))
    return " ".join(os.readlink(p) for p in links)


def mean(values):
    return sum(values) / max(1, len(values))


class Soak:
    """A gateway, two origins and clients that are at work between begin() and end()."""

    def __init__(self, gate_class):
        self.web, self.echo = Origin(Origin.Answers), Origin(Origin.Echoes)
        self.gate = gate_class(config(self.web, self.echo, "first")).start()
        self.clients, self.faults, self.figures = [], [], []

    def begin(self):
        self.clients = [Client(self.gate, self.web, self.echo, n) for n in range(CLIENTS)]
        for client in self.clients:
            client.start()

    def end(self, what):
        for client in self.clients:
            client.is_over = True
        for client in self.clients:
            client.join(60)
        done = sum((c.done for c in self.clients), collections.Counter())
        failed = [f for c in self.clients for f in c.failed]
        self.figures.append(f"{what}: " + ", ".join(f"{n:,} {k}" for k, n in sorted(done.items())) + f"; {len(failed)} failed")
        self.faults += [f"{what}: {f}" for f in failed[:10]]
        if not done:
            self.faults.append(f"{what}: nothing was done")

    def load(self, seconds):
        pids = self.gate.pids()
        before = {name: descriptors(pid) for name, pid in pids.items()}
        samples = {name: [] for name in pids}
        self.begin()
        until = time.monotonic() + seconds
        while time.monotonic() < until and all(map(is_alive, pids.values())):
            time.sleep(min(1.0, seconds / 30))
            for name, pid in pids.items():
                samples[name].append(memory_kb(pid))
        self.end("load")
        if self.gate.pids() != pids:
            self.faults.append("load: a process died\n" + self.gate.text_of_log()[-3000:])
            return
        self.check_memory(samples, seconds)
        self.check_descriptors(pids, before)

    def check_memory(self, samples, seconds):
        for name, kb in sorted(samples.items()):
            third = len(kb) // 3
            middle, last = mean(kb[third:2 * third]), mean(kb[2 * third:])
            slope = (last - middle) / (seconds / 3) * 60
            self.figures.append(f"  {name:12} {last:8.0f} KiB of its own, {slope:+7.1f} KiB a minute")
            if seconds >= WARM_SECONDS and last - middle > max(GROWTH_KB, GROWTH_SHARE * middle):
                self.faults.append(f"load: {name} grew from {middle:.0f} to {last:.0f} KiB")

    def check_descriptors(self, pids, before):
        self.web.hang_up()
        until, left = time.monotonic() + 20, True
        while left and time.monotonic() < until:
            time.sleep(0.5)
            left = {n: descriptors(p) - before[n] for n, p in pids.items() if descriptors(p) > before[n]}
        self.figures.append(f"  descriptors left behind: {sum(left.values()) if left else 0}")
        for name, n in (left or {}).items():
            self.faults.append(f"load: {name} keeps {n} descriptors: {opened(pids[name])}")

    def reload(self, seconds):
        self.begin()
        took = []
        for i in range(RELOADS):
            begun = time.monotonic()
            code, answer = self.gate.reload(config(self.web, self.echo, f"m{i}"))
            took.append(time.monotonic() - begun)
            if code != 200:
                self.faults.append(f"reload {i}: {code} {answer}")
            # Reloads are limited to 5 a second.
            time.sleep(max(0.25, seconds / RELOADS - took[-1]))
        self.end("reload")
        self.figures.append(f"  {RELOADS} reloads, the slowest {max(took) * 1000:.0f} ms")

    def verify(self):
        verified = self.gate.cli("audit", "verify")
        if verified.returncode:
            self.faults.append(f"the ledger doesn't verify: {verified.stdout[-300:]} {verified.stderr[-300:]}")
        code = self.gate.stop()
        if code:
            self.faults.append(f"the gateway ended with {code}")

    def close(self):
        self.gate.close()
        self.web.shutdown()
        self.echo.shutdown()


def fuzz(bin_dir, seconds):
    build = bin_dir.parent.parent / "fuzz"
    subprocess.run(["cmake", "--preset", "fuzz", "-B", build], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    targets = [p.stem for p in (ROOT / "tests/fuzz").glob("fuzz_*.c")]
    subprocess.run(["cmake", "--build", build, "--target", *targets], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    each = max(1, int(seconds * 2 / len(targets)))
    done = subprocess.run([sys.executable, ROOT / "tests/fuzz/run.py", build, "--seconds", str(each), "--no-coverage"])
    return ["fuzzing found something"] if done.returncode else []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--part", action="append", choices=["fuzz", "load", "reload", "power", "execution"])
    options = parser.parse_args()
    parts, seconds = options.part or ["load", "reload", "power", "execution", "fuzz"], options.minutes * 60
    faults = []
    if {"load", "reload"} & set(parts):
        sys.path.insert(0, str(ROOT / "tests/flow"))
        os.environ["SANDGATE_BIN"] = str(options.bin.resolve())
        from conftest import Gate
        soak = Soak(Gate)
        try:
            if "load" in parts:
                soak.load(seconds * 0.35)
            if "reload" in parts:
                soak.reload(seconds * 0.15)
            soak.verify()
        finally:
            soak.close()
        print("\n".join(soak.figures), flush=True)
        faults += soak.faults
    if "power" in parts:
        for name in ("test_vault_power", "test_brain_store_power"):
            done = subprocess.run([options.bin.resolve() / name], env={**os.environ, "SG_POWER": "30"}, timeout=3600)
            faults += [f"power: {name}"] if done.returncode else []
    if "execution" in parts:
        files = [ROOT / "tests/opensandbox" / f"test_front_{name}.py" for name in ("files", "streams")]
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files], timeout=3600,
                              env={**os.environ, "SANDGATE_BIN": str(options.bin.resolve()), "SANDGATE_IDLE_PTY": "600",
                                   "SANDGATE_LARGE": str(1 << 30)})
        faults += ["execution"] if done.returncode else []
    if "fuzz" in parts:
        faults += fuzz(options.bin.resolve(), seconds * 0.5)
    for fault in faults:
        print(f"FAILED {fault}")
    print(f"long: {len(faults)} faults in {options.minutes:g} minutes")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
