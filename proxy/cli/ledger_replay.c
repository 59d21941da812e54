#include "proxy/cli/ledger_replay.h"

#include <stdlib.h>

#include "proxy/cli/ledger_exec.h"

enum { NAME_MAX_N = 64 };

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
	list_each_safe (it, &r->steps) {
		struct replay_step *s = LIST_OF(it, struct replay_step, link);
		list_each_safe (jt, &s->rows)
			row_free(LIST_OF(jt, struct replay_row, link));
		free(s);
	}
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

/* Control writes a number, the worker the text that it was told. */
static struct str
approval_of(const struct replay_row *x, struct buf *b)
{
	const json_t *v = json_object_get(x->exec, "approval");

	if (!json_is_integer(v))
		return ledger_exec_str(x->exec, "approval");
	buf_init(b, NAME_MAX_N);
	buf_putf(b, "%lld", (long long)json_integer_value(v));
	return str_of(b->p, b->len);
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
	struct str approval = approval_of(x, &number);
	struct replay_step *s = find(r, x, turn, approval);

	if (s == NULL)
		s = step_new(r);
	if (s == NULL) {
		row_free(x);
		return ST_NOMEM;
	}
	enum status st = map_put(&r->by_turn, turn, s);
	if (st == ST_OK && approval.n > 0 && x->r.kind == ROW_APPROVAL)
		st = map_put(&r->by_approval, approval, s);
	take(s, x);
	return st;
}

enum status
replay_add(struct replay *r, uint64_t seq, const struct row *row)
{
	struct replay_row *x = row_new(seq, row);

	if (x == NULL)
		return ST_NOMEM;
	if (r->rows_n++ == 0) {
		r->first_seq = seq;
		r->begun_us = row->time_us;
	}
	r->last_seq = seq;
	return join(r, x);
}
