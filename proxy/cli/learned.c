#include "proxy/cli/learned.h"

#include <stdlib.h>
#include <string.h>

#include <libpsl.h>

#include "proxy/base/num.h"
#include "proxy/io/synth.h"

enum {
	HOSTS_MAX = 100000,
	PORTS_MAX = 16,
	METHODS_MAX = 9,
	PATHS_MAX = 20,
	SIBLINGS = 3
};
enum { MEMORY = 64 << 20, KEY_MAX = 400 };

struct learned_host {
	struct str name;
	struct str key; /* hosts with the same key share a rule */
	uint16_t ports[PORTS_MAX];
	size_t ports_n; /* 0: only looked up, or more than fit */
	bool is_tcp, any_port, any_path;
	struct str methods[METHODS_MAX], paths[PATHS_MAX];
	size_t methods_n, paths_n;
};

void
learned_init(struct learned *l)
{
	*l = (struct learned){ 0 };
	arena_init(&l->arena, MEMORY);
	map_init(&l->hosts, HOSTS_MAX);
	map_init(&l->asides, HOSTS_MAX);
	map_init(&l->by_connector, HOSTS_MAX);
	map_init(&l->connectors, HOSTS_MAX);
	map_init(&l->refusals, HOSTS_MAX);
}

void
learned_done(struct learned *l)
{
	map_done(&l->hosts);
	map_done(&l->asides);
	map_done(&l->by_connector);
	map_done(&l->connectors);
	map_done(&l->refusals);
	arena_done(&l->arena);
}

static bool
is_learnable(enum status reason)
{
	static const enum status those[] = { ST_OK,
					     ST_DENIED,
					     ST_DENIED_PORT,
					     ST_DENIED_METHOD,
					     ST_DENIED_PATH,
					     ST_DENIED_QUERY,
					     ST_NO_POLICY,
					     ST_DENIED_PROTOCOL,
					     ST_NEEDS_INTERCEPT };

	for (size_t i = 0; i < COUNT_OF(those); i++)
		if (reason == those[i])
			return true;
	return false;
}

/* A plain name; addresses are told, not allowed. */
static bool
is_name(struct str s)
{
	bool has_letter = false;

	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (ascii_is_alpha(c))
			has_letter = true;
		else if (!ascii_is_digit(c) && c != '-' && c != '.' && c != '_')
			return false;
	}
	return has_letter && s.n <= 253 && str_has(s, '.');
}

/* host:port; a row of a DNS query has no port. */
static struct str
split(struct str host, uint64_t *ret_port)
{
	size_t n = host.n;

	*ret_port = 0;
	while (n > 0 && host.p[n - 1] != ':')
		n--;
	if (n == 0 || !num_parse_u64(str_skip(host, n), 65535, ret_port))
		return host;
	return str_head(host, n - 1);
}

static void
add_port(struct learned_host *h, uint64_t port)
{
	size_t at = 0;

	if (port == 0 || h->any_port)
		return;
	while (at < h->ports_n && h->ports[at] < port)
		at++;
	if (at < h->ports_n && h->ports[at] == port)
		return;
	if (h->ports_n == PORTS_MAX) { /* a scan, not a use */
		h->any_port = true;
		return;
	}
	memmove(&h->ports[at + 1], &h->ports[at],
		(h->ports_n - at) * sizeof h->ports[0]);
	h->ports[at] = (uint16_t)port;
	h->ports_n++;
}

/* false: it does not fit in. */
static bool
add_text(struct learned *l, struct str *list, size_t *n, size_t max, struct str s)
{
	for (size_t i = 0; i < *n; i++)
		if (str_eq(list[i], s))
			return true;
	if (*n == max)
		return false;
	struct str copy = arena_copy(&l->arena, s);
	if (copy.p == NULL)
		return false;
	list[(*n)++] = copy;
	return true;
}

static void
add_http(struct learned *l, struct learned_host *h, const struct row *r)
{
	struct str rest = r->path, path = str_cut(&rest, '?');

	if (r->method.n == 0 || str_eq(r->method, STR("CONNECT")))
		return;
	if (!add_text(l, h->methods, &h->methods_n, METHODS_MAX, r->method) ||
	    path.n == 0 || path.p[0] != '/' || str_has(path, '*') ||
	    !add_text(l, h->paths, &h->paths_n, PATHS_MAX, path))
		h->any_path = true;
}

static struct learned_host *
host_of(struct learned *l, struct str name, bool is_tcp)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str key;

	buf_init(&b, KEY_MAX);
	buf_putc(&b, is_tcp ? 't' : 'n');
	buf_put(&b, name);
	if (buf_finish(&b, &key) != ST_OK)
		return NULL;
	struct learned_host *h = map_get(&l->hosts, key);
	if (h != NULL)
		return h;
	h = arena_alloc(&l->arena, sizeof *h);
	if (h == NULL)
		return NULL;
	h->name = arena_copy(&l->arena, name);
	h->is_tcp = is_tcp;
	if (h->name.p == NULL || map_put(&l->hosts, key, h) != ST_OK)
		return NULL;
	return h;
}

static void
put_aside(struct learned *l, const struct row *r)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str text;

	buf_init(&b, (size_t)2 * ROW_FIELD_MAX);
	buf_put_json(&b, r->host);
	buf_putf(&b, " %s", status_code(r->reason));
	if (buf_finish(&b, &text) != ST_OK || map_get(&l->asides, text) != NULL)
		return;
	if (map_put(&l->asides, text, l) != ST_OK)
		l->is_over = true;
}

/* A connector covers the host and would not have the request. */
static void
put_refusal(struct learned *l, const struct row *r)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str text;

	buf_init(&b, (size_t)4 * ROW_FIELD_MAX);
	buf_put_json(&b, r->connector);
	buf_putf(&b, ": %.*s ", STR_ARG(r->method));
	buf_put_json(&b, r->host);
	buf_putc(&b, ' ');
	buf_put_json(&b, r->path);
	buf_putf(&b, " %s", status_code(r->reason));
	if (buf_finish(&b, &text) != ST_OK || map_put(&l->refusals, text, l) != ST_OK)
		l->is_over = true;
}

/* A rule beside its connector would be an error. */
static void
see_connector(struct learned *l, const struct row *r, struct str name)
{
	if (map_put(&l->by_connector, name, l) != ST_OK ||
	    map_put(&l->connectors, r->connector, l) != ST_OK)
		l->is_over = true;
	if (row_is_refusal(r))
		put_refusal(l, r);
}

enum status
learned_see(struct learned *l, const struct row *r)
{
	uint64_t port = 0;

	if (r->host.n == 0 || (!row_is_refusal(r) && r->kind != ROW_TUNNEL_START &&
			       r->kind != ROW_REQUEST && r->kind != ROW_DNS))
		return ST_OK;
	struct str name = split(r->host, &port);
	/* The gateway's own pages: nothing else has this name, and no rule leads to it. */
	bool is_ours = str_ieq(name, STR(SYNTH_PAGES_NAME));
	if (is_ours || !is_learnable(r->reason) || !is_name(name)) {
		if (!is_ours || row_is_refusal(r))
			put_aside(l, r);
		return ST_OK;
	}
	if (r->connector.n > 0)
		see_connector(l, r, name);
	bool is_tcp =
		r->reason == ST_DENIED_PROTOCOL ||
		(r->kind == ROW_TUNNEL_START && str_starts(r->detail, STR("tcp")));
	struct learned_host *h = host_of(l, name, is_tcp);
	if (h == NULL) {
		l->is_over = true;
		return ST_TOO_BIG;
	}
	add_port(h, port);
	add_http(l, h, r);
	return ST_OK;
}

/* The part of a rule behind its hosts. */
static void
put_terms(struct buf *b, const struct learned_host *h, bool with_http)
{
	for (size_t i = 0; i < h->ports_n && !h->any_port; i++)
		buf_putf(b, "%s%u", i == 0 ? ", ports: [" : ", ", h->ports[i]);
	if (h->ports_n > 0 && !h->any_port)
		buf_putc(b, ']');
	if (h->is_tcp)
		buf_put(b, STR(", protocol: tcp"));
	if (!with_http || h->methods_n == 0)
		return;
	for (size_t i = 0; i < h->methods_n; i++) {
		buf_put(b, i == 0 ? STR(", methods: [") : STR(", "));
		buf_put(b, h->methods[i]);
	}
	buf_put(b, STR("], paths: ["));
	for (size_t i = 0; i < h->paths_n && !h->any_path; i++) {
		buf_put(b, i == 0 ? STR("") : STR(", "));
		buf_put_json(b, h->paths[i]);
	}
	buf_put(b, h->any_path || h->paths_n == 0 ? STR("\"/**\"]") : STR("]"));
}

static struct str
parent_of(struct str name)
{
	struct str rest = name;

	(void)str_cut(&rest, '.');
	return rest;
}

static int
compare(struct str a, struct str b)
{
	size_t n = num_min(a.n, b.n);
	int c = n == 0 ? 0 : memcmp(a.p, b.p, n);

	return c != 0 ? c : (a.n > b.n) - (a.n < b.n);
}

/* By rule, then by the name above, then by name. */
static int
order(const void *x, const void *y)
{
	const struct learned_host *a = *(const struct learned_host *const *)x;
	const struct learned_host *b = *(const struct learned_host *const *)y;
	int c = compare(a->key, b->key);

	if (c == 0)
		c = compare(parent_of(a->name), parent_of(b->name));
	return c != 0 ? c : compare(a->name, b->name);
}

/* On a public suffix `*.` would allow names of anybody. */
static bool
may_be_wild(struct str parent)
{
	char name[256];

	if (!str_has(parent, '.') || parent.n >= sizeof name || psl_builtin() == NULL)
		return false;
	memcpy(name, parent.p, parent.n);
	name[parent.n] = '\0';
	return psl_is_public_suffix2(psl_builtin(), name,
				     PSL_TYPE_ANY | PSL_TYPE_NO_STAR_RULE) == 0;
}

/* Hosts from list[0] on that share rule and parent. */
static size_t
siblings(struct learned_host *const *list, size_t n)
{
	size_t i = 1;

	while (i < n && str_eq(list[i]->key, list[0]->key) &&
	       str_eq(parent_of(list[i]->name), parent_of(list[0]->name)))
		i++;
	return i;
}

/* One rule: the hosts with the key of list[0]; returns how many. */
static size_t
put_rule(struct buf *b, struct learned_host *const *list, size_t n, const char *indent)
{
	size_t i = 0;

	buf_putf(b, "%s- {hosts: [", indent);
	while (i < n && str_eq(list[i]->key, list[0]->key)) {
		size_t same = siblings(list + i, n - i);
		bool is_wild =
			same >= SIBLINGS && may_be_wild(parent_of(list[i]->name));
		buf_put(b, i == 0 ? STR("\"") : STR(", \""));
		if (is_wild)
			buf_put(b, STR("*."));
		buf_put(b, is_wild ? parent_of(list[i]->name) : list[i]->name);
		buf_putc(b, '"');
		i += is_wild ? same : 1;
	}
	buf_putc(b, ']');
	buf_put(b, list[0]->key);
	buf_put(b, STR("}\n"));
	return i;
}

/* A name that was also connected to needs no rule for having been looked up, and one that
 * a connector was used for none at all. */
static bool
is_needed(const struct learned *l, const struct learned_host *h)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str key;

	if (!h->is_tcp && map_get(&l->by_connector, h->name) != NULL)
		return false;
	if (h->is_tcp || h->ports_n > 0)
		return true;
	buf_init(&b, KEY_MAX);
	buf_putc(&b, 't');
	buf_put(&b, h->name);
	return buf_finish(&b, &key) != ST_OK || map_get(&l->hosts, key) == NULL;
}

static size_t
gather(struct learned *l, bool with_http, struct learned_host **list)
{
	size_t at = 0, n = 0;
	struct str name;
	void *value;

	while (map_next(&l->hosts, &at, &name, &value)) {
		CLEANUP(buf_done) struct buf b = { 0 };
		struct learned_host *h = value;
		if (!is_needed(l, h))
			continue;
		buf_init(&b, 1 << 20);
		put_terms(&b, h, with_http);
		h->key = arena_copy(&l->arena, str_of(b.p, b.len));
		if (b.st == ST_OK && (b.len == 0 || h->key.p != NULL))
			list[n++] = h;
		else
			l->is_over = true;
	}
	if (n > 0)
		qsort(list, n, sizeof(struct learned_host *), order);
	return n;
}

static void
put_comments(const struct map *m, const char *title, struct buf *b)
{
	size_t at = 0;
	struct str text;
	void *value;

	if (m->len > 0)
		buf_putf(b, "# %s:\n", title);
	while (map_next(m, &at, &text, &value)) {
		buf_put(b, STR("#   "));
		buf_put(b, text);
		buf_putc(b, '\n');
	}
}

static void
put_asides(struct learned *l, struct buf *b)
{
	put_comments(&l->asides, "Refused for a reason that no rule of names changes",
		     b);
	put_comments(&l->refusals,
		     "Refused by a connector, whose own `allow` would have to have it",
		     b);
	if (l->is_over)
		buf_put(b, STR("# There was more than fits; this policy is not "
			       "complete.\n"));
}

static int
order_names(const void *x, const void *y)
{
	return compare(*(const struct str *)x, *(const struct str *)y);
}

static void
put_connectors(struct learned *l, struct buf *b)
{
	struct str *names = arena_alloc(&l->arena, l->connectors.len * sizeof *names);
	size_t at = 0, n = 0;
	void *value;

	if (names == NULL) {
		l->is_over = true;
		return;
	}
	while (map_next(&l->connectors, &at, &names[n], &value))
		n++;
	qsort(names, n, sizeof *names, order_names);
	for (size_t i = 0; i < n; i++) {
		buf_put(b, i == 0 ? STR("    connectors: [") : STR(", "));
		buf_put_json(b, names[i]);
	}
	buf_put(b, STR("]\n"));
}

void
learned_put(struct learned *l, struct str sandbox, bool with_http, struct buf *b)
{
	CLEANUP(buf_done) struct buf name = { 0 };
	size_t room = num_max(l->hosts.len, 1);
	struct learned_host **list =
		arena_alloc(&l->arena, room * sizeof(struct learned_host *));
	size_t n = list == NULL ? 0 : gather(l, with_http, list);

	l->is_over = l->is_over || list == NULL;
	buf_init(&name, ROW_FIELD_MAX);
	buf_put(&name, STR("learned-"));
	buf_put(&name, sandbox);
	put_asides(l, b);
	if (n == 0 && l->connectors.len == 0)
		buf_put(b, STR("# The ledger has nothing that this sandbox reached or "
			       "would need a rule for.\n"));
	buf_put(b, STR("policies:\n  "));
	buf_put_json(b, str_of(name.p, name.len));
	if (l->connectors.len == 0) {
		buf_put(b, n == 0 ? STR(": {allow: []}\n") : STR(":\n    allow:\n"));
	} else {
		buf_put(b, STR(":\n"));
		put_connectors(l, b);
		buf_put(b, n == 0 ? STR("    allow: []\n") : STR("    allow:\n"));
	}
	for (size_t i = 0; i < n;)
		i += put_rule(b, list + i, n - i, "      ");
}
