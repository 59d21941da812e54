"""What execd runs: commands, bash sessions and Python cells, each told as events.

An event is one JSON object with a blank line after it and no `data:` before it: that is
how the real execd writes its stream, whatever its content type says.
"""
import json
import os
import queue
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time

from wire import Gone

PING_EVERY = 3.0


def now_ms():
    return int(time.time() * 1000)


def stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)) if seconds else None


class Stream:
    """Events to one caller, with a ping right after init and every 3 s from then on."""

    def __init__(self, exchange):
        self.exchange, self.began = exchange, time.monotonic()

    def start(self, ident):
        self.exchange.begin(200, "text/event-stream", [("Cache-Control", "no-cache"), ("X-Accel-Buffering", "no")])
        self.event("init", text=ident)
        self.event("ping", text="pong")

    def event(self, kind, **more):
        self.exchange.write(json.dumps({"type": kind, **more, "timestamp": now_ms()}).encode() + b"\n\n")

    def pump(self, events):
        """Events of a queue until None comes."""
        while True:
            try:
                item = events.get(timeout=PING_EVERY)
            except queue.Empty:
                self.event("ping", text="pong")
                continue
            if item is None:
                return
            self.event(item[0], **item[1])

    def finish(self, code):
        if code:
            self.event("error", error={"ename": "CommandExecError", "evalue": str(code),
                                       "traceback": [f"exit status {code}"]})
        else:
            self.event("execution_complete", execution_time=int((time.monotonic() - self.began) * 1000))
        self.exchange.end()


def lines_of(pipe, kind, events, log=None):
    for line in pipe:
        text = line.decode(errors="replace")
        if log is not None:
            log(text)
        events.put((kind, {"text": text.rstrip("\n")}))


class Command:
    """One process in a group of its own."""

    box = []  # words before every command: what boxes it, where no container does

    def __init__(self, ident, body):
        self.ident, self.text = ident, body.get("command") or ""
        self.argv = body.get("argv") or ["/bin/bash", "-c", self.text]
        self.background, self.timeout = bool(body.get("background")), body.get("timeout")
        self.events, self.log, self.lock = queue.Queue(), "", threading.Lock()
        self.began, self.ended, self.code, self.error = time.time(), None, None, ""
        self._start(body)

    def _start(self, body):
        who = {"user": body.get("uid"), "group": body.get("gid")}
        env = {**os.environ, **{k: str(v) for k, v in (body.get("envs") or {}).items()}}
        self.process = subprocess.Popen(
            [*self.box, *self.argv], cwd=body.get("cwd") or None, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True, **{k: v for k, v in who.items() if v is not None})
        threading.Thread(target=self._watch, daemon=True).start()

    def _keep(self, text):
        with self.lock:
            self.log += text

    def _watch(self):
        readers = [threading.Thread(target=lines_of, args=(pipe, kind, self.events, self._keep), daemon=True)
                   for pipe, kind in ((self.process.stdout, "stdout"), (self.process.stderr, "stderr"))]
        for reader in readers:
            reader.start()
        try:
            code = self.process.wait(self.timeout / 1000 if self.timeout else None)
        except subprocess.TimeoutExpired:
            self.error = "timeout"
            self.interrupt(signal.SIGKILL)
            code = self.process.wait()
        for reader in readers:
            reader.join(1)
        self.code, self.ended = (128 - code if code < 0 else code), time.time()
        self.events.put(None)

    def interrupt(self, number=signal.SIGINT):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def status(self):
        return {"id": self.ident, "content": self.text, "running": self.ended is None, "exit_code": self.code,
                "error": self.error, "started_at": stamp(self.began), "finished_at": stamp(self.ended)}


class Session:
    """A bash that stays: directory, variables and functions carry over between runs."""

    def __init__(self, ident, cwd=None):
        self.ident, self.lock, self.mark = ident, threading.Lock(), secrets.token_hex(12)
        self.process = subprocess.Popen(["/bin/bash", "--noprofile", "--norc"], cwd=cwd, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.events = None
        for pipe, kind in ((self.process.stdout, "stdout"), (self.process.stderr, "stderr")):
            threading.Thread(target=self._read, args=(pipe, kind), daemon=True).start()

    def _read(self, pipe, kind):
        for line in pipe:
            text, mark, code = line.decode(errors="replace").rstrip("\n").partition(self.mark)
            events = self.events
            if events is None:
                continue
            if text or not mark:
                events.put((kind, {"text": text}))
            if mark:
                events.put(("mark", int(code)))
        if self.events is not None:
            self.events.put(("mark", self.process.wait()))

    def run(self, body, stream):
        with self.lock, tempfile.NamedTemporaryFile("w", suffix=".sh") as script:
            if body.get("cwd"):
                script.write(f"cd {json.dumps(body['cwd'])}\n")
            script.write(body["command"] + "\n")
            script.flush()
            self.events = queue.Queue()
            tell = f". {script.name}; e=$?; echo {self.mark}$e; echo {self.mark}$e >&2; (exit $e)\n"
            self.process.stdin.write(tell.encode())
            self.process.stdin.flush()
            try:
                code = self._follow(stream, body.get("timeout"))
            except (Gone, OSError):
                # Only session runs end with their caller; commands go on.
                self.kill()
                raise
            self.events = None
        stream.finish(code)

    def _follow(self, stream, timeout):
        end = time.monotonic() + timeout / 1000 if timeout else None
        marks = 0
        while True:
            try:
                kind, what = self.events.get(timeout=PING_EVERY if end is None else max(0.01, end - time.monotonic()))
            except queue.Empty:
                if end is not None and time.monotonic() >= end:
                    self.kill()
                    return 124
                stream.event("ping", text="pong")
                continue
            if kind == "mark":
                marks += 1
                if marks == 2:  # one on each pipe, so nothing of this run is left behind
                    return what
            else:
                stream.event(kind, **what)

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


CELLS = r"""
import ast, io, json, os, sys, traceback
out, source, sys.stdin = os.fdopen(int(sys.argv[1]), "w", 1), sys.stdin, io.StringIO()
def tell(kind, **more):
    print(json.dumps([kind, more]), file=out, flush=True)
class Pipe(io.TextIOBase):
    def __init__(self, kind):
        self.kind = kind
    def write(self, text):
        if text:
            tell(self.kind, text=text)
        return len(text)
sys.stdout, sys.stderr = Pipe("stdout"), Pipe("stderr")
names = {"__name__": "__main__"}
for count, line in enumerate(source, 1):
    try:
        tree = ast.parse(json.loads(line))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<cell>", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names) if last else None
        if value is not None:
            tell("result", results={"text": repr(value)})
        tell("execution_count", execution_count=count)
        tell("done")
    except BaseException as why:
        tell("error", error={"ename": type(why).__name__, "evalue": str(why),
                             "traceback": traceback.format_exc().splitlines()})
        tell("failed")
"""


class Cells:
    """A Python that keeps its names between cells: what Jupyter is to the real execd."""

    def __init__(self, ident, language):
        self.ident, self.language, self.lock = ident, language, threading.Lock()
        read, write = os.pipe()
        self.process = subprocess.Popen([sys.executable or "python3", "-u", "-c", CELLS, str(write)],
                                        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        pass_fds=(write,), start_new_session=True)
        os.close(write)
        self.told, self.events = os.fdopen(read), queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.told:
            self.events.put(tuple(json.loads(line)))
        self.events.put(("failed", {}))

    def run(self, code, stream):
        with self.lock:
            self.process.stdin.write(json.dumps(code).encode() + b"\n")
            self.process.stdin.flush()
            while True:
                try:
                    kind, more = self.events.get(timeout=PING_EVERY)
                except queue.Empty:
                    stream.event("ping", text="pong")
                    continue
                if kind in ("done", "failed"):
                    break
                stream.event(kind, **more)
        if kind == "done":
            stream.finish(0)
        else:
            stream.exchange.end()

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def kill(self):
        self.process.kill()
        self.process.stdin.close()
