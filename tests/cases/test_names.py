"""Names, addresses and ports as each way in carries them (threats 2.1, 2.3; cases A)."""
import itertools
import socket

import pytest

import names as n
import world as w
from hello import hello
from ways import CLOSED, OK, Got, heard, query, told

BOTH = ("box", "cell")
KINDS = ("connect", "socks", "absolute", "host", "sni", "dns")
ALL = [(ns, kind) for ns in BOTH for kind in KINDS]
FORMERR = "bad_query"  # a DNS name that can't be a name at all


def text(host):
    return host if isinstance(host, bytes) else host.encode()


def hosts(battery, names, code, ways=ALL, **other):
    """Each name by each way; `other` has the codes of ways whose protocol has no room."""
    return battery.run((host, way, other.get(way[1], code), lambda h=text(host), way=way: battery.ways.host(way, h))
                       for host in names for way in ways)


def test_good_names_pass_on_all_ways(battery):
    hosts(battery, ["ok.test", "OK.TEST", "Ok.TesT", "ok.test.", "a.w.test", "a.b.w.test", "a_b.w.test", "_x.w.test",
                    "xn--bcher-kva.w.test", "XN--BCHER-KVA.w.test", "A.W.TEST.", "1.w.test", "0x7f.w.test"], "ok")


@pytest.mark.parametrize("place", n.PLACES)
def test_odd_spellings_of_ipv4_are_refused(battery, place):
    # DNS drops the last dot before anyone looks.
    hosts(battery, n.odd_ipv4(place), "ip_literal_nonstandard", dns={"ip_literal_nonstandard", "ip_literal"})


def test_what_is_nearly_an_ipv4_address_never_goes_to_dns(battery):
    odd = {"ip_literal_nonstandard", "bad_host", "denied_by_policy"}
    hosts(battery, n.NOT_QUITE_IPV4, odd, dns=odd | {"ip_literal", FORMERR})


def test_canonical_addresses_need_a_rule_of_their_own(battery):
    hosts(battery, n.PLACES + ["8.8.8.8", "1.1.1.1", w.OK, w.WORLD4, "198.18.0.1"], "ip_literal")
    hosts(battery, n.IPV6, "ip_literal", dns=FORMERR)


def test_malformed_ipv6_is_refused(battery):
    hosts(battery, n.BAD_IPV6, "bad_host", dns=FORMERR)


def test_socks_addresses_are_judged_like_text(battery):
    def socks(ns, kind, data):
        async def ask():
            link = await battery.ways.to_proxy(ns)
            await link.send(b"\x05\x01\x00\x05\x01\x00" + bytes([kind]) + data + b"\x01\xbb")
            assert await link.take(2) == b"\x05\x00"
            answer = await link.take(10)
            link.close()
            return CLOSED if answer is None else Got("socks", None, answer[1])
        return ask
    v4 = n.PLACES + ["192.168.1.1", "172.16.0.1", "100.64.0.1", "224.0.0.1", "255.255.255.255", "198.18.5.5", "8.8.8.8",
                     "169.254.170.2", "168.63.129.16", w.OK, w.WORLD4, "10.77.0.2"]
    items = [(a, (ns, "socks"), "ip_literal", socks(ns, 1, socket.inet_aton(a))) for a in v4 for ns in BOTH]
    v6 = [a.strip("[]") for a in n.IPV6]
    items += [(a, (ns, "socks"), "ip_literal", socks(ns, 4, socket.inet_pton(socket.AF_INET6, a)))
              for a in v6 for ns in BOTH]
    battery.run(items)


def test_dots_and_stars_in_the_wrong_place(battery):
    hosts(battery, n.BAD_DOTS, "bad_host", dns={FORMERR, "bad_host"})


def test_a_nul_ends_no_name(battery):
    hosts(battery, n.NULS, "bad_host", connect="bad_request", absolute="bad_request", host="bad_request",
          sni="hello_unparsable", dns=FORMERR)


def test_controls_percent_and_punctuation_are_no_part_of_a_name(battery):
    hosts(battery, n.CONTROLS, "bad_host", connect="bad_target", absolute="bad_target", host="bad_header", dns=FORMERR)
    bad = {"bad_host", "ip_literal_nonstandard"}
    hosts(battery, n.PERCENT, bad, absolute=bad | {"bad_target"}, dns=FORMERR)
    hosts(battery, n.PUNCTUATION, "bad_host", dns=FORMERR)


def test_what_is_not_ascii_is_refused(battery):
    bad = {"bad_host", "ip_literal_nonstandard", "bad_request", "hello_unparsable"}
    for names in (n.UNICODE, n.HIGH_BYTES):
        hosts(battery, names, bad, connect={"bad_target", "bad_request"}, absolute={"bad_target", "bad_request"},
              dns=FORMERR)


def test_hyphens_and_punycode_must_be_right(battery):
    hosts(battery, n.HYPHENS, "bad_host", dns={"bad_host", FORMERR})


def test_names_that_are_too_long(battery):
    short = [h for h in n.LONG if len(h) < 256]
    hosts(battery, short, "bad_host", dns={"bad_host", FORMERR})
    ways = [way for way in ALL if way[1] not in ("socks", "dns")]
    hosts(battery, [h for h in n.LONG if len(h) > 255], "bad_host", ways=ways, sni="hello_unparsable")


def test_labels_decide_not_the_ends_of_strings(battery):
    hosts(battery, [h for h in n.NOT_ALLOWED if h != "bad.w.test"], "denied_by_policy")


def test_deny_wins_whatever_the_spelling(battery):
    hosts(battery, ["bad.w.test", "BAD.w.test", "bad.w.test.", "Bad.W.Test."], "denied_by_rule")


def test_single_labels_are_nobodys(battery):
    hosts(battery, n.SINGLE, "bad_host", dns="denied_by_policy")


def test_every_way_in_gives_the_same_verdict_and_code(battery):
    """Over all names that each protocol can carry: HTTP tells the code in words, the others
    its number, and no two ways differ."""
    pools = [n.PLACES, n.NOT_ALLOWED, n.HYPHENS, n.PUNCTUATION, ["ok.test", "x.w.test", "bad.w.test"],
             n.odd_ipv4("127.0.0.1")[:40], n.BAD_IPV6]
    plain = [h for pool in pools for h in pool]
    ways = [way for way in ALL if way[1] != "dns"]
    codes = {"ok", "ip_literal", "denied_by_policy", "bad_host", "ip_literal_nonstandard", "denied_by_rule"}
    gots = hosts(battery, plain, codes, ways=ways)
    said = {}
    for host, way, got in gots:
        said.setdefault(host, {})[way] = got
    for host, by_way in said.items():
        words = {g.code if g.how == "http" else g.how for g in by_way.values() if g.how in ("http", "ok")}
        assert len(words) == 1, (host, by_way)
        word, = words
        assert all(g.is_for(word) for g in by_way.values()), (host, word, by_way)


def connect(battery, ns, target, host=None):
    async def ask():
        link = await battery.ways.to_proxy(ns)
        await link.send(b"CONNECT " + target + b" HTTP/1.1\r\nHost: " + (target if host is None else host) + b"\r\n\r\n")
        got = heard(await link.response(b"CONNECT"))
        link.close()
        return got
    return ask


def test_ports_are_plain_numbers(battery):
    bad = {"bad_port", "bad_target", "bad_request", "bad_host", "bad_header", "name_mismatch"}
    items = []
    for port, ns in itertools.product(n.BAD_PORTS, BOTH):
        at = b"ok.test:" + text(port)
        items.append((port, (ns, "connect"), bad, connect(battery, ns, at, b"ok.test")))
        if port.endswith("\t"):  # white space around a field's value is none of it
            continue
        items.append((port, (ns, "connect"), bad, connect(battery, ns, b"ok.test:443", at)))
        items.append((port, (ns, "host"), bad, lambda ns=ns, at=at: battery.ways.host((ns, "host"), at)))
        if port[-1:] not in ("/", "?"):  # in a URL the port ends there
            items.append((port, (ns, "absolute"), bad, lambda ns=ns, at=at: battery.ways.host((ns, "absolute"), at)))
    battery.run(items)


def test_other_ports_of_an_allowed_host_are_refused(battery):
    items = []
    for port in n.OTHER_PORTS:
        for ns in BOTH:
            items.append((port, (ns, "connect"), "denied_port", connect(battery, ns, b"ok.test:%d" % port)))
            items.append((port, (ns, "socks"), "denied_port",
                          lambda ns=ns, port=port: battery.ways.host_socks(ns, b"ok.test", port)))
            items.append((port, (ns, "absolute"), "denied_port",
                          lambda ns=ns, port=port: battery.ways.host_absolute(ns, b"ok.test", port)))
            if port not in (53, 3128):  # 53 is DNS's; on the attached side 3128 is as any other
                items.append((port, (ns, "transparent"), "denied_port",
                              lambda ns=ns, port=port: battery.ways.tls((ns, "transparent"), hello(), port=port)))
                items.append((port, (ns, "transparent"), "denied_port", lambda ns=ns, port=port: battery.ways.http(
                    (ns, "transparent"), b"GET / HTTP/1.1\r\nHost: ok.test:%d\r\n\r\n" % port, port=port)))
    battery.run(items)


def test_transparent_destinations_are_advice_the_name_decides(battery):
    """Whatever address the sandbox dials: what it names goes where we resolve it."""
    items = []
    for address in ("203.0.113.9", "10.0.0.5", "169.254.169.254", "192.168.7.7", w.EVIL,
                    "100.64.0.1", "2001:db8::9", "fd00::7", "2606:2800:220:1::66"):
        for ns in BOTH:
            async def http(ns=ns, address=address, host=b"ok.test"):
                link = await battery.ways.dial(ns, address, 80)
                await link.send(b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
                got = heard(await link.response())
                link.close()
                return got

            async def tls(ns=ns, address=address, name="ok.test"):
                link = await battery.ways.dial(ns, address, 443)
                await link.send(hello(name))
                got = await battery.ways.tls_answer(link)
                link.close()
                return got
            items += [(address, (ns, "transparent"), "ok", http), (address, (ns, "transparent"), "ok", tls),
                      (address, (ns, "transparent"), "denied_by_policy", lambda f=http: f(host=b"evil.test")),
                      (address, (ns, "transparent"), "denied_by_policy", lambda f=tls: f(name="evil.test")),
                      (address, (ns, "transparent"), {"ip_literal", "bad_host"},
                       lambda f=http, a=address: f(host=(f"[{a}]" if ":" in a else a).encode()))]
    battery.run(items)


def test_a_name_with_an_ipv6_address_only(battery):
    hosts(battery, ["six.w.test"], "ok")


def test_a_host_for_tls_only_is_refused_in_plain(battery):
    hosts(battery, ["only443.test"], "denied_port", ways=[(ns, k) for ns in BOTH for k in ("absolute", "host")])
    hosts(battery, ["only443.test"], "ok", ways=[(ns, k) for ns in BOTH for k in ("connect", "socks", "sni", "dns")])


def test_a_tcp_rule_is_for_its_port_and_its_name(battery):
    async def db(ns, how, port=5432):
        link, refused = await battery.ways.open((ns, how), b"db.test", port)
        if refused:
            return refused
        first = await link.take(12)
        link.close()
        return OK if first == b"hello first\n" else CLOSED

    async def by_dns(ns, port):
        answer = told(await battery.ways.ask(ns, query("db.test")))
        assert len(answer.data) == 4 and answer.data[:2] in (b"\xc6\x12", b"\xc6\x13"), answer
        link = await battery.ways.dial(ns, ".".join(map(str, answer.data)), port)
        first = await link.take(12)
        link.close()
        return OK if first == b"hello first\n" else CLOSED
    items = []
    for ns in BOTH:
        for how in ("connect", "socks"):
            items.append(("right", (ns, how), "ok", lambda ns=ns, how=how: db(ns, how)))
            items += [("port", (ns, how), "denied_port", lambda ns=ns, how=how, p=p: db(ns, how, p)) for p in (22, 443, 5433)]
        items.append(("by name", (ns, "transparent"), "ok", lambda ns=ns: by_dns(ns, 5432)))
        items.append(("by name, other port", (ns, "transparent"), "closed", lambda ns=ns: by_dns(ns, 5433)))
    battery.run(items)


def test_a_synthetic_address_stands_for_its_name(battery):
    """What DNS gave for db.test is db.test, whatever a hello or a Host field says."""
    async def ask(ns, port, data, reader):
        answer = told(await battery.ways.ask(ns, query("db.test")))
        link = await battery.ways.dial(ns, ".".join(map(str, answer.data)), port)
        await link.send(data)
        got = await battery.ways.tls_answer(link) if reader == "tls" else heard(await link.response())
        link.close()
        return got
    items = []
    for ns in BOTH:
        for name in ("ok.test", "a.w.test", "evil.test"):
            items.append((name, (ns, "sni"), "name_mismatch", lambda ns=ns, name=name: ask(ns, 443, hello(name), "tls")))
            items.append((name, (ns, "host"), "name_mismatch", lambda ns=ns, name=name: ask(
                ns, 80, f"GET / HTTP/1.1\r\nHost: {name}\r\n\r\n".encode(), "http")))
        items.append(("itself", (ns, "sni"), "denied_port", lambda ns=ns: ask(ns, 443, hello("db.test"), "tls")))
        items.append(("itself", (ns, "host"), "denied_port", lambda ns=ns: ask(ns, 80, b"GET / HTTP/1.1\r\nHost: db.test\r\n\r\n", "http")))
    battery.run(items)


async def from_source(battery, source, kind, host=b"ok.test"):
    """One request for a host by each kind of way, from one of the box's other addresses."""
    if kind == "dns":
        answer = await battery.ways.ask("box", query(host.decode()), source=source)
        return CLOSED if answer is None else told(answer)
    port = {"tls": 443, "http": 80}.get(kind)
    link = await battery.ways.dial("box", w.ELSEWHERE if port else w.WORLD4, port or 3128, source=source)
    await link.send({"tls": hello(host.decode()), "http": b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n",
                     "connect": b"CONNECT " + host + b":443 HTTP/1.1\r\nHost: " + host + b":443\r\n\r\n",
                     "absolute": b"GET http://" + host + b"/ HTTP/1.1\r\nHost: " + host + b"\r\n\r\n",
                     "socks": b"\x05\x01\x00\x05\x01\x00\x03" + bytes([len(host)]) + host + b"\x01\xbb"}[kind])
    if kind == "socks":
        first = await link.take(2)
        answer = await link.take(10) if first == b"\x05\x00" else None
        got = CLOSED if answer is None else Got("socks", None, answer[1]) if answer[1] else None
    elif kind == "connect":
        answer = await link.response(b"CONNECT")
        got = heard(answer) if answer is None or answer[0] != 200 else None
    else:
        got = heard(await link.response()) if kind != "tls" else await battery.ways.tls_answer(link)
    if got is None:  # through: what is inside?
        await link.send(hello(host.decode()))
        got = await battery.ways.tls_answer(link)
    link.close()
    return got


KINDS_FROM = ("tls", "http", "connect", "absolute", "socks", "dns")


def known(kind):
    return "sni" if kind == "tls" else kind


@pytest.mark.parametrize("who,code", [("empty", "denied_by_policy"), ("unknown", "unknown_sandbox")])
def test_no_policy_and_no_identity_mean_no(battery, who, code):
    """An allowed name of another sandbox, by each way, from a source that has none."""
    codes = {code, "closed"} if who == "unknown" else code
    battery.run((f"{who} {kind}", ("box", known(kind)), codes, lambda kind=kind: from_source(battery, w.OTHERS[who], kind))
                for kind in KINDS_FROM)


def test_observing_lets_a_name_pass_and_nothing_else(battery):
    """mode: observe is about name, port, method and path; all else is enforced."""
    battery.known_questions.add("unlisted.ok.test")
    battery.world.resolver.answers["inside.ans.test"] = lambda q, name, kind, question: [
        w.reply(q, question, [w.record(1, socket.inet_aton("10.0.0.5"))] if kind == 1 else [])]
    source = w.OTHERS["watched"]
    odd = {"ip_literal_nonstandard", "ip_literal", "bad_host"}
    items = []
    for kind in KINDS_FROM:
        for host, code in ((b"ok.test", "ok"), (b"unlisted.ok.test", "ok"), (b"inside.ans.test", "address_private"),
                           (b"127.1", odd), (b"0x7f.0.0.1", odd), (b"ok.test..", {"bad_host", "bad_query"}), (b"%6fk.test", {"bad_host", "bad_query"})):
            if kind == "dns" and not host.replace(b".", b"").isalnum():
                continue
            if host == b"ok.test.." and kind == "dns":
                continue
            items.append((f"{host} {kind}", ("box", known(kind)), code, lambda kind=kind, host=host: from_source(battery, source, kind, host)))
    for address in ("127.0.0.1", "10.0.0.5", "169.254.169.254", w.WORLD4):
        for kind in ("http", "connect", "absolute", "socks"):
            items.append((f"{address} {kind}", ("box", known(kind)), {"address_private", "address_metadata", "address_self", "ip_literal"},
                          lambda kind=kind, address=address: from_source(battery, source, kind, address.encode())))
    battery.run(items)
