"""Brings what the tests need into build/opensandbox, once: a venv with the official server
and SDKs, the npm SDK, the base image, gVisor.  Each through its ordinary client; what is
there already stays, so a second run takes no time.

usage: packages.py [venv] [npm] [image] [runsc]    (venv, npm and image at the same time without any)
"""
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import zipapp

HERE = pathlib.Path(__file__).resolve().parent
SHELF = HERE.parents[1] / "build/opensandbox"
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
# The versions that shared tests were written against; a newer one is a change to look at.
PIP = ["opensandbox-server==1.1.1", "opensandbox==1.1.1", "opensandbox-code-interpreter==1.1.1",
       "opensandbox-cli==1.1.1", "opensandbox-mcp==1.1.1", "websockets"]
NPM = ["@alibaba-group/opensandbox@0.1.11"]
RUNSC = "gvisor.dev/gvisor", "v0.0.0-20260905035102-160fafc42237"
INSIDE = ["wire.py", "execd.py", "execd_run.py", "execd_files.py", "execd_pty.py", "egress.py"]


class Missing(Exception):
    """Something can't be had; the text says what and why."""


def run(name, command, timeout=900, **more):
    log = SHELF / f"{name}.log"
    with open(log, "w", encoding="utf-8") as out:
        done = subprocess.run([str(c) for c in command], stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                              timeout=timeout, check=False, **more)
    if done.returncode:
        raise Missing(f"{name}: " + " ".join(log.read_text(errors="replace").split()[-40:]))


def once(kind, wanted):
    """True where `wanted` (a text) was made before; else the old is removed."""
    note = SHELF / f"{kind}.made"
    if note.exists() and note.read_text() == wanted:
        return True
    # A debootstrap that was killed may have left its /proc mounted.
    subprocess.run(["rm", "-rf", "--one-file-system", SHELF / kind], check=False)
    return False


def venv():
    if once("venv", "\n".join(PIP)):
        return SHELF / "venv/bin"
    run("venv", [PYTHON, "-m", "venv", SHELF / "venv"])
    run("pip", [SHELF / "venv/bin/pip", "install", "-q", "--disable-pip-version-check", *PIP])
    (SHELF / "venv.made").write_text("\n".join(PIP))
    return SHELF / "venv/bin"


def npm():
    if once("npm", "\n".join(NPM)):
        return SHELF / "npm"
    (SHELF / "npm").mkdir(parents=True)
    (SHELF / "npm/package.json").write_text('{"private": true, "type": "module"}\n')
    run("npm", ["npm", "install", "--no-audit", "--no-fund", *NPM], cwd=SHELF / "npm")
    (SHELF / "npm.made").write_text("\n".join(NPM))
    return SHELF / "npm"


def mirror():
    """The one that this machine's own apt uses, or none for debootstrap's own choice."""
    out = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"],
                         capture_output=True, text=True, check=False).stdout
    return [line for line in out.split() if line.endswith("/debian")][:1]


def image():
    """The root of a Debian with Python, as a tar that docker imports."""
    include, tar = "python3,ca-certificates,curl", SHELF / "base.tar"
    if once("image", include) and tar.exists():
        return tar
    root = SHELF / "image"
    run("debootstrap", ["debootstrap", "--variant=minbase", "--include=" + include, "bookworm", root, *mirror()])
    run("tar", ["tar", "-C", root, "--exclude=./var/cache/apt", "--exclude=./var/lib/apt/lists",
                "--exclude=./usr/share/doc", "--exclude=./usr/share/locale", "--exclude=./usr/share/man",
                "-cf", tar, "."])
    shutil.rmtree(root)
    (SHELF / "image.made").write_text(include)
    return tar


def runsc():
    """gVisor: minutes of compiling, so only where it is asked for by name."""
    made = SHELF / "bin/runsc"
    if not made.exists():
        go = shutil.which("go") or "/usr/local/go/bin/go"
        if not os.path.exists(go):
            raise Missing("no go to build runsc with")
        folder = SHELF / "runsc-build"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "go.mod").write_text("module build\n\ngo 1.22\n")
        # Static, because it starts itself again in a root without a loader.
        env = {**os.environ, "CGO_ENABLED": "0", "GOBIN": str(SHELF / "bin"), "GOFLAGS": "-buildvcs=false -mod=mod"}
        run("runsc", [go, "get", "@".join(RUNSC)], cwd=folder, env=env)
        run("runsc", [go, "install", f"{RUNSC[0]}/runsc"], cwd=folder, timeout=3600, env=env)
    return made


def pack(module, out):
    """`module` with what it imports as one executable file that needs only python3."""
    folder = out.with_suffix(".d")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in INSIDE:
        shutil.copy(HERE / name, folder / name)
    (folder / "__main__.py").write_text(f"import {module}\n{module}.main()\n")
    zipapp.create_archive(folder, out, interpreter="/usr/bin/python3")
    shutil.rmtree(folder)
    out.chmod(0o755)
    return out


def bring(names=("venv", "npm", "image")):
    """{name: path or Missing}; the slow ones wait for the network, so side by side."""
    SHELF.mkdir(parents=True, exist_ok=True)
    got = {}

    def one(name):
        try:
            got[name] = globals()[name]()
        except (Missing, OSError, subprocess.SubprocessError) as why:
            got[name] = why if isinstance(why, Missing) else Missing(f"{name}: {why}")

    threads = [threading.Thread(target=one, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return got


if __name__ == "__main__":
    result = bring(sys.argv[1:] or ("venv", "npm", "image"))
    print("\n".join(f"{k}: {v}" for k, v in result.items()))
    sys.exit(any(isinstance(v, Missing) for v in result.values()))
