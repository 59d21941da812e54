"""What intercept, connector and stream drive through the gateways of web_peers.py."""
from web_peers import FIRST

ALL = ("nginx", "haproxy", "nghttpx", "h2o", "envoy")
KIB, MIB = 1 << 10, 1 << 20


def keep(size, conns=64, streams=0, tls=1, inject=0):
    """streams: at a time on each connection, by HTTP/2; 0: HTTP/1.1."""
    return dict(mode="keep", size=size, conns=conns, streams=streams, tls=tls, inject=inject)


# As LOADS of bench.py.
LOADS = [
    ("intercept h1 1 KiB, 64 kept alive", "intercept", "tls", keep(KIB), "request",
     [(("haproxy",), 1.15), (("mitmproxy",), 0.05)]),
    ("intercept h1 100 KiB", "intercept", "tls", keep(100 * KIB), "request", [(("haproxy",), 0.95)]),
    ("intercept h1 64 MiB", "intercept", "tls", keep(64 * MIB, conns=2), None, [(("haproxy",), 0.95)]),
    ("intercept h2 to h2 1 KiB, 16x16", "intercept", "tls2", keep(KIB, 16, 16), "request", [(ALL, 1.20)]),
    ("intercept h2 to h1 1 KiB, 16x16", "intercept", "tls", keep(KIB, 16, 16), "request", [(ALL, 1.20)]),
    ("new intercepted connection", "intercept", "tls", dict(mode="new", conns=16, size=KIB), "connection",
     [(("nginx",), 1.00), (("mitmproxy",), 0.10)]),
    ("new connection, the host's too", "intercept", "fresh", dict(mode="new", conns=16, size=KIB), "connection", []),
    ("first sight of a host", "intercept", "fresh", dict(mode="new", conns=16, size=KIB, host=FIRST), "connection", []),
]


def command(out, options, gateway, way, args, serial):
    h2 = args.get("streams", 0) > 0
    address, port = gateway.target(way, h2)
    host = args.get("host", gateway.host(way, args.get("inject")))
    words = {"to": address, "port": port, "h2": int(h2), "host": host, "authority": f"{host}:{port}",
             "path": f"/{args['size']}", "seconds": options.seconds, "from": serial * 1000000,
             **{k: v for k, v in args.items() if k not in ("host", "inject")}}
    return [out / "webload", *(f"{k}={v}" for k, v in words.items())]
