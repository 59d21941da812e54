/*
 * sandgate exec [-c FILE] [--policy P] [--allow HOST[:PORT]]... [--secret NAME@HOST]...
 * -- CMD...: a command in namespaces whose only exit is the gateway; the exit code is
 * the command's, or 125 when nothing was run.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/cli/args.h"
#include "proxy/cli/attached.h"
#include "proxy/cli/box.h"
#include "proxy/cli/cmds.h"
#include "proxy/cli/exec_env.h"
#include "proxy/cli/gate.h"

enum { REFUSED = 125 };

struct exec {
	struct gate_wish gate;
	struct attached_as as;
	struct box_wish box;
	bool no_proxy_env;
	char id[64];
};

static const char usage[] =
	"usage: sandgate exec [-c FILE] --policy P [OPTIONS] -- CMD [ARGUMENT...]\n"
	"       sandgate exec (--allow HOST[:PORT] | --secret NAME@HOST[:PORT])... "
	"[OPTIONS] -- CMD...\n"
	"OPTIONS: [--id ID] [--user U] [--agent A] [--session S] [--root] "
	"[--without-nft]\n"
	"         [--no-proxy-env]\n";

static bool
take_allow(struct exec *e, const char *item)
{
	if (e->gate.allow_n == GATE_ALLOW_MAX) {
		(void)fprintf(stderr,
			      "sandgate exec: more than %d --allow; use a file\n",
			      GATE_ALLOW_MAX);
		return false;
	}
	e->gate.allow[e->gate.allow_n++] = item;
	return true;
}

static bool
take_secret(struct exec *e, const char *item)
{
	if (e->gate.secrets_n == GATE_SECRETS_MAX) {
		(void)fprintf(stderr, "sandgate exec: more than %d --secret\n",
			      GATE_SECRETS_MAX);
		return false;
	}
	if (gate_secret_take(item, &e->gate.secrets[e->gate.secrets_n]) != ST_OK)
		return false;
	e->gate.secrets_n++;
	return true;
}

static bool
take(struct exec *e, int letter, const char *value)
{
	switch (letter) {
	case 'c':
		e->gate.config = value;
		return true;
	case 'p':
		e->as.policy = value;
		return true;
	case 'a':
		return take_allow(e, value);
	case 'i':
		e->as.id = value;
		return true;
	case 'u':
		e->as.user = value;
		return true;
	case 'g':
		e->as.agent = value;
		return true;
	case 's':
		e->as.session = value;
		return true;
	case 'r':
		e->box.root = true;
		return true;
	case 'n':
		e->box.ns.without_nft = true;
		return true;
	case 'e':
		e->no_proxy_env = true;
		return true;
	case 'S':
		return take_secret(e, value);
	default:
		return false;
	}
}

/* What a policy lets out is what its file says, to all its sandboxes, and what it adds is in
 * the vault of its gateway; so it is not widened from here, and told how. */
static void
say_not_added(struct exec *e)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	const char *policy = e->as.policy != NULL ? e->as.policy : "POLICY";

	buf_init(&b, 1 << 20);
	if (!gate_put_policy(&b, &e->gate, policy))
		return;
	const char *text = buf_cstr(&b);
	(void)fprintf(stderr,
		      "sandgate exec: --allow and --secret make a gateway and a policy "
		      "of the command's own; a policy of a configuration lets out what "
		      "its file says.\nLeave out -c and --policy, or add to the file:\n"
		      "%s",
		      text == NULL ? "" : text);
	if (e->gate.secrets_n > 0)
		(void)fputs("and put each secret into its vault: sandgate vault put "
			    "NAME -c FILE\n",
			    stderr);
}

static bool
read_options(int argc, char **argv, struct exec *e)
{
	static const struct option known[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "policy", required_argument, NULL, 'p' },
		{ "allow", required_argument, NULL, 'a' },
		{ "id", required_argument, NULL, 'i' },
		{ "user", required_argument, NULL, 'u' },
		{ "agent", required_argument, NULL, 'g' },
		{ "session", required_argument, NULL, 's' },
		{ "secret", required_argument, NULL, 'S' },
		{ "root", no_argument, NULL, 'r' },
		{ "without-nft", no_argument, NULL, 'n' },
		{ "no-proxy-env", no_argument, NULL, 'e' },
		{ NULL, 0, NULL, 0 },
	};
	int letter;

	optind = 0;
	while ((letter = getopt_long(argc, argv, "+c:", known, NULL)) != -1)
		if (!take(e, letter, optarg))
			return false;
	e->box.argv = argv + optind;
	if (!args_need("exec", "a CMD", optind < argc))
		return false;
	bool is_own = e->gate.allow_n + e->gate.secrets_n > 0;
	if (is_own && (e->gate.config != NULL || e->as.policy != NULL)) {
		say_not_added(e);
		return false;
	}
	if (!is_own && e->as.policy == NULL) {
		(void)fprintf(
			stderr,
			"sandgate exec: name a policy with --policy, or hosts with "
			"--allow or --secret\n");
		return false;
	}
	if (e->as.policy == NULL)
		e->as.policy = GATE_POLICY;
	return true;
}

static int
run_in(struct exec *e, const struct admin_where *where)
{
	CLEANUP(buf_done) struct buf why = { 0 };
	struct box b;

	buf_init(&why, 4096);
	if (box_start(&e->box, &why, &b) != ST_OK) {
		(void)fprintf(stderr, "sandgate exec: %s; nothing was run\n",
			      buf_cstr(&why));
		return REFUSED;
	}
	if (attached_add(where, &e->as, &b.sockets) != ST_OK) {
		(void)fprintf(stderr,
			      "sandgate exec: the gateway did not take the sandbox; "
			      "nothing was run\n");
		box_kill(&b);
		return REFUSED;
	}
	ns_close(&b.sockets); /* the gateway's now; open here they would outlive it */
	int code = REFUSED;
	if (box_go(&b) == ST_OK)
		code = box_wait(&b);
	attached_remove(where, e->as.id);
	return code;
}

static void
say_no_trust(enum status st)
{
	if (st != ST_OK && st != ST_NOT_FOUND)
		(void)fprintf(stderr,
			      "sandgate exec: roots with the gateway's CA: %s\n",
			      status_words(st)->sentence);
}

static int
run_behind(struct exec *e, struct gate *g)
{
	struct admin_where where = gate_where(g);
	json_t *variables = attached_variables(&where, &e->as);
	struct exec_env env = { .trust = &e->box.trust,
				.variables = variables,
				.no_proxy = e->no_proxy_env };
	int code = REFUSED;

	if (variables == NULL)
		return REFUSED;
	say_no_trust(trust_make(&where, &e->box.trust));
	e->as.trusts_ca = e->box.trust.is_there;
	e->box.env = exec_env_make(&env);
	e->box.state_dir = buf_cstr(&g->state);
	e->box.ns.ports_n = attached_ports(where.config, e->as.policy, e->box.ns.ports,
					   NS_PORTS_MAX);
	if (e->box.env != NULL)
		code = run_in(e, &where);
	arena_done(&env.arena);
	trust_done(&e->box.trust);
	json_decref(variables);
	return code;
}

int
cmd_exec(int argc, char **argv)
{
	struct exec e = { .as = { .id = NULL } };
	struct gate g;

	args_help(argc, argv, usage);
	if (!read_options(argc, argv, &e)) {
		(void)fputs(usage, stderr);
		return REFUSED;
	}
	(void)snprintf(e.id, sizeof e.id, "exec-%d", (int)getpid());
	if (e.as.id == NULL)
		e.as.id = e.id;
	if (e.as.user == NULL)
		e.as.user = getenv("USER");
	if (gate_open(&e.gate, &g) != ST_OK)
		return REFUSED;
	int code = run_behind(&e, &g);
	gate_close(&g);
	return code;
}
