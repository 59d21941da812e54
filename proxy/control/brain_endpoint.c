/* Where a server says that a port of a sandbox answers. */
#include <stdlib.h>
#include <string.h>

#include "proxy/control/brain.h"
#include "proxy/control/brain_json.h"

enum {
	PORTS = 8, /* remembered of a sandbox */
	HOST_MAX = 253,
	PREFIX_MAX = 512,
	VALUE_MAX = 2048,
	ENDPOINT_ARENA = 64 * 1024,
};

struct brain_endpoints { /* of one sandbox */
	struct arena arena;
	size_t n;
	struct brain_endpoint of[PORTS];
};

const struct brain_endpoint *
brain_endpoint_find(const struct brain *b, struct str id, uint16_t port)
{
	const struct brain_endpoints *all = map_get(&b->endpoints, id);

	for (size_t i = 0; all != NULL && i < all->n; i++)
		if (all->of[i].port == port)
			return &all->of[i];
	return NULL;
}

static void
endpoints_free(struct brain_endpoints *all)
{
	if (all == NULL)
		return;
	arena_done(&all->arena);
	free(all);
}

void
brain_endpoints_forget(struct brain *b, struct str id)
{
	endpoints_free(map_take(&b->endpoints, id));
}

void
brain_endpoints_close(struct brain *b)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(&b->endpoints, &at, &key, &value);)
		endpoints_free(value);
	map_done(&b->endpoints);
}

/* "host:port/path", "[::1]:80": no scheme, no user. */

static bool
is_host_text(struct str host)
{
	struct addr a;

	if (host.n == 0 || host.n > HOST_MAX)
		return false;
	if (addr_parse(host, &a))
		return true;
	for (size_t i = 0; i < host.n; i++)
		if (!ascii_is_alpha(host.p[i]) && !ascii_is_digit(host.p[i]) &&
		    host.p[i] != '-' && host.p[i] != '.' && host.p[i] != '_')
			return false;
	return !ascii_is_digit(host.p[host.n - 1]);
}

static bool
is_prefix_text(struct str path)
{
	if (path.n > PREFIX_MAX)
		return false;
	for (size_t i = 0; i < path.n; i++) {
		char c = path.p[i];

		if (!ascii_is_alpha(c) && !ascii_is_digit(c) && c != '/' && c != '-' &&
		    c != '_' && c != '.' && c != '~')
			return false;
	}
	return memmem(path.p, path.n, "//", 2) == NULL &&
	       memmem(path.p, path.n, "/.", 2) == NULL;
}

static bool
read_text(struct str text, struct brain_endpoint *e)
{
	struct str rest = text, authority = str_cut(&rest, '/'), port;
	uint64_t number = 80;

	e->prefix = rest.p == NULL ? STR("") : str_skip(text, authority.n);
	while (str_ends(e->prefix, STR("/")))
		e->prefix.n--;
	if (str_starts(authority, STR("["))) {
		port = str_skip(authority, 1);
		e->host = str_cut(&port, ']');
		if (port.p == NULL || (port.n > 0 && port.p[0] != ':'))
			return false;
		port = str_skip(port, 1);
	} else {
		port = authority;
		e->host = str_cut(&port, ':');
	}
	if (port.n > 0 && (!num_parse_strict(port, UINT16_MAX, &number) || number == 0))
		return false;
	e->at_port = (uint16_t)number;
	return is_host_text(e->host) && is_prefix_text(e->prefix);
}

/* Tokens for what is behind the endpoint; nothing else of a request is a server's to say. */
static bool
is_token_field(struct str name)
{
	static const struct str starts[] = { { "x-execd-", 8 },
					     { "opensandbox-", 12 },
					     { "open-sandbox-", 13 } };
	bool is_known = false;

	for (size_t i = 0; i < COUNT_OF(starts); i++)
		is_known =
			is_known || (name.n > starts[i].n &&
				     str_ieq(str_head(name, starts[i].n), starts[i]));
	for (size_t i = 0; i < name.n; i++)
		if (!ascii_is_alpha(name.p[i]) && !ascii_is_digit(name.p[i]) &&
		    name.p[i] != '-')
			return false;
	return is_known && name.n <= 64 && !str_ieq(name, STR("open-sandbox-api-key"));
}

static bool
is_token_value(struct str v)
{
	for (size_t i = 0; i < v.n; i++)
		if (v.p[i] < 0x21 || v.p[i] > 0x7e)
			return false;
	return v.n > 0 && v.n <= VALUE_MAX;
}

static bool
read_fields(const json_t *headers, struct brain_endpoint *e)
{
	json_t *o =
		(json_t *)(uintptr_t)headers; /* Jansson's iterator changes nothing */

	for (void *it = json_object_iter(o); it != NULL;
	     it = json_object_iter_next(o, it)) {
		const json_t *v = json_object_iter_value(it);
		struct place_field f = { str_from(json_object_iter_key(it)),
					 str_of(json_string_value(v),
						json_string_length(v)) };

		if (!is_token_field(f.name))
			continue;
		if (!is_token_value(f.value) || e->fields_n == PLACE_FIELDS)
			return false;
		e->fields[e->fields_n++] = f;
	}
	return true;
}

/* A name's addresses are the dialer's to look at. */
static bool
may_lie_there(const struct brain *b, struct str server, struct str host)
{
	const struct image *im = b->control->role.image;
	const struct image_exec_server *s = image_exec_server_by_name(im, server);
	struct addr a;

	return s != NULL && (!addr_parse(host, &a) || exec_endpoint_allowed(im, s, &a));
}

static enum status
keep(struct brain *b, struct str id, const struct brain_endpoint *e)
{
	struct brain_endpoints *all = map_get(&b->endpoints, id);
	struct brain_endpoint copy = *e;
	struct brain_endpoint *to = NULL;

	if (all == NULL) {
		all = calloc(1, sizeof *all);
		if (all == NULL)
			return ST_NOMEM;
		arena_init(&all->arena, ENDPOINT_ARENA);
		enum status st = map_put(&b->endpoints, id, all);
		if (st != ST_OK) {
			endpoints_free(all);
			return st;
		}
	}
	for (size_t i = 0; i < all->n; i++)
		if (all->of[i].port == e->port)
			to = &all->of[i];
	if (to == NULL && all->n == PORTS)
		return ST_TOO_BIG;
	copy.host = arena_copy(&all->arena, e->host);
	copy.prefix = arena_copy(&all->arena, e->prefix);
	for (size_t i = 0; i < e->fields_n; i++) {
		copy.fields[i].name = arena_copy(&all->arena, e->fields[i].name);
		copy.fields[i].value = arena_copy(&all->arena, e->fields[i].value);
	}
	if (all->arena.is_over)
		return ST_TOO_BIG;
	if (to == NULL)
		to = &all->of[all->n++];
	*to = copy;
	return ST_OK;
}

enum status
brain_endpoint_take(struct brain *b, const struct brain_sandbox *box, uint16_t port,
		    const json_t *said)
{
	struct brain_endpoint e = { .port = port, .since_s = brain_now_s() };
	enum status st;

	if (!read_text(brain_json_text(said, "endpoint"), &e) ||
	    !read_fields(json_object_get(said, "headers"), &e))
		return ST_UPSTREAM_BAD;
	if (!may_lie_there(b, box->server, e.host))
		return ST_DENIED;
	st = keep(b, box->id, &e);
	if (st != ST_TOO_BIG)
		return st;
	/* Many ports, or the map is full: begin again with this one. */
	brain_endpoints_forget(b, box->id);
	st = keep(b, box->id, &e);
	if (st == ST_TOO_BIG && b->endpoints.len >= BRAIN_ENDPOINTS) {
		brain_endpoints_close(b);
		map_init(&b->endpoints, BRAIN_ENDPOINTS);
		st = keep(b, box->id, &e);
	}
	return st;
}
