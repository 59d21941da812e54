#include <stdlib.h>
#include <unistd.h>

#include "connectors/bond_in.h"

enum { ARENA_MAX = 64 * 1024, BONDS_MAX = 4096 };

struct bond_wait {
	struct list link; /* bond->waits */
	struct connector *all;
	bond_fn fn;
	void *ctx;
};

static uint64_t
now(const struct bond *b)
{
	return loop_now_ms(b->all->loop);
}

void
bond_to(struct bond *b, enum bond_state s)
{
	static const unsigned legal[] = {
		[BOND_IDLE] = 1u << BOND_SOON,
		[BOND_SOON] = 1u << BOND_LEASE | 1u << BOND_ROTATE | 1u << BOND_IDLE,
		[BOND_LEASE] = 1u << BOND_CALL | 1u << BOND_IDLE,
		[BOND_CALL] = 1u << BOND_ROTATE | 1u << BOND_IDLE,
		[BOND_ROTATE] = 1u << BOND_IDLE,
	};

	need((legal[b->state] & 1u << s) != 0);
	b->state = s;
}

static bool
is_usable(const struct bond *b)
{
	return b->is_durable &&
	       token_is_fresh(&b->token, connector_now_s(), BOND_SKEW_S);
}

static void
bond_free(struct bond *b)
{
	bond_stop(b);
	token_done(&b->token);
	list_remove(&b->link);
	arena_done(&b->arena);
	loop_defer(b->all->loop, free, b);
}

static struct bond_token
held_token(const struct bond *b)
{
	return (struct bond_token){ b->token.shown, b->version, b->serial };
}

void
bond_finish(struct bond *b, enum status st)
{
	struct list waits;
	struct list *it;

	bond_stop(b);
	if (b->state != BOND_IDLE)
		bond_to(b, BOND_IDLE);
	b->failed = st;
	b->failed_ms = now(b);
	if (st != ST_OK)
		log_info(&b->all->role.log, "connector %.*s: no token: %s",
			 STR_ARG(b->name), status_code(st));
	/* Whoever is told may ask again, or cancel another. */
	list_init(&waits);
	while ((it = list_pop(&b->waits)) != NULL)
		list_append(&waits, it);
	while ((it = list_pop(&waits)) != NULL) {
		struct bond_wait *w = LIST_OF(it, struct bond_wait, link);
		struct bond_token t = held_token(b);
		loop_defer(b->all->loop, free, w);
		w->fn(w->ctx, st, &t);
	}
	if (b->is_old && list_is_empty(&b->waits))
		bond_free(b);
}

void
bond_cancel(struct bond_wait *w)
{
	if (w == NULL)
		return;
	list_remove(&w->link);
	loop_defer(w->all->loop, free, w);
}

static struct bond *
find(struct connector *all, struct str name, struct str user)
{
	list_each (it, &all->bonds) {
		struct bond *b = LIST_OF(it, struct bond, link);
		if (!b->is_old && str_eq(b->name, name) && str_eq(b->user, user))
			return b;
	}
	return NULL;
}

static size_t
bonds_n(const struct connector *all)
{
	size_t n = 0;

	list_each (it, &all->bonds)
		n++;
	return n;
}

static struct bond *
bond_new(struct connector *all, const struct image_connector *at, struct str user)
{
	struct bond *b = bonds_n(all) < BONDS_MAX ? calloc(1, sizeof *b) : NULL;
	const struct image *im = all->role.image;

	if (b == NULL)
		return NULL;
	b->all = all;
	b->sandbox = -1;
	arena_init(&b->arena, ARENA_MAX);
	list_init(&b->waits);
	auth_conf_from(im, &at->auth, &b->conf);
	b->name = arena_copy(&b->arena, image_str(im, at->name));
	b->user = user.n == 0 ? STR("") : arena_copy(&b->arena, user);
	if (auth_conf_keep(&b->conf, &b->arena) != ST_OK || b->name.p == NULL ||
	    b->user.p == NULL) {
		arena_done(&b->arena);
		free(b);
		return NULL;
	}
	list_append(&all->bonds, &b->link);
	return b;
}

static struct bond *
bond_for(struct connector *all, const struct bond_wish *wish, bool may_make)
{
	const struct image_connector *at = connector_at(all, wish->connector);
	struct str user =
		at != NULL && at->auth.is_delegated ? wish->who->user : STR("");
	struct bond *b;

	if (at == NULL)
		return NULL;
	b = find(all, image_str(all->role.image, at->name), user);
	return b == NULL && may_make ? bond_new(all, at, user) : b;
}

static enum status
wait_for(struct bond *b, bond_fn fn, void *ctx, struct bond_wait **ret_w)
{
	struct bond_wait *w = calloc(1, sizeof *w);

	if (w == NULL)
		return ST_NOMEM;
	*w = (struct bond_wait){ .all = b->all, .fn = fn, .ctx = ctx };
	list_append(&b->waits, &w->link);
	*ret_w = w;
	return ST_AGAIN;
}

enum status
bond_get(struct connector *all, const struct bond_wish *wish, bond_fn fn, void *ctx,
	 struct bond_token *ret_t, struct bond_wait **ret_w)
{
	struct bond *b = bond_for(all, wish, true);
	enum status st;

	if (b == NULL)
		return ST_NOMEM;
	if (is_usable(b)) {
		*ret_t = held_token(b);
		return ST_OK;
	}
	/* A service that just said no is not asked by each request anew. */
	if (b->state == BOND_IDLE && b->failed != ST_OK &&
	    now(b) - b->failed_ms < BOND_PAUSE_MS)
		return b->failed;
	st = wait_for(b, fn, ctx, ret_w);
	if (st == ST_AGAIN && b->state == BOND_IDLE)
		bond_run(b, wish->sandbox);
	return st;
}

void
bond_refused(struct connector *all, const struct bond_wish *wish, uint64_t serial)
{
	struct bond *b = bond_for(all, wish, false);

	/* By now it may have another one. */
	if (b != NULL && b->state == BOND_IDLE && b->serial == serial && b->is_durable)
		token_done(&b->token);
}

static bool
is_same(const struct bond *b)
{
	const struct image *im = b->all->role.image;
	uint32_t index = image_connector_by_name(im, b->name);
	struct auth_conf now_conf;

	if (index == CONNECTOR_NONE)
		return false;
	auth_conf_from(im, &connector_at(b->all, index)->auth, &now_conf);
	return auth_conf_same(&b->conf, &now_conf);
}

void
bonds_renew(struct connector *all)
{
	list_each_safe (it, &all->bonds) {
		struct bond *b = LIST_OF(it, struct bond, link);
		if (b->is_old || is_same(b))
			continue;
		b->is_old = true;
		if (b->state == BOND_IDLE)
			bond_free(b);
	}
}

/* One that runs is seen through, or its new refresh token would be lost; what it brings is
 * old. */
void
bonds_revoke(struct connector *all, bool (*fn)(const void *ctx, uint32_t connector),
	     const void *ctx)
{
	list_each_safe (it, &all->bonds) {
		struct bond *b = LIST_OF(it, struct bond, link);
		uint32_t index = image_connector_by_name(all->role.image, b->name);
		if (b->is_old || index == CONNECTOR_NONE || !fn(ctx, index))
			continue;
		b->failed = ST_OK;
		if (b->state != BOND_IDLE)
			b->is_old = true;
		else if (b->is_durable)
			token_done(&b->token);
	}
}

void
bonds_done(struct connector *all)
{
	list_each_safe (it, &all->bonds)
		bond_free(LIST_OF(it, struct bond, link));
}
