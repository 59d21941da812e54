#include "proxy/control/brain.h"

#include <stdlib.h>
#include <string.h>

#include "proxy/base/clock.h"
#include "proxy/base/enc.h"
#include "proxy/control/principal.h"

uint64_t
brain_now_s(void)
{
	return clock_wall_us() / 1000000;
}

void
brain_spend(struct brain *b, enum brain_spent what, uint64_t ms,
	    struct brain_memory freed)
{
	struct brain_total *t = &b->totals[what];

	t->n++;
	t->ms += ms;
	t->measured += freed.is_known;
	/* Docker may say any number, again and again. */
	t->freed += freed.is_known ? num_min(freed.octets, UINT64_MAX - t->freed) : 0;
	if (t->most_ms < ms)
		t->most_ms = ms;
}

uint64_t
brain_end_capped(const struct brain *b, uint64_t expires_s)
{
	const struct image *im = b->control->role.image;
	uint64_t max = image_number(im, OPT_EXEC_MAX_TIMEOUT) / 1000;

	return num_min(expires_s, brain_now_s() + max);
}

enum { PAGE_ARENA = 1 << 20 };

/* One page; what comes out is the last one's id.  False: that was all. */
static bool
each_of_page(struct brain *b, unsigned states, struct buf *after, brain_each_fn fn)
{
	CLEANUP(arena_done) struct arena a = { 0 };
	struct brain_sandboxes page;
	enum status st;

	arena_init(&a, PAGE_ARENA);
	st = brain_store_walk(b->store, states, str_of(after->p, after->len), &a,
			      &page);
	if (st != ST_OK)
		log_error(&b->control->role.log, "exec.db: %s", status_code(st));
	if (st != ST_OK || page.n == 0)
		return false;
	for (size_t i = 0; i < page.n; i++)
		fn(b, &page.of[i]);
	buf_clear(after);
	buf_put(after, page.of[page.n - 1].id);
	return after->st == ST_OK;
}

void
brain_each(struct brain *b, unsigned states, brain_each_fn fn)
{
	CLEANUP(buf_done) struct buf after = { 0 };

	buf_init(&after, BRAIN_ID + 1);
	while (each_of_page(b, states, &after, fn))
		;
}

/* Tickets. */

struct brain_busy { /* of one sandbox */
	size_t tickets;
};

struct ticket_key { /* of the map */
	const struct ask_line *line;
	uint64_t number;
};

static struct brain_ticket *
find_ticket(const struct brain *b, const struct ask_line *line, uint64_t number)
{
	const struct ticket_key key = { line, number };

	return map_get(&b->by_number, str_of(&key, sizeof key));
}

const struct brain_ticket *
brain_ticket_find(const struct brain *b, const struct ask_line *line, uint64_t number)
{
	return find_ticket(b, line, number);
}

size_t
brain_busy(const struct brain *b, struct str id)
{
	const struct brain_busy *busy = map_get(&b->busy, id);

	return busy == NULL ? 0 : busy->tickets;
}

static enum status
busy_more(struct brain *b, struct str id)
{
	struct brain_busy *busy = map_get(&b->busy, id);
	enum status st;

	if (busy == NULL) {
		busy = calloc(1, sizeof *busy);
		st = busy == NULL ? ST_NOMEM : map_put(&b->busy, id, busy);
		if (st != ST_OK) {
			free(busy);
			return st;
		}
	}
	busy->tickets++;
	return ST_OK;
}

/* The last use of a sandbox is when the last request that used it ended. */
static void
busy_less(struct brain *b, struct str id, uint64_t began_s)
{
	struct brain_busy *busy = map_get(&b->busy, id);
	uint64_t now = brain_now_s();
	enum status st = now == began_s ? ST_OK : brain_store_touch(b->store, id, now);

	if (st != ST_OK && st != ST_NOT_FOUND)
		log_error(&b->control->role.log, "exec.db: %s", status_code(st));
	if (busy == NULL || --busy->tickets > 0)
		return;
	(void)map_take(&b->busy, id);
	free(busy);
}

/* One that a worker says it holds is nobody's: else it could use up anybody's share. */
static enum status
ticket_share(struct brain *b, const struct brain_ticket *t,
	     struct brain_share **ret_share)
{
	struct brain_share *share = NULL;

	if (!t->is_kept) {
		share = brain_share(b, &t->who);
		if (share == NULL)
			return ST_NOMEM;
		if (share->tickets >= BRAIN_USER_TICKETS)
			return ST_LIMIT_USER;
	}
	*ret_share = share;
	return ST_OK;
}

enum status
brain_ticket_add(struct brain *b, const struct brain_ticket *t)
{
	const struct ticket_key key = { t->line, t->number };
	struct brain_share *share;
	struct brain_ticket *mine;
	enum status st;

	if (b->by_number.len >= BRAIN_TICKETS)
		return ST_LIMIT_TURNS;
	if (find_ticket(b, t->line, t->number) != NULL)
		return ST_BAD_MESSAGE;
	st = ticket_share(b, t, &share);
	if (st != ST_OK)
		return st;
	mine = malloc(sizeof *mine);
	st = mine == NULL ? ST_NOMEM
			  : map_put(&b->by_number, str_of(&key, sizeof key), mine);
	if (st == ST_OK)
		st = busy_more(b, str_from(t->id));
	if (st != ST_OK) {
		(void)map_take(&b->by_number, str_of(&key, sizeof key));
		free(mine);
		brain_share_drop(b, share);
		return st;
	}
	*mine = *t;
	mine->share = share;
	if (share != NULL)
		share->tickets++;
	list_append(&b->tickets, &mine->link);
	return ST_OK;
}

static void
ticket_end(struct brain *b, struct brain_ticket *t)
{
	const struct ticket_key key = { t->line, t->number };

	list_remove(&t->link);
	(void)map_take(&b->by_number, str_of(&key, sizeof key));
	busy_less(b, str_from(t->id), t->began_s);
	if (t->share != NULL) {
		t->share->tickets--;
		brain_share_drop(b, t->share);
	}
	free(t);
}

/* For approvals: who asked for what a ticket is. */
static bool
who_asks(struct control *c, const struct ask_line *line, uint64_t ticket,
	 struct approval_wish *ret_w)
{
	const struct brain_ticket *t = brain_ticket_find(c->brain, line, ticket);

	if (t == NULL || t->is_kept)
		return false;
	ret_w->tenant = str_from(t->who.tenant);
	ret_w->user = str_from(t->who.user);
	ret_w->agent = str_from(t->who.agent);
	ret_w->on_behalf_of = str_from(t->who.on_behalf_of);
	ret_w->session = str_from(t->who.session);
	ret_w->sandbox = str_from(t->id);
	return true;
}

void
brain_forget(struct brain *b, struct str id)
{
	brain_endpoints_forget(b, id);
	brain_contexts_forget(b, id);
	brain_vault_forget(b, id);
	brain_span_forget(b, id);
	brain_unbind(b, id);
}

/* Asks of workers. */

static struct brain_turn *
turn_of(const struct brain *b, const struct ask_line *line, uint64_t ticket)
{
	list_each (it, &b->turns) {
		struct brain_turn *t = LIST_OF(it, struct brain_turn, link);

		if (t->line == line && t->wish.ticket == ticket)
			return t;
	}
	return NULL;
}

static void
left(struct brain *b, const struct ask_line *line, struct ask_msg *m)
{
	struct wire w = wire_from(m->body);
	uint64_t number = wire_u64(&w);
	struct brain_ticket *ticket;
	struct brain_turn *turn;

	if (wire_end(&w) != ST_OK)
		return;
	approvals_left(b->control, line, number);
	ticket = find_ticket(b, line, number);
	if (ticket != NULL)
		ticket_end(b, ticket);
	turn = turn_of(b, line, number);
	if (turn != NULL)
		turn->line = NULL;
}

/* Of a sandbox that is there, whatever it does now.  ST_NOT_FOUND: it was ended meanwhile. */
static enum status
keep_one(struct brain *b, const struct ask_line *line, uint64_t number, struct str id)
{
	CLEANUP(arena_done) struct arena a = { 0 };
	struct brain_ticket t = { .line = line,
				  .number = number,
				  .is_kept = true,
				  .began_s = brain_now_s() };
	struct brain_sandbox box;
	enum status st;

	arena_init(&a, PAGE_ARENA);
	st = brain_store_find_any(b->store, id, &a, &box);
	if (st == ST_OK && (box.state == BRAIN_GONE || box.owner.user.n == 0))
		st = ST_NOT_FOUND;
	if (st != ST_OK)
		return st;
	memcpy(t.id, box.id.p, num_min(box.id.n, BRAIN_ID));
	/* What is to come needs room too. */
	st = b->by_number.len < BRAIN_TICKETS / 2 ? brain_ticket_add(b, &t)
						  : ST_LIMIT_TURNS;
	if (st == ST_OK)
		brain_used(b, &box);
	return st;
}

static void
kept(struct brain *b, const struct ask_line *line, struct ask_msg *m)
{
	struct wire w = wire_from(m->body);
	/* Later no worker has anything of before. */
	enum status st = b->ticks < BRAIN_ROUND_TICKS ? ST_OK : ST_BAD_MESSAGE;
	size_t n = 0;

	while (st == ST_OK && w.rest.n > 0) {
		uint64_t number = wire_u64(&w);
		struct str id = wire_str(&w);

		st = w.is_bad ? ST_BAD_MESSAGE : keep_one(b, line, number, id);
		n += st == ST_OK;
		if (st == ST_NOT_FOUND)
			st = ST_OK;
	}
	if (st != ST_OK)
		log_error(&b->control->role.log, "KEPT: %s", status_code(st));
	log_info(&b->control->role.log, "a worker holds %zu requests of before", n);
}

static void
place(struct brain *b, struct ask_line *line, struct ask_msg *m)
{
	struct brain_turn *t = NULL;
	enum status st = brain_turn_new(b, line, m, &t);

	if (st == ST_OK)
		brain_place(t);
	else
		log_error(&b->control->role.log, "PLACE: %s", status_code(st));
}

void
brain_heard(struct brain *b, struct ask_line *line, struct ask_msg *m)
{
	if (m->ask == ASK_PLACE)
		place(b, line, m);
	else if (m->ask == ASK_LEFT)
		left(b, line, m);
	else if (m->ask == ASK_CONTEXT)
		brain_context_heard(b, line, m);
	else if (m->ask == ASK_KEPT)
		kept(b, line, m);
	else if (m->ask == ASK_HOLD || m->ask == ASK_HOLD_CALL)
		approvals_heard(b->control, line, m);
}

void
brain_line_lost(struct brain *b, const struct ask_line *line)
{
	approvals_line_lost(b->control, line);
	list_each (it, &b->turns) {
		struct brain_turn *t = LIST_OF(it, struct brain_turn, link);

		if (t->line == line)
			t->line = NULL;
	}
	list_each_safe (it, &b->tickets) {
		struct brain_ticket *t = LIST_OF(it, struct brain_ticket, link);

		if (t->line == line)
			ticket_end(b, t);
	}
}

/* Birth and death. */

static void
tick(void *ctx)
{
	struct brain *b = ctx;

	brain_spans_look(b);
	if (b->ticks >= BRAIN_GRACE_TICKS)
		brain_idle(b);
	brain_pool(b);
	brain_bind_next(b);
	if (b->ticks++ >= b->round_at) {
		b->round_at = b->ticks + BRAIN_ROUND_TICKS - 1;
		brain_reconcile(b);
		brain_idle_rest(b);
		brain_bind_all(b);
	}
	loop_timer_set(&b->tick, BRAIN_TICK_MS);
}

/* Servers may have other customers: by this label ours are known again. */
static enum status
name_gateway(struct brain *b)
{
	CLEANUP(buf_done) struct buf text = { 0 };
	uint8_t secret[BRAIN_SECRET];
	enum status st = brain_store_secret(b->store, STR("gateway"), secret);

	if (st != ST_OK)
		return st;
	buf_init(&text, sizeof b->gateway - 1);
	enc_put_hex(&text, str_of(secret, sizeof b->gateway / 2));
	memcpy(b->gateway, text.p, text.len);
	return text.st;
}

enum status
brain_open(struct control *c)
{
	struct brain *b = calloc(1, sizeof *b);
	enum status st;

	if (b == NULL)
		return ST_NOMEM;
	b->control = c;
	b->store = c->store;
	list_init(&b->turns);
	list_init(&b->tickets);
	map_init(&b->by_number, BRAIN_TICKETS);
	map_init(&b->shares, BRAIN_TURNS + BRAIN_TICKETS);
	map_init(&b->jobs, BRAIN_JOBS);
	map_init(&b->busy, BRAIN_TICKETS);
	map_init(&b->endpoints, BRAIN_ENDPOINTS);
	map_init(&b->down, BRAIN_SERVERS);
	map_init(&b->idle, BRAIN_TICKETS);
	map_init(&b->rounds, BRAIN_SERVERS);
	map_init(&b->warming, BRAIN_SERVERS);
	map_init(&b->contexts, BRAIN_ENDPOINTS);
	map_init(&b->binds, BRAIN_JOBS);
	list_init(&b->binds_next);
	map_init(&b->vaults, BRAIN_ENDPOINTS);
	map_init(&b->spans, BRAIN_TICKETS);
	c->brain = b;
	st = keys_open(c, c->store, &c->keys);
	if (st == ST_OK)
		st = approvals_open(c, brain_store_db(c->store), who_asks,
				    &c->approvals);
	if (st == ST_OK)
		st = name_gateway(b);
	if (st == ST_OK) {
		brain_idle_start(b);
		loop_timer_init(&b->tick, c->loop, tick, b);
		loop_timer_set(&b->tick, BRAIN_TICK_MS);
		return ST_OK;
	}
	brain_close(b);
	return st;
}

void
brain_close(struct brain *b)
{
	if (b == NULL)
		return;
	loop_timer_clear(&b->tick);
	brain_turns_close(b);
	brain_jobs_close(b);
	brain_rounds_close(b);
	brain_idle_close(b);
	brain_pool_close(b);
	brain_binds_close(b);
	brain_vaults_close(b);
	brain_spans_close(b);
	list_each_safe (it, &b->tickets)
		ticket_end(b, LIST_OF(it, struct brain_ticket, link));
	brain_endpoints_close(b);
	brain_contexts_close(b);
	brain_down_close(b);
	map_done(&b->by_number);
	map_done(&b->shares);
	map_done(&b->busy);
	map_done(&b->jobs);
	approvals_close(b->control->approvals);
	b->control->approvals = NULL;
	keys_close(b->control->keys);
	b->control->keys = NULL;
	b->control->brain = NULL;
	free(b);
}
