#include "connectors/errand.h"

#include <string.h>

static void
end(struct errand *e, enum status st)
{
	struct side *leg = e->leg;

	e->leg = NULL;
	side_done(leg);
	e->hooks->over(e->ctx, st);
}

static void
note_type(struct errand *e, const struct head *h)
{
	const struct field *f = head_get(h, TOKEN_CONTENT_TYPE);

	if (f == NULL || f->value.n == 0 || f->value.n > sizeof e->type)
		return;
	memcpy(e->type, f->value.p, f->value.n);
	e->type_n = f->value.n;
}

static void
on_head(void *ctx, struct side_msg *m)
{
	struct errand *e = ctx;

	if (m->head->status < 200)
		return;
	e->http = m->head->status;
	e->is_encoded = head_get(m->head, TOKEN_CONTENT_ENCODING) != NULL;
	note_type(e, m->head);
	e->is_answered = m->is_whole;
}

static void
on_body(void *ctx, struct str view)
{
	struct errand *e = ctx;

	cred_put(&e->answer, view);
}

static void
on_end(void *ctx, const struct head *trailers)
{
	struct errand *e = ctx;

	(void)trailers;
	e->is_answered = true;
}

static void
on_batch(void *ctx)
{
	struct errand *e = ctx;
	bool again = true;

	while (again && e->leg != NULL) {
		if (e->is_answered || e->answer.st != ST_OK) {
			end(e, e->answer.st);
			return;
		}
		(void)!side_flush(e->leg); /* a failure is told by gone */
		side_want(e->leg, true);
		again = side_deliver(e->leg);
	}
}

static void
on_room(void *ctx)
{
	(void)ctx;
}

static void
on_gone(void *ctx, enum status why)
{
	struct errand *e = ctx;

	e->repeat = e->leg->repeat;
	end(e, why == ST_OK ? ST_UPSTREAM_BAD : why);
}

static const struct side_events events = {
	.head = on_head,
	.body = on_body,
	.end = on_end,
	.room = on_room,
	.batch = on_batch,
	.gone = on_gone,
};

static void
put_request(struct errand *e)
{
	cred_init(&e->answer, e->answer_max);
	e->leg->events = &events;
	e->leg->ctx = e;
	side_put_head(e->leg, &e->msg);
	if (!e->msg.is_whole) {
		if (e->body.n > 0)
			side_put_body(e->leg, e->body);
		side_put_end(e->leg, e->msg.head, NULL);
	}
	/* Views of secrets end here: what isn't sent is copied. */
	(void)!side_flush(e->leg);
	e->hooks->sent(e->ctx);
	on_batch(e);
}

static void
on_upstream(void *ctx, const struct upstream_got *got)
{
	struct errand *e = ctx;

	e->calling = NULL;
	if (got->st != ST_OK) {
		if (got->words != NULL)
			log_info(&e->all->role.log, "connector %.*s: %s: %s",
				 STR_ARG(e->name), status_code(got->st), got->words);
		e->hooks->over(e->ctx, got->st);
		return;
	}
	e->leg = got->side;
	put_request(e);
}

void
errand_begin(struct errand *e, const struct upstream_wish *wish)
{
	enum status st = ST_OK;

	if (!e->is_fresh)
		e->leg = upstream_take(e->all, wish, true);
	if (e->leg == NULL)
		st = upstream_begin(e->all, wish, on_upstream, e, &e->calling);
	if (st != ST_OK)
		e->hooks->over(e->ctx, st);
	else if (e->leg != NULL)
		put_request(e);
}

void
errand_stop(struct errand *e)
{
	struct side *leg = e->leg;

	upstream_cancel(e->calling);
	e->calling = NULL;
	e->leg = NULL;
	side_abort(leg, ST_OK);
	cred_done(&e->answer);
}
