"""What each client does for each feature: a command, and what its output must be.

    commands(world, way, scheme, feature)  ->  [Step]      for a client that is a program
    together(world, scheme, features)      ->  command     for one that runs many features

Programs are told of a proxy by environment, as their users do, where they read it.
"""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"
SMALL = "small thing of {}.example.test\n"
BIG = hashlib.sha256(bytes(range(256)) * 4096 * 20).hexdigest()


class Step:
    """A command; its exit code, a pattern its output must have, and a last question."""

    def __init__(self, *command, code=0, has="", env=None, then=None):
        self.command, self.code, self.has, self.env, self.then = command, code, has, env or {}, then

    def wrong(self, code, out):
        if self.code is not None and code != self.code:
            return f"exit {code}"
        if not re.search(self.has, out, re.S):
            return f"no {self.has!r} in its output"
        return self.then() if self.then else None


class Desk:
    """One cell's place to work: a folder of its own, and the environment of its client."""

    def __init__(self, world, way, scheme, number):
        self.world, self.way, self.scheme, self.number = world, way, scheme, number
        self.dir = world.dir / "tmp" / f"cell-{number}"
        self.dir.mkdir(exist_ok=True)
        self.mib = world.dir / "mib"
        if not self.mib.exists():
            self.mib.write_bytes(b"0123456789abcdef" * 65536)

    def url(self, host, path=""):
        return f"{self.scheme}://{host}.example.test{path}"

    def env(self):
        ca, proxy = str(self.world.dir / "ca.pem"), self.way.proxy()
        env = {name: ca for name in ("CURL_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO",
                                     "NODE_EXTRA_CA_CERTS", "PIP_CERT")}
        if proxy and self.way.place != "exec":  # which tells its command itself
            env.update({f"{w}_proxy": proxy for w in ("http", "https", "all")})
            env.update({f"{w}_PROXY": proxy for w in ("HTTPS", "ALL")})
        return env

    def same(self, file, digest):
        def ask():
            with open(file, "rb") as f:
                found = hashlib.sha256(f.read()).hexdigest()
            return None if found == digest else f"{file.name}: {file.stat().st_size} other bytes"
        return ask


def curl(d, feature):
    base = ["curl", "-sS", "-m", "30"]
    if d.way.kind == "connect" and d.scheme == "http":
        base.append("--proxytunnel")  # else it is the absolute form
    www, got, upload = d.url("www", "/small"), d.dir / "got", ["--data-binary", f"@{d.mib}", d.url("www", "/post")]
    code = ["-w", "\nCODE %{http_code} IN %{time_total} BY %{num_connects}"]
    if feature == "keepalive":
        many = [w for _ in range(20) for w in ("-o", "/dev/null", www)]
        return [Step(*base, "-w", "%{http_code}/%{num_connects} ", *many, has=r"^200/1 (200/0 ){19}$")]
    if feature == "parallel":
        many = [w for _ in range(20) for w in ("-o", "/dev/null", www)]
        return [Step(*base, "-Z", "-w", "%{http_code} ", *many, has=r"(200 ){20}$")]
    return [{
        "get": lambda: Step(*base, *code, www, has=SMALL.format("www") + "\nCODE 200"),
        "ipv6": lambda: Step(*base, *code, d.url("six", "/small"), has=SMALL.format("six") + "\nCODE 200"),
        "http10": lambda: Step(*base, "-0", *code, www, has=SMALL.format("www") + "\nCODE 200"),
        "head": lambda: Step(*base, "-I", *code, www, has="(?i)x-origin: www.*CODE 200"),
        "post": lambda: Step(*base, "-H", "Expect:", *code, *upload, has="^1048576 .* length.*CODE 200"),
        "put": lambda: Step(*base, "-H", "Expect:", *code, "-T", d.mib, upload[-1], has="^1048576 .* length.*CODE 200"),
        "chunked": lambda: Step(*base, "-H", "Transfer-Encoding: chunked", *code, *upload, has="^1048576 .* chunked.*CODE 200"),
        "expect": lambda: Step(*base, "-H", "Expect: 100-continue", "--expect100-timeout", "20", *code, *upload,
                               has=r"^1048576 .*CODE 200 IN \d\."),
        "big": lambda: Step(*base, "-o", got, *code, d.url("www", "/big"), has="CODE 200", then=d.same(got, BIG)),
        "redirect": lambda: Step(*base, "-L", *code, d.url("www", "/redirect"), has=SMALL.format("other") + "\nCODE 200"),
        "redirect-denied": lambda: Step(*base, "-L", *code, d.url("www", "/redirect-denied"), code=None,
                                        has="^(?!.*small thing).*(denied_by_policy|CODE (403|000|302))"),
    }[feature]()]


def wget(d, feature):
    base = ["wget", "-nv", "-T", "20", "-t", "1", f"--ca-certificate={d.world.dir / 'ca.pem'}"]
    www, got = d.url("www", "/small"), d.dir / "got"
    return [{
        "get": lambda: Step(*base, "-O", "-", www, has=SMALL.format("www")),
        "ipv6": lambda: Step(*base, "-O", "-", d.url("six", "/small"), has=SMALL.format("six")),
        "head": lambda: Step(*base, "--spider", "-S", www, has="X-Origin: www"),
        "post": lambda: Step(*base, "-O", "-", f"--post-file={d.mib}", d.url("www", "/post"), has="1048576 .* length"),
        "big": lambda: Step(*base, "-O", got, d.url("www", "/big"), then=d.same(got, BIG)),
        "keepalive": lambda: Step("wget", "-v", *base[2:], "-O", "-", *[www] * 20, has="(Reusing existing connection.*?){19}"),
        "redirect": lambda: Step(*base, "-O", "-", d.url("www", "/redirect"), has=SMALL.format("other")),
        "redirect-denied": lambda: Step(*base, "-O", "-", d.url("www", "/redirect-denied"), code=None,
                                        has="^(?!.*small thing)"),
    }[feature]()]


def relay(d):
    """How ssh is taken through a proxy: by OpenBSD's nc."""
    if d.way.kind is None:
        return []
    return ["-o", f"ProxyCommand=nc -X {'5' if d.way.kind == 'socks5' else 'connect'} -x 10.77.1.1:3128 %h %p"]


def ssh_words(d):
    w = d.world.dir
    return ["-F", "none", "-i", w / "ssh_user", "-o", f"UserKnownHostsFile={w / 'known_hosts'}", "-o", "BatchMode=yes",
            "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=15", *relay(d)]


def ssh(d, feature):
    to = ["ssh", *ssh_words(d), "root@ssh.example.test"]
    if feature == "scp":
        got = d.dir / "got"
        return [Step("scp", "-q", *ssh_words(d), f"root@ssh.example.test:{d.mib}", got,
                     then=d.same(got, hashlib.sha256(d.mib.read_bytes()).hexdigest()))]
    return [{"run": lambda: Step(*to, "echo ran $((6*7))", has="ran 42"),
             "big": lambda: Step(*to, "head -c 20971520 /dev/zero | tr '\\0' x; echo; echo end", has="x{20971520}\nend")
             }[feature]()]


def git(d, feature):
    copy, branch = d.dir / "copy", f"b{d.number}"
    words = ["git", "-c", "user.name=t", "-c", "user.email=t@example.test", "-c", "http.lowSpeedTime=20", "-c",
             "http.lowSpeedLimit=1"]
    env, url = {}, d.url("git", "/hello.git")
    if feature == "ssh-clone":
        quoted = " ".join(f"'{w}'" for w in ssh_words(d))
        env, url = {"GIT_SSH_COMMAND": f"ssh {quoted}"}, f"root@ssh.example.test:{d.world.dir}/git/hello.git"
    steps = [Step(*words, "clone", "-q", "--single-branch", url, copy, env=env,
                  then=lambda: None if (copy / "README").exists() else "nothing was cloned")]
    if feature == "push":
        def pushed():
            found = subprocess.run(["git", "-c", "safe.directory=*", "-C", d.world.dir / "git/hello.git", "branch", "--list", branch],
                                   stdout=subprocess.PIPE, text=True, check=False).stdout
            return None if branch in found else f"no branch {branch} at the origin"
        script = f"cd {copy} && head -c 1500000 /dev/urandom >more && git add . && " \
                 f"{' '.join(words)} commit -qm more && {' '.join(words)} push -q origin HEAD:refs/heads/{branch}"
        steps.append(Step("sh", "-ec", script, env=env, then=pushed))
    return steps


def pip(d, _):
    target = d.dir / "site"
    return [Step(PYTHON, "-m", "pip", "install", "-q", "--no-cache-dir", "--disable-pip-version-check", "--root-user-action=ignore",
                 "--retries", "0", "--timeout", "20", "--trusted-host", "pypi.example.test" if d.scheme == "http" else "none",
                 "--target", target, "--index-url", d.url("pypi", "/simple/"), "sgthing",
                 env={"PIP_CONFIG_FILE": "/dev/null"},
                 then=lambda: None if (target / "sgthing.py").exists() else "nothing was installed")]


def npm(d, _):
    (d.dir / "package.json").write_text(json.dumps({"name": "user", "version": "1.0.0"}))
    where = d.dir / "node_modules/sgthing/package.json"
    return [Step("npm", "install", "--prefix", d.dir, "--registry", d.url("npm", f"/{d.scheme}/"), "--cache", d.dir / "cache",
                 "--userconfig", "/dev/null", "--no-audit", "--no-fund", "--no-update-notifier", "--fetch-retries=0",
                 "--cafile", d.world.dir / "ca.pem", "sgthing",
                 then=lambda: None if where.exists() else "nothing was installed")]


def apt(d, feature):
    for name in ("etc/apt.conf.d", "etc/preferences.d", "etc/trusted.gpg.d", "lists/partial", "archives/partial", "log"):
        (d.dir / name).mkdir(parents=True, exist_ok=True)
    (d.dir / "status").touch()
    (d.dir / "etc/sources.list").write_text(f"deb [trusted=yes] {d.url('deb')}/ stable main\n")
    options = {"Dir::Etc": d.dir / "etc", "Dir::Etc::sourcelist": d.dir / "etc/sources.list", "Dir::Etc::sourceparts": "-",
               "Dir::State": d.dir, "Dir::State::status": d.dir / "status", "Dir::State::lists": d.dir / "lists",
               "Dir::Cache": d.dir, "Dir::Cache::archives": d.dir / "archives", "Dir::Log": d.dir / "log",
               "APT::Sandbox::User": "root", "Acquire::Retries": "0", "Acquire::http::Timeout": "20",
               "Acquire::https::Timeout": "20", "Acquire::https::CAInfo": d.world.dir / "ca.pem", "Acquire::Languages": "none"}
    words = ["apt-get", "-q", *(w for k, v in options.items() for w in ("-o", f"{k}={v}"))]
    update = Step(*words, "update", has="^(?!.*(Err:|W:)).*Get:")
    if feature == "update":
        return [update]
    deb = d.dir / "archives/sgthing_1.0_all.deb"
    return [update, Step(*words, "install", "-y", "--download-only", "sgthing",
                         then=lambda: None if deb.exists() else "nothing was fetched")]


def psql(d, feature):
    options = {"tls": "sslmode=verify-full sslrootcert=" + str(d.world.dir / "ca.pem")}.get(feature, "sslmode=disable")
    words = ["psql", "-X", "-At", f"host=db.example.test user=postgres dbname=postgres connect_timeout=15 {options}", "-c"]
    return [{"query": lambda: Step(*words, "select 6*7", has="^42$"),
             "tls": lambda: Step(*words, "select 6*7, ssl from pg_stat_ssl where pid = pg_backend_pid()", has=r"^42\|t$"),
             "big": lambda: Step(*words, "select repeat('x', 1024) from generate_series(1, 10240)", has="^(x{1024}\n){10240}$")
             }[feature]()]


PROGRAMS = {"curl": curl, "wget": wget, "git": git, "pip": pip, "npm": npm, "apt": apt, "ssh": ssh, "psql": psql}


def together(client, world, scheme, features):
    """The command of a client that runs all its features of a way in one process."""
    if client == "node":
        return ["node", HERE / "node.mjs", scheme, *features]
    if client == "go":
        return [world.dir / "go-client", scheme, *features]
    return [PYTHON, HERE / "libraries.py", client, scheme, *features]


def start_go(world):
    """The first build of its standard library takes long: it runs while others are tried."""
    env = {**world.env, "GOCACHE": str(HERE.parents[1] / "build/gocache"), "GOPATH": str(world.dir / "gopath"), "GOFLAGS": "",
           "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GO111MODULE": "off"}
    return world.start(["go", "build", "-o", world.dir / "go-client", HERE / "client.go"], "go.log", env=env, cwd=world.dir)


def absent(client, env):
    """Why this machine can't run a client, or None."""
    if client in ("requests", "httpx", "aiohttp"):
        done = subprocess.run([PYTHON, "-c", f"import {client}"], capture_output=True, check=False)
        return f"no Debian package python3-{client}" if done.returncode else None
    if client == "pip":
        done = subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True, check=False)
        return "no Debian package python3-pip" if done.returncode else None
    if client == "ssh" and not os.path.exists("/usr/sbin/sshd"):
        return "no Debian package openssh-server"
    if client == "psql" and not list(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        return "no Debian package postgresql"
    program = {"apt": "apt-get"}.get(client, client)
    return None if shutil.which(program, path=env["PATH"]) else f"{program} is not installed"
