#include "proxy/worker/person.h"

#include <openssl/evp.h>
#include <stdlib.h>

#include "conf/risk.h"
#include "proxy/base/enc.h"
#include "proxy/io/place.h"
#include "proxy/worker/exec.h"

enum { HOLD_MAX = 8192, WORDS_MAX = 256 };

struct person {
	struct exchange *x;
	struct worker *w;
	struct ask_line *line; /* the one that was asked; while seq isn't 0 */
	uint32_t seq;          /* 0: answered, or the line is lost */
	uint64_t ticket;
	struct buf words; /* x->approval */
};

static enum status
read_answer(struct person *p, struct str body)
{
	struct wire in = wire_from(body);
	uint16_t st = wire_u16(&in);
	uint64_t id = wire_u64(&in);
	struct str by = wire_str(&in), words;

	if (wire_end(&in) != ST_OK || st >= ST_COUNT)
		return ST_BAD_MESSAGE;
	if (id == 0)
		return st == ST_OK ? ST_BAD_MESSAGE : (enum status)st; /* nobody was */
	buf_putf(&p->words, "approval %llu", (unsigned long long)id);
	if (st == ST_OK) {
		buf_put(&p->words, STR(" allowed by "));
		buf_put(&p->words, by);
	}
	if (buf_finish(&p->words, &words) != ST_OK)
		return ST_NOMEM;
	p->x->approval = words;
	return (enum status)st;
}

static void
on_answer(void *ctx, enum status st, struct ask_msg *m)
{
	struct person *p = ctx;
	struct exchange *x = p->x;

	p->seq = 0;
	st = st == ST_OK ? read_answer(p, m->body) : ST_NO_CONTROL;
	if (st != ST_OK) {
		x->reason = st;
		x->worst = VERDICT_DENY;
	}
	x->host->resume(x);
}

static enum status
put_wish(struct buf *b, const struct person *p, const struct filter_question *q)
{
	struct hold_wish wish = { .ticket = p->ticket,
				  .level = RISK_HIGH,
				  .what = q->what,
				  .why = q->why,
				  .text = str_head(q->text, PLACE_TEXT_MAX) };
	unsigned n = sizeof wish.hash;

	if (EVP_Digest(q->text.p, q->text.n, wish.hash, &n, EVP_sha256(), NULL) != 1)
		return ST_NOMEM;
	hold_wish_put(b, &wish);
	return b->st;
}

static enum status
ask(struct person *p, const struct conn *c, const struct filter_question *q)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, HOLD_MAX);
	enum status st = put_wish(&b, p, q);
	if (st != ST_OK)
		return st;
	if (p->line == NULL)
		return ST_NO_CONTROL;
	st = ask_call(p->line, ASK_HOLD_CALL,
		      ASK_LOAD(str_of(b.p, b.len), &c->who_fd, 1), on_answer, p,
		      &p->seq);
	return st == ST_OK ? ST_OK : ST_NO_CONTROL;
}

enum status
person_ask(struct exchange *x, const struct filter_question *q)
{
	struct conn *c = x->core;
	struct person *p = x->person == NULL ? calloc(1, sizeof *p) : NULL;

	if (p == NULL)
		return ST_NOMEM;
	*p = (struct person){
		.x = x, .w = c->w, .line = c->w->control, .ticket = ++c->w->tickets
	};
	buf_init(&p->words, WORDS_MAX);
	enum status st = ask(p, c, q);
	if (st == ST_OK)
		x->person = p;
	else
		free(p);
	return st;
}

void
person_forget(struct exchange *x)
{
	struct person *p = x->person;

	/* A line that was lost has told us; so it lives. */
	if (p->seq != 0) {
		ask_cancel(p->line, p->seq);
		if (p->line == p->w->control)
			exec_left(p->w, p->ticket);
	}
	x->person = NULL;
	x->approval = STR("");
	buf_done(&p->words);
	free(p);
}

bool
person_is_asked(const struct exchange *x)
{
	const struct person *p = x->person;

	return p != NULL && p->seq != 0;
}
