"""h2spec, the conformance tests of RFC 9113 and RFC 7541: built once, run against a port."""
import pathlib
import re
import select
import shutil
import socket
import subprocess
import threading
import time

from tally import absent, find

PAUSE = 0.03
CROWD = 50
MODULE = pathlib.Path(__file__).resolve().parents[1] / "tools/h2spec"
CASES = 146


def build(folder):
    """The program; a machine without Go, or without a way to Go's modules, is told."""
    found = shutil.which("h2spec")
    if found:
        return found
    go = find("go")
    done = go and subprocess.run([go, "build", "-mod=readonly", "-o", folder / "h2spec",
                                  "github.com/summerwind/h2spec/cmd/h2spec"],
                                 cwd=MODULE, capture_output=True, text=True, timeout=300)
    if done and done.returncode == 0:
        return folder / "h2spec"
    why = done.stderr.strip().splitlines()[-1] if done else "there is no Go compiler"
    absent("h2spec", f"HTTP/2 conformance is not tested ({why})")


def run(program, port, *more, wrap=()):
    """(cases passed, what it said of the others)."""
    done = subprocess.run([*wrap, program, "-S", "-o", "2", "-p", str(port), *more],
                          capture_output=True, text=True, timeout=300)
    text = re.sub(r"[^\n]*\r", "", done.stdout)
    said = re.search(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed", text)
    assert said, text + done.stderr
    assert int(said.group(1)) == CASES
    return int(said.group(2)), text[text.find("Failures:"):]


def as_they_come(data):
    return [data]


def one_by_one(data):
    """Frame by frame, each when the one before has had its effect; a crowd of them is meant to come as one."""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    parts = [preface] if data.startswith(preface) else []
    data = data[len(preface):] if parts else data
    while len(data) >= 9 and len(data) >= (n := 9 + int.from_bytes(data[:3], "big")):
        parts.append(data[:n])
        data = data[n:]
    parts += [data] if data else []
    return parts if len(parts) < CROWD else [b"".join(parts)]


def together(data):
    """All that the client says without waiting for an answer: see Relay.take()."""
    return [data]


def waits(sock):
    """Has TLS read ahead?"""
    return getattr(sock, "pending", int)() > 0


class Relay:
    """Bytes in, what connect() gives out: h2spec knows no proxies.  The way in which the client's bytes go on is one
    of the three above: whether an answer or the next frame is first must make no difference."""

    def __init__(self, address, port, connect, way=as_they_come, context=None):
        self.connect = connect
        self.way = way
        self.context = context  # of TLS that ends here
        self.server = socket.create_server((address, port))
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self.join, args=(client,), daemon=True).start()

    def join(self, client):
        try:
            if self.context:
                client = self.context.wrap_socket(client, server_side=True)
            host = self.connect()
        except OSError:
            client.close()
            return
        # One thread for both ways: an SSL socket must not be read and written at once.
        while self.pump(client, host):
            pass
        client.close()
        host.close()

    def take(self, client):
        data = client.recv(65536)
        while data and self.way is together and (waits(client) or select.select([client], [], [], PAUSE)[0]):
            more = client.recv(65536)
            if not more:
                break
            data += more
        return data

    def pump(self, client, host):
        ready = [s for s in (client, host) if waits(s)] or select.select([client, host], [], [], 10)[0]
        try:
            for source in ready:
                data = source.recv(65536) if source is host else self.take(client)
                for i, part in enumerate(self.way(data) if data and source is client else [data]):
                    time.sleep(PAUSE if i else 0)
                    (client if source is host else host).sendall(part)
                if source is client and self.way is one_by_one:
                    time.sleep(PAUSE)
                if not data:
                    return False
        except OSError:
            self.last_words(client, host)
            return False
        return bool(ready)

    @staticmethod
    def last_words(client, host):
        """A host that takes nothing more may have said why."""
        try:
            while data := host.recv(65536):
                client.sendall(data)
        except OSError:
            pass

    def close(self):
        self.server.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.server.close()
