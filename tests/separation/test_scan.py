"""The scanner finds what is there, so that what it does not find is not there."""
import socket

import pytest
from many import word
from scan import Needles, forms, in_files, in_memory, spellings

from conftest import wait_for

COMMON = word(9)
CANARY = COMMON + word(7)
NEEDLES = Needles(COMMON.encode(), {"canary": CANARY.encode()})


@pytest.mark.parametrize("spelling", spellings("x"))
def test_each_form_is_found_and_a_neighbour_is_not(spelling):
    assert NEEDLES.found(b"before" + spellings(CANARY)[spelling] + b"after")
    assert not NEEDLES.found(b"before" + spellings(COMMON + word(7))[spelling] + b"after")


def test_a_form_in_a_file_is_found(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 5000 + CANARY.encode().hex().encode())
    found, files = in_files(tmp_path, NEEDLES)
    assert files == 1 and {form for _, _, form in found} == {"hex"}


def test_a_canary_in_a_workers_memory_is_found_in_each_form(gate):
    """Half a request: its head waits in the worker."""
    g = gate()
    pids = g.pids()
    fields = "".join(f"X-{i}: {text.decode()}\r\n" for i, text in enumerate(spellings(CANARY).values()))
    with socket.create_connection(g.proxy) as s:
        s.sendall(f"GET http://ok.example.test/ HTTP/1.1\r\nHost: ok.example.test\r\n{fields}".encode())
        want = set(forms(CANARY.encode()))
        wait_for(lambda: {form for _, form, _ in in_memory(pids["worker.0"], NEEDLES)[0]} == want)
        for name in ("dns", "dialer", "ledger", "control"):
            assert in_memory(pids[name], NEEDLES)[0] == set(), name
