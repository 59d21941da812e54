"""Files through sandgate: large ones byte for byte in little memory, windows of them, many in
one form, and one that was cut.

SANDGATE_LARGE: bytes of the large one (256 MiB; 1 GiB in a long run).
"""
import http.client
import json
import os
import pathlib
import random
import socket
import tempfile
import urllib.parse

import front as fronts
import pytest
from raw import PROXY, Raw, digest, made, resident, workers

LARGE = int(os.environ.get("SANDGATE_LARGE", 256 << 20))
PIECE = random.Random(5).randbytes(1 << 20)
ROOM = 8 << 20  # bytes of memory that a worker may take for it, whatever its size
MARK = "mark-of-this-form"


@pytest.fixture
def one(fake, front):
    standard = fake(gateway=True, keep_body=0)
    gate = front({"standard": (standard.url, standard.key)},
                 more={"limits": {"request_body": "4GiB"}})
    gate.standard = standard
    return gate


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="sandgate-files-", dir="/var/tmp") as path:
        yield pathlib.Path(path)


def pieces(size):
    """The same bytes each time, no two pieces alike."""
    for at in range(0, size, len(PIECE)):
        yield (at.to_bytes(8, "big") + PIECE[8:])[: size - at]


def part(name, head, data=b""):
    kind = "application/json" if name == "metadata" else "application/octet-stream"
    return (f'--{MARK}\r\nContent-Disposition: form-data; name="{name}"; filename="{head}"\r\n'
            f"Content-Type: {kind}\r\n\r\n").encode() + data


def form(files):
    """(length, pieces) of a form with {path: size}."""
    end = f"--{MARK}--\r\n".encode()
    heads = {path: part("metadata", "metadata", json.dumps({"path": str(path), "mode": 600}).encode() + b"\r\n")
             + part("file", "file") for path in files}

    def body():
        for path, size in files.items():
            yield heads[path]
            yield from pieces(size)
            yield b"\r\n"
        yield end
    return sum(len(heads[p]) + size + 2 for p, size in files.items()) + len(end), body()


def upload(one, ident, files, stop_after=None):
    length, body = form(files)
    with Raw(one, timeout=300) as link:
        link.send("POST", PROXY.format(ident) + "/files/upload", None, {
            "Content-Type": f"multipart/form-data; boundary={MARK}", "Content-Length": str(length)})
        sent = 0
        for piece in body:
            if stop_after is not None and sent >= stop_after:
                return None
            link.sock.sendall(piece)
            sent += len(piece)
        return link.whole()


def where(ident, path):
    return f"{PROXY.format(ident)}/files/download?path={urllib.parse.quote(str(path), safe='')}"


def download(one, ident, path, **fields):
    link = Raw(one, timeout=300).send("GET", where(ident, path), fields=fields)
    return link, *link.head()


def ends(one, op, count=1):
    return fronts.flow.wait_for(lambda: len(rows := [
        r for r in one.gate.rows(kind="exec_end") if r["exec"]["op"] == op]) >= count and rows, 20)


class Peak:
    """The most memory of its own that any worker has beyond what it had; asked while it works."""

    def __init__(self, one):
        self.pids = workers(one)
        self.before, self.most = {pid: resident(pid) for pid in self.pids}, 0

    def look(self):
        self.most = max(self.most, *(resident(pid) - self.before[pid] for pid in self.pids))


def watched(body, peak):
    for i, piece in enumerate(body):
        if i % 16 == 0:
            peak.look()
        yield piece


def test_a_large_file_goes_up_and_comes_down_byte_for_byte_in_little_memory(one, folder, report):
    ident, path = made(one), folder / "large"
    assert upload(one, ident, {folder / "small": 10})[0] == 200  # what stays is there
    want, peak = digest(pieces(LARGE)), Peak(one)
    length, body = form({path: LARGE})
    with Raw(one, timeout=300) as link:
        link.send("POST", PROXY.format(ident) + "/files/upload", None, {
            "Content-Type": f"multipart/form-data; boundary={MARK}", "Content-Length": str(length)})
        for piece in watched(body, peak):
            link.sock.sendall(piece)
        assert link.whole()[0] == 200
    assert path.stat().st_size == LARGE and path.stat().st_mode & 0o777 == 0o600
    link, status, fields = download(one, ident, path)
    with link:
        assert status == 200 and int(fields["Content-Length"]) == LARGE
        came = digest(watched(iter(lambda: link.answer.read(1 << 20), b""), peak))
    assert came == want, "what came back is what was sent"
    assert peak.most < ROOM
    up = ends(one, "files.upload", 2)[-1]["exec"]["files"][0]
    assert (up["path"], up["bytes"], up["sha256"]) == (str(path), *want)
    down = ends(one, "files.download")[0]["exec"]
    assert (down["bytes"], down["sha256"]) == want
    report["bytes up and down through sandgate"] = 2 * LARGE
    report["KiB of a worker for a large file"] = peak.most // 1024


@pytest.mark.parametrize(("window", "first", "last"), [
    ("bytes=0-0", 0, 0), ("bytes=1000000-2999999", 1000000, 2999999), ("bytes=4999990-", 4999990, 4999999),
    ("bytes=-7", 4999993, 4999999), ("bytes=4999999-9999999999", 4999999, 4999999)])
def test_a_window_of_a_file_is_that_window(one, folder, window, first, last):
    ident, path = made(one), folder / "windowed"
    whole = b"".join(pieces(5_000_000))
    path.write_bytes(whole)
    link, status, fields = download(one, ident, path, Range=window)
    with link:
        assert status == 206 and fields["Content-Range"] == f"bytes {first}-{last}/5000000"
        assert link.answer.read() == whole[first: last + 1]


@pytest.mark.parametrize("window", ["bytes=5-", "bytes=9-10", "bytes=3-2", "bytes=-", "bytes=a-b", "items=0-1"])
def test_a_window_that_is_none_is_416_as_execd_says(one, folder, window):
    ident, path = made(one), folder / "five"
    path.write_bytes(b"12345")
    link, status, fields = download(one, ident, path, Range=window)
    with link:
        assert status == 416 and fields["Content-Range"] == "bytes */5"
    link, status, fields = download(one, ident, folder / "missing", Range="bytes=0-1")
    with link:
        assert status == 404 and json.loads(link.answer.read())["code"] == "FILE_NOT_FOUND"


def test_many_files_in_one_form_are_each_in_the_ledger(one, folder):
    ident = made(one)
    sizes = [0, 1, 2, 63, 64, 4095, 4096, 65535, 65536, 65537, 1_000_003] + [random.Random(3).randrange(9000) for _ in range(20)]
    files = {folder / f"d{i % 3}" / f"f-{i} \u017c'.bin": size for i, size in enumerate(sizes)}
    assert upload(one, ident, files)[0] == 200
    for path, size in files.items():
        assert digest([path.read_bytes()]) == digest(pieces(size)), path
    told = ends(one, "files.upload")[0]["exec"]
    listed = {f["path"]: (f["bytes"], f["sha256"]) for f in told["files"]}
    assert len(told["files"]) + told.get("files_more", 0) == len(files)
    for path, size in files.items():
        assert listed.get(str(path)) in (None, digest(pieces(size))), path


def test_an_upload_that_is_cut_is_no_upload(one, folder):
    ident, path = made(one), folder / "cut"
    assert upload(one, ident, {path: 40 << 20}, stop_after=10 << 20) is None
    end = ends(one, "files.upload")[0]
    assert end["code"] == "client_gone", end
    assert not any(f["bytes"] == 40 << 20 for f in end["exec"].get("files", []))
    assert upload(one, ident, {path: 100})[0] == 200, "the next one is its own"
    assert path.stat().st_size == 100


def test_a_download_that_is_cut_is_no_whole_file(one, folder):
    ident, path = made(one), folder / "big"
    path.write_bytes(b"".join(pieces(30 << 20)))
    link, status, _ = download(one, ident, path)
    link.answer.read(1000)
    link.close()
    end = ends(one, "files.download")[0]
    assert status == 200 and end["code"] == "client_gone" and end["exec"]["bytes"] < 30 << 20


def test_an_execd_that_breaks_off_is_seen_as_that(one, folder, fake):
    from judge import Fault
    ident, path = made(one), folder / "half"
    path.write_bytes(b"".join(pieces(3 << 20)))
    one.standard.faults.add(Fault("GET", "/files/download", surface="execd", cut=1 << 20))
    link, status, fields = download(one, ident, path)
    with link, pytest.raises((http.client.IncompleteRead, ConnectionError, socket.timeout)):
        assert status == 200 and fields["Content-Length"] == str(3 << 20)
        raise http.client.IncompleteRead(b"") if len(link.answer.read()) < 3 << 20 else AssertionError("a whole file")
    end = ends(one, "files.download")[0]
    assert end["code"] in ("upstream_closed", "connection_cut", "upstream_bad_response"), end
