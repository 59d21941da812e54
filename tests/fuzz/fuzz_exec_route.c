/*
 * However a path is respelled, it asks for the same thing or for nothing: octets in
 * percent form, other case, doubled and encoded slashes, backslashes, dot segments,
 * parameters, a slash at the end, /v1, one hop more.  Views lie within the target; what
 * is read has a normal form, which reads the same; and where a path routes, no octet is
 * left that some server reads in two ways.
 *
 * Input: a row, a number of steps, the steps (what and where, one octet each), and what
 * follows the row's path; behind the last row, the whole path.
 */
#include <string.h>

#include "proxy/base/buf.h"
#include "proxy/http/exec_route.h"
#include "proxy/http/params.h"
#include "tests/unit/exec_rows.h"

enum {
	TARGET_MAX = 4096,
	STEPS_MAX = 6,
};

static const struct exec_row *
row_of(size_t i, const char **ret_before)
{
	*ret_before = i & 1 ? "/v1" : "";
	i /= 2;
	if (i < COUNT_OF(exec_server))
		return &exec_server[i];
	i -= COUNT_OF(exec_server);
	*ret_before = "/sandboxes/sb-1/proxy/44772";
	if (i < COUNT_OF(exec_execd))
		return &exec_execd[i];
	i -= COUNT_OF(exec_execd);
	*ret_before = "/v1/sandboxes/sb-1/proxy/44772/v1/filesystem/0/1";
	if (i < COUNT_OF(exec_files))
		return &exec_files[i];
	i -= COUNT_OF(exec_files);
	*ret_before = "/sandboxes/sb-1/proxy/44772/proxy/18080";
	return i < COUNT_OF(exec_egress) ? &exec_egress[i] : NULL;
}

static struct str
next_octets(struct str *in, size_t n)
{
	struct str s = str_head(*in, n);

	*in = str_skip(*in, n);
	return s;
}

/* A path that is respelled: before at, the octet there, behind it. */
struct cut {
	struct str before, here, after;
};

/* The slash that is nearest behind at, or the end. */
static size_t
to_slash(struct str path, size_t at)
{
	while (at < path.n && path.p[at] != '/')
		at++;
	return at;
}

static void
put_other_case(struct buf *b, struct str here)
{
	for (size_t i = 0; i < here.n; i++) {
		char c = here.p[i], l = ascii_lower(c);
		bool is_lower = ascii_is_alpha(c) && c == l;
		buf_putc(b, is_lower ? (char)(c - 'a' + 'A') : l);
	}
}

/* The server's hop is made to go through execd. */
static void
put_hop(struct buf *b, struct str path)
{
	bool is_v1 = str_starts(path, STR("/v1/"));
	size_t box = to_slash(path, is_v1 ? 4 : 1);
	size_t at = to_slash(path, box + 1);

	buf_put(b, str_head(path, at));
	if (str_starts(str_skip(path, at), STR("/proxy/")) &&
	    str_ends(str_head(path, box), STR("/sandboxes")))
		buf_put(b, STR("/proxy/44772"));
	buf_put(b, str_skip(path, at));
}

/* What stands at a slash instead of it; NULL: the octet in percent form. */
static const char *const at_slash[] = {
	"//",  "/./",   "/x/../", "/%2e/", "/..;/x/", "%2f",   "%2F",    "\\",
	"%5c", ";x=1/", "/;/",    "%00/",  "/%",      "%252f", "%c0%af", "/%2e%2e/x/",
};

/* One respelling of path into b. */
static void
respell(struct buf *b, struct str path, uint8_t what, uint8_t where)
{
	size_t at = path.n == 0 ? 0 : where % path.n;
	unsigned kind = what % (COUNT_OF(at_slash) + 5);

	if (kind >= 5)
		at = to_slash(path, at);
	struct cut c = { str_head(path, at), str_head(str_skip(path, at), 1),
			 str_skip(path, at + 1) };
	if (kind == 0) {
		buf_put(b, STR("/v1"));
		buf_put(b, path);
	} else if (kind == 1) {
		buf_put(b, path);
		buf_putc(b, '/');
	} else if (kind == 4) {
		put_hop(b, path);
	} else {
		buf_put(b, c.before);
		if (kind == 2 && c.here.n > 0)
			buf_putf(b, what & 0x80 ? "%%%02X" : "%%%02x",
				 (unsigned char)c.here.p[0]);
		else if (kind == 3)
			put_other_case(b, c.here);
		else
			buf_put(b, str_from(at_slash[kind - 5]));
		buf_put(b, c.after);
	}
}

static void
need_within(struct str view, struct str target)
{
	need(view.n == 0 || (view.p >= target.p && view.n <= target.n &&
			     view.p - target.p <= (ptrdiff_t)(target.n - view.n)));
}

static void
need_views_within(const struct exec_route *r, struct str target)
{
	need_within(r->sandbox, target);
	need_within(r->id, target);
	need_within(r->run, target);
	need_within(r->uid, target);
	need_within(r->gid, target);
	need_within(r->rest, target);
	need_within(r->query, target);
	need_within(r->expires, target);
}

/* Nothing that is decoded, folded, merged or cut off on the way. */
static void
need_plain(const struct exec_route *r)
{
	for (size_t i = 0; r->part != EXEC_PART_APP && i < r->rest.n; i++) {
		char c = r->rest.p[i];
		need(c > ' ' && c < 0x7f && strchr("%;\\?#", c) == NULL);
		need(c != '/' || i + 1 == r->rest.n || r->rest.p[i + 1] != '/');
	}
	need(r->rest.n == 0 || r->rest.p[0] == '/');
}

/* A pair is found again by its decoded name, and equals what it was decoded to. */
static void
need_params(struct str query)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str rest = query, name, value, plain, found = { NULL, 0 };

	buf_init(&b, TARGET_MAX);
	while (params_next(&rest, &name, &value)) {
		need_within(name, query);
		need_within(value, query);
		buf_clear(&b);
		params_put(&b, name);
		need(buf_finish(&b, &plain) == ST_OK && plain.n <= name.n);
		need(params_is(name, plain) && params_is_folded(name, plain));
		enum status st = params_find(query, plain, &found);
		need(st == ST_OK ? found.p == value.p : st == ST_BAD_TARGET);
	}
}

static bool
is_same(const struct exec_route *a, const struct exec_route *b)
{
	return a->op == b->op && a->part == b->part && a->class == b->class &&
	       a->body == b->body && a->answer == b->answer && a->port == b->port;
}

/* Sent on as it was read, it is read as the same again. */
static void
need_normal_form(enum method m, const struct exec_route *r)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str text;
	struct exec_route again;

	buf_init(&b, TARGET_MAX);
	if (r->part != EXEC_PART_SERVER)
		buf_putf(&b, "/sandboxes/%.*s/proxy/%u", STR_ARG(r->sandbox), r->port);
	buf_put(&b, r->rest);
	if (r->has_query)
		buf_putc(&b, '?');
	buf_put(&b, r->query);
	need(buf_finish(&b, &text) == ST_OK);
	need(exec_route_read(m, text, &again) == ST_OK && is_same(r, &again));
	need(str_eq(r->sandbox, again.sandbox) && str_eq(r->id, again.id));
	need(str_eq(r->run, again.run) && str_eq(r->uid, again.uid));
	need(str_eq(r->gid, again.gid) && str_eq(r->rest, again.rest));
	need(str_eq(r->query, again.query) && r->has_query == again.has_query);
}

static enum status
read_checked(enum method m, struct str target, struct exec_route *ret_r)
{
	struct exec_route r;

	enum status st = exec_route_read(m, target, &r);
	need(st == ST_OK || st == ST_BAD_PATH || st == ST_BAD_PORT ||
	     st == ST_NOT_FOUND || st == ST_METHOD_REFUSED || st == ST_BAD_TARGET ||
	     !str_starts(target, STR("/"))); /* a host, or none */
	if (st != ST_OK)
		return st;
	need_views_within(&r, target);
	need_plain(&r);
	need_params(r.query);
	need_normal_form(m, &r);
	need(strlen(exec_op_name(r.op)) > 0 && strlen(exec_class_name(r.class)) > 0);
	*ret_r = r;
	return ST_OK;
}

/* Steps one after the other, each from what the last one made. */
static void
need_same_respelled(enum method m, struct str path, struct str steps)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	CLEANUP(buf_done) struct buf next = { 0 };
	struct exec_route plain, other;

	if (read_checked(m, path, &plain) != ST_OK)
		return;
	buf_init(&b, TARGET_MAX);
	buf_init(&next, TARGET_MAX);
	buf_put(&b, path);
	while (steps.n >= 2) {
		struct str step = next_octets(&steps, 2), made;
		buf_clear(&next);
		respell(&next, str_of(b.p, b.len), (uint8_t)step.p[0],
			(uint8_t)step.p[1]);
		if (buf_finish(&next, &made) != ST_OK)
			return;
		if (read_checked(m, made, &other) == ST_OK)
			need(is_same(&plain, &other));
		buf_clear(&b);
		buf_put(&b, made);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum method methods[] = { METHOD_GET,     METHOD_POST,
					       METHOD_PUT,     METHOD_DELETE,
					       METHOD_PATCH,   METHOD_HEAD,
					       METHOD_OPTIONS, METHOD_OTHER };
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str in = str_of(data, size), path;
	const char *before = "";

	if (size < 2 || size > TARGET_MAX / 2)
		return 0;
	struct str head = next_octets(&in, 2);
	struct str steps = next_octets(&in, (uint8_t)head.p[1] % (STEPS_MAX + 1) * 2);
	const struct exec_row *row = row_of((uint8_t)head.p[0], &before);
	enum method m = row == NULL ? methods[(uint8_t)head.p[1] / 7 % 8]
				    : method_of(str_from(row->method));
	buf_init(&b, TARGET_MAX);
	if (row != NULL)
		buf_putf(&b, "%s%s", before, row->path);
	buf_put(&b, in);
	need(buf_finish(&b, &path) == ST_OK);
	need_same_respelled(m, path, steps);
	return 0;
}
