#ifndef TESTS_UNIT_BRAIN_OUTSIDE_H
#define TESTS_UNIT_BRAIN_OUTSIDE_H
/*
 * brain_outside: what the brain asks others for is done by the test.  Calls are kept until they
 * are answered (brain_servers.h), and who is enrolled is written down.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/control/brain.h"
#include "proxy/control/enroll.h"
#include "tests/unit/brain_bench.h"

enum { BOXES = 64, CALLS = 64, ANSWERS = 64 };

struct fake_box { /* on a server */
	char id[40], server[16], state[16], snapshot[40];
	bool is_gone;
	json_t *request;
};

struct fake_call {
	bool is_open;
	call_fn fn;
	void *ctx;
	char connector[64], method[8], target[512];
	char *body;
};

struct fake_answer {
	uint64_t ticket;
	struct place_answer a;
	char *raw; /* views of a lie here */
	char *body;
	bool is_there;
};

struct world {
	struct bench bench;
	struct control c;
	struct ask_line *worker, *dialer; /* our ends */
	int caller[2], ring, bell;
	uint64_t tickets, reaches;
	struct fake_call calls[CALLS];
	size_t calls_n;  /* all that were made */
	char last[512];  /* "one POST /v1/sandboxes" */
	char *last_body; /* of a POST /v1/sandboxes */
	struct fake_box boxes[BOXES];
	size_t boxes_n;
	struct fake_answer answers[ANSWERS];
	/* Who is known by address. */
	char enrolled[32], policy[32], user[32], from[64], narrow[256];
	size_t enrolls, ends;
	bool trusts_ca;
	struct who who;
	enroll_fn enroll_fn;
	void *enroll_ctx;
	/* What the servers do. */
	enum status down[3]; /* one, two, strong: not ST_OK: what calls end with */
	bool is_held;        /* calls stay open until world_serve() */
	uint16_t http;       /* not 0: answers this, with `says` */
	const char *says;
	const char *endpoint; /* instead of the right one */
};

static inline struct world *
the_world(void)
{
	static struct world w;

	return &w;
}

enum status
call_begin(struct control *c, const struct call_wish *wish, call_fn fn, void *ctx,
	   struct call **ret_call)
{
	struct world *w = the_world();

	(void)c;
	for (size_t i = 0; i < CALLS; i++) {
		struct fake_call *f = &w->calls[i];

		if (f->is_open)
			continue;
		*f = (struct fake_call){ .is_open = true, .fn = fn, .ctx = ctx };
		(void)snprintf(f->connector, sizeof f->connector, "%.*s",
			       STR_ARG(wish->connector));
		(void)snprintf(f->method, sizeof f->method, "%.*s",
			       STR_ARG(wish->method));
		(void)snprintf(f->target, sizeof f->target, "%.*s",
			       STR_ARG(wish->target));
		f->body = strndup(wish->body.n > 0 ? wish->body.p : "", wish->body.n);
		w->calls_n++;
		*ret_call = (struct call *)(void *)f;
		return ST_OK;
	}
	return ST_LIMIT_RATE;
}

void
call_cancel(struct call *call)
{
	struct fake_call *f = (struct fake_call *)(void *)call;

	if (f == NULL)
		return;
	free(f->body);
	*f = (struct fake_call){ 0 };
}

/* Enrollment. */

static inline void
world_enrolled(void *ctx)
{
	struct world *w = ctx;
	enroll_fn fn = w->enroll_fn;

	w->enroll_fn = NULL;
	if (fn != NULL)
		fn(w->enroll_ctx, ST_OK, 7);
}

enum status
enroll_begin(struct control *c, const struct enroll_wish *wish, enroll_fn fn, void *ctx)
{
	struct world *w = the_world();
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 64);
	addr_put(&b, wish->sources);
	(void)snprintf(w->from, sizeof w->from, "%.*s", (int)b.len, b.p);
	(void)snprintf(w->enrolled, sizeof w->enrolled, "%.*s", STR_ARG(wish->id));
	(void)snprintf(w->policy, sizeof w->policy, "%.*s", STR_ARG(wish->policy));
	(void)snprintf(w->user, sizeof w->user, "%.*s", STR_ARG(wish->user));
	(void)snprintf(w->narrow, sizeof w->narrow, "%.*s",
		       wish->narrow == NULL ? 4 : (int)wish->narrow->n,
		       wish->narrow == NULL ? "NULL" : wish->narrow->p);
	w->trusts_ca = wish->trusts_ca;
	w->enrolls++;
	w->enroll_fn = fn;
	w->enroll_ctx = ctx;
	loop_defer(c->loop, world_enrolled, w);
	return ST_OK;
}

enum status
enroll_narrow(struct control *c, struct str id, const struct str *narrow, enroll_fn fn,
	      void *ctx)
{
	struct world *w = the_world();

	assert_true(str_eq(id, str_from(w->enrolled)));
	(void)snprintf(w->narrow, sizeof w->narrow, "%.*s", STR_ARG(*narrow));
	w->enroll_fn = fn;
	w->enroll_ctx = ctx;
	loop_defer(c->loop, world_enrolled, w);
	return ST_OK;
}

enum status
enroll_end(struct control *c, struct str id, enroll_fn fn, void *ctx)
{
	struct world *w = the_world();

	(void)c;
	(void)fn;
	(void)ctx;
	assert_true(str_eq(id, str_from(w->enrolled)));
	w->enrolled[0] = '\0';
	w->ends++;
	return ST_OK;
}

void
enroll_forget(struct control *c, const void *ctx)
{
	(void)c;
	if (the_world()->enroll_ctx == ctx)
		the_world()->enroll_fn = NULL;
}

const struct who *
enroll_find(struct control *c, struct str id)
{
	struct world *w = the_world();

	(void)c;
	return id.n > 0 && str_eq(id, str_from(w->enrolled)) ? &w->who : NULL;
}

#endif
