"""The real thing: dockerd in a network and mount namespace of its own, a Debian image,
official opensandbox-servers, our execd in their sandboxes.

    with RealStack() as stack:
        stack.servers["standard"].url            # http://127.0.0.1:PORT inside the namespace
        stack.run([...])                         # a command in that namespace
        stack.docker("ps")

Everything lives below one folder and one cgroup parent and goes when the block ends, also
when it failed to come up: processes by their pids, mounts with their namespace.  Nothing
outside is touched: bridges, nat rules and sysctls are the namespace's own.
"""
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import packages

SUBNET6 = "fd00:5a67::/64"
BASE, EXECD, EGRESS = "sg/base:local", "sg/execd:local", "sg/egress:local"
CGROUPS = pathlib.Path("/sys/fs/cgroup")
# A run that is killed leaves no daemon; dockerd ends its containers when it is ended.
DIES_WITH_US = ["setpriv", "--pdeathsig", "TERM"]
NEEDS = {"dockerd": "docker.io", "docker": "docker.io", "runc": "runc", "debootstrap": "debootstrap", "ip": "iproute2",
         "iptables": "iptables", "nsenter": "util-linux", "setpriv": "util-linux"}


@dataclasses.dataclass
class Server:
    """One opensandbox-server: what a client has to know of it."""

    name: str
    port: int
    key: str
    runtime: str
    log: pathlib.Path
    process: subprocess.Popen = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"


def why_not():
    """None where the stack can run, else the reason."""
    if os.geteuid() != 0:
        return "needs root"
    missing = sorted({package for program, package in NEEDS.items() if not shutil.which(program)})
    return f"no Debian package {' '.join(missing)}" if missing else None


def wait(what, test, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = test()
        if found:
            return found
        time.sleep(0.05)
    raise RuntimeError(f"{what}: not within {seconds} s")


class RealStack:
    """`tiers` maps a server's name to the docker runtime that its sandboxes get.  `network`:
    bridge, or a name (of the network and its bridge) as for a gateway in front: then
    the server refuses a networkPolicy."""

    def __init__(self, tiers=None, network="bridge", runsc=False):
        self.tiers = tiers or {"standard": "runc", "high": "strong"}
        self.network, self.runsc = network, runsc
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="osb-", dir="/tmp"))
        self.cgroup = self.folder.name
        self.ca_file = self.folder / "ca/ca.pem"  # that a gateway in front may write
        self.socket = f"unix://{self.folder}/docker.sock"
        self.holder, self.daemon, self.servers, self.isolation = None, None, {}, "simulated: runc under another name"

    def __enter__(self):
        try:
            self._up()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    # -- coming up --

    def _up(self):
        self.holder = subprocess.Popen(
            [*DIES_WITH_US, "unshare", "--net", "--mount", "--propagation", "private", "sh", "-c",
             "ip link set lo up && echo up && exec sleep infinity"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        if self.holder.stdout.readline() != b"up\n":
            raise RuntimeError("no namespace")
        self._dockerd()
        self._images()
        if self.network not in ("bridge", "host"):
            # As gateway mode has it: no traffic between sandboxes of one bridge.
            self.docker("network", "create", "--opt", "com.docker.network.bridge.enable_icc=false", "--opt",
                        f"com.docker.network.bridge.name={self.network}", "--ipv6", "--subnet", SUBNET6, self.network)
        for name, runtime in self.tiers.items():
            self._server(name, runtime)
        for server in self.servers.values():
            wait(f"server {server.name}: {server.log}", lambda s=server: self.healthy(s))

    def _runtimes(self):
        strong = {"path": shutil.which("runc")}
        if self.runsc:
            strong = {"path": str(packages.runsc()), "runtimeArgs": ["--ignore-cgroups"]}
            self.isolation = "gVisor"
        return {"strong": strong}

    def _dockerd(self):
        config = self.folder / "daemon.json"
        dns = {} if self.network in ("bridge", "host") else {"dns": ["192.0.2.53"]}
        config.write_text(json.dumps({"runtimes": self._runtimes(), **dns}))
        log = open(self.folder / "dockerd.log", "wb")
        self.daemon = self.popen(
            ["dockerd", "-H", self.socket, "--config-file", config, "--data-root", self.folder / "data", "--exec-root",
             self.folder / "exec", "--pidfile", self.folder / "pid", "--cgroup-parent", "/" + self.cgroup],
            mounts=True, stdout=log, stderr=log)
        log.close()
        wait(f"dockerd: {self.folder}/dockerd.log", self._answers)

    def _answers(self):
        if self.daemon.poll() is not None:
            raise RuntimeError("dockerd: " + (self.folder / "dockerd.log").read_text(errors="replace")[-2000:])
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(self.folder / "docker.sock"))
            return self.docker("version", check=False).returncode == 0
        return False

    def docker(self, *words, check=True, **more):
        return subprocess.run(["docker", "-H", self.socket, *map(str, words)], check=check, capture_output=True,
                              text=True, timeout=120, env={**os.environ, "DOCKER_CONFIG": str(self.folder)}, **more)

    def _images(self):
        tar = packages.image()
        self.docker("import", "--platform", "linux/amd64" if os.uname().machine == "x86_64" else "linux/arm64", tar, BASE)
        execd, egress = (packages.pack(m, self.folder / m) for m in ("execd", "egress"))
        self._image(EXECD, [(execd, "/execd"), (packages.HERE / "bootstrap.sh", "/bootstrap.sh")], [])
        self._image(EGRESS, [(egress, "/egress")], ["--change", 'ENTRYPOINT ["/egress"]'])

    def _image(self, name, files, changes):
        made = self.docker("create", BASE, "true").stdout.strip()
        for source, target in files:
            self.docker("cp", source, f"{made}:{target}")
        self.docker("commit", *changes, made, name)
        self.docker("rm", made)

    def serve(self, name, egress, more):
        """Another server on the same docker, with this egress image and these lines of [egress]."""
        self._server(name, "runc", egress, more)
        wait(f"server {name}", lambda: self.healthy(self.servers[name]))
        return self.servers[name]

    def _server(self, name, runtime, egress=EGRESS, more=""):
        port = 18100 + len(self.servers)
        home = self.folder / name
        home.mkdir()
        server = Server(name, port, f"key-of-{name}", runtime, home / "log")
        secure = "" if runtime == "runc" else f'[secure_runtime]\ntype = "gvisor"\ndocker_runtime = "{runtime}"\n'
        publish = "" if self.network in ("bridge", "host") else self._as_documented(runtime)
        low = 40000 + 1000 * len(self.servers)
        (home / "config.toml").write_text(
            f'[server]\nhost = "127.0.0.1"\nport = {port}\napi_key = "{server.key}"\n'
            f'[runtime]\ntype = "docker"\nexecd_image = "{EXECD}"\n'
            f'[docker]\nnetwork_mode = "{self.network}"\nport_range_min = {low}\nport_range_max = {low + 999}\n{publish}'
            f'[egress]\nimage = "{egress}"\n{more}[ingress]\nmode = "direct"\n'
            f'[store]\ntype = "sqlite"\npath = "{home}/store.db"\n'
            f'[storage]\nallowed_host_paths = ["{self.ca_file}"]\n{secure}')
        self.servers[name] = server
        self.start(server)

    def _as_documented(self, runtime):
        """docs/OPENSANDBOX.md: execd is for the gateway alone; gVisor doesn't reach docker's 127.0.0.11."""
        names = self.folder / "resolv.conf"
        names.write_text("nameserver 192.0.2.53\n")
        binds = "" if runtime == "runc" else f'sandbox_binds = ["{names}:/etc/resolv.conf:ro"]\n'
        return f'publish_host = "127.0.0.1"\n{binds}'

    def start(self, server):
        """Also for a test that stopped one: the same configuration, HOME and port."""
        home = server.log.parent
        with open(server.log, "ab") as log:
            server.process = self.popen(
                [packages.venv() / "opensandbox-server", "--config", home / "config.toml"], stdout=log, stderr=log,
                env={**os.environ, "HOME": str(home), "DOCKER_HOST": self.socket})

    def healthy(self, server):
        if server.process.poll() is not None:
            raise RuntimeError(f"server {server.name}: " + server.log.read_text(errors="replace")[-2000:])
        probe = ("import urllib.request, sys; "
                 f"sys.exit(urllib.request.urlopen('{server.url}/health', timeout=2).status != 200)")
        return self.run([packages.PYTHON, "-c", probe], check=False, capture_output=True).returncode == 0

    # -- inside --

    def inside(self, mounts=False):
        where = ["nsenter", "--target", str(self.holder.pid), "--net"]
        return [*where, *(["--mount"] if mounts else []), "--"]

    def run(self, command, **more):
        more.setdefault("check", True)
        return subprocess.run([*self.inside(), *map(str, command)], **more)

    def popen(self, command, mounts=False, **more):
        more.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen([*DIES_WITH_US, *self.inside(mounts), *map(str, command)], start_new_session=True, **more)

    # -- going --

    def close(self):
        for server in self.servers.values():
            end(server.process)
        if self.daemon is not None and self.daemon.poll() is None:
            with contextlib.suppress(subprocess.SubprocessError):
                left = self.docker("ps", "-aq", check=False).stdout.split()
                if left:
                    self.docker("rm", "-f", *left, check=False)
        end(self.daemon, 20)
        if self.holder is not None:
            end(self.holder)
            self.holder.stdout.close()
        for path in sorted(CGROUPS.glob(f"**/{self.cgroup}"), reverse=True):
            for below in [*sorted(path.glob("**/"), reverse=True), path]:
                with contextlib.suppress(OSError):
                    below.rmdir()
        shutil.rmtree(self.folder, ignore_errors=True)


def end(process, seconds=3):
    """Ended by its pid: asked first, then made to."""
    if process is None or process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
