"""Access tokens of a real token server: got, renewed before their time and after a refusal, and never an old refresh token."""
import base64
import json
import time
import urllib.parse

import pytest

from company import ADDRESS, Company, System
from token_server import TokenServer

LOGIN, SHORT = "login.example.test", 2
EARLY = 60  # connectors/bond.h: so long before its end a token is used no more
KINDS = {"credentials": {"kind": "oauth2_client_credentials", "client_id": "agents", "scopes": ["contacts"]},
         "form": {"kind": "oauth2_client_credentials", "client_id": "agents", "style": "post"},
         "refresh": {"kind": "oauth2_refresh", "client_id": "agents", "client_secret": "refresh/client"}}


class Office:
    def __init__(self, house, folder, kind):
        self.kind, self.firm = kind, Company(folder / "firm")
        self.tokens = self.firm.add(LOGIN, TokenServer("agents", EARLY + SHORT))
        self.host = f"{kind}.example.test"
        self.system = self.firm.add(self.host, System(self.tokens.check_bearer))
        self.h, clients = house(firm=self.firm), self.tokens.clients
        value = next(iter(clients.refresh)) if kind == "refresh" else clients.secret
        self.h.bearer(kind, self.host, self.firm.port, value)
        self.h.connectors[0]["auth"] = {**KINDS[kind], "secret": f"{kind}/token", "token_url": f"https://{LOGIN}:{self.firm.port}/token"}
        self.h.hosts[LOGIN] = [ADDRESS]
        self.h.start()
        if kind == "refresh":
            done = self.h.gate.cli("vault", "put", "refresh/client", "--connector", kind, input=clients.secret)
            assert done.returncode == 0, done.stderr

    def call(self, n=1):
        """The status of each."""
        words = [w for _ in range(n) for w in ("-o", "/dev/null", f"https://{self.host}/contacts")]
        c = self.h.curl("-m", "20", "-H", "Authorization: Bearer mine", "-w", "%{http_code} ", *words)
        return c.communicate()[0].decode().split()


@pytest.fixture(params=KINDS)
def office(house, tmp_path, request):
    return Office(house, tmp_path, request.param)


def test_one_token_serves_many_and_the_next_comes_before_it_is_over(office):
    begun = time.monotonic()
    while time.monotonic() - begun < 2.5 * SHORT:
        assert office.call(5) == ["200"] * 5
        time.sleep(0.2)
    given = len(office.tokens.clients.tokens)
    assert 3 <= given <= 8 and len([r for r in office.tokens.seen if r.path == "/token"]) == given
    assert [r.refused for r in office.system.seen if r.refused] == []
    assert set(office.tokens.clients.shown_in) == {"body" if office.kind == "form" else "Basic"}
    if office.kind == "refresh":
        assert len(office.tokens.clients.refresh) == 1


def test_a_token_that_was_taken_back_is_got_anew_within_the_call(office):
    assert office.call() == ["200"]
    token, = office.tokens.clients.tokens
    basic = base64.b64encode(f"agents:{office.tokens.clients.secret}".encode()).decode()
    answer = office.tokens.server.create_revocation_response(
        f"https://{LOGIN}/revoke", "POST", urllib.parse.urlencode({"token": token}), {"authorization": f"Basic {basic}"})
    assert answer[2] == 200 and not office.tokens.clients.tokens
    assert office.call() == ["200"]
    assert [r.refused is None for r in office.system.seen] == [True, False, True]


@pytest.mark.parametrize("office", ["refresh"], indirect=True)
def test_a_gateway_that_starts_again_goes_on_with_the_last_refresh_token(office):
    assert office.call() == ["200"]
    assert office.h.gate.stop() == 0
    office.h.gate.start()
    time.sleep(SHORT)
    assert office.call() == ["200"]
    assert [r.refused for r in office.system.seen] == [None, None]


def test_no_token_no_call(office):
    office.tokens.clients.secret = "another"
    c = office.h.curl(f"https://{office.host}/contacts")
    said = json.loads(c.communicate()[0])["error"]
    assert said["code"] == "token_failed" and office.system.seen == [], said
