"""Spellings of hosts and ports that must not be taken for something else."""
import itertools
import socket
import struct

PLACES = ["127.0.0.1", "169.254.169.254", "10.0.0.5", "93.184.216.10", "0.0.0.0", "100.100.100.200"]


def parts_of(number, n):
    """An IPv4 number in n parts, as inet_aton reads them."""
    head = [(number >> s) & 255 for s in (24, 16, 8)][:n - 1]
    return head + [number & ((1 << 8 * (5 - n)) - 1)]


def odd_ipv4(address):
    """What inet_aton or a browser takes for the address, but isn't its canonical text."""
    number, = struct.unpack("!I", socket.inet_aton(address))
    write = {"dec": str, "oct": lambda v: "0%o" % v, "hex": lambda v: "0x%x" % v, "HEX": lambda v: "0X%X" % v,
             "padded oct": lambda v: "000%o" % v, "padded hex": lambda v: "0x%012x" % v}
    forms = set()
    for n in (1, 2, 3, 4):
        parts = parts_of(number, n)
        for f in write.values():
            forms.add(".".join(f(p) for p in parts))
        for a, b in (("hex", "dec"), ("oct", "dec"), ("dec", "hex"), ("dec", "oct"), ("oct", "hex")):
            forms.add(".".join([write[a](parts[0])] + [write[b](p) for p in parts[1:]]) if n > 1 else write[a](parts[0]))
    forms |= {".".join("%02d" % p for p in parts_of(number, 4)), ".".join("%03d" % p for p in parts_of(number, 4))}
    for f in list(forms):
        if len(f) < 40:
            forms.add(f + ".")
    forms.add(address + ".")
    forms.discard(address)
    return sorted(forms)


NOT_QUITE_IPV4 = ["4294967296", "256.1", "1.2.3.4.5", "1.2.3", "1.2.3.0x", "0x", "0x.0x", "1.2.3.256", "999.999.999.999",
                  "1.2.3.4.", "08.0.0.1", "127.0.0.08", "ok.test.1", "ok.test.0x7f", "ok.test.127", "a.0x0", "1..2",
                  "18446744073709551617", "0x100000000", "-1.0.0.1", "127.0.0.-1", "+127.0.0.1", "127.0.0.1e0"]

IPV6 = ["[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:1]", "[::127.0.0.1]",
        "[::ffff:0:127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::10.0.0.5]", "[64:ff9b:1::a00:5]", "[2002:7f00:1::]",
        "[2002:a00:5::1]", "[2001:0:4136:e378:8000:63bf:f5ff:fffa]", "[fe80::1]", "[fd00::1]", "[fd00:ec2::254]",
        "[fc00::1]", "[fec0::1]", "[ff02::1]", "[100::1]", "[2001:db8::1]", "[::5efe:10.0.0.5]", "[::ffff:169.254.169.254]",
        "[2606:2800:220:1::10]", "[0000:0000:0000:0000:0000:0000:0000:0001]", "[::FFFF:127.0.0.1]"]

BAD_IPV6 = ["[::1", "::1]", "[]", "[:]", "[:::1]", "[::1]]", "[[::1]]", "[::1]x", "[fe80::1%lo]", "[fe80::1%25lo]",
            "[fe80::1%251]", "[::1%25lo]", "[1:2:3:4:5:6:7]", "[1:2:3:4:5:6:7:8:9]", "[::g]", "[::ffff:127.1]",
            "[::ffff:0177.0.0.1]", "[::ffff:127.0.0.1.]", "[::00001]", "[v1.fe80::a]", "[ok.test]", "[127.0.0.1]",
            "[::1].ok.test", "[::ffff:203.0.113.9%x.w.test]"]

BAD_DOTS = [".ok.test", "ok.test..", "ok..test", "..", ".", "...ok.test", "ok.test...", "a..w.test", ".w.test", "*.w.test",
            "*", "*.test", "a.*.w.test"]

NULS = [f"{a}\0{b}" for a, b in itertools.product(("evil.test", "ok.test", "", "127.0.0.1"),
                                                  (".ok.test", "", ".w.test", "ok.test"))]
CONTROLS = [f"ok{c}.test" for c in "\x01\x07\x08\x0b\x0c\x1b\x7f"]

PERCENT = ["evil.test%00.ok.test", "ok%2etest", "ok.test%2f@evil.test", "%6fk.test", "ok.test%", "%", "ok.test%2500",
           "evil.test%0d%0a.w.test", "%6F%6B.test", "ok.test%20", "ok%E3%80%82test", "127%2e0%2e0%2e1", "%31%32%37.0.0.1",
           "ok.test%3a443", "evil.test%23.w.test", "evil.test%3f.w.test", "evil.test%5c.w.test"]

UNICODE = ["öк.test", "ｏｋ.test", "ok。test", "１２７.０.０.１", "①②⑦.0.0.1", "127。0。0。1", "℀.w.test", "ok\u200b.test",
           "o\u00adk.test", "faß.w.test", "o\u212a.test", "ok.te\u017ft", "ı.w.test", "ok．test", "ok｡test", "evil.test／.w.test",
           "evil.test＠ok.test", "evil.test：443.w.test", "evil.test\u2024w.test", "\ufeffok.test", "\u202eok.test",
           "ok.test\u0000", "ⓞⓚ.test", "𝐨𝐤.test", "evil.test？.w.test", "evil.test＃.w.test"]
HIGH_BYTES = [b"\xff.w.test", b"ok.test\x80", b"\xc0\xae.w.test", b"o\xcb\x8bk.test", b"\xe2\x80.w.test"]

HYPHENS = ["-ok.w.test", "ok-.w.test", "--ok.w.test", "-.w.test", "xn--a.w.test", "xn--.w.test", "xn---.w.test",
           "xn--bcher-kva-.w.test", "xn--ls8h=.w.test", "XN--A.w.test", "xn--0.w.test", "xn--99999999999.w.test",
           "xn--abc-.w.test"]

LONG = ["a" * 64 + ".w.test", ".".join(["a" * 63] * 4) + ".w.test", "a." * 124 + "ab.w.test",
        ".".join(["ab"] * 90) + ".w.test"]

PUNCTUATION = [f"evil.test{c}.w.test" for c in "!\"$&'()+,;<=>^`{|}~"]

NOT_ALLOWED = ["evil.test", "notok.test", "ok.test.evil.test", "xok.test", "ok.testx", "okotest.test", "w.test", "xw.test",
               "a.w.test.evil.test", "sub.ok.test", "bad.w.test", "x.bad.w.test.evil.test", "test.ok", "EVIL.TEST",
               "evil.test.", "localhost.localdomain", "metadata.internal", "instance-data.ec2.internal", "dns.google",
               "cloudflare-dns.com", "cloudflare-ech.com", "10-0-0-5.evil.test", "a-b.evil.test", "_x.evil.test",
               "ok-test.test", "okxtest.test"]
SINGLE = ["localhost", "test", "ok", "com", "localhost.", "instance-data", "metadata", "LOCALHOST", "ip6-localhost"]

BAD_PORTS = ["", "0", "65536", "99999999999", "+443", "0443", "0x1bb", "https", "-1", "٤٤٣", "443.0", "4 43", "443;", "4_43",
             "00", "443%", "１２", "18446744073709552059", "65979", "1e2", "443/", "443#", "443?", "443@", "443:443", ":443",
             "0000443", "443\0", "443\t", "\x0b443"]
OTHER_PORTS = [1, 22, 25, 53, 110, 123, 445, 853, 3128, 3306, 5353, 6379, 8080, 8443, 15001, 65535]
