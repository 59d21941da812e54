"""One S3 bucket under its own name, as strict as the real one: it checks signatures, sums and parts itself."""
import base64
import binascii
import hashlib
import re
import secrets
import urllib.parse
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from company import Answer
from company_systems import S3

XML = [("Content-Type", "application/xml")]
LEAST_PART = 5 << 20


def fault(status, code):
    return Answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode(), XML)


def tag(data):
    return f'"{hashlib.md5(data).hexdigest()}"'


class Bucket(S3):
    """`objects`: key -> octets; `fields`: what each object was put with; `ranges`: parts that were asked for."""

    def __init__(self, name):
        super().__init__()
        self.name, self.uploads, self.fields, self.ranges = name, {}, {}, []

    @staticmethod
    def unpacked(r, data):
        """aws-chunked: chunks that nobody signed, and a sum behind them."""
        plain, sums = b"", {}
        while True:
            line, _, data = data.partition(b"\r\n")
            size = int(line, 16)
            plain, data = plain + data[:size], data[size + (2 if size else 0):]
            if size == 0:
                break
        for line in data.decode().split("\r\n"):
            name, _, value = line.partition(":")
            sums[name.strip().lower()] = value.strip()
        if sums.get("x-amz-checksum-crc32") != base64.b64encode(binascii.crc32(plain).to_bytes(4, "big")).decode():
            return None
        return plain if int(r.one("x-amz-decoded-content-length")) == len(plain) else None

    def content(self, r):
        data, given = r.read(), r.one("content-md5")
        if (r.one("content-encoding") or "") == "aws-chunked":
            return self.unpacked(r, data)
        if given and base64.b64decode(given) != hashlib.md5(data).digest():
            return None
        return data

    def answer(self, r):
        asked, key = dict(r.parameters()), urllib.parse.unquote(r.path[1:])
        if not key:
            return self.listed(asked) if asked.get("list-type") == "2" else fault(501, "NotImplemented")
        if "uploads" in asked or "uploadId" in asked:
            return self.in_parts(r, key, asked)
        if r.method == "PUT":
            return self.put(r, key)
        if r.method == "DELETE":
            self.objects.pop(key, None)
            return Answer(204)
        return self.got(r, key)

    def put(self, r, key):
        source = r.one("x-amz-copy-source")
        data = self.objects[urllib.parse.unquote(source).split("/", 1)[1]] if source else self.content(r)
        if data is None:
            return fault(400, "BadDigest")
        self.objects[key], self.fields[key] = data, [n.lower() for n, _ in r.fields]
        body = f"<CopyObjectResult><ETag>{tag(data)}</ETag></CopyObjectResult>".encode() if source else b""
        return Answer(200, body, [("ETag", tag(data))])

    def got(self, r, key):
        if key not in self.objects:
            return fault(404, "NoSuchKey")
        data = self.objects[key]
        fields = [("ETag", tag(data)), ("Accept-Ranges", "bytes"), ("Content-Type", "binary/octet-stream")]
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", r.one("range") or "")
        if r.method == "HEAD" or not span:
            return Answer(200, data, fields)
        first, last = int(span[1]), min(int(span[2] or len(data)), len(data) - 1)
        self.ranges.append((first, last))
        return Answer(206, data[first:last + 1], [*fields, ("Content-Range", f"bytes {first}-{last}/{len(data)}")])

    def in_parts(self, r, key, asked):
        if "uploads" in asked and r.method == "POST":
            upload = secrets.token_urlsafe(12)
            self.uploads[upload] = {}
            return Answer(200, f"<InitiateMultipartUploadResult><Key>{escape(key)}</Key><UploadId>{upload}</UploadId>"
                               "</InitiateMultipartUploadResult>".encode(), XML)
        parts = self.uploads.get(asked.get("uploadId"))
        if parts is None:
            return fault(404, "NoSuchUpload")
        if r.method == "PUT":
            data = self.content(r)
            if data is None:
                return fault(400, "BadDigest")
            parts[int(asked["partNumber"])] = data
            return Answer(200, b"", [("ETag", tag(data))])
        del self.uploads[asked["uploadId"]]
        return Answer(204) if r.method == "DELETE" else self.joined(r, key, parts)

    def joined(self, r, key, parts):
        wanted = [(int(p.findtext("{*}PartNumber")), p.findtext("{*}ETag")) for p in ElementTree.fromstring(r.read())]
        if wanted != [(n, tag(parts[n])) for n in sorted(parts)]:
            return fault(400, "InvalidPart")
        if any(len(parts[n]) < LEAST_PART for n in sorted(parts)[:-1]):
            return fault(400, "EntityTooSmall")
        self.objects[key] = b"".join(parts[n] for n in sorted(parts))
        return Answer(200, f"<CompleteMultipartUploadResult><Key>{escape(key)}</Key><ETag>{tag(self.objects[key])}</ETag>"
                           "</CompleteMultipartUploadResult>".encode(), XML)

    def listed(self, asked):
        prefix, most = asked.get("prefix", ""), int(asked.get("max-keys", "1000"))
        after = base64.urlsafe_b64decode(asked.get("continuation-token", "")).decode()
        keys = [k for k in sorted(self.objects) if k.startswith(prefix) and k > after]
        page, is_cut = keys[:most], len(keys) > most
        items = "".join(f"<Contents><Key>{escape(k)}</Key><Size>{len(self.objects[k])}</Size><ETag>{tag(self.objects[k])}</ETag></Contents>"
                        for k in page)
        token = base64.urlsafe_b64encode(page[-1].encode()).decode() if is_cut else ""
        more = f"<NextContinuationToken>{token}</NextContinuationToken>" if is_cut else ""
        return Answer(200, f"<ListBucketResult><Name>{self.name}</Name><KeyCount>{len(page)}</KeyCount>"
                           f"<IsTruncated>{str(is_cut).lower()}</IsTruncated>{more}{items}</ListBucketResult>".encode(), XML)
