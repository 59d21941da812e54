"""What a node does with the manifests, in namespaces of its own: their commands, users,
capabilities and files, without containers.  Runs below `unshare -nm`; what was seen goes to
standard output as JSON.

usage: node.py sidecar|gateway BIN FOLDER MANIFEST
"""
import base64
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import time

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from world import DNS, GOOD, POD, POD6, SINK, SINK6  # noqa: E402

SERVICE = "10.96.0.200"


def run(*words, **kw):
    return subprocess.run([str(w) for w in words], check=True, capture_output=True, text=True, timeout=60, **kw)


class Node:
    def __init__(self, bin_dir, folder, manifest):
        self.bin, self.dir = pathlib.Path(bin_dir), pathlib.Path(folder)
        self.documents = list(yaml.safe_load_all(pathlib.Path(manifest).read_text()))
        self.spec, = [d["spec"]["template"]["spec"] for d in self.documents if d["kind"] in ("DaemonSet", "Deployment")]
        self.all = {c["name"]: c for c in self.spec.get("initContainers", []) + self.spec["containers"]}
        self.world = subprocess.Popen(["unshare", "-n", "setpriv", "--pdeathsig=KILL", sys.executable, "-B", HERE / "world.py"],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
        own = os.stat("/proc/self/ns/net").st_ino
        while os.stat(f"/proc/{self.world.pid}/ns/net").st_ino == own:
            time.sleep(0.01)
        run("ip", "link", "set", "eth1", "netns", self.world.pid)
        run("ip", "addr", "add", f"{POD}/24", "dev", "eth0")
        run("ip", "addr", "add", f"{SERVICE}/32", "dev", "eth0")
        run("ip", "addr", "add", f"{POD6}/64", "dev", "eth0", "nodad")
        run("ip", "link", "set", "eth0", "up")
        self.ask("go")
        run("ip", "-4", "route", "add", "default", "via", "10.244.1.1")
        run("ip", "-6", "route", "add", "default", "via", "fd00:10:244::1")
        self.read_only()

    def ask(self, word):
        self.world.stdin.write(word + "\n")
        self.world.stdin.flush()
        return json.loads(self.world.stdout.readline())

    def read_only(self):
        """The root, as readOnlyRootFilesystem has it; only the volumes are written to."""
        run("mount", "--make-rprivate", "/")
        run("mount", "--bind", self.dir, self.dir)
        run("mount", "-o", "remount,ro,bind", "/")

    def nonsense(self):
        """In the file that all containers of a pod share, more than anybody can read: it may be the sandbox's to write."""
        path = self.dir / "resolv.conf"
        path.touch()
        os.truncate(path, 1 << 40)
        run("mount", "--bind", path, "/etc/resolv.conf")

    def volumes(self):
        """Folders for the volumes, filled from ConfigMaps and Secrets, where kubelet does."""
        for volume in self.spec["volumes"]:
            folder = self.dir / volume["name"]
            folder.mkdir()
            folder.chmod(0o777)
            for kind, key in (("ConfigMap", "name"), ("Secret", "secretName")):
                source = volume.get(kind[0].lower() + kind[1:], {})
                if key not in source:
                    continue
                found, = [d for d in self.documents if d["kind"] == kind and d["metadata"]["name"] == source[key]]
                for name, text in (found.get("data") or found["stringData"]).items():
                    path = folder / name
                    path.write_text(self.here(text))
                    if kind == "Secret":
                        os.chown(path, 0, self.spec["securityContext"]["fsGroup"])
                        path.chmod(source["defaultMode"])

    def here(self, text):
        """Paths in containers as those of this folder."""
        mounts = {m["mountPath"]: m["name"] for c in self.all.values() for m in c["volumeMounts"] if c["name"] != "sandbox"}
        for path in sorted(mounts, key=len, reverse=True):
            text = text.replace(path, str(self.dir / mounts[path]))
        return text

    def words(self, name, command=None):
        """What runs a container's command as its user, with its capabilities.  Without tini,
        which the gateway needs where it would be process 1."""
        c = self.all[name]
        command = list(command or c["command"])
        command = command[2:] if command[0] == "tini" else command
        security = {**self.spec["securityContext"], **c["securityContext"]}
        bounding = ",".join(["-all", *("+" + cap.lower() for cap in security["capabilities"].get("add", []))])
        user, group = security["runAsUser"], security.get("runAsGroup", 0)
        groups = self.spec["securityContext"].get("fsGroup")
        return ["setpriv", f"--reuid={user}", f"--regid={group}", f"--groups={groups}" if groups else "--clear-groups",
                f"--bounding-set={bounding}", f"--inh-caps={bounding}", "--no-new-privs", "--pdeathsig=KILL",
                *(self.here(w) for w in command)]

    def env(self, **more):
        return {"PATH": f"{self.bin}:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", **more}

    def start(self):
        with open(self.dir / "log", "wb") as log:
            gateway = subprocess.Popen(self.words("sandgate"), env=self.env(), stderr=log, cwd="/")
        probe = self.all["sandgate"]["startupProbe"]
        for _ in range(60):
            asked = subprocess.run(self.words("sandgate", probe["exec"]["command"]), env=self.env(), capture_output=True,
                                   check=False, timeout=30)
            if asked.returncode == 0:
                return gateway
            time.sleep(0.5)
        raise SystemExit("the gateway does not serve: " + (self.dir / "log").read_text())

    def kill(self, role):
        """Of the gateway in this namespace."""
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                is_it = (process / "comm").read_text().strip() == role[:15] and os.path.samefile(process / "ns/net", "/proc/self/ns/net")
            except OSError:
                continue  # it has ended
            if is_it:
                os.kill(int(process.name), signal.SIGKILL)

    def cli(self, *words):
        return run(*self.words("sandgate", ["sandgate", *words, "-c", "/etc/sandgate/sandgate.yaml"]), env=self.env()).stdout

    def rows(self):
        return [json.loads(line) for line in self.cli("audit", "--json").splitlines()]

    def end(self, gateway, seen):
        gateway.terminate()
        seen["exit"] = gateway.wait(50)
        seen.update(self.ask("seen"))
        self.world.kill()
        seen["log"] = (self.dir / "log").read_text()
        print(json.dumps(seen))


def sidecar(node):
    node.volumes()
    node.nonsense()
    run(*node.words("redirect"), env=node.env(POD_IPS=f"{POD},{POD6}"))
    gateway = node.start()
    run(*node.words("trust"), env=node.env())
    seen = {}
    for name, user in (("user", "1000"), ("root", "0")):
        def inside(*args):
            words = node.words("sandbox", [sys.executable, "-B", str(HERE / "inside.py"), *args])
            return json.loads(run(*(w.replace("=1000", f"={user}") for w in words), env=node.env()).stdout)

        seen[name] = inside("all", GOOD, SINK, SINK6)
        ports = node.ask("seen")["ports"]
        node.kill("sandgate-dialer")  # which keeps the sockets that it asks by
        seen[name]["again"] = inside("again", GOOD, DNS, json.dumps(ports))
    time.sleep(0.3)
    seen["rows"] = node.rows()
    seen["trust"] = (node.dir / "trust/ca.pem").read_text().count("BEGIN CERTIFICATE")
    node.end(gateway, seen)


def gateway(node):
    node.volumes()
    os.chmod(node.dir / "state", 0o755)
    run(*node.words("state"), env=node.env())
    process = node.start()
    context = ssl.create_default_context(cadata=node.cli("ca", "export"))
    seen = {}
    for token in ("change-me", "another"):
        with context.wrap_socket(socket.create_connection((SERVICE, 3129), 10), server_hostname=SERVICE) as s:
            login = base64.b64encode(f"demo:{token}".encode()).decode()
            s.sendall(f"GET http://evil.example.org/ HTTP/1.1\r\nHost: evil.example.org\r\nConnection: close\r\n"
                      f"Proxy-Authorization: Basic {login}\r\n\r\n".encode())
            seen[token] = s.recv(65536).decode()
    time.sleep(0.3)
    seen["rows"] = node.rows()
    node.end(process, seen)


if __name__ == "__main__":
    {"sidecar": sidecar, "gateway": gateway}[sys.argv[1]](Node(*sys.argv[2:]))
