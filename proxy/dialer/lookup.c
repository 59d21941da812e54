#include "proxy/dialer/lookup.h"

#include <stdlib.h>

#include "conf/policy.h"
#include "proxy/dialer/place.h"

enum { ANSWER_MAX = 2048 };

struct lookup {
	struct dialer *dialer;
	struct peer *peer;
	struct list link; /* in dialer->lookups */
	uint32_t seq, handle;
	uint16_t type;
	struct dest dest; /* port 0: any */
	struct resolve_wait wait;
};

static void
answer(struct peer *p, uint32_t seq, const struct packet_answer *a)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, ANSWER_MAX);
	buf_put_u16(&b, (uint16_t)a->st);
	buf_put_u32(&b, a->ttl);
	buf_put_u8(&b, a->n);
	for (size_t i = 0; i < a->n; i++) {
		const struct addr *addr = &a->addrs[i];
		wire_put_str(&b, str_of(addr->b, addr->family == 4 ? 4 : 16));
	}
	peer_answer(p, ASK_RESOLVE, seq, &b, -1);
}

static void
refuse(struct peer *p, uint32_t seq, enum status why)
{
	struct packet_answer a = { .st = why, .ttl = RESOLVE_NEGATIVE_S };

	stats_refused(dialer_of(p)->role.stats, why);
	answer(p, seq, &a);
}

static enum status
judge(const struct lookup *l, const struct who *w)
{
	struct policy_answer a;

	policy_judge_name(l->dialer->role.image, w->may, &l->dest, &a);
	return a.action == ACTION_DENY ? a.reason : ST_OK;
}

/* Only what could be dialled stays. */
static enum status
sift(const struct lookup *l, const struct who *w, struct packet_answer *a)
{
	struct place p = { .image = l->dialer->role.image,
			   .who = l->dialer->role.who,
			   .countries = l->dialer->countries,
			   .networks = l->dialer->networks };
	struct place_found found;
	enum status why = ST_OK;
	uint8_t kept = 0;

	for (uint8_t i = 0; i < a->n; i++) {
		enum status st = place_judge(&p, w, &l->dest, &a->addrs[i], &found);
		if (st == ST_OK)
			a->addrs[kept++] = a->addrs[i];
		else
			why = place_worse(why, st);
	}
	a->n = kept;
	return kept > 0 ? ST_OK : why;
}

static void
finish(const struct lookup *l, const struct packet_answer *got)
{
	const struct who *w = who_by_handle(l->dialer->role.who, l->handle);
	struct packet_answer a = *got;
	enum status st = w == NULL ? ST_UNKNOWN_SANDBOX : judge(l, w);

	if (st == ST_OK)
		st = a.st;
	if (st == ST_OK)
		st = sift(l, w, &a);
	if (st != ST_OK)
		refuse(l->peer, l->seq, st);
	else
		answer(l->peer, l->seq, &a);
}

static void
end(struct lookup *l)
{
	struct dialer *all = l->dialer;

	resolve_stop(&l->wait);
	list_remove(&l->link);
	all->lookups_n--;
	free(l);
	dialer_idle_check(all);
}

static void
on_resolved(void *ctx, const struct packet_answer *a)
{
	struct lookup *l = ctx;

	finish(l, a);
	end(l);
}

static enum status
admit(struct lookup *l, struct str name)
{
	struct dialer *all = l->dialer;
	const struct who *w = who_by_handle(all->role.who, l->handle);

	if (w == NULL)
		return ST_UNKNOWN_SANDBOX;
	if (all->is_draining)
		return ST_DRAINING;
	enum status st = dest_from_host_single(name, 1, &l->dest);
	if (st != ST_OK)
		return st;
	if (!dest_is_name(&l->dest))
		return ST_DNS_NOT_FOUND;
	l->dest.port = 0;
	st = judge(l, w);
	if (st == ST_OK && all->lookups_n >= LOOKUPS_MAX)
		st = ST_LIMIT_RATE;
	return st;
}

static void
start(struct lookup *l)
{
	struct dialer *all = l->dialer;
	struct resolve_question q = {
		.name = dest_name(&l->dest),
		.type = l->type,
		.sandbox = who_by_handle(all->role.who, l->handle)->id,
	};
	struct packet_answer a = { .st = ST_OK };

	list_append(&all->lookups, &l->link);
	all->lookups_n++;
	l->wait.fn = on_resolved;
	l->wait.ctx = l;
	enum status st = resolve_ask(all->resolve, &q, &l->wait, &a);
	if (st == ST_AGAIN)
		return;
	if (st != ST_OK)
		a.st = st;
	finish(l, &a);
	end(l);
}

void
lookup_heard(struct peer *p, struct ask_msg *m)
{
	struct wire w = wire_from(m->body);
	uint32_t handle = wire_u32(&w);
	uint64_t generation = wire_u64(&w);
	struct str name = wire_str(&w);
	uint8_t want = wire_u8(&w);

	if (wire_end(&w) != ST_OK || want < 1 || want > 2) {
		peer_kill(p, ST_BAD_MESSAGE);
		return;
	}
	if (handle < HANDLE_ATTACHED && generation != dialer_of(p)->role.generation) {
		refuse(p, m->seq, ST_RELOADED);
		return;
	}
	struct lookup *l = calloc(1, sizeof(*l));
	if (l == NULL) {
		refuse(p, m->seq, ST_NOMEM);
		return;
	}
	l->dialer = dialer_of(p);
	l->peer = p;
	l->seq = m->seq;
	l->handle = handle;
	l->type = want == 1 ? PACKET_TYPE_A : PACKET_TYPE_AAAA;
	enum status st = admit(l, name);
	if (st != ST_OK) {
		refuse(p, m->seq, st);
		free(l);
		return;
	}
	start(l);
}

/* Handles below HANDLE_ATTACHED are places in the list of one image. */
void
lookup_renumber(struct dialer *all, const struct image *old)
{
	size_t n = 0;
	const struct image_sandbox *were =
		old == NULL ? NULL : image_sandboxes(old, &n);

	list_each (it, &all->lookups) {
		struct lookup *l = LIST_OF(it, struct lookup, link);
		const struct who *w = NULL;
		if (l->handle >= HANDLE_ATTACHED)
			continue;
		if (l->handle != HANDLE_NONE && l->handle <= n)
			w = who_by_id(all->role.who,
				      image_str(old, were[l->handle - 1].id));
		l->handle = w == NULL ? HANDLE_NONE : w->handle;
	}
}

void
lookup_cancel_peer(struct peer *p)
{
	list_each_safe (it, &dialer_of(p)->lookups) {
		struct lookup *l = LIST_OF(it, struct lookup, link);
		if (l->peer == p)
			end(l);
	}
}
