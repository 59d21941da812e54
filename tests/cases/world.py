"""A world of its own around one gateway: everything that isn't allowed is a sink.

    box (10.77.0.2, fd77::2)  --veth--  world (10.77.0.1, fd77::1)        cell (lo only)
    captured by what                     gateway, resolver, origins,      attached to the
    `sandgate rules` prints              sinks; lo answers for ALL        gateway by its pid
                                         addresses of IPv4 and IPv6

THE ORACLE: in the world's output hook every new flow that doesn't go to an allowed origin
or to the resolver is counted and led into a sink, which notes where it was meant to go.
A count or a note is a leak, and so is a question that the resolver should never see.

The process that makes a World moves into a network namespace of its own, which ends with
it; sockets for the box and the cell are made by entering their namespaces for a moment.
"""
import asyncio
import collections
import contextlib
import ctypes
import json
import os
import re
import socket
import struct
import subprocess
import threading

CLONE_NEWNET = 0x40000000
OK, OK6, EVIL = "93.184.216.10", "2606:2800:220:1::10", "93.184.216.66"
ELSEWHERE, ELSEWHERE6 = "93.184.216.99", "2606:2800:220:1::99"
RESOLVER = "93.184.216.53"
WORLD4, WORLD6, BOX4, BOX6 = "10.77.0.1", "fd77::1", "10.77.0.2", "fd77::2"
OTHERS = {"empty": "10.77.0.3", "unknown": "10.77.0.9", "slow": "10.77.0.4", "watched": "10.77.0.5"}
PORTS = (80, 443, 5432)
SINK = 9
libc = ctypes.CDLL(None, use_errno=True)

RULES = f"""
table inet oracle {{
  counter leak_tcp {{ }}
  counter leak_udp {{ }}
  counter leak_other {{ }}
  chain count {{
    type filter hook output priority -200; policy accept;
    ct state established,related accept
    icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit, mld2-listener-report }} accept
    ip daddr {OK} tcp dport {{ 80, 443, 5432 }} accept
    ip6 daddr {OK6} tcp dport {{ 80, 443, 5432 }} accept
    ip daddr {RESOLVER} meta l4proto {{ tcp, udp }} th dport 53 accept
    ip daddr 127.0.0.1 udp sport > 1023 udp dport > 1023 accept comment "the dialer tries its own ids at start"
    meta l4proto tcp counter name leak_tcp accept
    meta l4proto udp counter name leak_udp accept
    counter name leak_other
  }}
  chain lead {{
    type nat hook output priority -100; policy accept;
    ip daddr {OK} tcp dport {{ 80, 443, 5432 }} accept
    ip6 daddr {OK6} tcp dport {{ 80, 443, 5432 }} accept
    ip daddr {RESOLVER} meta l4proto {{ tcp, udp }} th dport 53 accept
    ip daddr 127.0.0.1 udp sport > 1023 udp dport > 1023 accept
    meta l4proto {{ tcp, udp }} redirect to :{SINK}
  }}
}}
"""


def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def run(*command, **kw):
    return subprocess.run(command, check=True, capture_output=True, text=True, **kw).stdout


class Namespace:
    """One that another process holds; socket() makes sockets in it."""

    def __init__(self, pid):
        self.fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self.home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    def socket(self, family=socket.AF_INET, kind=socket.SOCK_STREAM, proto=0):
        check(libc.setns(self.fd, CLONE_NEWNET), "setns")
        try:
            return socket.socket(family, kind, proto)
        finally:
            check(libc.setns(self.home, CLONE_NEWNET), "setns")


def holder():
    """A process in a new network namespace with lo up, and nothing else to do."""
    return subprocess.Popen(["unshare", "-n", "sh", "-c", "ip link set lo up && echo up && exec sleep 100000"],
                            stdout=subprocess.PIPE)


class Origin:
    """What reached allowed addresses, and scripted answers.

    An HTTP request is answered by the function that its path is registered for; all
    bytes are kept by connection, so that a test can say how many requests there were.
    """

    def __init__(self):
        self.http, self.tls, self.tcp = [], [], []
        self.scripts = {}  # path -> function(request, writer)
        self.tls_answers = {}  # name in the hello -> bytes
        self.connections = 0

    async def on_http(self, reader, writer):
        record = bytearray()
        self.http.append(record)
        self.connections += 1
        try:
            while data := await reader.read(65536):
                record += data
                while (end := self.answerable(record, getattr(writer, "answered", 0))) is not None:
                    request = bytes(record[getattr(writer, "answered", 0):end])
                    writer.answered = end
                    if not await self.answer(request, writer):
                        return
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    @staticmethod
    def answerable(record, start):
        """Where the first request behind start ends, or None: a strict reader."""
        head_end = record.find(b"\r\n\r\n", start)
        if head_end < 0:
            return None
        head, at = bytes(record[start:head_end]).lower(), head_end + 4
        if b"\r\ntransfer-encoding:" not in head:
            length = re.search(rb"\r\ncontent-length: *(\d+)", head)
            at += int(length[1]) if length else 0
            return at if len(record) >= at else None
        while line := re.match(rb"([0-9a-f]+)\r\n", record[at:at + 32], re.I):
            size = int(line[1], 16)
            at += line.end() + size + 2
            if size == 0:
                end = record.find(b"\r\n\r\n", at - 4)
                return None if end < 0 else end + 4
        return None

    async def answer(self, request, writer):
        path = request.split(b" ", 2)[1].decode("latin-1")
        script = self.scripts.get(path.split("?")[0])
        if script is not None:
            return await script(request, writer)
        body = b"" if request.startswith(b"HEAD ") else b"fine"
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-Origin: yes\r\n\r\n" + body)
        await writer.drain()
        return True

    async def on_tls(self, reader, writer):
        self.connections += 1
        try:
            data = await reader.read(65536)
            self.tls.append(data)
            answer = next((a for name, a in self.tls_answers.items() if name in data), b"\x16\x03\x03\x00\x04fine")
            writer.write(answer)
            await writer.drain()
            while await reader.read(65536):
                pass
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def on_tcp(self, reader, writer):
        self.connections += 1
        writer.write(b"hello first\n")
        with contextlib.suppress(ConnectionError):
            self.tcp.append(await reader.read(65536))
        writer.close()

    def requests(self, marker):
        """All connections' bytes in which the marker occurs."""
        return [bytes(r) for r in list(self.http) if marker in r]


class Resolver(asyncio.DatagramProtocol):
    """Answers by name; what is not registered has the address of an origin or of evil."""

    def __init__(self):
        self.seen = collections.Counter()
        self.answers = {}  # name -> function(query, name, type, question) -> [packets]
        self.transport = None

    def connection_made(self, transport):
        self.transport = transport

    @staticmethod
    def question(query):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode("latin-1"))
            at += 1 + query[at]
        return ".".join(labels).lower(), struct.unpack("!H", query[at + 1:at + 3])[0], query[12:at + 5]

    def datagram_received(self, query, peer):
        name, kind, question = self.question(query)
        self.seen[name] += 1
        for packet in self.packets(query, name, kind, question):
            self.transport.sendto(packet, peer)

    def packets(self, query, name, kind, question):
        script = self.answers.get(name)
        if script is not None:
            return script(query, name, kind, question)
        good = name == "ok.test" or name.endswith((".ok.test", ".w.test")) or name in (
            "path.test", "db.test", "only443.test", "w.test", "narrow.test")
        if kind == 28 and name == "six.w.test":
            return [reply(query, question, [record(28, socket.inet_pton(socket.AF_INET6, OK6))])]
        if kind != 1 or name == "six.w.test":
            return [reply(query, question, [])]
        return [reply(query, question, [record(1, socket.inet_aton(OK if good else EVIL))])]


def record(kind, data, ttl=60, name=b"\xc0\x0c"):
    return name + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data


def reply(query, question, answers, flags=0x8180, ident=None):
    head = struct.pack("!HHHHHH", struct.unpack("!H", query[:2])[0] if ident is None else ident, flags, 1,
                       len(answers), 0, 0)
    return head + question + b"".join(answers)


class World:
    def __init__(self):
        check(libc.unshare(CLONE_NEWNET), "unshare")
        self.origin, self.resolver = Origin(), Resolver()
        self.sunk, self.holders = [], []
        self.links()
        self.loop = asyncio.new_event_loop()
        started = threading.Event()
        threading.Thread(target=self.serve, args=(started,), daemon=True).start()
        assert started.wait(10)

    def links(self):
        self.holders = [holder(), holder()]
        for h in self.holders:
            assert h.stdout.readline() == b"up\n"
        box, cell = (h.pid for h in self.holders)
        run("ip", "-b", "-", input=f"link set lo up\nlink add veth-w type veth peer name veth-b netns {box}\n"
            f"addr add {WORLD4}/24 dev veth-w\naddr add {WORLD6}/64 dev veth-w nodad\nlink set veth-w up\n"
            f"route add local 0.0.0.0/0 dev lo table main\naddr add {OK6}/128 dev lo nodad\n")
        run("ip", "-6", "route", "add", "local", "::/0", "dev", "lo", "table", "main")
        inside = ["nsenter", f"--net=/proc/{box}/ns/net", "ip"]
        extra = "".join(f"addr add {a}/24 dev veth-b\n" for a in OTHERS.values())
        run(*inside, "-b", "-", input=f"addr add {BOX4}/24 dev veth-b\n{extra}addr add {BOX6}/64 dev veth-b nodad\n"
            f"link set veth-b up\nroute add default via {WORLD4} src {BOX4}\n")
        run(*inside, "-6", "route", "add", "default", "via", WORLD6)
        run("nft", "-f", "-", input=RULES)
        self.box, self.cell, self.cell_pid = Namespace(box), Namespace(cell), cell

    def capture(self, rules):
        """The gateway's own rules for the box, and its proxy listener beside them."""
        to_proxy = f'iifname "veth-w" ip daddr {WORLD4} tcp dport 3128 accept'
        for chain in ("capture", "input"):
            rules = re.sub(rf"(chain {chain} {{\n[^\n]*policy accept;\n)", rf"\1\t\t{to_proxy}\n", rules)
        run("nft", "-f", "-", input=rules)

    # servers, in a thread of their own

    def serve(self, started):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.listen())
        started.set()
        self.loop.run_forever()

    async def listen(self):
        for address in (OK, OK6):
            for port, handler in zip(PORTS, (self.origin.on_http, self.origin.on_tls, self.origin.on_tcp)):
                await asyncio.start_server(handler, address, port, limit=1 << 22, backlog=512)
        await self.loop.create_datagram_endpoint(lambda: self.resolver, (RESOLVER, 53))
        await asyncio.start_server(self.on_dns_tcp, RESOLVER, 53)
        await asyncio.start_server(self.on_sink, "0.0.0.0", SINK)
        await asyncio.start_server(self.on_sink, "::", SINK)

    async def on_dns_tcp(self, reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            query = await reader.readexactly(struct.unpack("!H", await reader.readexactly(2))[0])
            name, kind, question = Resolver.question(query)
            self.resolver.seen[name] += 1
            for packet in self.resolver.packets(query, name, kind, question):
                writer.write(struct.pack("!H", len(packet)) + packet)
            await writer.drain()
        writer.close()

    async def on_sink(self, reader, writer):
        sock = writer.get_extra_info("socket")
        try:
            raw = sock.getsockopt(socket.SOL_IP, 80, 16)
            self.sunk.append(f"{socket.inet_ntoa(raw[4:8])}:{struct.unpack('!H', raw[2:4])[0]}")
        except OSError:
            self.sunk.append(f"v6 {sock.getsockname()}")
        writer.close()

    # the oracle

    def leaks(self):
        """(packets, destinations) that left for where nothing may go."""
        listed = json.loads(run("nft", "-j", "list", "counters", "table", "inet", "oracle"))["nftables"]
        counts = {c["counter"]["name"]: c["counter"]["packets"] for c in listed if "counter" in c}
        return sum(counts.values()), list(self.sunk)

    def forget(self):
        """For the test of the oracle itself."""
        run("nft", "reset", "counters", "table", "inet", "oracle")
        self.sunk.clear()

    def close(self):
        for h in self.holders:
            h.kill()
            h.wait()
