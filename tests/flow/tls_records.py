"""Records of TLS made by hand, behind a handshake that OpenSSL made: what no library sends."""
import hashlib
import hmac
import ssl
import struct

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

CCS, ALERT, HANDSHAKE, DATA = 20, 21, 22, 23
USER_CANCELED = b"\x01\x5a"  # a warning
KEY_UPDATE = b"\x18\x00\x00\x01\x00"


def expand(secret, label, n):
    """HKDF-Expand-Label (RFC 8446 section 7.1), one block."""
    label = b"tls13 " + label.encode()
    info = struct.pack(">H", n) + bytes([len(label)]) + label + b"\x00"
    return hmac.new(secret, info + b"\x01", hashlib.sha256).digest()[:n]


def prf(secret, label, seed, n):
    """RFC 5246 section 5."""
    seed, out, a = label + seed, b"", label + seed
    while len(out) < n:
        a = hmac.new(secret, a, hashlib.sha256).digest()
        out += hmac.new(secret, a + seed, hashlib.sha256).digest()
    return out[:n]


class Records:
    """A client's end on sock; `send` encrypts whatever it is given."""

    def __init__(self, sock, ca, name, folder, version=ssl.TLSVersion.TLSv1_3):
        context = ssl.create_default_context(cafile=ca)
        context.minimum_version = context.maximum_version = version
        context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
        log = folder / f"keys{id(self)}"
        context.keylog_filename = str(log)
        self.sock, self.is_13 = sock, version == ssl.TLSVersion.TLSv1_3
        self.near, self.far = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.near, self.far, server_hostname=name)
        heard = b""
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                sock.sendall(self.far.read())
                data = sock.recv(65536)
                assert data
                heard += data
                self.near.write(data)
        sock.sendall(self.far.read())
        context.keylog_filename = None
        keys = {k: (bytes.fromhex(r), bytes.fromhex(v)) for k, r, v in
                (text.split() for text in log.read_text().splitlines() if text[:1] != "#")}
        log.unlink()
        self.number = 0
        if self.is_13:
            self.secret = keys["CLIENT_TRAFFIC_SECRET_0"][1]
            self.rekey()
        else:
            random, master = keys["CLIENT_RANDOM"]
            block = prf(master, b"key expansion", heard[11:43] + random, 40)
            self.key, self.iv, self.number = AESGCM(block[:16]), block[32:36], 1  # 0 was Finished

    def rekey(self):
        self.key, self.iv, self.number = AESGCM(expand(self.secret, "key", 16)), expand(self.secret, "iv", 12), 0

    def update(self):
        """A key update, and our keys after it."""
        out = self.record(KEY_UPDATE, HANDSHAKE)
        self.secret = expand(self.secret, "traffic upd", 32)
        self.rekey()
        return out

    def record(self, data=b"", kind=DATA):
        number, self.number = struct.pack(">Q", self.number), self.number + 1
        if not self.is_13:
            head = bytes([kind]) + b"\x03\x03"
            sealed = self.key.encrypt(self.iv + number, data, number + head + struct.pack(">H", len(data)))
            return head + struct.pack(">H", len(sealed) + 8) + number + sealed
        head = b"\x17\x03\x03" + struct.pack(">H", len(data) + 17)
        nonce = bytes(a ^ b for a, b in zip(self.iv, b"\x00" * 4 + number))
        return head + self.key.encrypt(nonce, data + bytes([kind]), head)

    def send(self, data=b"", kind=DATA):
        self.sock.sendall(self.record(data, kind))

    def read(self):
        """What the gateway says; b"": it has closed."""
        while True:
            try:
                return self.tls.read(65536)
            except ssl.SSLWantReadError:
                data = self.sock.recv(65536)
                if not data:
                    return b""
                self.near.write(data)

    def close(self):
        self.sock.close()
