#!/usr/bin/env python3
"""The library websockets at both ends.

usage: websockets_both.py serve ADDRESS CERTIFICATE KEY [CREDENTIAL]    prints its port
       websockets_both.py call URL FEATURE...                           "FEATURE ok" or what was wrong
"""
import asyncio
import os
import ssl
import sys
import traceback

import websockets

ROOM = 1 << 26


def expect(is_so, what):
    if not is_so:
        raise AssertionError(what)


# the system


async def answer(ws):
    if len(sys.argv) > 5 and ws.request_headers.get_all("Authorization") != [sys.argv[5]]:
        await ws.close(4401, "who are you")
        return
    if ws.path == "/shown":
        await ws.send(ws.request_headers.get("Authorization", "none"))
    if ws.path == "/leave":
        await ws.close(4000, "enough")
        return
    async for message in ws:
        if ws.path == "/pieces":
            await ws.send([message[i:i + 1000] for i in range(0, len(message), 1000)])
        else:
            await ws.send(message)


async def serve():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*sys.argv[3:5])
    async with websockets.serve(answer, sys.argv[2], 0, ssl=context, max_size=ROOM, subprotocols=["chat.v2", "chat.v1"]) as s:
        print(s.sockets[0].getsockname()[1], flush=True)
        await asyncio.Future()


# the client


def connect(path, **kw):
    return websockets.connect(sys.argv[2] + path, ssl=ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"]), max_size=ROOM, **kw)


async def messages():
    async with connect("/") as ws:
        for message in ("", "text: \u00e9\U0001f600", b"", bytes(range(256)), "x" * 65536, os.urandom(5 << 20)):
            await ws.send(message)
            expect(await ws.recv() == message, f"another message came back than {message[:20]!r}")


async def pieces():
    """Messages of many frames, both ways."""
    async with connect("/pieces") as ws:
        await ws.send("x" * 10 for _ in range(1000))
        expect(await ws.recv() == "x" * 10000, "not what was sent")


async def pings():
    async with connect("/", ping_interval=None) as ws:
        for at in range(20):
            await asyncio.wait_for(await ws.ping(b"%d" % at), 5)
            await ws.send("between")
            expect(await ws.recv() == "between", at)


async def protocol():
    async with connect("/", subprotocols=["chat.v1"]) as ws:
        expect(ws.subprotocol == "chat.v1", ws.subprotocol)


async def plain():
    """A client that wants no compression."""
    async with connect("/", compression=None) as ws:
        expect(ws.extensions == [], ws.extensions)
        await ws.send("x" * 1000)
        expect(await ws.recv() == "x" * 1000, "another message")


async def left():
    async with connect("/leave") as ws:
        try:
            await ws.recv()
        except websockets.ConnectionClosed as e:
            expect((e.rcvd.code, e.rcvd.reason) == (4000, "enough"), e)
            return
    raise AssertionError("it did not leave")


async def closed():
    ws = await connect("/")
    await ws.close(4001, "mine")
    expect((ws.close_code, ws.close_reason) == (4001, "mine"), (ws.close_code, ws.close_reason))


async def many():
    async with connect("/") as one, connect("/") as two:
        async def talk(ws, word):
            for at in range(200):
                await ws.send(f"{word} {at}")
                expect(await ws.recv() == f"{word} {at}", (word, at))
        await asyncio.gather(talk(one, "one"), talk(two, "two"))


async def shown():
    async with connect("/shown", extra_headers={"Authorization": "Bearer mine"}) as ws:
        print(await ws.recv())


async def refused():
    try:
        async with connect("/admin"):
            pass
    except websockets.InvalidStatusCode as e:
        expect(e.status_code == 403, e)
        return
    raise AssertionError("was let in")


async def call():
    for name in sys.argv[3:]:
        try:
            await asyncio.wait_for(globals()[name](), 30)
            print(name, "ok", flush=True)
        except Exception:
            print(name, "FAILED", traceback.format_exc()[-1500:], flush=True)


asyncio.run(serve() if sys.argv[1] == "serve" else call())
