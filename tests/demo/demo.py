#!/usr/bin/env python3
"""The main job, shown: a command that isn't trusted, in a box whose only exit is sandgate.

usage: demo.py BIN_DIR     exits 0 only if each step came out as expected
"""
import json
import os
import pathlib
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
BIN = pathlib.Path(sys.argv[1]).resolve()
SANDGATE = BIN / "sandgate"
PROXY = "http://198.18.0.1:3128"

CONFIG = """\
state_dir: {folder}/state
listeners:
  - {{name: exec, kind: opensandbox, address: "127.0.0.1:{exec}"}}
servers:
  - {{name: hands, url: "{hands}", key: opensandbox/hands, endpoints: ["127.0.0.0/8"]}}
exec:
  policy: coding
  warm:
    - {{name: python, size: 1, image: "demo/python:1", entrypoint: [tail, -f, /dev/null], limits: {{cpu: "1", memory: 256Mi}}}}
resolver: {{servers: ["127.0.0.1:{dns}"]}}
upstream_tls: {{ca_file: {folder}/ca.pem}}
connectors:
  - name: tracker
    hosts: [tracker.example.test]
    ports: [{https}]
    addresses: ["127.0.0.0/8"]
    auth: {{kind: bearer, secret: tracker/token, placeholder: "demo-********************************", env: TRACKER_TOKEN}}
    allow:
      - {{methods: [GET, POST], paths: ["/api/**"]}}
policies:
  coding:
    connectors: [tracker]
    allow:
      - {{hosts: [static.example.test, api.example.test, packages.example.test], ports: [{https}], addresses: ["127.0.0.0/8"]}}
      - {{hosts: [api.example.test], ports: [{http}], methods: [GET], paths: ["/v1/**"], addresses: ["127.0.0.0/8"]}}
"""


class Demo:
    def __init__(self, folder):
        self.folder, self.bad, self.config = folder, 0, folder / "sandgate.yaml"
        self.https = self.http = self.exec = self.hands = None  # ports of the little internet, and of OpenSandbox's part
        self.env = {**os.environ, "CURL_CA_BUNDLE": str(folder / "ca.pem"), "GIT_SSL_CAINFO": str(folder / "ca.pem"),
                    "SSL_CERT_FILE": str(folder / "ca.pem"), "GIT_TERMINAL_PROMPT": "0",
                    "PATH": f"{BIN}:{os.environ['PATH']}"}

    def say(self, text):
        print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n== {text}", flush=True)

    def show(self, command, code=0, holds=(), quiet=False, typed=None, lines=40):
        """Run, show, and check the exit code and what the output must hold."""
        words = [str(w) for w in command]
        print("$ " + shlex.join(words) + ("" if typed is None else "    # the value on standard input"), flush=True)
        done = subprocess.run(words, env=self.env, text=True, input=typed, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=120)
        text = done.stdout.strip()
        print("\n".join(text.splitlines()[-12:] if quiet else text.splitlines()[:lines]), flush=True)
        codes = code if isinstance(code, tuple) else (code,)
        missing = [h for h in holds if h not in text]
        if done.returncode not in codes or missing:
            self.bad += 1
            print(f"!! NOT AS EXPECTED: exit {done.returncode}, expected {codes}; missing {missing}", flush=True)
        return text

    def inside(self, *command, **kw):
        return self.show(["sandgate", "exec", "-c", self.config, "--policy", "coding", "--", *command], **kw)


def wait_for(path, what):
    for _ in range(200):
        if path.exists():
            return
        time.sleep(0.05)
    sys.exit(f"demo: {what} did not start")


def make_repository(folder):
    work, bare = folder / "work", folder / "www/git/hello.git"
    bare.parent.mkdir(parents=True)
    git = ["git", "-c", "user.name=demo", "-c", "user.email=demo@example.test", "-c", "init.defaultBranch=main"]
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([*git, "init", work], **quiet)
    (work / "README").write_text("cloned through sandgate\n")
    subprocess.run([*git, "-C", work, "add", "."], **quiet)
    subprocess.run([*git, "-C", work, "commit", "-m", "first"], **quiet)
    subprocess.run([*git, "clone", "--bare", work, bare], **quiet)
    subprocess.run([*git, "-C", bare, "update-server-info"], **quiet)


def ways(d):
    static, evil = f"https://static.example.test:{d.https}/", f"https://evil.example.test:{d.https}/"
    quick = ["curl", "-sS", "-m", "10", "--noproxy", "*"]
    d.say("1. transparent: ordinary clients, nothing configured; the allowed host answers")
    d.inside(*quick, static, holds=["hello from static.example.test"])
    d.inside("python3", "-c", "import urllib.request as u; u.install_opener(u.build_opener(u.ProxyHandler({}))); "
             f"print(u.urlopen('{static}').read().decode())", holds=["hello from static"])
    d.inside("git", "clone", "-q", static + "git/hello.git", d.folder / "clone", holds=[])
    d.show(["cat", d.folder / "clone/README"], holds=["cloned through sandgate"])
    d.say("2. the host that is not allowed does not even resolve; by address it goes nowhere")
    d.inside(*quick, evil, code=6)
    d.inside(*quick, "--resolve", f"evil.example.test:{d.https}:127.0.0.13", "--connect-to",
             f"::198.51.100.13:{d.https}", evil, holds=["denied_by_policy", "hint"])
    d.say("3. explicit proxy: CONNECT, absolute-form and SOCKS5 give the same verdicts")
    d.inside("curl", "-sS", "-m", "10", "-x", PROXY, static, holds=["hello from static"])
    d.inside("curl", "-sS", "-m", "10", "-x", PROXY, evil, code=56, holds=["403"])
    d.inside("curl", "-sS", "-m", "10", "-x", PROXY, f"http://api.example.test:{d.http}/v1/items", holds=["hello from api"])
    d.inside("curl", "-sS", "-m", "10", "-x", PROXY, f"http://evil.example.test:{d.http}/", holds=["denied_by_policy", "hint"])
    d.inside("curl", "-sS", "-m", "10", "-x", PROXY, f"http://api.example.test:{d.http}/secret", holds=["denied_path"])
    d.inside("curl", "-sS", "-m", "10", "--noproxy", "", "-x", "socks5h://198.18.0.1:3128", static, holds=["hello from static"])
    d.inside("curl", "-sS", "-m", "10", "--noproxy", "", "-x", "socks5h://198.18.0.1:3128", evil, code=97)
    d.say("4. DNS: an allowed name resolves, another is NXDOMAIN, and no packet left for it")
    d.inside("python3", "-c", "import socket; print(socket.gethostbyname('static.example.test'))", holds=["198.18."])
    d.inside("python3", "-c", "import socket; socket.gethostbyname('secret.evil.example.test')", code=1, quiet=True,
             holds=["gaierror"])
    d.say("5. what the sandbox is told about itself")
    d.inside(*quick, "http://sandgate.internal/policy", holds=["static.example.test"])


def company(d):
    token = (d.folder / "token").read_text()
    site = f"https://tracker.example.test:{d.https}"
    quick = ["curl", "-sS", "-m", "10", "--noproxy", "*"]
    d.say("6. a company system: the operator puts the token into the vault, and nobody can read it there again")
    d.show(["sandgate", "vault", "put", "tracker/token", "-c", d.config, "--expires", "90d"], typed=token,
           holds=["tracker/token version 1"])
    d.show(["sandgate", "vault", "list", "-c", d.config], holds=["tracker/token", "valid", "tracker"])
    d.say("7. the sandbox calls it with its usual client and no credential; what is not allowed is told in JSON")
    d.inside(*quick, site + "/api/issues", holds=["the build is red"])
    d.inside(*quick, "-d", '{"title": "fixed"}', site + "/api/issues", holds=["fixed"])
    d.inside(*quick, site + "/admin", holds=["denied_path", "hint"])
    d.inside(*quick, "-X", "DELETE", site + "/api/issues/7", holds=["denied_method"])
    d.inside(*quick, f"https://static.example.test:{d.https}/", holds=["hello from static"])
    d.say("8. a system that echoes what it was sent shows the placeholder only, also to a client that insists on a token")
    said = d.inside(*quick, site + "/api/echo", holds=['"authorization": "Bearer demo-'])
    said += d.inside("sh", "-c", 'curl -sS -m 10 --noproxy "*" -H "Authorization: Bearer $TRACKER_TOKEN" '
                     + site + "/api/echo; env | grep TRACKER", holds=['"authorization": "Bearer demo-', "TRACKER_TOKEN=demo-"])
    files = [p for p in d.folder.rglob("*") if p.is_file() and p.name != "token" and token.encode() in p.read_bytes()]
    print(f"\nplaces where the token itself stands, of all that was said inside and all that was written: "
          f"{(token in said) + len(files)}")
    if token in said or files:
        d.bad += 1
    d.say("9. explain and the ledger name the connector and the version of its secret")
    d.show(["sandgate", "explain", "-c", d.config, "--policy", "coding", site + "/api/issues"], holds=["tracker"])
    d.show(["sandgate", "explain", "-c", d.config, "--policy", "coding", site + "/admin"], code=1, holds=["denied_path"])
    time.sleep(0.5)
    rows = [json.loads(line) for line in subprocess.run(
        ["sandgate", "audit", "-c", d.config, "--json"], env=d.env, text=True, capture_output=True).stdout.splitlines()]
    last = [r for r in rows if r["kind"] == "response" and r.get("connector")][-1]
    d.show(["sandgate", "why", "-c", d.config, last["id"]], holds=["Connector tracker, its secret in version 1"])


def books(d):
    d.say("10. explain: the same decision, step by step, without sending anything")
    d.show(["sandgate", "explain", "-c", d.config, "--policy", "coding", f"https://static.example.test:{d.https}/"], holds=["carried unread"])
    d.show(["sandgate", "explain", "-c", d.config, "--policy", "coding", "https://evil.example.test/"], code=1,
           holds=["denied_by_policy"])
    d.say("11. the ledger: what was refused, and that nobody changed it")
    rows = d.show(["sandgate", "audit", "-c", d.config, "--denied"], holds=["evil.example.test", "denied_by_policy"])
    found = [json.loads(line) for line in subprocess.run(
        ["sandgate", "audit", "-c", d.config, "--denied", "--json"], env=d.env, text=True, capture_output=True).stdout.splitlines()]
    if found:
        d.show(["sandgate", "why", "-c", d.config, found[-1]["id"]], holds=["Refused", "Next"])
    time.sleep(0.3)
    d.show(["sandgate", "audit", "verify", "-c", d.config], holds=["is whole"])
    hits = json.loads((d.folder / "hits.json").read_text())
    leaks = {k: v for k, v in hits.items() if "evil" in k}
    print(f"\nconnections and queries that reached a host which isn't allowed: {sum(leaks.values())} {leaks or ''}")
    if leaks:
        d.bad += 1
    return rows


def first(what, seconds=30):
    """The first true value, or the last one."""
    end = time.monotonic() + seconds
    while not (found := what()) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def hands(d):
    """An agent framework's way in: OpenSandbox's API, with the gateway as its server."""
    d.say("12. execution: the server's key goes into the vault, a caller gets a key of sandgate's own, a sandbox is warm")
    d.show(["sandgate", "vault", "put", "opensandbox/hands", "-c", d.config], typed=d.hands["key"], holds=["version 1"])
    d.show(["sandgate", "servers", "-c", d.config], holds=["hands"])
    key = d.show(["sandgate", "keys", "add", "-c", d.config, "--user", "alice", "--agent", "coder", "--quiet"]).strip()
    first(lambda: "warm" in subprocess.run(["sandgate", "sandboxes", "-c", d.config], env=d.env, text=True,
                                           capture_output=True).stdout)
    d.show(["sandgate", "sandboxes", "-c", d.config], holds=["warm"])
    d.say("13. an agent works in it; what is risky waits for a person, who is somebody else")
    words = [sys.executable, str(HERE / "agent.py"), f"http://127.0.0.1:{d.exec}", key,
             f"https://tracker.example.test:{d.https}"]
    agent = subprocess.Popen(words, env=d.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    held = first(lambda: json.loads(subprocess.run(["sandgate", "approvals", "list", "-c", d.config, "--json"], env=d.env,
                                                   text=True, capture_output=True).stdout or "{}").get("approvals"), 60)
    if held:
        d.show(["sandgate", "approvals", "list", "-c", d.config], holds=["rm -rf /var/lib/demo-data"])
        d.show(["sandgate", "approvals", "allow", str(held[0]["id"]), "-c", d.config, "--note", "demo data"])
    try:
        said = agent.communicate(timeout=60)[0]
    except subprocess.TimeoutExpired:
        agent.kill()
        said = agent.communicate()[0]
    print(said.replace(key, "sgk_..."), flush=True)
    if agent.returncode != 0 or not held:
        d.bad += 1
        print(f"!! NOT AS EXPECTED: the agent's exit {agent.returncode}, held {bool(held)}", flush=True)
    box = next((w for w in said.split() if w.startswith("sb-")), "sb-none")
    d.say("14. the replay: what ran there, in order, who allowed it, and that the ledger still says what it said")
    time.sleep(0.5)
    d.show(["sandgate", "replay", "-c", d.config, box], holds=["6 * 7", "pip install", "rm -rf", "demo data"], lines=200)
    if d.hands["key"] in said:
        d.bad += 1
        print("!! the server's key was shown")


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sandgate-demo-"))
    folder.chmod(0o755)
    d, started = Demo(folder), []
    try:
        (folder / "www").mkdir()
        make_repository(folder)
        started.append(subprocess.Popen([sys.executable, HERE / "internet.py", folder]))
        wait_for(folder / "ready.json", "the little internet")
        ready = json.loads((folder / "ready.json").read_text())
        d.https, d.http = ready["https"], ready["http"]
        # Which index a sandbox installs from is the operator's to say; one of the caller's own choice is asked about.
        started.append(subprocess.Popen([sys.executable, HERE / "hands.py", folder, d.config],
                                        env={**d.env, "PIP_INDEX_URL": f"https://packages.example.test:{d.https}/simple/",
                                             "PIP_CERT": str(folder / "ca.pem")}))
        wait_for(folder / "hands.json", "what plays a server of OpenSandbox")
        d.hands = json.loads((folder / "hands.json").read_text())
        with socket.create_server(("127.0.0.1", 0)) as probe:
            d.exec = probe.getsockname()[1]
        d.config.write_text(CONFIG.format(folder=folder, exec=d.exec, hands=d.hands["url"], **ready))
        d.say("0. the configuration is checked, the gateway starts")
        print(d.config.read_text())
        d.show(["sandgate", "check", "-c", d.config])
        read, write = os.pipe()
        started.append(subprocess.Popen([SANDGATE, "run", "-c", d.config, "--ready-fd", str(write)],
                                        pass_fds=[write], stderr=open(folder / "log", "w"), env=d.env))
        os.close(write)
        if not os.read(read, 1):
            print((folder / "log").read_text())
            sys.exit("demo: the gateway did not start")
        ways(d)
        company(d)
        books(d)
        hands(d)
        d.say("15. status")
        d.show(["sandgate", "status", "-c", d.config])
    finally:
        for p in reversed(started):
            p.terminate()
            p.wait(40)
        if d.bad and (folder / "log").exists():
            print((folder / "log").read_text()[-6000:])
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{'every step came out as expected' if not d.bad else f'{d.bad} steps did not come out as expected'}")
    print(f"The executables are in {BIN}; README.md goes on with them under \"Five minutes\".")
    return 1 if d.bad else 0


sys.exit(main())
