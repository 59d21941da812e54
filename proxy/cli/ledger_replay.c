#include "proxy/cli/ledger_replay.h"

#include <stdlib.h>

#include "proxy/base/num.h"
#include "proxy/cli/ledger_exec.h"

void
replay_init(struct replay *r)
{
	*r = (struct replay){ 0 };
	list_init(&r->steps);
	map_init(&r->by_turn, REPLAY_ROWS_MAX);
	map_init(&r->by_approval, REPLAY_ROWS_MAX);
}

static void
row_free(struct replay_row *x)
{
	json_decref(x->exec);
	buf_done(&x->bytes);
	free(x);
}

void
replay_done(struct replay *r)
{
	for (size_t i = 0; i < r->rows_n; i++)
		row_free(r->rows[i]);
	free(r->rows);
	r->rows = NULL;
	r->rows_n = 0;
	list_each_safe (it, &r->steps)
		free(LIST_OF(it, struct replay_step, link));
	list_init(&r->steps);
	map_done(&r->by_turn);
	map_done(&r->by_approval);
}

/* The ledger's row goes away, its bytes here stay. */
static struct replay_row *
row_new(uint64_t seq, const struct row *row)
{
	struct replay_row *x = calloc(1, sizeof *x);
	struct str bytes;

	if (x == NULL)
		return NULL;
	x->seq = seq;
	list_init(&x->link);
	buf_init(&x->bytes, ROW_MAX);
	row_put(&x->bytes, row);
	if (buf_finish(&x->bytes, &bytes) != ST_OK || row_get(bytes, &x->r) != ST_OK) {
		row_free(x);
		return NULL;
	}
	x->exec = ledger_exec_load(x->r.exec);
	return x;
}

static struct replay_step *
step_new(struct replay *r)
{
	struct replay_step *s = calloc(1, sizeof *s);

	if (s == NULL)
		return NULL;
	s->number = ++r->steps_n;
	list_init(&s->rows);
	list_append(&r->steps, &s->link);
	return s;
}

static struct replay_step *
find(const struct replay *r, const struct replay_row *x, struct str turn,
     struct str approval)
{
	struct replay_step *s = map_get(&r->by_turn, turn);

	if (s != NULL || approval.n == 0)
		return s;
	s = map_get(&r->by_approval, approval);
	/* What was approved for later, too, is told by the first that it was for. */
	return s == NULL || s->start == NULL || x->r.kind == ROW_APPROVAL ? s : NULL;
}

static void
take(struct replay_step *s, struct replay_row *x)
{
	list_append(&s->rows, &x->link);
	if (x->r.kind == ROW_EXEC || x->r.kind == ROW_DENY)
		s->start = s->start == NULL ? x : s->start;
	if (x->r.kind == ROW_EXEC_END || x->r.kind == ROW_DENY)
		s->end = x;
}

static enum status
join(struct replay *r, struct replay_row *x)
{
	CLEANUP(buf_done) struct buf number = { 0 };
	struct str turn = str_of(&x->r.turn, sizeof x->r.turn);
	struct str approval = ledger_exec_approval(x->exec, &number);
	struct replay_step *s = find(r, x, turn, approval);

	if (s == NULL)
		s = step_new(r);
	if (s == NULL)
		return ST_NOMEM;
	enum status st = map_put(&r->by_turn, turn, s);
	if (st == ST_OK && approval.n > 0 && x->r.kind == ROW_APPROVAL)
		st = map_put(&r->by_approval, approval, s);
	take(s, x);
	return st;
}

static bool
grow(struct replay *r)
{
	enum { FIRST = 64 };
	size_t room = r->room == 0 ? FIRST : 2 * r->room;

	if (r->rows_n < r->room)
		return true;
	if (r->rows_n == REPLAY_ROWS_MAX)
		return false;
	struct replay_row **rows = realloc(r->rows, room * sizeof(struct replay_row *));
	if (rows == NULL)
		return false;
	r->rows = rows;
	r->room = room;
	return true;
}

enum status
replay_add(struct replay *r, uint64_t seq, const struct row *row)
{
	struct replay_row *x = grow(r) ? row_new(seq, row) : NULL;

	if (x == NULL)
		return ST_NOMEM;
	r->rows[r->rows_n++] = x;
	r->last_seq = num_max(r->last_seq, seq);
	return ST_OK;
}

static int
compare(const void *a, const void *b)
{
	const struct replay_row *x = *(struct replay_row *const *)a,
				*y = *(struct replay_row *const *)b;

	if (x->r.time_us != y->r.time_us)
		return x->r.time_us < y->r.time_us ? -1 : 1;
	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

enum status
replay_join(struct replay *r)
{
	enum status st = ST_OK;

	if (r->rows_n == 0)
		return ST_OK;
	qsort(r->rows, r->rows_n, sizeof(struct replay_row *), compare);
	r->begun_us = r->rows[0]->r.time_us;
	for (size_t i = 0; i < r->rows_n && st == ST_OK; i++)
		st = join(r, r->rows[i]);
	return st;
}
