"""A stand-in for OpenSandbox's execd: the agent inside a sandbox, by the letter of its
interface file.  Runs in real containers (packed by `pack`, started by bootstrap.sh) and
behind the fake server, where each request is also judged and recorded.

Python 3.11 and its standard library only.
"""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid

import execd_files
import execd_pty
import execd_run
from wire import Broken, Gone, Server, Source, pour

PORT = 44772
CODE_CONTEXT = {"python"}
# Hop-by-hop fields, which the proxy of execd does not hand on.
HOP = {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding",
       "upgrade"}


def metrics():
    memory = dict(re.findall(r"(\w+):\s+(\d+) kB", open("/proc/meminfo", encoding="ascii").read()))
    total, free = (int(memory[k]) / 1024 for k in ("MemTotal", "MemAvailable"))
    return {"cpu_count": float(os.cpu_count()), "cpu_used_pct": 0.0, "mem_total_mib": total,
            "mem_used_mib": total - free, "timestamp": execd_run.now_ms()}


class Execd:
    """The routes.  `apps` maps a port inside the sandbox to a handler of this process
    (the fake's egress API); other ports are dialled on loopback, as execd does."""

    def __init__(self, token=None, apps=None):
        self.token, self.apps, self.own_port = token, apps or {}, PORT
        self.files = execd_files.Files()
        self.commands, self.sessions, self.contexts, self.terminals = {}, {}, {}, {}
        self.scripts = {}  # command text -> function(stream): what a test plays instead of running
        files = self.files
        self.routes = [
            ("GET", "/ping", lambda r, x: x.answer(200)),
            ("POST", "/command", self.run_command), ("DELETE", "/command", self.interrupt),
            ("GET", "/command/status/([^/]+)", self.command_status), ("GET", "/command/([^/]+)/logs", self.logs),
            ("POST", "/session", self.make_session), ("POST", "/session/([^/]+)/run", self.run_session),
            ("DELETE", "/session/([^/]+)", self.end_session),
            ("POST", "/code/context", self.make_context), ("GET", "/code/contexts", self.list_contexts),
            ("DELETE", "/code/contexts", self.end_contexts),
            ("GET", "/code/contexts/([^/]+)", self.get_context),
            ("DELETE", "/code/contexts/([^/]+)", self.end_context),
            ("POST", "/code", self.run_code), ("DELETE", "/code", self.interrupt_code),
            ("GET", "/files/info", files.info), ("DELETE", "/files", files.remove),
            ("POST", "/files/permissions", files.permissions), ("POST", "/files/mv", files.move),
            ("POST", "/files/replace", files.replace), ("GET", "/files/search", files.search),
            ("POST", "/files/upload", files.upload), ("GET", "/files/download", files.download),
            ("GET", "/directories/list", files.list), ("POST", "/directories", files.make),
            ("DELETE", "/directories", files.unmake),
            ("GET", "/metrics", lambda r, x: x.json(200, metrics())), ("GET", "/metrics/watch", self.watch),
            ("POST", "/pty", self.make_terminal), ("GET", "/pty/([^/]+)", self.terminal_status),
            ("DELETE", "/pty/([^/]+)", self.end_terminal), ("GET", "/pty/([^/]+)/ws", self.terminal_socket),
        ]

    def handle(self, request, exchange):
        if self.token and request.get("x-execd-access-token") != self.token:
            return exchange.json(401, {"error": "Unauthorized: invalid or missing header X-EXECD-ACCESS-TOKEN"})
        found = re.fullmatch(r"/proxy/(\d{1,5})(/.*)?", request.path)
        if found:
            return self.proxy(request, exchange, int(found[1]), found[2] or "/")
        return self.route(request, exchange, request.path)

    def route(self, request, exchange, path):
        known = False
        for method, pattern, target in self.routes:
            found = re.fullmatch(pattern, path)
            known = known or bool(found)
            if found and method == request.method:
                return self._call(target, request, exchange, found.groups())
        return exchange.answer(405 if known else 404, b"404 page not found", "text/plain")

    @staticmethod
    def _call(target, request, exchange, groups):
        try:
            return target(request, exchange, *groups)
        except (FileNotFoundError, NotADirectoryError) as why:
            return exchange.fail(404, "FILE_NOT_FOUND", f"file not found: {why}")
        except KeyError as why:
            return exchange.fail(404, "CONTEXT_NOT_FOUND", f"{why} not found")
        except (ConnectionError, Gone, Broken):
            raise
        except OSError as why:
            return exchange.fail(500, "RUNTIME_ERROR", str(why))

    # -- commands, sessions, cells --

    def run_command(self, request, exchange):
        body = request.json()
        if not body.get("command") and not body.get("argv"):
            return exchange.fail(400, "INVALID_REQUEST_BODY", "no command")
        stream = execd_run.Stream(exchange)
        if body.get("command") in self.scripts:
            return self.scripts[body["command"]](stream)
        command = execd_run.Command(str(uuid.uuid4()), body)
        self.commands[command.ident] = command
        stream.start(command.ident)
        if not command.background:
            stream.pump(command.events)
            return stream.finish(command.code)
        return stream.finish(0)

    def interrupt(self, request, exchange):
        self.commands[request.arg("id")].interrupt()
        exchange.answer(200)

    def command_status(self, _, exchange, ident):
        exchange.json(200, self.commands[ident].status())

    def logs(self, request, exchange, ident):
        command = self.commands[ident]
        if not command.background:
            return exchange.fail(400, "NOT_SUPPORTED", "only background commands keep their output")
        with command.lock:
            text = command.log.encode()
        cursor = int(request.arg("cursor") or 0)
        return exchange.answer(200, text[cursor:], "text/plain; charset=utf-8",
                               [("EXECD-COMMANDS-TAIL-CURSOR", str(len(text)))])

    def make_session(self, request, exchange):
        body = request.json() if request.body() else {}
        session = execd_run.Session(str(uuid.uuid4()), body.get("cwd"))
        self.sessions[session.ident] = session
        exchange.json(200, {"session_id": session.ident})

    def run_session(self, request, exchange, ident):
        session, body = self.sessions[ident], request.json()
        stream = execd_run.Stream(exchange)
        stream.start(str(uuid.uuid4()))
        session.run(body, stream)

    def end_session(self, _, exchange, ident):
        self.sessions.pop(ident).kill()
        exchange.answer(200)

    def make_context(self, request, exchange):
        language = request.json().get("language") or "python"
        if language not in CODE_CONTEXT:
            return exchange.fail(400, "NOT_SUPPORTED", f"no kernel for {language}")
        context = execd_run.Cells(str(uuid.uuid4()), language)
        self.contexts[context.ident] = context
        return exchange.json(200, {"id": context.ident, "language": language})

    def run_code(self, request, exchange):
        body = request.json()
        wish = body.get("context") or {}
        context = self.contexts[wish["id"]] if wish.get("id") else self._default(wish.get("language") or "python")
        stream = execd_run.Stream(exchange)
        stream.start(context.ident)
        context.run(body["code"], stream)

    def _default(self, language):
        if language not in CODE_CONTEXT:
            raise KeyError(language)
        return self.contexts.setdefault(language, execd_run.Cells(language, language))

    def interrupt_code(self, request, exchange):
        self.contexts[request.arg("id")].interrupt()
        exchange.answer(200)

    def list_contexts(self, request, exchange):
        wanted = request.arg("language")
        exchange.json(200, [{"id": c.ident, "language": c.language} for c in self.contexts.values()
                            if wanted in (None, "", c.language)])

    def get_context(self, _, exchange, ident):
        exchange.json(200, {"id": ident, "language": self.contexts[ident].language})

    def end_context(self, _, exchange, ident):
        self.contexts.pop(ident).kill()
        exchange.answer(200)

    def end_contexts(self, request, exchange):
        for context in [c for c in self.contexts.values() if c.language == request.arg("language")]:
            self.contexts.pop(context.ident).kill()
        exchange.answer(200)

    @staticmethod
    def watch(_, exchange):
        exchange.begin(200, "text/event-stream")
        while True:  # until the caller goes; one newline after each, as the real one writes them
            exchange.write(json.dumps(metrics()).encode() + b"\n")
            time.sleep(1)

    # -- terminals --

    def make_terminal(self, request, exchange):
        body = request.json() if request.body() else {}
        terminal = execd_pty.Terminal(str(uuid.uuid4()), body)
        self.terminals[terminal.ident] = terminal
        exchange.json(201, {"session_id": terminal.ident})

    def terminal_status(self, _, exchange, ident):
        exchange.json(200, self.terminals[ident].status())

    def end_terminal(self, _, exchange, ident):
        self.terminals.pop(ident).kill()
        exchange.answer(200)

    def terminal_socket(self, request, exchange, ident):
        self.terminals[ident].attach(request, exchange)

    # -- /proxy/{port}: the way by which the server's endpoints reach any port --

    def proxy(self, request, exchange, port, path):
        if port in self.apps:
            request.path = path
            return self.apps[port](request, exchange)
        if port == self.own_port:
            request.path = path
            return self.route(request, exchange, path)
        try:
            other = socket.create_connection(("127.0.0.1", port), 10)
        except OSError:
            return exchange.answer(502, b"Bad Gateway\n", "text/plain; charset=utf-8")
        with other:
            other.settimeout(None)
            relay(request, exchange, other, path + ("?" + request.query if request.query else ""))
        return None

    def close(self):
        for command in self.commands.values():
            command.interrupt(signal.SIGKILL)
        for thing in [*self.sessions.values(), *self.contexts.values(), *self.terminals.values()]:
            thing.kill()


def relay(request, exchange, other, target):
    """One request to an application, its answer back as it comes; after a 101 just bytes."""
    upgrade = (request.get("upgrade") or "").lower() == "websocket"
    lines = [f"{request.method} {target} HTTP/1.1"]
    lines += [f"{n}: {v}" for n, v in request.fields if n.lower() not in HOP]
    lines += ["Connection: Upgrade", "Upgrade: websocket"] if upgrade else ["Connection: close"]
    chunked = request.body_left == "chunked"
    if chunked:
        lines.append("Transfer-Encoding: chunked")
    other.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
    for piece in request.chunks():
        other.sendall(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
    if chunked:
        other.sendall(b"0\r\n\r\n")
    exchange.keep = False
    if upgrade:
        pour(Source(other), request.source)
        return
    while data := other.recv(65536):
        exchange.sock.sendall(data)


def main():
    # Started with `&` by a shell we would ignore SIGINT, and so would each command.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    execd = Execd(token=os.environ.get("EXECD_ACCESS_TOKEN"))
    server = Server(execd.handle, "0.0.0.0", PORT)
    if len(sys.argv) > 1:  # execd COMMAND...: beside the entry process, whose end is ours
        sys.exit(subprocess.call(sys.argv[1:]))
    threading.Event().wait()
    server.close()


if __name__ == "__main__":
    main()
