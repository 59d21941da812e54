#include "proxy/worker/exec_private.h"

#include <openssl/rand.h>

#include "proxy/base/enc.h"
#include "proxy/base/num.h"
#include "proxy/http/ws.h"

enum { ID_BYTES = 16 };

bool
turn_is_exec(const struct turn *t)
{
	return t->c->way == CONN_EXEC;
}

static enum status
new_id(struct exec *e)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	uint8_t bytes[ID_BYTES];
	struct str text;

	buf_init(&b, 2 * sizeof bytes);
	if (RAND_bytes(bytes, sizeof bytes) != 1)
		return ST_SYSTEM;
	enc_put_hex(&b, str_of(bytes, sizeof bytes));
	enum status st = buf_finish(&b, &text);
	e->request_id = arena_copy(&e->t->arena, text);
	return e->request_id.p == NULL ? ST_NOMEM : st;
}

/* Copied: a reload may come before the turn has ended. */
static struct str
own_of(struct turn *t)
{
	const struct image *im = t->c->w->role.image;
	size_t n;
	const struct image_listener *l = image_listeners(im, &n);
	struct str own =
		t->c->listener < n ? image_str(im, l[t->c->listener].sandbox) : STR("");

	return own.n == 0 ? STR("") : arena_copy(&t->arena, own);
}

struct exec *
exec_of(struct turn *t)
{
	struct exec *e = t->exec;

	if (e != NULL)
		return e;
	e = arena_alloc(&t->arena, sizeof *e);
	if (e == NULL)
		return NULL;
	e->t = t;
	e->own = own_of(t);
	list_init(&e->link);
	e->is_tls = t->is_https;
	struct str target = t->request->target;
	e->path = str_cut(&target, '?'); /* what is behind may be a secret */
	buf_init(&e->body, EXEC_BODY_MAX);
	buf_init(&e->answer_room, PLACE_ANSWER_MAX);
	buf_init(&e->said, EXEC_SAID_MAX);
	loop_timer_init(&e->beat, t->c->w->loop, NULL, NULL);
	if (!exec_head_id(t->request, &e->request_id) && new_id(e) != ST_OK)
		e->request_id = STR("-");
	t->exec = e;
	return e;
}

/* What is never forwarded and no caller's business. */
static enum status
check_route(const struct exec *e)
{
	enum method m = e->t->request->method_id;

	if (e->route.op == EXEC_OP_INIT)
		return ST_DENIED_PATH;
	/* As the server behind us: its proxy takes neither. */
	if (m == METHOD_HEAD || m == METHOD_OPTIONS || m == METHOD_OTHER)
		return ST_METHOD_REFUSED;
	return e->route.op == EXEC_OP_EGRESS_OTHER ? ST_NOT_FOUND : ST_OK;
}

static enum status
check_upgrade(const struct exec *e)
{
	struct turn *t = e->t;
	enum status st = t->is_ws ? ST_OK : ws_check_request(t->request, &t->is_ws);
	enum exec_body body = e->route.body;

	if (st != ST_OK)
		return st;
	if (body == EXEC_BODY_UPGRADE && !t->is_ws)
		return ST_BAD_UPGRADE;
	return t->is_ws && body != EXEC_BODY_UPGRADE && body != EXEC_BODY_ANY
		       ? ST_BAD_UPGRADE
		       : ST_OK;
}

static enum status
check_body(const struct exec *e)
{
	const struct head *h = e->t->request;
	uint64_t max = exec_body_max(e->t);

	if (head_get(h, TOKEN_EXPECT) != NULL && !h->expects_continue && h->minor > 0)
		return ST_EXPECT_FAILED;
	if (e->route.body == EXEC_BODY_JSON &&
	    head_get(h, TOKEN_CONTENT_ENCODING) != NULL)
		return ST_BAD_HEADER; /* read as what it isn't */
	return max > 0 && h->body == BODY_LENGTH && h->length > max ? ST_TOO_BIG
								    : ST_OK;
}

static enum status
read_route(struct exec *e)
{
	const struct head *h = e->t->request;

	return e->own.n == 0 ? exec_route_read(h->method_id, h->target, &e->route)
			     : exec_route_read_egress(h->method_id, h->target, e->own,
						      &e->route);
}

static enum status
check(struct exec *e)
{
	struct turn *t = e->t;
	enum status st = t->is_misled ? ST_MISMATCH : ST_OK;

	if (t->request->method_id >= METHOD_CONNECT) /* and TRACE, TRACK */
		return ST_METHOD_REFUSED;
	if (st == ST_OK)
		st = exec_head_authority(t->request, t->is_https, &e->authority);
	if (st == ST_OK)
		st = read_route(e);
	e->is_routed = st == ST_OK;
	if (st == ST_OK)
		st = check_route(e);
	if (st == ST_OK)
		st = check_upgrade(e);
	return st == ST_OK ? check_body(e) : st;
}

/* Nothing of a body that means nothing goes on; one that is streamed waits for its leg. */
static void
judged(struct exec *e)
{
	struct turn *t = e->t;
	struct str body = { 0 };
	enum status st;

	if (e->route.body == EXEC_BODY_JSON && e->body.len > 0)
		body = str_of(e->body.p, e->body.len);
	st = exec_judge(t->c->w->role.image, &e->route, body, NULL, &e->judged);
	if (st != ST_OK)
		turn_refuse(t, st);
	else
		exec_place(e);
}

void
exec_begin(struct turn *t)
{
	struct exec *e = exec_of(t);
	struct side_msg m = { 0 };
	struct head h;

	if (e == NULL) {
		turn_break(t, ST_NOMEM);
		return;
	}
	enum status st = check(e);
	if (st != ST_OK) {
		turn_refuse(t, st);
		return;
	}
	if (e->route.body != EXEC_BODY_JSON || t->request_ends) {
		judged(e);
		return;
	}
	e->state = EXEC_GATHER;
	turn_to(t, TURN_OPEN);
	if (t->request->expects_continue) {
		head_init(&h, &t->arena);
		h.status = 100;
		m.head = &h;
		side_put_head(t->front, &m);
		(void)!side_flush(t->front); /* who is gone is heard of by reading */
	}
	side_want(t->front, true);
}

bool
exec_gathers(const struct turn *t)
{
	return t->exec != NULL && t->exec->state == EXEC_GATHER;
}

void
exec_gather(struct turn *t, struct str piece)
{
	struct exec *e = t->exec;
	struct worker *w = t->c->w;
	uint64_t max = exec_body_max(t);

	t->since_ms = loop_now_ms(w->loop);
	if (piece.n > max - num_min(e->body.len, max)) {
		t->is_last = true;
		turn_refuse(t, ST_TOO_BIG);
		return;
	}
	if (piece.n > EXEC_BODIES_MAX - num_min(w->exec_gathered, EXEC_BODIES_MAX)) {
		t->is_last = true;
		turn_refuse(t, ST_LIMIT_BODIES);
		return;
	}
	buf_put(&e->body, piece);
	e->counted += piece.n;
	w->exec_gathered += piece.n;
	if (e->body.st != ST_OK)
		turn_refuse(t, e->body.st);
}

void
exec_gathered(struct turn *t)
{
	struct exec *e = t->exec;

	t->up.is_over = true;
	side_want(t->front, false);
	judged(e);
}

uint64_t
exec_body_max(const struct turn *t)
{
	const struct exec *e = t->exec;

	if (e->route.body == EXEC_BODY_JSON)
		return e->route.part == EXEC_PART_EXECD ? EXEC_BODY_MAX
							: PLACE_BODY_MAX;
	/* Of uploads each file is counted, exec_watch.c. */
	return e->route.body == EXEC_BODY_PARTS
		       ? 0
		       : worker_option(t->c->w, OPT_LIMIT_BODY);
}

void
exec_tick(struct turn *t)
{
	const struct exec *e = t->exec;
	uint64_t waited = loop_now_ms(t->c->w->loop) - t->since_ms;

	if (e == NULL || t->state != TURN_OPEN)
		return;
	if (e->state == EXEC_GATHER &&
	    waited > worker_option(t->c->w, OPT_REQUEST_HEAD_TIMEOUT)) {
		stats_add(t->c->w->role.stats, STAT_TIMEOUT_IDLE, 1);
		t->is_last = true;
		turn_refuse(t, ST_TIMEOUT);
	} else if ((e->state == EXEC_PLACE || e->state == EXEC_HOLD) &&
		   conn_is_gone(t->c)) {
		turn_break(t, ST_CLIENT_GONE);
	}
}

bool
exec_is_streaming(const struct turn *t)
{
	return t->exec != NULL && t->exec->is_streaming;
}

bool
exec_interim(struct turn *t, struct head *h)
{
	if (t->exec == NULL)
		return true;
	h->fields_len = 0;
	return h->status == 100 && !t->is_answered;
}

void
exec_ended(struct turn *t, enum status why)
{
	struct exec *e = t->exec;

	(void)why; /* x.reason has it */
	if (e == NULL || e->is_told)
		return;
	e->is_told = true;
	exec_watch_end(e);
	if (e->is_rowed)
		(void)!exec_row(e, ROW_EXEC_END); /* the ring's own counter tells */
	exec_leave(e);
}

void
exec_over(struct turn *t)
{
	struct exec *e = t->exec;

	if (e == NULL)
		return;
	e->state = EXEC_OVER;
	exec_leave(e);
	loop_timer_clear(&e->beat);
	exec_watch_free(e);
	buf_done(&e->body);
	buf_done(&e->answer_room);
	buf_done(&e->said);
	exec_judged_done(&e->judged);
	t->c->w->exec_gathered -= e->counted;
	e->counted = 0;
	t->exec = NULL;
}
