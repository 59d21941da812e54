/* Which server of a tier a sandbox goes to. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "proxy/control/brain.h"
#include "proxy/control/ca_file.h"

struct brain_down {
	uint64_t until_ms;
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

void
brain_server_told(struct brain *b, struct str server, const struct call_got *got)
{
	struct brain_down *d = map_get(&b->down, server);

	if (got->st == ST_OK && !brain_is_unasked(got)) {
		free(map_take(&b->down, server));
		return;
	}
	if (d == NULL) {
		d = calloc(1, sizeof *d);
		if (d == NULL || map_put(&b->down, server, d) != ST_OK) {
			free(d);
			return;
		}
	}
	d->until_ms = loop_now_ms(b->control->loop) + BRAIN_DOWN_MS;
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
