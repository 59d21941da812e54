"""A worker alone with a listener of kind opensandbox: we are its control and its dialer, and
the sandbox that it reaches.

    w = ExecWorker(tmp_path, risk="...")     # YAML of risk/default.yaml
    w.brain.place = lambda wish: route(w.box) | answer(200, b"{}") | refuse("NOT_FOUND")
    w.box.serve = lambda request, sock: sock.sendall(...)
"""
import json
import socket
import struct
import threading

from role_line import ASKS, STATUS, Asked, Role, compile_file, seal, str16
from worker_line import STATS, Ring, shared

CONFIG = """
listeners:
  - {{name: exec, kind: opensandbox, address: "127.0.0.1:{exec}"}}
timeouts: {{request_head: 1s, tunnel_idle: 60s, stalled: 60s}}
limits: {{all_connections: 64}}
servers:
  - {{name: standard, url: "http://127.0.0.1:9", key: opensandbox/standard, endpoints: ["127.0.0.0/8"],
     addresses: ["127.0.0.0/8"]}}
{more}
"""
RISK = """
- {command: [rm], why: "removes files", level: high}
"""
TEXTS = ["key", "bearer", "capability", "authority", "on_behalf_of", "session", "task", "idempotency", "sandbox", "id",
         "query", "expires", "peer", "body", "reuse", "request", "why", "text"]
WHO = {"tenant": "t1", "user": "alice", "agent": "coder", "session": "s1", "sandbox": "sb-one", "server": "standard"}


def read_wish(w):
    wish = {"ticket": w.get("Q"), "op": w.get("H"), "port": w.get("H"), "flags": w.get("B")}
    wish.update((name, w.str16().decode()) for name in TEXTS)
    wish["level"], wish["turn"] = w.get("B"), w.get("Q")
    w.end()
    return wish


def put_answer(kind, status="OK", http=0, port=0, keeps_login=False, body=b"", fields=(), inline=True, **texts):
    texts = {**WHO, **texts}
    out = struct.pack("!BHHHBI", kind, STATUS.index(status), http, port, keeps_login, len(body))
    for name in ("tenant", "user", "agent", "session", "task", "on_behalf_of", "sandbox", "server", "words", "type"):
        out += str16(texts.get(name, ""))
    out += str16(body if inline else b"") + str16(texts.get("host", "")) + str16(texts.get("prefix", ""))
    out += str16(texts.get("language", ""))
    out += bytes([len(fields)])
    return out + b"".join(str16(name) + str16(value) for name, value in fields), []


def refuse(status, **more):
    return put_answer(0, status, **more)


def answer(http, body=b"", **more):
    if len(body) <= 32768:
        return put_answer(1, http=http, body=body, **more)
    out, _ = put_answer(1, http=http, body=body, inline=False, **more)
    return out, [seal(body)]


def route(box, **more):
    return put_answer(2, **{"host": "127.0.0.1", "port": box.port, **more})


class Brain(Asked):
    """Control: `place` gives an answer for a wish, or None: never.  HOLDs wait for decide()."""

    def __init__(self, sock):
        self.wishes, self.holds, self.left, self.replies, self.contexts = [], [], [], [], []
        self.place = lambda wish: refuse("NOT_FOUND")
        super().__init__(sock)

    def on(self, ask, w, fds, reply):
        if ask == ASKS["PLACE"]:
            wish = read_wish(w)
            assert len(fds) == 1
            self.wishes.append(wish)
            out = self.place(wish)
            if out is not None:
                reply(*out)
        elif ask == ASKS["HOLD"]:
            hold = {"ticket": w.get("Q"), "level": w.get("B")}
            hold.update((name, w.str16().decode()) for name in ("what", "why", "text"))
            self.holds.append(hold)
            self.replies.append(reply)
        elif ask == ASKS["CONTEXT"]:
            self.contexts.append((w.get("Q"), w.str16().decode(), w.str16().decode()))
        elif ask == ASKS["LEFT"]:
            self.left.append(w.get("Q"))

    def decide(self, status="OK", by="bob"):
        self.replies.pop(0)(struct.pack("!HQ", STATUS.index(status), 77) + str16(by))


class Reacher(Asked):
    """The dialer: REACH leads to where it says."""

    def __init__(self, sock):
        self.asked, self.status = [], "OK"
        super().__init__(sock)

    def on(self, ask, w, fds, reply):
        assert ask == ASKS["REACH"], "an execution request may not DIAL"
        server, host, port = w.str16().decode(), w.str16().decode(), w.get("H")
        self.asked.append((server, host, port))
        back, status = [], self.status
        if status == "OK":
            back = [socket.create_connection((host, port)).detach()]
        reply(struct.pack("!HI", STATUS.index(status), 0xffffffff) + str16(f"{host}:{port}") + str16("") + bytes([1, 0]),
              back)


class Request:
    def __init__(self, head, rest, sock):
        self.line, *lines = head.decode("latin-1").split("\r\n")
        self.fields = [tuple(l.split(": ", 1)) for l in lines]
        self.names = {n.lower(): v for n, v in self.fields}
        self.body, self.sock = rest, sock

    def read_body(self):
        want = int(self.names.get("content-length", 0))
        while len(self.body) < want:
            self.body += self.sock.recv(65536)
        return self.body


class Box:
    """An endpoint: one request after the other on each connection."""

    def __init__(self):
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.port = self.sock.getsockname()[1]
        self.requests, self.connections = [], 0
        self.serve = lambda request, sock: sock.sendall(ok(b"hello"))
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            conn, _ = self.sock.accept()
            self.connections += 1
            threading.Thread(target=self.talk, args=(conn,), daemon=True).start()

    def talk(self, conn):
        data = b""
        try:
            while True:
                while b"\r\n\r\n" not in data:
                    more = conn.recv(65536)
                    if not more:
                        return
                    data += more
                head, data = data.split(b"\r\n\r\n", 1)
                request = Request(head, data, conn)
                self.requests.append(request)
                if "transfer-encoding" not in request.names:
                    request.read_body()
                data = b""
                self.serve(request, conn)
        except OSError:
            pass
        finally:
            conn.close()


def ok(body=b"", status="200 OK", kind="application/json", more=""):
    return (f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n").encode() + body


def event(**members):
    return json.dumps(members).encode() + b"\n\n"


class ExecWorker(Role):
    def __init__(self, tmp_path, more="", risk=RISK):
        self.tmp_path, self.more, self.ring = tmp_path, more, Ring()
        (tmp_path / "risk").mkdir(exist_ok=True)
        (tmp_path / "risk/default.yaml").write_text(risk)
        counts = 16 + 8 * (len(STATS) + len(STATUS))
        self.stats_fd = shared("stats", counts, struct.pack("=QII", 0x3153544154534753, len(STATS), len(STATUS)))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.box = Box()
        super().__init__("sandgate-worker", self.image(), ["DIALER", "CONTROL", "LEDGER", "KEEPER"])
        self.brain = Brain(self.lines["CONTROL"].sock)
        self.dialer = Reacher(self.lines["DIALER"].sock)

    def image(self):
        path = self.tmp_path / "sandgate.yaml"
        path.write_text(CONFIG.format(exec=self.port, more=self.more))
        return compile_file(path)

    def take(self, descriptors):
        if self.generation == 0:
            self.give("RING", 1, "", [self.ring.fd, self.ring.bell])
            self.give("STATS", 1, "", [self.stats_fd])
            self.give("LISTENER", 0, "tcp", [self.listener.fileno()])
            self.listener.close()
        super().take(descriptors)

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def rows(self, *kinds, least=0):
        return [dict(r, exec=json.loads(r["exec"]) if r["exec"] else None) for r in self.ring.wait(kinds, least)]
