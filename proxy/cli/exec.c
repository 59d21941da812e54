/*
 * sandgate exec [-c FILE] [--policy P] [--allow HOST[:PORT]]... -- CMD...: a command in
 * namespaces whose only exit is the gateway; the exit code is the command's, or 125
 * when nothing was run.
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
#include "proxy/cli/gate.h"
#include "proxy/cli/mask.h"

enum { REFUSED = 125, ENV_MAX = 4096, JAVA_MAX = 65536 };

struct exec {
	struct gate_wish gate;
	struct attached_as as;
	struct box_wish box;
	bool no_proxy_env;
	char id[64];
	struct buf java; /* the text of a variable */
};

static const char usage[] =
	"usage: sandgate exec [-c FILE] [--policy P | --allow HOST[:PORT]...] [--id "
	"ID]\n"
	"                     [--user U] [--agent A] [--session S] [--root] "
	"[--without-nft]\n"
	"                     [--no-proxy-env] -- CMD [ARGUMENT...]\n";

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
		(void)fprintf(stderr,
			      "sandgate exec: --secret needs the vault, which this "
			      "version does not have\n");
		return false;
	default:
		return false;
	}
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
	if (optind >= argc)
		return false;
	if (e->gate.allow_n > 0 && (e->gate.config != NULL || e->as.policy != NULL)) {
		(void)fprintf(
			stderr,
			"sandgate exec: --allow makes a policy of its own; leave out "
			"-c and --policy, or put the host into the policy\n");
		return false;
	}
	if (e->gate.allow_n == 0 && e->as.policy == NULL) {
		(void)fprintf(
			stderr,
			"sandgate exec: name a policy with --policy, or hosts with "
			"--allow\n");
		return false;
	}
	if (e->as.policy == NULL)
		e->as.policy = "exec";
	return true;
}

/* Clients that look for a proxy find the one inside; all others are captured anyway. */
static const char *const proxy_env[] = {
	"http_proxy=http://198.18.0.1:3128",  "HTTP_PROXY=http://198.18.0.1:3128",
	"https_proxy=http://198.18.0.1:3128", "HTTPS_PROXY=http://198.18.0.1:3128",
	"all_proxy=http://198.18.0.1:3128",   "ALL_PROXY=http://198.18.0.1:3128",
	"no_proxy=localhost,127.0.0.1,::1",   "NO_PROXY=localhost,127.0.0.1,::1",
};

static bool
is_proxy_variable(struct str assignment)
{
	struct str name = str_cut(&assignment, '=');

	/* Of the caller's network; gRPC and gcloud would prefer theirs to ours. */
	return str_ieq(name, STR("http_proxy")) || str_ieq(name, STR("https_proxy")) ||
	       str_ieq(name, STR("all_proxy")) || str_ieq(name, STR("no_proxy")) ||
	       str_ieq(name, STR("ftp_proxy")) || str_ieq(name, STR("grpc_proxy")) ||
	       str_ieq(name, STR("socks_proxy")) ||
	       str_starts(name, STR("CLOUDSDK_PROXY_"));
}

static char **
make_env(struct exec *e)
{
	size_t n = 0, max = ENV_MAX + COUNT_OF(proxy_env) + TRUST_VARIABLES + 1;
	char **env = calloc(max, sizeof *env);
	const bool has_trust = e->box.trust.is_there;

	for (size_t i = 0; env != NULL && environ[i] != NULL && n < ENV_MAX; i++) {
		struct str one = str_from(environ[i]);
		if (!mask_is_variable(one) && !is_proxy_variable(one) &&
		    !(has_trust && trust_is_variable(one)))
			env[n++] = environ[i];
	}
	for (size_t i = 0; env != NULL && !e->no_proxy_env && i < COUNT_OF(proxy_env);
	     i++)
		env[n++] = (char *)(uintptr_t)proxy_env[i];
	if (env != NULL && has_trust)
		(void)trust_put_env(&e->box.trust, &e->java, env + n);
	return env;
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

static int
run_behind(struct exec *e, struct gate *g)
{
	struct admin_where where = gate_where(g);
	int code = REFUSED;

	buf_init(&e->java, JAVA_MAX);
	enum status st = trust_make(&where, &e->box.trust);
	if (st != ST_OK && st != ST_NOT_FOUND)
		(void)fprintf(stderr,
			      "sandgate exec: roots with the gateway's CA: %s\n",
			      status_words(st)->sentence);
	e->as.trusts_ca = e->box.trust.is_there;
	char **env = make_env(e);
	e->box.env = env;
	e->box.state_dir = buf_cstr(&g->state);
	e->box.ns.ports_n = attached_ports(where.config, e->as.policy, e->box.ns.ports,
					   NS_PORTS_MAX);
	if (env != NULL)
		code = run_in(e, &where);
	free(env);
	trust_done(&e->box.trust);
	buf_done(&e->java);
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
