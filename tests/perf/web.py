"""What intercept, connector and stream drive through the gateways of web_peers.py."""
from peers import ORIGIN
from web_peers import FIRST, WAYS

ALL = ("nginx", "haproxy", "nghttpx", "h2o", "envoy")
KIB, MIB = 1 << 10, 1 << 20
IDLE_CONNS, IDLE_GATE = 1000, 20000
SLOW = ("mitmproxy",)  # too slow to be asked for that


def keep(size, conns=64, streams=0, tls=1, **more):
    """streams: at a time on each connection, by HTTP/2; 0: HTTP/1.1.  inject: by a connector."""
    return dict(mode="keep", size=size, conns=conns, streams=streams, tls=tls, **more)


def new(**more):
    return dict(mode="new", conns=16, size=KIB, **more)


def events(conns, streams=0, **more):
    return dict(mode="events", conns=conns, streams=streams, **more)


# As LOADS of bench.py.  A gate with "p50" is about microseconds added to what another takes;
# `bare`: without a gateway too.
LOADS = [
    ("intercept h1 1 KiB, 64 kept alive", "intercept", "tls", keep(KIB), "request",
     [(("haproxy",), 1.15), (("mitmproxy",), 0.05)]),
    ("intercept h1 100 KiB", "intercept", "tls", keep(100 * KIB), "request", [(("haproxy",), 0.95)]),
    ("intercept h1 64 MiB", "intercept", "tls", keep(64 * MIB, conns=2, without=SLOW), None, [(("haproxy",), 0.95)]),
    ("intercept h2 to h2 1 KiB, 16x16", "intercept", "tls2", keep(KIB, 16, 16), "request", [(ALL, 1.20)]),
    ("intercept h2 to h1 1 KiB, 16x16", "intercept", "tls", keep(KIB, 16, 16, without=SLOW), "request", [(ALL, 1.20)]),
    ("new intercepted connection", "intercept", "tls", new(), "connection", [(("nginx",), 1.00), (("mitmproxy",), 0.10)]),
    ("new connection, the host's too", "intercept", "fresh", new(), "connection", []),
    # The keeper mints 50 a second for a worker, and no more.
    ("first sight of a host", "intercept", "fresh", new(host=FIRST, pace=25), "connection", []),
    ("idle TLS connection", "intercept", "tls", dict(mode="idle", conns=IDLE_CONNS, size=KIB, without=SLOW), "connection", []),
    ("inject h1 1 KiB, 64 kept alive", "connector", "tls", keep(KIB, inject=1), "request",
     [(("envoy",), 1.00), (("direct",), 1.50)]),
    ("inject h1 1 KiB, one at a time", "connector", "tls", keep(KIB, conns=1, inject=1, bare=1), "request",
     [(("direct",), 100, "p50"), (("bare",), 100, "p50")]),
    ("inject h1 100 KiB", "connector", "tls", keep(100 * KIB, inject=1), "request",
     [(("envoy",), 1.00), (("direct",), 1.50)]),
    ("inject h2 to h2 1 KiB, 16x16", "connector", "tls2", keep(KIB, 16, 16, inject=1), "request",
     [(("envoy",), 1.00), (("direct",), 1.50)]),
    ("inject h2 to h1 1 KiB, 16x16", "connector", "tls", keep(KIB, 16, 16, inject=1), "request",
     [(("envoy",), 1.00), (("direct",), 1.50)]),
    ("stream h2c to h1 1 KiB, 16x16", "stream", "clear", keep(KIB, 16, 16, tls=0), "request", [(ALL, 1.20)]),
    ("stream h2c to h1 100 KiB", "stream", "clear", keep(100 * KIB, 16, 4, tls=0), "request", [(ALL, 1.20)]),
    ("stream h2c to h1 10 MiB", "stream", "clear", keep(10 * MIB, 2, 2, tls=0), None, [(ALL, 1.20)]),
    ("stream TLS h2 to h1 100 KiB", "stream", "tls", keep(100 * KIB, 16, 4, without=SLOW), "request", [(ALL, 1.20)]),
    ("stream events h1, 64", "stream", "sse", events(64), "event", [(ALL, 1.15)]),
    ("stream events h2c, 4x16", "stream", "sse", events(4, 16), "event", [(ALL, 1.25)]),
    ("stream events h1, one", "stream", "sse", events(1, bare=1), "event", [(ALL, 50, "p50")]),
    ("stream events h2c, one", "stream", "sse", events(1, 1), "event", [(ALL, 50, "p50")]),
]


def command(out, options, gateway, way, args, serial):
    h2 = args.get("streams", 0) > 0
    address, port = gateway.target(way, h2)
    host = args.get("host", gateway.host(way, args.get("inject")))
    words = {"to": address, "port": port, "h2": int(h2), "host": host, "authority": f"{host}:{port}",
             "path": f"/{args.get('size')}", "seconds": options.seconds, "from": serial * 1000000,
             "origin": ORIGIN, "origin_port": WAYS["sse"][0],
             **{k: v for k, v in args.items() if k not in ("host", "inject", "bare", "without")}}
    return [out / ("sseload" if args["mode"] == "events" else "webload"), *(f"{k}={v}" for k, v in words.items())]


def mint_of(found, record):
    """What a host costs once: the first sight of it beside a connection to one that is known."""
    known = record.get("new connection, the host's too", {}).get("sandgate")
    first = found.get("sandgate")
    if not known or not first:
        return None
    return sorted(a["cost"] - b["cost"] for a, b in zip(first, known))[len(first) // 2]
