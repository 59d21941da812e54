/* exec_private: control hears when what it gave a route for is over, and one that was started
 * anew of what isn't. */
#include <string.h>

#include "proxy/io/ask.h"
#include "proxy/worker/exec_private.h"

static enum status
tell_left(struct worker *w, uint64_t ticket)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, sizeof ticket);
	buf_put_u64(&b, ticket);
	return b.st != ST_OK
		       ? b.st
		       : ask_tell(w->control, ASK_LEFT, str_of(b.p, b.len), NULL, 0);
}

/* Control is behind: its sandbox would be busy for as long as this worker lives. */
static void
owe(struct worker *w, uint64_t ticket)
{
	buf_put_u64(&w->owed, ticket);
	if (w->owed.st != ST_OK)
		log_error(&w->role.log, "control isn't told what has ended");
}

void
exec_left(struct worker *w, uint64_t ticket)
{
	enum status st = tell_left(w, ticket);

	if (st != ST_OK && st != ST_END)
		owe(w, ticket);
}

void
exec_pay(struct worker *w)
{
	struct wire owed = wire_from(str_of(w->owed.p, w->owed.len));
	enum status st = w->control == NULL ? ST_END : ST_OK;

	while (st == ST_OK && owed.rest.n > 0) {
		struct wire next = owed;

		st = tell_left(w, wire_u64(&next));
		if (st == ST_OK)
			owed = next;
	}
	if (st == ST_END)
		owed.rest = STR(""); /* control has forgotten them with its line */
	if (owed.rest.n > 0)
		memmove(w->owed.p, owed.rest.p, owed.rest.n);
	w->owed.len = owed.rest.n;
	if (w->owed.len == 0)
		buf_clear(&w->owed);
}

/* Nobody waits for it, or what it gave is over. */
void
exec_leave(struct exec *e)
{
	struct worker *w = e->t->c->w;
	bool is_owed = e->seq != 0 || e->is_ticket_open;

	/* A line that was lost has told us, and control has forgotten its tickets. */
	if (e->seq != 0)
		ask_cancel(e->line, e->seq);
	e->seq = 0;
	e->is_ticket_open = false;
	list_remove(&e->link);
	if (is_owed && w->control != NULL && w->control == e->line)
		exec_left(w, e->ticket);
}

/* As many as one message holds; true: there are more. */
static bool
keep_some(struct worker *w, struct buf *b)
{
	list_each (it, &w->routed) {
		struct exec *e = LIST_OF(it, struct exec, link);

		/* What still waits for a word of the other one is refused in a moment. */
		if (e->line == w->control || e->seq != 0)
			continue;
		if (ask_rule(ASK_KEPT)->size - b->len < 8 + 2 + e->placed.sandbox.n)
			return true;
		buf_put_u64(b, e->ticket);
		wire_put_str(b, e->placed.sandbox);
		e->line = w->control;
	}
	return false;
}

void
exec_keep(struct worker *w)
{
	bool has_more = true;

	buf_clear(&w->owed); /* to one that has forgotten it */
	while (has_more) {
		CLEANUP(buf_done) struct buf b = { 0 };
		struct str body;

		buf_init(&b, ask_rule(ASK_KEPT)->size);
		has_more = keep_some(w, &b);
		if (b.len > 0 &&
		    (buf_finish(&b, &body) != ST_OK ||
		     ask_tell(w->control, ASK_KEPT, body, NULL, 0) != ST_OK))
			log_error(&w->role.log, "control isn't told what is held");
	}
}
