/*
 * sandgate vault: secrets go in by standard input, in a sealed memfd that the gateway
 * hands on to its keeper; nothing ever comes out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proxy/base/clock.h"
#include "proxy/cli/args.h"
#include "proxy/cli/cmds.h"
#include "proxy/cli/options.h"
#include "proxy/cli/span.h"
#include "proxy/cli/vault_hint.h"
#include "proxy/cli/vault_print.h"
#include "proxy/cli/vault_value.h"
#include "proxy/io/vault_op.h"

struct vault { /* as it was called */
	struct admin_where where;
	const char *tenant, *connector, *user, *key, *expires, *grace;
	bool json, pem, passphrase;
	const struct verb *verb;
	struct vault_ask ask; /* what comes of it */
};

static const char usage[] =
	"usage: sandgate vault put NAME [--expires TIME] [--pem] [--connector C "
	"[--user U]]\n"
	"       sandgate vault rotate NAME [--expires TIME] [--grace SPAN]\n"
	"       sandgate vault grant|ungrant NAME [--connector C] [--user U]\n"
	"       sandgate vault list | rm NAME\n"
	"       sandgate vault init|rekey [--passphrase | --key "
	"file|passphrase|given]\n"
	"       sandgate vault unseal|seal|status|adopt\n"
	"All take [-c FILE | --state DIR] [--json]; those with a NAME --tenant T, and "
	"list.\n"
	"Values and passphrases are read from standard input. TIME is RFC 3339 in UTC "
	"or a\n"
	"SPAN from now: 90s, 10m, 2h, 90d.\n";

static const struct verb {
	enum vault_op op;
	bool is_named;
	const char *value; /* what is read; NULL: nothing, unless a passphrase is */
	void (*print)(const json_t *body);
} verbs[] = {
	{ VAULT_OP_PUT, true, "Value", vault_print_version },
	{ VAULT_OP_ROTATE, true, "Value", vault_print_version },
	{ VAULT_OP_RM, true, NULL, NULL },
	{ VAULT_OP_GRANT, true, NULL, NULL },
	{ VAULT_OP_UNGRANT, true, NULL, NULL },
	{ VAULT_OP_LIST, false, NULL, vault_print_list },
	{ VAULT_OP_INIT, false, NULL, NULL },
	{ VAULT_OP_REKEY, false, NULL, NULL },
	{ VAULT_OP_UNSEAL, false, "Passphrase", NULL },
	{ VAULT_OP_SEAL, false, NULL, NULL },
	{ VAULT_OP_STATUS, false, NULL, vault_print_status },
	{ VAULT_OP_ADOPT, false, NULL, NULL },
};

/* The words. */

static const struct verb *
find_verb(const char *word)
{
	for (size_t i = 0; i < COUNT_OF(verbs); i++)
		if (strcmp(word, vault_op_word(verbs[i].op)) == 0)
			return &verbs[i];
	return NULL;
}

static bool
take_words(int argc, char **argv, struct vault *v)
{
	const struct arg args[] = {
		{ 'c', "config", &v->where.config, NULL },
		{ 0, "state", &v->where.state, NULL },
		{ 0, "json", NULL, &v->json },
		{ 0, "tenant", &v->tenant, NULL },
		{ 0, "connector", &v->connector, NULL },
		{ 0, "user", &v->user, NULL },
		{ 0, "key", &v->key, NULL },
		{ 0, "expires", &v->expires, NULL },
		{ 0, "grace", &v->grace, NULL },
		{ 0, "pem", NULL, &v->pem },
		{ 0, "passphrase", NULL, &v->passphrase },
	};
	size_t n;

	if (!args_take(argc, argv, args, COUNT_OF(args), &n) || n == 0)
		return false;
	v->verb = find_verb(argv[1]);
	if (v->verb == NULL)
		return args_wrong("vault", "there is no", argv[1]);
	if (n != (v->verb->is_named ? 2 : 1))
		return false;
	v->ask.op = v->verb->op;
	v->ask.name = v->verb->is_named ? str_from(argv[2]) : STR("");
	return v->ask.name.n == 0 || vault_is_name(v->ask.name) ||
	       args_wrong("vault",
			  "not a NAME (parts of letters, digits, `-`, `_`, `.` "
			  "between `/`):",
			  argv[2]);
}

static bool
take_key(struct vault *v)
{
	static const char *const words[] = { "file", "passphrase", "given" };

	if (v->passphrase && v->key == NULL)
		v->key = "passphrase";
	for (size_t i = 0; v->key != NULL && i < COUNT_OF(words); i++) {
		if (strcmp(v->key, words[i]) != 0)
			continue;
		v->ask.kind = (uint8_t)i;
		return true;
	}
	return v->key == NULL || args_wrong("vault", "--key: not a kind:", v->key);
}

static bool
take_times(struct vault *v)
{
	uint64_t span = 0;

	if (v->expires != NULL && span_read(str_from(v->expires), &span))
		v->ask.expires = clock_wall_us() / 1000000 + span;
	else if (v->expires != NULL &&
		 !span_read_point(str_from(v->expires), &v->ask.expires))
		return args_wrong("vault", "--expires: not a TIME:", v->expires);
	span = 0;
	if (v->grace != NULL &&
	    (!span_read(str_from(v->grace), &span) || span > UINT32_MAX))
		return args_wrong("vault", "--grace: not a SPAN:", v->grace);
	v->ask.seconds = (uint32_t)span;
	return true;
}

/* An option that the verb doesn't read is refused by what the keeper checks with. */
static bool
is_understood(const struct vault *v)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct vault_ask same;
	struct str body;

	buf_init(&b, VAULT_ASK_MAX);
	vault_ask_put(&b, &v->ask);
	if (buf_finish(&b, &body) == ST_OK && vault_ask_get(body, &same) == ST_OK)
		return true;
	(void)fprintf(stderr,
		      "sandgate vault %s: an option that it does not take, or a "
		      "name that is none\n",
		      vault_op_word(v->ask.op));
	return false;
}

static bool
read_words(int argc, char **argv, struct vault *v)
{
	if (!take_words(argc, argv, v) || !take_key(v) || !take_times(v))
		return false;
	if (v->pem && (v->key != NULL || v->ask.op != VAULT_OP_PUT))
		return args_wrong("vault", "--pem is of", "put");
	if (v->pem)
		v->ask.kind = VAULT_PEM;
	v->ask.tenant = str_from(v->tenant);
	v->ask.connector = str_from(v->connector);
	v->ask.user = str_from(v->user);
	return is_understood(v);
}

/* The request. */

static json_t *
text(struct str s)
{
	return json_stringn(s.p == NULL ? "" : s.p, s.n);
}

static json_t *
make_body(const struct vault *v)
{
	json_t *body = json_pack("{s:o,s:o,s:o,s:o,s:I,s:I}", "name", text(v->ask.name),
				 "tenant", text(v->ask.tenant), "connector",
				 text(v->ask.connector), "user", text(v->ask.user),
				 "expires", (json_int_t)v->ask.expires, "seconds",
				 (json_int_t)v->ask.seconds);

	if (v->key != NULL)
		(void)json_object_set_new(body, "key", json_string(v->key));
	if (v->pem)
		(void)json_object_set_new(body, "kind", json_string("pem"));
	return body;
}

static enum status
call(const struct vault *v, int value, struct admin_reply *ret_reply)
{
	char path[40];
	struct admin_wish wish = {
		.method = v->ask.op == VAULT_OP_STATUS ? "GET" : "POST",
		.path = path,
		.body = make_body(v),
		.fds = &value,
		.fds_n = value >= 0,
	};

	(void)snprintf(path, sizeof path, "/v1/vault/%s", vault_op_word(v->ask.op));
	enum status st = admin_call(&v->where, &wish, ret_reply);
	json_decref(wish.body);
	return st;
}

/* Lists come in parts; all of them go into the first. */
static enum status
call_parts(struct vault *v, struct admin_reply *all)
{
	const json_t *next = json_object_get(all->body, "next");
	enum status st = ST_OK;

	while (st == ST_OK && all->http == 200 && json_is_string(next)) {
		struct admin_reply more;
		v->ask.name = str_from(json_string_value(next));
		st = call(v, -1, &more);
		if (st != ST_OK)
			return st;
		if (more.http == 200)
			(void)json_array_extend(json_object_get(all->body, "secrets"),
						json_object_get(more.body, "secrets"));
		all->http = more.http;
		/* Replaced only now: the name that was asked with lies in it. */
		(void)json_object_set(all->body, "next",
				      json_object_get(more.body, "next"));
		next = json_object_get(all->body, "next");
		json_decref(more.body);
	}
	(void)json_object_del(all->body, "next");
	return st;
}

/* What others keep is listed behind what lies in the vault: it is of no tenant here. */
static enum status
call_rest(struct vault *v, struct admin_reply *all)
{
	enum status st = call_parts(v, all);
	struct admin_reply more;

	if (st != ST_OK || all->http != 200 || v->ask.op != VAULT_OP_LIST)
		return st;
	v->ask.op = VAULT_OP_SOURCES;
	v->ask.name = STR("");
	st = call(v, -1, &more);
	if (st == ST_OK) {
		st = call_parts(v, &more);
		(void)json_object_set(all->body, "sources",
				      json_object_get(more.body, "secrets"));
		json_decref(more.body);
	}
	v->ask.op = VAULT_OP_LIST;
	return st;
}

/* Of a gateway that is named by its directory the configuration isn't known. */
static void
hint(const struct vault *v, const struct admin_reply *reply)
{
	const json_t *grants = json_object_get(reply->body, "grants");

	if (v->where.state != NULL && v->where.config == NULL)
		return;
	if (v->ask.connector.n > 0 && v->ask.op != VAULT_OP_UNGRANT)
		vault_hint_connector(v->where.config, v->ask.connector);
	else if (v->ask.op == VAULT_OP_PUT && json_is_array(grants) &&
		 json_array_size(grants) == 0)
		vault_hint_unused(v->where.config, v->ask.tenant, v->ask.name);
}

static int
refused(const struct vault *v, const struct admin_reply *reply)
{
	int n = (int)v->ask.name.n;

	if (v->verb->is_named && admin_is_refusal(reply, ST_NO_SECRET))
		(void)fprintf(stderr,
			      "sandgate: no_secret: there is no secret `%.*s`%s; "
			      "`sandgate vault "
			      "list` names those that are\n",
			      n, v->ask.name.p,
			      v->tenant == NULL ? "" : " of this tenant");
	else if (v->ask.op == VAULT_OP_PUT && admin_is_refusal(reply, ST_CONFLICT))
		(void)fprintf(
			stderr,
			"sandgate: conflict: a secret or a source is called `%.*s` "
			"already; `sandgate vault rotate` replaces a value\n",
			n, v->ask.name.p);
	else
		admin_print_refusal(reply);
	return 1;
}

static int
show(const struct vault *v, const struct admin_reply *reply)
{
	if (reply->http != 200)
		return refused(v, reply);
	if (v->json)
		(void)json_dumpf(reply->body, stdout, JSON_INDENT(2)), (void)puts("");
	else if (v->verb->print != NULL)
		v->verb->print(reply->body);
	hint(v, reply);
	return 0;
}

/* Which kind of key opens it, says the vault: a file needs nobody to type. */
static enum status
needs_passphrase(const struct vault *v, bool *ret_needs)
{
	const struct admin_wish wish = { .method = "GET", .path = "/v1/vault/status" };
	struct admin_reply reply;
	enum status st = admin_call(&v->where, &wish, &reply);

	if (st != ST_OK)
		return st;
	const char *key = json_string_value(json_object_get(reply.body, "key"));
	*ret_needs = key != NULL && strcmp(key, "passphrase") == 0;
	json_decref(reply.body);
	return ST_OK;
}

/* -1: there is none. */
static enum status
read_value(const struct vault *v, int *ret_fd)
{
	bool is_new = v->key != NULL && strcmp(v->key, "passphrase") == 0;
	bool is_read = is_new || v->verb->value != NULL;
	const struct vault_value_wish wish = {
		.what = is_new ? "New passphrase" : v->verb->value,
		.twice = is_new,
		.is_whole = v->pem,
	};
	enum status st = ST_OK;

	*ret_fd = -1;
	if (v->ask.op == VAULT_OP_UNSEAL)
		st = needs_passphrase(v, &is_read);
	return st == ST_OK && is_read ? vault_value_read(&wish, ret_fd) : st;
}

int
cmd_vault(int argc, char **argv)
{
	struct vault v = { .json = false };
	struct admin_reply reply;
	int value = -1, code = 1;

	args_help(argc, argv, usage);
	if (!read_words(argc, argv, &v)) {
		(void)fputs(usage, stderr);
		return 2;
	}
	if (read_value(&v, &value) != ST_OK)
		return 1;
	enum status st = call(&v, value, &reply);
	if (value >= 0)
		(void)close(value);
	if (st != ST_OK)
		return 1;
	st = call_rest(&v, &reply);
	if (st == ST_OK)
		code = show(&v, &reply);
	json_decref(reply.body);
	return code;
}
