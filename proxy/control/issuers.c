#include "proxy/control/issuers.h"

#include <stdlib.h>
#include <string.h>

#include "conf/policy.h"
#include "proxy/base/enc.h"
#include "proxy/control/call.h"
#include "proxy/control/jwt.h"
#include "proxy/control/principal.h"

enum { ISSUERS_MAX = 16, NAME_MAX_OCTETS = 16384, ID_OCTETS = 8 };

struct issuer {
	struct issuers *all;
	struct buf name; /* what it is the same by after a reload */
	char key_id[32];
	struct jwks *keys; /* NULL: none yet, or too old */
	bool is_fetched;   /* not a file's */
	bool is_tried;
	uint64_t fetched_ms, tried_ms;
	struct call *call; /* NULL: nothing is under way */
	struct list waiting;
};

struct issuers { /* in the order of the image's */
	struct control *control;
	struct issuer *of[ISSUERS_MAX];
	size_t n;
	uint64_t generation; /* of the image that they are of */
	bool is_read;
	struct list woken;
	struct loop_timer wake;
};

/* Who waits. */

static void
on_wake(void *ctx)
{
	struct issuers *all = ctx;
	struct list *link;

	/* Who asks again from inside waits in an issuer's list, not here. */
	while ((link = list_pop(&all->woken)) != NULL) {
		struct keys_wait *w = LIST_OF(link, struct keys_wait, link);
		w->is_waiting = false;
		w->fn(w->ctx);
	}
}

static void
wake_all(struct issuer *i)
{
	struct list *link;

	while ((link = list_pop(&i->waiting)) != NULL)
		list_append(&i->all->woken, link);
	if (!list_is_empty(&i->all->woken))
		loop_timer_set(&i->all->wake, 0);
}

void
keys_unwait(struct keys_wait *w)
{
	if (!w->is_waiting)
		return;
	list_remove(&w->link);
	w->is_waiting = false;
}

static enum status
wait_for(struct issuer *i, struct keys_wait *w)
{
	need(!w->is_waiting);
	w->is_waiting = true;
	list_append(&i->waiting, &w->link);
	return ST_AGAIN;
}

/* One issuer. */

static void
issuer_free(struct issuer *i)
{
	call_cancel(i->call);
	wake_all(i);
	jwks_free(i->keys);
	buf_done(&i->name);
	free(i);
}

static void
put_name(struct buf *b, const struct image *im, const struct image_exec_jwt *j)
{
	size_t n;
	const struct image_connector *of = image_connectors(im, &n);

	/* None of these can hold a line's end. */
	buf_put(b, image_str(im, j->issuer));
	buf_putc(b, '\n');
	buf_put(b, image_str(im, j->audience));
	buf_putc(b, '\n');
	if (j->jwks_connector < n)
		buf_put(b, image_str(im, of[j->jwks_connector].name));
	buf_putc(b, '\n');
	buf_put(b, image_str(im, j->jwks_path));
}

/* By issuer and audience: a capability counts on when the way to the keys has changed. */
static enum status
make_key_id(const struct image *im, const struct image_exec_jwt *j, char ret_id[32])
{
	CLEANUP(buf_done) struct buf who = { 0 };
	CLEANUP(buf_done) struct buf id = { 0 };
	uint8_t hash[32];

	buf_init(&who, NAME_MAX_OCTETS);
	buf_init(&id, 32);
	buf_put(&who, image_str(im, j->issuer));
	buf_putc(&who, '\n');
	buf_put(&who, image_str(im, j->audience));
	token_hash(str_of(who.p, who.len), hash);
	buf_put(&id, STR("jwt-"));
	enc_put_hex(&id, str_of(hash, ID_OCTETS));
	if (who.st != ST_OK || buf_cstr(&id) == NULL)
		return ST_NOMEM;
	memcpy(ret_id, buf_cstr(&id), id.len + 1);
	return ST_OK;
}

static enum status
issuer_new(struct issuers *all, const struct image_exec_jwt *j, struct issuer **ret_i)
{
	const struct image *im = all->control->role.image;
	struct issuer *i = calloc(1, sizeof *i);
	enum status st;

	if (i == NULL)
		return ST_NOMEM;
	i->all = all;
	i->is_fetched = image_str(im, j->jwks).n == 0;
	list_init(&i->waiting);
	buf_init(&i->name, NAME_MAX_OCTETS);
	put_name(&i->name, im, j);
	st = i->name.st == ST_OK ? make_key_id(im, j, i->key_id) : ST_NOMEM;
	if (st == ST_OK && !i->is_fetched)
		st = jwks_new(image_str(im, j->jwks), &i->keys);
	if (st != ST_OK && st != ST_UPSTREAM_BAD) {
		issuer_free(i);
		return st;
	}
	*ret_i = i;
	return ST_OK;
}

/* The image in force. */

/* The same as one before, with what was fetched; that one's place is empty then. */
static struct issuer *
take_old(struct issuer **old, size_t n, const struct issuer *i)
{
	for (size_t k = 0; k < n; k++) {
		struct issuer *o = old[k];
		if (o == NULL || !o->is_fetched || !i->is_fetched ||
		    !str_eq(str_of(o->name.p, o->name.len),
			    str_of(i->name.p, i->name.len)))
			continue;
		old[k] = NULL;
		return o;
	}
	return NULL;
}

static enum status
read_image(struct issuers *all, struct issuer **old, size_t old_n)
{
	size_t n;
	const struct image_exec_jwt *of = image_exec_jwts(all->control->role.image, &n);

	for (size_t k = 0; k < n && k < ISSUERS_MAX; k++) {
		struct issuer *i = NULL, *same;
		enum status st = issuer_new(all, &of[k], &i);
		if (st != ST_OK)
			return st;
		same = take_old(old, old_n, i);
		if (same != NULL)
			issuer_free(i);
		all->of[all->n++] = same == NULL ? i : same;
	}
	return ST_OK;
}

/* Places of issuers are those of the image, so nothing is asked before this. */
static enum status
follow_image(struct issuers *all)
{
	struct issuer *old[ISSUERS_MAX];
	size_t old_n = all->n;

	if (all->is_read && all->generation == all->control->role.generation)
		return ST_OK;
	memcpy(old, all->of, sizeof old);
	all->n = 0;
	enum status st = read_image(all, old, old_n);
	for (size_t k = 0; k < old_n; k++)
		if (old[k] != NULL)
			issuer_free(old[k]);
	all->is_read = st == ST_OK;
	all->generation = all->control->role.generation;
	return st;
}

/* Fetching. */

static void
on_fetched(void *ctx, const struct call_got *got)
{
	struct issuer *i = ctx;
	struct control *c = i->all->control;
	struct jwks *keys = NULL;
	enum status st = got->st;

	i->call = NULL;
	if (st == ST_OK)
		st = got->http == 200 ? jwks_new(got->body, &keys) : ST_UPSTREAM_BAD;
	if (st == ST_OK) {
		jwks_free(i->keys);
		i->keys = keys;
		i->fetched_ms = loop_now_ms(c->loop);
	} else {
		log_error(&c->role.log, "the keys of an issuer (%s): %s, HTTP %u",
			  i->key_id, status_code(st), (unsigned)got->http);
	}
	wake_all(i);
}

static bool
may_fetch(const struct issuer *i, uint64_t now_ms)
{
	uint64_t pause = i->keys == NULL ? ISSUER_RETRY_MS : ISSUER_AGAIN_MS;

	return i->is_fetched && i->call == NULL &&
	       (!i->is_tried || now_ms - i->tried_ms >= pause);
}

static enum status
fetch(struct issuer *i, const struct image_exec_jwt *j, uint64_t now_ms)
{
	struct control *c = i->all->control;
	size_t n;
	const struct image_connector *of = image_connectors(c->role.image, &n);
	struct call_wish wish = {
		.connector =
			j->jwks_connector < n
				? image_str(c->role.image, of[j->jwks_connector].name)
				: STR(""),
		.method = STR("GET"),
		.target = image_str(c->role.image, j->jwks_path),
		.deadline_ms = ISSUER_FETCH_MS,
		.answer_max = JWKS_MAX,
	};

	i->is_tried = true;
	i->tried_ms = now_ms;
	enum status st = call_begin(c, &wish, on_fetched, i, &i->call);
	if (st != ST_OK)
		log_error(&c->role.log, "the keys of an issuer (%s): %s", i->key_id,
			  status_code(st));
	return st;
}

/* A key that isn't there. */
static enum status
wait_for_keys(struct issuer *i, const struct image_exec_jwt *j, uint64_t now_ms,
	      struct keys_wait *wait)
{
	if (!i->is_fetched)
		return i->keys == NULL ? ST_ISSUER_SILENT : ST_KEY_INVALID;
	if (i->call != NULL || (may_fetch(i, now_ms) && fetch(i, j, now_ms) == ST_OK))
		return wait_for(i, wait);
	return i->keys == NULL ? ST_ISSUER_SILENT : ST_KEY_INVALID;
}

/* Tokens. */

/* An address that its user could choose without having it is nobody's name. */
static bool
is_sure(const struct jwt *t, struct str claim)
{
	return !str_eq(claim, STR("email")) ||
	       json_is_true(json_object_get(t->claims, "email_verified"));
}

/* Absent: empty. */
static enum status
set_claim(char *name, const struct jwt *t, struct str claim)
{
	const json_t *j = json_object_getn(t->claims, claim.p, claim.n);

	if (claim.n == 0 || j == NULL)
		return principal_set(name, STR(""));
	if (!json_is_string(j))
		return ST_BAD_PRINCIPAL;
	return principal_set(name, str_of(json_string_value(j), json_string_length(j)));
}

static enum status
name_principal(const struct issuer *i, const struct image_exec_jwt *j,
	       const struct jwt *t, struct principal *ret_p)
{
	const struct image *im = i->all->control->role.image;
	struct principal p = { .scopes = j->scopes & SCOPE_ALL,
			       .may_delegate = j->may_delegate != 0 };
	enum status st = set_claim(p.user, t, image_str(im, j->user_claim));

	if (st == ST_OK && p.user[0] == '\0')
		st = ST_BAD_PRINCIPAL;
	if (st == ST_OK)
		st = set_claim(p.agent, t, image_str(im, j->agent_claim));
	if (st == ST_OK)
		st = principal_set(p.tenant, image_str(im, j->tenant));
	if (st == ST_OK)
		st = principal_set(p.key_id, str_from(i->key_id));
	if (st == ST_OK && !is_sure(t, image_str(im, j->user_claim)))
		st = ST_KEY_INVALID;
	if (st != ST_OK)
		return st;
	principal_own(&p);
	*ret_p = p;
	return ST_OK;
}

static enum status
ask_issuer(struct issuer *i, const struct image_exec_jwt *j, const struct moment *now,
	   const struct jwt *t, struct keys_wait *wait)
{
	const struct image *im = i->all->control->role.image;
	const struct jwt_want want = { .issuer = image_str(im, j->issuer),
				       .audience = image_str(im, j->audience),
				       .now_s = now->wall_s };
	enum status st;

	if (i->is_fetched && i->keys != NULL &&
	    now->mono_ms - i->fetched_ms >= ISSUER_KEPT_MS) {
		jwks_free(i->keys);
		i->keys = NULL;
	}
	st = jwt_check(t, i->keys, &want);
	if (st == ST_NOT_FOUND)
		return wait_for_keys(i, j, now->mono_ms, wait);
	/* That it fails is said in the log; what is there counts for a while. */
	if (st == ST_OK && now->mono_ms - i->fetched_ms >= ISSUER_FRESH_MS &&
	    may_fetch(i, now->mono_ms))
		(void)fetch(i, j, now->mono_ms);
	return st;
}

enum status
issuers_principal(struct issuers *all, const struct moment *now, struct str token,
		  struct keys_wait *wait, struct principal *ret_p)
{
	CLEANUP(jwt_done) struct jwt t = { .header = NULL };
	enum status st = follow_image(all);
	size_t n;

	if (st == ST_OK)
		st = jwt_read(token, &t);
	if (st != ST_OK)
		return st;
	const struct image_exec_jwt *of = image_exec_jwts(all->control->role.image, &n);
	/* An issuer may be there for several audiences; a token is meant for one of them. */
	for (size_t k = 0; k < all->n; k++) {
		st = ask_issuer(all->of[k], &of[k], now, &t, wait);
		if (st == ST_OK)
			return name_principal(all->of[k], &of[k], &t, ret_p);
		if (st != ST_KEY_INVALID)
			return st;
	}
	return ST_KEY_INVALID;
}

bool
issuers_mean(struct issuers *all, struct str token)
{
	CLEANUP(jwt_done) struct jwt t = { .header = NULL };
	const struct image *im = all->control->role.image;
	size_t n;
	const struct image_exec_jwt *of = image_exec_jwts(im, &n);

	if (n == 0 || jwt_read(token, &t) != ST_OK)
		return false;
	for (size_t k = 0; k < n; k++) {
		const struct jwt_want want = { .issuer = image_str(im, of[k].issuer),
					       .audience =
						       image_str(im, of[k].audience) };
		if (jwt_is_for(&t, &want))
			return true;
	}
	return false;
}

bool
issuers_allow(struct issuers *all, struct str key_id, unsigned *ret_scopes,
	      bool *ret_may_delegate)
{
	size_t n;

	if (follow_image(all) != ST_OK)
		return false;
	const struct image_exec_jwt *of = image_exec_jwts(all->control->role.image, &n);
	for (size_t k = 0; k < all->n; k++) {
		if (!str_eq(key_id, str_from(all->of[k]->key_id)))
			continue;
		*ret_scopes = of[k].scopes & SCOPE_ALL;
		*ret_may_delegate = of[k].may_delegate != 0;
		return true;
	}
	return false;
}

/* All of them. */

enum status
issuers_new(struct control *c, struct issuers **ret_all)
{
	struct issuers *all = calloc(1, sizeof *all);

	if (all == NULL)
		return ST_NOMEM;
	all->control = c;
	list_init(&all->woken);
	loop_timer_init(&all->wake, c->loop, on_wake, all);
	*ret_all = all;
	return ST_OK;
}

void
issuers_free(struct issuers *all)
{
	struct list *link;

	if (all == NULL)
		return;
	for (size_t k = 0; k < all->n; k++)
		issuer_free(all->of[k]);
	/* Who waits keeps what is his. */
	while ((link = list_pop(&all->woken)) != NULL)
		LIST_OF(link, struct keys_wait, link)->is_waiting = false;
	loop_timer_clear(&all->wake);
	free(all);
}
