"""Streams through sandgate: each event at once, a thousand side by side, terminals that wait,
callers who go.

SANDGATE_IDLE_PTY: seconds that a terminal says nothing (20; 600 in a long run).
"""
import json
import os
import selectors
import socket
import subprocess
import threading
import time

import front as fronts
import pytest
import wire
from conftest import HERE
from raw import PROXY, Raw, made, only, resident, workers
from test_sdk import need

IDLE = float(os.environ.get("SANDGATE_IDLE_PTY", "20"))
STREAMS, EVENTS = 1000, 5
LOCKSTEP = "play lockstep"


@pytest.fixture
def one(fake, front):
    standard = fake(gateway=True)
    gate = front({"standard": (standard.url, standard.key)})
    gate.standard = standard
    return gate


class Lockstep:
    """A command whose next event is sent when somebody says that the last one came."""

    def __init__(self, count=20):
        self.count, self.came, self.late = count, threading.Semaphore(0), []

    def __call__(self, stream):
        stream.start("lockstep-1")
        for i in range(self.count):
            stream.event("stdout", text=f"event {i}")
            if not self.came.acquire(timeout=20):
                self.late.append(i)
                return
        stream.finish(0)


def test_the_next_event_is_sent_when_the_last_one_was_received(one):
    ident, play = made(one), Lockstep()
    only(one.standard).execd.scripts[LOCKSTEP] = play
    with Raw(one) as link:
        link.send("POST", PROXY.format(ident) + "/command", {"command": LOCKSTEP})
        assert link.head()[0] == 200
        assert [link.event()["type"] for _ in range(2)] == ["init", "ping"]
        for i in range(play.count):
            assert link.event()["text"] == f"event {i}"
            play.came.release()
        assert link.event()["type"] == "execution_complete" and link.answer.read() == b""
    assert play.late == []


@pytest.mark.parametrize("kind", ["python", "npm"])
def test_an_sdk_has_an_event_before_the_next_is_sent(one, shelf, kind):
    need(shelf, kind)
    command = [shelf["venv"] / "python", HERE / "sdk_lockstep.py"] if kind == "python" \
        else ["node", HERE / "sdk_lockstep.mjs", shelf["npm"]]
    play = Lockstep()
    with subprocess.Popen([*command, one.url, one.key, LOCKSTEP], stdout=subprocess.PIPE, text=True) as program:
        fronts.flow.wait_for(lambda: one.standard.sandboxes, 30)
        only(one.standard).execd.scripts[LOCKSTEP] = play
        seen = []
        for line in program.stdout:
            seen.append(line.rstrip("\n"))
            play.came.release()
    assert play.late == [] and seen == [*(f"event {i}" for i in range(play.count)), "exit 0"]


class Many:
    """An execd for a crowd: one thread, each stream with a number of its own.  Nobody gets a
    second event before all have the first one, and so on: all are open at once."""

    def __init__(self):
        self.sock = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.sock.setblocking(False)
        self.authority = "127.0.0.1:%d" % self.sock.getsockname()[1]
        self.lock, self.open, self.over = threading.Lock(), {}, False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        poll = selectors.DefaultSelector()
        poll.register(self.sock, selectors.EVENT_READ)
        while not self.over:
            for key, _ in poll.select(0.2):
                if key.fileobj is self.sock:
                    sock, _ = self.sock.accept()
                    poll.register(sock, selectors.EVENT_READ, bytearray())
                else:
                    self._read(poll, key.fileobj, key.data)
        poll.close()

    def _read(self, poll, sock, held):
        more = sock.recv(65536)
        if not more:
            poll.unregister(sock)
            sock.close()
            return
        held += more
        head, found, body = bytes(held).partition(b"\r\n\r\n")
        if found and body.endswith(b"}"):
            with self.lock:
                self.open[json.loads(body)["command"]] = sock
            held.clear()

    def tell(self, number):
        """Event `number` to all of them; after the last one the end."""
        for name, sock in list(self.open.items()):
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            data = json.dumps({"type": "stdout", "text": f"{name} {number}"}).encode() + b"\n\n"
            sock.sendall((b"" if number else head) + b"%x\r\n%b\r\n" % (len(data), data))
            if number == EVENTS - 1:
                sock.sendall(b"0\r\n\r\n")

    def close(self):
        self.over = True
        self.thread.join()
        for sock in [self.sock, *self.open.values()]:
            sock.close()


def crowd(one, ident):
    """{name: [socket, what came]} of all that asked."""
    callers = {}
    for i in range(STREAMS):
        body = json.dumps({"command": f"c{i}"}).encode()
        sock = socket.create_connection(("127.0.0.1", one.gate.exec[1]), 30)
        sock.sendall(f"POST {PROXY.format(ident)}/command HTTP/1.1\r\nHost: {one.authority}\r\n"
                     f"OPEN-SANDBOX-API-KEY: {one.key}\r\nContent-Type: application/json\r\n"
                     f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        sock.setblocking(False)
        callers[f"c{i}"] = [sock, bytearray()]
    return callers


def gather(callers, wanted, seconds=60):
    """Reads until `wanted(what came)` is true of every one."""
    end, left = time.monotonic() + seconds, {n: c for n, c in callers.items() if not wanted(c[1])}
    poll = selectors.DefaultSelector()
    for name, (sock, _) in left.items():
        poll.register(sock, selectors.EVENT_READ, name)
    while left:
        assert time.monotonic() < end, f"{len(left)} wait: {[bytes(held) for _, held in list(left.values())[:3]]}"
        for key, _ in poll.select(1):
            more = key.fileobj.recv(65536)
            held = callers[key.data][1]
            held += more
            assert more or wanted(held), f"{key.data} was cut: {bytes(held)}"
            if wanted(held):
                poll.unregister(key.fileobj)
                left.pop(key.data)
    poll.close()


def test_a_thousand_streams_are_open_at_once_and_each_is_whole(one):
    many, ident = Many(), made(one)
    one.standard.endpoint_override = many.authority
    with Raw(one) as link:  # the way is known, and buffers that stay are there
        assert link.send("GET", f"/v1/sandboxes/{ident}/endpoints/44772").whole()[0] == 200
    pids = workers(one)
    before = sum(map(resident, pids))
    callers = crowd(one, ident)
    try:
        fronts.flow.wait_for(lambda: len(many.open) == STREAMS, 60)
        for number in range(EVENTS):
            many.tell(number)
            gather(callers, lambda held, n=number: held.count(b"\n\n\r\n") >= n + 1)
            if number == 1:
                assert (sum(map(resident, pids)) - before) / STREAMS < 128 * 1024, "bytes of a stream"
        gather(callers, lambda held: held.endswith(b"0\r\n\r\n"))
    finally:
        for sock, _ in callers.values():
            sock.close()
        many.close()
    for name, (_, held) in callers.items():
        lines = [json.loads(line)["text"] for line in bytes(held).split(b"\n") if line.startswith(b"{")]
        assert lines == [f"{name} {n}" for n in range(EVENTS)]
    ends = fronts.flow.wait_for(lambda: len(ran := ended(one)) == STREAMS and ran, 30, every=0.5)
    assert {row["stdout"]["bytes"] for row in ends} <= {sum(len(f"c{i} {n}") for n in range(EVENTS)) for i in (1, 10, 100)}


def ended(one):
    return [row["exec"] for row in one.gate.rows(kind="exec_end") if "stdout" in row["exec"]]


def test_who_reads_slowly_holds_nobody_up(one):
    ident = made(one)
    execd = only(one.standard).execd
    begun = threading.Event()

    def flood(stream):
        stream.start("flood-1")
        begun.set()
        for i in range(400):
            stream.event("stdout", text="x" * 65536)
        stream.finish(0)
    execd.scripts["flood"] = flood
    pids = workers(one)
    with Raw(one) as slow:
        slow.send("POST", PROXY.format(ident) + "/command", {"command": "flood"})
        assert begun.wait(20)
        before = sum(map(resident, pids))
        for i in range(20):
            began = time.monotonic()
            status, text, _ = one.ask("POST", PROXY.format(ident) + "/command", {"command": f"echo {i}"})
            assert status == 200 and f'"{i}"' in text and time.monotonic() - began < 5
        assert sum(map(resident, pids)) - before < 4 << 20, "25 MiB wait at the sender"
        assert slow.head()[0] == 200
        count = sum(1 for line in slow.answer if line.startswith(b'{"type": "stdout"'))
    assert count == 400


def terminal(one, ident):
    base = PROXY.format(ident) + "/pty"
    status, told, _ = one.ask("POST", base, {})
    assert status == 201, told
    return wire.Websocket.dial("127.0.0.1", one.gate.exec[1], f"{base}/{told['session_id']}/ws",
                               [("OPEN-SANDBOX-API-KEY", one.key)])


def until(socket_, mark):
    seen = b""
    while mark not in seen:
        kind, data = socket_.receive()
        assert kind != wire.CLOSE, seen
        seen += data
    return seen


def test_an_idle_terminal_is_still_there(one):
    line = terminal(one, made(one))
    until(line, b"connected")
    line.sock.settimeout(IDLE + 60)
    time.sleep(IDLE)
    line.send(json.dumps({"type": "ping"}))
    until(line, b"pong")
    line.send(b"\x00echo still-$((40+2))\n")
    until(line, b"still-42")
    line.send(b"are you there", wire.PING)  # a frame of control passes, too
    line.send(b"\x00exit 7\n")
    assert b'"exit_code": 7' in until(line, b'"exit_code"')
    line.hang_up()


def test_pings_of_a_quiet_command_pass(one):
    ident = made(one)
    with Raw(one) as link:
        link.send("POST", PROXY.format(ident) + "/command", {"command": "sleep 7; echo woke"})
        link.head()
        kinds, began = [], time.monotonic()
        while not kinds or kinds[-1] != "execution_complete":
            kinds.append(link.event()["type"])
            if kinds.count("ping") == 2 and "woke" not in kinds:
                assert time.monotonic() - began < 6.5, "it came with what was behind it"
                kinds.append("woke")
    assert kinds.count("ping") >= 3


def test_a_caller_who_goes_leaves_the_sandbox_idle(fake, front):
    standard = fake(gateway=True)
    one = front({"standard": (standard.url, standard.key)}, more={"exec": {"idle": "pause", "idle_after": "1s"}})
    ident = made(one)
    link = Raw(one).send("POST", PROXY.format(ident) + "/command", {"command": "sleep 300"})
    link.head()
    link.event()
    time.sleep(3)
    assert only(standard).state == "Running", "somebody waits for it"
    link.close()
    fronts.flow.wait_for(lambda: only(standard).state == "Paused", 15)
    end, = fronts.flow.wait_for(lambda: [row for row in one.gate.rows(kind="exec_end")
                                         if row["exec"]["op"].startswith("command")])
    assert end["code"] == "client_gone"
