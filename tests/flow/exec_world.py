"""A worker whose listener leads to one sandbox, and requests to it that are written out."""
import http.client

import pytest

from exec_line import ExecWorker, route

ID = "sb-one"
PROXY = f"/v1/sandboxes/{ID}/proxy"


@pytest.fixture
def w(tmp_path, request):
    worker = ExecWorker(tmp_path, more=getattr(request, "param", ""))
    worker.brain.place = lambda wish: route(worker.box)
    yield worker
    assert worker.is_alive()
    assert worker.close() == 0


def send(w, text, body=b""):
    s = w.connect()
    s.sendall(text.replace("\n", "\r\n").encode() + body)
    return s


def response(s, method="GET"):
    r = http.client.HTTPResponse(s, method=method)
    r.begin()
    return r, r.read()
