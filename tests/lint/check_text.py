#!/usr/bin/env python3
"""Fail on text that has no place in the project: unfinished work, hosts of registries that
the installed tools name, absolute paths of a build machine, and what is cleaned up at its
end without a value at its beginning (an early return would free what nobody made)."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[1])
SELF = pathlib.Path(__file__).resolve()
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK|not implemented|unimplemented|for now)\b")
UNMADE = re.compile(r"\bCLEANUP\(\w+\) [^=]*;")
QUESTIONS = (["npm", "config", "get", "registry"], ["go", "env", "GOPROXY"],
             ["pip", "config", "get", "global.index-url"],
             ["python3", "-c", "from pip._internal.models.index import PyPI as p; "
              "print('https://' + p.netloc); print('https://' + p.file_storage_domain)"],
             ["apt-get", "indextargets", "--format", "$(SITE)"])


def registries():
    hosts = set()
    for command in QUESTIONS:
        try:
            out = subprocess.run(command, capture_output=True, text=True, timeout=20).stdout
        except (OSError, subprocess.TimeoutExpired):
            continue
        hosts |= set(re.findall(r"https?://([\w.-]+\.[a-z]{2,})", out))
    return {h for h in hosts if not h.endswith((".test", ".example", ".internal"))}


def main():
    hosts, bad = registries(), []
    out = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in out.stdout.split("\n"):
        path = ROOT / name
        if not name or path.resolve() == SELF or not path.is_file() or "corpus" in path.parts:
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if path.suffix in {".c", ".h", ".py", ".sh", ".def"} and UNFINISHED.search(line):
                bad.append(f"{name}:{number}: unfinished: {line.strip()[:80]}")
            if path.suffix in {".c", ".h"} and UNMADE.search(line):
                bad.append(f"{name}:{number}: CLEANUP without a value: {line.strip()[:80]}")
            bad += [f"{name}:{number}: names a registry" for h in hosts if h in line]
    print("\n".join(bad) or f"no unfinished work, none of {len(hosts)} registry hosts named")
    return bool(bad)


sys.exit(main())
