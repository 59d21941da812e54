#!/usr/bin/env python3
"""grpcio as its users use it; roots and proxy come by environment.

usage: grpc_client.py TARGET WAY     WAY: proxy or captured; a line for each: "NAME ok" or what was wrong
"""
import queue
import sys
import threading
import time
import traceback

import grpc

TARGET, WAY = sys.argv[1:3]
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1),
           ("grpc.enable_http_proxy", WAY == "proxy")]
CHANNEL = grpc.secure_channel(TARGET, grpc.ssl_channel_credentials(), OPTIONS)
PATH = "/acme.billing.v1.Invoices/"
GET, SEND = CHANNEL.unary_unary(PATH + "Get"), CHANNEL.stream_unary(PATH + "Send")
LIST, TALK = CHANNEL.unary_stream(PATH + "List"), CHANNEL.stream_stream(PATH + "Talk")
WAIT = 20
Code = grpc.StatusCode


def expect(is_so, what):
    if not is_so:
        raise AssertionError(what)


def failed(call, code):
    """What a call fails with."""
    try:
        answer = call()
    except grpc.RpcError as e:
        expect(e.code() == code, (e.code(), e.details()))
        return e
    raise AssertionError(f"answered {answer!r}")


def unary():
    expect(GET(b"hello", timeout=WAIT) == b"hello", "another answer")
    expect(GET(b"", timeout=WAIT) == b"", "an empty message is one")


def client_stream():
    expect(SEND((b"x" * n for n in range(500)), timeout=WAIT) == b"500 %d" % sum(range(500)), "messages are missing")
    expect(SEND(iter([]), timeout=WAIT) == b"0 0", "no message is no message")


def server_stream():
    expect(list(LIST(b"500", timeout=WAIT)) == [b"%d" % i for i in range(500)], "messages are missing")
    expect(list(LIST(b"0", timeout=WAIT)) == [], "no message is no message")


def bidi():
    """Each message only after the answer to the one before: nothing on the way may wait for more."""
    asked = queue.SimpleQueue()
    answers = TALK(iter(asked.get, None), timeout=WAIT)
    for i in range(200):
        asked.put(b"message %d" % i)
        expect(next(answers) == (b"message %d" % i)[::-1], i)
    asked.put(None)
    expect(list(answers) == [] and answers.code() == Code.OK, answers.code())


def large():
    big = bytes(range(256)) * 4096 * 20
    expect(GET(big, timeout=WAIT) == big, "20 MiB came back otherwise")
    expect(SEND((big for _ in range(3)), timeout=WAIT) == b"3 %d" % (3 * len(big)), "60 MiB did not arrive")


def compressed():
    """A client that compresses by itself; servers must take it, and so must what is between."""
    text = b"the same again " * 10000
    expect(GET(text, timeout=WAIT, compression=grpc.Compression.Gzip) == text, "another answer")
    expect(GET(b"packed" + text, timeout=WAIT) == b"packed" + text, "another packed answer")


def metadata():
    call = GET.with_call(b"x", timeout=WAIT, metadata=[("x-own", "mine"), ("x-own-bin", b"\0\xff")])[1]
    first, last = dict(call.initial_metadata()), dict(call.trailing_metadata())
    expect(first.get("x-first") == "begun", first)
    expect(last.get("x-last") == "ended" and last.get("x-last-bin") == bytes(range(256)), last)
    shown = GET(b"shown", timeout=WAIT, metadata=[("x-own", "mine"), ("x-own-bin", b"\0\xff")]).decode()
    expect("('x-own', ['mine'])" in shown and "('x-own-bin', [b'\\x00\\xff'])" in shown, shown)


def status():
    why = failed(lambda: GET(b"fail", timeout=WAIT), Code.FAILED_PRECONDITION)
    expect(why.details() == "no such invoice: 100 % \u00e9", why.details())
    expect(dict(why.trailing_metadata()).get("x-last") == "ended", why.trailing_metadata())
    failed(lambda: GET(b"half", timeout=WAIT), Code.DATA_LOSS)
    got = []

    def seven():
        for message in LIST(b"7", timeout=WAIT):
            got.append(message)
    why = failed(seven, Code.RESOURCE_EXHAUSTED)
    expect(len(got) == 7 and why.details() == "seven is enough", (got, why.details()))


def deadline():
    left = float(GET(b"left", timeout=9))
    expect(5 < left < 9.5, f"the server was told of {left} s")
    begun = time.monotonic()
    failed(lambda: GET(b"wait", timeout=0.5), Code.DEADLINE_EXCEEDED)
    expect(time.monotonic() - begun < 5, "it came late")


def cancel():
    call = LIST(b"endless")
    for _ in range(50):
        next(call)
    call.cancel()
    expect(call.code() == Code.CANCELLED, call.code())
    call = GET.future(b"wait")
    threading.Timer(0.3, call.cancel).start()
    try:
        call.result()
    except grpc.FutureCancelledError:
        return
    raise AssertionError("was not cancelled")


def together():
    """A hundred calls on one connection."""
    calls = [(b"%d" % i * 5000, GET.future(b"%d" % i * 5000, timeout=WAIT)) for i in range(100)]
    expect(all(call.result() == want for want, call in calls), "answers went astray")


def refused():
    why = failed(lambda: CHANNEL.unary_unary(PATH + "Delete")(b"x", timeout=WAIT), Code.PERMISSION_DENIED)
    print(why.details())


def own_credential():
    shown = GET(b"shown", timeout=WAIT, metadata=[("authorization", "Bearer mine"), ("x-api-key", "mine")]).decode()
    print(shown)


def main():
    for name in sys.argv[3:]:
        try:
            globals()[name]()
            print(name, "ok", flush=True)
        except Exception:
            print(name, "FAILED", traceback.format_exc()[-1500:], flush=True)


main()
