#include <stdlib.h>

#include "connectors/probe.h"

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
	probes_end(p->all, p);
	list_remove(&p->link);
	loop_defer(p->all->loop, peer_free, p);
}

void
peer_kill(struct peer *p, enum status why)
{
	log_error(&p->all->role.log, "line to %s closed: %s", role_name(p->role),
		  status_code(why));
	peer_end(p);
}

void
peer_answer(struct peer *p, enum ask a, uint32_t seq, struct buf *b)
{
	struct str body;

	/* Without memory for an answer the asker's deadline is the answer. */
	if (buf_finish(b, &body) == ST_OK)
		(void)!ask_answer(p->line, a, seq, body, NULL, 0);
}

/* Control says: this socket speaks for that sandbox.  Handles are places in the list of
 * one generation: by another's they would name a neighbour. */
static void
grant_heard(struct peer *p, struct ask_msg *m)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct wire w = wire_from(m->body);
	uint64_t cookie = wire_u64(&w);
	uint32_t handle = wire_u32(&w);
	uint64_t generation = wire_u64(&w);
	enum status st = ST_RELOADED;

	if (wire_end(&w) != ST_OK) {
		peer_kill(p, ST_BAD_MESSAGE);
		return;
	}
	if (generation == p->all->role.generation)
		st = who_grant(p->all->role.who, cookie, handle);
	buf_init(&b, 16);
	buf_put_u16(&b, (uint16_t)st);
	peer_answer(p, ASK_GRANT_CONNECTOR, m->seq, &b);
}

static void
on_heard(void *ctx, struct ask_line *line, struct ask_msg *m)
{
	struct peer *p = ctx;

	(void)line;
	if (p->is_dead)
		return;
	if (m->ask == ASK_LANE)
		lane_heard(p, m);
	else if (m->ask == ASK_GRANT_CONNECTOR)
		grant_heard(p, m);
	else if (m->ask == ASK_PROBE)
		probe_heard(p, m);
	else
		peer_kill(p, ST_BAD_MESSAGE);
}

static void
on_lost(void *ctx, struct ask_line *line, enum status why)
{
	struct peer *p = ctx;

	(void)line;
	log_info(&p->all->role.log, "line to %s lost: %s", role_name(p->role),
		 status_code(why));
	peer_end(p);
}

enum status
peer_new(struct connector *all, enum role role, int fd)
{
	struct ask_end end = { .fd = fd, .self = ROLE_CONNECTOR, .peer = role };
	struct peer *p = calloc(1, sizeof *p);
	enum status st;

	if (p == NULL)
		return ST_NOMEM;
	p->all = all;
	p->role = role;
	st = ask_line_new(all->loop, &end, on_heard, on_lost, p, &p->line);
	if (st != ST_OK) {
		free(p);
		return st;
	}
	list_append(&all->peers, &p->link);
	return ST_OK;
}
