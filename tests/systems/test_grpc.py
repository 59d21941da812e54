"""gRPC with its real library at both ends, through the preset and through interception alone."""
import re
import secrets

import pytest
from conftest import HERE
from grpc_server import SERVICE, Invoices

HOST, PLAIN, SYSTEM = "billing.internal.example.test", "plain.example.test", "billing-grpc.internal.example.test"
ALL = [f"/{SERVICE}/{method}" for method in ("Get", "Send", "List", "Talk")]
CALLS = ["unary", "client_stream", "server_stream", "bidi", "large", "compressed", "metadata", "status", "deadline", "cancel",
         "together"]
PYTHON = "/usr/bin/python3"


class Both:
    def __init__(self, house):
        self.secret = secrets.token_urlsafe(24)
        self.h = house("grpc")
        self.guarded = Invoices(self.h.leaf(SYSTEM), lambda m: m.get("authorization") == [f"Bearer {self.secret}"])
        self.open = Invoices(self.h.leaf(PLAIN))
        self.h.connector("billing", allow=[{"methods": ["POST"], "paths": ALL}])
        self.h.move(HOST, self.guarded.port)
        self.h.open(PLAIN, self.open.port, methods=["POST"], paths=ALL)
        self.h.start(**{"billing/token": self.secret})
        self.ways = {"connector": (self.guarded, f"{HOST}:443"), "intercepted": (self.open, f"{PLAIN}:{self.open.port}")}

    def call(self, kind, way, *names):
        server, target = self.ways[kind]
        for event in (server.cancelled, server.waits):
            event.clear()
        return server, self.h.inside(PYTHON, HERE / "grpc_client.py", target, way, *names).stdout


@pytest.fixture(scope="module")
def both(house):
    made = Both(house)
    yield made
    made.guarded.close()
    made.open.close()


@pytest.mark.parametrize("way", ["proxy", "captured"])
@pytest.mark.parametrize("kind", ["connector", "intercepted"])
def test_calls_of_all_kinds_end_as_they_do_without_us(both, kind, way):
    server, said = both.call(kind, way, *CALLS)
    assert said == "".join(f"{name} ok\n" for name in CALLS), said
    assert server.cancelled.wait(5)


@pytest.mark.parametrize("kind", ["connector", "intercepted"])
def test_a_deadline_that_is_over_ends_the_call_at_the_server(both, kind):
    server, said = both.call(kind, "proxy", "deadline")
    assert said == "deadline ok\n" and server.cancelled.wait(5)


@pytest.mark.parametrize("kind", ["connector", "intercepted"])
def test_a_method_that_is_not_allowed_is_refused_in_words_that_the_client_shows(both, kind):
    server, said = both.call(kind, "proxy", "refused", "unary")
    assert said.endswith("refused ok\nunary ok\n") and "denied_path" in said, said


def test_a_credential_in_metadata_is_the_gateways_and_is_never_shown(both):
    server, said = both.call("connector", "proxy", "own_credential")
    assert said.endswith("own_credential ok\n")
    assert server.seen[-1]["authorization"] == [f"Bearer {both.secret}"]
    assert "'Bearer mine'" not in said and re.search(r"\('authorization', \['Bearer [^']{32}'\]\)", said)
