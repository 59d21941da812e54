/*
 * sandgate ca export|rotate|env: the certificates by which sandboxes believe what is
 * intercepted.  The key never leaves the keeper.
 */
#include <stdio.h>
#include <string.h>

#include "proxy/cli/args.h"
#include "proxy/cli/cmds.h"
#include "proxy/cli/options.h"
#include "proxy/cli/span.h"
#include "proxy/cli/trust.h"

struct ca {
	struct admin_where where;
	const char *grace, *verb, *path;
	bool json;
	uint64_t seconds;
};

static const char usage[] =
	"usage: sandgate ca export [-c FILE | --state DIR] [--json]\n"
	"       sandgate ca rotate [-c FILE | --state DIR] [--grace SPAN] [--json]\n"
	"       sandgate ca env PATH\n"
	"export and rotate print certificates in PEM, the newest first; the one before "
	"stays\ntrusted for a SPAN (90s, 10m, 2h, 90d). env prints the variables by "
	"which programs\nbelieve the roots in PATH, for a container.\n";

static bool
is_verb(const char *word)
{
	return strcmp(word, "env") == 0 || strcmp(word, "export") == 0 ||
	       strcmp(word, "rotate") == 0;
}

static bool
read_words(int argc, char **argv, struct ca *c)
{
	const struct arg args[] = {
		{ 'c', "config", &c->where.config, NULL },
		{ 0, "state", &c->where.state, NULL },
		{ 0, "grace", &c->grace, NULL },
		{ 0, "json", NULL, &c->json },
	};
	size_t n;

	if (!args_take(argc, argv, args, COUNT_OF(args), &n) || n == 0)
		return false;
	c->verb = argv[1];
	c->path = n == 2 ? argv[2] : NULL;
	if (!is_verb(c->verb))
		return args_wrong("ca", "there is no", c->verb);
	if (c->grace != NULL &&
	    (strcmp(c->verb, "rotate") != 0 ||
	     !span_read(str_from(c->grace), &c->seconds) || c->seconds > UINT32_MAX))
		return args_wrong("ca", "--grace: not a SPAN for rotate:", c->grace);
	if (strcmp(c->verb, "env") == 0)
		return args_need("ca env", "a PATH", c->path != NULL);
	return n == 1;
}

static int
show(const struct ca *c, const struct admin_reply *reply)
{
	const char *pem = json_string_value(json_object_get(reply->body, "pem"));

	if (reply->http != 200 || pem == NULL) {
		admin_print_refusal(reply);
		return 1;
	}
	if (c->json)
		(void)json_dumpf(reply->body, stdout, JSON_INDENT(2)), (void)puts("");
	else
		(void)fputs(pem, stdout);
	return 0;
}

int
cmd_ca(int argc, char **argv)
{
	struct ca c = { .json = false };
	struct admin_wish wish = { .method = "GET", .path = "/v1/ca/export" };
	struct admin_reply reply;

	args_help(argc, argv, usage);
	if (!read_words(argc, argv, &c)) {
		(void)fputs(usage, stderr);
		return 2;
	}
	if (c.path != NULL) {
		trust_print_env(c.path);
		return 0;
	}
	if (strcmp(c.verb, "rotate") == 0) {
		wish = (struct admin_wish){ .method = "POST", .path = "/v1/ca/rotate" };
		wish.body = json_pack("{s:I}", "seconds", (json_int_t)c.seconds);
	}
	enum status st = admin_call(&c.where, &wish, &reply);
	json_decref(wish.body);
	if (st != ST_OK)
		return 1;
	int code = show(&c, &reply);
	json_decref(reply.body);
	return code;
}
