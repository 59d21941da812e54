/*
 * Sandboxes whose server has a docker network in front of which the gateway stands: each is
 * known to every role by its address, with the operator's policy and the caller's narrowing.
 * One that isn't known reaches nothing, so whatever fails here only denies; it is tried again
 * each minute.
 *
 * The address is docker's word where the configuration names its socket: then it is pinned
 * to the bridge port and MAC as well (pin.h), and known before it may send.  Else it is the
 * server's word, from its diagnostics.  An address that is another sandbox's is refused
 * (enroll.h), so a server can't give one sandbox the reach of another.
 */
#include <stdlib.h>
#include <string.h>

#include "proxy/control/brain_json.h"
#include "proxy/control/brain_policy.h"
#include "proxy/control/brain_server.h"
#include "proxy/control/enroll.h"
#include "proxy/control/pin.h"

enum {
	BIND_ARENA = 1 << 20,
	TEXT_MAX = 256 * 1024,
	BINDS_OPEN = 48, /* fewer than a locator takes at a time */
};

struct brain_bind { /* one that is on its way, or waits for its turn in binds_next */
	struct list link;
	bool is_open; /* one of binds_open */
	struct brain *brain;
	struct arena arena;
	struct brain_sandbox box;
	struct call *call;
	struct pin *pin;
	struct list waits;
};

static void
bind_free(void *ctx)
{
	struct brain_bind *x = ctx;

	arena_done(&x->arena);
	free(x);
}

static void
bind_end(struct brain_bind *x, enum status st)
{
	bool was_open = x->is_open;
	struct brain *b = x->brain;
	struct list *link;

	if (st != ST_OK) {
		log_error(&b->control->role.log, "%.*s has no way out: %s",
			  STR_ARG(x->box.id), status_code(st));
		brain_server_unbound(b, x->box.server, st);
	}
	(void)map_take(&b->binds, x->box.id);
	while ((link = list_pop(&x->waits)) != NULL) {
		struct brain_wait *w = LIST_OF(link, struct brain_wait, link);

		w->fn(w->ctx, st, NULL);
	}
	loop_defer(b->control->loop, bind_free, x);
	if (was_open) {
		b->binds_open--;
		brain_bind_next(b);
	}
}

void
brain_binds_close(struct brain *b)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(&b->binds, &at, &key, &value);) {
		struct brain_bind *x = value;

		while (list_pop(&x->waits) != NULL)
			;
		call_cancel(x->call);
		pin_cancel(x->pin);
		enroll_forget(b->control, x);
		bind_free(x);
	}
	map_done(&b->binds);
}

/* "  NETWORK: ADDRESS", a line of its own. */
static bool
read_address(struct str text, struct str network, struct addr *ret_a)
{
	while (text.p != NULL) {
		struct str line = str_trim(str_cut(&text, '\n'));

		if (!str_starts(line, network))
			continue;
		line = str_skip(line, network.n);
		if (str_starts(line, STR(":")) &&
		    addr_parse(str_trim(str_skip(line, 1)), ret_a))
			return true;
	}
	return false;
}

/* What is asked for of all that it reaches; NULL: nothing narrower. */
static const struct str *
narrow_of(struct brain_bind *x, struct str *text)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	json_t *policy;

	if (x->box.policy.n == 0)
		return NULL;
	policy = brain_json_object(x->box.policy);
	buf_init(&b, NARROW_TEXT_MAX);
	netpolicy_put_narrow(&b, policy);
	json_decref(policy);
	/* One that doesn't fit denies everything. */
	*text = b.st == ST_OK ? arena_copy(&x->arena, str_of(b.p, b.len)) : STR("");
	return text;
}

/* What came for it while it wasn't known found nothing to change. */
static void
catch_up(struct brain_bind *x)
{
	struct brain_sandbox now;
	enum status st =
		brain_store_find_any(x->brain->store, x->box.id, &x->arena, &now);
	json_t *policy;

	if (st != ST_OK || now.state != BRAIN_RUNNING ||
	    !str_eq(now.upstream, x->box.upstream)) {
		brain_unbind(x->brain, x->box.id);
		return;
	}
	if (str_eq(now.policy, x->box.policy))
		return;
	policy = brain_json_object(now.policy);
	brain_rebind(x->brain, x->box.id, policy);
	json_decref(policy);
}

static void
pinned(void *ctx, enum status st, const struct pin_found *found)
{
	struct brain_bind *x = ctx;

	(void)found;
	x->pin = NULL;
	if (st == ST_OK)
		catch_up(x);
	bind_end(x, st);
}

static void
enrolled(void *ctx, enum status st, uint32_t handle)
{
	struct brain_bind *x = ctx;
	struct control *c = x->brain->control;
	struct pin_wish w = { .id = x->box.id, .fn = pinned, .ctx = x };

	(void)handle;
	if (st == ST_OK && pin_is_on(c)) {
		st = pin_add(c, &w, &x->pin);
		if (st == ST_OK)
			return;
	}
	if (st == ST_OK)
		catch_up(x);
	bind_end(x, st);
}

static enum status
enroll(struct brain_bind *x, const struct addr *of, size_t of_n)
{
	const struct image *im = x->brain->control->role.image;
	uint32_t index = image_exec(im)->policy;
	size_t n;
	const struct image_policy *p = image_policies(im, &n);
	const struct image_exec_server *s =
		image_exec_server_by_name(im, x->box.server);
	struct str text = STR("");
	struct enroll_wish w = { .id = x->box.id,
				 .user = x->box.on_behalf_of.n > 0 ? x->box.on_behalf_of
								   : x->box.owner.user,
				 .agent = x->box.agent,
				 .session = x->box.session,
				 .sources = of,
				 .sources_n = of_n,
				 .narrow = narrow_of(x, &text) };

	if (index >= n)
		return ST_NO_POLICY;
	w.policy = image_str(im, p[index].name);
	w.trusts_ca = s != NULL && s->ca_file.length > 0;
	return enroll_begin(x->brain->control, &w, enrolled, x);
}

static const struct image_exec_server *
networked(const struct brain *b, struct str server)
{
	const struct image_exec_server *s =
		image_exec_server_by_name(b->control->role.image, server);

	return s != NULL && s->network.length > 0 &&
			       image_exec(b->control->role.image)->policy != POLICY_NONE
		       ? s
		       : NULL;
}

static void
inspected(void *ctx, const struct call_got *got)
{
	struct brain_bind *x = ctx;
	const struct image_exec_server *s = networked(x->brain, x->box.server);
	struct addr a;
	enum status st = got->st;

	x->call = NULL;
	if (st == ST_OK &&
	    (s == NULL || got->http != 200 ||
	     !read_address(str_head(got->body, TEXT_MAX),
			   image_str(x->brain->control->role.image, s->network), &a)))
		st = ST_UPSTREAM_BAD;
	if (st == ST_OK)
		st = enroll(x, &a, 1);
	if (st != ST_OK)
		bind_end(x, st);
}

static enum status
inspect(struct brain_bind *x)
{
	struct call_wish w = { .connector = x->box.server,
			       .method = STR("GET"),
			       .target = brain_target(&x->arena, x->box.upstream,
						      "/diagnostics/inspect"),
			       .deadline_ms = BRAIN_CALL_MS,
			       .answer_max = CALL_ANSWER_MAX };

	return w.target.p == NULL
		       ? ST_NOMEM
		       : call_begin(x->brain->control, &w, inspected, x, &x->call);
}

static void
located(void *ctx, enum status st, const struct pin_found *found)
{
	struct brain_bind *x = ctx;

	x->pin = NULL;
	if (st == ST_OK)
		st = enroll(x, found->of, found->n);
	if (st != ST_OK)
		bind_end(x, st);
}

static enum status
locate(struct brain_bind *x)
{
	struct control *c = x->brain->control;
	struct pin_wish w = { .id = x->box.id,
			      .upstream = x->box.upstream,
			      .network = image_str(
				      c->role.image,
				      networked(x->brain, x->box.server)->network),
			      .fn = located,
			      .ctx = x };

	return pin_locate(c, &w, &x->pin);
}

static enum status
bind_open(struct brain_bind *x)
{
	enum status st = ST_NOT_FOUND; /* a reload took its server */

	if (networked(x->brain, x->box.server) != NULL)
		st = pin_is_on(x->brain->control) ? locate(x) : inspect(x);
	x->is_open = st == ST_OK;
	x->brain->binds_open += x->is_open;
	return st;
}

void
brain_bind_next(struct brain *b)
{
	while (b->binds_open < BINDS_OPEN && !list_is_empty(&b->binds_next)) {
		struct brain_bind *x =
			LIST_OF(b->binds_next.next, struct brain_bind, link);
		enum status st = bind_open(x);

		if (st == ST_LIMIT_RATE)
			return;
		list_remove(&x->link);
		if (st != ST_OK)
			bind_end(x, st);
	}
}

/* Whom somebody waits for comes before those that are only looked after. */
static enum status
bind_begin(struct brain_bind *x, bool is_awaited)
{
	struct list *queue = &x->brain->binds_next;
	enum status st =
		x->brain->binds_open < BINDS_OPEN ? bind_open(x) : ST_LIMIT_RATE;

	if (st != ST_LIMIT_RATE)
		return st;
	list_append(is_awaited ? queue->next : queue, &x->link);
	return ST_OK;
}

/* Nothing is left to be done for it. */
static bool
is_bound(const struct brain *b, struct str id)
{
	return enroll_find(b->control, id) != NULL &&
	       (!pin_is_on(b->control) || pin_is_there(b->control, id));
}

/* One that is paused has its address all the same. */
static bool
is_up(const struct brain_sandbox *box)
{
	return box->state == BRAIN_RUNNING || box->state == BRAIN_PAUSED;
}

enum status
brain_bind(struct brain *b, struct str id, struct brain_wait *wait)
{
	struct brain_bind *x = map_get(&b->binds, id);
	enum status st = ST_OK;

	if (x == NULL) {
		x = calloc(1, sizeof *x);
		if (x == NULL)
			return ST_NOMEM;
		x->brain = b;
		list_init(&x->waits);
		arena_init(&x->arena, BIND_ARENA);
		st = brain_store_find_any(b->store, id, &x->arena, &x->box);
		if (st == ST_OK &&
		    (!is_up(&x->box) || x->box.owner.user.n == 0 ||
		     networked(b, x->box.server) == NULL || is_bound(b, id)))
			st = ST_END;
		if (st == ST_OK)
			st = map_put(&b->binds, id, x);
		if (st == ST_OK)
			st = bind_begin(x, wait != NULL);
		if (st != ST_OK && st != ST_END && x->box.server.n > 0)
			brain_server_unbound(b, x->box.server, st);
		if (st != ST_OK) {
			(void)map_take(&b->binds, id);
			bind_free(x);
			return st;
		}
	}
	if (wait != NULL)
		list_append(&x->waits, &wait->link);
	return ST_OK;
}

static void
ignored(void *ctx, enum status st, uint32_t handle)
{
	(void)ctx; /* none of it is known any more, or super is gone and all with it */
	(void)st;
	(void)handle;
}

void
brain_unbind(struct brain *b, struct str id)
{
	if (pin_is_on(b->control))
		pin_remove(b->control, id);
	enum status st = enroll_find(b->control, id) == NULL
				 ? ST_NOT_FOUND
				 : enroll_end(b->control, id, ignored, b);

	if (st != ST_OK && st != ST_NOT_FOUND)
		log_error(&b->control->role.log, "%.*s keeps its address: %s",
			  STR_ARG(id), status_code(st));
}

void
brain_rebind(struct brain *b, struct str id, const json_t *policy)
{
	CLEANUP(buf_done) struct buf text = { 0 };
	struct str narrow;
	enum status st;

	if (enroll_find(b->control, id) == NULL)
		return;
	buf_init(&text, NARROW_TEXT_MAX);
	netpolicy_put_narrow(&text, policy);
	narrow = text.st == ST_OK ? str_of(text.p, text.len) : STR("");
	st = enroll_narrow(b->control, id, &narrow, ignored, b);
	if (st != ST_OK)
		log_error(&b->control->role.log, "%.*s keeps its old policy: %s",
			  STR_ARG(id), status_code(st));
}

void
brain_bind_soon(struct brain *b)
{
	b->round_at = 0; /* what comes each minute comes with the next tick */
}

enum status
brain_rebind_given(struct brain *b, const struct brain_sandbox *box, struct str policy)
{
	json_t *wish;
	enum status st;

	if (policy.n == 0 || str_eq(policy, box->policy) ||
	    networked(b, box->server) == NULL)
		return ST_OK;
	wish = brain_json_object(policy);
	st = wish == NULL ? ST_NOMEM : brain_store_policy(b->store, box->id, policy);
	if (st == ST_OK)
		brain_rebind(b, box->id, wish);
	json_decref(wish);
	return st;
}

bool
brain_is_unbound(const struct brain *b, const struct brain_sandbox *box)
{
	return box->owner.user.n > 0 && networked(b, box->server) != NULL &&
	       !is_bound(b, box->id) && map_get(&b->binds, box->id) == NULL;
}

/* Those that should be known and aren't: super is another one, or something failed. */
static void
bind_unknown(struct brain *b, const struct brain_sandbox *box)
{
	enum status st = ST_OK;

	if (networked(b, box->server) != NULL && !is_bound(b, box->id))
		st = brain_bind(b, box->id, NULL);
	if (st != ST_OK && st != ST_END)
		log_error(&b->control->role.log, "%.*s has no way out: %s",
			  STR_ARG(box->id), status_code(st));
}

void
brain_bind_all(struct brain *b)
{
	brain_each(b, BRAIN_BIT(BRAIN_RUNNING) | BRAIN_BIT(BRAIN_PAUSED), bind_unknown);
}
