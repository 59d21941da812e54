"""The ways in, from the side of the sandbox.  Each gives what the sandbox was told.

A way is (namespace, kind): namespace "box" comes over veth, "cell" is attached.  Bytes are
sent as they are: nothing here corrects what a test wants to be wrong.
"""
import asyncio
import contextlib
import dataclasses
import json
import pathlib
import re
import socket
import struct

import world as w
from hello import hello

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT = 12
ATTACHED_PROXY = "198.18.0.1"


@dataclasses.dataclass(frozen=True)
class Status:
    code: str
    http: int
    socks: int
    rcode: int
    alert: int


def read_statuses():
    text = (ROOT / "proxy/base/status.def").read_text()
    found = re.findall(r'^STATUS\(\w+, "(\w+)", (\d+), (\d+), (\d+), (\d+),', text, re.M)
    return {code: Status(code, *map(int, numbers)) for code, *numbers in found}


STATUS = read_statuses()


@dataclasses.dataclass
class Got:
    """What came back: how (http, tls, socks, dns, closed), and the code where it is told."""
    how: str
    code: str = None
    number: int = None
    data: bytes = b""
    row: str = None

    def is_for(self, code):
        """Does this tell the sandbox that code, as far as the protocol has room?"""
        if code == "ok" or self.how == "ok":
            return self.how == code
        if self.how == "closed":
            return code == "closed" or (self.code is not None and self.code == code)
        if code not in STATUS:
            return False
        s = STATUS[code]
        if self.how == "http":
            return self.code == code and self.number == s.http
        if self.how == "dns":
            return self.number == s.rcode and self.code in (code, None)
        return self.number == {"tls": s.alert or 80, "socks": s.socks or 1}[self.how]


OK, CLOSED = Got("ok"), Got("closed")


class Link:
    """A TCP connection out of a sandbox."""

    def __init__(self, sock):
        self.sock, self.loop, self.rest = sock, asyncio.get_running_loop(), b""

    async def send(self, data):
        with contextlib.suppress(ConnectionError):
            await self.loop.sock_sendall(self.sock, data)

    async def more(self):
        """Some bytes, or b"" at the end."""
        try:
            return await asyncio.wait_for(self.loop.sock_recv(self.sock, 65536), TIMEOUT)
        except (ConnectionError, TimeoutError) as e:
            return b"!timeout" if isinstance(e, TimeoutError) else b""

    async def take(self, n):
        while len(self.rest) < n:
            data = await self.more()
            if not data or data == b"!timeout":
                return None
            self.rest += data
        got, self.rest = self.rest[:n], self.rest[n:]
        return got

    async def take_until(self, end):
        while end not in self.rest:
            data = await self.more()
            if not data or data == b"!timeout":
                return None
            self.rest += data
        at = self.rest.index(end) + len(end)
        got, self.rest = self.rest[:at], self.rest[at:]
        return got

    async def response(self, method=b"GET"):
        """One HTTP response: (status, head, body), or None at the end.  1xx are skipped."""
        while True:
            head = await self.take_until(b"\r\n\r\n")
            if head is None:
                return None
            if not head.startswith(b"HTTP/1.1 "):
                return 0, head, b""
            status = int(head[9:12])
            if status >= 200 or status == 101:
                break
        length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.I)
        if method in (b"HEAD", b"CONNECT") and (method == b"HEAD" or status == 200) or status in (101, 204, 304):
            return status, head, b""
        if re.search(rb"\r\ntransfer-encoding: *chunked", head, re.I):
            body = b""
            while True:
                line = await self.take_until(b"\r\n")
                if line is None:
                    return status, head, None
                size = int(line, 16)
                if size == 0:
                    while await self.take_until(b"\r\n") not in (b"\r\n", None):
                        pass
                    return status, head, body
                piece = await self.take(size + 2)
                if piece is None:
                    return status, head, None
                body += piece[:-2]
        if length is None:
            while (data := await self.more()) and data != b"!timeout":
                self.rest += data
            body, self.rest = self.rest, b""
            return status, head, body
        return status, head, await self.take(int(length[1]))

    def close(self):
        self.sock.close()


def heard(answer):
    """What one HTTP response says."""
    if answer is None:
        return CLOSED
    status, head, body = answer
    if b"\r\nProxy-Status: sandgate" not in head:
        return Got("ok" if b"X-Origin" in head else "http", None, status, body or b"")
    phrase = head.split(b"\r\n", 1)[0].split(b" ", 2)[2].decode()
    if not body:
        return Got("http", phrase, status, head)
    error = json.loads(body)["error"]
    assert error["code"] == phrase and set(error) == {"code", "message", "rule", "hint", "id"}, body
    return Got("http", phrase, status, head, error["id"])


class Ways:
    def __init__(self, world):
        self.world = world

    async def dial(self, ns, address, port, source=None):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = (self.world.box if ns == "box" else self.world.cell).socket(family)
        sock.setblocking(False)
        if source is not None:
            sock.bind((source, 0))
        loop = asyncio.get_running_loop()
        await asyncio.wait_for(loop.sock_connect(sock, (address, port)), TIMEOUT)
        return Link(sock)

    async def to_proxy(self, ns, **kw):
        return await self.dial(ns, w.WORLD4 if ns == "box" else ATTACHED_PROXY, 3128, **kw)

    # openers: a link behind which a tunnel begins, or what was refused

    async def open_transparent(self, ns, host, port):
        return await self.dial(ns, w.ELSEWHERE, port), None

    async def open_transparent6(self, ns, host, port):
        return await self.dial(ns, w.ELSEWHERE6, port), None

    async def open_connect(self, ns, host, port):
        link = await self.to_proxy(ns)
        target = host + b":%d" % port
        await link.send(b"CONNECT " + target + b" HTTP/1.1\r\nHost: " + target + b"\r\n\r\n")
        answer = await link.response(b"CONNECT")
        if answer is None or answer[0] != 200:
            return link, heard(answer)
        return link, None

    async def open_socks(self, ns, host, port):
        link = await self.to_proxy(ns)
        await link.send(b"\x05\x01\x00\x05\x01\x00\x03" + bytes([len(host)]) + host + struct.pack("!H", port))
        if await link.take(2) != b"\x05\x00":
            return link, CLOSED
        answer = await link.take(10)
        if answer is None:
            return link, CLOSED
        return link, None if answer[1] == 0 else Got("socks", None, answer[1])

    async def open(self, way, host=b"ok.test", port=443):
        ns, kind = way
        return await getattr(self, "open_" + kind)(ns, host, port)

    # whole questions

    async def tls(self, way, data, host=b"ok.test", pause=None, piece=None, port=443):
        """A hello; the origin's record or the alert."""
        link, refused = await self.open(way, host, port)
        try:
            if refused:
                return refused
            for i in range(0, len(data), piece or len(data)):
                await link.send(data[i:i + (piece or len(data))])
                if pause is not None:
                    await asyncio.sleep(pause)
            return await self.tls_answer(link)
        finally:
            link.close()

    @staticmethod
    async def tls_answer(link):
        head = await link.take(5)
        if head is None:
            return CLOSED
        if head[0] == 0x15:
            alert = await link.take(2)
            return Got("tls", None, alert[1])
        return OK if head[0] == 0x16 else Got("tls", None, -1, head)

    async def http(self, way, data, host=b"ok.test", method=b"GET", port=80):
        """One plain HTTP request; @@ in it becomes http://host where the form is absolute."""
        link, refused = await self.open_http(way, host, port)
        try:
            if refused:
                return refused
            await link.send(self.form(way, data, host))
            return heard(await link.response(method))
        finally:
            link.close()

    async def open_http(self, way, host=b"ok.test", port=80):
        if way[1] == "absolute":
            return await self.to_proxy(way[0]), None
        return await self.open(way, host, port)

    @staticmethod
    def form(way, data, host=b"ok.test"):
        return data.replace(b"@@", b"http://" + host if way[1] == "absolute" else b"")

    # a host as each way carries it

    async def host_connect(self, ns, host, port=443):
        link, refused = await self.open_connect(ns, host, port)
        try:
            if refused:
                return refused
            await link.send(hello(host.decode("latin-1")))
            return await self.tls_answer(link)
        finally:
            link.close()

    async def host_socks(self, ns, host, port=443):
        link, refused = await self.open_socks(ns, host, port)
        try:
            if refused:
                return refused
            await link.send(hello(host.decode("latin-1")))
            return await self.tls_answer(link)
        finally:
            link.close()

    async def host_absolute(self, ns, host, port=None):
        at = host if port is None else host + b":%d" % port
        return await self.http((ns, "absolute"), b"GET http://" + at + b"/ HTTP/1.1\r\nHost: " + at + b"\r\n\r\n")

    async def host_host(self, ns, host, port=None):
        return await self.http((ns, "transparent"), b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")

    async def host_sni(self, ns, host, port=None):
        return await self.tls((ns, "transparent"), hello(host.decode("latin-1")))

    async def host_dns(self, ns, host, port=None):
        labels = host.split(b".")
        if labels[-1] == b"":
            labels.pop()
        return await self.dns(ns, name=b"".join(bytes([len(label)]) + label for label in labels) + b"\0")

    async def host(self, way, host):
        return await getattr(self, "host_" + way[1])(way[0], host)

    # DNS

    async def ask(self, ns, packet, address="8.8.8.8", wait=4.0, source=None):
        """The answer to one datagram, or None."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = (self.world.box if ns == "box" else self.world.cell).socket(family, socket.SOCK_DGRAM)
        try:
            sock.setblocking(False)
            if source is not None:
                sock.bind((source, 0))
            sock.connect((address, 53))
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(sock, packet)
            return await asyncio.wait_for(loop.sock_recv(sock, 65536), wait)
        except (TimeoutError, ConnectionError):
            return None
        finally:
            sock.close()

    async def dns(self, ns, name, kind=1, **kw):
        answer = await self.ask(ns, query(name, kind), **kw)
        return CLOSED if answer is None else told(answer)


def wire(name):
    """A plain name in wire form."""
    return b"".join(bytes([len(label)]) + label.encode() for label in name.rstrip(".").split(".")) + b"\0"


def query(name, kind=1, ident=0x1234, flags=0x0100, opt=True, klass=1):
    name = wire(name) if isinstance(name, str) else name
    packet = struct.pack("!HHHHHH", ident, flags, 1, 0, 0, int(opt)) + name + struct.pack("!HH", kind, klass)
    return packet + (b"\0" + struct.pack("!HHBBHH", 41, 1232, 0, 0, 0, 0) if opt else b"")


def skip_name(packet, at):
    while packet[at] and packet[at] < 0xc0:
        at += 1 + packet[at]
    return at + (1 if packet[at] == 0 else 2)


def told(packet):
    """rcode, the code in the extended error, and the answers' data."""
    ident, flags, questions, answers, authority, extra = struct.unpack_from("!HHHHHH", packet)
    at, data, code = 12, [], None
    for _ in range(questions):
        at = skip_name(packet, at) + 4
    for i in range(answers + authority + extra):
        at = skip_name(packet, at)
        kind, _, _, size = struct.unpack_from("!HHIH", packet, at)
        body = packet[at + 10:at + 10 + size]
        at += 10 + size
        if i < answers:
            data.append(body)
        if kind == 41 and len(body) > 6 and body[:2] == b"\0\x0f":
            code = body[6:].decode()
    assert at == len(packet), "bytes behind the answer"
    rcode = flags & 15
    if rcode == 0:
        return Got("ok", None, 0, b"".join(data))
    return Got("dns", code, rcode)
