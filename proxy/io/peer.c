#include "proxy/io/peer.h"

#include <stdlib.h>
#include <string.h>

#include "proxy/base/num.h"

static void
peer_free(void *ctx)
{
	struct peer *p = ctx;

	ask_line_free(p->line);
	free(p);
}

void
peer_end(struct peer *p)
{
	if (p->is_dead)
		return;
	p->is_dead = true;
	list_remove(&p->link);
	if (p->set->hooks->ended != NULL)
		p->set->hooks->ended(p);
	loop_defer(p->set->loop, peer_free, p);
}

void
peers_end(struct peers *set)
{
	list_each_safe (it, &set->all)
		peer_end(LIST_OF(it, struct peer, link));
}

void
peer_kill(struct peer *p, enum status why)
{
	log_error(&p->set->role->log, "line to %s closed: %s", role_name(p->role),
		  status_code(why));
	peer_end(p);
}

void
peer_answer(struct peer *p, enum ask a, uint32_t seq, struct buf *b, int fd)
{
	struct str body;

	/* When the line is going down its loss is told separately. */
	if (buf_finish(b, &body) == ST_OK)
		(void)!ask_answer(p->line, a, seq, body, &fd, fd == -1 ? 0 : 1);
}

void
peer_grant(struct peer *p, struct ask_msg *m)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	const struct role_self *role = p->set->role;
	struct wire w = wire_from(m->body);
	uint64_t cookie = wire_u64(&w);
	uint32_t handle = wire_u32(&w);
	uint64_t generation = wire_u64(&w);
	enum status st = ST_RELOADED;

	if (wire_end(&w) != ST_OK) {
		peer_kill(p, ST_BAD_MESSAGE);
		return;
	}
	/* Handles are places in the list of one generation: by another's they would name
	 * a neighbour. */
	if (generation == role->generation)
		st = who_grant(role->who, cookie, handle);
	buf_init(&b, 16);
	buf_put_u16(&b, (uint16_t)st);
	peer_answer(p, m->ask, m->seq, &b, -1);
}

static void
on_heard(void *ctx, struct ask_line *line, struct ask_msg *m)
{
	struct peer *p = ctx;

	(void)line;
	if (!p->is_dead)
		p->set->hooks->heard(p, m);
}

static void
on_lost(void *ctx, struct ask_line *line, enum status why)
{
	struct peer *p = ctx;

	(void)line;
	log_info(&p->set->role->log, "line to %s lost: %s", role_name(p->role),
		 status_code(why));
	peer_end(p);
}

static void
replace(struct peers *set, const struct peer *by)
{
	list_each_safe (it, &set->all) {
		struct peer *p = LIST_OF(it, struct peer, link);
		if (p->role == by->role && strcmp(p->name, by->name) == 0)
			peer_end(p);
	}
}

enum status
peer_new(struct peers *set, enum role role, struct str name, int fd)
{
	struct ask_end end = { .fd = fd, .self = set->role->self, .peer = role };
	struct peer *p = calloc(1, sizeof *p);
	enum status st;

	if (p == NULL)
		return ST_NOMEM;
	p->set = set;
	p->role = role;
	if (name.n > 0)
		memcpy(p->name, name.p, num_min(name.n, STR_NAME_MAX));
	st = ask_line_new(set->loop, &end, on_heard, on_lost, p, &p->line);
	if (st != ST_OK) {
		free(p);
		return st;
	}
	replace(set, p);
	list_append(&set->all, &p->link);
	return ST_OK;
}
