"""What a connector has used is gone from its memory a moment later (docs/THREATS.md says of which hosts)."""
import time

import pytest
from conftest import found, wait_for
from many import Many, Quiet
from scan import in_memory

GONE_S = 1
PATHS = {"path": "/botx/plain", "bucket": "/b/"}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = Many(tmp_path_factory.mktemp("gone"), "ab", Quiet, Quiet)
    yield made
    made.close()


def test_a_secret_is_gone_once_it_was_used(world):
    """HTTP/2 and HTTP/1.1 upstream; hosts that echo nothing.  Access tokens stay until they run out."""
    pids, secret = world.pids(), {m for m in world.marks if m[1] == "secret"}
    for name in world.values:
        kind = name[:-2]
        if kind != "calls":
            assert world.curl(name, PATHS.get(kind, "/echo/plain")) == 200, (name, world.received[-1])
    begun = time.monotonic()
    for i, group in enumerate(world.groups):
        wait_for(lambda: not in_memory(pids[f"connector.{i}"], world.needles, secret)[0], GONE_S)
        assert in_memory(pids[f"connector.{i}"], world.needles, {(group, "token")})[0]  # so the scan can find
    found["ms until gone"] = int((time.monotonic() - begun) * 1000)
