"""Terminals of execd: binary frames with one byte of channel, JSON text frames beside."""
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import termios
import threading

from execd_run import now_ms
from wire import CLOSE, TEXT, Broken, Gone, Websocket

STDIN, STDOUT, STDERR, REPLAY = 0, 1, 2, 3
KEPT = 1 << 20


class Terminal:
    """A shell that outlives its websocket; one holder at a time, its output kept for who returns."""

    def __init__(self, ident, body):
        self.ident, self.body = ident, body
        self.process, self.mode, self.holder = None, None, None
        self.kept, self.total, self.lock = b"", 0, threading.Lock()
        self.readers = []

    def _spawn(self, as_pty):
        """Started by the first websocket, which says whether it wants a terminal or pipes."""
        command = self.body.get("command")
        argv = ["/bin/bash", "-c", command] if command else ["/bin/bash", "--norc"]
        self.mode = "pty" if as_pty else "pipe"
        common = {"cwd": self.body.get("cwd") or None, "start_new_session": True,
                  "env": {**os.environ, "TERM": "xterm-256color"}}
        if as_pty:
            self.master, inner = pty.openpty()
            self.process = subprocess.Popen(argv, stdin=inner, stdout=inner, stderr=inner, **common,
                                            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
            os.close(inner)
            sources = [(self.master, STDOUT)]
        else:
            self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE, **common)
            sources = [(self.process.stdout.fileno(), STDOUT), (self.process.stderr.fileno(), STDERR)]
        self.readers = [threading.Thread(target=self._read, args=s, daemon=True) for s in sources]
        for reader in self.readers:
            reader.start()
        threading.Thread(target=self._wait, daemon=True).start()

    def _read(self, fd, channel):
        while True:
            try:
                data = os.read(fd, 65536)
            except OSError:
                return
            if not data:
                return
            with self.lock:
                self.kept = (self.kept + data)[-KEPT:]
                self.total += len(data)
                self._tell(bytes([channel]) + data)

    def _tell(self, data):
        if self.holder is not None:
            try:
                self.holder.send(data if isinstance(data, bytes) else json.dumps(data))
            except OSError:
                self.holder = None

    def _wait(self):
        code = self.process.wait()
        for reader in self.readers:
            reader.join(1)
        with self.lock:
            self._tell({"type": "exit", "exit_code": 128 - code if code < 0 else code, "timestamp": now_ms()})
            if self.holder is not None:
                self.holder.close(1000, "exit")

    def status(self):
        running = self.process is not None and self.process.poll() is None
        return {"session_id": self.ident, "running": running, "output_offset": self.total}

    def attach(self, request, exchange):
        if self.process is not None and self.process.poll() is not None:
            return exchange.fail(410, "SESSION_GONE", "the shell has ended")
        if self.holder is not None and request.arg("takeover") != "1":
            return exchange.fail(409, "ALREADY_CONNECTED", "another client holds this session")
        socket = Websocket.accept(request, exchange)
        self._take(socket, request)
        try:
            while self._client(socket):
                pass
        finally:
            with self.lock:
                if self.holder is socket:
                    self.holder = None
        return None

    def _take(self, socket, request):
        with self.lock:
            if self.holder is not None:
                self.holder.close(4001, "taken over")
                self.holder.hang_up()
            self.holder = socket
            if self.process is None:
                self._spawn(request.arg("pty") != "0")
            self._tell({"type": "connected", "session_id": self.ident, "mode": self.mode, "timestamp": now_ms()})
            since = request.arg("since")
            if since is not None and self.total > int(since):
                wanted = self.kept[-(self.total - int(since)):]
                self._tell(bytes([REPLAY]) + struct.pack(">Q", self.total) + wanted)

    def _client(self, socket):
        try:
            kind, data = socket.receive()
        except (Gone, OSError):
            return False
        if kind == CLOSE:
            return False
        if kind != TEXT:
            if data[:1] != bytes([STDIN]):
                raise Broken(f"channel {data[:1]!r} from a client")
            self._stdin(data[1:])
            return True
        frame = json.loads(data)
        if frame["type"] == "stdin":
            self._stdin(frame["data"].encode())
        elif frame["type"] == "ping":
            socket.send(json.dumps({"type": "pong", "timestamp": now_ms()}))
        elif frame["type"] == "resize" and self.mode == "pty":
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", frame["rows"], frame["cols"], 0, 0))
        elif frame["type"] == "signal":
            os.killpg(self.process.pid, getattr(signal, frame["signal"]))
        return True

    def _stdin(self, data):
        if self.mode == "pty":
            os.write(self.master, data)
        else:
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        if self.holder is not None:
            self.holder.close(1000, "deleted")
