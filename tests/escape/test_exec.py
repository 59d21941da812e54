"""What a command under `sandgate exec` can reach: nothing but what the policy allows."""
import ctypes
import json
import os
import pathlib
import pty
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import pytest

from conftest import HERE, SANDGATE, SINK, SINK6, Sink, flow

NOBODY = 65534
PYTHON = "/usr/bin/python3"


def as_user(uid):
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if uid else []


@pytest.fixture
def host(world):
    """Sockets of daemons, some there before the box and one that comes later."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sandgate-escape-"))
    folder.chmod(0o777)
    sink = Sink()
    run_dir = pathlib.Path("/run/sandgate-escape")
    run_dir.mkdir(exist_ok=True)
    pathlib.Path("/tmp/.X11-unix").mkdir(exist_ok=True)
    before = ["/run/sandgate-escape/docker.sock", "/tmp/.X11-unix/X97", f"{folder}/agent.1", f"{folder}/bus"]
    for path in before:
        sink.unix(path)
    sink.unix(f"{folder}/log", socket.SOCK_DGRAM)
    sink.unix("\0sandgate-escape")
    sleeper = subprocess.Popen(["sleep", "86399"])
    yield {"sink": sink, "unix": [*before, f"{folder}/log", f"{folder}/late.sock"], "late": f"{folder}/late.sock", "pid": sleeper.pid, "dir": folder}
    sleeper.kill()
    sleeper.wait()
    sink.close()
    run_dir.rmdir()
    shutil.rmtree(folder)


def exec_in(g, uid, *words, options=(), env=None, **kw):
    env = {**os.environ, **(env or {})}
    return subprocess.Popen([*as_user(uid), str(SANDGATE), "exec", "-c", str(g.file), "--policy", "coding", *options, "--", *words],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, cwd="/", **kw)


def start(gate, uid, **config):
    return gate({"admin": {"address": "unix:admin.sock"}, **config}, user=uid or None)


@pytest.mark.parametrize("uid,options", [(0, ()), (0, ("--root",)), (NOBODY, ()), (NOBODY, ("--root",)), (NOBODY, ("--without-nft",))])
def test_nothing_gets_out_of_exec(world, gate, host, uid, options):
    g = start(gate, uid)
    world.forget()
    late = threading.Timer(0.6, lambda: host["sink"].unix(host["late"]))
    late.start()
    held, theirs = socket.socketpair()
    targets = {"sinks": [SINK, "203.0.113.1"], "sinks6": [SINK6], "own": ["127.0.0.1", SINK, "198.18.0.1"], "ports": [*g.ports.values()],
               "unix": [*host["unix"], str(g.state / "admin.sock")], "abstract": "sandgate-escape", "pid": host["pid"], "mark": "86399"}
    env = {"SSH_AUTH_SOCK": host["unix"][2], "DBUS_SESSION_BUS_ADDRESS": f"unix:path={host['unix'][3]}", "DISPLAY": ":97",
           "DOCKER_HOST": "unix:///run/sandgate-escape/docker.sock", "XDG_RUNTIME_DIR": "/run/sandgate-escape"}
    targets["unix"] = [targets["unix"][-1], *targets["unix"][:-1]]  # the late one last
    attacks = "import time, runpy, sys; time.sleep(1.2); sys.argv[0] = 'x'; runpy.run_path(sys.argv.pop(1), run_name='attacks')"
    child = exec_in(g, uid, PYTHON, "-c", attacks, str(HERE / "attacks.py"), "first", "box", "net", "root", "last",
                    options=options, env=env, pass_fds=[theirs.fileno()])
    out, err = child.communicate(json.dumps(targets), timeout=150)
    late.join()
    assert child.returncode == 0, err
    seen = json.loads(out)
    assert "ESCAPED" not in out, {k: v for k, v in seen.items() if "ESCAPED" in str(v)}
    assert seen["an_allowed_request_still_works"] == "fine", seen
    assert host["sink"].got == []
    world.check()
    assert g.admin("GET", "/v1/sandboxes")[1]["sandboxes"] == []


def simple(g, *words, uid=0, options=(), **kw):
    child = exec_in(g, uid, *words, options=options)
    out, err = child.communicate(**kw, timeout=60)
    return child.returncode, out, err


def test_exit_codes_standard_input_and_the_directory(gate):
    g = start(gate, 0)
    assert simple(g, "sh", "-c", "exit 7")[0] == 7
    assert simple(g, "/no/such/program")[0] == 127
    assert simple(g, "/etc/passwd")[0] == 126
    assert simple(g, "sh", "-c", "kill -SEGV $$")[0] == 139
    assert simple(g, "sh", "-c", "cat; pwd; id -u", input="through\n")[1] == "through\n/\n0\n"
    assert simple(g, "id", "-u", options=["--root"])[1] == "0\n"


@pytest.mark.parametrize("number,code", [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_signals_reach_the_command(gate, number, code):
    g = start(gate, 0)
    child = exec_in(g, 0, "sh", "-c", "echo ready; exec sleep 60")
    assert child.stdout.readline() == "ready\n"
    child.send_signal(number)
    assert child.wait(10) == code
    flow.wait_for(lambda: g.admin("GET", "/v1/sandboxes")[1]["sandboxes"] == [])


def test_a_terminal_is_passed_through(gate):
    g = start(gate, 0)
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(SANDGATE, ["sandgate", "exec", "-c", str(g.file), "--policy", "coding", "--", PYTHON, "-c",
                            "import os, sys; print(os.isatty(0), os.isatty(1)); os.openpty(); print('typed', input())"])
    os.write(fd, b"hello\n")
    text = b""
    while select.select([fd], [], [], 20)[0]:
        try:
            text += os.read(fd, 1000)
        except OSError:
            break
    assert b"True True" in text and b"typed hello" in text
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


REDIAL = """
import ctypes, os, socket
s = socket.socket(fileno=0)
said = s.recv(9)
for to in ((0,), (socket.AF_INET, "%s", 4444)):
    raw = to[0].to_bytes(2, "little") + (to[2].to_bytes(2, "big") + socket.inet_aton(to[1]) if to[0] else bytes(6)) + bytes(8)
    print(ctypes.CDLL(None, use_errno=True).connect(0, raw, 16), ctypes.get_errno())
try: s.sendto(b"mine", socket.MSG_FASTOPEN, ("%s", 4444))
except OSError: s.send(b"mine")
print(said)
"""


@pytest.mark.parametrize("uid", [0, NOBODY])
def test_a_socket_as_standard_input_leads_only_to_its_peer(world, gate, uid):
    g = start(gate, uid)
    world.forget()
    command = [*as_user(uid), str(SANDGATE), "exec", "-c", str(g.file), "--policy", "coding", "--", PYTHON, "-c", REDIAL % (SINK, SINK)]

    def given(s):
        return subprocess.run(command, stdin=s, capture_output=True, text=True, cwd="/", timeout=60)

    for loose in (socket.socket(type=socket.SOCK_DGRAM), socket.socket(), socket.create_server(("127.0.0.1", 0)),
                  socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX)):
        with loose:
            done = given(loose)
            assert done.returncode == 125 and "nothing was run" in done.stderr, done
    folder = os.open("/run", os.O_RDONLY)
    assert given(folder).returncode == 125
    os.close(folder)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as ours:
        peer = server.accept()[0]
        peer.sendall(b"hello")
        done = given(ours)
        assert done.stdout.split("\n")[:3] == ["-1 13", "-1 13", "b'hello'"], done
        assert peer.recv(9) == b"mine"
        peer.close()
    world.check()


def test_the_users_keys_stay_outside(gate):
    g = start(gate, 0)
    libc = ctypes.CDLL(None)
    child = subprocess.Popen([str(SANDGATE), "exec", "-c", str(g.file), "--policy", "coding", "--", PYTHON, "-c",
                              "import ctypes; print(ctypes.CDLL(None).syscall(249, b'user', b'sandgate-escape', None, 0))"],
                             stdout=subprocess.PIPE, text=True, cwd="/",
                             preexec_fn=lambda: libc.syscall(248, b"user", b"sandgate-escape", b"secret", 6, -4))
    assert child.communicate(timeout=60)[0] == "-1\n"


ASK = ("import urllib.request as u, time, sys\no = u.build_opener(u.ProxyHandler({}))\n"
       "print(o.open('http://ok.example.test/', timeout=8).read().decode(), flush=True)\nsys.stdin.readline()\n"
       "for i in range(40):\n  try:\n    print(o.open('http://ok.example.test/', timeout=4).read().decode(), flush=True); break\n"
       "  except OSError as e: time.sleep(.25)\n"
       "try: o.open('http://no.evil.test/', timeout=8)\nexcept OSError as e: print('denied')\n")


def test_two_at_once_share_one_gateway_and_survive_its_worker_and_dns(world, gate):
    g = start(gate, 0)
    world.forget()
    both = [exec_in(g, 0, PYTHON, "-c", ASK) for _ in range(2)]
    for child in both:
        assert child.stdout.readline() == "fine\n", child.stderr.read()
    assert len(g.admin("GET", "/v1/sandboxes")[1]["sandboxes"]) == 2
    for role in ("worker.0", "dns"):
        os.kill(g.pids()[role], signal.SIGKILL)
    for child in both:
        out, err = child.communicate("\n", timeout=60)
        assert out.split() == ["fine", "denied"], err
    flow.wait_for(lambda: g.admin("GET", "/v1/sandboxes")[1]["sandboxes"] == [])
    world.check()


def test_without_a_gateway_nothing_is_open(world, gate):
    g = start(gate, 0)
    world.forget()
    child = exec_in(g, 0, PYTHON, "-c", ASK)
    assert child.stdout.readline() == "fine\n"
    g.kill()
    time.sleep(0.5)
    out, _ = child.communicate("\n", timeout=120)
    assert out.split() == ["denied"]
    world.check()


def test_a_gateway_of_its_own_goes_with_the_command():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        done = subprocess.run([SANDGATE, "exec", "--allow", "ok.example.test", "--", "sh", "-c", "exit 3"],
                              env={**os.environ, "TMPDIR": folder}, capture_output=True, text=True, timeout=60)
        assert done.returncode == 3, done.stderr
        assert os.listdir(folder) == []
    mine = [p for p in os.listdir("/proc") if p.isdigit() and folder.encode() in cmdline(p)]
    assert mine == []


def cmdline(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_where_user_namespaces_are_refused_nothing_runs_and_the_setting_is_named(gate):
    g = start(gate, 0)
    inner = ("echo 0 > /proc/sys/user/max_user_namespaces || exit 99; "
             f"exec {SANDGATE} exec -c {g.file} --policy coding -- touch {g.dir}/ran")
    done = subprocess.run(["unshare", "-Ur", "sh", "-c", inner], capture_output=True, text=True, timeout=60)
    if done.returncode == 99:
        from conftest import found
        found["absent: refused user namespaces"] = "user.max_user_namespaces can't be written in a user namespace here"
        pytest.skip(done.stderr)
    assert done.returncode == 125, done
    assert "user.max_user_namespaces" in done.stderr
    assert not (g.dir / "ran").exists()
