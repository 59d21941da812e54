#include "connectors/call.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "connectors/call_in.h"
#include "connectors/scrub.h"
#include "proxy/io/memfd.h"

static void start(void *ctx);

/* The end. */

static void
drop_try(struct call *c)
{
	lent_cancel(c->leasing);
	bond_cancel(c->bonding);
	c->leasing = NULL;
	c->bonding = NULL;
	errand_stop(&c->errand);
	auth_job_done(&c->job);
	words_unref(c->words);
	c->words = NULL;
	lent_unref(c->lent);
	c->lent = NULL;
	arena_done(&c->scratch);
}

static void
call_free(void *ctx)
{
	struct call *c = ctx;

	explicit_bzero(c->text, c->text_n); /* what runs there may be told keys by it */
	free(c->text);
	free(c);
}

static void
call_end(struct call *c)
{
	struct connector *all = c->all;

	drop_try(c);
	c->is_over = true;
	loop_timer_clear(&c->deadline);
	list_remove(&c->link);
	all->calls_n--;
	loop_defer(all->loop, call_free, c);
	connector_check_drained(all);
}

static void
tell(struct peer *p, uint32_t seq, const struct call_answer *a, int fd)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, ask_rule(ASK_CALL)->size);
	call_answer_put(&b, a);
	peer_answer(p, ASK_CALL, seq, &b, fd);
}

static void
fail(struct call *c, enum status why)
{
	const struct call_answer a = { .st = why };

	tell(c->peer, c->seq, &a, -1);
	call_end(c);
}

/* The answer. */

static enum status
scrub(struct call *c)
{
	struct errand *e = &c->errand;
	uint32_t count = 0;
	enum status st = ST_OK;

	if (c->words == NULL || c->words->set == NULL)
		return ST_OK;
	st = scrub_text(c->words->set, e->answer.p, e->answer.len, &count);
	if (st == ST_OK)
		st = scrub_text(c->words->set, e->type, e->type_n, &count);
	if (count > 0)
		log_error(&c->all->role.log,
			  "connector %.*s: its system said our credential back",
			  STR_ARG(c->wish.connector));
	return st;
}

static enum status
answer(struct call *c)
{
	const struct errand *e = &c->errand;
	struct call_answer a = { .st = ST_OK,
				 .http = e->http,
				 .type = str_of(e->type, e->type_n),
				 .body_n = (uint32_t)e->answer.len };
	enum status st = e->is_encoded ? ST_UPSTREAM_BAD : scrub(c);
	int fd = -1;

	if (st == ST_OK && e->answer.len > 0)
		fd = memfd_sealed("answer", cred_since(&e->answer, 0));
	if (st == ST_OK && e->answer.len > 0 && fd < 0)
		st = ST_NO_FILES;
	if (st == ST_OK)
		tell(c->peer, c->seq, &a, fd);
	if (fd >= 0)
		(void)close(fd);
	return st;
}

static void
on_sent(void *ctx)
{
	struct call *c = ctx;

	c->is_sent = true;
	auth_job_done(&c->job);
}

/* Its system has certainly not seen it, or it may be asked twice. */
static bool
may_retry(const struct call *c)
{
	const struct errand *e = &c->errand;

	return !c->is_retry && e->http == 0 &&
	       (e->repeat == SIDE_REPEAT_ANY ||
		(e->repeat == SIDE_REPEAT_SAFE &&
		 method_is_safe(method_of(c->wish.method))));
}

static void
on_over(void *ctx, enum status st)
{
	struct call *c = ctx;

	if (st != ST_OK && may_retry(c)) {
		c->is_retry = true;
		c->is_sent = false;
		/* Not from inside an event of the connection that is gone. */
		loop_defer(c->all->loop, start, c);
		return;
	}
	if (st == ST_OK)
		st = answer(c);
	if (st != ST_OK)
		fail(c, st);
	else
		call_end(c);
}

/* On its way. */

static void
run(struct call *c)
{
	static const struct errand_hooks hooks = { on_sent, on_over };
	const struct image_connector *at = connector_at(c->all, c->connector);
	const struct lease *lease = lent_lease(c->lent);
	struct upstream_wish wish = { .connector = c->connector,
				      .handle = HANDLE_NONE,
				      .sandbox = -1,
				      .dest = &c->uri.dest,
				      .is_plain = at->upstream_is_plain,
				      .offer = upstream_offer(at) };

	if (c->conf.kind == AUTH_MTLS && lease != NULL)
		lease_client(lease, &wish.chain, &wish.key);
	c->head.length = c->job.body.n;
	c->errand = (struct errand){
		.all = c->all,
		.hooks = &hooks,
		.ctx = c,
		.name = c->wish.connector,
		.msg = { .head = &c->head,
			 .uri = &c->uri,
			 .is_https = !at->upstream_is_plain,
			 .is_whole = c->head.body == BODY_NONE,
			 .last = c->job.last,
			 .last_n = c->job.last_n },
		.body = c->job.body,
		.answer_max = c->wish.answer_max,
		.is_fresh = c->is_retry || c->conf.kind == AUTH_MTLS,
	};
	errand_begin(&c->errand, &wish);
}

static void
go(struct call *c, const struct bond_token *token)
{
	enum status st = call_write(c, token);

	if (st != ST_OK)
		fail(c, st);
	else
		run(c);
}

/* What it needs first. */

static void
on_token(void *ctx, enum status st, const struct bond_token *token)
{
	struct call *c = ctx;

	c->bonding = NULL;
	if (st != ST_OK)
		fail(c, st);
	else
		go(c, token);
}

static void
get_token(struct call *c)
{
	const struct bond_wish wish = { c->connector, NULL, -1 };
	struct bond_token token;
	enum status st = bond_get(c->all, &wish, on_token, c, &token, &c->bonding);

	if (st == ST_OK)
		go(c, &token);
	else if (st != ST_AGAIN)
		fail(c, st);
}

static void get_lease(struct call *c);

static void
on_lease(void *ctx, enum status st)
{
	struct call *c = ctx;

	c->leasing = NULL;
	if (st == ST_AGAIN)
		get_lease(c);
	else if (st != ST_OK)
		fail(c, st);
	else
		go(c, NULL);
}

static void
get_lease(struct call *c)
{
	const struct lease_wish wish = { .connector = c->wish.connector,
					 .conf = &c->conf,
					 .parts = auth_reads(&c->conf),
					 .sandbox = -1 };
	enum status st = ST_OK;

	if (lent_lease(c->lent) != NULL) {
		go(c, NULL);
		return;
	}
	st = lent_get(c->lent, &wish, on_lease, c, &c->leasing);
	if (st != ST_OK)
		fail(c, st);
}

static void
start(void *ctx)
{
	struct call *c = ctx;

	if (c->is_over)
		return;
	drop_try(c);
	enum status st = call_prepare(c);
	if (st != ST_OK)
		fail(c, st);
	else if (auth_has_exchange(&c->conf))
		get_token(c);
	else if (auth_reads(&c->conf) != 0)
		get_lease(c);
	else
		go(c, NULL);
}

static void
on_deadline(void *ctx)
{
	fail(ctx, ST_UPSTREAM_TIMEOUT);
}

void
calls_renew(struct connector *all)
{
	list_each_safe (it, &all->calls) {
		struct call *c = LIST_OF(it, struct call, link);
		if (!c->is_sent)
			start(c);
	}
}

void
calls_end(struct connector *all, const struct peer *p)
{
	list_each_safe (it, &all->calls) {
		struct call *c = LIST_OF(it, struct call, link);
		if (p == NULL || c->peer == p)
			call_end(c);
	}
}

static enum status
call_new(struct connector *all, struct str body, struct call **ret_c)
{
	struct call *c;

	if (all->is_draining)
		return ST_DRAINING;
	if (all->calls_n >= CALLS_MAX)
		return ST_LIMIT_CONNECTIONS;
	c = calloc(1, sizeof *c);
	if (c == NULL)
		return ST_NOMEM;
	c->text = malloc(body.n);
	c->text_n = body.n;
	if (c->text == NULL) {
		free(c);
		return ST_NOMEM;
	}
	memcpy(c->text, body.p, body.n);
	/* It was read before, from these bytes. */
	need(call_wish_get(str_of(c->text, body.n), &c->wish) == ST_OK);
	c->all = all;
	*ret_c = c;
	return ST_OK;
}

void
call_heard(struct peer *p, struct ask_msg *m)
{
	struct connector *all = p->set->ctx;
	struct call_wish wish;
	struct call *c = NULL;

	if (call_wish_get(m->body, &wish) != ST_OK) {
		peer_kill(p, ST_BAD_MESSAGE);
		return;
	}
	const struct call_answer refused = { .st = call_new(all, m->body, &c) };
	if (refused.st != ST_OK) {
		tell(p, m->seq, &refused, -1);
		return;
	}
	c->peer = p;
	c->seq = m->seq;
	list_append(&all->calls, &c->link);
	all->calls_n++;
	loop_timer_init(&c->deadline, all->loop, on_deadline, c);
	loop_timer_set(&c->deadline, wish.deadline_ms);
	start(c);
}
