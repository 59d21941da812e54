#!/usr/bin/env python3
"""What an agent framework does with OpenSandbox's API; here it points at sandgate.

usage: agent.py URL KEY COMPANY    prints what it did; exits 0 if all of it worked
"""
import http.client
import json
import os
import shutil
import sys
import time

AUTHORITY = sys.argv[1].removeprefix("http://")
KEY, COMPANY = sys.argv[2:4]
BODY = {"image": {"uri": "demo/python:1"}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 600,
        "resourceLimits": {"cpu": "1", "memory": "256Mi"}}


def ask(method, path, body=None, **fields):
    link = http.client.HTTPConnection(AUTHORITY, timeout=120)
    fields = {"OPEN-SANDBOX-API-KEY": KEY, "X-Sandgate-Session": "demo", **fields}
    if body is not None:
        fields["Content-Type"] = "application/json"
    link.request(method, path, None if body is None else json.dumps(body), fields)
    answer = link.getresponse()
    text = answer.read()
    if answer.status >= 300:
        sys.exit(f"{method} {path}: {answer.status} {text.decode()}")
    return text, dict(answer.getheaders())


def events(text):
    return [json.loads(line.removeprefix("data:")) for line in text.decode().splitlines() if line.strip()]


def run(box, command):
    began = time.monotonic()
    text, _ = ask("POST", f"/v1/sandboxes/{box}/proxy/44772/command", {"command": command})
    seen = events(text)
    out = "\n".join(e["text"] for e in seen if e["type"] in ("stdout", "stderr"))
    error = next((e["error"] for e in seen if e["type"] == "error"), None)
    print(f"agent$ {command}\n{out}\n   ({(time.monotonic() - began) * 1000:.0f} ms"
          + (f"; {error['ename']}: {error['evalue']})" if error else ")"), flush=True)
    return out


def main():
    began = time.monotonic()
    text, fields = ask("POST", "/v1/sandboxes", BODY)
    box = json.loads(text)["id"]
    print(f"agent: a sandbox {box} in {(time.monotonic() - began) * 1000:.0f} ms", flush=True)
    wrong = []

    def expect(out, what):
        if what not in out:
            wrong.append(what)

    expect(run(box, "python3 -c 'print(6 * 7)'"), "42")
    place = f"/tmp/agent-{os.getpid()}"
    expect(run(box, f"python3 -m pip install -q --disable-pip-version-check --no-cache-dir --root-user-action=ignore "
                    f"--target {place} greeting"), "")
    expect(run(box, f"PYTHONPATH={place} python3 -c 'import greeting; print(greeting.hello())'"), "hello from a package")
    expect(run(box, f"curl -sS --noproxy '*' {COMPANY}/api/issues"), "the build is red")
    print("agent: now something that a person is asked about", flush=True)
    expect(run(box, "rm -rf /var/lib/demo-data && echo removed"), "removed")
    for act in ("pause", "resume"):
        began = time.monotonic()
        ask("POST", f"/v1/sandboxes/{box}/{act}")
        print(f"agent: {act} took {(time.monotonic() - began) * 1000:.0f} ms", flush=True)
    expect(run(box, "echo awake again"), "awake again")
    ask("DELETE", f"/v1/sandboxes/{box}")
    print(f"agent: {box} is killed", flush=True)
    shutil.rmtree(place, ignore_errors=True)
    sys.exit(f"missing: {wrong}" if wrong else 0)


main()
