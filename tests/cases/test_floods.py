"""What one sandbox can do to the others (threats 3.1, for HTTP/1, DNS and hellos): nothing.

The attacker's source has limits of its own (64 connections, 100 new ones a second).
While it attacks, another sandbox's requests must come through, each in bounded time.
"""
import asyncio
import contextlib
import pathlib
import socket
import struct
import time

import pytest

import world as w
from hello import hello
from ways import heard, query, told

SLOW = w.OTHERS["slow"]
POLITE_MAX = 3.0  # seconds; sanitizers and two processors
POST = b"POST / HTTP/1.1\r\nHost: ok.test\r\n"


async def polite(battery, until):
    """Requests by each way until the event; the slowest one's time."""
    slowest, count = 0, 0
    while not until.is_set() or count < 8:
        for way in (("box", "connect"), ("cell", "sni"), ("box", "absolute"), ("cell", "dns"), ("box", "socks")):
            begun = time.monotonic()
            assert await battery.good(way), way
            slowest, count = max(slowest, time.monotonic() - begun), count + 1
        await asyncio.sleep(0.02)
    assert slowest < POLITE_MAX, f"{slowest:.1f} s"


def attack(battery, name, attacker):
    """attacker() runs beside polite requests; however much it sends is one input."""
    async def both():
        over = asyncio.Event()
        waits = asyncio.create_task(polite(battery, over))
        try:
            await attacker()
        finally:
            over.set()
        await waits
    battery.go(both())
    battery.count(name, 1)


async def from_slow(battery, port, data=b""):
    link = await battery.ways.dial("box", w.ELSEWHERE if port != 3128 else w.WORLD4, port, source=SLOW)
    await link.send(data)
    return link


async def several(battery, port, n, data=b""):
    """As many as the attacker may have."""
    links = []
    for i in range(n):
        with contextlib.suppress(OSError, TimeoutError):
            links.append(await from_slow(battery, port, data))
        await asyncio.sleep(0.012)
    return links


async def drip(link, data, every, end):
    """One byte after the other until the other side ends it; how long that took."""
    begun = time.monotonic()
    closed = asyncio.create_task(link.more())
    for byte in data:
        if closed.done() or time.monotonic() - begun > end:
            break
        await link.send(bytes([byte]))
        await asyncio.sleep(every)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(closed), max(0.1, end - (time.monotonic() - begun)))
    assert closed.done(), "still open"
    link.close()
    return time.monotonic() - begun


@pytest.mark.parametrize("kind,port,data", [
    ("head", 80, b"GET /slow HTTP/1.1\r\nHost: ok.test\r\nX: " + b"y" * 400), ("hello", 443, hello() + b"\x17\x03\x03\x40"),
    ("head on the proxy", 3128, b"GET http://ok.test/ HTTP/1.1\r\nX: " + b"y" * 400), ("socks", 3128, b"\x05\xff" + b"\0" * 400),
    ("method", 80, b"G" * 20 + b"\r" * 400), ("connect", 3128, b"CONNECT ok.test:443 HTTP/1.1\r\nX: " + b"y" * 400)],
    ids=["head", "hello", "head-on-proxy", "socks", "method", "connect"])
def test_slow_beginnings_end_at_their_deadline(battery, kind, port, data):
    async def attacker():
        links = await several(battery, port, 40)
        took = await asyncio.gather(*(drip(link, data[:200] if kind == "hello" else data, 0.06, 9) for link in links))
        assert max(took) < 8, took
    attack(battery, f"slow {kind}", attacker)


def test_silence_ends_too(battery):
    async def attacker():
        links = [x for port in (80, 443, 3128) for x in await several(battery, port, 15)]
        took = await asyncio.gather(*(drip(link, b"", 1, 9) for link in links))
        assert max(took) < 8, took
    attack(battery, "silence", attacker)


def test_slow_bodies_hold_only_their_own(battery):
    async def attacker():
        links = await several(battery, 80, 40, POST + b"Content-Length: 100000\r\n\r\n")
        for _ in range(25):
            for link in links:
                await link.send(b"x")
            await asyncio.sleep(0.05)
        for link in links:
            link.close()
    attack(battery, "slow bodies", attacker)


def rss(battery):
    """Memory of the workers, in KiB."""
    total = 0
    for name, pid in battery.gate.pids().items():
        if name.startswith("worker"):
            text = pathlib.Path(f"/proc/{pid}/status").read_text()
            total += int(text.split("VmRSS:")[1].split()[0])
    return total


def test_closed_windows_are_given_up_and_cost_little(battery):
    """Slow read: 40 answers of 50 MB that nobody takes."""
    async def big(request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(50):
                writer.write(bytes(1000000))
                await writer.drain()
        return False
    battery.world.origin.scripts["/big"] = big

    async def attacker():
        before = rss(battery)
        links = await several(battery, 80, 40, b"GET /big HTTP/1.1\r\nHost: ok.test\r\n\r\n")
        await asyncio.sleep(1)
        assert rss(battery) - before < 40 * 256 + 16384, "KiB for 40 of them"
        await asyncio.sleep(5)  # stalled: 2s
        left = [link for link in links if not await over(link)]
        assert not left, f"{len(left)} of {len(links)} still run"
        for link in links:
            link.close()

    async def over(link):
        """Take what is there; has the other side ended it before all came?"""
        taken = 0
        while data := await link.more():
            if data == b"!timeout":
                return False
            taken += len(data)
        return taken < 50000000
    attack(battery, "closed windows", attacker)


def test_more_connections_than_allowed_are_reset_and_come_back(battery):
    async def attacker():
        async def one():
            try:
                link = await from_slow(battery, 443, hello())
                got = await battery.ways.tls_answer(link)
                return link if got.how == "ok" else link.close()
            except (OSError, TimeoutError):
                return None
        links = [link for link in await asyncio.gather(*(one() for _ in range(300))) if link]
        assert 0 < len(links) <= 64, len(links)
        for link in links:
            link.close()
        await asyncio.sleep(1.5)
        link = await from_slow(battery, 443, hello())
        assert (await battery.ways.tls_answer(link)).how == "ok", "slots come back"
        link.close()
    attack(battery, "connections", attacker)


def test_connecting_and_leaving_at_once(battery):
    async def attacker():
        for port in (80, 443, 3128):
            for data in (b"", b"\x16", hello()[:100], b"GET / HT", hello(), b"\x05\x01\x00"):
                for _ in range(5):
                    with contextlib.suppress(OSError, TimeoutError):
                        link = await from_slow(battery, port, data)
                        if data:
                            link.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
                        link.close()
                    await asyncio.sleep(0.005)
    attack(battery, "leaving", attacker)


def test_a_thousand_requests_at_once_are_answered_in_order(battery):
    """H14: allowed and not; the sandbox reads nothing until all are sent."""
    async def attacker():
        link = await from_slow(battery, 3128)
        for i in range(1000):
            host = b"ok.test" if i % 2 else b"evil.test"
            await link.send(b"GET http://" + host + b"/ HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
        said = []
        while len(said) < 1000 and (answer := await link.response()) is not None:
            said.append(heard(answer).how)
        assert len(said) >= 998 and all(s == ("ok" if i % 2 else "http") for i, s in enumerate(said)), len(said)
        link.close()
    attack(battery, "pipelining", attacker)


def test_a_flood_of_questions_costs_only_who_asks(battery):
    """10,000 datagrams as fast as they go; whoever is over the rate is told so."""
    async def attacker():
        with battery.world.box.socket(kind=socket.SOCK_DGRAM) as s:
            s.bind((SLOW, 0))
            s.connect(("8.8.8.8", 53))
            s.setblocking(False)
            for i in range(10000):
                with contextlib.suppress(BlockingIOError, OSError):
                    s.send(query(f"x{i}.evil.test", ident=i))
                if i % 100 == 0:
                    await asyncio.sleep(0.005)
            answers = []
            with contextlib.suppress(OSError, asyncio.TimeoutError):
                while True:
                    answers.append(await asyncio.wait_for(asyncio.get_running_loop().sock_recv(s, 4096), 0.5))
            assert {told(a).number for a in answers} <= {3, 5}
    attack(battery, "questions", attacker)


def test_answers_are_no_bigger_than_is_needed(battery):
    """DNS amplification: a refusal is bounded by what was asked, and goes to the asker."""
    async def sizes():
        for name in ("x.evil.test", "a" * 60 + ".evil.test", "ok.test"):
            for kind in (1, 16, 255, 48):
                q = query(name, kind)
                answer = await battery.ways.ask("box", q)
                assert len(answer) <= len(q) + 160, (name, kind, len(answer))
    battery.go(sizes())
    battery.count("sizes", 12)


def test_chunk_extensions_do_not_multiply(battery):
    """CVE-2023-39326's kind: much on the wire for little that is forwarded."""
    async def ask(way, ext):
        data = POST.replace(b"POST /", b"POST @@/") + b"Transfer-Encoding: chunked\r\n\r\n" + (b"1;" + b"x" * ext + b"\r\ny\r\n") * 3000 + b"0\r\n\r\n"
        return await battery.ways.http(way, data, method=b"POST")
    battery.run((f"ext {ext}", way, code, lambda way=way, ext=ext: ask(way, ext))
                for ext, code in ((4, "ok"), (200, "bad_chunk"), (2000, "bad_chunk")) for way in (("box", "transparent"), ("cell", "absolute")))
