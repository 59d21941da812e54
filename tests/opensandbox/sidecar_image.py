"""The image of `sandgate sidecar`: its executables, nft, what both are linked with, and nothing
else; no shell.  conf/opensandbox/Dockerfile is the same for people, from packages."""
import io
import pathlib
import re
import shutil
import subprocess
import tarfile

ROLES = ["sandgate", "sandgate-super", "sandgate-compile", "sandgate-worker", "sandgate-dns", "sandgate-dialer",
         "sandgate-connector", "sandgate-keeper", "sandgate-ledger", "sandgate-control", "sandgate-locator"]
PASSWD = "root:x:0:0:root:/:/nologin\nsandgate:x:65532:65532:sandgate:/:/nologin\nnobody:x:65534:65534:nobody:/:/nologin\n"


def linked(program):
    """Paths of the loader and the libraries, as the loader here finds them."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(/\S+) \(0x", said)


def tar(bins, out, extra=None):
    """`bins`: a folder with the executables.  extra: {path in the image: bytes}."""
    programs = {f"usr/bin/{name}": pathlib.Path(bins) / name for name in ROLES}
    programs["usr/sbin/nft"] = pathlib.Path(shutil.which("nft") or "/usr/sbin/nft")
    files = dict(programs)
    for program in programs.values():
        files.update({path.lstrip("/"): pathlib.Path(path) for path in linked(program)})
    texts = {"etc/passwd": PASSWD.encode(), "etc/group": b"root:x:0:\nsandgate:x:65532:\nnogroup:x:65534:\n",
             **(extra or {})}
    with tarfile.open(out, "w") as image:
        for name in ("tmp", "var/lib", "opt/opensandbox", "etc/sandgate"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            image.addfile(folder)
        for name, path in files.items():
            info = image.gettarinfo(path.resolve(), name)
            info.uid = info.gid = 0
            info.mode = 0o755
            with open(path, "rb") as content:
                image.addfile(info, content)
        for name, content in texts.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o644
            image.addfile(info, io.BytesIO(content))
    return out


def build(stack, name, bins, extra=None):
    """Into the docker of a RealStack."""
    made = tar(bins, stack.folder / "sidecar.tar", extra)
    stack.docker("import", "--change", 'ENTRYPOINT ["/usr/bin/sandgate", "sidecar"]', "--change",
                 "ENV PATH=/usr/bin:/usr/sbin", made, name)
    made.unlink()
    return name
