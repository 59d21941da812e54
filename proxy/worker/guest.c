#include "proxy/worker/guest.h"

#include <stdlib.h>

#include "proxy/worker/deny.h"
#include "proxy/worker/inlet.h"
#include "proxy/worker/login.h"
#include "proxy/worker/turn.h"

struct guest {
	struct list link; /* visit->guests */
	struct visit *v;
	struct side *front;
	struct side_msg msg; /* head NULL: it is not there yet */
	bool is_connect;
	bool is_asking; /* its token is being looked at */
	bool is_over;
};

struct guest *
guest_of_link(struct list *link)
{
	return LIST_OF(link, struct guest, link);
}

bool
guest_is_wanted(const struct visit *v)
{
	if (v->c->way == CONN_EXEC)
		return false; /* control finds out, request by request */
	return v->c->limit == NULL || v->barred != ST_OK;
}

void
guest_tick(struct visit *v)
{
	if (v->barred != ST_OK)
		front_drain(v->front);
}

void
guest_cut(struct guest *g)
{
	if (g->is_over)
		return;
	g->is_over = true;
	list_remove(&g->link);
	loop_defer(g->v->c->w->loop, free, g);
}

static void
refuse(struct guest *g, enum status why)
{
	struct visit *v = g->v;
	struct side *front = g->front;
	struct exchange x;

	conn_exchange(v->c, &x);
	x.reason = why;
	if (g->msg.head != NULL)
		x.method = g->msg.head->method;
	guest_cut(g);
	deny_side(v->c, front, &x);
	exchange_done(&x);
	if (++v->refusals > LOGIN_TRIES_MAX && v->barred == ST_OK)
		v->barred = ST_AUTH_FAILED;
}

/* Whose connection it is is known; whether this request is theirs the turn finds out. */
static void
pass(struct guest *g)
{
	struct side *front = g->front;
	struct side_msg m = g->msg;
	struct visit *v = g->v;

	guest_cut(g);
	enum status st = g->is_connect ? inlet_new(v, front) : turn_new(v, front);
	if (st != ST_OK) {
		side_abort(front, st);
		return;
	}
	front->events->head(front->ctx, &m);
}

static void on_login(void *ctx, enum status st);

/* The next one whose token is to be looked at, if none is. */
static void
ask(struct guest *g)
{
	struct visit *v = g->v;
	struct conn *c = v->c;

	enum status st = login_by_head(c, g->msg.head, on_login, v, &v->login);
	if (st != ST_OK) {
		refuse(g, st);
		return;
	}
	g->is_asking = true;
	login_keep(c, g->msg.head);
	front_pause(v->front, true);
}

static void
look(struct guest *g)
{
	struct visit *v = g->v;

	if (v->barred != ST_OK)
		refuse(g, v->barred);
	else if (v->c->limit != NULL)
		pass(g);
	else if (v->login == NULL)
		ask(g);
}

static struct guest *
asking(struct visit *v)
{
	list_each (it, &v->guests)
		if (guest_of_link(it)->is_asking)
			return guest_of_link(it);
	return NULL;
}

static void
on_login(void *ctx, enum status st)
{
	struct visit *v = ctx;
	struct conn *c = v->c;
	struct guest *g = asking(v);

	v->login = NULL;
	front_pause(v->front, false);
	if (st != ST_OK && c->limit == NULL)
		c->by_token = 0;
	else if (st != ST_OK) /* known, but over a limit: it never is one that passed */
		v->barred = st;
	if (g != NULL) /* it may have gone */
		g->is_asking = false;
	if (g != NULL && st != ST_OK)
		refuse(g, st);
	list_each_safe (it, &v->guests) {
		struct side *front;
		g = guest_of_link(it);
		front = g->front;
		if (c->is_closed || v->login != NULL)
			return;
		if (g->msg.head == NULL)
			continue;
		look(g);
		/* As when its side had called. */
		if (c->limit != NULL && !c->is_closed && v->barred == ST_OK)
			front->events->batch(front->ctx);
	}
}

static void
on_head(void *ctx, struct side_msg *m)
{
	struct guest *g = ctx;

	g->msg = *m;
	look(g);
}

static void
on_body(void *ctx, struct str view)
{
	(void)ctx; /* none is wanted */
	(void)view;
}

static void
on_end(void *ctx, const struct head *trailers)
{
	(void)ctx;
	(void)trailers;
}

static void
on_nothing(void *ctx)
{
	(void)ctx;
}

static void
on_bad(void *ctx, enum status why)
{
	refuse(ctx, why);
}

static void
on_gone(void *ctx, enum status why)
{
	struct guest *g = ctx;
	struct side *front = g->front;

	(void)why;
	guest_cut(g);
	side_done(front);
}

enum status
guest_new(struct visit *v, struct side *s, bool is_connect)
{
	static const struct side_events events = { on_head,    on_body,    on_end,
						   on_nothing, on_nothing, on_bad,
						   on_gone };
	struct guest *g = calloc(1, sizeof *g);

	if (g == NULL)
		return ST_NOMEM;
	g->v = v;
	g->front = s;
	g->is_connect = is_connect;
	list_append(&v->guests, &g->link);
	s->events = &events;
	s->ctx = g;
	return ST_OK;
}
