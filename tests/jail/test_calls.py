"""A role that somebody took over asks the kernel for what it never needs."""
import os
import re
import stat
import subprocess
import tempfile

import pytest

import conftest
from conftest import INJECT, ROLES, flow, inject, serves

PASSWD, TRUE = b"/etc/passwd\0", b"/bin/true\0"
ADDRESS = b"\x02\0\x11\x5c\x7f\0\0\x01" + b"\0" * 8  # 127.0.0.1:4444
MSGHDR = b"".join(n.to_bytes(8, "little") for n in (64, 16, 80, 1, 0, 0, 0)).ljust(64, b"\0") + ADDRESS + \
    (96).to_bytes(8, "little") + (4).to_bytes(8, "little") + b"leak"
FASTOPEN = 0x20000000
# name: (words, roles that may)
CALLS = {
    "socket of IPv4": (["41", "2", "1", "0"], ["dialer"]),
    "socket of IPv6": (["41", "10", "2", "0"], ["dialer"]),
    "socket of Unix": (["41", "1", "1", "0"], []),
    "socket of netlink": (["41", "16", "3", "0"], []),
    "raw socket": (["41", "2", "3", "1"], []),
    "socketpair": (["53", "1", "1", "0", "&0", "--data", "00" * 8], ["worker.0"]),  # a lane
    "connect": (["42", "3", "&0", "16", "--data", ADDRESS.hex()], []),
    "open": (["2", "&0", "0", "0", "--data", PASSWD.hex()], []),
    "openat": (["257", "-100", "&0", "0", "0", "--data", PASSWD.hex()], []),
    "openat to write": (["257", "-100", "&0", "66", "438", "--data", b"/tmp/sandgate-jail\0".hex()], []),
    "openat2": (["437", "-100", "&0", "&16", "24", "--data", PASSWD.ljust(40, b"\0").hex()], []),
    "execve": (["59", "&0", "0", "0", "--data", TRUE.hex()], []),
    "execveat": (["322", "-100", "&0", "0", "0", "0", "--data", TRUE.hex()], []),
    "io_uring_setup": (["425", "4", "&0", "--data", "00" * 128], []),
    "ptrace": (["101", "16", "1", "0", "0"], []),
    "process_vm_readv": (["310", "1", "0", "0", "0", "0", "0"], []),
    "pidfd_open": (["434", "1", "0"], []),
    "pidfd_getfd": (["438", "3", "0", "0"], []),
    "fork": (["57"], []),
    "vfork": (["58"], []),
    "clone": (["56", "17", "0", "0", "0", "0"], []),
    "clone3": (["435", "&0", "88", "--data", "00" * 88], []),
    "mprotect to execute": (["10", "&0", "4096", "5", "--data", "00"], []),
    "mmap to execute": (["9", "0", "4096", "7", "34", "-1", "0"], []),
    "bind": (["49", "3", "&0", "16", "--data", ADDRESS.hex()], []),
    "listen": (["50", "3", "8"], []),
    "sendto with fast open": (["44", "3", "&0", "4", FASTOPEN, "&0", "16", "--data", ADDRESS.hex()], []),
    # answers of dns and queries of the dialer carry one; on a line the kernel takes no notice
    "sendto with an address": (["44", "3", "&0", "4", "0", "&0", "16", "--data", ADDRESS.hex()], ["dns", "dialer"]),
    "sendmsg with fast open": (["46", "3", "&0", FASTOPEN, "--data", MSGHDR.hex(), "--reloc", "0", "--reloc", "16", "--reloc", "80"], []),
    "kill": (["62", "1", "9"], []),
    "tgkill another": (["234", "1", "1", "9"], []),
    "setuid": (["105", "0"], []),
    "unshare": (["272", "0x10000000"], []),
    "setns": (["308", "3", "0"], []),
    "mount": (["165", "&0", "&0", "&0", "0", "0", "--data", b"/\0".hex()], []),
    "bpf": (["321", "0", "0", "0"], []),
    "userfaultfd": (["323", "0"], []),
    "prctl to be dumpable": (["157", "4", "1", "0", "0", "0"], []),
    "prlimit to more": (["302", "0", "7", "&0", "0", "--data", "ff" * 16], []),
    "setsockopt of a mark": (["54", "3", "1", "36", "&0", "4", "--data", "00" * 4], []),
    "setsockopt of a filter": (["54", "3", "1", "26", "&0", "16", "--data", "00" * 16], []),
    "fcntl to own the signals of a descriptor": (["72", "3", "8", "1"], []),
    "fcntl for a signal with each byte": (["72", "3", "4", str(os.O_RDWR | os.O_ASYNC)], []),
    "seccomp": (["317", "0", "0", "0"], []),
    "personality": (["135", "0x40000"], []),
    "unlink elsewhere": (["87", "&0", "--data", b"/etc/sandgate-none\0".hex()], []),
}


def fixed(words):
    return [str(int(w, 16)) if isinstance(w, str) and w.startswith("0x") else w for w in words]


def test_the_injector_works(two):
    g, *_ = two
    for name, pid in g.pids().items():
        assert inject(pid, 39) == ("returned", pid), name


@pytest.mark.parametrize("call", CALLS)
def test_no_role_may(two, call):
    g, a, b = two
    words, may = CALLS[call]
    before = g.pids()
    killed = []
    for role in ROLES:
        how, value = inject(before[role], *fixed(words))
        if how == "killed":
            assert value in (31, 9), role  # 9: super, of one that talks nonsense to it
            killed.append(role)
        elif role in may:
            assert value >= 0, role
        else:
            assert value < 0, (role, value)

    def back():
        try:
            now = g.pids()
        except OSError:
            return False
        return all(now[r] != before[r] for r in killed)
    flow.wait_for(back, 25)
    flow.wait_for(lambda: serves(g, "127.0.0.71", "a.example.test", a.port), 15)
    assert not serves(g, "127.0.0.71", "b.example.test", b.port)
    assert not os.path.exists("/tmp/sandgate-jail")


def facts(pid):
    with open(f"/proc/{pid}/status") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def test_what_the_kernel_says_of_each_role(two):
    g, a, b = two
    assert serves(g, "127.0.0.71", "a.example.test", a.port)
    told = {r["name"]: r for r in g.status()["roles"]}
    for role, pid in g.pids().items():
        f = facts(pid)
        assert (f["NoNewPrivs"], f["Seccomp"], f["Threads"]) == ("1", "2", "1"), role
        for caps in ("CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd"):
            assert int(f[caps], 16) == 0, (role, caps)
        assert f["Uid"].split()[0] != "0", role
        assert os.stat(f"/proc/{pid}/environ").st_uid == 0, f"{role} is dumpable"
        limits = open(f"/proc/{pid}/limits").read()
        assert re.search(r"Max core file size +0 +0 ", limits), role
        assert re.search(r"landlock", str(told[role]).lower()), told[role]


INET = {"worker.0", "dns", "dialer"}


def inet_inodes():
    found = set()
    for name in ("tcp", "tcp6", "udp", "udp6", "raw", "raw6"):
        with open(f"/proc/net/{name}") as f:
            found |= {line.split()[9] for line in list(f)[1:]}
    return found


def test_each_role_holds_only_the_descriptors_it_needs(two):
    g, a, b = two
    assert serves(g, "127.0.0.71", "a.example.test", a.port)
    inet = inet_inodes()
    for role, pid in g.pids().items():
        for fd in os.listdir(f"/proc/{pid}/fd"):
            to = os.readlink(f"/proc/{pid}/fd/{fd}")
            if to.startswith("socket:["):
                assert to[8:-1] not in inet or role in INET, (role, fd, to)
            elif to.startswith(("anon_inode:[event", "anon_inode:[timerfd", "anon_inode:[signalfd", "pipe:[", "/memfd:")):
                continue
            elif to.startswith(str(g.state)):
                assert to.startswith(str(g.state) + "/" + role) and role in ("ledger", "keeper", "control"), (role, to)
            elif to.startswith("/secretmem"):
                assert role in ("keeper", "connector.0"), (role, to)
            else:
                assert to in ("/dev/null", str(g.log)), (role, fd, to)


def compile_waiting(folder):
    """The compiler, in its jail, waiting for the operator's file: that is a pipe."""
    path = os.path.join(folder, "sandgate.yaml")
    if not os.path.exists(path):
        os.mkfifo(path, 0o644)
    ours, theirs = __import__("role_line").pair()
    child = subprocess.Popen([flow.BIN / "sandgate-compile", path], preexec_fn=lambda: os.dup2(theirs.fileno(), 3, True), close_fds=False)
    theirs.close()
    return child, ours


def test_nor_may_the_compiler():
    with tempfile.TemporaryDirectory() as folder:
        for call, (words, _) in CALLS.items():
            child, line = compile_waiting(folder)
            try:
                try:
                    flow.wait_for(lambda: facts(child.pid).get("Seccomp") == "2" or child.poll() is not None, 3)
                except AssertionError:
                    pass
                if child.poll() is not None or facts(child.pid).get("Seccomp") != "2":
                    conftest.found["absent: compiler"] = "it reads no pipe, so it can't be held"
                    pytest.skip(conftest.found["absent: compiler"])
                if call in ("open", "openat", "openat2", "unlink elsewhere"):
                    continue  # it may read any file
                how, value = inject(child.pid, *fixed(words))
                assert (how, value) == ("killed", 31) or how == "returned" and value < 0, call
            finally:
                child.kill()
                child.wait()
                line.close()
