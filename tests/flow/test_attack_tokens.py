"""Token services that answer with what is no token, or with what they were shown: no request goes out on it, and
what they were shown is in no answer, row or log."""
import json

import pytest

from certificates import make_leaf
from connector_line import Connector, System, reply

SECRET = b"canary-51c0ffee77"


def token(**fields):
    return json.dumps({"access_token": "good-token-1", "token_type": "Bearer", "expires_in": 3600, **fields}).encode()


def head(line, *fields, body=b""):
    return "\r\n".join([f"HTTP/1.1 {line}", *fields, "", ""]).encode() + body


ECHO = b'{"error": "invalid_client", "error_description": "%s"}' % SECRET
BAD = {
    "too long": reply(200, token(scope="x" * 300000)),
    "without end": head("200 OK", "Transfer-Encoding: chunked", body=b"ffffffff\r\n" + b" " * 400000),
    "a chunk that is none": head("200 OK", "Transfer-Encoding: chunked", body=b"-1\r\n" + token()),
    "two lengths": head("200 OK", f"Content-Length: {len(token())}", "Content-Length: 3", body=token()),
    "compressed": reply(200, token(), [("Content-Encoding", "gzip")])[:-20],
    "redirect": reply(302, b"", [("Location", "https://idp.example.test/good")]),
    "see other": reply(303, token(), [("Location", "/good")]),
    "many hints": head("103 Early Hints") * 3000 + reply(200, token(token_type="mac")),
    "a protocol": head("101 Switching Protocols", "Upgrade: x", "Connection: upgrade", body=token()),
    "no content": head("204 No Content"),
    "text": reply(200, b"<html>" + SECRET),
    "a list": reply(200, b"[" + token() + b"]"),
    "deep": reply(200, b"[" * 50000),
    "two of them": reply(200, b'{"access_token":"a","access_token":"b","token_type":"Bearer"}'),
    "and more": reply(200, token() + b"x"),
    "no text": reply(200, token(access_token=["good-token-1"])),
    "empty": reply(200, token(access_token="")),
    "lines": reply(200, token(access_token="a\r\nX-Evil: 1")),
    "nul": reply(200, token(access_token="a\u0000b")),
    "blank": reply(200, token(access_token="a b")),
    "latin": reply(200, token(access_token="a\u00ff")),
    "not utf-8": reply(200, token().replace(b"good", b"\xff\xfe")),
    "long": reply(200, token(access_token="a" * 9000)),
    "mac": reply(200, token(token_type="mac")),
    "negative": reply(200, token(expires_in=-1)),
    "huge": reply(200, token(expires_in=2 ** 63 - 1)),
    "beyond": reply(200, token().replace(b"3600", b"99999999999999999999999")),
    "infinite": reply(200, token().replace(b"3600", b"1e999")),
    "not a number": reply(200, token().replace(b"3600", b"NaN")),
    "words": reply(200, token(expires_in="soon")),
    "true": reply(200, token(expires_in=True)),
    "echo": reply(400, ECHO, [("WWW-Authenticate", 'Bearer error="%s"' % SECRET.decode())]),
    "echo in the phrase": head(f"401 {SECRET.decode()}", "Content-Length: 0"),
    "echo for a head": SECRET + b"\r\n\r\n",
    "echo in a field's name": head("200 OK", f"{SECRET.decode()} : x", "Content-Length: 0"),
    "cut": reply(200, token())[:-1],
}

CONNECTOR = """
  - name: t{i}
    hosts: [t{i}.example.test]
    auth: {{kind: {kind}, secret: tracker/token, client_id: me, token_url: "https://idp.example.test/t{i}"{more}}}
    allow: [{{paths: ["/api/**"]}}]
"""
KINDS = [("oauth2_client_credentials", ""), ("oauth2_refresh", "")]


@pytest.mark.parametrize("kind,more", KINDS)
def test_what_is_no_token_is_not_used_and_what_was_shown_is_told_to_nobody(tmp_path, capfd, kind, more):
    names, answers = [f"t{i}" for i in range(len(BAD))], list(BAD.values())
    text = "".join(CONNECTOR.format(i=i, kind=kind, more=more) for i in range(len(BAD)))
    asked = []

    def idp(r):
        asked.append(r.target)
        r.socket.sendall(answers[int(r.target[2:])] if r.target != "/good" else reply(200, token()))

    c = Connector(tmp_path, text, lambda r: reply(), names=names, secrets={"tracker/token": SECRET})
    try:
        context = c.context("idp.example.test")
        context.load_cert_chain(*make_leaf(c.ca, "idp.example.test", *(f"{n}.example.test" for n in names)))
        server, api = System(context, idp), System(context, lambda r: reply())
        c.fetcher.hosts.update({"idp.example.test": server.port, **{f"{n}.example.test": api.port for n in names}})
        lanes = {n: c.lane(n) for n in names}
        streams = {n: lanes[n].ask("GET", "/api/x", host=f"{n}.example.test") for n in names}
        for (what, _), n in zip(BAD.items(), names):
            a = lanes[n].answer(streams[n], 30)
            assert a.status in (502, 504) and a.reason, (what, a.status, a.reason)
            assert SECRET not in a.body + repr(a.all).encode(), what
        assert api.requests == [] and "/good" not in asked and c.is_alive()
        assert sorted(asked) == sorted("/" + n for n in names)  # once each, and nobody followed
        assert c.keeper.rotated == []
        assert SECRET.decode() not in repr(c.rows())
    finally:
        c.close()
    said = capfd.readouterr()
    assert SECRET.decode() not in said.err
