"""The ways to a gateway in front of the strict fake: TLS with HTTP/1.1 and HTTP/2, and a command
that a person has to allow first."""
import http.client
import json
import ssl
import threading

import front as fronts
import h2.connection
import h2.events
import pytest

RULE = {"command": ["sg-danger"], "why": "does what a person should see", "level": "high"}


@pytest.fixture
def secure(fake, front, tmp_path):
    port = fronts.flow.free_port()
    standard = fake(gateway=True)
    one = front({"standard": (standard.url, standard.key)}, more={"listeners": [
        {"name": "exec", "kind": "opensandbox", "address": f"127.0.0.1:{port}", "tls": {"names": ["localhost", "127.0.0.1"]}}]})
    ca = tmp_path / "ca.pem"
    ca.write_text(one.must("ca", "export"))
    one.port, one.context = port, ssl.create_default_context(cafile=ca)
    return one


def https(one, method, path, body=None, **fields):
    link = http.client.HTTPSConnection("localhost", one.port, timeout=30, context=one.context)
    link.request(method, path, None if body is None else json.dumps(body), {
        "OPEN-SANDBOX-API-KEY": one.key, "Content-Type": "application/json", **fields})
    answer = link.getresponse()
    return answer, answer.read()


def made(one, ask):
    body = {"image": {"uri": fronts.IMAGE}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 600,
            "resourceLimits": {"cpu": "1", "memory": "256Mi"}}
    answer, text = ask(one, "POST", "/v1/sandboxes", body)
    assert answer.status == 202, text
    return json.loads(text)["id"]


def events(text):
    return [json.loads(line) for line in text.decode().split("\n") if line]


def test_a_listener_with_tls_is_asked_over_http_1_and_2(secure):
    ident = made(secure, https)
    answer, text = https(secure, "GET", f"/v1/sandboxes/{ident}/endpoints/44772")
    told = json.loads(text)
    authority, _, path = told["endpoint"].partition("/")
    assert authority == f"localhost:{secure.port}"
    headers = told.get("headers") or {}
    link = http.client.HTTPSConnection("localhost", secure.port, timeout=30, context=secure.context)
    link.request("POST", f"/{path}/command", json.dumps({"command": "echo over tls"}),
                 {"Content-Type": "application/json", **headers})  # a capability, no key
    seen = events(link.getresponse().read())
    assert [e["text"] for e in seen if e["type"] == "stdout"] == ["over tls"]

    context = ssl.create_default_context(cadata=secure.must("ca", "export"))
    context.set_alpn_protocols(["h2", "http/1.1"])
    with fronts.flow.socket.create_connection(("127.0.0.1", secure.port), timeout=30) as plain, \
            context.wrap_socket(plain, server_hostname="localhost") as s:
        assert s.selected_alpn_protocol() == "h2"
        c = h2.connection.H2Connection()
        c.initiate_connection()
        c.send_headers(1, [(":method", "GET"), (":scheme", "https"), (":authority", f"localhost:{secure.port}"),
                           (":path", f"/v1/sandboxes/{ident}"), ("open-sandbox-api-key", secure.key)], end_stream=True)
        s.sendall(c.data_to_send())
        got, over = b"", False
        while not over:
            for e in c.receive_data(s.recv(65536)):
                if isinstance(e, h2.events.DataReceived):
                    got += e.data
                over = over or isinstance(e, h2.events.StreamEnded)
    assert json.loads(got)["id"] == ident
    assert https(secure, "DELETE", f"/v1/sandboxes/{ident}")[0].status == 204


@pytest.mark.parametrize("allowed", [True, False], ids=["allowed", "denied"])
def test_a_person_decides_about_a_sensitive_command(fake, front, allowed):
    standard = fake(gateway=True)
    one = front({"standard": (standard.url, standard.key)},
                more={"exec": {"approval": "high"}, "risk": {"rules": [RULE]}})
    code, box, _ = one.create()
    assert code == 202, box
    seen = []
    runs = threading.Thread(target=lambda: seen.append(
        one.ask("POST", f"/v1/sandboxes/{box['id']}/proxy/44772/command", {"command": "sg-danger --really"})))
    runs.start()
    waits = fronts.flow.wait_for(lambda: json.loads(one.must("approvals", "list", "--json"))["approvals"])
    assert len(waits) == 1 and "sg-danger --really" in str(waits) and "alice" in str(waits)
    one.must("approvals", "allow" if allowed else "deny", str(waits[0]["id"]))
    runs.join(30)
    status, text, fields = seen[0]
    told = events(text.encode())
    assert status == 200 and [e["type"] for e in told][:2] == ["init", "ping"]
    ran = [r for r in standard.records if r.surface == "execd" and r.target.endswith("/command")]
    assert len(ran) == allowed
    if allowed:
        assert told[-1]["error"]["evalue"] == "127"
        row, = fronts.flow.wait_for(lambda: [r for r in one.gate.rows(kind="exec") if r["exec"].get("command")], 10)
        assert row["exec"]["level"] == "high" and row["exec"]["approval"] and row["exec"]["by"]
    else:
        assert told[-1]["error"]["ename"] == "SandgateDenied"
    assert one.ask("DELETE", f"/v1/sandboxes/{box['id']}")[0] == 204
