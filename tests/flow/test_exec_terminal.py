"""Terminals of an execution listener: what is typed is judged before it goes on.  A worker alone;
control, dialer and sandbox are ours."""
import contextlib
import threading
import time

import h2.connection
import h2.events
import pytest

from conftest import wait_for
from exec_world import PROXY, response, send, w  # noqa: F401 (a fixture)
from websocket_line import switch


def test_a_terminal_over_http2(w):
    def serve(request, sock):
        sock.sendall(switch(request.names["sec-websocket-key"]) + b"\x82\x03\x01ok")
        while sock.recv(100):
            pass
    w.box.serve = serve
    s = w.connect()
    c = h2.connection.H2Connection()
    c.initiate_connection()
    s.sendall(c.data_to_send())
    c.receive_data(s.recv(65536))
    c.send_headers(1, [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":authority", "a.test"),
                       (":path", f"{PROXY}/44772/pty/p/ws"), ("sec-websocket-version", "13")])
    s.sendall(c.data_to_send())
    got, status = b"", None
    while b"ok" not in got:
        for e in c.receive_data(s.recv(65536)):
            if isinstance(e, h2.events.ResponseReceived):
                status = dict(e.headers)[b":status" if isinstance(e.headers[0][0], bytes) else ":status"]
            if isinstance(e, h2.events.DataReceived):
                got += e.data
        s.sendall(c.data_to_send())
    assert status in (b"200", "200")
    s.close()
    assert w.rows("exec_end", least=1)[0]["exec"]["stdout"]["bytes"] == 2


def frame(octets, opcode=2):
    assert len(octets) < 126
    return bytes([0x80 | opcode, 0x80 | len(octets), 0, 0, 0, 0]) + octets


@contextlib.contextmanager
def terminal(w, mode=b"pty"):
    """A terminal's (caller's socket, what has arrived at execd)."""
    got = bytearray()
    hello = b'{"type":"connected","mode":"%b"}' % mode

    def serve(request, sock):
        sock.sendall(switch(request.names["sec-websocket-key"]) + bytes([0x81, len(hello)]) + hello + b"\x82\x03\x01ok")
        while data := sock.recv(65536):
            got.extend(data)
    w.box.serve = serve
    s = send(w, f"GET {PROXY}/44772/pty/p1/ws HTTP/1.1\nHost: a\nConnection: Upgrade\nUpgrade: websocket\n"
                "Sec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n\n")
    said = b""
    while b"ok" not in said:
        said += s.recv(4096)
    with contextlib.closing(s):
        yield s, got


def test_lines_that_are_typed_are_judged_and_what_is_risky_has_a_row_before_it_goes_on(w):
    with terminal(w) as (s, got):
        for key in b"echo rm\rr\bmr\b\bxx\x15":  # what was taken back was never said
            s.sendall(frame(b"\0" + bytes([key])))
        s.sendall(frame(b"\0rm --password hunter2 a\r")[:9])
        s.sendall(frame(b"\0rm --password hunter2 a\r")[9:] + frame(b'{"type":"stdin","data":"\\u001b[A\\r"}', 1))
        s.sendall(frame(b'{"data":"rm b\\r","type":"stdin"}', 1))
        wait_for(lambda: got.endswith(b'"stdin"}'))
        told, behind = [r for r in w.rows("exec", least=3) if r["exec"]["op"] == "pty.input"]
    assert told["exec"]["command"] == "rm --password [redacted] a" and told["exec"]["level"] == "high"
    assert told["exec"]["why"].endswith("removes files") and told["exec"]["id"] == "p1" and told["user"] == "alice"
    assert behind["exec"]["command"] == "rm b"
    end, = w.rows("exec_end", least=1)
    assert end["turn"] == told["turn"] and end["exec"]["typed_level"] == "high"
    assert (end["exec"]["lines"], end["exec"]["lines_unread"]) == (4, 1)


def test_without_a_terminal_no_key_takes_anything_back(w):
    with terminal(w, b"pipe") as (s, got):
        s.sendall(frame(b"\0rm x;\x15:\n"))
        wait_for(lambda: got.endswith(b":\n"))
    assert [r["exec"]["command"] for r in w.rows("exec", least=2) if r["exec"]["op"] == "pty.input"] == ["rm x;\n:"]


def test_no_key_takes_back_or_hands_over_a_line_unseen(w):
    typed = [b"rm a\x01\x15\r", b"rm b\x0f\x15\r", b"rm c\x04", b"\x15\r", b"r\\\rm d\r", b"echo '\r", b"'; rm e\r", b"rm f"]
    with terminal(w) as (s, got):
        for text in typed:
            s.sendall(frame(b"\0" + text))
        wait_for(lambda: got.endswith(typed[-1]))
        s.close()
        told = [r["exec"]["command"] for r in w.rows("exec", least=9) if r["exec"]["op"] == "pty.input"]
    assert told == ["rm a\n", "rm b", "rm b\n", "rm c", "rm c\n", "rm d", "echo '\n'; rm e", "rm f"]


@pytest.mark.parametrize("typed, told", [
    ([b": #\x01\x0brm a\r"], "rm a"), ([b": #\x0frm a\r"], "rm a"), ([b": #\x18\x05rm a\r"], "rm a"),
    ([b"echo '\x1b[Hrm a;\r"], "rm a;"), ([b"echo 'x\x04\r", b"'; rm a\r"], "'; rm a"), ([b"'; rm a\r"], "'; rm a"),
    ([b"\"; rm a\r"], "\"; rm a"), ([b":" + b" " * 5000 + b"; rm a\r"], None), ([b"r\x01\x05m a\r"], "r\nm a"),
    ([b"rm a \\\x05\r", b"b\r"], "rm a \\\n")])
def test_keys_of_which_nothing_is_known_hide_no_line(w, typed, told):
    with terminal(w) as (s, got):
        s.sendall(b"".join(frame(b"\0" + text[i:i + 100]) for text in typed for i in range(0, len(text), 100)))
        wait_for(lambda: got.endswith(typed[-1][-4:]))
        first = next(r["exec"] for r in w.rows("exec", least=2) if r["exec"]["op"] == "pty.input")
    assert first["command"] == told if told else first["command"].endswith("; rm a")
    end, = w.rows("exec_end", least=1)
    assert end["exec"]["typed_level"] == "high" and end["exec"]["lines_unread"] > 0


def test_what_only_looks_risky_has_no_row(w):
    typed = b"echo 'rm a'\r" + b"echo it\\'s\r" + b"ls\x1b[D\x1b[Crm\r" + b"echo \"a\r" + b"rmdir\"\r" + b"l\ts\r"
    with terminal(w) as (s, got):
        s.sendall(frame(b"\0" + typed))
        wait_for(lambda: got.endswith(b"s\r"))
    end, = w.rows("exec_end", least=1)
    assert end["exec"]["typed_level"] == "high" and end["exec"]["lines"] == 6
    assert [r["exec"]["command"] for r in w.rows("exec", least=2) if r["exec"]["op"] == "pty.input"] == ["rm"]


@pytest.mark.parametrize("message", [b'{"Type":"stdin","data":"rm x\\r"}', b'{"type":"ping","type":"stdin","data":"rm x\\r"}',
                                     b'{"type":"stdin","data":"\xff\\r rm x\\r"}', b'{"data":"#","type":"ping"}'])
def test_what_another_reader_might_take_for_typed_ends_the_terminal(w, message):
    with terminal(w) as (s, got):
        s.sendall(frame(b"\0ls\r") + frame(message, 1) + frame(b"\0id\r"))
        with contextlib.suppress(ConnectionResetError):
            while s.recv(4096):
                pass
        assert b"id" not in got
    end, = w.rows("exec_end", least=1)
    assert end["reason"] == "bad_json"
    with terminal(w) as (s, got):
        s.sendall(frame(b"\0id\r"))
        wait_for(lambda: got.endswith(b"id\r"))


def test_what_is_risky_is_not_typed_without_a_ledger(w):
    with terminal(w) as (s, got):
        s.sendall(frame(b"\0ls\r"))
        wait_for(lambda: got.endswith(b"ls\r"))
        w.ring.fill()
        s.sendall(frame(b"\0ls\r"))
        wait_for(lambda: got.count(b"ls\r") == 2)
        s.sendall(frame(b"\0rm x\r"))
        with contextlib.suppress(ConnectionResetError):
            assert s.recv(100) == b""
        assert b"rm" not in got


def test_a_paste_of_any_length_takes_no_time_from_others(w):
    with terminal(w) as (s, got):
        began = time.monotonic()
        text = b"a(" * 60 + b"\r"
        s.sendall(frame(b"\0" + text) * 8000)
        wait_for(lambda: got.count(text) == 8000, 20)
        s.sendall(frame(b"\0rm x\r"))
        wait_for(lambda: got.endswith(b"rm x\r"))
        assert time.monotonic() - began < 5
    end, = w.rows("exec_end", least=1)
    assert end["exec"]["lines"] == 8001 and end["exec"]["lines_unread"] > 7000


@pytest.mark.parametrize("w", ["risk: {terminal: high}"], indirect=True)
def test_who_attaches_to_a_terminal_may_have_to_wait_for_a_person(w):
    ask = f"GET {PROXY}/44772/pty/p1/ws HTTP/1.1\nHost: a\nConnection: Upgrade\nUpgrade: websocket\n" \
          "Sec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n\n"
    s = send(w, ask)
    wait_for(lambda: w.brain.holds)
    assert w.box.requests == [] and w.brain.holds[0]["level"] == 2 and "p1" in w.brain.holds[0]["text"]
    assert "terminal" in w.brain.holds[0]["why"]
    w.brain.decide("APPROVAL_DENIED")
    assert response(s)[0].status == 403 and w.box.requests == []
    # Other routes of a terminal run nothing.
    assert response(send(w, f"GET {PROXY}/44772/pty/p1 HTTP/1.1\nHost: a\n\n"))[0].status == 200
    threading.Thread(target=lambda: (wait_for(lambda: len(w.brain.holds) == 2), w.brain.decide()), daemon=True).start()
    with terminal(w) as (s, got):
        s.sendall(frame(b"\0ls\r"))
        wait_for(lambda: got.endswith(b"ls\r"))
