/*
 * sandgate keys: by which callers of execution listeners are known.  A key is shown once,
 * when it is made: the gateway keeps only its hash.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "proxy/base/clock.h"
#include "proxy/cli/admin.h"
#include "proxy/cli/args.h"
#include "proxy/cli/cmds.h"
#include "proxy/cli/span.h"

struct keys { /* as it was called */
	struct admin_where where;
	const char *user, *agent, *tenant, *scopes, *expires, *label, *grace;
	bool json, quiet, delegate;
	const struct verb *verb;
	const char *id;
	uint64_t expires_s, grace_s; /* what comes of the words */
};

static const char usage[] =
	"usage: sandgate keys add --user U [--agent A] [--tenant T] [--scopes S,...]\n"
	"                         [--may-delegate] [--expires TIME] [--label L] "
	"[--quiet]\n"
	"       sandgate keys rotate ID [--grace SPAN] [--expires TIME] [--quiet]\n"
	"       sandgate keys revoke ID\n"
	"       sandgate keys list\n"
	"All take [-c FILE | --state DIR] [--json]. S is read, run, files or egress; "
	"without\n"
	"--scopes all of them. TIME is RFC 3339 in UTC or a SPAN from now: 90s, 10m, "
	"2h, 90d.\n"
	"--quiet prints nothing but the key.\n";

/* The requests. */

static int
refused(const struct keys *k, const struct admin_reply *reply)
{
	if (k->id != NULL && admin_is_refusal(reply, ST_NOT_FOUND))
		(void)fprintf(stderr, "sandgate: not_found: there is no key `%s`\n",
			      k->id);
	else if (k->id != NULL && admin_is_refusal(reply, ST_CONFLICT))
		(void)fprintf(stderr,
			      "sandgate: conflict: key `%s` has ended already\n",
			      k->id);
	else
		admin_print_refusal(reply);
	return 1;
}

/* The body is used up. */
static enum status
call(const struct keys *k, const char *path, json_t *body,
     struct admin_reply *ret_reply)
{
	const struct admin_wish wish = { .method = "POST", .path = path, .body = body };
	enum status st = admin_call(&k->where, &wish, ret_reply);

	json_decref(body);
	return st;
}

static void
set_text(json_t *body, const char *key, const char *value)
{
	if (value != NULL)
		(void)json_object_set_new(body, key, json_string(value));
}

static const char *
word(const json_t *of, const char *key)
{
	const char *s = json_string_value(json_object_get(of, key));

	return s == NULL || s[0] == '\0' ? "-" : s;
}

/* Nothing but the key goes to standard output in a pipe's way. */
static void
print_key(const struct keys *k, const json_t *body)
{
	if (k->json) {
		(void)json_dumpf(body, stdout, JSON_INDENT(2));
		(void)puts("");
		return;
	}
	(void)puts(word(body, "key"));
	if (!k->quiet)
		(void)fprintf(stderr,
			      "key %s: it is shown this once; callers send it as "
			      "OPEN-SANDBOX-API-KEY\n",
			      word(body, "id"));
}

static int
make_key(const struct keys *k, const char *path, json_t *body)
{
	struct admin_reply reply;
	int code = 0;

	if (k->expires_s > 0)
		(void)json_object_set_new(body, "expires",
					  json_integer((json_int_t)k->expires_s));
	if (call(k, path, body, &reply) != ST_OK)
		return 1;
	if (reply.http == 200)
		print_key(k, reply.body);
	else
		code = refused(k, &reply);
	json_decref(reply.body);
	return code;
}

static bool
are_scopes(const char *text)
{
	static const char *const known[] = { "read", "run", "files", "egress" };
	struct str rest = str_from(text);

	while (rest.p != NULL) {
		struct str one = str_cut(&rest, ',');
		bool found = false;

		for (size_t i = 0; i < COUNT_OF(known); i++)
			found = found || str_eq(one, str_from(known[i]));
		if (!found)
			return false;
	}
	return true;
}

static int
add(const struct keys *k)
{
	json_t *body =
		json_pack("{s:s,s:b}", "user", k->user, "may_delegate", k->delegate);

	set_text(body, "agent", k->agent);
	set_text(body, "tenant", k->tenant);
	set_text(body, "scopes", k->scopes);
	set_text(body, "label", k->label);
	return make_key(k, "/v1/keys/add", body);
}

static int
rotate(const struct keys *k)
{
	return make_key(k, "/v1/keys/rotate",
			json_pack("{s:s,s:I}", "name", k->id, "seconds",
				  (json_int_t)k->grace_s));
}

static int
revoke(const struct keys *k)
{
	struct admin_reply reply;
	int code = 0;

	if (call(k, "/v1/keys/revoke", json_pack("{s:s}", "name", k->id), &reply) !=
	    ST_OK)
		return 1;
	if (reply.http != 200)
		code = refused(k, &reply);
	else if (k->json)
		(void)puts("{\"ok\": true}");
	json_decref(reply.body);
	return code;
}

/* The list. */

static const char *
point(json_int_t seconds, char space[32])
{
	time_t t = (time_t)seconds;
	struct tm tm;

	if (seconds <= 0 || gmtime_r(&t, &tm) == NULL ||
	    strftime(space, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		return "never";
	return space;
}

static const char *
state_of(const json_t *key)
{
	json_int_t expires = json_integer_value(json_object_get(key, "expires"));

	if (json_integer_value(json_object_get(key, "revoked")) > 0)
		return "revoked";
	return expires > 0 && (uint64_t)expires <= clock_wall_us() / 1000000 ? "expired"
									     : "good";
}

static void
print_list(const json_t *all)
{
	char expires[32], used[32];
	const json_t *key;
	size_t i;

	(void)printf("%-18s %-8s %-16s %-12s %-12s %-22s %-9s %-21s %-21s %s\n", "ID",
		     "STATE", "USER", "AGENT", "TENANT", "SCOPES", "DELEGATES",
		     "EXPIRES", "USED", "LABEL");
	json_array_foreach(all, i, key)
	{
		(void)printf(
			"%-18s %-8s %-16s %-12s %-12s %-22s %-9s %-21s %-21s %s\n",
			word(key, "id"), state_of(key), word(key, "user"),
			word(key, "agent"), word(key, "tenant"), word(key, "scopes"),
			json_is_true(json_object_get(key, "may_delegate")) ? "yes"
									   : "no",
			point(json_integer_value(json_object_get(key, "expires")),
			      expires),
			point(json_integer_value(json_object_get(key, "last_used")),
			      used),
			word(key, "label"));
	}
}

/* Lists come in parts; all of them go into one. */
static int
gather(const struct keys *k, json_t *all)
{
	json_int_t after = 0;

	do {
		struct admin_reply reply;
		if (call(k, "/v1/keys/list", json_pack("{s:I}", "after", after),
			 &reply) != ST_OK)
			return 1;
		int code = reply.http == 200 ? 0 : refused(k, &reply);
		(void)json_array_extend(all, json_object_get(reply.body, "keys"));
		after = json_integer_value(json_object_get(reply.body, "next"));
		json_decref(reply.body);
		if (code != 0)
			return code;
	} while (after > 0);
	return 0;
}

static int
list(const struct keys *k)
{
	json_t *all = json_pack("{s:[]}", "keys");
	json_t *keys = json_object_get(all, "keys");
	int code = gather(k, keys);

	if (code == 0 && k->json)
		(void)json_dumpf(all, stdout, JSON_INDENT(2)), (void)puts("");
	else if (code == 0)
		print_list(keys);
	json_decref(all);
	return code;
}

/* The words. */

static const struct verb {
	const char *word;
	bool has_id, makes_one;
	int (*fn)(const struct keys *k);
} verbs[] = {
	{ "add", false, true, add },
	{ "rotate", true, true, rotate },
	{ "revoke", true, false, revoke },
	{ "list", false, false, list },
};

/* Options of other verbs mean something that would not be done. */
static bool
fits_verb(const struct keys *k)
{
	bool of_add = k->user != NULL || k->agent != NULL || k->tenant != NULL ||
		      k->scopes != NULL || k->label != NULL || k->delegate;

	if (of_add && k->verb->fn != add)
		return args_wrong("keys", "an option of `add`, not of", k->verb->word);
	if (k->grace != NULL && k->verb->fn != rotate)
		return args_wrong("keys", "--grace is of", "rotate");
	if ((k->expires != NULL || k->quiet) && !k->verb->makes_one)
		return args_wrong("keys", "no key is made by", k->verb->word);
	if (k->verb->fn == add && k->user == NULL)
		return args_wrong("keys", "whose is it?", "--user");
	if (k->scopes != NULL && !are_scopes(k->scopes))
		return args_wrong("keys", "not a list of read, run, files and egress:",
				  k->scopes);
	return true;
}

static bool
take_times(struct keys *k)
{
	uint64_t span = 0;

	if (k->expires != NULL && span_read(str_from(k->expires), &span))
		k->expires_s = clock_wall_us() / 1000000 + span;
	else if (k->expires != NULL &&
		 !span_read_point(str_from(k->expires), &k->expires_s))
		return args_wrong("keys", "--expires: not a TIME:", k->expires);
	if (k->grace != NULL && !span_read(str_from(k->grace), &k->grace_s))
		return args_wrong("keys", "--grace: not a SPAN:", k->grace);
	return true;
}

static bool
read_words(int argc, char **argv, struct keys *k)
{
	const struct arg args[] = {
		{ 'c', "config", &k->where.config, NULL },
		{ 0, "state", &k->where.state, NULL },
		{ 0, "json", NULL, &k->json },
		{ 0, "user", &k->user, NULL },
		{ 0, "agent", &k->agent, NULL },
		{ 0, "tenant", &k->tenant, NULL },
		{ 0, "scopes", &k->scopes, NULL },
		{ 0, "may-delegate", NULL, &k->delegate },
		{ 0, "expires", &k->expires, NULL },
		{ 0, "label", &k->label, NULL },
		{ 0, "grace", &k->grace, NULL },
		{ 'q', "quiet", NULL, &k->quiet },
	};
	size_t n;

	if (!args_take(argc, argv, args, COUNT_OF(args), &n) || n == 0)
		return false;
	for (size_t i = 0; i < COUNT_OF(verbs); i++)
		if (strcmp(argv[1], verbs[i].word) == 0)
			k->verb = &verbs[i];
	if (k->verb == NULL)
		return args_wrong("keys", "there is no", argv[1]);
	if (!args_need("keys", "an ID", n == 2 || !k->verb->has_id) ||
	    n > (k->verb->has_id ? 2 : 1))
		return false;
	k->id = k->verb->has_id ? argv[2] : NULL;
	return fits_verb(k) && take_times(k);
}

int
cmd_keys(int argc, char **argv)
{
	struct keys k = { .json = false };

	args_help(argc, argv, usage);
	if (read_words(argc, argv, &k))
		return k.verb->fn(&k);
	(void)fputs(usage, stderr);
	return 2;
}
