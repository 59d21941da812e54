"""h2spec, the conformance tests of RFC 9113 and RFC 7541: built once, run against a port."""
import json
import os
import pathlib
import re
import select
import shutil
import socket
import subprocess
import threading

import pytest

MODULE = pathlib.Path(__file__).resolve().parents[1] / "tools/h2spec"
CASES = 146


def tell(**told):
    """Add to what this part of the tests reports."""
    if os.environ.get("SANDGATE_REPORT"):
        report = pathlib.Path(os.environ["SANDGATE_REPORT"])
        before = json.loads(report.read_text()) if report.exists() else {}
        report.write_text(json.dumps({**before, **told}))


def build(folder):
    """The program; a machine without Go, or without a way to Go's modules, is told."""
    found = shutil.which("h2spec")
    if found:
        return found
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    done = go and subprocess.run([go, "build", "-mod=readonly", "-o", folder / "h2spec",
                                  "github.com/summerwind/h2spec/cmd/h2spec"],
                                 cwd=MODULE, capture_output=True, text=True, timeout=300)
    if done and done.returncode == 0:
        return folder / "h2spec"
    why = done.stderr.strip().splitlines()[-1] if done else "there is no Go compiler"
    tell(**{"absent: h2spec": f"HTTP/2 conformance is not tested ({why})"})
    assert os.environ.get("CI") != "true", f"absent: h2spec: {why}"
    pytest.skip(f"ABSENT h2spec: {why}")


def run(program, port, *more, wrap=()):
    """(cases passed, what it said of the others)."""
    done = subprocess.run([*wrap, program, "-S", "-o", "2", "-p", str(port), *more],
                          capture_output=True, text=True, timeout=300)
    text = re.sub(r"[^\n]*\r", "", done.stdout)
    said = re.search(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed", text)
    assert said, text + done.stderr
    assert int(said.group(1)) == CASES
    return int(said.group(2)), text[text.find("Failures:"):]


class Relay:
    """Bytes in, what connect() gives out: h2spec knows no proxies."""

    def __init__(self, address, port, connect):
        self.connect = connect
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
            host = self.connect()
        except OSError:
            client.close()
            return
        # One thread for both ways: an SSL socket must not be read and written at once.
        while self.pump(client, host):
            pass
        client.close()
        host.close()

    @staticmethod
    def pump(client, host):
        ready = [host] if getattr(host, "pending", int)() else select.select([client, host], [], [], 10)[0]
        try:
            for source in ready:
                data = source.recv(65536)
                (client if source is host else host).sendall(data)
                if not data:
                    return False
        except OSError:
            return False
        return bool(ready)

    def close(self):
        self.server.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.server.close()
