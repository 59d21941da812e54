"""Connections that say nothing: a few are nobody's business, many are a way to hold memory."""
import contextlib
import select
import socket
import time

from conftest import wait_for


def silent(g, n):
    return [socket.create_connection(g.proxy, timeout=5) for _ in range(n)]


def closed(socks):
    """Those that the gateway has ended."""
    readable, _, _ = select.select(socks, [], [], 0)
    return readable


def test_who_says_nothing_for_a_second_counts_and_the_rest_is_refused(gate):
    g = gate({"limits": {"pending": 5}})
    socks = silent(g, 12)
    try:
        wait_for(lambda: len(closed(socks)) == 7, 4)
        time.sleep(1.2)
        assert len(closed(socks)) == 7
        wait_for(lambda: g.counter("limit_pending") == 7)
        assert {r["code"] for r in g.wait_rows(7, kind="deny")} == {"limit_pending"}
        # Who speaks is not among them any more and makes room for others.
        speaks = [s for s in socks if s not in closed(socks)]
        for s in speaks:
            s.sendall(b"GET http://sandgate.internal/ HTTP/1.1\r\nHost: sandgate.internal\r\n\r\n")
            assert s.recv(64).startswith(b"HTTP/1.1 200")
    finally:
        for s in socks:
            s.close()


def test_a_burst_that_speaks_at_once_loses_nobody(gate):
    g = gate({"limits": {"pending": 2, "connections": 300}})
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(s) for s in silent(g, 150)]
        for s in socks:
            s.sendall(b"GET http://sandgate.internal/ HTTP/1.1\r\nHost: sandgate.internal\r\n\r\n")
        for s in socks:
            assert s.recv(64).startswith(b"HTTP/1.1 200")
    assert g.counter("limit_pending") == 0
