"""A little internet of namespaces with one gateway in it, and the ways in.

    world    has the origins, the DNS server and `sandgate run`; its only links are to
    guest    a veth whose traffic `sandgate rules --interface` hands to the gateway
    office   a veth on which nothing but the proxy's port answers
    box      a namespace with only lo, joined by `sandgate attach`

`sandgate exec` makes its own.  None has a name or a link outside, so nothing is left when
their processes end, and a client that slips past the gateway reaches nothing.
"""
import hashlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import shelves

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BIN = pathlib.Path(os.environ.get("SANDGATE_BIN", ROOT / "build/release/bin")).resolve()
PYTHON = "/usr/bin/python3"
TOKEN = "token-of-the-clients-test"
ADDRESSES = {"www": "11.77.0.1", "other": "11.77.0.2", "git": "11.77.0.3", "pypi": "11.77.0.4", "npm": "11.77.0.5",
             "deb": "11.77.0.6", "db": "11.77.0.7", "evil": "11.77.0.66", "ssh": "127.0.0.22"}
SIX = "2a00:77::6"

PAGES = ["www", "other", "six", "git", "pypi", "npm", "deb"]
CONFIG = {
    "workers": 2,
    "timeouts": {"drain": "1s"},
    "resolver": {"servers": ["127.0.0.53"], "timeout": "2s"},
    "listeners": [
        {"name": "egress", "kind": "transparent", "address": "0.0.0.0:15001"},
        {"name": "egress6", "kind": "transparent", "address": "[::]:15001"},
        {"name": "dns", "kind": "dns", "address": "0.0.0.0:5353"},
        {"name": "dns6", "kind": "dns", "address": "[::]:5353"},
        {"name": "office", "kind": "proxy", "address": "10.77.1.1:3128"},
        {"name": "local", "kind": "proxy", "address": "127.0.0.1:3128"}],
    "sandboxes": [
        {"id": "guest", "source": ["10.77.0.2", "fd77::2"], "user": "alice", "policy": "coding"},
        {"id": "office", "source": "10.77.1.2", "user": "bob", "policy": "coding"},
        {"id": "token", "user": "ci", "policy": "coding", "token_sha256": hashlib.sha256(TOKEN.encode()).hexdigest()}],
    "policies": {"coding": {"allow": [
        {"hosts": [f"{n}.example.test" for n in PAGES], "ports": [443]},
        {"hosts": [f"{n}.example.test" for n in PAGES], "ports": [80]},
        {"hosts": ["db.example.test"], "ports": [5432], "protocol": "tcp"},
        {"hosts": ["ssh.example.test"], "ports": [22], "protocol": "tcp", "addresses": ["127.0.0.0/8"]}]}},
}
SSHD = """\
Port 22
ListenAddress 127.0.0.22
HostKey {0}/ssh_host
AuthorizedKeysFile {0}/authorized
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
UsePAM no
Subsystem sftp internal-sftp
PidFile none
"""


def wait_for(what, why, seconds=30):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise AssertionError(why() if callable(why) else why)
        time.sleep(0.03)


class World:
    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="sandgate-clients-"))
        self.dir.chmod(0o755)
        self.started, self.config = [], self.dir / "sandgate.yaml"
        self.env = {**os.environ, "HOME": str(self.dir / "home"), "LC_ALL": "C.UTF-8", "GIT_TERMINAL_PROMPT": "0",
                    "PATH": f"{os.environ['PATH']}:/usr/local/go/bin:/usr/sbin:/sbin"}
        for name in ("home", "tmp"):
            (self.dir / name).mkdir(mode=0o1777)
        for name in list(self.env):
            if name.lower().endswith("_proxy"):
                del self.env[name]

    # processes

    def start(self, command, log, **kw):
        with open(self.dir / log, "ab") as out:
            process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *(str(c) for c in command)], stdout=out,
                                       stderr=out, stdin=subprocess.PIPE, start_new_session=True, **{"env": self.env, "cwd": "/", **kw})
        self.started.append(process)
        return process

    def namespace(self, nameserver):
        """The pid of a process that holds a network and a mount namespace."""
        conf = self.dir / f"resolv-{len(self.started)}.conf"
        conf.write_text(f"nameserver {nameserver}\noptions timeout:2 attempts:2\n")
        nsswitch = self.dir / "nsswitch.conf"
        nsswitch.write_text("passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n")
        up = self.dir / f"up-{len(self.started)}"
        p = self.start(["unshare", "-n", "-m", "sh", "-ec", 'mount --bind "$0" /etc/resolv.conf\n'
                        'mount --bind "$1" /etc/nsswitch.conf\nip link set lo up\n'
                        ': >"$2"\nexec sleep infinity', conf, nsswitch, up], "namespaces.log")
        wait_for(up.exists, lambda: "namespaces can't be made here: " + (self.dir / "namespaces.log").read_text())
        return p.pid

    def inside(self, pid, *command, **kw):
        return shelves.quiet("nsenter", "-t", pid, "-n", "-m", *command, **kw)

    def join(self, guest, name, host4, guest4, host6=None, guest6=None):
        self.inside(self.world, "ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", guest)
        for pid, dev, v4, v6 in ((self.world, name, host4, host6), (guest, "eth0", guest4, guest6)):
            self.inside(pid, "ip", "addr", "add", v4 + "/24", "dev", dev)
            if v6:
                self.inside(pid, "ip", "-6", "addr", "add", v6 + "/64", "dev", dev, "nodad")
            self.inside(pid, "ip", "link", "set", dev, "up")

    # parts

    def internet(self):
        for address in ADDRESSES.values():
            if not address.startswith("127."):
                self.inside(self.world, "ip", "addr", "add", address + "/32", "dev", "lo")
        self.inside(self.world, "ip", "-6", "addr", "add", SIX + "/128", "dev", "lo", "nodad")
        zone = {f"{n}.example.test": {"A": [a]} for n, a in ADDRESSES.items()}
        zone["six.example.test"] = {"AAAA": [SIX]}
        (self.dir / "zone.json").write_text(json.dumps(zone))
        enter = ["nsenter", "-t", self.world, "-n", "-m"]
        self.start([*enter, PYTHON, ROOT / "tests/flow/fake_dns.py", "--listen", "127.0.0.53:53", self.dir / "zone.json"],
                   "dns.log")
        self.start([*enter, PYTHON, HERE / "origin.py", self.dir], "origin.log")
        wait_for((self.dir / "origin.ready").exists, lambda: "origin: " + (self.dir / "origin.log").read_text())

    def sshd(self):
        (self.dir / "sshd_config").write_text(SSHD.format(self.dir))
        # sshd insists on a directory below /run that only its service makes.
        self.start(["nsenter", "-t", self.world, "-n", "-m", "unshare", "-m", "sh", "-ec",
                    "mount -t tmpfs none /run\nmkdir /run/sshd\nexec /usr/sbin/sshd -D -e -f \"$0\"",
                    self.dir / "sshd_config"], "sshd.log")

    def postgres(self):
        where = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"))
        if not where:
            return
        data, who = self.dir / "pg", ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        data.mkdir()
        shutil.chown(data, "postgres", "postgres")
        self.inside(self.world, *who, where[-1].with_name("initdb"), "-D", data, "-A", "trust", "--no-sync", cwd="/")
        for name in ("origin.pem", "origin.key"):
            shutil.copy(self.dir / name, data / name)
            (data / name).chmod(0o600)
            shutil.chown(data / name, "postgres", "postgres")
        with open(data / "pg_hba.conf", "a") as f:
            f.write("host all all 0.0.0.0/0 trust\n")
        settings = {"listen_addresses": ADDRESSES["db"], "ssl": "on", "ssl_cert_file": "origin.pem", "fsync": "off",
                    "ssl_key_file": "origin.key", "unix_socket_directories": str(data)}
        self.start(["nsenter", "-t", self.world, "-n", "-m", *who, where[-1], "-D", data,
                    *(w for k, v in settings.items() for w in ("-c", f"{k}={v}"))], "postgres.log")
        wait_for(lambda: "ready to accept" in (self.dir / "postgres.log").read_text(),
                 lambda: (self.dir / "postgres.log").read_text())

    def gateway(self):
        self.config.write_text(json.dumps({"state_dir": str(self.dir / "state"), **CONFIG}, indent=1))
        ready, child = os.pipe()
        self.start(["nsenter", "-t", self.world, "-n", "-m", BIN / "sandgate", "run", "-c", self.config,
                    "--ready-fd", child], "gateway.log", pass_fds=[child])
        os.close(child)
        came, _, _ = select.select([ready], [], [], 30)
        said = os.read(ready, 1) if came else b""
        os.close(ready)
        assert said == b"\n", (self.dir / "gateway.log").read_text()

    def rules(self):
        """In front of guest: what sandgate says.  In front of office: only the proxy."""
        text = subprocess.run([BIN / "sandgate", "rules", "-c", self.config, "--interface", "guest"], check=True,
                              stdout=subprocess.PIPE, env=self.env).stdout
        text += b"""table inet office {
	chain input { type filter hook input priority -20; policy accept;
		iifname "office" ip daddr 10.77.1.1 tcp dport 3128 accept
		iifname "office" meta l4proto { tcp, udp } drop
	}
}
"""
        (self.dir / "rules.nft").write_bytes(text)
        self.inside(self.world, "nft", "-f", self.dir / "rules.nft")
        for pid, address in ((self.guest, "10.77.0.1"), (self.office, "10.77.1.1")):
            self.inside(pid, "ip", "route", "add", "default", "via", address)
        self.inside(self.guest, "ip", "-6", "route", "add", "default", "via", "fd77::1")

    def attach(self):
        done = subprocess.run([BIN / "sandgate", "attach", "-c", self.config, "--pid", str(self.box), "--sandbox", "box",
                               "--policy", "coding"], capture_output=True, text=True, env=self.env, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def open(self):
        shelves.fill(self.dir)
        self.world = self.namespace("127.0.0.53")
        self.guest, self.office, self.box = (self.namespace("9.9.9.9") for _ in range(3))
        self.join(self.guest, "guest", "10.77.0.1", "10.77.0.2", "fd77::1", "fd77::2")
        self.join(self.office, "office", "10.77.1.1", "10.77.1.2")
        self.internet()
        self.sshd()
        self.postgres()
        self.gateway()
        self.rules()
        self.attach()
        return self

    def close(self):
        alive = [p for p in reversed(self.started) if p.poll() is None]
        for p in alive:
            os.killpg(p.pid, signal.SIGTERM)
        for p in alive:
            try:
                p.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(p.pid, signal.SIGKILL)
                p.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    # questions

    def rows(self, *options):
        done = subprocess.run([BIN / "sandgate", "audit", "-c", self.config, "--json", *options], capture_output=True,
                              text=True, env=self.env, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def evil(self):
        log = self.dir / "evil.log"
        return log.read_text() if log.exists() else ""


class Way:
    """How a client gets out: where it runs, and the proxy it is told of, if any."""

    def __init__(self, name, place, kind=None, token=False):
        self.name, self.place, self.kind, self.token = name, place, kind, token

    def proxy(self):
        if self.kind is None or self.place == "exec":
            return "http://198.18.0.1:3128" if self.kind else None
        where = ("127.0.0.1" if self.token else "10.77.1.1") + ":3128"
        login = f"token:{TOKEN}@" if self.token else ""
        return f"{'socks5h' if self.kind == 'socks5' else 'http'}://{login}{where}"

    def command(self, world, command):
        if self.place == "exec":
            extra = [] if self.kind else ["--no-proxy-env"]
            return [BIN / "sandgate", "exec", "-c", world.config, "--policy", "coding", *extra, "--", *command]
        return ["nsenter", "-t", getattr(world, self.place), "-n", "-m", *command]

    def run(self, world, command, env=None, timeout=60):
        """(exit code, all it said, seconds)"""
        begun = time.monotonic()
        try:
            done = subprocess.run([str(c) for c in self.command(world, command)], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=timeout,
                                  env={**world.env, **(env or {})}, cwd=world.dir / "tmp", check=False)
        except subprocess.TimeoutExpired as late:
            return -1, f"no end after {timeout} s: {(late.stdout or b'').decode(errors='replace')}", timeout
        return done.returncode, done.stdout.decode(errors="replace"), time.monotonic() - begun


WAYS = {w.name: w for w in (
    Way("attach", "box"), Way("exec", "exec"), Way("exec-env", "exec", "env"), Way("transparent", "guest"),
    Way("connect", "office", "connect"), Way("absolute", "office", "absolute"), Way("socks5", "office", "socks5"),
    Way("connect-token", "world", "connect", True), Way("absolute-token", "world", "absolute", True),
    Way("socks5-token", "world", "socks5", True))}
