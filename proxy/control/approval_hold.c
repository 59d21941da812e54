/* HOLD: a worker's request waits for a person. */
#include <stdlib.h>
#include <string.h>

#include "proxy/control/approval_in.h"
#include "proxy/io/place.h"

struct hold {
	struct list link; /* all->holds */
	struct approvals *all;
	const struct ask_line *asker;
	struct ask_line *line; /* NULL: nobody waits */
	uint64_t ticket;
	uint32_t seq;
	struct approval *approval;
};

static void
answer(const struct control *c, struct ask_line *line, uint32_t seq,
       const struct approval_told *t)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 512);
	buf_put_u16(&b, (uint16_t)t->st);
	buf_put_u64(&b, t->id);
	wire_put_str(&b, str_head(t->by, APPROVAL_BY_MAX));
	enum status st = ask_answer(line, ASK_HOLD, seq, str_of(b.p, b.len), NULL, 0);
	if (st != ST_OK && st != ST_END)
		log_error(&c->role.log, "HOLD: %s", status_code(st));
}

static void
end(struct hold *h, const struct approval_told *t)
{
	list_remove(&h->link);
	if (h->line != NULL)
		answer(h->all->control, h->line, h->seq, t);
	loop_defer(h->all->control->loop, free, h);
}

static void
on_told(void *ctx, const struct approval_told *t)
{
	end(ctx, t);
}

/* The worker's words, and whose they are, which only control knows. */
static enum status
read_wish(struct approvals *all, const struct ask_line *line, struct str body,
	  uint64_t *ret_ticket, struct approval_wish *ret_w)
{
	struct approval_wish w = { 0 };
	struct hold_wish said;
	enum status st = hold_wish_get(body, &said);

	if (st != ST_OK)
		return st;
	/* No worker of ours lets one pass, and lists of them are JSON. */
	if (str_has(said.what, '\0') || str_has(said.why, '\0') ||
	    str_has(said.text, '\0'))
		return ST_BAD_MESSAGE;
	if (said.ticket == 0 || !all->who(all->control, line, said.ticket, &w))
		return ST_NOT_FOUND;
	w.what = said.what;
	w.why = said.why;
	w.text = said.text;
	w.level = said.level;
	memcpy(w.hash, said.hash, sizeof w.hash);
	*ret_ticket = said.ticket;
	*ret_w = w;
	return ST_OK;
}

static enum status
hold(struct approvals *all, struct ask_line *line, const struct ask_msg *m)
{
	struct approval_wish wish;
	uint64_t ticket = 0;
	enum status st = read_wish(all, line, m->body, &ticket, &wish);
	struct hold *h = st == ST_OK ? calloc(1, sizeof *h) : NULL;

	if (st != ST_OK)
		return st;
	if (h == NULL)
		return ST_NOMEM;
	*h = (struct hold){
		.all = all, .asker = line, .line = line, .ticket = ticket, .seq = m->seq
	};
	st = approvals_begin(all->control, &wish, on_told, h, &h->approval);
	if (st == ST_OK)
		list_append(&all->holds, &h->link);
	else
		free(h);
	return st;
}

void
approvals_heard(struct control *c, struct ask_line *line, struct ask_msg *m)
{
	struct approvals *all = c->approvals;
	struct approval_told told = { .st = all == NULL ? ST_DRAINING
							: hold(all, line, m) };

	if (told.st != ST_OK)
		answer(c, line, m->seq, &told);
}

static void
cancel(struct hold *h)
{
	const struct approval_told told = { .st = ST_CLIENT_GONE };

	approval_drop(h->approval);
	end(h, &told);
}

void
approvals_left(struct control *c, const struct ask_line *line, uint64_t ticket)
{
	if (c->approvals == NULL)
		return;
	list_each_safe (it, &c->approvals->holds) {
		struct hold *h = LIST_OF(it, struct hold, link);
		if (h->asker == line && h->ticket == ticket)
			cancel(h);
	}
}

void
approvals_line_lost(struct control *c, const struct ask_line *line)
{
	if (c->approvals == NULL)
		return;
	list_each_safe (it, &c->approvals->holds) {
		struct hold *h = LIST_OF(it, struct hold, link);
		if (h->asker != line)
			continue;
		h->line = NULL;
		cancel(h);
	}
}

void
approval_holds_close(struct approvals *all)
{
	list_each_safe (it, &all->holds) {
		struct hold *h = LIST_OF(it, struct hold, link);
		approval_drop(h->approval);
		list_remove(&h->link);
		free(h);
	}
}
