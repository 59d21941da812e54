#!/usr/bin/env python3
"""Fail when a function is longer than 60 lines, a file than 800, or has a banned call."""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[1])
FUNCTION_MAX, FILE_MAX, FILE_HOPE = 60, 800, 500
BANNED = ("strcpy strcat strncpy strncat sprintf vsprintf strtok strtok_r atoi atol strtol strtoul "
          "sscanf gets alloca inet_ntoa gethostbyname getaddrinfo system popen").split()
CALL = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")
OTHER = re.compile(r"\b(evhttp_|evdns_|evtag_|evrpc_|bufferevent_)\w+|SSL_VERIFY_NONE")
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
GLOBAL = re.compile(r"^(?:static )?(?!const\b|extern\b|typedef\b|enum\b|struct \w+ \{|union\b|return\b)"
                    r"(?:struct )?\w+ \*?\w+(?:\[\w*\])?(?: = [^;(]*)?;$", re.M)


def sources():
    out = subprocess.run(["git", "ls-files", "*.c", "*.h"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in out.stdout.split()]


def functions(paths):
    out = subprocess.run(["ctags", "--output-format=json", "--fields=+ne", "--kinds-C=f", "-f", "-", *map(str, paths)],
                         capture_output=True, text=True, check=True)
    for line in out.stdout.splitlines():
        tag = json.loads(line)
        if "end" in tag:
            yield tag["path"], tag["name"], tag["end"] - tag["line"] + 1


def main():
    paths, bad, long_files = sources(), [], []
    for path in paths:
        text = path.read_text()
        lines = text.count("\n")
        where = path.relative_to(ROOT)
        if lines > FILE_MAX:
            bad.append(f"{where}: {lines} lines; at most {FILE_MAX}")
        elif lines > FILE_HOPE:
            long_files.append(f"{where}: {lines}")
        code = COMMENT.sub(lambda m: "\n" * m.group().count("\n"), text)
        for number, line in enumerate(code.split("\n"), 1):
            hit = CALL.search(line) or OTHER.search(line)
            if hit:
                bad.append(f"{where}:{number}: {hit.group().rstrip('(')} is banned")
        if path.suffix == ".c" and "tests" not in where.parts:
            for hit in GLOBAL.finditer(code):
                bad.append(f"{where}:{code.count(chr(10), 0, hit.start()) + 1}: a writable global: {hit.group()}")
    lengths = sorted(n for _, _, n in functions(paths))
    for path, name, n in functions(paths):
        if n > FUNCTION_MAX:
            bad.append(f"{pathlib.Path(path).relative_to(ROOT)}: {name}() has {n} lines; at most {FUNCTION_MAX}")
    print("\n".join(bad))
    print(f"{len(paths)} files, {len(lengths)} functions, median {lengths[len(lengths) // 2]} lines, longest {lengths[-1]}")
    if long_files:
        print("over 500 lines: " + ", ".join(long_files))
    return bool(bad)


sys.exit(main())
