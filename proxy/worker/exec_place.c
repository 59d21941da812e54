/* exec_private: what control says to a request, and the way to where it sends it. */
#include <sys/socket.h>

#include "conf/exec.h"
#include "proxy/io/ask.h"
#include "proxy/io/memfd.h"
#include "proxy/worker/exec_private.h"

enum { WISH_MAX = 65536 - 16 };

static bool
keep(struct turn *t, struct str *s)
{
	*s = s->n == 0 ? (struct str){ "", 0 } : arena_copy(&t->arena, *s);
	return s->p != NULL;
}

/* The message's memory ends with the call. */
static enum status
keep_texts(struct exec *e)
{
	struct place_answer *a = &e->placed;
	struct str *const texts[] = { &a->tenant,  &a->user,   &a->agent,
				      &a->session, &a->task,   &a->on_behalf_of,
				      &a->sandbox, &a->server, &a->words,
				      &a->type,    &a->host,   &a->prefix,
				      &a->language };
	bool is_kept = true;

	for (size_t i = 0; i < COUNT_OF(texts); i++)
		is_kept = is_kept && keep(e->t, texts[i]);
	for (size_t i = 0; i < a->fields_n; i++)
		is_kept = is_kept && keep(e->t, &a->fields[i].name) &&
			  keep(e->t, &a->fields[i].value);
	return is_kept ? ST_OK : ST_NOMEM;
}

/* A whole answer, beside the message or in it. */
static enum status
keep_body(struct exec *e, struct ask_msg *m)
{
	struct place_answer *a = &e->placed;
	struct str view = a->body;
	enum status st = ST_OK;

	if (a->kind == PLACE_ANSWER && a->body.n < a->body_n)
		st = m->fds_n == 1 ? memfd_map(m->fds[0], a->body_n, &view)
				   : ST_BAD_MESSAGE;
	if (st != ST_OK)
		return st;
	buf_put(&e->answer_room, view);
	if (view.p != a->body.p)
		memfd_unmap(&view);
	a->body = (struct str){ "", 0 };
	return buf_finish(&e->answer_room, &e->answer);
}

/* Which endpoint, with what in its hand. */
static enum status
take_route(struct exec *e)
{
	const struct place_answer *a = &e->placed;
	struct turn *t = e->t;
	struct dest d;
	enum status st = dest_from_host_single(a->host, a->port, &d);

	if (st != ST_OK || (a->prefix.n > 0 && uri_check_path(a->prefix) != ST_OK))
		return ST_BAD_MESSAGE;
	e->last = arena_alloc(&t->arena, (a->fields_n + 1) * sizeof *e->last);
	if (e->last == NULL)
		return ST_NOMEM;
	for (size_t i = 0; i < a->fields_n; i++) {
		enum token token;
		st = head_judge(a->fields[i].name, a->fields[i].value, &token);
		if (st != ST_OK)
			return ST_BAD_MESSAGE;
		e->last[i] = (struct field){ .name = a->fields[i].name,
					     .value = a->fields[i].value,
					     .token = token };
	}
	t->uri.dest = d;
	t->x.dest = &t->uri.dest;
	return ST_OK;
}

static void
routed(struct exec *e)
{
	struct turn *t = e->t;
	const struct image *im = t->c->w->role.image;
	enum status st;

	list_append(&t->c->w->routed, &e->link);
	st = take_route(e);
	if (st == ST_OK)
		st = exec_context_judge(e);
	if (st != ST_OK)
		turn_refuse(t, st);
	else if (exec_needs_approval(im, e->judged.answer.level))
		exec_hold(e);
	else
		exec_go(e);
}

static void
answered(struct exec *e, struct ask_msg *m)
{
	struct turn *t = e->t;
	enum status st = place_answer_get(m->body, &e->placed);

	if (st == ST_OK)
		st = keep_body(e, m);
	if (st == ST_OK)
		st = keep_texts(e);
	if (st != ST_OK) {
		e->placed = (struct place_answer){ 0 };
		turn_refuse(t, st);
		return;
	}
	t->x.detail = e->placed.words;
	e->is_ticket_open = e->placed.kind == PLACE_ROUTE;
	switch (e->placed.kind) {
	case PLACE_REFUSE:
		turn_refuse(t, e->placed.st);
		break;
	case PLACE_ANSWER:
		exec_say(e);
		break;
	case PLACE_ROUTE:
		routed(e);
		break;
	}
}

static void
on_placed(void *ctx, enum status st, struct ask_msg *m)
{
	struct exec *e = ctx;
	struct turn *t = e->t;

	e->seq = 0;
	/* Until an answer says that there is none: one that can't be read, or comes too late,
	 * may have had a ticket. */
	e->is_ticket_open = true;
	if (st == ST_OK)
		answered(e, m);
	else
		turn_refuse(t, ST_NO_CONTROL);
	turn_settle(t);
}

static void
put_peer(struct buf *b, const struct conn *c)
{
	struct sockaddr_storage ss = { 0 };
	socklen_t n = sizeof ss;
	struct dest d;
	struct addr a;
	uint16_t port = 0;

	if (getpeername(c->io.fd, (struct sockaddr *)&ss, &n) == 0 &&
	    addr_from_sockaddr((struct sockaddr *)&ss, &a, &port) &&
	    dest_from_addr(&a, port, &d) == ST_OK)
		dest_put(b, &d);
}

/* What it is and who asks, as the request itself says. */
static struct place_wish
wish_of(const struct exec *e, const struct exec_asked *a)
{
	const struct exec_route *r = &e->route;
	const struct buf *context = &e->judged.context;

	return (struct place_wish){ .ticket = e->ticket,
				    .turn = e->t->x.id,
				    .op = (uint16_t)r->op,
				    .port = r->port,
				    .is_v1 = r->is_v1,
				    .is_tls = e->is_tls,
				    .use_server_proxy = r->use_server_proxy,
				    .key = a->key,
				    .bearer = a->bearer,
				    .capability = a->capability,
				    .authority = e->authority,
				    .on_behalf_of = a->on_behalf_of,
				    .session = a->session,
				    .task = a->task,
				    .idempotency = a->idempotency,
				    .reuse = a->reuse,
				    .request = e->request_id,
				    .sandbox = r->sandbox,
				    .id = e->judged.has_context
						  ? str_of(context->p, context->len)
						  : r->id,
				    .expires = r->expires };
}

/* What control itself answers by. */
static void
add_content(const struct exec *e, struct place_wish *w)
{
	const struct exec_route *r = &e->route;

	if (r->part != EXEC_PART_EXECD && r->part != EXEC_PART_APP)
		w->query = r->query;
	if (r->part != EXEC_PART_EXECD && r->body == EXEC_BODY_JSON)
		w->body = str_of(e->body.p, e->body.len);
}

static enum status
put_wish(struct exec *e, struct buf *b)
{
	CLEANUP(buf_done) struct buf peer = { 0 };
	CLEANUP(buf_done) struct buf why = { 0 };
	struct turn *t = e->t;
	struct exec_asked a;
	enum status st = exec_head_read(t->request, &a);

	if (st != ST_OK)
		return st;
	struct place_wish w = wish_of(e, &a);
	/* The sandbox's own token, and nothing else that says who asks. */
	if (e->own.n > 0) {
		w.key = a.egress;
		w.bearer = w.capability = w.on_behalf_of = STR("");
	}
	buf_init(&peer, 64);
	put_peer(&peer, t->c);
	w.peer = str_of(peer.p, peer.len);
	add_content(e, &w);
	if (e->route.op == EXEC_OP_SANDBOX_CREATE) {
		buf_init(&why, 2048);
		risk_put_reason(&why, t->c->w->role.image, &e->judged.answer);
		w.level = (uint8_t)e->judged.answer.level;
		w.why = str_of(why.p, why.len);
		w.text = str_of(e->judged.text.p, e->judged.text.len);
	}
	place_wish_put(b, &w);
	return ST_OK;
}

void
exec_place(struct exec *e)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct turn *t = e->t;
	struct worker *w = t->c->w;
	struct str body = STR("");

	e->state = EXEC_PLACE;
	turn_to(t, TURN_OPEN);
	if (w->control == NULL || !role_has_ledger(&w->role)) {
		turn_refuse(t, w->control == NULL ? ST_NO_CONTROL : ST_NO_LEDGER);
		return;
	}
	e->ticket = ++w->tickets;
	/* Control's row comes before ours, and both are of this turn. */
	if (t->x.id == 0 && e->route.part != EXEC_PART_EXECD &&
	    e->route.part != EXEC_PART_APP && exec_op_changes(e->route.op))
		t->x.id = row_next_id(&w->role.ids);
	buf_init(&b, WISH_MAX);
	enum status st = put_wish(e, &b);
	if (st == ST_OK && buf_finish(&b, &body) != ST_OK)
		st = b.st == ST_NOMEM ? ST_NOMEM : ST_HEAD_TOO_LARGE;
	if (st == ST_OK &&
	    ask_call(w->control, ASK_PLACE, ASK_LOAD(body, &t->c->who_fd, 1), on_placed,
		     e, &e->seq) != ST_OK)
		st = ST_NO_CONTROL;
	if (st != ST_OK)
		turn_refuse(t, st);
	else
		e->line = w->control;
}

enum status
exec_dial(struct turn *t, dial_fn fn)
{
	const struct place_answer *a = &t->exec->placed;
	const struct dial_reach to = { .server = a->server,
				       .host = a->host,
				       .dest = &t->uri.dest };

	return dial_reach(t->c, &to, fn, t, &t->dial);
}

static enum status
put_target(struct exec *e)
{
	const struct exec_route *r = &e->route;
	struct turn *t = e->t;
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str path;

	buf_init(&b, e->placed.prefix.n + r->rest.n + 1);
	buf_put(&b, e->placed.prefix);
	buf_put(&b, r->rest);
	if (b.len == 0)
		buf_putc(&b, '/');
	enum status st = buf_finish(&b, &path);
	if (st != ST_OK)
		return st;
	t->uri.form = URI_ORIGIN;
	t->uri.path = arena_copy(&t->arena, path);
	t->uri.query = r->query;
	t->uri.has_query = r->has_query;
	return t->uri.path.p == NULL ? ST_NOMEM : ST_OK;
}

void
exec_go(struct exec *e)
{
	struct turn *t = e->t;
	enum status st;

	e->state = EXEC_REACH;
	t->is_https = false; /* how the caller came is another matter */
	st = put_target(e);
	head_init(&e->up, &t->arena);
	if (st == ST_OK)
		st = exec_head_up(&e->up, t->request, &e->route, &e->placed);
	if (st == ST_OK)
		st = exec_watch_begin(e);
	if (st != ST_OK)
		turn_refuse(t, st);
	else
		turn_open(t);
}

/* The body that was read: byte for byte, with its length. */
static void
put_gathered(struct exec *e)
{
	struct turn *t = e->t;
	struct str body = str_of(e->body.p, e->body.len);

	t->x.bytes_up += body.n;
	side_put_body(t->leg, body);
	side_put_end(t->leg, &e->up, NULL);
}

void
exec_forward(struct turn *t)
{
	struct exec *e = t->exec;
	bool is_gathered = e->route.body == EXEC_BODY_JSON && !t->request_ends;
	struct side_msg m = { .head = &e->up,
			      .uri = &t->uri,
			      .is_ws = t->is_ws,
			      .last = e->last,
			      .last_n = e->placed.fields_n,
			      .is_whole = t->request_ends && !t->is_ws };
	enum status st = ST_OK;

	if (is_gathered) {
		e->up.body = BODY_LENGTH;
		e->up.has_length = true;
		e->up.length = e->body.len;
		e->up.expects_continue = false;
		head_remove(&e->up, TOKEN_EXPECT);
		if (e->body.len == 0)
			m.is_whole = true;
	}
	/* Before the first byte; once, also when it has to be sent again. */
	if (!e->is_rowed)
		st = exec_row(e, ROW_EXEC);
	if (st != ST_OK) {
		turn_refuse(t, ST_NO_LEDGER);
		return;
	}
	e->is_rowed = true;
	e->state = EXEC_FORWARD;
	turn_to(t, TURN_FORWARD);
	side_put_head(t->leg, &m);
	if (is_gathered && e->body.len > 0)
		put_gathered(e);
	if (!t->up.is_over && !t->is_ws)
		side_want(t->front, true);
}

void
exec_respond(struct turn *t)
{
	struct exec *e = t->exec;
	struct str rest = e->route.rest;

	enum status st = exec_head_down(t->response, &e->placed, e->request_id);
	struct exec_location where = { .ours = str_head(e->path, e->path.n - rest.n),
				       .prefix = e->placed.prefix,
				       .dest = &t->uri.dest };

	/* execd leads nowhere; who follows would take key or capability along.
	 * In absolute form the caller named us as a proxy: it goes on as it likes. */
	if (e->route.op != EXEC_OP_APP)
		head_remove(t->response, TOKEN_LOCATION);
	else if (st == ST_OK && str_starts(e->path, STR("/")))
		st = exec_head_location(t->response, &where);
	if (st != ST_OK) {
		turn_break(t, ST_NOMEM);
		return;
	}
	if (e->is_streaming && !exec_stream_goes_on(e))
		return;
	exec_watch_answer(e);
	exec_context_begin(e);
	turn_reply_begin(t);
}

void
exec_accept(struct turn *t, struct head *h)
{
	struct exec *e = t->exec;

	if (e == NULL)
		return;
	/* Without memory only the id is missing: tokens are taken out first. */
	(void)!exec_head_down(h, &e->placed, e->request_id);
}

const struct head *
exec_trailers(struct turn *t, bool is_response, const struct head *trailers)
{
	struct exec *e = t->exec;
	struct head *to;

	if (e == NULL || trailers == NULL)
		return e == NULL ? trailers : NULL;
	to = &e->trailers[is_response ? 1 : 0];
	head_init(to, &t->arena);
	/* No memory: the rest is left out, as any hop may. */
	(void)!exec_head_trailers(to, trailers, is_response ? NULL : &e->route,
				  &e->placed);
	return to;
}

enum status
exec_watch(struct turn *t, bool is_response, struct str piece)
{
	if (t->exec == NULL)
		return ST_OK;
	if (is_response)
		exec_context_put(t->exec, piece);
	return exec_watch_put(t->exec, is_response, piece);
}
