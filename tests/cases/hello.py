"""ClientHellos of every make."""
import os
import struct


def vector(data, size):
    return len(data).to_bytes(size, "big") + data


def ext(kind, data):
    return struct.pack("!H", kind) + vector(data, 2)


def sni(name, kind=0):
    name = name.encode("latin-1") if isinstance(name, str) else name
    return ext(0, vector(bytes([kind]) + vector(name, 2), 2))


def alpn(*names):
    return ext(16, vector(b"".join(vector(n, 1) for n in names), 2))


VERSIONS = ext(43, b"\x04\x03\x04\x03\x03")
OTHERS = [ext(10, b"\x00\x04\x00\x1d\x00\x17"), ext(13, b"\x00\x06\x04\x03\x08\x04\x04\x01"),
          ext(51, vector(b"\x00\x1d" + vector(bytes(32), 2), 2)), ext(45, b"\x01\x01"), ext(23, b"")]


def message(*extensions, version=0x0303, suites=b"\x13\x01\xc0\x2b", session=bytes(32), compression=b"\x01\x00",
            versions=VERSIONS, others=True, block=None, tail=b""):
    """A handshake message; extensions as given, then what every client sends."""
    parts = list(extensions) + ([versions] if versions else []) + (OTHERS if others else [])
    body = struct.pack("!H", version) + os.urandom(32) + vector(session, 1) + vector(suites, 2) + compression
    body += vector(b"".join(parts), 2) if block is None else block
    return b"\x01" + vector(body + tail, 3)


def records(msg, size=16384, version=0x0301, empty_first=0):
    cut = [b""] * empty_first + [msg[i:i + size] for i in range(0, len(msg), size)]
    return b"".join(b"\x16" + struct.pack("!H", version) + vector(piece, 2) for piece in cut)


def hello(name="ok.test", *more, **kw):
    return records(message(*([sni(name)] if name is not None else []), *more, **kw))
