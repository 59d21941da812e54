#include <stdlib.h>
#include <string.h>

#include "conf/policy.h"
#include "conf/who_private.h"

/* Those that come while the gateway runs. */

void
who_attached_free(struct attached *a)
{
	narrow_free(a->narrow);
	free(a->text);
	free(a);
}

static struct str
place(char **at, struct str s)
{
	struct str copy = { *at, s.n };

	if (s.n > 0)
		memcpy(*at, s.p, s.n);
	*at += s.n;
	return copy;
}

/* Everything of the entry but where it is known by. */
static enum status
fill(struct attached *a, const struct image *im, const struct who_entry *e)
{
	size_t n = e->id.n + e->user.n + e->agent.n + e->session.n + e->policy.n;
	struct narrow *narrow = e->narrow == NULL ? NULL : narrow_new(*e->narrow);
	char *at = malloc(n + 1);

	if (at == NULL || (e->narrow != NULL && narrow == NULL)) {
		free(at);
		narrow_free(narrow);
		return ST_NOMEM;
	}
	free(a->text);
	narrow_free(a->narrow);
	a->text = at;
	a->narrow = narrow;
	a->who.handle = e->handle;
	a->who.id = place(&at, e->id);
	a->who.user = place(&at, e->user);
	a->who.agent = place(&at, e->agent);
	a->who.session = place(&at, e->session);
	a->policy = place(&at, e->policy);
	a->who.trusts_ca = e->trusts_ca;
	a->who.may.policy =
		im == NULL ? POLICY_NONE : image_policy_by_name(im, a->policy);
	a->who.may.narrow = narrow;
	a->who.revision++;
	return ST_OK;
}

/* Keys are octets: none of them by chance. */
static struct addr
source_key(const struct addr *a)
{
	struct addr key;

	memset(&key, 0, sizeof key);
	key.family = a->family;
	memcpy(key.b, a->b, a->family == 4 ? 4 : sizeof key.b);
	return key;
}

static void
forget_places(struct who_table *t, struct attached *a)
{
	struct str cookie = who_key(&a->who.netns_cookie, sizeof a->who.netns_cookie);

	if (map_get(&t->by_cookie, cookie) == a)
		(void)map_take(&t->by_cookie, cookie);
	for (size_t i = 0; i < a->who.sources_n; i++) {
		struct str key = who_key(&a->sources[i], sizeof a->sources[i]);
		if (map_get(&t->by_source, key) == a)
			(void)map_take(&t->by_source, key);
	}
	a->who.netns_cookie = 0;
	a->who.sources_n = 0;
}

static enum status
put_once(struct map *m, struct str key, struct attached *a)
{
	const struct attached *other = map_get(m, key);

	return other != NULL && other != a ? ST_CONFLICT : map_put(m, key, a);
}

static enum status
put_source(struct who_table *t, struct attached *a, const struct addr *source)
{
	struct addr key = source_key(source);

	if (t->image != NULL && image_sandbox_by_source(t->image, &key) != NULL)
		return ST_CONFLICT;
	enum status st = put_once(&t->by_source, who_key(&key, sizeof key), a);
	if (st == ST_OK)
		a->sources[a->who.sources_n++] = key;
	return st;
}

static enum status
put_places(struct who_table *t, struct attached *a, const struct who_entry *e)
{
	enum status st = ST_OK;

	forget_places(t, a);
	if (e->netns_cookie != 0)
		st = put_once(&t->by_cookie,
			      who_key(&e->netns_cookie, sizeof e->netns_cookie), a);
	if (st == ST_OK)
		a->who.netns_cookie = e->netns_cookie;
	for (size_t i = 0; i < e->sources_n && st == ST_OK; i++)
		st = put_source(t, a, &e->sources[i]);
	return st;
}

/* The own namespace is everyone's: attaching to it would give all traffic away. */
static bool
is_entry(const struct who_table *t, const struct who_entry *e)
{
	if (e->handle < HANDLE_ATTACHED || e->sources_n > WHO_SOURCES)
		return false;
	return e->netns_cookie == 0 ? e->sources_n > 0
				    : e->netns_cookie != t->own_netns;
}

static enum status
attached_new(struct who_table *t, struct str handle, struct attached **ret_a)
{
	struct attached *a = calloc(1, sizeof *a);

	if (a == NULL)
		return ST_NOMEM;
	a->who.sources = a->sources;
	enum status st = map_put(&t->by_handle, handle, a);
	if (st == ST_OK)
		*ret_a = a;
	else
		free(a);
	return st;
}

enum status
who_attach(struct who_table *t, const struct who_entry *e)
{
	struct str key = who_key(&e->handle, sizeof e->handle);
	struct attached *a = map_get(&t->by_handle, key);
	bool is_new = a == NULL;
	enum status st = is_entry(t, e) ? ST_OK : ST_BAD_MESSAGE;

	if (st == ST_OK && is_new)
		st = attached_new(t, key, &a);
	if (a == NULL)
		return st;
	if (st == ST_OK)
		st = fill(a, t->image, e);
	if (st == ST_OK)
		st = put_places(t, a, e);
	if (st != ST_OK)
		forget_places(t, a);
	if (st != ST_OK && is_new)
		who_detach(t, e->handle);
	return st;
}

void
who_detach(struct who_table *t, uint32_t handle)
{
	struct attached *a = map_take(&t->by_handle, who_key(&handle, sizeof handle));

	if (a == NULL)
		return;
	forget_places(t, a);
	who_attached_free(a);
}

const struct attached *
who_attached_at(const struct who_table *t, const struct addr *a)
{
	struct addr key = source_key(a);

	return map_get(&t->by_source, who_key(&key, sizeof key));
}
