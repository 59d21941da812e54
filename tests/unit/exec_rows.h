#ifndef TESTS_UNIT_EXEC_ROWS_H
#define TESTS_UNIT_EXEC_ROWS_H
/* Every route of OpenSandbox's APIs, written down once more than exec_routes.def does, from
 * the interface files and from the routers of server, execd and egress sidecar. */
#include "proxy/http/exec_route.h"

struct exec_row {
	const char *method, *path, *op, *class;
	enum exec_body body;
	enum exec_answer answer;
};

#define N EXEC_BODY_NONE, EXEC_ANSWER_PLAIN
#define J EXEC_BODY_JSON, EXEC_ANSWER_PLAIN
#define E EXEC_BODY_JSON, EXEC_ANSWER_EVENTS
#define B EXEC_BODY_NONE, EXEC_ANSWER_BYTES

static const struct exec_row exec_server[] = {
	{ "POST", "/sandboxes", "sandbox.create", "lifecycle", J },
	{ "GET", "/sandboxes", "sandbox.list", "lifecycle", N },
	{ "GET", "/sandboxes/sb-1", "sandbox.get", "lifecycle", N },
	{ "DELETE", "/sandboxes/sb-1", "sandbox.kill", "lifecycle", N },
	{ "PATCH", "/sandboxes/sb-1/metadata", "sandbox.metadata", "lifecycle", J },
	{ "POST", "/sandboxes/sb-1/pause", "sandbox.pause", "lifecycle", N },
	{ "POST", "/sandboxes/sb-1/resume", "sandbox.resume", "lifecycle", N },
	{ "POST", "/sandboxes/sb-1/renew-expiration", "sandbox.renew", "lifecycle", J },
	{ "GET", "/sandboxes/sb-1/endpoints/8080", "sandbox.endpoint", "lifecycle", N },
	{ "POST", "/sandboxes/sb-1/snapshots", "sandbox.snapshot", "lifecycle", J },
	{ "GET", "/sandboxes/sb-1/networkpolicy", "networkpolicy.get", "egress", N },
	{ "PUT", "/sandboxes/sb-1/networkpolicy", "networkpolicy.set", "egress", J },
	{ "PATCH", "/sandboxes/sb-1/networkpolicy", "networkpolicy.patch", "egress",
	  J },
	{ "DELETE", "/sandboxes/sb-1/networkpolicy", "networkpolicy.delete", "egress",
	  J },
	{ "GET", "/sandboxes/sb-1/diagnostics/logs", "diagnostics.logs", "lifecycle",
	  N },
	{ "GET", "/sandboxes/sb-1/diagnostics/events", "diagnostics.events",
	  "lifecycle", N },
	{ "GET", "/sandboxes/sb-1/diagnostics/inspect", "diagnostics.inspect",
	  "lifecycle", N },
	{ "GET", "/sandboxes/sb-1/diagnostics/summary", "diagnostics.summary",
	  "lifecycle", N },
	{ "GET", "/snapshots", "snapshot.list", "lifecycle", N },
	{ "GET", "/snapshots/sn-1", "snapshot.get", "lifecycle", N },
	{ "DELETE", "/snapshots/sn-1", "snapshot.delete", "lifecycle", N },
	{ "POST", "/pools", "pool.create", "lifecycle", J },
	{ "GET", "/pools", "pool.list", "lifecycle", N },
	{ "GET", "/pools/p", "pool.get", "lifecycle", N },
	{ "PUT", "/pools/p", "pool.update", "lifecycle", J },
	{ "DELETE", "/pools/p", "pool.delete", "lifecycle", N },
	{ "POST", "/templates", "template.create", "lifecycle", J },
	{ "GET", "/templates", "template.list", "lifecycle", N },
	{ "GET", "/templates/t", "template.get", "lifecycle", N },
	{ "DELETE", "/templates/t", "template.delete", "lifecycle", N },
	{ "POST", "/metrics/events", "telemetry", "lifecycle", J },
	{ "GET", "/health", "health", "health", N },
	{ "GET", "/version", "version", "health", N },
};

static const struct exec_row exec_execd[] = {
	{ "GET", "/ping", "execd.ping", "health", N },
	{ "GET", "/ready", "execd.ready", "health", N },
	{ "POST", "/internal/init", "execd.init", "command", J },
	{ "GET", "/metrics", "execd.metrics", "health", N },
	{ "GET", "/metrics/watch", "execd.metrics.watch", "health", B },
	{ "POST", "/command", "command.run", "command", E },
	{ "POST", "/command/operations", "command.operation", "command", J },
	{ "GET", "/command", "command.list", "command", N },
	{ "DELETE", "/command", "command.interrupt", "command", N },
	{ "GET", "/command/status/c-1", "command.status", "command", N },
	{ "GET", "/command/c-1/logs", "command.logs", "command", B },
	{ "GET", "/command/c-1/resume", "command.resume", "command", EXEC_BODY_NONE,
	  EXEC_ANSWER_EVENTS },
	{ "GET", "/execution/instance", "execution.instance", "command", N },
	{ "GET", "/execution/operation", "execution.operation", "command", N },
	{ "POST", "/session", "session.create", "command", J },
	{ "GET", "/session/s-1", "session.get", "command", N },
	{ "POST", "/session/s-1/run", "session.run", "command", E },
	{ "DELETE", "/session/s-1", "session.delete", "command", N },
	{ "POST", "/code", "code.run", "code", E },
	{ "DELETE", "/code", "code.interrupt", "code", N },
	{ "POST", "/code/context", "code.context.create", "code", J },
	{ "GET", "/code/contexts", "code.context.list", "code", N },
	{ "DELETE", "/code/contexts", "code.context.clear", "code", N },
	{ "GET", "/code/contexts/x", "code.context.get", "code", N },
	{ "DELETE", "/code/contexts/x", "code.context.delete", "code", N },
	{ "POST", "/pty", "pty.create", "pty", J },
	{ "POST", "/pty/operations", "pty.operation", "pty", J },
	{ "GET", "/pty/t-1", "pty.get", "pty", N },
	{ "DELETE", "/pty/t-1", "pty.delete", "pty", N },
	{ "GET", "/pty/t-1/ws", "pty.attach", "pty", EXEC_BODY_UPGRADE,
	  EXEC_ANSWER_PLAIN },
	{ "POST", "/v1/isolated/session", "isolated.create", "command", J },
	{ "GET", "/v1/isolated/sessions", "isolated.list", "command", N },
	{ "GET", "/v1/isolated/capabilities", "isolated.capabilities", "command", N },
	{ "GET", "/v1/isolated/session/i-1", "isolated.get", "command", N },
	{ "DELETE", "/v1/isolated/session/i-1", "isolated.delete", "command", N },
	{ "POST", "/v1/isolated/session/i-1/run", "isolated.run", "command", E },
	{ "GET", "/v1/isolated/session/i-1/runs/r-1", "isolated.status", "command", N },
	{ "GET", "/v1/isolated/session/i-1/runs/r-1/logs", "isolated.logs", "command",
	  B },
	{ "GET", "/v1/isolated/session/i-1/diff", "isolated.diff", "file", B },
	{ "POST", "/v1/isolated/session/i-1/commit", "isolated.commit", "file", J },
	{ "POST", "/mcpproxy", "mcp.call", "command", EXEC_BODY_JSON,
	  EXEC_ANSWER_BYTES },
	{ "GET", "/mcpproxy", "mcp.stream", "command", B },
	{ "DELETE", "/mcpproxy", "mcp.end", "command", N },
	{ "POST", "/mcpproxy/upstreams", "mcp.upstream.add", "command", J },
	{ "GET", "/mcpproxy/upstreams", "mcp.upstream.list", "command", N },
	{ "GET", "/mcpproxy/upstreams/u", "mcp.upstream.get", "command", N },
	{ "DELETE", "/mcpproxy/upstreams/u", "mcp.upstream.delete", "command", N },
};

/* Served three times: plainly, as another user, and inside an isolated session. */
static const struct exec_row exec_files[] = {
	{ "GET", "/files/info", "files.info", "file", N },
	{ "DELETE", "/files", "files.delete", "file", N },
	{ "POST", "/files/permissions", "files.permissions", "file", J },
	{ "POST", "/files/mv", "files.move", "file", J },
	{ "POST", "/files/replace", "files.replace", "file", J },
	{ "GET", "/files/search", "files.search", "file", N },
	{ "POST", "/files/upload", "files.upload", "file", EXEC_BODY_PARTS,
	  EXEC_ANSWER_PLAIN },
	{ "GET", "/files/download", "files.download", "file", B },
	{ "GET", "/directories/list", "directories.list", "file", N },
	{ "POST", "/directories", "directories.create", "file", J },
	{ "DELETE", "/directories", "directories.delete", "file", N },
};

static const struct exec_row exec_egress[] = {
	{ "GET", "/healthz", "egress.health", "health", N },
	{ "GET", "/policy", "policy.get", "egress", N },
	{ "POST", "/policy", "policy.set", "egress", J },
	{ "PUT", "/policy", "policy.set", "egress", J },
	{ "PATCH", "/policy", "policy.patch", "egress", J },
	{ "DELETE", "/policy", "policy.delete", "egress", J },
	{ "POST", "/credential-vault", "vault.create", "egress", J },
	{ "GET", "/credential-vault", "vault.get", "egress", N },
	{ "PATCH", "/credential-vault", "vault.patch", "egress", J },
	{ "DELETE", "/credential-vault", "vault.delete", "egress", N },
	{ "GET", "/credential-vault/credentials", "vault.credentials", "egress", N },
	{ "GET", "/credential-vault/credentials/c", "vault.credential", "egress", N },
	{ "GET", "/credential-vault/bindings", "vault.bindings", "egress", N },
	{ "GET", "/credential-vault/bindings/b", "vault.binding", "egress", N },
};

#undef N
#undef J
#undef E
#undef B

#endif
