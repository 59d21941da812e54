"""The file routes of execd: info, move, permissions, replace, search, upload, download."""
import fnmatch
import grp
import json
import os
import pwd
import re
import shutil
import stat
import time

from wire import Broken

PIECE = 256 * 1024


def moment(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1e6):06d}Z"


def name_of(table, number):
    try:
        return table(number)[0]
    except KeyError:
        return str(number)


def info(path):
    found = os.lstat(path)
    kinds = ((stat.S_ISLNK, "symlink"), (stat.S_ISDIR, "directory"), (stat.S_ISREG, "file"))
    return {"path": path, "type": next((n for test, n in kinds if test(found.st_mode)), "other"),
            "size": found.st_size, "modified_at": moment(found.st_mtime), "created_at": moment(found.st_ctime),
            "owner": name_of(pwd.getpwuid, found.st_uid), "group": name_of(grp.getgrgid, found.st_gid),
            "mode": int(oct(found.st_mode & 0o777)[2:])}


def permit(path, wish):
    """Modes are written as the digits that chmod takes: 644 is rw-r--r--."""
    if wish.get("mode"):
        os.chmod(path, int(str(wish["mode"]), 8))
    if wish.get("owner") or wish.get("group"):
        shutil.chown(path, wish.get("owner") or None, wish.get("group") or None)


class Parts:
    """A multipart body read once: `next_part` gives name, file name and a reader of pieces."""

    def __init__(self, request):
        kind = request.get("content-type") or ""
        found = re.fullmatch(r'multipart/form-data;\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))', kind)
        if not found:
            raise Broken(f"content type {kind!r} where a form belongs")
        self.mark = b"\r\n--" + (found[1] or found[2]).encode()
        self.pieces, self.held, self.ended = request.chunks(), b"\r\n", False
        for _ in self._until_mark():
            raise Broken("bytes before the first part")

    def _more(self):
        piece = next(self.pieces, None)
        if piece is None:
            raise Broken("the form ends early")
        self.held += piece

    def _until_mark(self):
        while True:
            at = self.held.find(self.mark)
            if at >= 0:
                if at:
                    yield self.held[:at]
                self.held = self.held[at + len(self.mark):]
                return
            safe = len(self.held) - len(self.mark)
            if safe > 0:
                yield self.held[:safe]
                self.held = self.held[safe:]
            self._more()

    def next_part(self):
        while len(self.held) < 2:
            self._more()
        if self.held[:2] == b"--":
            if self.held[2:].strip() or any(piece.strip() for piece in self.pieces):
                raise Broken("bytes after the last part")
            return None
        while b"\r\n\r\n" not in self.held:
            self._more()
        head, _, self.held = self.held[2:].partition(b"\r\n\r\n")
        names = dict(re.findall(rb'(name|filename)="((?:[^"\\]|\\.)*)"', head))
        if b"name" not in names:
            raise Broken(f"a part without a name: {head!r}")
        return names[b"name"].decode(), names.get(b"filename"), self._until_mark()


class Files:
    """One method a route.  Each answers by itself; OSError becomes the caller's 404 or 500."""

    def info(self, request, exchange):
        paths = [v for n, v in request.args if n == "path"]
        exchange.json(200, {path: info(path) for path in paths})

    def remove(self, request, exchange):
        for path in [v for n, v in request.args if n == "path"]:
            if os.path.lexists(path):
                os.remove(path)
        exchange.answer(200)

    def permissions(self, request, exchange):
        for path, wish in request.json().items():
            permit(path, wish)
        exchange.answer(200)

    def move(self, request, exchange):
        for item in request.json():
            os.makedirs(os.path.dirname(item["dest"]) or ".", exist_ok=True)
            os.rename(item["src"], item["dest"])
        exchange.answer(200)

    def replace(self, request, exchange):
        counts = {}
        for path, item in request.json().items():
            with open(path, encoding="utf-8") as file:
                text = file.read()
            counts[path] = {"replacedCount": text.count(item["old"])}
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace(item["old"], item["new"]))
        if request.arg("verbose") == "true":
            exchange.json(200, counts)
        else:
            exchange.answer(200)

    def search(self, request, exchange):
        root, pattern = request.arg("path"), request.arg("pattern") or "**"
        if not os.path.isdir(root):
            raise FileNotFoundError(root)
        loose = pattern.replace("**/", "*").replace("**", "*")
        found = []
        for folder, _, names in os.walk(root):
            for name in names:
                path = os.path.join(folder, name)
                near = os.path.relpath(path, root)
                deep = "**" in pattern or os.sep not in near
                if deep and (fnmatch.fnmatch(near, loose) or ("/" not in pattern and fnmatch.fnmatch(name, pattern))):
                    found.append(info(path))
        exchange.json(200, sorted(found, key=lambda item: item["path"]))

    def upload(self, request, exchange):
        parts, wishes, files = Parts(request), 0, 0
        wish = None
        while (part := parts.next_part()) is not None:
            name, _, pieces = part
            if name == "metadata":
                wish = json.loads(b"".join(pieces))
                wishes += 1
            elif name == "file" and wish is not None:
                self._store(wish, pieces)
                wish, files = None, files + 1
            else:
                raise Broken(f"a part {name!r} out of turn")
        if not wishes or wishes != files:
            return exchange.fail(400, "INVALID_FILE", "metadata and files don't pair up")
        return exchange.answer(200)

    @staticmethod
    def _store(wish, pieces):
        os.makedirs(os.path.dirname(wish["path"]) or ".", exist_ok=True)
        with open(wish["path"], "wb") as file:
            for piece in pieces:
                file.write(piece)
        permit(wish["path"], wish)

    def download(self, request, exchange):
        path, window = request.arg("path"), request.get("range")
        lines = request.arg("offset") is not None or request.arg("limit") is not None
        if lines and window:
            return exchange.fail(400, "INVALID_REQUEST", "Range and a window of lines exclude each other")
        if lines:
            return self._lines(request, exchange, path)
        size = os.stat(path).st_size
        name = os.path.basename(path)
        fields = [("Accept-Ranges", "bytes"), ("Content-Disposition", f'attachment; filename="{name}"')]
        first, last, status = 0, size - 1, 200
        if window:
            found = re.fullmatch(r"bytes=(\d*)-(\d*)", window)
            first, last = self._window(found, size)
            if first is None:
                return exchange.answer(416, fields=[("Content-Range", f"bytes */{size}")])
            status = 206
            fields.append(("Content-Range", f"bytes {first}-{last}/{size}"))
        return self._send(exchange, path, (status, fields), (first, last))

    @staticmethod
    def _window(found, size):
        if not found or not (found[1] or found[2]):
            return None, None
        if not found[1]:
            return max(0, size - int(found[2])), size - 1
        first = int(found[1])
        last = min(int(found[2]) if found[2] else size - 1, size - 1)
        return (first, last) if first <= last and first < size else (None, None)

    @staticmethod
    def _send(exchange, path, head, window):
        left = window[1] - window[0] + 1
        exchange.begin(head[0], "application/octet-stream", head[1], length=left)
        with open(path, "rb") as file:
            file.seek(window[0])
            while left > 0:
                piece = file.read(min(PIECE, left))
                exchange.write(piece)
                left -= len(piece)
        exchange.end()

    @staticmethod
    def _lines(request, exchange, path):
        first, count = int(request.arg("offset") or 1), request.arg("limit")
        with open(path, "rb") as file:
            lines = file.readlines()
        picked = lines[max(0, first - 1):]
        exchange.answer(200, b"".join(picked[: int(count)] if count else picked), "text/plain; charset=utf-8")

    def list(self, request, exchange):
        root, depth = request.arg("path"), int(request.arg("depth") or 1)
        found, level = [], [root]
        for _ in range(depth):
            below = []
            for folder in level:
                for entry in sorted(os.scandir(folder), key=lambda e: e.name):
                    found.append(info(entry.path))
                    if entry.is_dir(follow_symlinks=False):
                        below.append(entry.path)
            level = below
        exchange.json(200, found)

    def make(self, request, exchange):
        for path, wish in request.json().items():
            os.makedirs(path, exist_ok=True)
            permit(path, wish or {})
        exchange.answer(200)

    def unmake(self, request, exchange):
        for path in [v for n, v in request.args if n == "path"]:
            shutil.rmtree(path)
        exchange.answer(200)
