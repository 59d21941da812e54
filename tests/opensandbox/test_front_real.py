"""sandgate in front of two real servers, standard and high, with both official SDKs."""
import concurrent.futures

import pytest
from conftest import sdk
from test_sdk import NAMES, WAYS, flags, good, on_fake


@pytest.fixture(scope="module")
def fronted(real, front_for_all):
    """One gateway in the namespace of the servers; what SDKs run comes in by it alone."""
    servers = {name: (server.url, server.key) for name, server in real.servers.items()}
    return front_for_all(servers, around=real.inside(), more={"exec": {
        "placement": [{"tier": "high", "labels": {"tier": "high"}}]}})


@pytest.fixture(scope="module")
def through(real, shelf, fronted):
    """Every way, one behind the other for each SDK; the two SDKs side by side."""

    def flows(kind):
        return {proxy: sdk(shelf, kind, fronted.url, fronted.key, *flags(proxy),
                           around=lambda command: [*real.inside(), *command])["steps"]
                for k, proxy in WAYS if k == kind}

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return dict(zip(("python", "npm"), pool.map(flows, ("python", "npm"))))


@pytest.mark.parametrize(("kind", "proxy"), WAYS, ids=NAMES)
def test_an_sdk_sees_the_real_server_through_sandgate(fake, shelf, through, report, kind, proxy):
    direct, seen = on_fake(fake, shelf, kind, proxy), good(through[kind][proxy])
    report["flows through sandgate"] = report.get("flows through sandgate", 0) + 1
    for name in direct:
        assert seen[name] == direct[name], name


def test_nothing_is_left_behind_the_flows(real, through, fronted):
    assert real.docker("ps", "-a", "--format", "{{.Names}}").stdout.split() == []
    assert fronted.gate.rows(kind="exec"), "what ran is in the ledger"
