"""sandgate.yaml(5); see make_reference.py."""
import reference_exec
from reference_rows import auth_rows, cond_rows, keys

# Types of options.def, as the manual calls them.
TYPES = {
    "NUMBER": "a whole number",
    "DURATION": "a time: a whole number and ms, s, m, h or d",
    "SIZE": "a size: a whole number and KiB, MiB, GiB, TiB or nothing",
    "FLAG": "true or false",
    "TEXT": "text",
    "CHOICE": "one of",
}

STRUCTURE = """
.SH WHO MAY ADMINISTER
.B admin.roles
is a list of mappings: who may ask what of the gateway, and what they are called in the ledger.
Without it the user who runs the gateway, root, and whoever has the token of
.B admin.token_sha256
may do everything, and they have no name of their own.
.TP
.B name
1 to 128 letters, digits and \\-_.@+:|=~. Nobody decides on what a caller of the same name asked
for, so callers and people are best named by one scheme.
.TP
.B uid
The number of a local user, who is known by it on the Unix socket. If there is one who doesn't run
the gateway when it starts, everybody may open the socket, but whoever isn't listed is not heard;
the directory has to let that user through. Or:
.TP
.B token_sha256
The SHA\\-256 of a token, on either kind of address. On the Unix socket it tells people apart who
share a user.
.TP
.B role
.BR viewer :
status, lists and what waits for approval;
.BR approver :
also to allow and deny it;
.BR operator :
everything.
.SH LISTENERS
.B listeners
is a list of mappings: where sandboxes come in.
.TP
.B name
Its name in the ledger.
.TP
.B kind
.BR transparent ,
.BR proxy ,
.B dns
or
.B opensandbox
(callers of execution servers).
.TP
.B address
ADDRESS:PORT, or [ADDRESS]:PORT for IPv6.
.TP
.B tproxy
true: TPROXY instead of REDIRECT; for transparent listeners.
.TP
.BR sandbox ,\\  token_sha256
Of an opensandbox listener: it serves the egress API of that sandbox (/healthz, /policy,
/credential-vault) and nothing else, to who sends the token with this SHA-256 as
OPENSANDBOX-EGRESS-AUTH. The sandbox is one that was registered
.RB ( "sandgate register" );
until it is, the answer is 503.
.TP
.B tls
A proxy or opensandbox listener with
.B tls
speaks TLS itself, 1.2 and 1.3, with h2 and http/1.1: clients name it with https://, and tokens
may come from other machines. A mapping:
.B names
lists the host names and addresses that clients connect to; no patterns, at most 16. Without it
the name is the address, unless that is 0.0.0.0 or [::]. There is no certificate file: the
certificate is made under the gateway's own authority
.RB ( "sandgate ca export" ),
and made anew before it expires and after
.BR "sandgate ca rotate" .
.TP
.B plain
true: an opensandbox listener off loopback takes keys of callers without
.BR tls .
.SH SANDBOXES
.B sandboxes
is a list of mappings: who there is.
.TP
.B id
Names it; letters, digits, \\(oq-\\(cq, \\(oq_\\(cq and \\(oq.\\(cq.
.TP
.B source
The address it connects from, or a list of up to 8: IPv4 and IPv6 of a dual stack are one
sandbox. With several workers each address belongs to one of them, so a sandbox whose addresses
meet different workers may use its limits in each of these.
.TP
.B token_sha256
SHA-256, in hex, of the token that it sends with its id. A sandbox that is attached needs
neither.
.TP
.B token
Instead of it the name of the token in the vault, of the same tenant: what
.B sandgate vault rotate
puts there is good at once, and the one before for its grace. Files, variables and sources are
not the vault.
.TP
.BR user ,\\  agent ,\\  session ,\\  tenant
For the ledger.
.TP
.B policy
The policy it lives under; without one nothing is allowed.
.TP
.B trusts_ca
true: the gateway's CA is installed there.
.TP
.B limits
Overrides of connections, connections_per_second, connections_burst, requests_per_second,
requests_burst and bytes.
.SH POLICIES
.B policies
maps names to policies; policies/NAME.yaml beside the file holds one policy called NAME,
or such a mapping. A policy has a
.B mode
.RB ( enforce ,
or
.BR observe :
the verdict on name, port, method and path is recorded and not enforced; all else is
enforced) and two lists of rules,
.B allow
and
.BR deny .
What no allow rule covers is refused; deny wins. A rule:
.TP
.B hosts
Names. \\(oq*.example.com\\(cq covers any depth below example.com, not example.com itself.
A pattern on a public suffix is refused; one on a suffix of shared hosting needs
.BR "shared_suffix: true" .
.TP
.B any_host
true: an allow rule for every host, whatever its name; for sandboxes that something else narrows,
as an OpenSandbox networkPolicy does. It stands without hosts and cidrs; with
.B "protocol: tcp"
it covers names, not addresses.
.TP
.B cidrs
Addresses and ranges, for destinations given as an address, with
.BR "protocol: tcp" .
In a deny rule they also cover the addresses that names resolve to.
.TP
.B ports
Ports and ranges like 9000-9100. An allow rule without has 443 and 80, a deny rule without
covers every port. Required with
.BR "protocol: tcp" .
.TP
.B protocol
.B http
(TLS and HTTP), or
.BR tcp :
any bytes, carried unread.
.TP
.B methods
HTTP methods; GET speaks for HEAD too.
.TP
.B paths
Globs over the path: \\(oq*\\(cq within a segment, \\(oq**\\(cq any number of segments.
.TP
.B query
Keys of the query, as they are after decoding. In an allow rule no other key may be there; a
deny rule covers requests with any of them.
.IP
TLS hides requests. Where a rule with methods, paths or query covers a host, TLS is ended in the
gateway, with a certificate of its own CA, and each request is judged; so it is on shared
hosting and for connectors. All else is carried unread.
.B "sandgate explain"
says which and why.
.TP
.B addresses
Ranges that are not public and may be reached all the same. A cloud's metadata service is
never reachable.
.TP
.BR countries ,\\  asns
Where the address must lie (in a deny rule: must not lie), by the databases under
.BR geo .
.TP
.B approval
first: a person is asked before a host of this rule is used, each host with its port once for each user, as far
as what was allowed was granted for longer. never is the default. Of allow rules that fit alike, one that
asks nobody decides.
.PP
.B connectors
lists connectors. Their hosts are reached through them only: an allow rule that also covers such
a host on the same port is an error.
.SH SENSITIVITY
How sensitive an execution request is, low, medium or high, say the rules of
.B risk.rules
and of the files risk/*.yaml beside the configuration, each a list of mappings. The worst rule
that applies decides; its
.B why
is the reason that is told and recorded. Text that can't be read (too long, broken, or hiding
what it does) is
.BR risk.unreadable ,
what no rule applies to is
.BR risk.otherwise .
Where a listener is of kind opensandbox and there are no rules at all, those of the shipped
risk/default.yaml apply; who writes own ones and wants these too copies that file into risk/.
.PP
A command line is read as a shell reads it: quotes are taken off, each simple command of it is a
deed of its own, and what sudo, env, xargs, sh \\-c, python \\-c, eval and the like run is read in
its turn. Code is read as names, calls and strings. A rule has a
.BR level ,
a
.B why
and at least one of these, each a pattern or a list of patterns; it applies when of each that it
has some pattern fits the same deed.
@CONDS@.PP
In a pattern \(oq*\(cq stands for anything and \(oq?\(cq for one letter; in a path they stop at
slashes, \(oq**\(cq does not, and /** at the end covers the folder itself. Paths are compared
after . and .. are taken out and
.B cd
was followed; $HOME is \(oq~\(cq. Where a word is known only when it runs ($X, $(...), *.key), it
fits what it could become, if some letter of the pattern is really there. A pattern has at most
60 bytes.
.SH SOURCES OF SECRETS
.B vault.sources
is a list of mappings: OpenBao or HashiCorp Vault, whose KV engine, version 2, keeps secrets of
connectors. Each has a process of its own that reads it.
.TP
.B name
Its secrets are called NAME/..., as files/... are those of
.BR vault.files .
.TP
.B url
https://HOST[:PORT].
.TP
.B addresses
Ranges that are not public and may be reached all the same.
.TP
.B auth
A mapping:
.B kind
(token, approle or kubernetes),
.B secret
(what it shows there: a name in the vault, or files/... or env/...),
.B role
(the role id, or the role; not with token) and
.B mount
(the path of the method, if it is not its kind).
.TP
.BR namespace ,\\  mount
The namespace; the path of the engine, if it is not secret.
.TP
.BR refresh ,\\  keep
How often each secret is read (60s), and how long after that it may be given out while the source
does not answer (5m).
.TP
.B tenant
Only this tenant's connectors may have its secrets; without one, only those of no tenant.
.TP
.B secrets
A mapping from the name behind NAME/ to a mapping with
.BR path ,
.BR field ,
and maybe
.B mount
and
.BR version ,
which pins one.
.SH CONNECTORS
.B connectors
is a list of mappings; each file in connectors/ beside the main one holds one, or such a list. A
connector is a company system: sandboxes call one of its hosts with their usual client and
without a credential; the gateway adds it, for what
.B allow
lists and nothing else on these hosts.
.TP
.B name
Names it for policies and the ledger.
.TP
.BR hosts ,\\  ports
What sandboxes call: as in a rule, and one label is enough; without ports, 443. Only TLS: plain
HTTP is refused with needs_tls. A pattern on shared hosting needs
.BR "shared_suffix: true" .
.TP
.B upstream
Where the connector calls, as https://HOST[:PORT], if that is not the host that the sandbox
named. http:// only with auth kind passthrough.
.TP
.B upstream_http
.BR auto ,
.B 1
or
.BR 2 :
the version of HTTP upstream; over http:// 2 means prior knowledge.
.TP
.B addresses
Ranges that are not public and may be reached all the same.
.TP
.B allow
A list of mappings with
.BR methods ,
.B paths
and
.BR query ,
as in a rule, at least one of them each. Where several connectors of a policy match a request,
the most specific path wins: more octets that must be as written, then no \\(oq**\\(cq, then no
\\(oq*\\(cq; two that are equal are an error.
.TP
.B deny
The same; what it lists is refused whatever else allows it.
.TP
.B headers
.B request
and
.BR response ,
each with
.B add
(a mapping of fields) and
.B strip
(a list of names).
.TP
.B redact
false: echoes of the secret in responses are not replaced.
.TP
.B approval
first: a person is asked before a user's sandboxes use the connector. always: before each request, by its
method, host, path and query. Either passes unasked where it was granted (sandgate approvals allow
\\-\\-scope). never is the default.
.TP
.B limits
.BR requests_per_second ,
.BR requests_burst ,
.B concurrent
(requests at once) and
.B request_body
(bytes of one).
.TP
.B tenant
Whose it is: only sandboxes of this tenant may use it.
.TP
.B users
A list: only sandboxes of these users may use it.
.TP
.B group
Connectors of one group share a process; the tenant when not given.
.TP
.B auth
How the credential is shown:
.B kind
and what it needs.
.BR secret ,
.BR client_secret ,
.B session_token
and
.B certificate
are names in the vault; {user} as a whole part of secret stands for the user of the sandbox.
.B placeholder
is the shape of what a sandbox sees instead, for clients that want one: each of its 16 or more
\\(oq*\\(cq becomes a random letter or digit;
.B env
is the variable that exec and attach set to it.
@AUTH@@EXEC@.SH TESTS
.B tests
is a list of questions that
.B "sandgate check"
asks: a
.B sandbox
or a
.BR policy ,
a
.B url
(http://, https:// or HOST:PORT), a
.BR method ,
what to
.B expect
.RB ( allow
or
.BR deny )
and, of a refusal, its
.BR code .
.SH RESOLVER LISTS
.TP
.B resolver.servers
Addresses of resolvers, with or without a port. Without any, only names under
.B resolver.hosts
resolve.
.TP
.B resolver.hosts
Maps names to addresses that are not asked for; also names of one label.
"""


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in ".'" else text


def auth_manual():
    out = []
    for _, word, needs, takes, text in auth_rows():
        told = ", ".join(keys(needs)) or "nothing"
        may = "; may have " + ", ".join(keys(takes)) if takes else ""
        out += [".TP", f".B kind: {roff(word)}", roff(text), f"Needs {roff(told)}{roff(may)}."]
    return "\n".join(out) + "\n"


def conds_manual():
    out = []
    for key, text in cond_rows():
        out += [".TP", f".B {roff(key)}", roff(text)]
    return "\n".join(out) + "\n"


def manual(rows, statuses, version):
    out = [f'.TH SANDGATE.YAML 5 "" "sandgate {version}" "File formats"',
           ".SH NAME", "sandgate.yaml \\- configuration of sandgate",
           ".SH DESCRIPTION",
           "One YAML file, with policies/*.yaml, connectors/*.yaml and risk/*.yaml beside it. Anchors, aliases,",
           "tags, merge keys and second documents are not accepted, nor is a key given twice.",
           "A file with errors changes nothing:",
           ".B sandgate check", "tells all of them at once.", ".SH OPTIONS",
           "A key with a dot stands for a key in a mapping:",
           ".B timeouts.connect", "is", ".B connect", "in", ".BR timeouts ."]
    for _, key, kind, least, most, default, unit, text in rows:
        what = TYPES[kind]
        if kind == "CHOICE":
            what += " " + ", ".join(unit.split("|"))
        elif kind == "NUMBER":
            what += f", {least} to {most}" + (f", {unit}" if unit else "")
        elif unit and kind == "TEXT":
            what = unit
        out += [".TP", f".B {roff(key)}", roff(text), f"({roff(what)};",
                f"default: {roff(default) if default else 'none'})"]
    out.append(STRUCTURE.replace("@EXEC@", reference_exec.MANUAL.lstrip()).replace("@AUTH@", auth_manual()).replace("@CONDS@", conds_manual()).strip())
    out += [".SH CODES", "The reasons of refusals, as the ledger and every answer give them."]
    for _, code, http, sentence, hint in statuses:
        if code not in ("ok", "again", "end"):
            out += [".TP", f".B {roff(code)}", roff(sentence), roff(hint)]
    out += [".SH SEE ALSO", ".BR sandgate (1)"]
    return "\n".join(line for line in out if line) + "\n"
