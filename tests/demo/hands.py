#!/usr/bin/env python3
"""What plays an OpenSandbox server in the demo, so that it needs no docker: the tests' strict
stand-in, whose sandboxes run each command in a box of `sandgate exec`.

usage: hands.py FOLDER CONFIG    writes FOLDER/hands.json: where it is, and its key
"""
import json
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "opensandbox"))

import execd_run  # noqa: E402
import fake_server  # noqa: E402


def main():
    folder, config = pathlib.Path(sys.argv[1]), sys.argv[2]
    execd_run.Command.box = ["sandgate", "exec", "-c", config, "--policy", "coding", "--"]
    fake = fake_server.FakeServer(gateway=True)
    (folder / "hands.tmp").write_text(json.dumps({"url": fake.url, "key": fake.key}))
    (folder / "hands.tmp").rename(folder / "hands.json")
    threading.Event().wait()


main()
