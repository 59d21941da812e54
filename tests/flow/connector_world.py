"""Connectors and the services beside them that the process is tested with."""
import json
import socket
import threading
import time
import urllib.parse

from connector_line import System, reply

TRACKER = """
  - name: tracker
    hosts: [tracker.example.test]
    auth: {kind: bearer, secret: tracker/token}
    allow: [{methods: [GET, POST], paths: ["/api/**"]}]
"""
OAUTH = """
  - name: tracker
    hosts: [tracker.example.test]
    auth: {kind: oauth2_client_credentials, secret: tracker/token, client_id: me, token_url: "https://idp.example.test/t"}
    allow: [{methods: [GET, POST], paths: ["/api/**"]}]
"""
REFRESH = OAUTH.replace("oauth2_client_credentials", "oauth2_refresh")


class Idp:
    """A token service: access tokens with numbers, refresh tokens that change each time."""

    def __init__(self, rotates=False):
        self.n, self.rotates, self.status, self.delay, self.seen = 0, rotates, 200, 0, []

    def __call__(self, r):
        time.sleep(self.delay)
        self.seen.append(dict(urllib.parse.parse_qsl(r.body.decode())))
        if self.status != 200:
            return reply(self.status, b'{"error":"invalid_grant","echo":"%s"}' % r.body)
        self.n += 1
        t = {"access_token": "access-%d-token" % self.n, "token_type": "Bearer", "expires_in": 3600}
        if self.rotates:
            t["refresh_token"] = "refresh-%d" % self.n
        return reply(200, json.dumps(t).encode())


def with_idp(start, config, idp, **more):
    c = start(config, **more)
    c.idp = System(c.context("idp.example.test"), idp)
    c.fetcher.hosts["idp.example.test"] = c.idp.port
    return c


class ParentProxy(threading.Thread):
    """Takes one CONNECT, keeps what was said and leads to a port of loopback."""

    def __init__(self, to):
        super().__init__(daemon=True)
        self.to, self.said, self.socket = to, [], socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.start()

    def run(self):
        s, _ = self.socket.accept()
        f = s.makefile("rb")
        while not self.said or self.said[-1] != b"\r\n":
            self.said.append(f.readline())
        there = socket.create_connection(("127.0.0.1", self.to))
        s.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        threading.Thread(target=self.pump, args=(there, s), daemon=True).start()
        self.pump(s, there)

    @staticmethod
    def pump(a, b):
        while data := a.recv(65536):
            b.sendall(data)
