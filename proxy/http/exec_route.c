#include "proxy/http/exec_route.h"

#include "proxy/base/num.h"
#include "proxy/http/params.h"
#include "proxy/http/uri.h"

/* Sets of methods, by the names that the table uses. */
enum {
	GET = 1 << METHOD_GET,
	POST = 1 << METHOD_POST,
	PUT = 1 << METHOD_PUT,
	DELETE = 1 << METHOD_DELETE,
	PATCH = 1 << METHOD_PATCH,
	ANY = ~0,
};

struct row {
	enum exec_part part;
	int methods;
	const char *pattern;
	enum exec_op op; /* EXEC_OP_APP: a hop */
	enum exec_class class;
	enum exec_body body;
	enum exec_answer answer;
};

#define ROW(part, op, methods, pattern, class, body, answer)                           \
	{ EXEC_PART_##part,   (methods),        (pattern),           EXEC_OP_##op,     \
	  EXEC_CLASS_##class, EXEC_BODY_##body, EXEC_ANSWER_##answer },
#define EXEC_ROUTE(part, op, name, methods, pattern, class, body, answer)              \
	ROW(part, op, methods, pattern, class, body, answer)
#define EXEC_FILES(part, op, name, methods, pattern, class, body, answer)              \
	ROW(part, op, methods, pattern, class, body, answer)                           \
	ROW(part, op, methods, "filesystem/{uid}/{gid}/" pattern, class, body, answer) \
	ROW(part, op, methods, "isolated/session/{id}/" pattern, class, body, answer)
#define EXEC_HOP(part, pattern) ROW(part, APP, ANY, pattern, APP, ANY, BYTES)
#define EXEC_REST(part, pattern, op, class)                                            \
	ROW(part, op, ANY, pattern, class, STREAM, BYTES)
static const struct row rows[] = {
#include "proxy/http/exec_routes.def"
};
#undef EXEC_ROUTE
#undef EXEC_FILES
#undef EXEC_HOP
#undef EXEC_REST
#undef ROW

#define EXEC_ROUTE(part, op, name, methods, pattern, class, body, answer) name,
#define EXEC_FILES                                                        EXEC_ROUTE
#define EXEC_HOP(part, pattern)
#define EXEC_REST(part, pattern, op, class)
static const char *const op_names[] = {
#include "proxy/http/exec_routes.def"
	"execd.other",
	"egress.other",
	"app",
};
#undef EXEC_ROUTE
#undef EXEC_FILES
#undef EXEC_HOP
#undef EXEC_REST

/* rest starts with a slash; the segment behind it, and *rest the slash after that. */
static struct str
cut_segment(struct str *rest)
{
	struct str s = str_skip(*rest, 1);
	size_t n = 0;

	while (n < s.n && s.p[n] != '/')
		n++;
	*rest = str_skip(s, n);
	return str_head(s, n);
}

/* pchar of RFC 3986 without percent triplets and ';'. */
static bool
is_plain_octet(char c)
{
	return ascii_is_alpha(c) || ascii_is_digit(c) ||
	       str_has(STR("-._~!$&'()*+,:=@"), c);
}

static bool
is_plain(struct str segment)
{
	for (size_t i = 0; i < segment.n; i++)
		if (!is_plain_octet(segment.p[i]))
			return false;
	return segment.n > 0 && segment.n <= EXEC_SEGMENT_MAX;
}

/* All of it, but for one slash at the end. */
static bool
is_plain_path(struct str path)
{
	while (path.n > 1)
		if (!is_plain(cut_segment(&path)))
			return false;
	return true;
}

static enum status
take_port(struct str segment, uint16_t *ret_port)
{
	uint64_t v;

	if (!num_parse_strict(segment, UINT16_MAX, &v) || v == 0)
		return ST_BAD_PORT;
	*ret_port = (uint16_t)v;
	return ST_OK;
}

/* A user or group. */
static enum status
take_number(struct str segment, struct str *ret_s)
{
	uint64_t v;

	if (!num_parse_strict(segment, UINT32_MAX, &v))
		return ST_BAD_PATH;
	*ret_s = segment;
	return ST_OK;
}

/* What stands for a {word} of a pattern.  ST_NOT_FOUND: another row may fit. */
static enum status
take(struct str word, struct str segment, struct exec_route *r)
{
	if (str_eq(word, STR("{port}")))
		return take_port(segment, &r->port);
	if (str_eq(word, STR("{uid}")))
		return take_number(segment, &r->uid);
	if (str_eq(word, STR("{gid}")))
		return take_number(segment, &r->gid);
	bool is_sandbox = str_eq(word, STR("{sandbox}"));
	if (is_sandbox ? !str_is_name(segment) : !is_plain(segment))
		return ST_NOT_FOUND;
	if (is_sandbox)
		r->sandbox = segment;
	else if (str_eq(word, STR("{run}")))
		r->run = segment;
	else
		r->id = segment;
	return ST_OK;
}

/* How a path fits a row: what its words stand for, and what ** does, or the slash at the
 * end that the pattern doesn't have. */
struct fit {
	const struct row *row;
	struct exec_route named;
	struct str rest;
	bool has_rest;  /* the pattern ends in ** */
	bool is_folded; /* its words are there in other case */
};

static enum status
fit_word(struct fit *f, struct str word, struct str segment)
{
	if (word.p[0] == '{')
		return take(word, segment, &f->named);
	if (!str_ieq(word, segment))
		return ST_NOT_FOUND;
	f->is_folded = f->is_folded || !str_eq(word, segment);
	return ST_OK;
}

/* ST_NOT_FOUND: the path isn't this row's; other statuses: it is, and is refused. */
static enum status
fit_row(struct str path, struct fit *f)
{
	struct str words = str_from(f->row->pattern);

	while (words.p != NULL) {
		struct str word = str_cut(&words, '/');
		f->has_rest = str_eq(word, STR("**"));
		if (f->has_rest)
			break;
		struct str segment = path.n > 0 ? cut_segment(&path) : path;
		enum status st = fit_word(f, word, segment);
		if (st != ST_OK)
			return st;
	}
	if (!f->has_rest && path.n > 1)
		return ST_NOT_FOUND;
	/* What lies behind a hop is read by the next step, or is an application's. */
	if (f->has_rest && f->row->op != EXEC_OP_APP && !is_plain_path(path))
		return ST_BAD_PATH;
	f->rest = path;
	return f->is_folded ? ST_BAD_PATH : ST_OK;
}

/* Most rows begin with another letter: cheaper to see than to try. */
static bool
may_fit(const struct row *row, struct str path)
{
	char first = row->pattern[0];

	return first == '*' || (path.n > 1 && ascii_lower(path.p[1]) == first);
}

/* The first row of r->part that fits. */
static enum status
find_row(enum method m, struct str path, const struct exec_route *r, struct fit *ret_f)
{
	bool is_known = false;

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		if (rows[i].part != r->part || !may_fit(&rows[i], path))
			continue;
		struct fit f = { .row = &rows[i], .named = *r };
		enum status st = fit_row(path, &f);
		if (st == ST_NOT_FOUND)
			continue;
		if (st != ST_OK)
			return st;
		if ((rows[i].methods & 1 << m) != 0) {
			*ret_f = f;
			return ST_OK;
		}
		is_known = true;
	}
	if (!is_plain_path(path))
		return ST_BAD_PATH;
	return is_known ? ST_METHOD_REFUSED : ST_NOT_FOUND;
}

/* Without /v1 at its start. */
static enum status
skip_v1(struct str *path, bool *ret_is_v1)
{
	struct str rest = *path;
	struct str first = rest.n > 0 ? cut_segment(&rest) : rest;

	if (!str_ieq(first, STR("v1")))
		return ST_OK;
	if (!str_eq(first, STR("v1")))
		return ST_BAD_PATH;
	*path = rest;
	*ret_is_v1 = true;
	return ST_OK;
}

static enum exec_part
part_of_port(uint16_t port)
{
	if (port == EXEC_PORT_EXECD)
		return EXEC_PART_EXECD;
	return port == EXEC_PORT_EGRESS ? EXEC_PART_EGRESS : EXEC_PART_APP;
}

/* One part of the way; ST_AGAIN: a hop, and r->rest is what is asked behind it. */
static enum status
step(enum method m, struct exec_route *r)
{
	struct fit f = { .row = rows, .named = *r };
	struct str sent = r->rest, path = sent;
	bool is_v1 = false;

	enum status st = skip_v1(&path, &is_v1);
	if (st == ST_OK)
		st = find_row(m, path, r, &f);
	if (st != ST_OK)
		return st;
	*r = f.named;
	r->is_v1 = r->part == EXEC_PART_SERVER ? is_v1 : r->is_v1;
	r->rest = f.has_rest ? sent : str_head(sent, sent.n - f.rest.n);
	r->op = f.row->op;
	r->class = f.row->class;
	r->body = f.row->body;
	r->answer = f.row->answer;
	if (r->op != EXEC_OP_APP)
		return ST_OK;
	r->rest = f.rest;
	r->part = part_of_port(r->port);
	return r->part == EXEC_PART_APP ? ST_OK : ST_AGAIN;
}

/* The words of the server's own reader of booleans. */
static enum status
read_bool(struct str coded, bool *ret_b)
{
	static const char *const yes[] = { "true", "1", "on", "t", "y", "yes" };
	static const char *const no[] = { "false", "0", "off", "f", "n", "no" };

	for (size_t i = 0; i < COUNT_OF(yes); i++) {
		bool is_yes = params_is_folded(coded, str_from(yes[i]));
		if (!is_yes && !params_is_folded(coded, str_from(no[i])))
			continue;
		*ret_b = is_yes;
		return ST_OK;
	}
	return ST_BAD_TARGET;
}

static enum status
read_endpoint(struct exec_route *r)
{
	struct str v = { NULL, 0 };

	enum status st = params_find(r->query, STR("use_server_proxy"), &v);
	if (st == ST_OK)
		st = read_bool(v, &r->use_server_proxy);
	if (st != ST_OK && st != ST_NOT_FOUND)
		return st;
	st = params_find(r->query, STR("expires"), &r->expires);
	if (st == ST_OK && r->expires.n == 0)
		return ST_BAD_TARGET;
	return st == ST_NOT_FOUND ? ST_OK : st;
}

/* r says in whose part the way begins. */
static enum status
read_from(enum method m, struct str target, struct exec_route r,
	  struct exec_route *ret_r)
{
	struct uri u;

	if (m == METHOD_CONNECT || m == METHOD_TRACE || m == METHOD_TRACK)
		return ST_METHOD_REFUSED;
	enum status st = uri_parse(m, target, &u);
	if (st != ST_OK)
		return st;
	if (!str_starts(u.path, STR("/")))
		return ST_BAD_TARGET; /* OPTIONS * */
	r.rest = u.path;
	r.query = u.query;
	r.has_query = u.has_query;
	st = ST_AGAIN;
	for (size_t i = 0; st == ST_AGAIN && i <= EXEC_HOPS_MAX; i++)
		st = step(m, &r);
	if (st == ST_AGAIN)
		return ST_BAD_PATH;
	if (st == ST_OK && r.op == EXEC_OP_SANDBOX_ENDPOINT)
		st = read_endpoint(&r);
	if (st == ST_OK)
		*ret_r = r;
	return st;
}

enum status
exec_route_read(enum method m, struct str target, struct exec_route *ret_r)
{
	return read_from(m, target, (struct exec_route){ .part = EXEC_PART_SERVER },
			 ret_r);
}

enum status
exec_route_read_egress(enum method m, struct str target, struct str sandbox,
		       struct exec_route *ret_r)
{
	return read_from(m, target,
			 (struct exec_route){ .part = EXEC_PART_EGRESS,
					      .port = EXEC_PORT_EGRESS,
					      .sandbox = sandbox },
			 ret_r);
}

const char *
exec_op_name(enum exec_op op)
{
	need((size_t)op < COUNT_OF(op_names));
	return op_names[op];
}

bool
exec_op_changes(enum exec_op op)
{
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		if (rows[i].op == op)
			return rows[i].methods != GET;
	return true;
}

const char *exec_class_name(enum exec_class class)
{
	static const char *const names[] = { "lifecycle", "command", "code", "file",
					     "pty",       "egress",  "app",  "health" };

	need((size_t) class < COUNT_OF(names));
	return names[class];
}
