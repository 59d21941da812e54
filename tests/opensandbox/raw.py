"""What the tests of the front share that speak for themselves, below an SDK.

    with Raw(front.authority) as link:           # one connection, HTTP/1.1 by hand
        link.send("POST", path, body, {"X-A": "b"})
        status, fields = link.head(); for line in link.lines(): ...
"""
import hashlib
import http.client
import json
import socket

PROXY = "/v1/sandboxes/{}/proxy/44772"


class Raw:
    """One request on a connection of its own, its answer read as it comes."""

    def __init__(self, front, key=None, timeout=60):
        host, _, port = front.authority.rpartition(":")
        self.front, self.key = front, front.key if key is None else key
        self.sock = socket.create_connection((host, int(port)), timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answer = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, method, path, body=b"", fields=()):
        """`body` None: the caller sends it by itself, and says how long it is."""
        names = {"Host": self.front.authority, **({"OPEN-SANDBOX-API-KEY": self.key} if self.key else {})}
        if body:
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
            names |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        lines = [f"{method} {path} HTTP/1.1", *(f"{n}: {v}" for n, v in [*names.items(), *dict(fields).items()])]
        self.sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + (body or b""))
        self.method = method
        return self

    def head(self):
        self.answer = http.client.HTTPResponse(self.sock, method=self.method)
        self.answer.begin()
        return self.answer.status, dict(self.answer.getheaders())

    def whole(self):
        """(status, body, fields)."""
        status, fields = self.head()
        return status, self.answer.read(), fields

    def event(self):
        """The next event of a stream: an object and its blank line."""
        line = self.answer.readline()
        assert line and self.answer.readline() == b"\n", line
        return json.loads(line)

    def close(self):
        if self.answer is not None:
            self.answer.close()
        self.sock.close()


def made(front, **more):
    status, box, _ = front.create(**more)
    assert status == 202, box
    return box["id"]


def only(fake):
    """The one sandbox that a fake server has."""
    box, = fake.sandboxes.values()
    return box


def resident(pid, field="Pss_Anon"):
    """Bytes of a process's own memory."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field + ":"))


def workers(front):
    return [pid for name, pid in front.gate.pids().items() if name.startswith("worker")]


def digest(pieces):
    """(bytes, sha256) of what comes in pieces."""
    count, state = 0, hashlib.sha256()
    for piece in pieces:
        count += len(piece)
        state.update(piece)
    return count, state.hexdigest()
