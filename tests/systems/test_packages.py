"""npm, pip and twine before a company's package index, through the preset."""
import io
import json
import os
import tarfile
import zipfile

import pytest
from conftest import documented

from company import Company
from shelf import Shelf

HOST = "packages.example.test"
URL = f"https://{HOST}"
NPMRC = "fetch-retries=0\nupdate-notifier=false\n"


class Desk:
    def __init__(self, house, folder, protocol):
        self.folder, self.firm = folder, Company(folder / "firm", protocols=[protocol])
        self.shelf = self.firm.add(HOST, Shelf(URL))
        self.h = house("package-index", firm=self.firm)
        self.h.move(HOST)
        self.h.start(**{"packages/read": self.shelf.reader, "packages/publish": self.shelf.publisher})
        (folder / "npmrc").write_text(NPMRC)

    def run(self, *words, **kw):
        env = {"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INPUT": "1", "PIP_NO_CACHE_DIR": "1", "PIP_TARGET": str(self.folder / "site"),
               "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PATH": f"/usr/bin:{os.environ['PATH']}",
               "npm_config_userconfig": str(self.folder / "npmrc"), "npm_config_cache": str(self.folder / "cache")}
        return self.h.inside(*words, env=env, **{"cwd": self.folder, **kw})

    def refusals(self):
        return [(r.method, r.path, r.refused) for r in self.shelf.seen if r.refused]


@pytest.fixture(scope="module", params=["h2", "http/1.1"])
def desk(house, tmp_path_factory, request):
    return Desk(house, tmp_path_factory.mktemp("desk"), request.param)


def sdist(file):
    with tarfile.open(file, "w:gz") as t:
        for name, text in (("PKG-INFO", "Metadata-Version: 2.1\nName: sg-source\nVersion: 1.0\n"), ("setup.cfg", "")):
            info = tarfile.TarInfo(f"sg_source-1.0/{name}")
            info.size = len(text)
            t.addfile(info, io.BytesIO(text.encode()))


def wheel(file):
    with zipfile.ZipFile(file, "w") as z:
        z.writestr("sg_thing.py", "VALUE = 42\n")
        z.writestr("sg_thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: sg-thing\nVersion: 1.0\n")
        z.writestr("sg_thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("sg_thing-1.0.dist-info/RECORD", "")


def test_twine_uploads_what_pip_then_installs(desk):
    (desk.folder / "dist").mkdir()
    files = [desk.folder / "dist" / name for name in ("sg_thing-1.0-py3-none-any.whl", "sg_source-1.0.tar.gz")]
    wheel(files[0])
    sdist(files[1])
    desk.run(*documented("twine"))
    assert sorted(desk.shelf.files) == [("sg-source", files[1].name), ("sg-thing", files[0].name)]
    desk.run(*documented("pip install"))
    assert (desk.folder / "site/sg_thing.py").read_text() == "VALUE = 42\n"
    index = ["--index-url", f"{URL}/pypi/simple/"]
    desk.run("pip", "download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", *index, "sg-source", ok=False)
    assert ("GET", "/pypi/files/sg-source/sg_source-1.0.tar.gz") in [(r.method, r.path) for r in desk.shelf.seen]
    done = desk.run("pip", "install", *index, "sg-none", ok=False)
    assert done.returncode != 0 and "No matching distribution" in done.stderr
    assert desk.refusals() == []


@pytest.mark.parametrize("name", ["sg-thing", "@acme/sg-thing"])
def test_npm_publishes_what_it_then_installs(desk, name):
    source, user = desk.folder / name.replace("/", "-"), desk.folder / f"user-{name.replace('/', '-')}"
    for folder, told in ((source, {"name": name, "version": "1.2.3", "main": "index.js"}), (user, {"name": "user", "version": "1.0.0"})):
        folder.mkdir()
        (folder / "package.json").write_text(json.dumps(told))
    (source / "index.js").write_text("module.exports = 42;\n")
    desk.run(*documented("npm config"))
    desk.run(*documented("npm publish"), cwd=source)
    assert desk.shelf.packages[name]["dist-tags"] == {"latest": "1.2.3"}
    shell, option, line = documented("npm install")
    desk.run(shell, option, line.replace("sg-thing", name), cwd=user)
    assert (user / "node_modules" / name / "index.js").read_text() == "module.exports = 42;\n"
    lock = json.loads((user / "package-lock.json").read_text())["packages"][f"node_modules/{name}"]
    assert lock["integrity"].startswith("sha512-")
    assert desk.run("npm", "view", "--registry", f"{URL}/npm/", name, "version").stdout.strip() == "1.2.3"
    assert desk.refusals() == []


def test_what_nobody_publishes_with_is_refused(desk):
    seen = len(desk.shelf.seen)
    done = desk.run("npm", "unpublish", "--force", "--registry", f"{URL}/npm/", "sg-thing", ok=False)
    assert done.returncode != 0
    for path, code in (("/pypi/simple/sg-thing/", "denied_path"), ("/npm/-/user/org.couchdb.user:me", "denied_by_rule")):
        done = desk.h.inside("curl", "-sS", "-X", "PUT", "-d", "x", f"{URL}{path}")
        assert json.loads(done.stdout)["error"]["code"] == code, done.stdout
    assert all(r.method == "GET" for r in desk.shelf.seen[seen:])
