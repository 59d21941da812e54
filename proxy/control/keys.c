#include "proxy/control/keys.h"

#include <stdlib.h>
#include <string.h>

#include "conf/image.h"
#include "proxy/base/clock.h"
#include "proxy/base/num.h"
#include "proxy/control/brain_store.h"
#include "proxy/control/issuers.h"
#include "proxy/control/keys_in.h"
#include "proxy/control/principal.h"

enum { FAILURES_PER_SECOND = 20, USED_MS = 60000, USED_MAX = 10000 };

_Static_assert((int)SCOPE_RUN == (int)EXEC_SCOPE_RUN &&
		       (int)SCOPE_READ == (int)EXEC_SCOPE_READ &&
		       (int)SCOPE_FILES == (int)EXEC_SCOPE_FILES &&
		       (int)SCOPE_EGRESS == (int)EXEC_SCOPE_EGRESS &&
		       (int)SCOPE_ALL == (int)EXEC_SCOPES_ALL,
	       "an image's scopes are taken over");

/* When keys were used: written by the minute, all at once. */

void
keys_write_used(struct keys *k)
{
	struct str id;
	void *when;
	size_t at = 0;
	enum status st = ST_OK;

	loop_timer_clear(&k->used_timer);
	if (k->used.len == 0)
		return;
	st = sql_begin(k->store.db);
	while (st == ST_OK && map_next(&k->used, &at, &id, &when))
		st = key_store_used(&k->store, id, (uint64_t)(uintptr_t)when);
	st = sql_end(k->store.db, st);
	if (st != ST_OK)
		log_error(&k->control->role.log, "when keys were used: %s",
			  status_code(st));
	map_done(&k->used);
	map_init(&k->used, USED_MAX);
}

static void
on_used(void *ctx)
{
	keys_write_used(ctx);
}

/* The value is the time itself. */
static void
note_used(struct keys *k, const struct principal *p, uint64_t now_s)
{
	enum status st =
		map_put(&k->used, str_from(p->key_id), (void *)(uintptr_t)now_s);

	if (st == ST_OK && !loop_timer_is_set(&k->used_timer))
		loop_timer_set(&k->used_timer, USED_MS);
}

/* Who it is. */

static enum status
by_key(struct keys *k, const struct moment *now, struct str key,
       struct principal *ret_p)
{
	uint8_t hash[KEY_HASH];

	/* Others have another form, and then there is nothing to look for. */
	if (key.n != KEY_TEXT || !str_starts(key, STR("sgk_")))
		return ST_KEY_INVALID;
	token_hash(key, hash);
	enum status st = key_store_find(&k->store, hash, now->wall_s, ret_p);
	if (st == ST_OK)
		note_used(k, ret_p, now->wall_s);
	return st;
}

/* What its key or issuer is good for at this time, and no more than it was. */
static enum status
narrow(struct keys *k, const struct moment *now, struct principal *p)
{
	struct str id = str_from(p->key_id);
	struct principal made;

	if (str_starts(id, STR("jwt-"))) {
		if (!issuers_allow(k->issuers, id, &made.scopes, &made.may_delegate))
			return ST_KEY_INVALID;
	} else {
		enum status st = key_store_find_id(&k->store, id, now->wall_s, &made);
		if (st != ST_OK)
			return st;
		note_used(k, &made, now->wall_s);
	}
	if (p->on_behalf_of[0] != '\0' && !made.may_delegate)
		return ST_MAY_NOT_DELEGATE;
	p->scopes &= made.scopes;
	p->may_delegate = p->may_delegate && made.may_delegate;
	return ST_OK;
}

/* Not for the server's own API: what goes on with an endpoint must not get endpoints. */
static enum status
by_capability(struct keys *k, const struct moment *now, const struct place_wish *w,
	      struct principal *ret_p)
{
	const struct capability c = { .sandbox = w->sandbox,
				      .port = w->port,
				      .expires_s = now->wall_s };
	struct principal p;

	if (w->op >= EXEC_OP_COUNT || !op_is_inside((enum exec_op)w->op))
		return ST_KEY_INVALID;
	enum status st = capability_check(w->capability, k->mac, &c, &p);
	if (st == ST_OK)
		st = narrow(k, now, &p);
	if (st == ST_OK)
		*ret_p = p;
	return st;
}

/* Some clients can send nothing but a bearer. */
static enum status
by_bearer(struct keys *k, const struct moment *now, const struct place_wish *w,
	  struct keys_wait *wait, struct principal *ret_p)
{
	if (str_starts(w->bearer, STR("sgk_")))
		return by_key(k, now, w->bearer, ret_p);
	return issuers_principal(k->issuers, now, w->bearer, wait, ret_p);
}

bool
keys_has_bearer(struct keys *k, const struct place_wish *w)
{
	return w->bearer.n > 0 && (str_starts(w->bearer, STR("sgk_")) ||
				   issuers_mean(k->issuers, w->bearer));
}

static enum status
identify(struct keys *k, const struct moment *now, const struct place_wish *w,
	 struct keys_wait *wait, struct principal *ret_p)
{
	enum status st = ST_KEY_MISSING;

	if (w->key.n > 0)
		return by_key(k, now, w->key, ret_p);
	if (w->capability.n > 0) {
		st = by_capability(k, now, w, ret_p);
		if (st != ST_KEY_INVALID)
			return st;
	}
	return w->bearer.n > 0 ? by_bearer(k, now, w, wait, ret_p) : st;
}

/* What he says of himself.  In a capability it stands already; what comes with the request
 * is newer. */
static enum status
take_words(const struct place_wish *w, struct principal *p)
{
	struct str other = w->on_behalf_of;
	enum status st = ST_OK;

	if (other.n > 0 && !str_eq(other, str_from(p->user)) &&
	    !str_eq(other, str_from(p->on_behalf_of))) {
		st = p->may_delegate ? principal_set(p->on_behalf_of, other)
				     : ST_MAY_NOT_DELEGATE;
	} else if (other.n > 0 && str_eq(other, str_from(p->user))) {
		st = principal_set(p->on_behalf_of, STR("")); /* himself */
	}
	if (st == ST_OK && w->session.n > 0)
		st = principal_set(p->session, w->session);
	if (st == ST_OK && w->task.n > 0)
		st = principal_set(p->task, w->task);
	if (st == ST_OK)
		principal_own(p);
	return st;
}

/* Only failures count, and a right key always passes: nobody is locked out by someone else's
 * guesses. */
static enum status
failed(struct keys *k, uint64_t now_ms)
{
	if (now_ms - k->failures_ms >= 1000) {
		k->failures_ms = now_ms;
		k->failures = 0;
	}
	return ++k->failures > FAILURES_PER_SECOND ? ST_LIMIT_RATE : ST_KEY_INVALID;
}

enum status
keys_principal(struct keys *k, const struct place_wish *w, struct keys_wait *wait,
	       struct principal *ret_p)
{
	const struct moment now = { .wall_s = keys_now_s(),
				    .mono_ms = loop_now_ms(k->control->loop) };
	struct principal p;
	enum status st = identify(k, &now, w, wait, &p);

	if (st == ST_KEY_INVALID)
		return failed(k, now.mono_ms);
	if (st == ST_OK)
		st = take_words(w, &p);
	if (st == ST_OK)
		*ret_p = p;
	return st;
}

void
keys_put_capability(struct keys *k, struct buf *b, const struct capability *c)
{
	capability_put(b, k->mac, c);
}

/* All of it. */

uint64_t
keys_now_s(void)
{
	return clock_wall_us() / 1000000;
}

enum status
keys_open(struct control *c, struct brain_store *store, struct keys **ret_k)
{
	struct keys *k = calloc(1, sizeof *k);
	enum status st;

	if (k == NULL)
		return ST_NOMEM;
	k->control = c;
	map_init(&k->used, USED_MAX);
	loop_timer_init(&k->used_timer, c->loop, on_used, k);
	st = key_store_init(&k->store, brain_store_db(store));
	if (st == ST_OK)
		st = brain_store_secret(store, STR("capability"), k->mac);
	if (st == ST_OK)
		st = issuers_new(c, &k->issuers);
	if (st == ST_OK)
		*ret_k = k;
	else
		keys_close(k);
	return st;
}

void
keys_close(struct keys *k)
{
	if (k == NULL)
		return;
	if (k->store.db != NULL)
		keys_write_used(k);
	loop_timer_clear(&k->used_timer);
	map_done(&k->used);
	issuers_free(k->issuers);
	key_store_done(&k->store);
	free(k);
}
