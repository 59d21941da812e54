#!/usr/bin/env python3
"""Fail when an executable names a shared library that its role has no business with."""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
ALWAYS = {"libc", "ld-linux-x86-64", "ld-linux-aarch64", "libm"}


def allowed():
    for line in (HERE / "link_lines").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, libraries = line.partition(":")
            yield name, set(libraries.split()) | ALWAYS


def needed(path):
    out = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True)
    for name in re.findall(r"\(NEEDED\).*\[(.+?)\]", out.stdout):
        yield re.sub(r"(-[0-9.]+)?\.so.*$", "", name)


def main():
    bin_dir, bad = pathlib.Path(sys.argv[1]) / "bin", []
    rules = dict(allowed())
    for path in sorted(bin_dir.glob("sandgate*")):
        if path.name not in rules:
            bad.append(f"{path.name}: not in tests/lint/link_lines")
            continue
        for library in needed(path):
            if library not in rules[path.name]:
                bad.append(f"{path.name} may not link {library}")
    for name in rules:
        if not (bin_dir / name).exists():
            bad.append(f"{name}: not built")
    print("\n".join(bad) or "link lines hold")
    return bool(bad)


sys.exit(main())
