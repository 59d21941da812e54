#include "conf/who.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conf/policy.h"
#include "conf/who_private.h"

/* Older headers of the C library lack them; the numbers are the kernel's ABI. */
#ifndef SO_COOKIE
#define SO_COOKIE 57
#endif
#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

enum { GRANTS_MAX = 65536, GRANTS_LOOK = 64, ATTACHED_MAX = 65536 };

static bool
cookie_of(int fd, int which, uint64_t *ret_cookie)
{
	uint64_t cookie = 0;
	socklen_t n = sizeof cookie;

	if (getsockopt(fd, SOL_SOCKET, which, &cookie, &n) != 0 || n != sizeof cookie)
		return false;
	*ret_cookie = cookie;
	return true;
}

static uint64_t
own_netns_cookie(void)
{
	uint64_t cookie = 0;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return 0;
	if (!cookie_of(fd, SO_NETNS_COOKIE, &cookie))
		cookie = 0;
	(void)close(fd);
	return cookie;
}

enum status
who_new(struct who_table **ret_t)
{
	struct who_table *t = calloc(1, sizeof *t);

	if (t == NULL)
		return ST_NOMEM;
	t->grants = calloc(GRANTS_MAX, sizeof *t->grants);
	if (t->grants == NULL) {
		free(t);
		return ST_NOMEM;
	}
	map_init(&t->by_handle, ATTACHED_MAX);
	map_init(&t->by_cookie, ATTACHED_MAX);
	map_init(&t->by_source, (size_t)ATTACHED_MAX * WHO_SOURCES);
	map_init(&t->granted, GRANTS_MAX);
	t->own_netns = own_netns_cookie();
	*ret_t = t;
	return ST_OK;
}

void
who_free(struct who_table *t)
{
	size_t at = 0;
	struct str key;
	void *value;

	if (t == NULL)
		return;
	while (map_next(&t->by_handle, &at, &key, &value))
		who_attached_free(value);
	map_done(&t->by_handle);
	map_done(&t->by_cookie);
	map_done(&t->by_source);
	map_done(&t->granted);
	free(t->grants);
	free(t->statics);
	free(t);
}

static struct who
static_who(const struct image *im, const struct image_sandbox *s, uint32_t index)
{
	return (struct who){ .handle = 1 + index,
			     .may = mandate_of(s->policy),
			     .limits = s->limits,
			     .id = image_str(im, s->id),
			     .user = image_str(im, s->user),
			     .agent = image_str(im, s->agent),
			     .session = image_str(im, s->session),
			     .trusts_ca = s->trusts_ca != 0 };
}

/* Handles are indices, and tokens change: a grant follows its sandbox by id, and ends
 * with the token that it was given for. */
static uint32_t
handle_after(const struct who_table *t, const struct image *im, uint32_t handle)
{
	size_t old_n, n;
	const struct image_sandbox *old = image_sandboxes(t->image, &old_n), *s;

	if (handle >= HANDLE_ATTACHED)
		return handle;
	if (handle == HANDLE_NONE || handle > old_n)
		return HANDLE_NONE;
	old += handle - 1;
	s = image_sandbox_by_id(im, image_str(t->image, old->id));
	if (s == NULL ||
	    memcmp(s->token_hash, old->token_hash, sizeof s->token_hash) != 0 ||
	    !str_eq(image_str(im, s->token), image_str(t->image, old->token)))
		return HANDLE_NONE;
	return 1 + (uint32_t)(s - image_sandboxes(im, &n));
}

static void
carry_grants(struct who_table *t, const struct image *im)
{
	size_t at = 0;
	struct str key;
	void *value;

	while (t->image != NULL && map_next(&t->granted, &at, &key, &value)) {
		struct grant *g = value;
		g->handle = handle_after(t, im, g->handle);
	}
}

enum status
who_set_image(struct who_table *t, const struct image *im)
{
	size_t n, at = 0;
	const struct image_sandbox *s = image_sandboxes(im, &n);
	struct str key;
	void *value;

	if (n >= HANDLE_ATTACHED)
		return ST_TOO_BIG;
	struct who *statics = calloc(n + 1, sizeof *statics);
	if (statics == NULL)
		return ST_NOMEM;
	for (size_t i = 0; i < n; i++)
		statics[i] = static_who(im, &s[i], (uint32_t)i);
	carry_grants(t, im);
	free(t->statics);
	t->statics = statics;
	t->statics_n = n;
	t->image = im;
	while (map_next(&t->by_handle, &at, &key, &value)) {
		struct attached *a = value;
		a->who.may.policy = image_policy_by_name(im, a->policy);
	}
	return ST_OK;
}

/* Whoever has been granted so many makes room himself: the next few are looked through for
 * one that is free or of the same sandbox, before another's goes. */
static struct grant *
grant_room(struct who_table *t, uint32_t handle)
{
	size_t at = t->grants_next;

	for (size_t i = 0; i < GRANTS_LOOK; i++) {
		size_t next = (t->grants_next + i) % GRANTS_MAX;
		const struct grant *g = &t->grants[next];
		if (g->cookie != 0 && g->handle != handle)
			continue;
		at = next;
		break;
	}
	t->grants_next = (at + 1) % GRANTS_MAX;
	return &t->grants[at];
}

enum status
who_grant(struct who_table *t, uint64_t socket_cookie, uint32_t handle)
{
	struct str key = who_key(&socket_cookie, sizeof socket_cookie);
	struct grant *g = map_get(&t->granted, key);

	if (socket_cookie == 0)
		return ST_BAD_MESSAGE;
	if (g != NULL) {
		g->handle = handle;
		return ST_OK;
	}
	g = grant_room(t, handle);
	if (g->cookie != 0)
		(void)map_take(&t->granted, who_key(&g->cookie, sizeof g->cookie));
	*g = (struct grant){ socket_cookie, handle };
	enum status st = map_put(&t->granted, key, g);
	if (st != ST_OK)
		*g = (struct grant){ 0, 0 };
	return st;
}

const struct who *
who_by_addr(struct who_table *t, const struct addr *a)
{
	size_t n;

	if (t->image == NULL)
		return NULL;
	const struct image_sandbox *s = image_sandbox_by_source(t->image, a);
	if (s != NULL)
		return &t->statics[s - image_sandboxes(t->image, &n)];
	const struct attached *found = who_attached_at(t, a);
	return found == NULL ? NULL : &found->who;
}

static const struct who *
by_peer(struct who_table *t, int fd, const struct sockaddr_storage *peer)
{
	struct sockaddr_storage ss;
	socklen_t n = sizeof ss;
	struct addr a;
	uint16_t port;

	if (peer == NULL && getpeername(fd, (struct sockaddr *)&ss, &n) != 0)
		return NULL;
	peer = peer == NULL ? &ss : peer;
	if (!addr_from_sockaddr((const struct sockaddr *)peer, &a, &port))
		return NULL;
	return who_by_addr(t, &a);
}

/* True if the socket lives in a namespace that isn't ours: then *ret_w is the answer,
 * whatever its addresses look like. */
static bool
is_foreign(struct who_table *t, int fd, const struct who **ret_w)
{
	uint64_t cookie;

	if (!cookie_of(fd, SO_NETNS_COOKIE, &cookie)) {
		/* Without an answer the namespace is unknown.  If the kernel told us
		 * our own, this is no socket of a sandbox. */
		*ret_w = NULL;
		return t->own_netns != 0;
	}
	if (cookie == t->own_netns)
		return false;
	struct attached *a = map_get(&t->by_cookie, who_key(&cookie, sizeof cookie));
	*ret_w = a == NULL ? NULL : &a->who;
	return true;
}

const struct who *
who_by_socket(struct who_table *t, int fd)
{
	return who_by_peer(t, fd, NULL);
}

const struct who *
who_by_peer(struct who_table *t, int fd, const struct sockaddr_storage *peer)
{
	const struct who *w = NULL;
	uint64_t cookie;

	if (is_foreign(t, fd, &w))
		return w;
	w = by_peer(t, fd, peer);
	if (w != NULL || !cookie_of(fd, SO_COOKIE, &cookie))
		return w;
	const struct grant *g = map_get(&t->granted, who_key(&cookie, sizeof cookie));
	return g == NULL ? NULL : who_by_handle(t, g->handle);
}

const struct who *
who_by_source(struct who_table *t, int fd, const struct addr *source)
{
	const struct who *w = NULL;

	return is_foreign(t, fd, &w) ? w : who_by_addr(t, source);
}

const struct who *
who_by_handle(struct who_table *t, uint32_t handle)
{
	if (handle >= HANDLE_ATTACHED) {
		struct attached *a =
			map_get(&t->by_handle, who_key(&handle, sizeof handle));
		return a == NULL ? NULL : &a->who;
	}
	return handle == HANDLE_NONE || handle > t->statics_n ? NULL
							      : &t->statics[handle - 1];
}

const struct who *
who_by_id(struct who_table *t, struct str id)
{
	size_t n, at = 0;
	const struct image_sandbox *s =
		t->image == NULL ? NULL : image_sandbox_by_id(t->image, id);

	if (s != NULL)
		return &t->statics[s - image_sandboxes(t->image, &n)];
	for (const struct who *w = who_next(t, &at); w != NULL; w = who_next(t, &at))
		if (str_eq(w->id, id))
			return w;
	return NULL;
}

/* Below statics_n an index of statics, from there on a place in by_handle. */
const struct who *
who_next(struct who_table *t, size_t *at)
{
	struct str key;
	void *value;

	if (*at < t->statics_n)
		return &t->statics[(*at)++];
	size_t slot = *at - t->statics_n;
	if (!map_next(&t->by_handle, &slot, &key, &value))
		return NULL;
	*at = t->statics_n + slot;
	return &((struct attached *)value)->who;
}
