"""Runs in a box: a TLS server of the box's own, whose certificate comes from the CA that the
box was told to trust, and programs that call it by nothing but their environment.

    python3 trust_inside.py CERTIFICATE KEY CLIENT...     -> {"curl": [exit code, output], ...}
"""
import http.server
import io
import json
import os
import pathlib
import ssl
import subprocess
import sys
import tempfile
import threading
import zipfile

JAVA = """
import java.net.*;
public class Call {
    public static void main(String[] a) throws Exception {
        var in = new URL(a[0]).openStream();
        System.out.println(new String(in.readAllBytes()));
    }
}
"""
NODE = """
require('https').get(process.argv[1], r => r.pipe(process.stdout))
"""
PYTHON = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"
REQUESTS = "import sys, requests; print(requests.get(sys.argv[1]).text)"


def wheel():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        z.writestr("seen-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: seen\nVersion: 1.0\n")
        z.writestr("seen-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("seen-1.0.dist-info/RECORD", "")
    return file.getvalue()


PAGES = {
    "/": b"seen",
    "/simple/seen/": b'<a href="/seen-1.0-py3-none-any.whl">seen-1.0-py3-none-any.whl</a>',
    "/seen-1.0-py3-none-any.whl": wheel(),
    "/seen": json.dumps({"name": "seen", "dist-tags": {"latest": "1.0.0"}, "versions": {
        "1.0.0": {"name": "seen", "version": "1.0.0", "dist": {"tarball": "https://x/", "shasum": "0" * 40}}}}).encode(),
    "/seen.example.test/x/@v/list": b"v1.0.0\n",
    "/seen.example.test/x/@v/v1.0.0.info": b'{"Version": "v1.0.0", "Time": "2026-01-02T03:04:05Z"}',
    "/seen.example.test/x/@v/v1.0.0.mod": b"module seen.example.test/x\n",
    "/seen.git/info/refs": b"1111111111111111111111111111111111111111\trefs/heads/main\n",
    "/seen.git/HEAD": b"ref: refs/heads/main\n",
}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        page = PAGES.get(self.path.split("?")[0])
        self.send_response(200 if page is not None else 404)
        self.send_header("Content-Length", str(len(page or b"")))
        if self.path.startswith("/simple"):
            self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(page or b"")

    def log_message(self, *args):
        pass


def serve(certificate, key):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"https://localhost:{server.server_address[1]}"


def commands(url, folder):
    (folder / "Call.java").write_text(JAVA)
    bare = ["env", "-i", "PATH=" + os.environ["PATH"]]  # what has no variable of ours
    return {
        "curl": ["curl", "-sS", url],
        "curl bare": [*bare, "curl", "-sS", url],
        "python": [sys.executable, "-c", PYTHON, url],
        "python bare": [*bare, sys.executable, "-c", PYTHON, url],
        "requests": [sys.executable, "-c", REQUESTS, url],
        "pip": [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-cache-dir", "--isolated",
                "--disable-pip-version-check", "-d", str(folder), "-i", url + "/simple/", "seen"],
        "node": ["node", "-e", NODE, url],
        "npm": ["npm", "view", "seen", "version", "--registry", url],
        "go": ["env", "GOPROXY=" + url, "GONOSUMDB=*", "GOFLAGS=-mod=mod", f"GOPATH={folder}/go",
               f"GOCACHE={folder}/gocache", "go", "list", "-m", "-versions", "seen.example.test/x"],
        "git": ["git", "ls-remote", url + "/seen.git"],
        "java": ["java", str(folder / "Call.java"), url],
        "java bare": [*bare, "java", str(folder / "Call.java"), url],
    }


def main():
    url = serve(sys.argv[1], sys.argv[2])
    said = {}
    with tempfile.TemporaryDirectory() as name:
        todo = commands(url, pathlib.Path(name))
        for client in sys.argv[3:]:
            done = subprocess.run(todo[client], capture_output=True, text=True, timeout=120, cwd=name,
                                  stdin=subprocess.DEVNULL)
            said[client] = done.returncode, done.stdout + done.stderr
    print(json.dumps(said))


main()
