"""A company's own package index: PyPI's simple pages and uploads below /pypi, npm's registry below /npm.

Who reads and who publishes are two accounts, and neither may do what the other does.
"""
import base64
import email
import email.policy
import hashlib
import html
import json
import re
import secrets
import urllib.parse

from company import Answer, System
from company_systems import basic

PAGE, JSON = [("Content-Type", "text/html")], [("Content-Type", "application/json")]


class Shelf(System):
    """`files`: (project, file name) -> octets; `packages`: name -> what npm is told of it."""

    unauthorized = [("WWW-Authenticate", 'Basic realm="packages"')]

    def __init__(self, url):
        self.url, self.reader, self.publisher = url, secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        reads, writes = basic("reader", self.reader), basic("publisher", self.publisher)
        super().__init__(lambda r: (reads if r.method in ("GET", "HEAD") else writes)(r))
        self.files, self.packages, self.tarballs = {}, {}, {}

    def answer(self, r):
        where, path = r.path[1:].partition("/")[::2]
        if where == "pypi":
            return self.uploaded(r) if r.method == "POST" else self.pypi(path)
        if where == "npm":
            return self.published(r, path) if r.method == "PUT" else self.npm(path)
        return Answer(404)

    # pip

    def uploaded(self, r):
        text = b"Content-Type: " + r.one("content-type").encode() + b"\r\n\r\n" + r.read()
        form = {part.get_param("name", header="content-disposition"): part
                for part in email.message_from_bytes(text, policy=email.policy.HTTP).iter_parts()}
        data, name = form["content"].get_payload(decode=True), form["content"].get_filename()
        if form["sha256_digest"].get_content().strip() != hashlib.sha256(data).hexdigest():
            return Answer(400, b"another file than its sum says\n")
        project = re.sub(r"[-_.]+", "-", form["name"].get_content().strip()).lower()
        self.files[project, name] = data
        return Answer(200, b"")

    def pypi(self, path):
        words = path.strip("/").split("/")
        if words[0] == "files" and (words[1], words[2]) in self.files:
            return Answer(200, self.files[words[1], words[2]], [("Content-Type", "application/octet-stream")])
        links = [f'<a href="../../files/{p}/{f}#sha256={hashlib.sha256(data).hexdigest()}">{html.escape(f)}</a>'
                 for (p, f), data in self.files.items() if words == ["simple", p]]
        return Answer(200, "\n".join(links).encode(), PAGE) if links else Answer(404)

    # npm

    def published(self, r, path):
        name, told = urllib.parse.unquote(path), json.loads(r.read())
        if name != told["name"]:
            return Answer(400, b'{"error": "another name"}', JSON)
        for version in told["versions"].values():
            file, = told["_attachments"]
            data = base64.b64decode(told["_attachments"][file]["data"])
            if version["dist"]["shasum"] != hashlib.sha1(data).hexdigest():
                return Answer(400, b'{"error": "another sum"}', JSON)
            where = f"{name}/-/{file.rpartition('/')[2]}"
            self.tarballs[where] = data
            version["dist"]["tarball"] = f"{self.url}/npm/{where}"
        known = self.packages.setdefault(name, {"name": name, "versions": {}})
        known["versions"].update(told["versions"])
        known["dist-tags"] = told["dist-tags"]
        return Answer(201, b'{"ok": true}', JSON)

    def npm(self, path):
        path = urllib.parse.unquote(path)
        if path in self.tarballs:
            return Answer(200, self.tarballs[path], [("Content-Type", "application/octet-stream")])
        if path in self.packages:
            return Answer(200, json.dumps(self.packages[path]).encode(), JSON)
        return Answer(404, b'{"error": "not found"}', JSON)
