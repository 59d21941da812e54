"""Writes small MaxMind databases (format 2.0), so that no real one is needed.

    write("country.mmdb", {"203.0.113.0/24": {"country": {"iso_code": "DE"}}})
"""
import ipaddress
import struct


def _control(kind, size):
    assert size < 285
    head = bytes([(kind << 5 if kind < 8 else 0) | min(size, 29)])
    if kind >= 8:
        head += bytes([kind - 7])
    return head + (bytes([size - 29]) if size >= 29 else b"")


def encode(value):
    if isinstance(value, str):
        data = value.encode()
        return _control(2, len(data)) + data
    if isinstance(value, dict):
        return _control(7, len(value)) + b"".join(encode(k) + encode(v) for k, v in value.items())
    if isinstance(value, list):
        return _control(11, len(value)) + b"".join(encode(v) for v in value)
    kind, number = value  # ("u16" | "u32" | "u64", n)
    data = number.to_bytes(8, "big").lstrip(b"\0")
    return _control({"u16": 5, "u32": 6, "u64": 9}[kind], len(data)) + data


def build(networks, kind="Test", ip_version=6):
    """The bytes of a database with 24-bit records."""
    nodes, data, offsets = [[None, None]], b"", []
    for text, value in networks.items():
        net = ipaddress.ip_network(text)
        bits = f"{int(net.network_address):0{net.max_prefixlen}b}"[:net.prefixlen]
        if net.version == 4 and ip_version == 6:
            bits = "0" * 96 + bits
        at = 0
        for bit in bits[:-1]:
            if nodes[at][int(bit)] is None:
                nodes.append([None, None])
                nodes[at][int(bit)] = len(nodes) - 1
            at = nodes[at][int(bit)]
        nodes[at][int(bits[-1])] = ("data", len(offsets))
        offsets.append(len(data))
        data += encode(value)
    count = len(nodes)

    def record(value):
        if value is None:
            number = count
        elif isinstance(value, tuple):
            number = count + 16 + offsets[value[1]]
        else:
            number = value
        return struct.pack("!I", number)[1:]

    tree = b"".join(record(left) + record(right) for left, right in nodes)
    metadata = encode({
        "node_count": ("u32", count), "record_size": ("u16", 24),
        "ip_version": ("u16", ip_version), "database_type": kind, "languages": ["en"],
        "binary_format_major_version": ("u16", 2), "binary_format_minor_version": ("u16", 0),
        "build_epoch": ("u64", 1700000000), "description": {"en": "for tests"}})
    return tree + b"\0" * 16 + data + b"\xab\xcd\xefMaxMind.com" + metadata


def write(path, networks, **more):
    with open(path, "wb") as out:
        out.write(build(networks, **more))
