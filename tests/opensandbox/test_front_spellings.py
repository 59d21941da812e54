"""What routes has one spelling: another one is refused or means the same, and is called the same
in the ledger.  What a caller smuggles in fields goes to no sandbox."""
import json
import urllib.parse

import front as fronts
import pytest
from raw import PROXY, Raw, made

# Of a route, as it is asked for behind /sandboxes/ID/proxy/44772: what it is in the ledger.
ROUTES = [("GET", "/ping", "execd.ping"), ("POST", "/command", "command.run"), ("DELETE", "/command?id=x", "command.interrupt"),
          ("GET", "/command/status/x", "command.status"), ("POST", "/code", "code.run"), ("POST", "/session", "session.create"),
          ("GET", "/files/info?path=/nowhere", "files.info"), ("DELETE", "/files?path=/nowhere", "files.delete"),
          ("GET", "/files/download?path=/nowhere", "files.download"), ("POST", "/files/mv", "files.move"),
          ("GET", "/directories/list?path=/nowhere", "directories.list"), ("POST", "/pty", "pty.create"),
          ("GET", "/metrics", "execd.metrics")]
BODIES = {"/command": {"command": "true"}, "/code": {"code": "1", "context": {"language": "python"}}, "/session": {},
          "/files/mv": [], "/pty": {}}


def encoded(path, which):
    """`path` with its octet number `which` written as a triplet."""
    return f"{path[:which]}%{ord(path[which]):02x}{path[which + 1:]}"


def same(path):
    """Spellings that mean the same route."""
    plain, _, query = path.partition("?")
    more = "?" + query if query else ""
    return {"itself": path, "a slash at the end": plain + "/" + more, "through itself": "/proxy/44772" + path,
            "through itself twice": "/proxy/44772/proxy/44772" + path, "an empty query": path if query else path + "?",
            "more of a query": path + ("&" if query else "?") + "x=%2f..%2f"}


def other(path):
    """Spellings that some server would take for the route: none goes on."""
    plain, _, query = path.partition("?")
    more = "?" + query if query else ""
    words = plain.split("/")
    deep = {"an empty segment": "/" + plain + more, "two slashes at the end": plain + "//" + more,
            "a dot": "/." + plain + more, "dots": "/x/.." + plain + more, "coded dots": "/x/%2e%2e" + plain + more,
            "half coded dots": "/x/.%2E" + plain + more, "a coded slash": "/%2f" + plain[1:] + more,
            "a coded letter": encoded(plain, 1) + more, "coded twice": encoded(plain, 1).replace("%", "%25") + more,
            "a coded last letter": encoded(plain, len(plain) - 1) + more, "upper case": plain.upper() + more,
            "one letter upper": "/" + plain[1].upper() + plain[2:] + more, "a parameter": plain + ";x=1" + more,
            "a parameter before": "/;x" + plain + more, "a backslash": plain.replace("/", "\\") + more,
            "coded backslash": "/%5c" + plain[1:] + more, "a coded NUL": plain + "%00" + more,
            "a coded end": plain + "%3f" + more, "a coded blank": plain + "%20" + more, "a tab": plain + "%09" + more,
            "overlong": "/%c0%af" + plain[1:] + more, "full width": "/%ef%bc%8f" + plain[1:] + more,
            "a port in other digits": "/proxy/044772" + plain + more, "a port with a sign": "/proxy/+44772" + plain + more,
            "a coded port": "/proxy/4477%32" + plain + more, "a port too large": "/proxy/110308" + plain + more,
            "a coded hop": "/prox%79/44772" + plain + more, "a hop in upper case": "/PROXY/44772" + plain + more,
            "hops in hops": "/proxy/44772" * 9 + plain + more}
    if len(words) > 2:
        deep["a slash between"] = "/".join(words[:2]) + "//" + "/".join(words[2:]) + more
        deep["a coded slash between"] = "/".join(words[:2]) + "%2F" + "/".join(words[2:]) + more
    return deep


@pytest.fixture(scope="module")
def one(front_for_all):
    """One gateway and one sandbox for all of these."""
    import fake_server
    standard = fake_server.FakeServer(gateway=True)
    gate = front_for_all({"standard": (standard.url, standard.key)})
    gate.standard, gate.ident = standard, made(gate)
    standard.secrets.append(gate.key)  # judged from now on: no surface may ever see it
    yield gate
    standard.close()
    standard.check()


def ask(one, method, target, body=None, fields=(), key=None):
    with Raw(one, key) as link:
        return link.send(method, target, json.dumps(body).encode() if body is not None else b"", fields).whole()


def inside(one):
    return [r for r in one.standard.records if r.surface in ("execd", "app", "proxy", "egress")]


def ops(one, since):
    """Of the rows since then, by the X-Request-ID that they came with."""
    return {r["exec"]["request"]: r["exec"]["op"] for r in one.gate.rows()[since:]
            if r["kind"] in ("exec", "exec_end", "deny") and "exec" in r}


def test_each_spelling_of_a_route_is_called_the_same_or_refused(one):
    since, before, asked, refused = len(one.gate.rows()), len(inside(one)), {}, 0
    base = PROXY.format(one.ident)
    mounts = {"v1": base, "root": base.removeprefix("/v1"), "absolute": f"http://{one.authority}{base}"}
    for at, (method, path, op) in enumerate(ROUTES):
        body = BODIES.get(path) if method == "POST" else None
        for mount, start in mounts.items():
            for name, spelt in (same(path) if mount == "v1" or at < 3 else {"itself": path}).items():
                ident = f"{at}-{mount}-{name}".replace(" ", "-")
                status, text, _ = ask(one, method, start + spelt, body, {"X-Request-ID": ident})
                assert status != 405 and status < 500 and b"SANDGATE" not in text, (spelt, status, text)
                asked[ident] = op
        went = len(inside(one))
        for name, spelt in other(path).items():
            for start in (base, base.removeprefix("/v1")) if at < 3 else (base,):
                status, text, _ = ask(one, method, start + spelt, body, {"X-Request-ID": f"bad-{at}"})
                if len(inside(one)) != went:
                    row = inside(one)[-1]
                    raise AssertionError(f"{name}: {spelt} reached the sandbox as {row.method} {row.target}")
                assert 400 <= status < 500, (name, spelt, status, text)
                refused += 1
    assert len(inside(one)) - before == len(asked) and refused > 300
    seen = fronts.flow.wait_for(lambda: len(told := ops(one, since)) >= len(asked) and told, 20)
    assert {ident: seen.get(ident) for ident in asked} == asked
    for record in inside(one)[before:]:
        path = record.target.partition("?")[0]
        assert "//" not in path and "%" not in path and path.count("/proxy/") <= 1, record.target


@pytest.mark.parametrize("form", [
    "http://{a}@evil.test{p}", "http://evil.test{p}", "https://{a}{p}", "http://{a}:1{p}", "//{a}{p}", "{p}#x",
    "HTTP://{a}{p}%0d%0aX:y", "ftp://{a}{p}", "http:{p}", "*", "{p}\x7f", "{p}\x01",
    "\\{p}", "{p}?a b"])
def test_a_target_in_a_form_that_is_none_goes_nowhere(one, form):
    before = len(inside(one))
    with Raw(one) as link:
        target = form.format(a=one.authority, p=PROXY.format(one.ident) + "/command")
        status = link.send("POST", target, {"command": "true"}).whole()[0]
    if form == "https://{a}{p}":
        assert status in (200, 400)  # the scheme is whatever reached a plain listener
    else:
        assert 400 <= status < 500 and len(inside(one)) == before, status


@pytest.mark.parametrize("sandbox", [
    "{id}%20", "%73{tail}", "{up}", "{id};x", "{id}.", ".{id}", "../sandboxes/{id}", "{id}%00", "{id}/.", "{id}\u0301"])
def test_an_id_in_another_spelling_is_nobodys(one, sandbox):
    before = len(inside(one))
    spelt = sandbox.format(id=one.ident, tail=one.ident[1:], up=one.ident.upper())
    spelt = "".join(c if ord(c) < 128 else urllib.parse.quote(c) for c in spelt)
    status = ask(one, "GET", f"/v1/sandboxes/{spelt}/proxy/44772/ping")[0]
    assert status in (400, 404) and len(inside(one)) == before


SMUGGLED = [
    {"X-EXECD-ACCESS-TOKEN": "mine"}, {"x-execd-access-token": "mine"}, {"OPENSANDBOX-EGRESS-AUTH": "mine"},
    {"OPEN-SANDBOX-CLIENT-IP": "10.0.0.1"}, {"X-Forwarded-For": "10.0.0.1"}, {"Forwarded": "for=10.0.0.1"},
    {"X-Real-IP": "10.0.0.1"}, {"X-Sandgate-Capability": "x"}, {"X-Sandgate-Session": "s"}, {"Authorization": "Basic eDp5"},
    {"Cookie": "a=b"}, {"Proxy-Authorization": "Basic eDp5"}, {"Proxy-Connection": "keep-alive"}, {"Keep-Alive": "timeout=9"},
    {"Connection": "X-Request-ID, X-Secret", "X-Secret": "1"}, {"Connection": "OPEN-SANDBOX-API-KEY"},
    {"Idempotency-Key": "k"}, {"OPEN-SANDBOX-INTERNAL": "1"},
    {"OPENSANDBOX-ANYTHING": "1"}, {"X-EXECD-OTHER": "1"}, {"Upgrade": "h2c", "Connection": "Upgrade, HTTP2-Settings", "HTTP2-Settings": "AA"}]


@pytest.mark.parametrize("fields", SMUGGLED, ids=lambda f: ", ".join(f"{n}: {v}" for n, v in f.items()))
def test_what_is_not_for_a_sandbox_does_not_reach_it(one, fields):
    """The fake judges each field that comes: the surface's own and no other."""
    before = len(inside(one))
    status, text, _ = ask(one, "POST", PROXY.format(one.ident) + "/command", {"command": "true"}, fields)
    told, one.standard.breaches = one.standard.breaches, []
    assert told == []
    assert status == 200 or 400 <= status < 500 and len(inside(one)) == before, (status, text)


@pytest.mark.parametrize("line", [
    "OPEN-SANDBOX-API-KEY : x", "X-A: b\x00c", "X-A: b\rc", " folded: x", "X A: b", "Content-Length: 3", "Transfer-Encoding: chunked",
    "Transfer-Encoding: x", "Content-Length : 17", "Host: evil.test", ": x", "X-\u00e4: b"])
def test_a_head_that_two_readers_read_differently_goes_nowhere(one, line):
    before = len(inside(one))
    with Raw(one) as link:
        name, _, value = line.partition(":")
        status = link.send("POST", PROXY.format(one.ident) + "/command", {"command": "true"}, {name: value}).whole()[0]
    assert status == 400 and len(inside(one)) == before


def test_the_callers_key_reaches_no_sandbox_and_no_server(one):
    """In any field, in the target, and by both ways; the fake looks for its text in all that comes."""
    base = PROXY.format(one.ident)
    for path in ("44772/ping", "44772/proxy/8080/x", "8080/", "18080/policy"):
        ask(one, "GET", base.replace("44772", path))
    for fields in ({"Authorization": f"Bearer {one.key}"}, {"open-sandbox-api-key": one.key}):
        assert ask(one, "GET", base + "/ping", fields=fields, key="")[0] == 200
        ask(one, "GET", base.replace("44772", "8080") + "/", fields=fields, key="")
    assert ask(one, "GET", "/v1/sandboxes", fields={"Authorization": f"Bearer {one.key}"}, key="")[0] == 200
    status, text, _ = ask(one, "GET", f"/v1/sandboxes/{one.ident}/endpoints/44772")
    headers = json.loads(text)["headers"]
    assert status == 200 and one.key not in str(headers)
    one.standard.secrets += headers.values()
    for path in ("44772/ping", "44772/proxy/8080/x"):
        ask(one, "GET", base.replace("44772", path), fields=headers, key="")
    assert ask(one, "GET", base + "/ping", fields=headers, key="")[0] == 200
    assert ask(one, "GET", f"/v1/sandboxes/{one.ident}", fields=headers, key="")[0] == 401, "it is of one port"
    assert ask(one, "GET", base.replace("44772", "18080") + "/policy", fields=headers, key="")[0] in (401, 403)
    assert one.standard.breaches == []
