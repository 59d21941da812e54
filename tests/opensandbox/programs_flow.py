"""The official programs, unmodified: the command line `osb` and the MCP server over stdio.

usage: programs_flow.py URL KEY [--proxy]     with the python of the venv they are in

Prints {"steps": ...} as sdk_flow.py does.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

BIN = pathlib.Path(sys.executable).parent
IMAGE = "sg/base:local"


def osb(where, *words):
    done = subprocess.run([BIN / "osb", "--no-color", *where, *words], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=90, check=False)
    return done.returncode, done.stdout


def command_line(where):
    made = osb(where, "sandbox", "create", "-i", IMAGE, "--resource", "memory=256Mi", "-m", "flow=osb", "-o", "json")
    box = json.loads(made[1])["id"]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as local:
        local.write("from here\n")
        local.flush()
        target = f"/tmp/osb-flow-{os.getpid()}"
        seen = {"upload": osb(where, "file", "upload", box, local.name, target)[0],
                "run": osb(where, "command", "run", box, "-o", "raw", "--", "cat", target),
                "rm": osb(where, "file", "rm", box, target)[0]}
    listed = json.loads(osb(where, "sandbox", "list", "-m", "flow=osb", "-o", "json")[1])
    seen["listed"] = [item["id"] == box for item in listed["items"]]
    seen["kill"] = osb(where, "sandbox", "kill", box)[0]
    return seen


class Mcp:
    def __init__(self, where):
        self.process = subprocess.Popen([BIN / "opensandbox-mcp", "--transport", "stdio", *where], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.count = 0

    def tell(self, method, **params):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}) + "\n")
        self.process.stdin.flush()

    def ask(self, method, **params):
        self.count += 1
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": self.count, "method": method, "params": params}) + "\n")
        self.process.stdin.flush()
        while True:
            answer = json.loads(self.process.stdout.readline())
            if answer.get("id") == self.count:
                return answer["result"]

    def call(self, name, **arguments):
        result = self.ask("tools/call", name=name, arguments=arguments)
        return {"failed": True} if result.get("isError") else result.get("structuredContent")


def mcp(where):
    server = Mcp(where)
    try:
        server.ask("initialize", protocolVersion="2025-03-26", capabilities={}, clientInfo={"name": "flow", "version": "1"})
        server.tell("notifications/initialized")
        tools = [tool["name"] for tool in server.ask("tools/list")["tools"]]
        box = server.call("sandbox_create", image=IMAGE, metadata={"flow": "mcp"},
                          resource={"cpu": "1", "memory": "256Mi"})["sandbox_id"]
        target = f"/tmp/mcp-flow-{os.getpid()}"
        ran = server.call("command_run", sandbox_id=box, command="echo out; exit 2")
        server.call("file_write", sandbox_id=box, path=target, content="text of a tool\n")
        read = server.call("file_read", sandbox_id=box, path=target)
        server.call("file_delete", sandbox_id=box, paths=[target])
        gone = server.call("file_read", sandbox_id=box, path=target)
        killed = server.call("sandbox_kill", sandbox_id=box)
        return {"tools": "command_run" in tools, "out": "out" in json.dumps(ran), "read": "text of a tool" in json.dumps(read),
                "gone": gone, "killed": "failed" not in killed}
    finally:
        server.process.stdin.close()  # how a client over stdio goes
        try:
            server.process.wait(5)
        except subprocess.TimeoutExpired:
            server.process.kill()


def main():
    url, key, *flags = sys.argv[1:]
    where = ["--domain", url.removeprefix("http://"), "--api-key", key, *(["--use-server-proxy"] if flags else [])]
    with tempfile.TemporaryDirectory() as home:
        os.environ["HOME"] = home
        json.dump({"steps": {"osb": command_line(where), "mcp": mcp(where)}}, sys.stdout)


main()
