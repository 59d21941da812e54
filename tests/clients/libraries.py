#!/usr/bin/env python3
"""requests, httpx and aiohttp as their users use them; proxies come by environment.

usage: libraries.py LIBRARY SCHEME FEATURE...    a line for each: "FEATURE ok" or what was wrong
"""
import asyncio
import os
import ssl
import sys
import uuid

LIBRARY, SCHEME = sys.argv[1:3]
WWW = f"{SCHEME}://www.example.test"
MIB = b"0123456789abcdef" * 65536


def expect(is_so, what):
    if not is_so:
        raise AssertionError(what)


def generator():
    for at in range(0, len(MIB), 100_000):
        yield MIB[at:at + 100_000]


async def agenerator():
    for part in generator():
        yield part


class Requests:
    def __init__(self):
        import requests
        self.s = requests.Session()

    def request(self, method, url, data=None, follow=True):
        r = self.s.request(method, url, data=data, timeout=20, allow_redirects=follow)
        return r.status_code, r.headers, r.content

    def lines(self, url):
        with self.s.get(url, stream=True, timeout=20) as r:
            yield from (line.decode() for line in r.iter_lines(chunk_size=1))


class Httpx:
    def __init__(self):
        import httpx
        for name, value in list(os.environ.items()):  # it knows socks5h by the name socks5
            if name.lower().endswith("_proxy"):
                os.environ[name] = value.replace("socks5h:", "socks5:")
        self.s = httpx.Client(timeout=20, follow_redirects=True)

    def request(self, method, url, data=None, follow=True):
        r = self.s.request(method, url, content=data, follow_redirects=follow)
        return r.status_code, r.headers, r.content

    def lines(self, url):
        with self.s.stream("GET", url) as r:
            yield from (line.strip("\n") for line in r.iter_lines())


def get(c):
    code, _, body = c.request("GET", WWW + "/small")
    expect(code == 200 and body == b"small thing of www.example.test\n", (code, body))


def ipv6(c):
    code, _, body = c.request("GET", f"{SCHEME}://six.example.test/small")
    expect(code == 200 and body == b"small thing of six.example.test\n", (code, body))


def post(c):
    code, _, body = c.request("POST", WWW + "/post", MIB)
    expect(code == 200 and body.startswith(b"1048576 ") and b" length" in body, (code, body))


def chunked(c):
    code, _, body = c.request("POST", WWW + "/post", generator())
    expect(code == 200 and body.startswith(b"1048576 ") and b" chunked" in body, (code, body))


def big(c):
    code, _, body = c.request("GET", WWW + "/big")
    expect(code == 200 and body == bytes(range(256)) * 4096 * 20, (code, len(body)))


def keepalive(c):
    peers = {c.request("GET", WWW + "/small")[1]["X-Peer"] for _ in range(20)}
    expect(len(peers) == 1, peers)


def head(c):
    code, fields, body = c.request("HEAD", WWW + "/small")
    expect(code == 200 and fields["X-Origin"] == "www.example.test" and fields["Content-Length"] == "32" and not body,
           (code, dict(fields), body))


def redirect(c):
    code, _, body = c.request("GET", WWW + "/redirect")
    expect(code == 200 and body == b"small thing of other.example.test\n", (code, body))


def refused(code, body):
    expect(code == 403 and b"denied_by_policy" in body, (code, body))


def redirect_denied(c):
    code, _, _ = c.request("GET", WWW + "/redirect-denied", follow=False)
    expect(code == 302, code)
    try:
        code, _, body = c.request("GET", WWW + "/redirect-denied")
    except Exception:  # which one is the library's business
        return
    refused(code, body)


def sse(c):
    stream, n = uuid.uuid4(), 0
    for line in c.lines(f"{WWW}/sse?id={stream}"):
        if line:
            expect(line == f"data: event {n}", (n, line))
            c.request("GET", f"{WWW}/ack?id={stream}&n={n}")
            n += 1
    expect(n == 5, f"{n} events")


class Aiohttp:
    """The same questions; what a coroutine must do itself is below."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.s = self.loop.run_until_complete(self.session())

    @staticmethod
    async def session():
        import aiohttp
        context = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
        return aiohttp.ClientSession(trust_env=True, connector=aiohttp.TCPConnector(ssl=context),
                                     timeout=aiohttp.ClientTimeout(total=20))

    def request(self, method, url, data=None, follow=True):
        if data is not None and not isinstance(data, bytes):
            data = agenerator()

        async def go():
            async with self.s.request(method, url, data=data, allow_redirects=follow) as r:
                return r.status, r.headers, await r.read()
        return self.loop.run_until_complete(go())

    def lines(self, url):
        response = self.loop.run_until_complete(self.s.get(url).__aenter__())
        while line := self.loop.run_until_complete(response.content.readline()):
            yield line.decode().strip("\n")
        response.release()

    async def talk(self):
        url = WWW + "/ws"
        # The library takes no proxy from the environment for ws: and wss: addresses.
        proxy = os.environ.get(f"{SCHEME}_proxy")
        async with self.s.ws_connect(url, proxy=proxy) as ws:
            expect(await ws.receive_str(timeout=10) == "hello", "no greeting")
            for size in (1, 125, 126, 5000, 60000):
                await ws.send_str("x" * size)
                expect(await ws.receive_str(timeout=10) == "x" * size, size)

    def close(self):
        self.loop.run_until_complete(self.s.close())


def websocket(c):
    c.loop.run_until_complete(c.talk())


def main():
    client = {"requests": Requests, "httpx": Httpx, "aiohttp": Aiohttp}[LIBRARY]()
    for feature in sys.argv[3:]:
        try:
            globals()[feature.replace("-", "_")](client)
            print(feature, "ok", flush=True)
        except Exception as why:
            print(feature, f"{type(why).__name__}: {str(why)[:600]!r}", flush=True)
    if LIBRARY == "aiohttp":
        client.close()


main()
