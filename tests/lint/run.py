#!/usr/bin/env python3
"""All checks of form.  usage: run.py BUILD_DIR [CLANG_BUILD_DIR]: clang-tidy only with the second,
because it reads only flags of its own compiler."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests/lint"


def git_files(*patterns):
    out = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return out.stdout.split()


def tool(name):
    return shutil.which(name + "-14") or shutil.which(name)


def run(name, command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    text = (done.stdout + done.stderr).strip()
    print(f"lint {name}: {'ok' if done.returncode == 0 else 'FAILED'}"
          + (": " + text.splitlines()[-1] if done.returncode == 0 and text else ""))
    if done.returncode:
        print("\n".join(text.splitlines()[:80]))
    return done.returncode == 0


def tidy(build):
    """Each file once: many are compiled for tests as well, and would be read for each."""
    once = {}
    for row in json.loads((pathlib.Path(build) / "compile_commands.json").read_text()):
        once.setdefault(row["file"], row)
    files = [f for f in git_files("*.c") if not f.startswith("tests/") and str(ROOT / f) in once]

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        (pathlib.Path(folder) / "compile_commands.json").write_text(json.dumps([once[str(ROOT / f)] for f in files]))

        def one(name):
            done = subprocess.run([tool("clang-tidy"), "-p", folder, "--quiet", name],
                                  cwd=ROOT, capture_output=True, text=True)
            return done.stdout if done.returncode else ""

        bad = [text for text in pool.map(one, files) if text]
    print(f"lint tidy: {'FAILED' if bad else 'ok'}: {len(files)} files")
    print("\n".join(bad)[:20000], end="")
    return not bad


def main():
    build, good = sys.argv[1], []
    python = sys.executable
    good.append(run("format", [tool("clang-format"), "--dry-run", "-Werror", *git_files("*.c", "*.h")]))
    good.append(run("includes", [python, HERE / "check_includes.py", ROOT]))
    good.append(run("links", [python, HERE / "check_links.py", build]))
    good.append(run("sizes", [python, HERE / "check_sizes.py", ROOT]))
    good.append(run("text", [python, HERE / "check_text.py", ROOT]))
    for extra in ("ask_cycle.py", "check_cases.py", "check_docs.py"):
        if (HERE / extra).exists():
            good.append(run(extra.removesuffix(".py"), [python, HERE / extra, ROOT]))
    if len(sys.argv) > 2:
        good.append(tidy(sys.argv[2]))
    return not all(good)


sys.exit(main())
