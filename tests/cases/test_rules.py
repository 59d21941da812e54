"""What rules mean, and what time and reloads do to connections (cases A, B, C, D, F, G)."""
import asyncio
import json
import os
import socket
import subprocess
import time

import pytest

import world as w
from conftest import CONFIG, FLOW
from hello import hello
from ways import OK, heard

SANDBOX = "sandboxes:\n  - {id: s, source: 10.77.0.2, policy: p}\n"


def cli(tmp_path, text, *args):
    file = tmp_path / "rules.yaml"
    file.write_text(text)
    return subprocess.run([FLOW.BIN / "sandgate", args[0], "-c", file, *args[1:]], capture_output=True, text=True, timeout=60)


def explained(tmp_path, rules, url, method="GET", hosts=""):
    text = f"resolver:\n  servers: [\"127.0.0.1\"]\n  hosts: {{{hosts}}}\n{SANDBOX}policies:\n  p:\n{rules}"
    done = cli(tmp_path, text, "explain", "--sandbox", "s", "-X", method, "--json", url)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)["code"]


STAR = "    allow: [{hosts: [\"*.svc.example.com\"], ports: [80, 443]}]\n"
EXACT = "    allow: [{hosts: [example.com, api.example.com], ports: [443]}]\n"


@pytest.mark.parametrize("rules,url,code", [
    ("    allow: []\n", "http://api.example.com/", "denied_by_policy"),
    ("    allow: []\n    deny: []\n", "https://api.example.com/", "denied_by_policy"),
    (STAR, "https://svc.example.com/", "denied_by_policy"), (STAR, "https://a.svc.example.com/", "ok"),
    (STAR, "https://a.b.svc.example.com/", "ok"), (STAR, "https://xsvc.example.com/", "denied_by_policy"),
    (STAR, "https://a.svc.example.com./", "ok"), (STAR, "https://a.svc.example.com.evil.example/", "denied_by_policy"),
    (EXACT, "https://notexample.com/", "denied_by_policy"), (EXACT, "https://api.example.com.evil.example.net/", "denied_by_policy"),
    (EXACT, "https://x.api.example.com/", "denied_by_policy"), (EXACT, "http://api.example.com/", "denied_port"),
    (STAR + "    deny: [{hosts: [bad.svc.example.com]}]\n", "https://bad.svc.example.com./", "denied_by_rule"),
    (STAR + "    deny: [{hosts: [\"*.svc.example.com\"]}]\n", "https://a.svc.example.com/", "denied_by_rule"),
    (STAR + "    deny: [{cidrs: [\"255.255.255.0/24\"]}]\n", "https://255.255.255.255/", "denied_by_rule"),
    (STAR + "    deny: [{cidrs: [\"0.0.0.0/0\"]}]\n", "https://8.8.8.8/", "denied_by_rule"),
    (STAR + "    deny: [{cidrs: [\"0.0.0.0/0\"]}]\n", "https://255.255.255.255/", "denied_by_rule"),
    ("    allow: [{cidrs: [\"8.8.8.0/24\"], ports: [443], protocol: tcp}]\n", "8.8.8.8:443", "ok"),
    ("    allow: [{cidrs: [\"8.8.8.0/24\"], ports: [443], protocol: tcp}]\n", "in.example.com:443", "denied_by_policy"),
    ("    allow: [{cidrs: [\"8.8.8.0/24\"], ports: [443], protocol: tcp}]\n", "8.8.9.8:443", "ip_literal"),
])
def test_rules_mean_what_they_say(tmp_path, rules, url, code):
    """A02, A05, A13, A14, A16, A28, C05: by the code that the data path runs."""
    assert explained(tmp_path, rules, url, hosts="in.example.com: [8.8.8.8]") == code


@pytest.mark.parametrize("address", ["0.0.0.0", "100.64.0.1", "fd00::1", "198.18.0.1", "::", "127.0.0.1", "64:ff9b::a00:1"])
def test_rules_do_not_open_what_is_inside(tmp_path, address):
    assert explained(tmp_path, EXACT, "https://api.example.com/", hosts=f"api.example.com: [\"{address}\"]") == "address_private"


@pytest.mark.parametrize("rule,code", [
    ("{hosts: [api.example.com], ports: [\"443\", \"9000-9100\"]}", 0), ("{hosts: [api.example.com], ports: [9000-9100]}", 0),
    ("{hosts: [api.example.com], ports: [0]}", 2), ("{hosts: [api.example.com], ports: [\"0-10\"]}", 2),
    ("{hosts: [api.example.com], ports: [65536]}", 2), ("{hosts: [api.example.com], ports: [443x]}", 2),
    ("{hosts: [api.example.com], ports: [9100-9000]}", 2), ("{hosts: [api.example.com], ports: [https]}", 2),
    ("{hosts: [\"2001:db8::1:443\"]}", 2), ("{hosts: [\"evil.example.net:443.api.example.com\"]}", 2),
    ("{hosts: [\"api.example.com:443\"]}", 2), ("{hosts: [\"*\"]}", 2), ("{hosts: [\"*.com\"]}", 2), ("{hosts: [\"*.co.uk\"]}", 2),
    ("{hosts: [\"a.*.example.com\"]}", 2), ("{hosts: [\"*example.com\"]}", 2), ("{hosts: [\"*.*.example.com\"]}", 2),
    ("{hosts: [\"api..example.com\"]}", 2), ("{hosts: [\"öк.example.com\"]}", 2), ("{hosts: [\"127.1\"]}", 2), ("{hosts: [\"a%2eb.com\"]}", 2),
    ("{hosts: [\"https://api.example.com\"]}", 2), ("{hosts: [\"api.example.com/x\"]}", 2), ("{hosts: [\"\"]}", 2), ("{hosts: []}", 2),
    ("{hosts: [api.example.com], paths: [\"/a/../b\"]}", 2), ("{hosts: [api.example.com], methods: [\"G T\"]}", 2),
    ("{cidrs: [\"10.0.0.1/8\"], protocol: tcp, ports: [1]}", 2), ("{cidrs: [\"10.0.0.0/33\"], protocol: tcp, ports: [1]}", 2),
    ("{hosts: [localhost]}", 2), ("{host: [api.example.com]}", 2)])
def test_rules_that_are_wrong_are_told_by_their_line(tmp_path, rule, code):
    """A25, A26, A31."""
    done = cli(tmp_path, SANDBOX + "policies:\n  p:\n    allow:\n      - " + rule + "\n", "check")
    assert (done.returncode == 2) == (code == 2), done.stderr
    assert code == 0 or "rules.yaml:6:" in done.stderr


def test_patterns_cost_linear_time(tmp_path):
    globs = ", ".join(f"\"/{'**/a/' * 10}b{i}\"" for i in range(8))
    rules = f"    allow: [{{hosts: [api.example.com], ports: [80], paths: [{globs}]}}]\n"
    begun = time.monotonic()
    assert explained(tmp_path, rules, "http://api.example.com" + "/a" * 4000 + "/c") == "denied_path"
    assert time.monotonic() - begun < 8


def without_ok():
    changed = json.loads(json.dumps(CONFIG))
    changed["policies"]["p"]["allow"][0]["hosts"].remove("ok.test")
    return changed


def test_a_rule_that_is_gone_is_gone_inside_kept_connections(battery):
    """B07: the next request on the same connection is judged by the newest policy, a tunnel
    that it forbids is closed when the reload returns; a file with faults changes nothing."""
    gate = battery.gate
    request = b"GET @@/kept HTTP/1.1\r\nHost: ok.test\r\n\r\n"

    async def both():
        kept = {way: (await battery.ways.open_http(way))[0] for way in (("box", "absolute"), ("box", "transparent"), ("cell", "absolute"))}
        tunnels = [(await battery.ways.open(way))[0] for way in (("box", "connect"), ("cell", "socks"), ("box", "transparent"))]
        for link in tunnels:
            await link.send(hello())
            assert (await battery.ways.tls_answer(link)).how == "ok"
            await link.take(4)
        for way, link in kept.items():
            await link.send(battery.ways.form(way, request))
            assert heard(await link.response()).how == "ok"
        assert gate.reload("policies: {p: {allow: [{hosts: [\"*.com\"]}]}}\n")[0] != 200, "a file with faults"
        for way, link in kept.items():
            await link.send(battery.ways.form(way, request))
            assert heard(await link.response()).how == "ok", "nothing changed"
        try:
            assert gate.reload(without_ok())[0] == 200
            for link in tunnels:
                assert await asyncio.wait_for(link.more(), 2) == b"", "closed when the reload returns"
            for way, link in kept.items():
                await link.send(battery.ways.form(way, request))
                assert heard(await link.response()).code == "denied_by_policy"
        finally:
            assert gate.reload(CONFIG)[0] == 200
        for way, link in kept.items():
            await link.send(battery.ways.form(way, request))
            assert heard(await link.response()).how == "ok", "and back"
            link.close()
        for link in tunnels:
            link.close()
    battery.go(both())
    battery.count("reload", 6)


def test_time_outs_are_for_stalls_not_for_length(battery):
    """D20, C07, C08, F01: an upload of 0.3 s pauses that lasts longer than any deadline for
    heads, beside a tunnel whose name's TTL (and cache) ends meanwhile."""
    battery.world.resolver.answers["short.ans.test"] = lambda q, n, kind, question: [w.reply(
        q, question, [w.record(1, socket.inet_aton(w.OK), ttl=0)] if kind == 1 else [])]

    async def slow(way):
        link, _ = await battery.ways.open_http(way)
        await link.send(battery.ways.form(way, b"POST @@/slow-upload HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 22000\r\n\r\n"))
        for _ in range(22):
            await link.send(b"x" * 1000)
            await asyncio.sleep(0.3)
        got = heard(await link.response(b"POST"))
        link.close()
        return got

    async def tunnel(way):
        link, refused = await battery.ways.open(way, b"short.ans.test")
        await link.send(hello("short.ans.test"))
        assert refused is None and (await battery.ways.tls_answer(link)).how == "ok"
        await link.take(4)
        await asyncio.sleep(6.6)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(link.loop.sock_recv(link.sock, 1), 0.1)
        link.close()
        return OK
    ways = [("box", "transparent"), ("box", "connect"), ("cell", "transparent")]
    battery.run([("upload", way, "ok", lambda way=way: slow(way)) for way in [*ways, ("cell", "absolute")]]
                + [("tunnel", way, "ok", lambda way=way: tunnel(way)) for way in ways])


def test_big_uploads_pass(battery):
    """F05, F07: 13 MB of multipart at once, then the answer."""
    async def upload(way):
        link, _ = await battery.ways.open_http(way)
        size = 13_000_000
        await link.send(battery.ways.form(way, b"POST @@/big-upload HTTP/1.1\r\nHost: ok.test\r\nContent-Type: multipart/form-data; boundary=x\r\n"
                                          b"Content-Length: %d\r\n\r\n" % size))
        for _ in range(13):
            await link.send(bytes(size // 13))
        got = heard(await link.response(b"POST"))
        link.close()
        return got
    battery.run(("13 MB", way, "ok", lambda way=way: upload(way)) for way in (("box", "transparent"), ("box", "connect"), ("cell", "absolute")))
    battery.world.origin.http.clear()


def test_exec_tells_clients_of_the_proxy_in_every_spelling(battery):
    """G10, G11, G14: both cases, http:// only; nothing of the caller's remains."""
    env = {**os.environ, "GRPC_PROXY": "socks5h://x:1", "http_proxy": "http://corp:3128", "FTP_PROXY": "http://corp:3128",
           "CLOUDSDK_PROXY_ADDRESS": "corp", "CLOUDSDK_PROXY_TYPE": "https"}
    done = subprocess.run([FLOW.BIN / "sandgate", "exec", "-c", battery.gate.file, "--policy", "p", "--", "env"],
                          capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == 0, done.stderr
    told = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        assert told[name] == "http://198.18.0.1:3128", name
    assert "no_proxy" in told and "NO_PROXY" in told and "FTP_PROXY" not in told
    assert "GRPC_PROXY" not in told and "CLOUDSDK_PROXY_ADDRESS" not in told


SHARED = "    allow: [{hosts: [\"*.github.io\"], shared_suffix: true, ports: [443, 80]}]\n"
PATHS = "    allow: [{hosts: [api.example.com], ports: [443, 80], paths: [\"/a/**\"]}]\n"
METHODS = "    allow: [{hosts: [api.example.com], ports: [443, 80], methods: [GET]}]\n"
WATCHED = "    allow: [{hosts: [api.example.com]}]\n    deny: [{hosts: [api.example.com], paths: [\"/b/**\"]}]\n"
QUERY = "    allow: [{hosts: [api.example.com], query: [page]}]\n"


@pytest.mark.parametrize("rules,url,code,intercepted", [
    (SHARED, "https://a.github.io/", "ok", True), (SHARED, "http://a.github.io/", "ok", False),
    (PATHS, "https://api.example.com/a/x", "ok", True), (PATHS, "https://api.example.com/b", "denied_path", True),
    (PATHS, "https://api.example.com/a/%2e%2e/b", "bad_path", True), (PATHS, "http://api.example.com/a/x", "ok", False),
    (METHODS, "https://api.example.com/", "ok", True), (METHODS, "https://api.example.com:8443/", "denied_port", False),
    (WATCHED, "https://api.example.com/a", "ok", True), (WATCHED, "https://api.example.com/b/c", "denied_by_rule", True),
    (QUERY, "https://api.example.com/?page=2&p%61ge=3", "ok", True), (QUERY, "https://api.example.com/?page=2&x", "denied_query", True),
    ("    allow: [{hosts: [api.example.com]}]\n", "https://api.example.com/a", "ok", False)])
def test_what_a_tunnel_hides_is_not_pretended_to_be_seen(tmp_path, rules, url, code, intercepted):
    """D16, B16: shared hosts, methods and paths over TLS."""
    text = f"resolver: {{servers: [\"127.0.0.1\"]}}\n{SANDBOX}policies:\n  p:\n{rules}"
    told = json.loads(cli(tmp_path, text, "explain", "--sandbox", "s", "--json", url).stdout)
    assert told["code"] == code and told["intercepted"] == intercepted, told
    assert ("intercepted_because" in told) == intercepted, "and it is said why"


def test_shared_hosting_must_be_asked_for(tmp_path):
    done = cli(tmp_path, SANDBOX + "policies:\n  p:\n    allow:\n      - {hosts: [\"*.github.io\"]}\n", "check")
    assert done.returncode == 2 and "shared_suffix" in done.stderr
    done = cli(tmp_path, SANDBOX + "policies:\n  p:\n    allow:\n      - {hosts: [\"*.github.io\"], shared_suffix: true}\n", "check")
    assert done.returncode == 0, done.stderr


def test_nothing_hostile_is_shown_to_an_operator(battery):
    """What names and paths were made of stands in the ledger as text, never as control."""
    async def write():
        for name in ("\x1b[31mred\x1b[0m.test", "a\r\nb.test", "x\u202ey.test", "\x07bell", "\x9b31m"):
            await battery.ways.tls(("box", "transparent"), hello(name.encode().decode("latin-1")))
    battery.go(write())
    time.sleep(0.5)
    shown = battery.gate.cli("audit", "--denied").stdout
    assert "bad_host" in shown and not [c for c in shown if (ord(c) < 32 and c not in "\n\t") or 0x7f <= ord(c) < 0xa0]
    assert all(json.dumps(row) for row in battery.rows.rows)
    battery.count("shown", 5)
