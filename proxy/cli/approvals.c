/*
 * sandgate approvals: what waits for a person's word, and that word.  Texts come from those
 * who ask: what would move a terminal's cursor is shown escaped.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "proxy/cli/admin.h"
#include "proxy/cli/args.h"
#include "proxy/cli/cmds.h"
#include "proxy/cli/span.h"

struct approvals { /* as it was called */
	struct admin_where where;
	const char *scope, *span, *note, *id;
	bool json, all;
	uint64_t seconds;
	const struct verb *verb;
};

static const char usage[] =
	"usage: sandgate approvals list [--all]\n"
	"       sandgate approvals show ID\n"
	"       sandgate approvals allow ID [--scope once|session|always] [--for "
	"SPAN]\n"
	"                                   [--note TEXT]\n"
	"       sandgate approvals deny ID [--note TEXT]\n"
	"       sandgate approvals grants\n"
	"       sandgate approvals revoke GRANT\n"
	"All take [-c FILE | --state DIR] [--json]. SPAN is 90s, 10m, 2h, 90d: how "
	"long "
	"a\n"
	"grant of a wider scope lives; else a day in a session, 30 days always.\n";

struct verb {
	const char *word, *path;
	bool has_id;
	void (*print)(const struct approvals *a, const json_t *body);
};

/* Printing. */

static struct str
member(const json_t *of, const char *key)
{
	const json_t *j = json_object_get(of, key);

	return json_is_string(j) ? str_of(json_string_value(j), json_string_length(j))
				 : STR("");
}

/* On one line of at most max octets; 0: all. */
static void
print_text(struct str s, size_t max, int width)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str text = STR("");
	bool is_cut = max > 0 && s.n > max;

	buf_init(&b, 65536);
	buf_put_json(&b, is_cut ? str_head(s, max) : s);
	if (buf_finish(&b, &text) == ST_OK && text.n >= 2)
		text = str_of(text.p + 1, text.n - 2);
	if (s.n == 0)
		text = STR("-");
	(void)printf("%-*.*s%s", width, STR_ARG(text), is_cut ? "..." : "");
}

static void
print_lines(struct str s)
{
	do {
		struct str line = str_cut(&s, '\n');
		(void)fputs("    ", stdout);
		if (line.n > 0)
			print_text(line, 0, 0);
		(void)putchar('\n');
	} while (s.n > 0);
}

static const char *
point(const json_t *of, const char *key, char space[32])
{
	time_t t = (time_t)json_integer_value(json_object_get(of, key));
	struct tm tm;

	if (t <= 0 || gmtime_r(&t, &tm) == NULL ||
	    strftime(space, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		return "-";
	return space;
}

static void
print_id(const json_t *of)
{
	(void)printf("%-6lld ",
		     (long long)json_integer_value(json_object_get(of, "id")));
}

static void
print_column(const json_t *of, const char *key, int width)
{
	print_text(member(of, key), (size_t)width, width);
	(void)putchar(' ');
}

struct column {
	const char *head, *key;
	int width;
};

/* After the ID of each, and before until when it holds and what it is about. */
static void
print_table(const json_t *all, const char *id, const struct column *columns, size_t n)
{
	char space[32];
	const json_t *one;
	size_t i;

	(void)printf("%-6s ", id);
	for (size_t k = 0; k < n; k++)
		(void)printf("%-*s ", columns[k].width, columns[k].head);
	(void)printf("%-21s %s\n", "UNTIL", "TEXT");
	json_array_foreach(all, i, one)
	{
		print_id(one);
		for (size_t k = 0; k < n; k++)
			print_column(one, columns[k].key, columns[k].width);
		(void)printf("%-21s ", point(one, "expires", space));
		print_text(member(one, "text"), 60, 0);
		(void)putchar('\n');
	}
}

static void
print_list(const struct approvals *a, const json_t *body)
{
	static const struct column columns[] = {
		{ "STATE", "state", 9 }, { "LEVEL", "level", 6 },
		{ "USER", "user", 16 },  { "AGENT", "agent", 12 },
		{ "WHAT", "what", 14 },
	};

	(void)a;
	print_table(json_object_get(body, "approvals"), "ID", columns,
		    COUNT_OF(columns));
}

static void
print_show(const struct approvals *a, const json_t *one)
{
	static const char *const keys[] = { "state",  "level",   "what",
					    "why",    "user",    "on_behalf_of",
					    "agent",  "session", "sandbox",
					    "tenant", "sha256",  "by",
					    "scope",  "note" };
	char space[32];

	(void)a;
	(void)printf("approval %lld\n",
		     (long long)json_integer_value(json_object_get(one, "id")));
	for (size_t i = 0; i < COUNT_OF(keys); i++) {
		struct str s = member(one, keys[i]);
		if (s.n == 0)
			continue;
		(void)printf("  %-13s ", keys[i]);
		print_text(s, 0, 0);
		(void)putchar('\n');
	}
	(void)printf("  %-13s %s\n", "asked", point(one, "created", space));
	(void)printf("  %-13s %s\n", "until", point(one, "expires", space));
	(void)puts("  text");
	print_lines(member(one, "text"));
}

static void
print_grants(const struct approvals *a, const json_t *body)
{
	static const struct column columns[] = {
		{ "SCOPE", "scope", 8 },      { "USER", "user", 16 },
		{ "SESSION", "session", 16 }, { "BY", "by", 12 },
		{ "WHAT", "what", 14 },
	};

	(void)a;
	print_table(json_object_get(body, "grants"), "GRANT", columns,
		    COUNT_OF(columns));
}

static void
print_decided(const struct approvals *a, const json_t *body)
{
	(void)printf("approval %s is ", a->id);
	print_text(member(body, "state"), 0, 0);
	(void)fputs(" by ", stdout);
	print_text(member(body, "by"), 0, 0);
	(void)putchar('\n');
}

static void
print_revoked(const struct approvals *a, const json_t *body)
{
	(void)body;
	(void)printf("grant %s is revoked\n", a->id);
}

static const struct verb verbs[] = {
	{ "list", "/v1/approvals/list", false, print_list },
	{ "show", "/v1/approvals/show", true, print_show },
	{ "allow", "/v1/approvals/allow", true, print_decided },
	{ "deny", "/v1/approvals/deny", true, print_decided },
	{ "grants", "/v1/approvals/grants", false, print_grants },
	{ "revoke", "/v1/approvals/revoke", true, print_revoked },
};

/* The request. */

static void
set_text(json_t *body, const char *key, const char *value)
{
	if (value != NULL)
		(void)json_object_set_new(body, key, json_string(value));
}

static json_t *
make_body(const struct approvals *a)
{
	json_t *body = json_object();

	set_text(body, "name", a->id);
	set_text(body, "scope", a->scope);
	set_text(body, "note", a->note);
	if (a->span != NULL)
		(void)json_object_set_new(body, "seconds",
					  json_integer((json_int_t)a->seconds));
	if (a->all)
		(void)json_object_set_new(body, "all", json_true());
	return body;
}

static int
refused(const struct approvals *a, const struct admin_reply *reply)
{
	bool is_told = json_is_string(
		json_object_get(json_object_get(reply->body, "error"), "detail"));

	if (reply->http == 404 && a->id != NULL && !is_told)
		(void)fprintf(stderr, "sandgate: not_found: there is no %s `%s`\n",
			      strcmp(a->verb->word, "revoke") == 0 ? "grant"
								   : "approval",
			      a->id);
	else if (reply->http == 409 && !is_told)
		(void)fprintf(stderr,
			      "sandgate: conflict: approval `%s` no longer waits; see "
			      "`sandgate "
			      "approvals show %s`\n",
			      a->id, a->id);
	else
		admin_print_refusal(reply);
	return 1;
}

static int
call(const struct approvals *a)
{
	struct admin_wish wish = { .method = "POST",
				   .path = a->verb->path,
				   .body = make_body(a) };
	struct admin_reply reply;
	enum status st = admin_call(&a->where, &wish, &reply);
	int code = 0;

	json_decref(wish.body);
	if (st != ST_OK)
		return 1;
	if (reply.http != 200) {
		code = refused(a, &reply);
	} else if (a->json) {
		(void)json_dumpf(reply.body, stdout, JSON_INDENT(2));
		(void)putchar('\n');
	} else {
		a->verb->print(a, reply.body);
	}
	json_decref(reply.body);
	return code;
}

/* The words. */

/* Options of other verbs mean something that would not be done. */
static bool
fits_verb(const struct approvals *a)
{
	bool is_allow = strcmp(a->verb->word, "allow") == 0;
	bool is_deny = strcmp(a->verb->word, "deny") == 0;

	if (a->all && strcmp(a->verb->word, "list") != 0)
		return args_wrong("approvals", "--all is of `list`, not of",
				  a->verb->word);
	if ((a->scope != NULL || a->span != NULL) && !is_allow)
		return args_wrong("approvals",
				  "--scope and --for are of `allow`, not of",
				  a->verb->word);
	if (a->note != NULL && !is_allow && !is_deny)
		return args_wrong("approvals", "--note says why one is decided, not of",
				  a->verb->word);
	return true;
}

static bool
read_words(int argc, char **argv, struct approvals *a)
{
	const struct arg args[] = {
		{ 'c', "config", &a->where.config, NULL },
		{ 0, "state", &a->where.state, NULL },
		{ 0, "json", NULL, &a->json },
		{ 0, "all", NULL, &a->all },
		{ 0, "scope", &a->scope, NULL },
		{ 0, "for", &a->span, NULL },
		{ 0, "note", &a->note, NULL },
	};
	size_t n;

	if (!args_take(argc, argv, args, COUNT_OF(args), &n) || n == 0)
		return false;
	for (size_t i = 0; i < COUNT_OF(verbs); i++)
		if (strcmp(argv[1], verbs[i].word) == 0)
			a->verb = &verbs[i];
	if (a->verb == NULL)
		return args_wrong("approvals", "there is no", argv[1]);
	if (!args_need("approvals", "an ID", n == 2 || !a->verb->has_id) ||
	    n > (a->verb->has_id ? 2 : 1))
		return false;
	a->id = a->verb->has_id ? argv[2] : NULL;
	if (a->span != NULL &&
	    (!span_read(str_from(a->span), &a->seconds) || a->seconds > INT32_MAX))
		return args_wrong("approvals", "--for: not a SPAN:", a->span);
	return fits_verb(a);
}

int
cmd_approvals(int argc, char **argv)
{
	struct approvals a = { .json = false };

	args_help(argc, argv, usage);
	if (read_words(argc, argv, &a))
		return call(&a);
	(void)fputs(usage, stderr);
	return 2;
}
