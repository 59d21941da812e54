"""Brings Kubernetes' own schemas into build/kubernetes, once, as a venv with a validator
that carries them.  The second run takes no time.

usage: packages.py
"""
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHELF = ROOT / "build/kubernetes"
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
PIP = ["kubernetes-validate==1.37.0"]


class Missing(Exception):
    """It can't be had; the text says why."""


def bring():
    """The venv's python."""
    note, wanted = SHELF / "venv.made", "\n".join(PIP)
    if note.exists() and note.read_text() == wanted:
        return SHELF / "venv/bin/python"
    shutil.rmtree(SHELF / "venv", ignore_errors=True)
    SHELF.mkdir(parents=True, exist_ok=True)
    for command in ([PYTHON, "-m", "venv", SHELF / "venv"],
                    [SHELF / "venv/bin/pip", "install", "-q", "--no-compile", "--disable-pip-version-check", *PIP]):
        try:
            done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300,
                                  stdin=subprocess.DEVNULL, check=False)
        except (OSError, subprocess.SubprocessError) as why:
            raise Missing(str(why)) from None
        if done.returncode:
            raise Missing(" ".join((done.stdout + done.stderr).split()[-40:]))
    note.write_text(wanted)
    return SHELF / "venv/bin/python"


if __name__ == "__main__":
    print(bring())
