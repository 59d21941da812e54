"""What the origins have on their shelves: certificates, a git repository, packages for
pip, npm and apt.  Everything is made here, from nothing, below one folder."""
import base64
import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
import zipfile

NAMES = ["www", "other", "six", "git", "pypi", "npm", "deb", "evil", "ssh", "db"]


def quiet(*command, **kw):
    subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **kw)


def certificates(folder):
    ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    quiet("openssl", "req", "-x509", *ec, "-days", "30", "-subj", "/CN=client tests CA", "-keyout", "ca.key",
          "-out", "ca.pem", "-addext", "keyUsage=critical,keyCertSign", cwd=folder)
    names = ",".join(f"DNS:{n}.example.test" for n in NAMES)
    (folder / "san.cnf").write_text(f"subjectAltName={names}\nextendedKeyUsage=serverAuth\n")
    quiet("openssl", "req", *ec, "-subj", "/CN=origin", "-keyout", "origin.key", "-out", "origin.csr", cwd=folder)
    quiet("openssl", "x509", "-req", "-in", "origin.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
          "-days", "30", "-extfile", "san.cnf", "-out", "origin.pem", cwd=folder)


def repository(folder):
    work, bare = folder / "work", folder / "git/hello.git"
    bare.parent.mkdir()
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.test", "-c", "init.defaultBranch=main"]
    quiet(*git, "init", work)
    (work / "README").write_text("cloned through sandgate\n")
    (work / "noise").write_bytes(os.urandom(300_000))  # big enough that git compresses nothing away
    quiet(*git, "-C", work, "add", ".")
    quiet(*git, "-C", work, "commit", "-m", "first")
    quiet(*git, "clone", "--bare", work, bare)
    quiet(*git, "-C", bare, "config", "http.receivepack", "true")


def wheel(folder):
    shelf = folder / "www/pypi.example.test"
    name, info = "sgthing-1.0-py3-none-any.whl", "sgthing-1.0.dist-info"
    files = {"sgthing.py": "VALUE = 42\n",
             f"{info}/METADATA": "Metadata-Version: 2.1\nName: sgthing\nVersion: 1.0\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    record = "".join(f"{n},sha256={base64.urlsafe_b64encode(hashlib.sha256(t.encode()).digest()).rstrip(b'=').decode()}"
                     f",{len(t)}\n" for n, t in files.items())
    (shelf / "simple/sgthing").mkdir(parents=True)
    (shelf / "files").mkdir()
    with zipfile.ZipFile(shelf / "files" / name, "w") as z:
        for n, t in {**files, f"{info}/RECORD": record + f"{info}/RECORD,,\n"}.items():
            z.writestr(n, t)
    (shelf / "simple/sgthing/index.html").write_text(f'<!DOCTYPE html><html><body><a href="/files/{name}">{name}</a></body></html>')


def npm_package(folder):
    shelf, out = folder / "www/npm.example.test", io.BytesIO()
    (shelf / "tgz").mkdir(parents=True)
    about = {"name": "sgthing", "version": "1.0.0", "main": "index.js"}
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, text in (("package.json", json.dumps(about)), ("index.js", "module.exports = 42\n")):
            entry = tarfile.TarInfo("package/" + name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    data = out.getvalue()
    (shelf / "tgz/sgthing-1.0.0.tgz").write_bytes(data)
    for scheme in ("http", "https"):
        dist = {"tarball": f"{scheme}://npm.example.test/tgz/sgthing-1.0.0.tgz", "shasum": hashlib.sha1(data).hexdigest(),
                "integrity": "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()}
        (shelf / scheme).mkdir()
        (shelf / scheme / "sgthing").write_text(json.dumps(
            {"name": "sgthing", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {**about, "dist": dist}}}))


def debian_package(folder):
    shelf, root = folder / "www/deb.example.test", folder / "deb-root"
    (root / "DEBIAN").mkdir(parents=True)
    (shelf / "pool").mkdir(parents=True)
    control = "Package: sgthing\nVersion: 1.0\nArchitecture: all\nMaintainer: T <t@example.test>\nDescription: a thing\n"
    (root / "DEBIAN/control").write_text(control)
    (root / "usr/share/sgthing").mkdir(parents=True)
    (root / "usr/share/sgthing/data").write_bytes(os.urandom(200_000))
    deb = shelf / "pool/sgthing_1.0_all.deb"
    quiet("dpkg-deb", "--root-owner-group", "-b", root, deb)
    data = deb.read_bytes()
    index = f"{control}Filename: pool/{deb.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n\n".encode()
    for kind in ("all", subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()):
        (shelf / f"dists/stable/main/binary-{kind}").mkdir(parents=True)
        (shelf / f"dists/stable/main/binary-{kind}/Packages").write_bytes(index)
        (shelf / f"dists/stable/main/binary-{kind}/Packages.gz").write_bytes(gzip.compress(index))
    sums = "".join(f" {hashlib.sha256(f.read_bytes()).hexdigest()} {f.stat().st_size} {f.relative_to(shelf / 'dists/stable')}\n"
                   for f in sorted(shelf.rglob("Packages*")))
    (shelf / "dists/stable/Release").write_text(f"Suite: stable\nDate: Sat, 01 Jan 2022 00:00:00 UTC\n"
                                              f"Components: main\nSHA256:\n{sums}")


def ssh_keys(folder):
    for name in ("host", "user"):
        quiet("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / f"ssh_{name}")
    (folder / "authorized").write_bytes((folder / "ssh_user.pub").read_bytes())
    (folder / "known_hosts").write_text("ssh.example.test " + (folder / "ssh_host.pub").read_text())


def fill(folder):
    for make in (certificates, repository, wheel, npm_package, debian_package, ssh_keys):
        make(folder)
