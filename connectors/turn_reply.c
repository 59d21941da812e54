#include <string.h>

#include "connectors/scrub_head.h"
#include "connectors/turn_in.h"
#include "proxy/base/num.h"
#include "proxy/flow/lane.h"

static uint64_t
now(const struct turn *t)
{
	return loop_now_ms(t->all->loop);
}

static struct rinse_space
space_of(const struct turn *t)
{
	return (struct rinse_space){ t->all->clean, t->all->clean_n };
}

static bool
is_stripped(const struct turn *t, const struct field *f)
{
	const struct image *im = t->all->role.image;

	if (lane_is_own(f->name))
		return true;
	for (uint32_t i = 0; t->at != NULL && i < t->at->response_strip_n; i++)
		if (str_ieq(image_word(im, t->at->response_strip + i), f->name))
			return true;
	return false;
}

/* Without those that do not go on, and without echoes. */
static enum status
copy_fields(struct turn *t, const struct head *in, struct head *out)
{
	enum status st = ST_OK;

	for (size_t i = 0; i < in->fields_len && st == ST_OK; i++) {
		const struct field *f = &in->fields[i];
		if (!is_stripped(t, f))
			st = head_add_view(out, f->token, f->name, f->value);
	}
	return st == ST_OK ? rinse_fields(&t->rinse, out) : st;
}

static enum status
add_fields(const struct turn *t, struct head *out)
{
	const struct image *im = t->all->role.image;
	enum status st = ST_OK;

	if (t->at == NULL)
		return ST_OK;
	const struct image_header_line *line = image_headers(im, t->at->response_add);
	for (uint32_t i = 0; i < t->at->response_add_n && st == ST_OK; i++)
		st = head_set(out, image_str(im, line[i].name),
			      image_str(im, line[i].value));
	return st;
}

static enum status
add_number(struct head *out, const char *name, uint64_t v)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 24);
	buf_put_dec(&b, v);
	return b.st != ST_OK ? b.st : head_add(out, str_from(name), str_of(b.p, b.len));
}

/* A body that is encoded comes out plain, and of a length that nobody knows yet. */
static enum status
decode(struct turn *t, const struct side_msg *m, struct head *out)
{
	struct str codings = { 0 };
	enum status st;

	if (m->is_whole || !rinse_is_on(&t->rinse))
		return ST_OK;
	st = scrub_response_head(out, &codings);
	if (st == ST_OK && codings.p != NULL)
		st = rinse_decode(&t->rinse, codings);
	return st;
}

/* The same line with the fields that go on. */
static enum status
begin_head(struct turn *t, const struct head *in, struct head *ret_out)
{
	*ret_out = *in;
	ret_out->arena = &t->arena;
	ret_out->fields = NULL;
	ret_out->fields_len = ret_out->fields_cap = 0;
	return copy_fields(t, in, ret_out);
}

static void
put_final(struct turn *t, const struct side_msg *m)
{
	struct head out;
	struct side_msg down = { .head = &out, .is_whole = m->is_whole };
	enum status st = begin_head(t, m->head, &out);

	if (st == ST_OK)
		st = decode(t, m, &out);
	if (st == ST_OK)
		st = add_fields(t, &out);
	if (st == ST_OK && t->version > 0)
		st = add_number(&out, LANE_VERSION, t->version);
	if (st != ST_OK) {
		turn_refuse(t, st);
		return;
	}
	t->response = m->head;
	t->is_answered = true;
	t->down_over = m->is_whole;
	side_put_head(t->front, &down);
}

/* A hint may show an echo as well as an answer. */
static void
put_interim(struct turn *t, const struct side_msg *m)
{
	struct head out;
	struct side_msg down = { .head = &out, .is_whole = m->is_whole };
	enum status st = begin_head(t, m->head, &out);

	if (st != ST_OK)
		turn_refuse(t, st);
	else
		side_put_head(t->front, &down);
}

/* The token was refused before its time: once, another one is got. */
static bool
may_renew(const struct turn *t, uint16_t status)
{
	return status == 401 && auth_has_exchange(&t->conf) && !t->is_renewed &&
	       !t->is_ws && t->at != NULL;
}

static bool
renew(struct turn *t)
{
	const struct bond_wish wish = { t->lane->connector, lane_who(t->lane),
					t->lane->sandbox };

	if (wish.who == NULL)
		return false;
	bond_refused(t->all, &wish, t->token.serial);
	/* A body that has gone is gone: the next request has the new one. */
	if (!t->request_ends && !t->is_gathered)
		return false;
	t->is_renewed = true;
	turn_drop_leg(t);
	turn_to(t, TURN_OPEN);
	turn_step(t);
	return true;
}

static void
on_head(void *ctx, struct side_msg *m)
{
	struct turn *t = ctx;
	uint16_t status = m->head->status;

	t->since_ms = now(t);
	if (status < 200 && status != 101) {
		if (++t->interim > TURN_INTERIM_MAX)
			turn_refuse(t, ST_UPSTREAM_BAD);
		else
			put_interim(t, m);
		return;
	}
	if (may_renew(t, status) && renew(t))
		return;
	put_final(t, m);
	if (status == 101 && t->state == TURN_FORWARD) {
		turn_to(t, TURN_CARRY);
		t->up_over = t->down_over = false;
	}
}

static void
put(struct turn *t, struct str view, bool is_last)
{
	const struct rinse_space space = space_of(t);
	enum status st = rinse_put(&t->rinse, view, is_last, &space, t->front);

	t->since_ms = now(t);
	if (st != ST_OK && st != ST_AGAIN)
		turn_break(t, st);
}

static void
on_body(void *ctx, struct str view)
{
	put(ctx, view, false);
}

static void
put_end(struct turn *t, const struct head *trailers)
{
	struct head out;
	enum status st;

	head_init(&out, &t->arena);
	st = trailers == NULL ? ST_OK : copy_fields(t, trailers, &out);
	if (st == ST_OK && t->rinse.count + t->rinse.scrub.count > 0)
		st = add_number(&out, LANE_SCRUBBED,
				t->rinse.count + t->rinse.scrub.count);
	if (st != ST_OK) {
		turn_break(t, st);
		return;
	}
	t->down_over = true;
	side_put_end(t->front, t->response, out.fields_len > 0 ? &out : NULL);
}

static void
on_end(void *ctx, const struct head *trailers)
{
	struct turn *t = ctx;

	put(t, (struct str){ "", 0 }, true);
	if (t->state == TURN_OVER)
		return;
	t->trailers = trailers;
	t->has_end = true;
	if (rinse_is_drained(&t->rinse))
		put_end(t, trailers);
}

void
turn_reply_go_on(struct turn *t)
{
	if (rinse_is_drained(&t->rinse) || t->down_over)
		return;
	put(t, (struct str){ "", 0 }, false);
	if (t->state != TURN_OVER && t->has_end && rinse_is_drained(&t->rinse))
		put_end(t, t->trailers);
}

static bool
may_retry(const struct turn *t)
{
	if (t->is_retry || t->is_answered || t->is_ws || t->at == NULL ||
	    (!t->request_ends && !t->is_gathered))
		return false;
	return t->leg->repeat == SIDE_REPEAT_ANY ||
	       (t->leg->repeat == SIDE_REPEAT_SAFE &&
		method_is_safe(t->request->method_id));
}

static void
on_gone(void *ctx, enum status why)
{
	struct turn *t = ctx;

	if (t->state == TURN_FORWARD && may_retry(t)) {
		turn_drop_leg(t);
		t->is_retry = true;
		turn_to(t, TURN_OPEN);
		turn_step(t);
	} else {
		turn_refuse(t, why);
	}
	turn_settle(t);
}

static void
on_room(void *ctx)
{
	struct turn *t = ctx;

	t->since_ms = now(t);
}

static void
on_batch(void *ctx)
{
	turn_settle(ctx);
}

const struct side_events turn_leg_events = {
	.head = on_head,
	.body = on_body,
	.end = on_end,
	.room = on_room,
	.batch = on_batch,
	.gone = on_gone,
};
