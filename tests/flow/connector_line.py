"""A connector process alone: we are its super, its worker, its keeper, its dialer and the
company system behind it.
"""
import mmap
import os
import select
import socket
import ssl
import struct
import threading
import time

import h2.config
import h2.connection
import h2.events
import h2.settings

from certificates import make_ca, make_leaf
from role_line import NONE, STATUS, Answerer, Role, Wire, compile_file, str16
from worker_line import STATS, Ring, shared

HOST = "tracker.example.test"


def memfd(data):
    fd = os.memfd_create("lease", os.MFD_CLOEXEC)
    os.write(fd, data)
    return fd


class Keeper(Answerer):
    """`secrets` maps a name to a value, or to a status; ROTATE puts a new one there."""

    def __init__(self, sock, secrets):
        self.secrets, self.version, self.rotated, self.rotate_status = secrets, 7, [], "OK"
        self.delay = 0
        super().__init__(sock)

    def heard(self, w, fds):
        connector, name = w.str16().decode(), w.str16().decode()
        if w.at < len(w.body):
            return self.rotate(name, w, fds)
        w.end()
        self.asked.append((connector, name, len(fds)))
        value = self.secrets.get(name, "NO_SECRET")
        time.sleep(self.delay)
        if isinstance(value, str):
            return struct.pack("!HIQI", STATUS.index(value), 0, 0, 0), []
        return struct.pack("!HIQI", 0, self.version, 0, len(value)), [memfd(value)]

    def rotate(self, name, w, fds):
        w.get("I")
        w.end()
        with mmap.mmap(fds[-1], os.fstat(fds[-1]).st_size, prot=mmap.PROT_READ) as m:
            value = m[:]
        if self.rotate_status == "OK":
            self.version += 1
            self.secrets[name] = value
            self.rotated.append(value)
        return struct.pack("!HI", STATUS.index(self.rotate_status), self.version), []


class Fetcher(Answerer):
    """Answers FETCH: `hosts` maps a name to a port on loopback, or to a status."""

    def __init__(self, sock, hosts):
        self.hosts, self.via = hosts, None
        super().__init__(sock)

    def heard(self, w, fds):
        connector, host, port = w.str16().decode(), w.str16().decode(), w.get("H")
        w.end()
        self.asked.append((connector, host, port, len(fds)))
        to, back, status = self.hosts.get(host, "DENIED"), [], "OK"
        if isinstance(to, str):
            status = to
        else:
            back = [socket.create_connection(("127.0.0.1", self.via or to)).detach()]
        text = "127.0.0.1:%s" % to if back else ""
        return struct.pack("!HI", STATUS.index(status), NONE) + str16(text) + str16("") + bytes([1, self.via is not None]), back


class Lane:
    """The worker's end of a lane: HTTP/2 with prior knowledge."""

    def __init__(self, sock):
        self.sock = sock
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.answers, self.closed = {}, False
        self.flush()

    def flush(self):
        data = self.h2.data_to_send()
        if data:
            self.sock.sendall(data)

    def ask(self, method, path, headers=(), body=None, host=HOST, end=True):
        stream = self.h2.get_next_available_stream_id()
        fields = [(":method", method), (":scheme", "https"), (":authority", host), (":path", path), *headers]
        self.h2.send_headers(stream, fields, end_stream=body is None and end)
        self.answers[stream] = {"status": None, "headers": [], "body": b"", "trailers": [], "done": False,
                                "reset": None, "pieces": []}
        self.flush()
        if body is not None:
            self.send(stream, body, end)
        return stream

    def send(self, stream, body, end=True):
        while body:
            room = min(self.h2.local_flow_control_window(stream), 16384, len(body))
            if room == 0:
                self.pump()
                continue
            self.h2.send_data(stream, body[:room])
            body = body[room:]
            self.flush()
        if end:
            self.h2.end_stream(stream)
        self.flush()

    def pump(self, timeout=10):
        if not select.select([self.sock], [], [], timeout)[0]:
            raise TimeoutError("the connector says nothing")
        data = self.sock.recv(65536)
        if not data:
            self.closed = True
            return
        for e in self.h2.receive_data(data):
            self.event(e)
        self.flush()

    def event(self, e):
        a = self.answers.get(getattr(e, "stream_id", None))
        if isinstance(e, h2.events.ResponseReceived):
            a["status"], a["headers"] = int(dict(e.headers)[":status"]), list(e.headers)
        elif isinstance(e, h2.events.DataReceived):
            a["body"] += e.data
            a["pieces"].append(e.data)
            self.h2.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
        elif isinstance(e, h2.events.TrailersReceived):
            a["trailers"] = list(e.headers)
        elif isinstance(e, h2.events.StreamEnded):
            a["done"] = True
        elif isinstance(e, h2.events.StreamReset):
            a["reset"], a["done"] = e.error_code, True
        elif isinstance(e, h2.events.ConnectionTerminated):
            self.closed = True

    def answer(self, stream, timeout=10):
        end = time.time() + timeout
        while not self.answers[stream]["done"]:
            if self.closed and not self.answers[stream]["done"]:
                raise EOFError("the lane was closed")
            self.pump(max(0.01, end - time.time()))
        return Answer(self.answers.pop(stream))

    def call(self, *args, **more):
        return self.answer(self.ask(*args, **more))


class Answer:
    def __init__(self, a):
        self.status, self.body, self.reset, self.pieces = a["status"], a["body"], a["reset"], a["pieces"]
        self.all = [(n, v) for n, v in a["headers"] if not n.startswith(":")]
        self.headers, self.trailers = dict(self.all), dict(a["trailers"])
        self.reason = self.headers.get("sandgate-reason")


class System(threading.Thread):
    """A system, HTTP/1.1, over TLS if it has a context: `serve(request)` gives the bytes of an answer,
    or None to close."""

    def __init__(self, context, serve):
        super().__init__(daemon=True)
        self.context, self.serve, self.requests, self.clients = context, serve, [], []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.start()

    def run(self):
        while True:
            try:
                s, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.client, args=(s,), daemon=True).start()

    def client(self, s):
        try:
            s = self.context.wrap_socket(s, server_side=True) if self.context else s
            self.clients.append(s)
            with s, s.makefile("rb") as f:
                while True:
                    r = Request(f, s)
                    self.requests.append(r)
                    out = self.serve(r)
                    if out is None:
                        return
                    s.sendall(out)
        except (OSError, EOFError, ValueError):
            return

    def close(self):
        self.socket.close()


class Request:
    def __init__(self, f, s):
        self.socket = s
        line = f.readline()
        if not line:
            raise EOFError
        self.method, self.target, _ = line.decode().split()
        self.all, self.body = [], b""
        while True:
            line = f.readline().rstrip(b"\r\n")
            if not line:
                break
            name, value = line.split(b":", 1)
            self.all.append((name.decode().lower(), value.strip().decode("latin-1")))
        self.headers = dict(self.all)
        if "content-length" in self.headers:
            self.body = f.read(int(self.headers["content-length"]))
        elif self.headers.get("transfer-encoding") == "chunked":
            while True:
                n = int(f.readline(), 16)
                self.body += f.read(n)
                f.readline()
                if n == 0:
                    break


def reply(status=200, body=b"ok", headers=()):
    lines = ["HTTP/1.1 %d X" % status, *("%s: %s" % h for h in headers), "Content-Length: %d" % len(body), "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


CONFIG = """
listeners:
  - {{name: proxy, kind: proxy, address: "127.0.0.1:3128"}}
upstream_tls: {{ca_file: {ca}}}
sandboxes:
  - {{id: demo, source: 127.0.0.5, user: alice, agent: coder, session: s1, policy: coding}}
  - {{id: other, source: 127.0.0.6, user: bob, policy: coding}}
  - {{id: third, source: 127.0.0.7, user: carol, policy: bare}}
policies:
  coding:
    connectors: [{names}]
  bare:
    allow: [{{hosts: [static.example.test]}}]
connectors:
{connectors}
"""


class Connector(Role):
    def __init__(self, tmp_path, connectors, serve, secrets=None, hosts=None, names=("tracker",), client_ca=None,
                 extra=""):
        self.tmp_path, self.connectors, self.names, self.ring, self.extra = tmp_path, connectors, names, Ring(), extra
        counts = 16 + 8 * (len(STATS) + len(STATUS))
        self.stats_fd = shared("stats", counts, struct.pack("=QII", 0x3153544154534753, len(STATS), len(STATUS)))
        self.ca = make_ca(tmp_path)
        self.system = System(self.context(HOST, client_ca=client_ca), serve)
        self.gate = socket.create_server(("127.0.0.1", 0))
        super().__init__("sandgate-connector", self.image(), ["WORKER", "KEEPER", "DIALER", "CONTROL"])
        self.keeper = Keeper(self.lines["KEEPER"].sock, secrets if secrets is not None else {"tracker/token": b"s3cr3t-value"})
        self.fetcher = Fetcher(self.lines["DIALER"].sock, {HOST: self.system.port, **(hosts or {})})

    def context(self, host, alpn=("http/1.1",), client_ca=None):
        cert, key = make_leaf(self.ca, host)
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        c.load_cert_chain(cert, key)
        c.set_alpn_protocols(list(alpn))
        if client_ca:
            c.verify_mode = ssl.CERT_REQUIRED
            c.load_verify_locations(client_ca)
        return c

    def image(self, connectors=None, names=None):
        path = self.tmp_path / "sandgate.yaml"
        path.write_text(self.extra + CONFIG.format(ca=self.ca.file, connectors=connectors or self.connectors,
                                      names=", ".join(names or self.names)))
        return compile_file(path)

    def take(self, descriptors):
        if self.generation == 0:
            self.give("RING", 1, "", [self.ring.fd, self.ring.bell])
            self.give("STATS", 1, "", [self.stats_fd])
        super().take(descriptors)

    def sandbox(self, source="127.0.0.5"):
        """(the sandbox's end, the worker's) of one connection."""
        ours = socket.create_connection(self.gate.getsockname(), source_address=(source, 0))
        theirs, _ = self.gate.accept()
        return ours, theirs

    def open_bare(self, name="tracker", source="127.0.0.5", generation=None):
        """(status, our end of the lane, both ends of the sandbox's connection)"""
        ends = self.sandbox(source)
        ours, theirs = socket.socketpair()
        body, _ = self.lines["WORKER"].call(
            "LANE", str16(name) + struct.pack("!Q", generation or self.generation),
            [theirs.fileno(), ends[1].fileno()])
        theirs.close()
        return STATUS[Wire(body).get("H")], ours, ends

    def open(self, *args, **more):
        """The same, with the lane as one that is spoken on."""
        status, ours, ends = self.open_bare(*args, **more)
        return status, Lane(ours) if status == "OK" else None, ends

    def lane(self, *args, **more):
        status, lane, self.ends = self.open(*args, **more)
        assert status == "OK"
        return lane

    def rows(self, *kinds, least=0):
        return self.ring.wait(kinds, least)

    def close(self):
        self.system.close()
        self.gate.close()
        return super().close()
