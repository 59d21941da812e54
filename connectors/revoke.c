#include "connectors/revoke.h"

#include <stdlib.h>
#include <string.h>

#include "connectors/bond.h"
#include "connectors/store.h"

/* What the keeper sent us before it made the change lies in our socket by now. */
enum { SETTLE_MS = 50, SECRET_NAME_MAX = 256 };

struct revoke {
	struct list link; /* all->revokes */
	struct connector *all;
	struct peer *peer;
	uint32_t seq;
	struct loop_timer timer;
	char tenant[STR_NAME_MAX + 1], secret[SECRET_NAME_MAX + 1];
};

/* Is name what a connector calls declared, for some user? */
static bool
covers(struct str declared, struct str name)
{
	while (declared.p != NULL && name.p != NULL) {
		struct str part = str_cut(&declared, '/'), found = str_cut(&name, '/');
		if (!str_eq(part, STR("{user}")) && !str_eq(part, found))
			return false;
	}
	return declared.p == NULL && name.p == NULL;
}

static bool
is_meant(const void *ctx, uint32_t connector)
{
	const struct revoke *r = ctx;
	const struct image *im = r->all->role.image;
	const struct image_connector *c = connector_at(r->all, connector);
	struct str secret = str_from(r->secret);

	if (c == NULL || secret.n == 0)
		return true;
	if (!str_eq(image_str(im, c->tenant), str_from(r->tenant)))
		return false;
	const struct image_ref refs[] = { c->auth.secret, c->auth.client_secret,
					  c->auth.session_token, c->auth.certificate };
	for (size_t i = 0; i < COUNT_OF(refs); i++)
		if (refs[i].length > 0 && covers(image_str(im, refs[i]), secret))
			return true;
	return false;
}

static void
forget(struct revoke *r)
{
	lents_revoke(r->all, is_meant, r);
	bonds_revoke(r->all, is_meant, r);
}

static void
drop(struct revoke *r)
{
	loop_timer_clear(&r->timer);
	list_remove(&r->link);
	loop_defer(r->all->loop, free, r);
}

static void
on_settled(void *ctx)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct revoke *r = ctx;

	forget(r);
	stores_revoke(r->all, is_meant, r);
	buf_init(&b, 16);
	buf_put_u16(&b, ST_OK);
	peer_answer(r->peer, ASK_REVOKE, r->seq, &b, -1);
	drop(r);
}

void
revokes_end(struct connector *all, const struct peer *p)
{
	list_each_safe (it, &all->revokes) {
		struct revoke *r = LIST_OF(it, struct revoke, link);
		if (p == NULL || r->peer == p)
			drop(r);
	}
}

void
revoke_heard(struct peer *p, struct ask_msg *m)
{
	struct connector *all = p->set->ctx;
	struct wire w = wire_from(m->body);
	struct str tenant = wire_str(&w), secret = wire_str(&w);

	if (wire_end(&w) != ST_OK || tenant.n > STR_NAME_MAX ||
	    secret.n > SECRET_NAME_MAX) {
		peer_kill(p, ST_BAD_MESSAGE);
		return;
	}
	struct revoke *r = calloc(1, sizeof *r);
	if (r == NULL) { /* what can't be kept in mind is done at once, and to all */
		const struct revoke every = { .all = all };
		lents_revoke(all, is_meant, &every);
		bonds_revoke(all, is_meant, &every);
		return;
	}
	*r = (struct revoke){ .all = all, .peer = p, .seq = m->seq };
	if (tenant.n > 0)
		memcpy(r->tenant, tenant.p, tenant.n);
	if (secret.n > 0)
		memcpy(r->secret, secret.p, secret.n);
	list_append(&all->revokes, &r->link);
	forget(r);
	loop_timer_init(&r->timer, all->loop, on_settled, r);
	loop_timer_set(&r->timer, SETTLE_MS);
}
