"""What sandgate.yaml(5) and the JSON schema say of execution servers; see make_reference.py."""

MANUAL = """
.SH EXECUTION SERVERS
.B servers
is a list of mappings: OpenSandbox servers, which run what callers of a listener of kind
opensandbox ask for. Only the gateway calls their API.
.TP
.B name
Names it in the ledger. It shares its names with connectors.
.TP
.B url
https://HOST[:PORT]. http:// when the host is an address on loopback, or with
.BR "plain: true" :
the key then travels readable.
.TP
.B key
Name in the vault of what the server takes as OPEN\\-SANDBOX\\-API\\-KEY.
.TP
.B tier
.B standard
or
.BR high :
how much its sandboxes are kept apart. A sandbox that belongs on one tier is never put on a weaker
one.
.TP
.B endpoints
Ranges where the endpoints may lie that the server returns; no other is dialled.
.TP
.B addresses
Ranges that are not public and that
.B url
may resolve to. An address in url is meant.
.TP
.B network
The docker network that its sandboxes are on, when the gateway stands before them there: network
policies are then the gateway's alone.
.TP
.B ca_file
Where the docker of a server with
.B network
finds the certificates of the gateway's authority: an absolute path, the same for the gateway and for
docker. The gateway keeps the file up to date, and sandboxes of the server are started with it, so that
OpenSandbox's own start-up script installs it. The server must allow the path
([storage] allowed_host_paths).
.TP
.B weight
Its share among the servers of its tier, 1 to 1000 (1).
.SH EXECUTION
The options that begin with
.B exec.
are above; its lists:
.TP
.B exec.images
Globs of images that may be run; \\(oq*\\(cq is any run of characters. Without it every image.
.TP
.B exec.volumes
Globs of host paths that may be mounted: \\(oq*\\(cq within a segment, \\(oq**\\(cq any number of
segments; and pvc:NAME for claims. Without it no volumes.
.TP
.B exec.labels
A mapping: labels that every sandbox gets, whatever its caller says.
.TP
.B exec.env_deny
Globs of variables that callers may not set, beside those that steer OpenSandbox itself
(OPENSANDBOX*, EXECD*, BOOTSTRAP_* and the like, in any case), which never may.
.TP
.B exec.login_ports
Ports of applications in sandboxes that a caller's Authorization and Cookie go on to. Without it
none.
.TP
.B exec.policy
The policy of what sandboxes reach; a caller's network policy can only narrow it.
.TP
.B exec.approval_webhook
A connector: each new approval is posted to / of its upstream.
.TP
.B exec.placement
A list of rules. The first that matches says on which
.B tier
a sandbox is made; none: the weakest that has a server. All conditions of a rule must hold, of a
list one entry:
.BR images ,
.B entrypoints
(globs; joined by blanks),
.BR agents ,
.BR users ,
.B labels
(all of them),
.B network
(globs of hosts that its network policy would open; a sandbox without one meets them all),
.BR "volumes: true" ,
.BR memory_over ,
.B cpu_over
and
.B risk
(from this sensitivity on).
.TP
.B exec.warm
A list of sandboxes that are kept ready:
.BR name ,
.B tier
(standard),
.BR size ,
.BR image ,
.BR entrypoint ,
.B env
and
.BR limits .
A request that differs in any of these gets a new one.
.TP
.B exec.jwt
A list of issuers whose tokens are taken instead of a key:
.BR issuer ,
.BR audience ,
.B jwks_file
(a JSON Web Key Set, at most 256 KiB, read with the configuration) or
.B jwks_connector
and
.B jwks_path
(where it is fetched),
.B user_claim
(sub),
.B agent_claim
(azp),
.BR tenant ,
.B scopes
(run, read, files, egress; all of them without) and
.BR may_delegate .
"""

LEVELS = ["low", "medium", "high"]
TIERS = ["standard", "high"]


def servers(text, words, mapping):
    one = mapping({
        "name": text, "url": {"type": "string", "pattern": "^https?://"}, "key": text, "tier": {"enum": TIERS},
        "endpoints": words, "addresses": words, "network": text,
        "ca_file": {"type": "string", "pattern": "^/"}, "plain": {"type": "boolean"},
        "weight": {"type": "integer", "minimum": 1, "maximum": 1000}}, ["name", "url", "key", "endpoints"])
    return {"type": "array", "maxItems": 32, "items": one}


def placement(text, words, mapping):
    one = mapping({
        "tier": {"enum": TIERS}, "images": words, "entrypoints": words, "agents": words, "users": words,
        "labels": {"type": "object", "minProperties": 1, "additionalProperties": text}, "network": words,
        "volumes": {"const": True}, "memory_over": {"type": ["integer", "string"]},
        "cpu_over": {"type": ["integer", "number", "string"]}, "risk": {"enum": LEVELS}}, ["tier"])
    return {"type": "array", "items": one}


def warm(text, words, mapping):
    texts = {"type": "object", "additionalProperties": {"type": ["string", "integer", "number"]}}
    one = mapping({
        "name": text, "tier": {"enum": TIERS}, "size": {"type": "integer", "minimum": 0, "maximum": 1000},
        "image": text, "entrypoint": words, "env": texts,
        "limits": {**texts, "propertyNames": {"enum": ["cpu", "memory", "gpu"]}}}, ["name", "size", "image"])
    return {"type": "array", "maxItems": 64, "items": one}


def jwt(text, words, mapping):
    one = mapping({
        "issuer": text, "audience": text, "jwks_file": text, "jwks_connector": text,
        "jwks_path": {"type": "string", "pattern": "^/"}, "user_claim": text, "agent_claim": text, "tenant": text,
        "scopes": {"type": "array", "items": {"enum": ["run", "read", "files", "egress"]}},
        "may_delegate": {"type": "boolean"}}, ["issuer", "audience"])
    one["oneOf"] = [{"required": ["jwks_file"]}, {"required": ["jwks_connector", "jwks_path"]}]
    return {"type": "array", "maxItems": 16, "items": one}


def lists(text, words, mapping, ports):
    """What stands in `exec` beside the options."""
    return {
        "images": words, "volumes": words, "env_deny": words, "login_ports": ports, "policy": text,
        "labels": {"type": "object", "additionalProperties": text}, "approval_webhook": text,
        "placement": placement(text, words, mapping), "warm": warm(text, words, mapping),
        "jwt": jwt(text, words, mapping)}
