"""What an operator takes away is used no more from the moment that the command returns."""
import http.client
import json
import socket
import ssl
import subprocess
import threading
import time

import pytest

import company_systems as systems
from company import ADDRESS, Answer, Company, System
from conftest import wait_for

HOST, LOGIN, SECRET, OTHER = "api.example.test", "login.example.test", "canary-90aa51-first", "canary-90aa51-second"


class Tokens(System):
    def __init__(self):
        super().__init__()
        self.n = 0

    def answer(self, r):
        self.n += 1
        r.read()
        return Answer(200, json.dumps({"access_token": f"token-{self.n}", "token_type": "bearer", "expires_in": 3600}).encode(),
                      [("Content-Type", "application/json")])


class World:
    def __init__(self, gate, folder):
        self.firm = Company(folder / "ca")
        self.api, self.tokens = self.firm.add(HOST, System()), self.firm.add(LOGIN, Tokens())
        self.firm.add("mail.example.test", self.api)
        common = {"addresses": ["127.0.0.0/8"], "allow": [{"paths": ["/**"]}]}
        self.g = gate({
            "upstream_tls": {"ca_file": str(self.firm.ca.file)},
            "resolver": {"servers": ["127.0.0.1"], "hosts": {n: [ADDRESS] for n in self.firm.systems}},
            "sandboxes": [{"id": "demo", "source": "127.0.0.1", "user": "alice", "policy": "coding", "trusts_ca": True}],
            "policies": {"coding": {"connectors": ["api", "mail"]}},
            "connectors": [
                {"name": "api", "hosts": [HOST], "upstream": f"https://{HOST}:{self.firm.port}",
                 "auth": {"kind": "bearer", "secret": "users/{user}/api"}, **common},
                {"name": "mail", "hosts": ["mail.example.test"], "upstream": f"https://mail.example.test:{self.firm.port}",
                 "auth": {"kind": "oauth2_client_credentials", "secret": "mail/client", "client_id": "me",
                          "token_url": f"https://{LOGIN}:{self.firm.port}/token"}, **common}]})
        self.vault("put", "users/alice/api", input=SECRET)
        self.vault("put", "mail/client", input=SECRET)
        self.ca = folder / "gateway.pem"
        self.ca.write_text(self.g.cli("ca", "export", check=True).stdout)

    def vault(self, *words, **kw):
        return self.g.cli("vault", *words, check=True, **kw)

    def connect(self, host=HOST):
        """One connection of the sandbox's, so one lane and one lease."""
        s = socket.create_connection(self.g.proxy, timeout=20)
        s.sendall(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n".encode())
        assert s.recv(65536).startswith(b"HTTP/1.1 200")
        return ssl.create_default_context(cafile=self.ca).wrap_socket(s, server_hostname=host)

    @staticmethod
    def ask(s, host=HOST, path="/x"):
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        answer = http.client.HTTPResponse(s)
        answer.begin()
        answer.read()
        return answer.status

    def shown(self):
        return self.api.seen[-1].one("authorization")


@pytest.fixture
def world(gate, tmp_path):
    w = World(gate, tmp_path)
    yield w
    w.firm.close()
    assert not w.firm.errors


@pytest.mark.parametrize("words", [("rm", "users/alice/api"), ("ungrant", "users/alice/api"), ("seal",)], ids=lambda w: w[0])
def test_the_next_request_is_refused(world, words):
    with world.connect() as s:
        assert world.ask(s) == 200 and world.shown() == "Bearer " + SECRET
        before = len(world.api.seen)
        assert world.ask(s) == 200  # the lease is at hand
        world.vault(*words)
        assert world.ask(s) in (403, 503)
        assert len(world.api.seen) == before + 1


def test_the_next_request_has_the_new_one(world):
    with world.connect() as s:
        for value in (OTHER, SECRET, OTHER):
            assert world.ask(s) == 200
            world.vault("rotate", "users/alice/api", "--grace", "1h", input=value)
            assert world.ask(s) == 200 and world.shown() == "Bearer " + value


def test_a_token_that_was_got_with_it_goes_too_and_others_stay(world):
    mail = "mail.example.test"
    with world.connect(mail) as s:
        assert world.ask(s, mail) == 200 and world.shown() == "Bearer token-1"
        world.vault("rotate", "users/alice/api", input=OTHER)
        assert world.ask(s, mail) == 200 and world.shown() == "Bearer token-1"
        world.vault("rotate", "mail/client", input=OTHER)
        assert world.ask(s, mail) == 200 and world.shown() == "Bearer token-2"
        world.vault("rm", "mail/client")
        assert world.ask(s, mail) == 503 and world.tokens.n == 2


def test_no_request_that_begins_afterwards_has_it(world):
    """Under load: many connections, each with its lane, ask on and on."""
    over, gone, late, after = threading.Event(), [], [], []

    def run():
        while not over.is_set():
            with world.connect() as s:
                try:
                    while not over.is_set():
                        begun = time.monotonic()
                        status = world.ask(s, path=f"/{begun}")
                        if gone and begun > gone[0]:
                            (late if status == 200 else after).append(begun - gone[0])
                except http.client.RemoteDisconnected:
                    pass  # a refusal may be the last answer on its connection

    threads = [threading.Thread(target=run) for _ in range(8)]
    for t in threads:
        t.start()
    wait_for(lambda: len(world.api.seen) > 200, 20)
    world.vault("rm", "users/alice/api")
    gone.append(time.monotonic())
    time.sleep(1)
    over.set()
    for t in threads:
        t.join()
    assert not late and len(after) > 20
    assert not [r for r in world.api.seen if float(r.path[1:]) > gone[0]]


def test_a_connector_that_hangs_keeps_it_no_longer_than_a_lease_lasts(world):
    with world.connect() as s:
        assert world.ask(s) == 200
        pids = [r["pid"] for r in world.g.admin()[1]["roles"] if r["name"].startswith("connector")]
        for pid in pids:
            subprocess.run(["kill", "-STOP", str(pid)], check=True)
        threading.Timer(2, lambda: [subprocess.run(["kill", "-CONT", str(p)], check=True) for p in pids]).start()
        world.vault("rm", "users/alice/api")
        assert world.ask(s) == 503
