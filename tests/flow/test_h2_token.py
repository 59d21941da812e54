"""HTTP/2 to a proxy listener from addresses that nobody is known by: each stream brings its sandbox's token."""
import json
import socket
import threading

import h2.config
import h2.connection
import h2.errors
import h2.events
import pytest

from conftest import wait_for
from listener_world import NAME, World, basic


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = World(tmp_path_factory.mktemp("token"))
    yield made
    made.close()


class Client:
    """python-h2 on a socket; answers by stream: [status, fields, body, has ended]."""

    def __init__(self, sock):
        self.sock = sock
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8",
                                                                         validate_outbound_headers=False))
        self.answers, self.goaway, self.resets = {}, None, {}
        self.h2.initiate_connection()
        self.flush()

    def flush(self):
        self.sock.sendall(self.h2.data_to_send())

    def ask(self, fields, who=None, token=None, body=None, end=True, send=True):
        stream = self.h2.get_next_available_stream_id()
        if who:
            fields = [*fields, ("proxy-authorization", f"Basic {basic(who, token)}")]
        self.h2.send_headers(stream, fields, end_stream=end and body is None)
        if body is not None:
            self.h2.send_data(stream, body, end_stream=end)
        if send:
            self.flush()
        return stream

    def get(self, world, path="/v1/x", *who, **more):
        return self.ask([(":method", "GET"), (":scheme", "http"), (":authority", f"{NAME}:{world.web.port}"),
                         (":path", path)], *who, **more)

    def connect(self, target, *who, **more):
        return self.ask([(":method", "CONNECT"), (":authority", target)], *who, end=False, **more)

    def step(self):
        data = self.sock.recv(65536)
        if not data:
            return False
        for e in self.h2.receive_data(data):
            if isinstance(e, h2.events.ResponseReceived):
                fields = dict(e.headers)
                self.answers[e.stream_id] = [int(fields[":status"]), fields, b"", False]
            elif isinstance(e, h2.events.DataReceived):
                self.answers[e.stream_id][2] += e.data
                self.h2.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
            elif isinstance(e, h2.events.StreamEnded):
                self.answers[e.stream_id][3] = True
            elif isinstance(e, h2.events.StreamReset):
                self.resets[e.stream_id] = e.error_code
            elif isinstance(e, h2.events.ConnectionTerminated):
                self.goaway = e.error_code
        self.flush()
        return True

    def answer(self, stream):
        while not (stream in self.answers and self.answers[stream][3]):
            assert stream not in self.resets, self.resets
            assert self.step(), "closed"
        return self.answers[stream]

    def opened(self, stream):
        while stream not in self.answers:
            assert self.step(), "closed"
        return self.answers[stream][0]

    def code(self, stream):
        answer = self.answer(stream)
        return answer[0], json.loads(answer[2])["error"]["code"]

    def end(self, seconds=10):
        """Reads on until the gateway closes."""
        self.sock.settimeout(seconds)
        try:
            while self.step():
                pass
        except OSError:
            pass

    def close(self):
        self.sock.close()


@pytest.fixture(params=["tls", "plain"])
def client(request, world):
    made = []

    def start(source="127.0.0.9"):
        if request.param == "tls":
            sock = world.connect(source=source, context=world.context(("h2", "http/1.1")))
            assert sock.selected_alpn_protocol() == "h2"
        else:
            sock = socket.create_connection(world.proxy, 10, source_address=(source, 0))
        made.append(Client(sock))
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_a_request_and_a_connect_with_a_token(world, client):
    link = client()
    assert link.answer(link.get(world, "/v1/1", "ci"))[::2] == [200, b"GET /v1/1\n"]
    tunnel = link.connect(f"{NAME}:{world.web.port}", "ci")
    assert link.opened(tunnel) == 200
    link.h2.send_data(tunnel, f"GET /v1/2 HTTP/1.1\r\nHost: {NAME}:{world.web.port}\r\n\r\n".encode())
    link.flush()
    while b"GET /v1/2\n" not in link.answers[tunnel][2]:
        assert link.step()
    rows = world.wait_rows(kind="request", path="/v1/1")
    assert rows[-1]["sandbox"] == "ci"
    assert "proxy-authorization" not in str(world.web.server.seen).lower()


def test_a_connect_first(world, client):
    link = client()
    assert link.opened(link.connect(f"{NAME}:{world.host.port}", "ci")) == 200


def test_without_a_token_it_is_asked_for_and_the_next_try_is_taken(world, client):
    link = client()
    for stream in link.get(world), link.connect(f"{NAME}:{world.host.port}"):
        answer = link.answer(stream)
        assert answer[0] == 407 and answer[1]["proxy-authenticate"].startswith("Basic ")
        assert json.loads(answer[2])["error"]["code"] == "auth_required"
    assert link.code(link.get(world, "/v1/x", "ci", "wrong")) == (407, "auth_failed")
    assert link.code(link.get(world, "/v1/x", "nobody", "x")) == (407, "auth_failed")
    assert link.answer(link.get(world, "/v1/x", "ci"))[0] == 200


def test_a_head_request_is_refused_without_a_body(world, client):
    link = client()
    stream = link.ask([(":method", "HEAD"), (":scheme", "http"), (":authority", f"{NAME}:{world.web.port}"),
                       (":path", "/")])
    assert link.answer(stream)[::2] == [407, b""]


def test_one_connection_is_never_two_sandboxes(world, client):
    link = client()
    assert link.answer(link.get(world, "/v1/x", "ci"))[0] == 200
    assert link.code(link.get(world, "/v1/x", "other")) == (407, "auth_failed")
    assert link.code(link.get(world, "/v1/x")) == (407, "auth_required")
    assert link.code(link.connect(f"{NAME}:{world.host.port}", "other")) == (407, "auth_failed")
    assert link.code(link.connect(f"{NAME}:{world.host.port}")) == (407, "auth_required")
    assert link.answer(link.get(world, "/v1/x", "ci"))[0] == 200


def test_streams_that_come_at_once_are_of_whoever_came_first(world, client):
    link = client()
    streams = {}
    for i in range(20):
        who = ("ci", "other")[i % 2]
        streams[link.get(world, f"/v1/{i}", who, send=False)] = who
    link.flush()
    for stream, who in streams.items():
        assert link.answer(stream)[0] == (200 if who == "ci" else 407), (stream, who)


def test_a_wrong_token_beside_right_ones_harms_only_itself(world, client):
    link = client()
    wrong = [link.get(world, "/v1/w", "ci", "wrong", send=False), link.get(world, "/v1/n", send=False)]
    right = [link.get(world, f"/v1/{i}", "ci", send=False) for i in range(5)]
    link.flush()
    assert [link.answer(s)[0] for s in wrong] == [407, 407]
    assert [link.answer(s)[0] for s in right] == [200] * 5


def test_bodies_wait_for_the_token_and_arrive_whole(world, client):
    link = client()
    body = b"x" * 60000
    streams = [link.ask([(":method", "POST"), (":scheme", "http"), (":authority", f"{NAME}:{world.web.port}"),
                         (":path", f"/v1/{i}"), ("content-length", str(len(body)))], "ci", end=False)
               for i in range(3)]
    for s in streams:
        for at in range(0, len(body), 15000):
            while link.h2.local_flow_control_window(s) < 15000:
                assert link.step()
            link.h2.send_data(s, body[at:at + 15000], end_stream=at + 15000 == len(body))
            link.flush()
    for s in streams:
        assert link.answer(s)[::2] == [200, b"60000"]


def test_a_body_that_breaks_off_behind_a_connect_is_no_end(world, client):
    """Without a length the end of the stream would say that it is all."""
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    world.base["policies"]["coding"]["allow"][1]["ports"].append(port)
    assert world.reload(world.config())[0] == 200

    def serve():
        sock, _ = server.accept()
        sock.recv(65536)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it")
        sock.close()

    thread = threading.Thread(target=serve)
    thread.start()
    link = client()
    tunnel = link.connect(f"{NAME}:{port}", "ci")
    assert link.opened(tunnel) == 200
    link.h2.send_data(tunnel, f"GET / HTTP/1.0\r\nHost: {NAME}:{port}\r\n\r\n".encode())
    link.flush()
    while tunnel not in link.resets:
        assert not link.answers[tunnel][3] and link.step()
    thread.join()
    server.close()


def test_too_many_tries_end_the_connection(world, client):
    link = client()
    for i in range(9):
        assert link.code(link.get(world, "/v1/x", "ci", f"wrong{i}"))[0] == 407
    link.end()
    assert link.goaway == 0
    other = client()
    assert other.answer(other.get(world, "/v1/x", "ci"))[0] == 200


def test_streams_that_go_while_their_token_is_looked_at(world, client):
    for _ in range(20):
        link = client()
        for i in range(10):
            stream = link.get(world, f"/v1/{i}", ("ci", "other")[i % 2], send=False)
            link.h2.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
        link.flush()
        link.close()
    link = client()
    first = link.get(world, "/v1/gone", "ci", send=False)
    link.h2.reset_stream(first)
    link.flush()
    assert link.answer(link.get(world, "/v1/x", "ci"))[0] == 200
    wait_for(lambda: world.status()["counters"]["open"] <= 2)


def test_a_sandbox_that_its_address_tells_needs_none(world, client):
    link = client("127.0.0.5")
    assert link.answer(link.get(world))[0] == 200
    assert link.answer(link.get(world, "/v1/x", "ci"))[0] == 200
    assert world.wait_rows(kind="request", path="/v1/x")[-1]["sandbox"] in ("demo", "ci")


def test_wrong_tokens_do_not_lock_out_right_ones(world, client):
    def guess():
        for _ in range(10):
            link = client()
            for i in range(8):
                link.get(world, "/v1/x", "ci", f"wrong{i}", send=False)
            link.flush()
            link.end(0.3)

    threads = [threading.Thread(target=guess) for _ in range(3)]
    for t in threads:
        t.start()
    for _ in range(10):
        link = client()
        assert link.answer(link.get(world, "/v1/x", "ci"))[0] == 200
    for t in threads:
        t.join()


def test_a_sandbox_over_its_limit_is_told_and_gets_nothing(tmp_path):
    world = World(tmp_path, limits={"connections": 2})
    try:
        links = [Client(world.connect(source="127.0.0.9", context=world.context(("h2",)))) for _ in range(3)]
        for link in links[:2]:
            assert link.answer(link.get(world, "/v1/x", "ci"))[0] == 200
        assert links[2].code(links[2].get(world, "/v1/x", "ci")) == (503, "limit_connections")
        links[2].end()
        assert links[2].goaway == 0
        for link in links:
            link.close()
    finally:
        world.close()


def test_no_token_anywhere_is_an_unknown_sandbox(tmp_path):
    world = World(tmp_path)
    try:
        assert world.reload(world.config(sandboxes=world.base["sandboxes"][:1]))[0] == 200
        link = Client(socket.create_connection(world.proxy, 10, source_address=("127.0.0.9", 0)))
        assert link.code(link.get(world)) == (403, "unknown_sandbox")
        link.close()
    finally:
        world.close()


def test_a_new_policy_is_the_next_requests(tmp_path):
    world = World(tmp_path)
    try:
        link = Client(world.connect(source="127.0.0.9", context=world.context(("h2",))))
        assert link.answer(link.get(world, "/v1/x", "ci"))[0] == 200
        assert world.reload(world.config())[0] == 200
        assert link.answer(link.get(world, "/v1/x", "ci"))[0] == 200
        assert world.reload(world.config(sandboxes=world.base["sandboxes"][:1]))[0] == 200
        link.end()
        link.close()
    finally:
        world.close()
