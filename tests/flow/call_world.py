"""The connector process of an execution server, as control asks it, and the server."""
import os
import struct

from connector_line import Connector, System, reply
from role_line import ROLES, STATUS, Line, Wire, pair, str16

KEY = b"canary-4c91d2e7b0-server-key"
SERVER = """
servers:
  - {{name: standard, url: "{scheme}://{at}", {more} key: opensandbox/standard, endpoints: ["127.0.0.0/8"]}}
  - {{name: other, url: "http://127.0.0.1:9", key: opensandbox/other, endpoints: ["127.0.0.0/8"]}}
"""
TRACKER = """
  - {name: tracker, hosts: [tracker.example.test], auth: {kind: bearer, secret: tracker/token}, allow: [{paths: ["/**"]}]}
"""


def execution_server():
    """One on loopback, without TLS."""
    return System(None, lambda r: reply(200, b'{"ok":true}', [("Content-Type", "application/json")]))


class Server(Connector):
    """The process of group server/standard."""

    group = "server/standard"

    def __init__(self, tmp_path, plain, url=None, more="", tracker=TRACKER, extra=""):
        self.plain = plain
        scheme, at = (url or f"http://127.0.0.1:{plain.port}").split("://")
        super().__init__(tmp_path, tracker, lambda r: reply(200, b"{}"), {"opensandbox/standard": KEY, "tracker/token": KEY},
                         {"127.0.0.1": plain.port, "osb.example.test": plain.port},
                         extra=SERVER.format(scheme=scheme, at=at, more=more) + extra)

    def new_line(self, role):
        ours, theirs = pair()
        self.neighbours += 1
        self.give("LINE", ROLES[role], self.group if role == "KEEPER" else str(self.neighbours), [theirs.fileno()])
        theirs.close()
        return Line(ours)

    def begin(self, target="/v1/sandboxes", method="GET", body=b"", kind="", name="standard", deadline=5000, most=65536):
        text = b"".join(map(str16, (name, method, target, kind))) + struct.pack("!II", deadline, most) + str16(body)
        return self.lines["CONTROL"].send("CALL", text)

    def end(self, seq, timeout=10):
        """(status, HTTP status, type, body)"""
        body, fds = self.lines["CONTROL"].answer(seq, timeout)
        w = Wire(body)
        status, http, kind, n = STATUS[w.get("H")], w.get("H"), w.str16().decode(), w.get("I")
        w.end()
        data = b""
        for fd in fds:
            data += os.pread(fd, n + 1, 0)
            os.close(fd)
        assert len(data) == n
        return status, http, kind, data

    def ask(self, *args, **more):
        return self.end(self.begin(*args, **more))


class Hook(Server):
    """The process of group default, whose connector `tracker` is called by control as a webhook."""
    group = "default"

    def __init__(self, tmp_path, plain, auth):
        tracker = TRACKER.replace("{kind: bearer, secret: tracker/token}", auth)
        super().__init__(tmp_path, plain, tracker=tracker, extra="exec: {approval_webhook: tracker}\n")
