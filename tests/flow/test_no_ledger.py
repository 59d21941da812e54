"""No row, no way out: a full disk and a dead ledger stop egress soon, and only as long as they last."""
import os
import signal
import subprocess
import time

import pytest

from conftest import Gate, wait_for
from tls_world import read_head
from tunnel_world import by_connect, config, origin  # noqa: F401 (a fixture)


PLENTY = {"limits": {"connections_per_second": 100000, "connections_burst": 100000, "requests_per_second": 100000,
                     "requests_burst": 100000}}


def attempt(g, origin):  # noqa: F811
    """A tunnel is opened; the code that is told, "ok" if it works."""
    with by_connect(g, "ok.example.test", origin.port) as sock:
        said = read_head(sock)
        if not said.startswith("HTTP/1.1 200 "):
            return said.split()[2]
        # Success is told before upstream is dialled; what comes then is the origin's or a refusal.
        host = f"ok.example.test:{origin.port}"
        sock.sendall(f"GET /x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        head = read_head(sock)
        return "ok" if head.startswith("HTTP/1.1 200") else head.split()[2]


@pytest.fixture
def small(origin):  # noqa: F811
    """A gateway whose state directory has room for little."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    g = Gate({**config(origin), **PLENTY})
    g.state.mkdir(mode=0o711)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=711", "tmpfs", g.state], capture_output=True)
    if done.returncode != 0:
        g.close()
        pytest.skip("a tmpfs can't be mounted here")
    try:
        yield g.start()
    finally:
        g.kill()
        subprocess.run(["umount", "-l", g.state], check=False)
        g.close()


def fill(g):
    with open(g.state / "fill", "wb", buffering=0) as f:
        try:
            while True:
                f.write(bytes(4096))
        except OSError:
            pass


def test_a_full_disk_stops_egress_soon_and_room_brings_it_back(small, origin):  # noqa: F811
    g = small
    assert attempt(g, origin) == "ok"
    g.wait_rows(kind="response")
    fill(g)
    before = time.monotonic()
    # The first commit that fails is 50 ms away, and the second and third wait 50 and 100 ms for room.
    wait_for(lambda: attempt(g, origin) == "no_ledger", 5)
    assert time.monotonic() - before < 1
    seen = origin.seen
    for _ in range(5):
        assert attempt(g, origin) == "no_ledger"
    assert origin.seen == seen
    for words in ("rows can't be stored", "egress stops until rows can be stored"):
        wait_for(lambda words=words: words in g.text_of_log())
    os.unlink(g.state / "fill")
    wait_for(lambda: attempt(g, origin) == "ok", 6)
    wait_for(lambda: "rows are stored again" in g.text_of_log())
    # What was refused meanwhile is there, and so is all else.
    assert g.wait_rows(kind="deny", code="no_ledger")
    assert g.cli("audit", "verify").returncode == 0


def test_a_ledger_that_stays_dead_stops_egress_and_a_restart_does_not(gate, origin):  # noqa: F811
    g = gate({**config(origin), **PLENTY})
    ledger = g.state / "ledger"
    assert attempt(g, origin) == "ok"
    os.kill(g.pids()["ledger"], signal.SIGKILL)
    for _ in range(10):
        assert attempt(g, origin) == "ok"
    g.wait_rows(11, kind="response")
    # It can't be opened: each restart fails.
    pid = g.pids()["ledger"]
    os.rename(ledger / "ledger.db", ledger / "aside")
    os.mkdir(ledger / "ledger.db")
    os.kill(pid, signal.SIGKILL)
    before = time.monotonic()
    wait_for(lambda: attempt(g, origin) == "no_ledger", 5)
    assert 0.5 < time.monotonic() - before < 3
    seen = origin.seen
    assert [attempt(g, origin) for _ in range(5)] == ["no_ledger"] * 5 and origin.seen == seen
    os.rmdir(ledger / "ledger.db")
    os.rename(ledger / "aside", ledger / "ledger.db")
    wait_for(lambda: attempt(g, origin) == "ok", 8)
    assert g.wait_rows(kind="deny", code="no_ledger")
    assert g.cli("audit", "verify").returncode == 0
