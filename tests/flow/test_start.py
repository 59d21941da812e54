"""The gateway as a whole: it starts, takes policies, loses roles, ends."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from conftest import BIN, Gate, free_port, wait_for

ROLES = ["keeper", "ledger", "dialer", "control", "dns", "worker.0"]
NOBODY = 65534
# The sanitizers' runtime can't live behind seccomp; see proxy/io/jail.c.
SECCOMP = "0" if "asan" in BIN.parts[-2] else "2"


def ask_proxy(gate, host="no.example.test", source=None):
    """One plain request; the refusal's code."""
    with socket.create_connection(gate.proxy, timeout=5, source_address=source) as s:
        s.sendall(f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        data = b""
        while chunk := s.recv(65536):
            data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    return json.loads(body)["error"]["code"]


def process(pid):
    with open(f"/proc/{pid}/status") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def restarted(gate, name, old):
    pids = {r["name"]: r for r in gate.status()["roles"]}
    return pids[name]["pid"] not in (0, old) and pids[name]["state"] == "serving"


def test_all_roles_serve_in_their_jails(gate):
    g = gate()
    roles = g.status()["roles"]
    assert [r["name"] for r in roles] == ROLES
    for r in roles:
        assert (r["state"], r["restarts"]) == ("serving", 0)
        told = process(r["pid"])
        assert told["CapEff"] == told["CapPrm"] == told["CapBnd"] == "0" * 16 or os.geteuid() != 0
        assert (told["NoNewPrivs"], told["Seccomp"]) == ("1", SECCOMP)
        if os.geteuid() == 0:
            assert told["Uid"].split()[0] != "0"


def test_a_role_holds_nothing_that_it_was_not_given(gate):
    g = gate()
    if os.geteuid() != 0:
        pytest.skip("only root may look into another process")
    for name, pid in g.pids().items():
        for fd in os.listdir(f"/proc/{pid}/fd"):
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
            fine = target.startswith(("socket:", "anon_inode:", "/memfd:", "/dev/null", "pipe:",
                                      str(g.log)))
            mine = name in ("ledger", "keeper", "control") and target.startswith(str(g.state / name))
            # The vault's key, in memory that not even root can read.
            key = name == "keeper" and target.startswith("/secretmem")
            assert fine or mine or key, (name, target)


def test_a_request_is_refused_and_recorded_and_the_chain_holds(gate):
    g = gate()
    assert ask_proxy(g) == "denied_by_policy"
    row, = g.wait_rows(kind="deny")
    assert (row["sandbox"], row["user"]) == ("demo", "alice")
    assert g.cli("audit", "verify").returncode == 0


@pytest.mark.parametrize("name", ROLES)
def test_a_role_that_dies_comes_back_with_its_sockets(gate, name):
    g = gate()
    before = g.pids()
    os.kill(before[name], signal.SIGKILL)
    if name == "control":
        wait_for(lambda: _answers(g))
    wait_for(lambda: restarted(g, name, before[name]))
    after = g.pids()
    assert {n for n in after if after[n] != before[n]} == {name}
    assert ask_proxy(g) == "denied_by_policy"
    row, = g.wait_rows(kind="role_death")
    assert "killed by signal 9" in row["detail"] and name in row["detail"]
    assert g.cli("audit", "verify").returncode == 0


def _answers(g):
    try:
        return g.admin()[0] == 200
    except OSError:
        return False


def test_a_connection_waits_while_its_worker_comes_back(gate):
    g = gate()
    pid = g.pids()["worker.0"]
    os.kill(pid, signal.SIGSTOP)
    with socket.create_connection(g.proxy, timeout=5) as s:
        s.sendall(b"GET http://no.example.test/ HTTP/1.1\r\nHost: no.example.test\r\n\r\n")
        os.kill(pid, signal.SIGKILL)
        assert s.recv(64).startswith(b"HTTP/1.1 403")


def test_a_reload_is_all_or_nothing(gate):
    g = gate()
    assert g.reload()[1] == {"ok": True, "code": "ok", "generation": 2, "messages": []}
    code, said = g.reload("polices: {}\n")
    assert (code, said["ok"], said["generation"]) == (422, False, 2)
    assert any("did you mean" in m for m in said["messages"]), said
    assert {r["generation"] for r in g.status()["roles"]} == {2}
    assert g.admin("POST", "/v1/reload")[0] == 422
    g.write()
    assert g.cli("reload").returncode == 0
    rows = g.wait_rows(4, kind="reload")
    assert [r["code"] for r in rows] == ["ok", "bad_config", "bad_config", "ok"]
    wait_for(lambda: g.counter("reloads_refused") >= 1)


def test_a_reload_takes_effect_in_the_policy(gate):
    g = gate()
    assert ask_proxy(g, "ok.example.test") != "denied_by_policy"
    assert g.reload({"policies": {"coding": {"allow": []}}})[0] == 200
    assert ask_proxy(g, "ok.example.test") == "denied_by_policy"


def test_sighup_reloads(gate):
    g = gate()
    g.process.send_signal(signal.SIGHUP)
    wait_for(lambda: g.status()["generation"] == 2)


def test_listeners_come_and_go_with_a_reload(gate):
    g = gate()
    pids, old = g.pids(), g.proxy
    extra = free_port()
    listeners = [{"name": "more", "kind": "proxy", "address": f"127.0.0.1:{extra}"}] + g.listeners()
    assert g.reload({"listeners": listeners})[0] == 200
    assert ask_proxy(g) == "denied_by_policy"
    with socket.create_connection(("127.0.0.1", extra), timeout=5):
        pass
    assert g.reload({"listeners": listeners[:1]})[0] == 200
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(old, timeout=5)
    wait_for(lambda: _answers(g))
    assert g.pids()["worker.0"] == pids["worker.0"]


def test_an_address_in_use_refuses_the_reload(gate):
    g = gate()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        more = {"name": "more", "kind": "proxy", "address": "127.0.0.1:%d" % taken.getsockname()[1]}
        code, said = g.reload({"listeners": g.listeners() + [more]})
    assert code == 422 and "Address already in use" in said["messages"][0]
    assert ask_proxy(g) == "denied_by_policy"


def test_a_sandbox_belongs_to_one_worker(gate):
    g = gate({"workers": 3, "sandboxes": [
        {"id": f"s{i}", "source": f"127.0.0.{i}", "policy": "coding"} for i in range(2, 10)]})
    used = {}
    for i in range(2, 10):
        for _ in range(5):
            assert ask_proxy(g, source=(f"127.0.0.{i}", 0)) == "denied_by_policy"
    rows = g.wait_rows(40, kind="deny")
    for row in rows:
        # The slot of the worker is part of the id: bits 16 to 23.
        value = 0
        for c in row["id"].upper():
            value = value * 32 + "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(c)
        used.setdefault(row["sandbox"], set()).add(value >> 16 & 0xff)
    assert all(len(w) == 1 for w in used.values()), used
    assert len(set().union(*used.values())) == 3


def test_sigterm_drains_and_the_last_rows_are_stored(gate):
    g = gate()
    ask_proxy(g)
    assert g.stop() == 0
    assert [r["detail"] for r in g.rows(kind="gateway")] == ["started", "drains", "stops"]
    assert g.cli("audit", "verify").returncode == 0


def test_shutdown_by_the_api_ends_it(gate):
    g = gate()
    assert g.admin("POST", "/v1/shutdown") == (200, {"ok": True})
    assert g.process.wait(20) == 0


def test_nobody_outlives_super(gate):
    g = gate()
    pids = g.pids().values()
    g.kill()
    wait_for(lambda: not any(os.path.exists(f"/proc/{p}") and
                             process(p)["State"][0] != "Z" for p in pids))


def test_a_second_gateway_with_the_same_state_is_refused(gate):
    g = gate()
    done = subprocess.run([BIN / "sandgate", "run", "-c", g.file], capture_output=True, timeout=20)
    assert done.returncode == 1 and b"another gateway uses it" in done.stderr


# Runs a command in a kernel that says of Landlock's first call (444) that it has none.
WITHOUT_LANDLOCK = """
import ctypes, os, struct, sys
code = b"".join(struct.pack("HBBI", *one) for one in
                ((0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x50026), (0x06, 0, 0, 0x7fff0000)))
room = ctypes.create_string_buffer(code)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(room)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_require_landlock_refuses_a_kernel_without_it(gate, tmp_path):
    wanted = gate({"require_landlock": True})  # this kernel has it, or the test can't tell
    assert wanted.status()["roles"][0]["landlock"] > 0
    wanted.stop()
    done = subprocess.run([sys.executable, "-c", WITHOUT_LANDLOCK, str(BIN / "sandgate"), "run", "-c", wanted.file],
                          capture_output=True, text=True, timeout=20)
    assert done.returncode == 1 and "require_landlock" in done.stderr
    wanted.write({})
    ready, child = os.pipe()
    weaker = subprocess.Popen([sys.executable, "-c", WITHOUT_LANDLOCK, str(BIN / "sandgate"), "run", "-c", wanted.file,
                               "--ready-fd", str(child)], pass_fds=[child], stderr=subprocess.PIPE)
    os.close(child)
    assert os.read(ready, 1) == b"\n"
    os.close(ready)
    assert {r["landlock"] for r in wanted.status()["roles"]} == {0}
    wanted.write({"require_landlock": True})
    refused = wanted.cli("reload")
    assert refused.returncode == 1 and "require_landlock" in refused.stdout + refused.stderr
    weaker.terminate()
    assert weaker.wait(30) == 0


def test_a_bad_configuration_does_not_start():
    g = Gate("listeners: 7\n")
    try:
        done = subprocess.run([BIN / "sandgate", "run", "-c", g.file], capture_output=True, timeout=20)
        assert done.returncode == 1 and b"sandgate.yaml:1:" in done.stderr
    finally:
        g.close()


def test_operators_tools_only(gate):
    g = gate()
    assert g.admin(headers={"Origin": "http://evil.example"})[0] == 403
    assert g.admin("GET", "/v1/nothing")[0] == 404
    assert g.admin("POST", "/v1/status")[0] == 405
    assert oct((g.state / "admin.sock").stat().st_mode & 0o777) == "0o600"
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(g.state / "admin.sock"))
        s.sendall(b"GET /v1/status HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        assert s.recv(64).startswith(b"HTTP/1.1 400")
    assert g.admin()[0] == 200


def test_a_port_wants_the_token(gate):
    import hashlib
    import http.client
    port, token = free_port(), "t0ken-of-the-operator"
    g = Gate({"admin": {"address": f"127.0.0.1:{port}",
                        "token_sha256": hashlib.sha256(token.encode()).hexdigest()}})
    try:
        g.start()

        def ask(**headers):
            link = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            link.request("GET", "/v1/sandboxes", None, headers)
            return link.getresponse().status

        assert ask() == 401
        assert ask(Authorization="Bearer wrong") == 401
        assert ask(Authorization=f"Bearer {token}") == 200
        assert ask(Authorization=f"Bearer {token}", Host="evil.example") == 403
        assert ask(Authorization=f"Bearer {token}", Origin="null") == 403
        g.env["SANDGATE_ADMIN_TOKEN"] = token
        assert g.cli("sandboxes").returncode == 0
    finally:
        g.close()


def test_it_runs_as_an_ordinary_user(gate):
    if os.geteuid() != 0:
        pytest.skip("the other tests do")
    g = gate(user=NOBODY)
    assert ask_proxy(g) == "denied_by_policy"
    assert g.wait_rows(kind="deny")
    assert {process(p)["Uid"].split()[0] for p in g.pids().values()} == {str(NOBODY)}
    assert g.stop() == 0


def test_status_sandboxes_and_doctor_tell_what_is(gate):
    g = gate()
    assert g.cli("status").returncode == 0
    assert json.loads(g.cli("status", "--json").stdout)["state"] == "serving"
    box, = json.loads(g.cli("sandboxes", "--json").stdout)["sandboxes"]
    assert (box["id"], box["policy"], box["attached"]) == ("demo", "coding", False)
    assert box["source"] == ["127.0.0.1"]
    said = g.cli("sandboxes").stdout.splitlines()
    assert said[0].split()[-1] == "source" and said[1].split()[-2:] == ["file", "127.0.0.1"], said
    told = json.loads(g.cli("doctor", "--json").stdout)
    assert told["ok"] == (SECCOMP == "2")
    assert {c["check"] for c in told["checks"]} >= set(ROLES)
    g.stop()
    assert g.cli("status").returncode == 1


def test_a_configuration_with_errors_does_not_hide_the_gateway_that_runs(gate):
    g = gate()
    g.file.write_text(g.file.read_text() + "\nno: [\n")
    said = g.cli("status").stderr
    assert str(g.file) in said and "--state DIR" in said
    assert g.cli("status", "--state", g.state).returncode == 0
    told = {c["check"]: c for c in json.loads(g.cli("doctor", "--json").stdout)["checks"]}
    assert "--state DIR" in json.dumps(told["state"]) and "gateway" not in told
    told = {c["check"] for c in json.loads(g.cli("doctor", "--json", "--state", g.state).stdout)["checks"]}
    assert told >= set(ROLES)


def test_reloads_under_deaths_never_leave_two_policies(gate):
    g = gate({"workers": 2})
    for i in range(6):
        pids = g.pids()
        os.kill(pids["worker.%d" % (i % 2)], signal.SIGKILL)
        os.kill(pids["dialer"], signal.SIGKILL)
        g.reload()
        wait_for(lambda: all(r["state"] == "serving" for r in g.status()["roles"]))
        wait_for(lambda: {r["generation"] for r in g.status()["roles"]} == {g.status()["generation"]})
    assert ask_proxy(g) == "denied_by_policy"


@pytest.mark.parametrize("is_abstract", [False, True])
def test_the_service_manager_is_told(gate, is_abstract):
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        path = os.path.join(folder, "notify")
        s.bind("\0" + path if is_abstract else path)
        s.settimeout(10)
        g = gate(env={"NOTIFY_SOCKET": "@" + path if is_abstract else path})
        assert s.recv(200) == b"READY=1"
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        assert g.reload()[0] == 200
        first, second = s.recv(200).split(b"\n"), s.recv(200)
        assert first[0] == b"RELOADING=1" and second == b"READY=1"
        name, value = first[1].split(b"=")
        assert name == b"MONOTONIC_USEC"
        assert before <= int(value) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        # Also a reload that is refused is over.
        assert g.reload("polices: {}\n")[0] == 422
        assert s.recv(200).startswith(b"RELOADING=1") and s.recv(200) == b"READY=1"
        assert g.stop() == 0
        assert s.recv(200) == b"STOPPING=1"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_whole_group_drains_as_one_to_super_does(gate, number):
    # What a terminal does with ^C, and `timeout` when time is over.
    g = gate()
    pids = list(g.pids().values())
    for pid in pids:
        os.kill(pid, number)
    time.sleep(0.3)
    assert list(g.pids().values()) == pids
    g.process.send_signal(number)
    assert g.process.wait(20) == 0
    assert "killed" not in g.log.read_text()


@pytest.mark.parametrize("name", ["ledger", "worker.0", "dialer"])
def test_a_role_that_dies_as_the_end_begins_is_no_obstacle(gate, name):
    g = gate()
    os.kill(g.pids()[name], signal.SIGKILL)
    g.process.send_signal(signal.SIGTERM)
    assert g.process.wait(20) == 0
    assert "needed" not in g.log.read_text()
    assert g.cli("audit", "verify").returncode == 0


def is_over(pid):
    """Ended; whoever adopted it may not have looked yet."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "Z"
    except OSError:
        return True


def test_the_next_gateway_waits_for_what_a_killed_one_has_in_its_rings(gate):
    g = gate()
    ledger = g.pids()["ledger"]
    os.kill(ledger, signal.SIGSTOP)
    try:
        assert ask_proxy(g) == "denied_by_policy"
        g.kill()
        with pytest.raises(AssertionError, match="still stores rows"):
            g.start()
        threading.Timer(1, os.kill, (ledger, signal.SIGCONT)).start()
        g.start()
        assert is_over(ledger)
    finally:
        if not is_over(ledger):
            os.kill(ledger, signal.SIGCONT)
    assert len(g.rows(kind="deny")) == 1
    assert g.cli("audit", "verify").returncode == 0


def test_what_outlives_super_ends_by_itself(gate):
    g = gate()
    pids = g.pids()
    g.kill()
    wait_for(lambda: all(map(is_over, pids.values())), 3)
    assert "the deadline is over" not in g.text_of_log()
