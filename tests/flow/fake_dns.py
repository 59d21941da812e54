#!/usr/bin/env python3
"""A small authoritative DNS server for tests: it says what a script tells it, lies included.

As a module:

    with FakeDns({"ok.test": {"A": ["203.0.113.9"]}}) as dns:
        ... dns.address, dns.port, dns.queries ...

As a program: fake_dns.py --listen 127.0.0.1:5300 --log queries.jsonl zone.json
It prints "ready ADDRESS PORT" and runs until its input ends or it gets SIGTERM.

A zone maps a name (lower case; "*.x" covers what is below x) to an entry, or to a list of
entries that are used in turn, one a query: a list is how a name is rebound.  An entry:

    "A", "AAAA"   lists of addresses; a type that is not there is NODATA
    "cname"       the name is an alias; what the zone has for the target comes along
    "ttl"         seconds, 30 when not given
    "rcode"       3 NXDOMAIN, 2 SERVFAIL, 5 REFUSED, ...
    "delay"       seconds before the answer; or a map, as {"AAAA": 1}
    "do"          a list of misdeeds:
                    drop           no answer at all
                    wrong_id       the answer has another id
                    wrong_case     the letters of the question are swapped
                    lower_case     the letters of the question are all small
                    wrong_name     the question is another
                    truncate       UDP answers have TC and no records; TCP has them
                    tc_loop        TC by TCP too
                    short_rdata    addresses lose their last octet
                    cname_chain    20 aliases before the address
                    stray          records of a name that nobody asked for come first
                    two_answers    a forged answer (wrong id) first, then the true one
"""
import argparse
import heapq
import ipaddress
import json
import selectors
import signal
import socket
import struct
import sys
import threading
import time

TYPES = {1: "A", 28: "AAAA"}
NUMBERS = {name: number for number, name in TYPES.items()}
CNAME = 5


def encode_name(name):
    out = b""
    for label in name.rstrip(".").split("."):
        if label:
            out += bytes([len(label)]) + label.encode("latin-1")
    return out + b"\0"


def decode_name(packet, at):
    labels = []
    while packet[at]:
        size = packet[at]
        if size > 63:
            raise ValueError("a query has no pointers")
        labels.append(packet[at + 1:at + 1 + size].decode("latin-1"))
        at += size + 1
    return ".".join(labels), at + 1


class Query:
    """One question as it came; name keeps its letters."""

    def __init__(self, packet, source, transport):
        self.id, self.flags, questions = struct.unpack_from("!HHH", packet)
        if questions != 1:
            raise ValueError("one question")
        self.name, at = decode_name(packet, 12)
        self.type, self.klass = struct.unpack_from("!HH", packet, at)
        self.question = packet[12:at + 4]
        self.source, self.transport = source, transport
        self.time = time.monotonic()

    def as_json(self):
        return json.dumps({"name": self.name, "type": TYPES.get(self.type, self.type),
                           "id": self.id, "port": self.source[1],
                           "transport": self.transport, "time": self.time})


class FakeDns:
    """Serves in a thread of its own; zone may be changed while it runs."""

    def __init__(self, zone, address="127.0.0.1", port=0, log=None):
        self.zone = zone
        self.queries = []
        self.turns = {}
        self.log = log
        self.later = []  # heap of (time, number, send, bytes)
        self.later_number = 0
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.udp, self.tcp = self._bind(family, address, port)
        self.address, self.port = self.udp.getsockname()[:2]
        self.selector = selectors.DefaultSelector()
        self.wake_read, self.wake_write = socket.socketpair()
        for sock, handler in ((self.udp, self._on_udp), (self.tcp, self._on_accept),
                              (self.wake_read, None)):
            sock.setblocking(False)
            self.selector.register(sock, selectors.EVENT_READ, handler)
        self.thread = threading.Thread(target=self._run, daemon=True)

    @staticmethod
    def _bind(family, address, port):
        """UDP and TCP on one port; with port 0 until both are free."""
        while True:
            udp = socket.socket(family, socket.SOCK_DGRAM)
            udp.bind((address, port))
            tcp = socket.socket(family, socket.SOCK_STREAM)
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tcp.bind(udp.getsockname())
            except OSError:
                udp.close()
                tcp.close()
                if port:
                    raise
                continue
            tcp.listen(64)
            return udp, tcp

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.wake_write.send(b"x")
        self.thread.join()
        for sock in (self.udp, self.tcp, self.wake_read, self.wake_write):
            sock.close()

    def asked(self, name, kind=None):
        """The queries for a name (letters folded), of one type or all."""
        return [q for q in list(self.queries) if q.name.lower() == name and
                (kind is None or TYPES.get(q.type) == kind)]

    def _run(self):
        while True:
            wait = max(0, self.later[0][0] - time.monotonic()) if self.later else None
            for key, _ in self.selector.select(wait):
                if key.data is None:
                    return
                key.data(key.fileobj)
            while self.later and self.later[0][0] <= time.monotonic():
                _, _, send, packet = heapq.heappop(self.later)
                try:
                    send(packet)
                except OSError:
                    pass  # who asked is gone

    def _on_udp(self, sock):
        packet, source = sock.recvfrom(65535)
        self._serve(packet, source, "udp", lambda out: sock.sendto(out, source))

    def _on_accept(self, sock):
        conn, _ = sock.accept()
        conn.setblocking(False)
        conn_buffer = bytearray()
        self.selector.register(conn, selectors.EVENT_READ,
                               lambda c: self._on_tcp(c, conn_buffer))

    def _on_tcp(self, conn, buffered):
        try:
            more = conn.recv(65535)
        except OSError:
            more = b""
        if not more:
            self.selector.unregister(conn)
            conn.close()
            return
        buffered += more
        while len(buffered) >= 2:
            size = struct.unpack_from("!H", buffered)[0]
            if len(buffered) < size + 2:
                return
            packet = bytes(buffered[2:size + 2])
            del buffered[:size + 2]
            self._serve(packet, conn.getpeername(), "tcp",
                        lambda out: conn.sendall(struct.pack("!H", len(out)) + out))

    def _serve(self, packet, source, transport, send):
        try:
            query = Query(packet, source, transport)
        except (ValueError, IndexError, struct.error):
            return
        self.queries.append(query)
        if self.log:
            print(query.as_json(), file=self.log, flush=True)
        entry = self._entry(query)
        delay = entry.get("delay", 0)
        if isinstance(delay, dict):
            delay = delay.get(TYPES.get(query.type), 0)
        for out in self._answers(query, entry):
            self.later_number += 1
            heapq.heappush(self.later, (time.monotonic() + delay,
                                        self.later_number, send, out))

    def _entry(self, query):
        name = query.name.lower()
        found = self.zone.get(name)
        parts = name.split(".")
        for i in range(1, len(parts)):
            if found is None:
                found = self.zone.get("*." + ".".join(parts[i:]))
        if found is None:
            return {"rcode": 3}
        if isinstance(found, list):
            turn = self.turns.get((name, query.type), 0)
            self.turns[name, query.type] = turn + 1
            found = found[turn % len(found)]
        return found

    def _answers(self, query, entry):
        deeds = entry.get("do", [])
        if "drop" in deeds:
            return []
        true = self._answer(query, entry, deeds)
        if "two_answers" in deeds:
            forged = self._answer(query, {"A": ["127.0.0.1"], "AAAA": ["::1"]}, ["wrong_id"])
            return [forged, true]
        return [true]

    def _answer(self, query, entry, deeds):
        question = query.question
        if "wrong_case" in deeds:
            question = self._swap_case(question)
        if "lower_case" in deeds:
            question = question[:-4].lower() + question[-4:]
        if "wrong_name" in deeds:
            question = encode_name("other.test") + question[-4:]
        number = query.id ^ 0x5555 if "wrong_id" in deeds else query.id
        is_cut = "tc_loop" in deeds or ("truncate" in deeds and query.transport == "udp")
        records = [] if is_cut else self._records(query, entry, deeds)
        flags = 0x8580 | (0x0200 if is_cut else 0) | entry.get("rcode", 0)
        return struct.pack("!HHHHHH", number, flags, 1, len(records), 0, 0) + question + \
            b"".join(records)

    @staticmethod
    def _swap_case(question):
        """Every letter the other way: certain to differ from what was sent."""
        name = question[:-4]
        return bytes(b ^ 0x20 if chr(b).isascii() and chr(b).isalpha() else b
                     for b in name) + question[-4:]

    @staticmethod
    def _record(owner, kind, ttl, data):
        return owner + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data

    def _records(self, query, entry, deeds):
        owner, ttl, out = encode_name(query.name), entry.get("ttl", 30), []
        if "stray" in deeds:
            out.append(self._record(encode_name("stray.test"), query.type, 1,
                                    b"\x7f\0\0\1" if query.type == 1 else b"\0" * 15 + b"\1"))
        if "cname_chain" in deeds:
            for i in range(20):
                target = encode_name(f"n{i}.chain.test")
                out.append(self._record(owner, CNAME, ttl, target))
                owner = target
        if "cname" in entry:
            target = encode_name(entry["cname"])
            out.append(self._record(owner, CNAME, ttl, target))
            owner = target
            entry = dict(entry, **self.zone.get(entry["cname"].lower(), {}))
        for text in entry.get(TYPES.get(query.type), []):
            data = ipaddress.ip_address(text).packed
            if "short_rdata" in deeds:
                data = data[:-1]
            out.append(self._record(owner, query.type, ttl, data))
        return out


def main():
    parser = argparse.ArgumentParser(description="a scripted DNS server for tests")
    parser.add_argument("--listen", default="127.0.0.1:0", help="ADDRESS:PORT")
    parser.add_argument("--log", type=argparse.FileType("w"), help="one JSON line a query")
    parser.add_argument("zone", type=argparse.FileType("r"), help="JSON")
    args = parser.parse_args()
    address, _, port = args.listen.rpartition(":")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with FakeDns(json.load(args.zone), address.strip("[]"), int(port), args.log) as dns:
        print("ready", dns.address, dns.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
