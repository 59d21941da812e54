"""The official Python SDK runs one command and tells each line the moment it has it.

usage: sdk_lockstep.py URL KEY COMMAND
"""
import asyncio
import logging
import sys

from opensandbox import Sandbox
from opensandbox.config import ConnectionConfig
from opensandbox.models.execd import ExecutionHandlers

logging.disable(logging.CRITICAL)


async def tell(message):
    print(message.text, flush=True)


async def main(url, key, command):
    scheme, _, domain = url.partition("://")
    box = await Sandbox.create("sg/base:local", resource={"cpu": "1", "memory": "256Mi"},
                               connection_config=ConnectionConfig(domain=domain, protocol=scheme, api_key=key))
    ran = await box.commands.run(command, handlers=ExecutionHandlers(on_stdout=tell))
    print("exit", ran.exit_code, flush=True)
    await box.kill()


asyncio.run(main(*sys.argv[1:]))
