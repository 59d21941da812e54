/* exec_private: what fields say, and which of them go on. */
#include "proxy/worker/exec_private.h"

enum { KEY_MAX = 1024, BEARER_MAX = 8192, NAMING_MAX = 512 };

/* A field that counts comes once: readers choose differently between two. */
static enum status
only(const struct head *h, const char *name, size_t max, struct str *ret_value)
{
	struct str value = { 0 };

	for (size_t i = 0; i < h->fields_len; i++) {
		if (!head_same_name(h->fields[i].name, str_from(name)))
			continue;
		if (value.p != NULL || h->fields[i].value.n > max)
			return ST_BAD_HEADER;
		value = h->fields[i].value;
	}
	*ret_value = value.p == NULL ? (struct str){ "", 0 } : value;
	return ST_OK;
}

static struct str
bearer_of(struct str value)
{
	struct str scheme = str_cut(&value, ' ');

	if (!str_ieq(scheme, STR("bearer")) || value.p == NULL)
		return (struct str){ "", 0 };
	return str_trim(value);
}

enum status
exec_head_read(const struct head *h, struct exec_asked *ret_a)
{
	struct exec_asked a;
	const struct {
		const char *name;
		size_t max;
		struct str *to;
	} fields[] = {
		{ "OPEN-SANDBOX-API-KEY", KEY_MAX, &a.key },
		{ "Authorization", BEARER_MAX, &a.bearer },
		{ "X-Sandgate-Capability", 2048, &a.capability },
		{ "X-Sandgate-On-Behalf-Of", NAMING_MAX, &a.on_behalf_of },
		{ "X-Sandgate-Session", NAMING_MAX, &a.session },
		{ "X-Sandgate-Task", NAMING_MAX, &a.task },
		{ "X-Sandgate-Reuse", NAMING_MAX, &a.reuse },
		{ "Idempotency-Key", NAMING_MAX, &a.idempotency },
		{ "OPENSANDBOX-EGRESS-AUTH", KEY_MAX, &a.egress },
	};

	for (size_t i = 0; i < COUNT_OF(fields); i++) {
		enum status st = only(h, fields[i].name, fields[i].max, fields[i].to);
		if (st != ST_OK)
			return st;
	}
	a.bearer = bearer_of(a.bearer);
	*ret_a = a;
	return ST_OK;
}

bool
exec_head_id(const struct head *h, struct str *ret_id)
{
	struct str id;

	if (only(h, "X-Request-ID", EXEC_REQUEST_ID_MAX, &id) != ST_OK || id.n == 0)
		return false;
	for (size_t i = 0; i < id.n; i++)
		if (!ascii_is_alpha(id.p[i]) && !ascii_is_digit(id.p[i]) &&
		    id.p[i] != '-' && id.p[i] != '_' && id.p[i] != '.')
			return false;
	*ret_id = id;
	return true;
}

enum status
exec_head_authority(const struct head *h, bool is_https, struct str *ret_authority)
{
	const struct field *host = head_get(h, TOKEN_HOST);
	uint16_t port = is_https ? 443 : 80;
	struct dest by_host, by_target;
	struct uri u;

	if (host == NULL || head_count(h, TOKEN_HOST) != 1)
		return ST_BAD_HOST;
	enum status st = dest_from_authority_single(host->value, port, &by_host);
	if (st == ST_OK && !str_starts(h->target, STR("/"))) {
		st = uri_parse(h->method_id, h->target, &u);
		by_target = u.dest;
		if (st == ST_OK && (u.form != URI_ABSOLUTE || is_https))
			st = ST_BAD_TARGET;
		if (st == ST_OK && (by_target.port != by_host.port ||
				    !dest_same_host(&by_target, &by_host)))
			st = ST_MISMATCH;
	}
	if (st == ST_OK)
		*ret_authority = host->value;
	return st;
}

/* As head_same_name(), for what a name begins with. */
static bool
begins(struct str name, const char *with)
{
	struct str prefix = str_from(with);

	return name.n >= prefix.n && head_same_name(str_head(name, prefix.n), prefix);
}

static bool
is_among(struct str name, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (head_same_name(name, str_from(names[i])))
			return true;
	return false;
}

/* Ours, OpenSandbox's own (its tokens, and what its parts tell each other: whole families,
 * as what endpoints may come with), and what tells where a request came from. */
static bool
is_stopped(struct str name)
{
	static const char *const families[] = { "OPEN-SANDBOX-", "OPENSANDBOX-",
						"X-EXECD-", "X-Sandgate-",
						"X-Forwarded-" };
	static const char *const names[] = { "Forwarded", "X-Real-IP" };

	for (size_t i = 0; i < COUNT_OF(families); i++)
		if (begins(name, families[i]))
			return true;
	return is_among(name, names, COUNT_OF(names));
}

static bool
is_login(struct str name)
{
	static const char *const names[] = { "Authorization", "Cookie" };

	return is_among(name, names, COUNT_OF(names));
}

static bool
is_given(const struct place_answer *a, struct str name)
{
	for (size_t i = 0; i < a->fields_n; i++)
		if (head_same_name(name, a->fields[i].name))
			return true;
	return false;
}

bool
exec_tells_contexts(enum exec_op op)
{
	return op == EXEC_OP_CONTEXT_CREATE || op == EXEC_OP_CONTEXT_LIST ||
	       op == EXEC_OP_CONTEXT_GET;
}

/* An event is shown when it happens, and what is read along with is not packed. */
static bool
wants_plain(const struct exec_route *r)
{
	return r->answer == EXEC_ANSWER_EVENTS || exec_tells_contexts(r->op);
}

/* Terminals are read along with, which compression would end. */
static bool
is_of_terminals(const struct exec_route *r, const struct field *f)
{
	return r->class == EXEC_CLASS_PTY && f->token == TOKEN_SEC_WEBSOCKET_EXTENSIONS;
}

static bool
goes_up(const struct exec_route *r, const struct place_answer *a, const struct field *f)
{
	bool is_app = r->op == EXEC_OP_APP;

	if (is_stopped(f->name) || is_given(a, f->name))
		return false;
	if (is_login(f->name) && !(is_app && a->keeps_login))
		return false;
	/* execd knows neither; an application may. */
	if (!is_app && (head_same_name(f->name, STR("Idempotency-Key")) ||
			begins(f->name, "Sec-Fetch-")))
		return false;
	if (wants_plain(r) && f->token == TOKEN_ACCEPT_ENCODING)
		return false;
	return !is_of_terminals(r, f);
}

enum status
exec_head_up(struct head *to, const struct head *from, const struct exec_route *r,
	     const struct place_answer *a)
{
	struct arena *arena = to->arena;
	enum status st = ST_OK;

	*to = *from;
	to->arena = arena;
	to->fields = NULL;
	to->fields_len = to->fields_cap = 0;
	for (size_t i = 0; st == ST_OK && i < from->fields_len; i++) {
		const struct field *f = &from->fields[i];
		if (goes_up(r, a, f))
			st = head_add_view(to, f->token, f->name, f->value);
	}
	if (st == ST_OK && wants_plain(r))
		st = head_add(to, STR("Accept-Encoding"), STR("identity"));
	return st;
}

static bool
comes_down(const struct place_answer *a, struct str name)
{
	static const char *const tokens[] = { "X-EXECD-ACCESS-TOKEN",
					      "OPENSANDBOX-EGRESS-AUTH",
					      "OPEN-SANDBOX-API-KEY" };

	return !is_given(a, name) && !begins(name, "X-Sandgate-") &&
	       !is_among(name, tokens, COUNT_OF(tokens));
}

enum status
exec_head_down(struct head *h, const struct place_answer *a, struct str request_id)
{
	size_t kept = 0;

	for (size_t i = 0; i < h->fields_len; i++)
		if (comes_down(a, h->fields[i].name))
			h->fields[kept++] = h->fields[i];
	h->fields_len = kept;
	return head_set(h, STR("X-Request-ID"), request_id);
}

enum status
exec_head_trailers(struct head *to, const struct head *from, const struct exec_route *r,
		   const struct place_answer *a)
{
	enum status st = ST_OK;

	for (size_t i = 0; st == ST_OK && i < from->fields_len; i++) {
		const struct field *f = &from->fields[i];
		bool passes = r == NULL ? comes_down(a, f->name)
					: r->op == EXEC_OP_APP && goes_up(r, a, f);
		if (passes)
			st = head_add_view(to, f->token, f->name, f->value);
	}
	return st;
}

/* The path that a Location of the endpoint's own names; empty: another place's. */
static struct str
own_path(const struct exec_location *l, struct str value)
{
	struct dest d;
	struct str none = { "", 0 }, scheme = STR("http://"), rest;

	if (str_starts(value, STR("/")))
		return str_starts(value, STR("//")) ? none : value;
	if (!str_starts(value, scheme))
		return none;
	rest = str_skip(value, scheme.n);
	struct str host = rest;
	for (size_t i = 0; i < rest.n && host.n == rest.n; i++)
		if (rest.p[i] == '/' || rest.p[i] == '?' || rest.p[i] == '#')
			host = str_head(rest, i);
	rest = str_skip(rest, host.n);
	if (dest_from_authority_single(host, 80, &d) != ST_OK ||
	    d.port != l->dest->port || !dest_same_host(&d, l->dest) ||
	    !str_starts(rest, STR("/")))
		return none;
	return rest;
}

enum status
exec_head_location(struct head *h, const struct exec_location *l)
{
	const struct field *f = head_get(h, TOKEN_LOCATION);
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str path, text;

	if (f == NULL || head_count(h, TOKEN_LOCATION) != 1)
		return ST_OK;
	path = own_path(l, f->value);
	if (path.n == 0)
		return ST_OK;
	if (l->prefix.n > 0 && str_starts(path, l->prefix))
		path = str_skip(path, l->prefix.n);
	buf_init(&b, l->ours.n + path.n);
	buf_put(&b, l->ours);
	buf_put(&b, path);
	enum status st = buf_finish(&b, &text);
	return st == ST_OK ? head_set(h, STR("Location"), text) : st;
}
