"""The official Python SDK through everything that an agent framework asks of it.

usage: sdk_flow.py URL KEY [--proxy] [--image IMAGE] [--policy] [--skip NAME ...]

URL is the lifecycle API (a server, the fake, or sandgate).  Prints one JSON object, name
of step to what it saw; a step that raised says {"error": ...}.  What differs from run to
run (ids, times) is checked here and left out, so two runs against servers that agree print
the same.
"""
import argparse
import asyncio
import datetime
import json
import logging
import sys
import time
import uuid

from opensandbox import Sandbox, SandboxManager
from opensandbox.config import ConnectionConfig
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.filesystem import (ContentReplaceEntry, DirectoryListEntry, MoveEntry, SearchEntry,
                                           SetPermissionEntry, WriteEntry)
from opensandbox.models.sandboxes import NetworkPolicy, NetworkRule, SandboxFilter

logging.disable(logging.CRITICAL)
STEPS = []


def step(function):
    STEPS.append(function)
    return function


def told(execution):
    return {"exit": execution.exit_code, "out": [m.text for m in execution.logs.stdout],
            "err": [m.text for m in execution.logs.stderr], "id": bool(execution.id)}


class Flow:
    """What the steps share."""

    def __init__(self, options):
        self.options, self.box, self.name = options, None, f"flow-{uuid.uuid4().hex[:8]}"
        self.dir = "/tmp/" + self.name
        scheme, _, domain = options.url.partition("://")
        self.config = ConnectionConfig(domain=domain.rstrip("/"), protocol=scheme, api_key=options.key,
                                       use_server_proxy=options.proxy)

    async def make(self, **more):
        return await Sandbox.create(
            self.options.image, connection_config=self.config, resource={"cpu": "1", "memory": "256Mi"},
            timeout=datetime.timedelta(minutes=10), metadata={"flow": "python", **more.pop("metadata", {})}, **more)


@step
async def create(f):
    f.box = await f.make(env={"FLOW": "set"}, metadata={"one": "1"})
    info = await f.box.get_info()
    return {"state": info.status.state, "metadata": info.metadata, "image": info.image.image,
            "entrypoint": info.entrypoint, "healthy": await f.box.is_healthy(), "same": info.id == f.box.id,
            "expires": info.expires_at > info.created_at}


@step
async def command(f):
    return {"both": told(await f.box.commands.run("echo out; echo err >&2; exit 3")),
            "env": told(await f.box.commands.run("echo $X", opts=RunCommandOpts(envs={"X": "y"}))),
            "cwd": told(await f.box.commands.run("pwd", opts=RunCommandOpts(working_directory="/usr"))),
            "argv": told(await f.box.commands.run(["echo", "a b", "$X"])),
            "unicode": told(await f.box.commands.run("printf 'zażółć\\n\\n🦀'"))}


@step
async def timeout(f):
    began = time.monotonic()
    ran = await f.box.commands.run("sleep 30", opts=RunCommandOpts(timeout=datetime.timedelta(seconds=1)))
    return {"failed": ran.exit_code != 0, "soon": time.monotonic() - began < 15}


@step
async def background(f):
    ran = await f.box.commands.run("for i in 1 2 3; do echo $i; done; sleep 30", opts=RunCommandOpts(background=True))
    for _ in range(200):
        logs = await f.box.commands.get_background_command_logs(ran.id)
        if logs.content.endswith("3\n"):
            break
        await asyncio.sleep(0.05)
    again = await f.box.commands.get_background_command_logs(ran.id, cursor=logs.cursor)
    before = await f.box.commands.get_command_status(ran.id)
    await f.box.commands.interrupt(ran.id)
    for _ in range(100):
        after = await f.box.commands.get_command_status(ran.id)
        if not after.running:
            break
        await asyncio.sleep(0.05)
    return {"logs": logs.content, "nothing new": again.content, "cursor": logs.cursor, "running": before.running,
            "stopped": not after.running}


@step
async def files(f):
    fs, base, data = f.box.files, f.dir, bytes(range(256)) * 400
    await fs.create_directories([WriteEntry(path=base, mode=755)])
    await fs.write_files([WriteEntry(path=f"{base}/a.txt", data="one\ntwo\nthree\n", mode=644),
                          WriteEntry(path=f"{base}/sub/b.bin", data=data, mode=600)])
    seen = {"text": await fs.read_file(f"{base}/a.txt"), "binary": await fs.read_bytes(f"{base}/sub/b.bin") == data,
            "range": (await fs.read_bytes(f"{base}/a.txt", range_header="bytes=4-6")).decode(),
            "lines": await fs.read_file(f"{base}/a.txt", offset=2, limit=1)}
    info = (await fs.get_file_info([f"{base}/a.txt", f"{base}/sub/b.bin"]))
    seen["info"] = {p.removeprefix(base): [i.size, i.mode, i.owner] for p, i in sorted(info.items())}
    seen["search"] = [i.path.removeprefix(base) for i in await fs.search(SearchEntry(path=base, pattern="*.txt"))]
    listed = await fs.list_directory(DirectoryListEntry(path=base, depth=1))
    seen["list"] = sorted(i.path.removeprefix(base) for i in listed)
    await fs.replace_contents([ContentReplaceEntry(path=f"{base}/a.txt", old_content="two", new_content="zwei")])
    await fs.move_files([MoveEntry(src=f"{base}/a.txt", dest=f"{base}/c.txt")])
    await fs.set_permissions([SetPermissionEntry(path=f"{base}/c.txt", mode=600)])
    seen["after"] = [await fs.read_file(f"{base}/c.txt"), (await fs.get_file_info([f"{base}/c.txt"]))[f"{base}/c.txt"].mode]
    stream = await fs.read_bytes_stream(f"{base}/sub/b.bin", chunk_size=4096)
    seen["stream"] = sum([len(piece) async for piece in stream])
    await fs.delete_files([f"{base}/c.txt"])
    seen["missing"] = await status_of(fs.read_bytes(f"{base}/c.txt"))
    await fs.delete_directories([base])
    return seen


async def status_of(call):
    try:
        await call
    except Exception as why:  # the SDK's own, whichever it is
        return getattr(why, "status_code", None) or type(why).__name__
    return None


@step
async def session(f):
    run, ident = f.box.commands.run_in_session, await f.box.commands.create_session(working_directory="/usr")
    seen = [told(await run(ident, "pwd; X=kept")), told(await run(ident, "cd /tmp; echo $X; false")),
            told(await run(ident, "pwd; echo oops >&2"))]
    await f.box.commands.delete_session(ident)
    return {"runs": seen, "gone": await status_of(run(ident, "true"))}


@step
async def metrics(f):
    seen = await f.box.get_metrics()
    return {"cpus": seen.cpu_count > 0, "memory": 0 < seen.memory_used_in_mib < seen.memory_total_in_mib}


@step
async def metadata(f):
    await f.box.patch_metadata({"two": "2", "one": None})
    async with await SandboxManager.create(connection_config=f.config) as manager:
        found = await manager.list_sandbox_infos(SandboxFilter(metadata={"two": "2", "flow": "python"}))
        mine = [i for i in found.sandbox_infos if i.id == f.box.id]
        nobody = await manager.list_sandbox_infos(SandboxFilter(metadata={"two": "3"}))
    return {"now": {k: mine[0].metadata.get(k) for k in ("one", "two", "flow")}, "found": len(mine),
            "nobody": len(nobody.sandbox_infos)}


@step
async def renew(f):
    wanted = await f.box.renew(datetime.timedelta(minutes=30))
    info = await f.box.get_info()
    return {"same": abs((info.expires_at - wanted.expires_at).total_seconds()) < 2}


@step
async def pause(f):
    before = (await f.box.commands.run("echo $$ > /tmp/flow-kept; sleep 0; cat /tmp/flow-kept")).logs.stdout[0].text
    await f.box.pause()
    state = (await f.box.get_info()).status.state
    twice = await status_of(f.box.pause())
    box = await Sandbox.resume(f.box.id, connection_config=f.config)
    after = (await box.commands.run("cat /tmp/flow-kept; rm /tmp/flow-kept")).logs.stdout[0].text
    f.box = box
    return {"state": state, "twice": twice, "resumed": (await box.get_info()).status.state, "kept": before == after}


@step
async def connect(f):
    box = await Sandbox.connect(f.box.id, connection_config=f.config)
    return told(await box.commands.run("echo again"))


@step
async def streams(f):
    """Events come while the command still runs."""
    began, when = time.monotonic(), []

    async def seen(_):
        when.append(time.monotonic() - began)

    from opensandbox.models.execd import ExecutionHandlers
    await f.box.commands.run("for i in 1 2 3; do echo $i; sleep 0.3; done", handlers=ExecutionHandlers(on_stdout=seen))
    return {"events": len(when), "spread": when[-1] - when[0] > 0.4}


@step
async def cells(f):
    from code_interpreter import CodeInterpreter
    made = await CodeInterpreter.create(f.box, skip_health_check=True)  # it looks for a Jupyter
    context = await made.codes.create_context("python")
    first = await made.codes.run("x = 41\nprint('hello')\nx + 1", context=context)
    second = await made.codes.run("x / 0", context=context)
    return {"result": [r.text for r in first.result], "out": "".join(m.text for m in first.logs.stdout).strip(),
            "fails": second.error.name}


@step
async def policy(f):
    if not f.options.policy:
        return "not asked for"
    box = await f.make(network_policy=NetworkPolicy(default_action="deny", egress=[
        NetworkRule(action="allow", target="pypi.example.test")]))
    try:
        await box.patch_egress_rules([NetworkRule(action="deny", target="bad.example.test"),
                                      NetworkRule(action="allow", target="*.example.test")])
        now = await box.get_egress_policy()
        await box.delete_egress_rules(["bad.example.test", "unknown.example.test"])
        then = await box.get_egress_policy()
    finally:
        await box.kill()
    return [[p.default_action, sorted(f"{r.action} {r.target}" for r in p.egress)] for p in (now, then)]


@step
async def snapshot(f):
    made = await f.box.create_snapshot(name="flow")
    async with await SandboxManager.create(connection_config=f.config) as manager:
        for _ in range(200):
            seen = await manager.get_snapshot(made.id)
            if seen.status.state != "Creating":
                break
            await asyncio.sleep(0.1)
        await manager.delete_snapshot(made.id)
        gone = await status_of(manager.get_snapshot(made.id))
    return {"state": seen.status.state, "of": seen.sandbox_id == f.box.id, "gone": gone}


@step
async def pool(f):
    """The SDK's own pool: made ready before, handed out once, filled up again, emptied."""
    from opensandbox import InMemoryAsyncPoolStateStore, PoolCreationSpec, SandboxPoolAsync
    made = SandboxPoolAsync(
        pool_name="flow", owner_id="flow", max_idle=1, connection_config=f.config,
        state_store=InMemoryAsyncPoolStateStore(),
        creation_spec=PoolCreationSpec(image=f.options.image, entrypoint=["tail", "-f", "/dev/null"],
                                       resource={"cpu": "1", "memory": "256Mi"}, metadata={"flow": f.name}))
    await made.start()
    try:
        box = await made.acquire(sandbox_timeout=datetime.timedelta(minutes=5))
        seen = told(await box.commands.run("echo pooled"))
        await box.kill()
    finally:
        await made.shutdown(True)
    # What was being made when the pool closed belongs to nobody.
    async with await SandboxManager.create(connection_config=f.config) as manager:
        while (left := await manager.list_sandbox_infos(SandboxFilter(metadata={"flow": f.name}))).sandbox_infos:
            for info in left.sandbox_infos:
                await manager.kill_sandbox(info.id)
    return seen


@step
async def kill(f):
    await f.box.kill()
    return {"info": await status_of(f.box.get_info()), "again": await status_of(f.box.kill())}


@step
async def refused(f):
    wrong = ConnectionConfig(domain=f.config.domain, protocol=f.config.protocol, api_key="wrong")
    return await status_of(Sandbox.create(f.options.image, connection_config=wrong))


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("key")
    parser.add_argument("--proxy", action="store_true")
    parser.add_argument("--policy", action="store_true")
    parser.add_argument("--image", default="sg/base:local")
    parser.add_argument("--skip", nargs="*", default=[])
    flow, seen, took = Flow(parser.parse_args()), {}, {}
    for function in STEPS:
        if function.__name__ in flow.options.skip:
            continue
        began = time.monotonic()
        try:
            seen[function.__name__] = await asyncio.wait_for(function(flow), 60)
        except Exception as why:  # told, and the rest still goes on
            seen[function.__name__] = {"error": f"{type(why).__name__}: {why}"[:600]}
            if function is create:
                break
        took[function.__name__] = round(time.monotonic() - began, 3)
    json.dump({"steps": seen, "seconds": took}, sys.stdout, indent=1)


asyncio.run(main())
