"""What a TLS hello can hide (threats 2.1, 2.2; cases B): each verdict falls before a byte
goes on, on every way that carries TLS."""
import asyncio
import contextlib
import itertools
import random
import socket

import pytest

import hello as h
import world as w

BOTH = ("box", "cell")
WAYS = [(ns, kind) for ns in BOTH for kind in ("transparent", "connect", "socks")] + [("box", "transparent6")]
PINNED = [way for way in WAYS if way[1] in ("connect", "socks")]
FREE = [way for way in WAYS if way not in PINNED]
ECH = h.ext(0xfe0d, b"\x00\x00\x01\x00\x01\x07" + h.vector(bytes(32), 2) + h.vector(bytes(144), 2))
NO_TLS = "denied_protocol"


def tls(battery, inputs, ways=WAYS, closes=None, **kw):
    """inputs: (label, bytes, codes)."""
    return battery.run(((label, way, codes, lambda d=data, way=way: battery.ways.tls(way, d, **kw))
                        for label, data, codes in inputs for way in ways), closes)


@pytest.mark.parametrize("piece,pause", [(1, None), (1, 0.001), (2, 0.001), (5, None), (6, 0.002), (44, 0.001), (100, 0.01)])
def test_a_hello_in_segments_has_one_verdict(battery, piece, pause):
    names = [("ok.test", "ok"), ("a.w.test", "ok"), ("evil.test", "denied_by_policy"), (None, "no_sni")]
    tls(battery, [(f"{name} {piece}", h.hello(name), code) for name, code in names], FREE, piece=piece, pause=pause)
    pinned = [("ok.test", "ok"), ("a.w.test", "name_mismatch"), ("evil.test", "name_mismatch"), (None, "no_sni")]
    tls(battery, [(f"{name} {piece}", h.hello(name), code) for name, code in pinned], PINNED, piece=piece, pause=pause)


def test_a_hello_in_records_has_one_verdict(battery):
    inputs = []
    for size in (1, 2, 3, 4, 5, 8, 43, 44, 100, 200, 16384):
        for name, code in (("ok.test", {"ok"}), ("evil.test", {"denied_by_policy"}), (None, {"no_sni"})):
            msg = h.message(*([h.sni(name)] if name else []))
            few = -(-len(msg) // size) <= 256
            inputs.append((f"{name} records {size}", h.records(msg, size), code if few else {"hello_too_large"}))
    for empty in (1, 2, 8, 9, 20):
        inputs.append((f"empty {empty}", h.records(h.message(h.sni("ok.test")), empty_first=empty),
                       {"ok"} if empty <= 8 else {"hello_too_large"}))
    tls(battery, inputs, FREE)
    tls(battery, [i for i in inputs if "evil" not in i[0]], PINNED)


def test_a_big_hello_is_read_to_its_cap_and_never_taken_for_plain(battery):
    inputs = []
    for size in (16384, 512, 4000):
        for pad in (1700, 16000, 40000, 60000, 65000):
            msg = h.message(h.ext(21, bytes(pad)), h.sni("ok.test"))
            evil = h.message(h.ext(21, bytes(pad)), h.sni("evil.test"))
            code = {"ok"} if len(msg) <= 65536 and -(-len(msg) // size) <= 256 else {"hello_too_large"}
            inputs.append((f"pad {pad} in {size}", h.records(msg, size), code))
            inputs.append((f"evil pad {pad} in {size}", h.records(evil, size),
                           {"denied_by_policy", "name_mismatch"} if code == {"ok"} else code))
    huge = h.message(h.sni("ok.test"), suites=b"\x13\x01" * 32000)
    inputs += [(f"64k suites in {s}", h.records(huge, s), {"hello_too_large", "hello_unparsable", "ok"}) for s in (16384, 512)]
    twice = b"\x01" + h.vector(bytes(124000), 3)
    inputs += [(f"124k in {s}", h.records(twice, s), {"hello_too_large"}) for s in (16384, 512)]
    inputs.append(("16M announced", h.records(b"\x01\xff\xff\xff" + bytes(4000)), {"hello_too_large"}))
    tls(battery, inputs)


def test_hellos_of_today_pass(battery):
    grease = [h.ext(v << 8 | v, b"\0" * n) for v, n in ((0x0a, 0), (0x1a, 1), (0xfa, 0))]
    mlkem = h.ext(51, h.vector(b"\x11\xec" + h.vector(bytes(1216), 2) + b"\x00\x1d" + h.vector(bytes(32), 2), 2))
    others = [e for e in h.OTHERS if e[:2] != b"\x00\x33"] + [h.alpn(b"\x0a\x0a", b"h2", b"http/1.1"), h.VERSIONS]
    inputs = [("ml-kem", h.records(h.message(h.sni("ok.test"), mlkem, *others, others=False, versions=None)), "ok"),
              ("TLS 1.2", h.hello(versions=None), "ok"), ("no session", h.hello(session=b""), "ok")]
    shuffle = random.Random(7)
    for i in range(12):
        mixed = [h.sni("ok.test"), mlkem, *others, *grease]
        shuffle.shuffle(mixed)
        inputs.append((f"shuffled {i}", h.records(h.message(*mixed, others=False, versions=None), 1000 if i % 2 else 16384), "ok"))
    before = len(battery.world.origin.tls)
    tls(battery, inputs)
    sent = {data for _, data, _ in inputs}
    arrived = battery.world.origin.tls[before:]
    assert sum(any(a and s.startswith(a) for s in sent) for a in arrived) >= len(inputs) * len(WAYS), "unchanged"


def test_encrypted_hello_is_closed_whoever_it_names(battery):
    inputs = []
    for kind in (0xfe0d, 0xfe08, 0xfe09, 0xfe0a, 0xfe0b, 0xfe0c, 0xffce):
        for name in ("ok.test", "a.w.test"):
            for body in (b"", b"\x00", b"\x01", ECH[4:], bytes(300)):
                inputs.append((f"{kind:x} {name} {len(body)}", h.hello(name, h.ext(kind, body)), "ech"))
    tls(battery, inputs, FREE)
    tls(battery, [i for i in inputs if "ok.test" in i[0]], PINNED)
    tls(battery, [("outer", h.hello("cloudflare-ech.com", ECH), "denied_by_policy")], FREE)
    tls(battery, [("outer", h.hello("cloudflare-ech.com", ECH), "name_mismatch")], PINNED)


def test_early_data_waits_for_the_verdict(battery):
    psk = h.ext(41, h.vector(h.vector(bytes(16), 2) + bytes(4), 2) + h.vector(h.vector(bytes(32), 1), 2))
    flights = []
    for name, code in (("ok.test", "ok"), ("evil.test", {"denied_by_policy", "name_mismatch"})):
        msg = h.message(h.sni(name), h.VERSIONS, *h.OTHERS, h.ext(42, b""), psk, versions=None, others=False)
        early = b"\x17\x03\x03\x00\x40" + b"SECRET-EARLY-" + name.encode().ljust(51, b"=")
        flights += [(f"{name} at once", h.records(msg) + early, code),
                    (f"{name} ccs", h.records(msg) + b"\x14\x03\x03\x00\x01\x01" + early, code)]
    tls(battery, flights)
    assert not any(b"SECRET-EARLY-evil" in data for data in battery.world.origin.tls)


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_without_a_name_there_is_no_way(battery, version):
    kw = {"versions": None} if version == "1.2" else {}
    inputs = [("no sni", h.hello(None, **kw), "no_sni"), ("no sni, alpn", h.hello(None, h.alpn(b"h2"), **kw), "no_sni")]
    if version == "1.2":
        inputs.append(("no extensions", h.records(h.message(block=b"", versions=None)), "no_sni"))
    tls(battery, inputs)


def broken_names():
    yield "two names", h.ext(0, h.vector(b"\0" + h.vector(b"ok.test", 2) + b"\0" + h.vector(b"evil.test", 2), 2))
    yield "twice the same", h.ext(0, h.vector((b"\0" + h.vector(b"ok.test", 2)) * 2, 2))
    yield "type 1", h.sni("ok.test", 1)
    yield "type 255", h.sni("ok.test", 255)
    yield "type 1 first", h.ext(0, h.vector(b"\1" + h.vector(b"x", 2) + b"\0" + h.vector(b"ok.test", 2), 2))
    yield "bytes behind", h.ext(0, h.vector(b"\0" + h.vector(b"ok.test", 2), 2) + b"\0")
    yield "bytes in the list", h.ext(0, h.vector(b"\0" + h.vector(b"ok.test", 2) + b"\0", 2))
    yield "two extensions", h.sni("ok.test") + h.sni("ok.test")
    yield "two that differ", h.sni("ok.test") + h.sni("evil.test")
    yield "two apart", h.sni("ok.test") + h.ext(99, b"") + h.sni("evil.test")
    yield "empty name", h.sni("")
    yield "empty list", h.ext(0, b"\0\0")
    yield "empty extension", h.ext(0, b"")
    yield "list too long", h.ext(0, b"\0\xff\0" + h.vector(b"ok.test", 2))
    yield "name too long for list", h.ext(0, h.vector(b"\0\0\xffok.test", 2))
    yield "name of 256", h.sni("a" * 250 + ".w.test")
    yield "NUL in it", h.sni(b"ok.test\0.evil.test")
    yield "NUL behind", h.sni(b"ok.test\0")
    yield "NUL before", h.sni(b"\0ok.test")
    yield "NUL only", h.sni(b"\0")


def test_what_openssl_refuses_as_a_name_is_refused(battery):
    tls(battery, [(label, h.records(h.message(data)), "hello_unparsable") for label, data in broken_names()])


def test_alpn_must_be_something_that_may_be_tunnelled(battery):
    good = [(b"h2",), (b"http/1.1",), (b"h2", b"http/1.1"), (b"\x0a\x0a", b"h2")]
    bad = [(b"acme-tls/1",), (b"ftp",), (b"smtp",), (b"imap",), (b"pop3",), (b"dot",), (b"h3",), (b"h2c",), (b"http/0.9",),
           (b"h2", b"ftp"), (b"ftp", b"h2"), (b"x" * 255,), (b"H2",), (b"h2 ",), (b"h2\0",), (b"\x0a\x0a",), (b"spdy/3.1",),
           (b"ssh",), (b"irc",), (b"managesieve",), (b"c-webrtc",), (b"coap",), tuple(b"p%d" % i for i in range(100)),
           (b"postgresql",), (b"mqtt",), (b"ntske/1",), (b"doq",), (b"http/0.9",)]
    inputs = [(f"alpn {a}", h.hello("ok.test", h.alpn(*a)), "ok") for a in good]
    inputs += [(f"alpn {a}", h.hello("ok.test", h.alpn(*a)), "alpn_refused") for a in bad]
    malformed = [h.ext(16, b""), h.ext(16, b"\0\0"), h.ext(16, b"\0\1\0"), h.ext(16, b"\0\3\x02h2\0"), h.ext(16, b"\0\4\x03h2"),
                 h.alpn(b"h2") + h.alpn(b"h2"), h.ext(16, b"\0\x03\x00\x01h"), h.ext(16, b"\x00\xff\x02h2")]
    inputs += [(f"malformed {m}", h.hello("ok.test", m), "hello_unparsable") for m in malformed]
    tls(battery, inputs)


def test_names_of_connect_and_hello_must_be_one(battery):
    same = ["ok.test", "OK.test", "ok.test.", "OK.TEST."]
    other = ["evil.test", "a.w.test", "ok.test.evil.test", "x.ok.test", "bad.w.test", "six.w.test", "test.ok"]
    tls(battery, [(name, h.hello(name), "ok") for name in same], PINNED)
    tls(battery, [(name, h.hello(name), "name_mismatch") for name in other], PINNED)
    tls(battery, [(name, h.hello(name), {"ip_literal", "name_mismatch"}) for name in (w.OK, "127.0.0.1", "[::1]")], PINNED)


def malformed():
    """Each cut of a good message with its lengths made right, each field broken."""
    msg = h.message(h.sni("ok.test"))
    for i in range(0, len(msg) - 4, 3):
        yield f"cut at {i}", h.records(b"\x01" + h.vector(msg[4:4 + i], 3))
    yield "bytes behind", h.records(h.message(h.sni("ok.test"), tail=b"\0"))
    yield "second message in the record", h.records(h.message(h.sni("ok.test")) + h.message(h.sni("evil.test")))
    yield "no suites", h.hello(suites=b"")
    yield "odd suites", h.hello(suites=b"\x13\x01\x00")
    yield "no null compression", h.hello(compression=b"\x01\x01")
    yield "no compression", h.hello(compression=b"\x00")
    yield "session of 33", h.hello(session=bytes(33))
    yield "SSL 3", h.hello(version=0x0300, versions=None)
    yield "TLS 1.0", h.hello(version=0x0301, versions=None)
    yield "TLS 1.1", h.hello(version=0x0302, versions=None)
    yield "version 2", h.hello(version=0x0200)
    yield "only old versions", h.hello(versions=h.ext(43, b"\x04\x03\x01\x03\x02"))
    yield "empty versions", h.hello(versions=h.ext(43, b"\x00"))
    yield "odd versions", h.hello(versions=h.ext(43, b"\x03\x03\x04\x03"))
    yield "psk not last", h.hello("ok.test", h.ext(41, b"\0\0\0\0"))
    yield "early data with bytes", h.hello("ok.test", h.ext(42, b"\0"))
    yield "200 extensions", h.hello("ok.test", *[h.ext(1000 + i, b"") for i in range(200)])
    yield "server hello", h.records(b"\x02" + h.message(h.sni("ok.test"))[1:])
    yield "client key exchange", h.records(b"\x10" + h.message(h.sni("ok.test"))[1:])
    yield "hello request", h.records(b"\0\0\0\0")
    good = h.hello()
    yield "record of 2^14+1", b"\x16\x03\x01\x40\x01" + bytes(16385)
    yield "record of 64k", b"\x16\x03\x01\xff\xff" + bytes(65535)
    yield "alert in between", h.records(msg[:50]) + b"\x15\x03\x01\x00\x02\x01\x00" + h.records(msg[50:])
    yield "data in between", h.records(msg[:50]) + b"\x17\x03\x01\x00\x02ab" + h.records(msg[50:])
    yield "plain in between", good[:60] + b"GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n" + good[60:]
    yield "record version 3.5", h.records(msg[:20]) + h.records(msg[20:], version=0x0305)
    yield "record version 2", h.records(msg[:20]) + h.records(msg[20:], version=0x0203)


def test_what_does_not_parse_is_closed_and_never_plain(battery):
    refused = {"hello_unparsable", "no_sni", "hello_too_large", "timeout"}
    tls(battery, [(label, data, refused) for label, data in malformed()], closes="timeout")


def test_no_flipped_byte_reaches_another_host(battery):
    """The oracle alone: whatever is made of it, nothing goes anywhere else."""
    any_code = {"ok", "closed", "hello_unparsable", "no_sni", "bad_host", "denied_by_policy", "name_mismatch", "ech",
                "alpn_refused", "hello_too_large", "timeout", "ip_literal_nonstandard", "bad_version"}
    data = h.hello("ok.test", h.alpn(b"h2"))
    rng = random.Random(5)
    inputs = []
    for i in range(0, len(data)):
        if 11 <= i < 43:  # the random
            continue
        flipped = bytearray(data)
        flipped[i] ^= 1 << rng.randrange(8)
        inputs.append((f"flip {i}", bytes(flipped), any_code))
    tls(battery, inputs, [("box", "transparent"), ("cell", "connect")])


def not_tls():
    yield "SSH", b"SSH-2.0-OpenSSH_9.2\r\n"
    yield "SSL 2", b"\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10" + bytes(40)
    yield "SMTP", b"EHLO ok.test\r\n"
    yield "FTP", b"USER anonymous\r\n"
    yield "SMB", b"\x00\x00\x00\x2f\xffSMB" + bytes(40)
    yield "bittorrent", b"\x13BitTorrent protocol" + bytes(48)
    yield "RDP", b"\x03\x00\x00\x13\x0e\xe0" + bytes(13)
    yield "redis", b"*1\r\n$4\r\nPING\r\n"
    yield "postgres", b"\x00\x00\x00\x08\x04\xd2\x16\x2f"
    yield "socks", b"\x05\x01\x00"
    yield "socks4", b"\x04\x01\x01\xbb\x00\x00\x00\x01x\0evil.test\0"
    yield "dns", b"\x00\x1d\x12\x34\x01\x00\x00\x01" + bytes(21)
    yield "proxy v1", b"PROXY TCP4 10.77.0.2 93.184.216.66 1 443\r\n" + h.hello()
    yield "proxy v2", b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + bytes(12) + h.hello()
    yield "zero", b"\0" + h.hello()
    yield "alert first", b"\x15\x03\x01\x00\x02\x01\x00" + h.hello()
    yield "data first", b"\x17\x03\x03\x00\x04abcd" + h.hello()
    yield "ccs first", b"\x14\x03\x03\x00\x01\x01" + h.hello()
    yield "heartbeat", b"\x18\x03\x02\x00\x03\x01\x40\x00"
    yield "dtls", b"\x16\xfe\xff\x00\x00" + bytes(40)
    yield "version 2 record", b"\x16\x02\x01" + h.hello()[3:]
    yield "space", b" " + h.hello()
    yield "newline", b"\n\n" + h.hello()
    yield "mqtt", b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00"


def test_other_protocols_are_closed(battery):
    tls(battery, [(label, data, "closed") for label, data in not_tls()], closes=NO_TLS)


def test_a_tunnel_to_something_that_is_no_tls_is_cut(battery):
    answers = {b"plain.w.test": b"HTTP/1.1 200 OK\r\n\r\n", b"ssh.w.test": b"SSH-2.0-x\r\n", b"data.w.test": b"\x17\x03\x03\0\1x",
               b"ccs.w.test": b"\x14\x03\x03\x00\x01\x01", b"zero.w.test": b"\0\0\0", b"nothing.w.test": b""}
    battery.world.origin.tls_answers.update(answers)
    tls(battery, [(name, h.hello(name.decode()), "closed") for name in answers if name != b"nothing.w.test"], FREE)


def test_udp_and_other_protocols_go_nowhere(battery):
    """QUIC, DNS over QUIC, mDNS, LLMNR, NetBIOS, NTP, SNMP, SCTP, ICMP: dropped or refused."""
    quic = b"\xc3\x00\x00\x00\x01\x08" + bytes(8) + b"\x00\x00\x44\xd0" + bytes(1200)

    async def sends():
        count = 0
        for ns, address, port in itertools.product(("box", "cell"), ("8.8.8.8", w.OK, "10.0.0.5", "2606:2800:220:1::10"),
                                                   (443, 853, 5353, 5355, 137, 123, 161, 500, 4789)):
            space = battery.world.box if ns == "box" else battery.world.cell
            with space.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.setblocking(False)
                try:
                    s.sendto(quic, (address, port))
                    await asyncio.sleep(0.005)
                    assert s.recv(100) is None
                except (BlockingIOError, OSError):
                    pass
            count += 1
        for ns in ("box", "cell"):
            space = battery.world.box if ns == "box" else battery.world.cell
            for proto in (1, 2, 4, 41, 47, 50, 132, 136):
                with space.socket(socket.AF_INET, socket.SOCK_RAW, proto) as s, contextlib.suppress(OSError):
                    s.sendto(bytes(40), ("8.8.8.8", 0))
                count += 1
        return count
    battery.count("udp and raw", battery.go(sends()))
