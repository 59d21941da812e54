"""git before a forge: what it carries is not kept in any process of the gateway, however much it is."""
import os
import random
import secrets
import shutil
import subprocess
import threading
import time

import pytest
from conftest import found

from company import Company
from company_systems import Git, basic

MIB = 1 << 20
BLOB, MANY, MORE = 10 * MIB, 50, 10
GROWTH_KIB = 8 * 1024
# libcurl 7.88 may ask git for more behind the end of a body that it sends by HTTP/2 in pieces, and then
# both wait for ever: what is pushed by HTTP/2 has its length.
PUSHES = {"http1": ["-c", "http.version=HTTP/1.1"], "http2": ["-c", "http.postBuffer=256m"]}
URL = "https://github.com/acme/app.git"


def fill(repository, ref, n):
    """Commits n files, none of which can be packed smaller, or is looked at for what it shares with others."""
    words = ["git", "-C", repository, "-c", "core.compression=0", "-c", "pack.compression=0", "-c", "core.bigFileThreshold=1m",
             "-c", "core.fsync=none", "-c", "fastimport.unpackLimit=1", "fast-import", "--quiet"]
    rest = random.randbytes(BLOB - 32)
    p = subprocess.Popen(words, stdin=subprocess.PIPE)
    for at in range(n):
        p.stdin.write(b"blob\nmark :%d\ndata %d\n" % (at + 1, BLOB) + random.randbytes(32) + rest + b"\n")
    p.stdin.write(f"commit {ref}\ncommitter a <a@example.test> 1700000000 +0000\ndata 4\nmore\n".encode())
    for at in range(n):
        p.stdin.write(f"M 100644 :{at + 1} {ref.rpartition('/')[2]}-{at}\n".encode())
    p.stdin.close()
    assert p.wait() == 0


class Memory(threading.Thread):
    """The most that each role had for itself, beyond what it has now."""

    def __init__(self, h):
        super().__init__(daemon=True)
        self.h, self.before, self.most, self.is_over = h, h.memory(), {}, False

    def run(self):
        while not self.is_over:
            for role, n in self.h.memory().items():
                self.most[role] = max(self.most.get(role, 0), n - self.before[role])
            time.sleep(0.1)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.join()


class Forge:
    def __init__(self, house, folder):
        self.folder, self.bare, value = folder, folder / "repos/acme/app.git", secrets.token_urlsafe(24)
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", self.bare], check=True)
        for option, text in (("http.receivepack", "true"), ("core.bigFileThreshold", "1m"), ("core.compression", "0"), ("pack.window", "0"),
                             ("receive.unpackLimit", "1"), ("core.fsync", "none"), ("gc.auto", "0"), ("receive.autogc", "false")):
            subprocess.run(["git", "-C", self.bare, "config", option, text], check=True)
        firm = Company(folder / "firm", protocols=["http/1.1"])
        self.system = firm.add("github.com", Git(folder / "repos", basic("x-access-token", value)))
        self.h = house("github", firm=firm)
        self.h.move("github.com")
        self.h.start(**{"github/token": value})

    def git(self, *words, **kw):
        env = {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(self.folder)}
        return self.h.inside("git", "-c", "core.bigFileThreshold=1m", "-c", "core.compression=0", "-c", "pack.window=0",
                             "-c", "core.fsync=none", "-c", "gc.auto=0", *words,
                             env=env, cwd=self.folder, **kw)

    def size(self, repository):
        told = subprocess.run(["git", "-C", repository, "count-objects", "-v"], capture_output=True, text=True, check=True).stdout
        return int(dict(line.split(": ") for line in told.splitlines())["size-pack"]) // 1024


@pytest.fixture(scope="module")
def forge(house, tmp_path_factory):
    folder = tmp_path_factory.mktemp("forge")
    yield Forge(house, folder)
    shutil.rmtree(folder, ignore_errors=True)


def timed(what, n, call, *words):
    begun = time.monotonic()
    call(*words)
    found[f"git {what}"] = f"{n} MiB at {n / (time.monotonic() - begun):.0f} MiB/s"


def test_a_repository_of_500_mb_is_cloned_and_pushed_to_in_memory_that_does_not_grow(forge):
    copy = forge.folder / "copy"
    fill(forge.bare, "refs/heads/main", MANY)
    with Memory(forge.h) as memory:
        timed("clone", MANY * BLOB // MIB, forge.git, "clone", "-q", "--no-checkout", URL, copy)
        assert forge.size(copy) >= MANY * BLOB // MIB
        for branch, how in PUSHES.items():
            fill(copy, f"refs/heads/{branch}", MORE)
            timed(f"push {branch}", MORE * BLOB // MIB, forge.git, *how, "-C", copy, "push", "-q", "origin", branch)
        forge.git("-C", copy, "fetch", "-q", "--all")
    heads = [subprocess.run(["git", "-C", r, "rev-parse", *PUSHES], capture_output=True, check=True).stdout for r in (copy, forge.bare)]
    assert heads[0] == heads[1] and forge.size(forge.bare) >= (MANY + 2 * MORE) * BLOB // MIB
    assert all(n < GROWTH_KIB for n in memory.most.values()), memory.most
    found["KiB that the roles grew by"] = max(memory.most.values())
    assert [r.refused for r in forge.system.seen if r.refused] == []
    assert os.path.exists(copy / ".git/config") and "x-access-token" not in (copy / ".git/config").read_text()


def test_what_the_preset_leaves_out_git_can_not_reach(forge):
    seen = len(forge.system.seen)
    done = forge.git("ls-remote", "https://github.com/acme.git", ok=False)
    assert done.returncode != 0 and "403" in done.stderr and len(forge.system.seen) == seen, done.stderr
