"""WebSocket with its usual Python library at both ends."""
import re
import secrets
import subprocess

import pytest
from conftest import HERE

from company import ADDRESS

PYTHON, PROGRAM = "/usr/bin/python3", HERE / "websockets_both.py"
OPEN, GUARDED = "plain.example.test", "chat.example.test"
FEATURES = ["messages", "pieces", "pings", "protocol", "plain", "left", "closed", "many"]
PATHS = ["/", "/pieces", "/leave", "/shown"]


class Chat:
    def __init__(self, house):
        self.h, self.secret, self.servers = house(), secrets.token_urlsafe(24), []
        ports = [self.serve(OPEN), self.serve(GUARDED, f"Bearer {self.secret}")]
        self.h.open(OPEN, ports[0], paths=PATHS)
        self.h.bearer("chat", GUARDED, ports[1], self.secret, allow=[{"paths": PATHS}])
        self.h.start()
        self.urls = {"intercepted": f"wss://{OPEN}:{ports[0]}", "connector": f"wss://{GUARDED}"}

    def serve(self, host, *words):
        self.servers.append(subprocess.Popen([PYTHON, PROGRAM, "serve", ADDRESS, *self.h.leaf(host), *words], stdout=subprocess.PIPE))
        return int(self.servers[-1].stdout.readline())

    def call(self, kind, *features):
        return self.h.inside(PYTHON, PROGRAM, "call", self.urls[kind], *features).stdout


@pytest.fixture(scope="module")
def chat(house):
    made = Chat(house)
    yield made
    for server in made.servers:
        server.kill()
        server.wait()


@pytest.mark.parametrize("kind", ["intercepted", "connector"])
def test_messages_and_ends_arrive_as_without_us(chat, kind):
    said = chat.call(kind, *FEATURES)
    assert said == "".join(f"{name} ok\n" for name in FEATURES), said


@pytest.mark.parametrize("kind", ["intercepted", "connector"])
def test_a_socket_on_another_path_is_not_opened(chat, kind):
    assert chat.call(kind, "refused", "plain") == "refused ok\nplain ok\n"


def test_the_system_gets_its_credential_and_the_client_sees_another(chat):
    said = chat.call("connector", "shown")
    assert re.fullmatch(r"Bearer [\w-]{32}\nshown ok\n", said), said
