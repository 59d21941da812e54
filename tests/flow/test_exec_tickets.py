"""Tickets of execution requests: whatever becomes of one, control hears that it is over.
A worker alone; control, dialer and sandbox are ours."""
import os
import socket
import struct
import threading

import h2.connection
import pytest

from conftest import wait_for
from exec_line import Brain, route
from exec_world import PROXY, w  # noqa: F401 (a fixture)

PING = f"{PROXY}/44772/ping"
SIDE_BY_SIDE = 100  # streams of one connection
CONNECTIONS = 16  # a quarter of limits.all_connections: one caller's


def get(w):
    s = w.connect()
    s.sendall(f"GET {PING} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
    data = b""
    while more := s.recv(4096):
        data += more
    return int(data.split(b" ", 2)[1])


def descriptors(w):
    return len(os.listdir(f"/proc/{w.process.pid}/fd"))


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_an_answer_that_cannot_be_read_keeps_no_sandbox_busy(w, cut):
    w.brain.place = lambda wish: (route(w.box)[0][:cut], [])
    assert get(w) >= 500
    wait_for(lambda: w.brain.left == [w.brain.wishes[0]["ticket"]])
    w.brain.place = lambda wish: route(w.box)
    assert get(w) == 200


def test_a_route_that_leads_nowhere_is_left_once(w):
    w.brain.place = lambda wish: route(w.box, prefix="/../x")
    assert get(w) >= 500
    w.brain.place = lambda wish: route(w.box)
    assert get(w) == 200
    wait_for(lambda: w.brain.left == [x["ticket"] for x in w.brain.wishes])


def test_a_control_that_is_behind_hears_of_all_that_has_ended(w, monkeypatch):
    go = threading.Event()
    on = Brain.on

    def slow(brain, ask, wire, fds, reply):
        if len(brain.wishes) == SIDE_BY_SIDE * CONNECTIONS:
            go.wait()
        on(brain, ask, wire, fds, reply)
    monkeypatch.setattr(Brain, "on", slow)
    w.brain.place = lambda wish: None
    connections, before = [], descriptors(w)
    for _ in range(CONNECTIONS):
        s, c = w.connect(), h2.connection.H2Connection()
        c.initiate_connection()
        for i in range(SIDE_BY_SIDE):
            c.send_headers(1 + 2 * i, [(":method", "GET"), (":scheme", "http"), (":authority", "a.test"), (":path", PING)],
                           end_stream=True)
        s.sendall(c.data_to_send())
        connections.append(s)
    wait_for(lambda: len(w.brain.wishes) == SIDE_BY_SIDE * CONNECTIONS)
    for s in connections:  # the first to leave stops control, which hears of no other meanwhile
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
    wait_for(lambda: descriptors(w) == before)
    go.set()
    wait_for(lambda: len(w.brain.left) == SIDE_BY_SIDE * CONNECTIONS)
    assert sorted(w.brain.left) == sorted(x["ticket"] for x in w.brain.wishes)
    w.brain.place = lambda wish: route(w.box)
    assert get(w) == 200
