/*
 * The canonical request: what it makes of its own output is that output (a service does
 * the same over what it got), nothing is longer than promised, and a name that was taken
 * out of a query is not there under any spelling.
 *
 * Input: method, path, query, a name, and header lines, separated by line ends.
 */
#include <string.h>

#include "connectors/canon.h"
#include "connectors/pair.h"
#include "connectors/sigv4.h"

enum { FIELDS = 8 };

static struct str
line_of(struct str *rest)
{
	struct str line = str_cut(rest, '\n');

	return line.p == NULL ? STR("") : line;
}

static void
path_is_stable(struct str path)
{
	CLEANUP(cred_done) struct cred once = { 0 };
	CLEANUP(cred_done) struct cred twice = { 0 };

	cred_init(&once, 3 * path.n + 2);
	canon_put_path(&once, path, true);
	need(once.st == ST_OK);
	cred_init(&twice, 3 * once.len + 2);
	canon_put_path(&twice, cred_since(&once, 0), true);
	need(twice.st == ST_OK && str_eq(cred_since(&once, 0), cred_since(&twice, 0)));
}

/* Absolute, no empty segment, no dot segment. */
static void
path_is_plain(struct str path)
{
	CLEANUP(cred_done) struct cred out = { 0 };
	struct str rest;

	cred_init(&out, 3 * path.n + 2);
	canon_put_path(&out, path, false);
	need(out.st == ST_OK && out.len > 0 && out.p[0] == '/');
	rest = str_skip(cred_since(&out, 0), 1);
	while (rest.n > 0) {
		struct str segment = str_cut(&rest, '/');
		need(segment.n > 0);
		need(!str_eq(segment, STR(".")) && !str_eq(segment, STR("..")));
	}
}

static void
query_is_stable(struct str query)
{
	CLEANUP(cred_done) struct cred once = { 0 };
	CLEANUP(cred_done) struct cred twice = { 0 };

	cred_init(&once, 4 * query.n + 2);
	canon_put_query(&once, query);
	if (once.st == ST_TOO_BIG)
		return; /* too many parameters */
	need(once.st == ST_OK);
	cred_init(&twice, 4 * once.len + 2);
	canon_put_query(&twice, cred_since(&once, 0));
	need(twice.st == ST_OK && str_eq(cred_since(&once, 0), cred_since(&twice, 0)));
}

static void
name_is_gone(struct str query, struct str name)
{
	CLEANUP(cred_done) struct cred out = { 0 };
	bool is_first = true;

	cred_init(&out, query.n + 1);
	pair_put_without(&out, query, name, &is_first);
	need(out.st == ST_OK && is_first == (out.len == 0));
	need(!pair_has(cred_since(&out, 0), name));
	if (!pair_has(query, name) && memchr(query.p, '&', query.n) == NULL)
		need(str_eq(cred_since(&out, 0), query));
}

static void
all_is_bounded(struct canon *c, struct str rest)
{
	CLEANUP(cred_done) struct cred out = { 0 };
	CLEANUP(cred_done) struct cred value = { 0 };
	static const struct sigv4_keys keys = { { "id", 2 }, { "key", 3 }, { "", 0 } };
	static const struct sigv4_scope scope = { { "r", 1 }, { "s", 1 }, 1440938160 };
	struct field fields[FIELDS];

	while (rest.n > 0 && c->fields_n < FIELDS) {
		struct str value_of = line_of(&rest), name = str_cut(&value_of, ':');
		fields[c->fields_n++] =
			(struct field){ name, value_of.p == NULL ? STR("") : value_of,
					TOKEN_NONE };
	}
	c->fields = fields;
	cred_init(&out, canon_bound(c));
	canon_put(&out, c);
	need(out.st == ST_OK || out.st == ST_TOO_BIG);
	cred_init(&value, 4096 + canon_bound(c));
	enum status st = sigv4_put_authorization(&value, c, &scope, &keys);
	need(st == out.st);
	if (st != ST_OK)
		return;
	struct str text = cred_since(&out, 0);
	need(str_ends(text, c->payload));
	need(str_starts(cred_since(&value, 0), STR("AWS4-HMAC-SHA256 Credential=id/")));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = str_of(data, size);
	struct canon c = { .method = line_of(&rest), .payload = STR("hash") };
	struct str name;

	if (size == 0 || size > 8192)
		return 0;
	c.path = line_of(&rest);
	c.query = line_of(&rest);
	name = line_of(&rest);
	c.is_s3 = c.method.n % 2 == 1;
	path_is_stable(c.path);
	path_is_plain(c.path);
	query_is_stable(c.query);
	if (name.n > 0 && name.p[0] != ' ')
		name_is_gone(c.query, name);
	all_is_bounded(&c, rest);
	return 0;
}
