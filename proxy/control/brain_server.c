/* Which server of a tier a sandbox goes to, and how servers do. */
#include "proxy/control/brain_server.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "proxy/control/ca_file.h"

enum { SAID_MS = 60000 };

struct brain_down { /* of one that has been down, or has sandboxes without a way out */
	uint64_t until_ms; /* it is asked last for so long */
	uint64_t said_ms;  /* the log has said lately that it is down; 0: never */
	bool is_said;      /* and not yet that it is up again */
	size_t unbound;    /* as they were counted */
	enum status unbound_st;
};

static bool
is_down(const struct brain *b, struct str server)
{
	const struct brain_down *d = map_get(&b->down, server);

	return d != NULL && loop_now_ms(b->control->loop) < d->until_ms;
}

/* A draw among those that are left, by weight. */
static size_t
draw(const struct image_exec_server *const *of, size_t n)
{
	uint64_t all = 0, at = 0;

	for (size_t i = 0; i < n; i++)
		all += of[i]->weight;
	if (all == 0 || getrandom(&at, sizeof at, 0) != (ssize_t)sizeof at)
		return 0;
	at %= all;
	for (size_t i = 0; i < n; i++) {
		if (at < of[i]->weight)
			return i;
		at -= of[i]->weight;
	}
	return 0;
}

/* Those of one kind, in drawn order, behind the n that are there. */
static size_t
add(struct brain *b, enum exec_tier tier, bool down, struct str *names, size_t n,
    size_t max)
{
	const struct image *im = b->control->role.image;
	const struct image_exec_server *left[BRAIN_SERVERS];
	size_t all, left_n = 0;
	const struct image_exec_server *s = image_exec_servers(im, &all);

	for (size_t i = 0; i < all && left_n < BRAIN_SERVERS; i++)
		if (s[i].tier == tier && ca_file_is_ready(b->control, &s[i]) &&
		    is_down(b, image_str(im, s[i].name)) == down)
			left[left_n++] = &s[i];
	while (left_n > 0 && n < max) {
		size_t i = draw(left, left_n);

		names[n++] = image_str(im, left[i]->name);
		left[i] = left[--left_n];
	}
	return n;
}

size_t
brain_servers(struct brain *b, enum exec_tier tier, struct str *ret_names, size_t max)
{
	size_t n = add(b, tier, false, ret_names, 0, max);

	return add(b, tier, true, ret_names, n, max);
}

bool
brain_is_unasked(const struct call_got *got)
{
	switch ((int)got->st) {
	case ST_OK:
		/* It takes no more, or its key isn't ours. */
		return got->http == 503 || got->http == 401 || got->http == 429;
	case ST_NOT_FOUND:
	case ST_RELOADED:
	case ST_NEEDS_CONNECTOR:
	case ST_LIMIT_RATE:
	case ST_DNS_NOT_FOUND:
	case ST_DNS_FAILED:
	case ST_CONNECT_REFUSED:
	case ST_CONNECT_FAILED:
	case ST_CONNECT_TIMEOUT:
	case ST_NO_DIALER:
	case ST_UPSTREAM_TLS:
	case ST_UPSTREAM_NAME:
	case ST_UPSTREAM_EXPIRED:
	case ST_UPSTREAM_UNTRUSTED:
	case ST_UPSTREAM_CERTIFICATE:
	case ST_NO_SECRET:
	case ST_VAULT_SEALED:
	case ST_NO_KEEPER:
	case ST_ADDRESS_PRIVATE:
		return true;
	default:
		return false;
	}
}

/* Room for those that the configuration has: of one that it had, nobody asks. */
static void
forget_one(struct brain *b)
{
	const struct image *im = b->control->role.image;
	struct str key;
	void *value;

	for (size_t at = 0; map_next(&b->down, &at, &key, &value);) {
		if (image_exec_server_by_name(im, key) != NULL)
			continue;
		(void)map_take(&b->down, key);
		free(value);
		return;
	}
}

static struct brain_down *
state_of(struct brain *b, struct str server)
{
	struct brain_down *d = map_get(&b->down, server);

	if (d != NULL)
		return d;
	if (b->down.len >= b->down.max)
		forget_one(b);
	d = calloc(1, sizeof *d);
	if (d == NULL || map_put(&b->down, server, d) == ST_OK)
		return d;
	free(d);
	return NULL;
}

/* Is it the server that is down?  Parts of the gateway that are say so themselves, and what a
 * caller sent tells nothing of the server. */
static bool
is_of_server(enum status st)
{
	static const enum status those[] = {
		ST_DNS_NOT_FOUND,      ST_DNS_FAILED,
		ST_CONNECT_REFUSED,    ST_CONNECT_FAILED,
		ST_CONNECT_TIMEOUT,    ST_UPSTREAM_TLS,
		ST_UPSTREAM_NAME,      ST_UPSTREAM_BAD,
		ST_UPSTREAM_UNTRUSTED, ST_UPSTREAM_EXPIRED,
		ST_UPSTREAM_CLOSED,    ST_UPSTREAM_CERTIFICATE,
		ST_UPSTREAM_TIMEOUT,   ST_CUT,
		ST_ADDRESS_PRIVATE,    ST_NO_SECRET,
		ST_SECRET_EXPIRED,     ST_SECRET_DENIED,
		ST_VAULT_SEALED,       ST_SOURCE_SILENT,
		ST_SOURCE_REFUSED,     ST_SOURCE_BAD,
		ST_SERVER_KEY
	};

	for (size_t i = 0; i < COUNT_OF(those); i++)
		if (those[i] == st)
			return true;
	return false;
}

/* At most once in a while of one that goes down again and again. */
static void
say_down(struct brain *b, struct str server, struct brain_down *d,
	 const struct call_got *got)
{
	uint64_t now = loop_now_ms(b->control->loop);
	enum status st = got->st == ST_OK && got->http == 401 ? ST_SERVER_KEY : got->st;

	if (d->is_said || (d->said_ms != 0 && now - d->said_ms < SAID_MS) ||
	    (st != ST_OK && !is_of_server(st)))
		return;
	d->is_said = true;
	d->said_ms = now;
	if (st == ST_OK)
		log_error(&b->control->role.log,
			  "execution server %.*s is down: it answers %u",
			  STR_ARG(server), got->http);
	else
		log_error(&b->control->role.log,
			  "execution server %.*s is down: %s: %s", STR_ARG(server),
			  status_code(st), status_words(st)->sentence);
}

static void
is_up(struct brain *b, struct str server)
{
	struct brain_down *d = map_get(&b->down, server);

	if (d == NULL)
		return;
	d->until_ms = 0;
	if (d->is_said)
		log_info(&b->control->role.log, "execution server %.*s is up again",
			 STR_ARG(server));
	d->is_said = false;
}

void
brain_server_told(struct brain *b, struct str server, const struct call_got *got)
{
	struct brain_down *d;

	if (got->st == ST_LIMIT_USER)
		return; /* it heard nothing */
	if (got->st == ST_OK && !brain_is_unasked(got)) {
		is_up(b, server);
		return;
	}
	d = state_of(b, server);
	if (d == NULL)
		return;
	d->until_ms = loop_now_ms(b->control->loop) + BRAIN_DOWN_MS;
	say_down(b, server, d, got);
}

/* Sandboxes without a way out. */

void
brain_server_unbound(struct brain *b, struct str server, enum status st)
{
	struct brain_down *d = state_of(b, server);

	if (d != NULL)
		d->unbound_st = st;
}

static void
count(struct brain *b, const struct brain_sandbox *box)
{
	struct brain_down *d =
		brain_is_unbound(b, box) ? state_of(b, box->server) : NULL;

	if (d != NULL)
		d->unbound++;
}

void
brain_servers_count(struct brain *b)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(&b->down, &at, &key, &value);)
		((struct brain_down *)value)->unbound = 0;
	brain_each(b, BRAIN_BIT(BRAIN_RUNNING) | BRAIN_BIT(BRAIN_PAUSED), count);
}

size_t
brain_server_unbound_n(const struct brain *b, struct str server, enum status *ret_st)
{
	const struct brain_down *d = map_get(&b->down, server);

	if (d == NULL)
		return 0;
	*ret_st = d->unbound_st;
	return d->unbound;
}

void
brain_down_close(struct brain *b)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(&b->down, &at, &key, &value);)
		free(value);
	map_done(&b->down);
}
