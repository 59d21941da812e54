/*
 * HOLD and HOLD_CALL: a worker's request waits for a person.  What a sandbox asks while it
 * waits for the same host or connector already follows that: one answer is for all of them.
 */
#include <stdlib.h>
#include <string.h>

#include "proxy/control/approval_in.h"
#include "proxy/io/place.h"

enum { SANDBOX_MAX = STR_NAME_MAX };

struct hold {
	struct list link; /* all->holds */
	struct approvals *all;
	const struct ask_line *asker;
	struct ask_line *line; /* NULL: nobody waits */
	uint64_t ticket;
	uint32_t seq;
	enum ask ask;
	struct approval *approval; /* NULL: of one that follows */
	struct hold *leader;       /* that it follows, or NULL */
	bool is_shared;            /* others may follow it */
	uint8_t hash[32];          /* then: of what is asked, */
	size_t sandbox_n;          /* and by whom */
	char sandbox[SANDBOX_MAX];
};

static void
answer(const struct control *c, struct ask_line *line, enum ask ask, uint32_t seq,
       const struct approval_told *t)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 512);
	buf_put_u16(&b, (uint16_t)t->st);
	buf_put_u64(&b, t->id);
	wire_put_str(&b, str_head(t->by, APPROVAL_BY_MAX));
	enum status st = ask_answer(line, ask, seq, str_of(b.p, b.len), NULL, 0);
	if (st != ST_OK && st != ST_END)
		log_error(&c->role.log, "%s: %s", ask_name(ask), status_code(st));
}

static void
end(struct hold *h, const struct approval_told *t)
{
	list_remove(&h->link);
	if (h->line != NULL)
		answer(h->all->control, h->line, h->ask, h->seq, t);
	loop_defer(h->all->control->loop, free, h);
}

static void
on_told(void *ctx, const struct approval_told *t)
{
	struct hold *h = ctx;

	list_each_safe (it, &h->all->holds) {
		struct hold *f = LIST_OF(it, struct hold, link);
		if (f->leader == h)
			end(f, t);
	}
	end(h, t);
}

/* The name of a sandbox that has no user.  No user has a '/' in their name. */
static enum status
put_user(struct buf *b, const struct who *who)
{
	if (who->user.n == 0)
		buf_put(b, STR("sandbox/"));
	buf_put(b, who->user.n == 0 ? who->id : who->user);
	return b->st;
}

/* Whose socket it is, is the kernel's word and not the worker's. */
static enum status
find_sandbox(const struct approvals *all, const struct ask_msg *m, struct buf *user,
	     struct approval_wish *ret_w)
{
	const struct control *c = all->control;
	const struct who *who =
		m->fds_n == 1 ? who_by_socket(c->role.who, m->fds[0]) : NULL;
	const struct image_sandbox *s;

	if (who == NULL)
		return ST_UNKNOWN_SANDBOX;
	s = image_sandbox_by_id(c->role.image, who->id);
	if (s != NULL)
		ret_w->tenant = image_str(c->role.image, s->tenant);
	ret_w->agent = who->agent;
	ret_w->session = who->session;
	ret_w->sandbox = who->id;
	enum status st = put_user(user, who);
	ret_w->user = str_of(user->p, user->len);
	return st;
}

/* The worker's words, and whose they are, which only control knows. */
static enum status
read_wish(struct approvals *all, const struct ask_line *line, const struct ask_msg *m,
	  struct buf *user, uint64_t *ret_ticket, struct approval_wish *ret_w)
{
	struct approval_wish w = { 0 };
	struct hold_wish said;
	enum status st = hold_wish_get(m->body, &said);

	if (st != ST_OK)
		return st;
	/* No worker of ours lets one pass, and lists of them are JSON. */
	if (str_has(said.what, '\0') || str_has(said.why, '\0') ||
	    str_has(said.text, '\0'))
		return ST_BAD_MESSAGE;
	if (m->ask == ASK_HOLD_CALL)
		st = find_sandbox(all, m, user, &w);
	else if (!all->who(all->control, line, said.ticket, &w))
		st = ST_NOT_FOUND;
	if (st != ST_OK)
		return st;
	w.what = said.what;
	w.why = said.why;
	w.text = said.text;
	w.level = said.level;
	memcpy(w.hash, said.hash, sizeof w.hash);
	*ret_ticket = said.ticket;
	*ret_w = w;
	return ST_OK;
}

/* Each call is one of its own; what is used for the first time is used once. */
static void
share(struct hold *h, const struct approval_wish *w)
{
	h->is_shared =
		h->ask == ASK_HOLD_CALL && w->sandbox.n <= SANDBOX_MAX &&
		(str_eq(w->what, STR("host")) || str_eq(w->what, STR("connector")));
	if (!h->is_shared)
		return;
	memcpy(h->hash, w->hash, sizeof h->hash);
	memcpy(h->sandbox, w->sandbox.p, w->sandbox.n);
	h->sandbox_n = w->sandbox.n;
}

static struct hold *
leader_of(const struct hold *h)
{
	list_each (it, &h->all->holds) {
		struct hold *l = LIST_OF(it, struct hold, link);
		if (h->is_shared && l->is_shared && l->leader == NULL &&
		    memcmp(h->hash, l->hash, sizeof h->hash) == 0 &&
		    str_eq(str_of(h->sandbox, h->sandbox_n),
			   str_of(l->sandbox, l->sandbox_n)))
			return l;
	}
	return NULL;
}

static enum status
hold(struct approvals *all, struct ask_line *line, const struct ask_msg *m)
{
	CLEANUP(buf_done) struct buf user = { 0 };
	struct approval_wish wish;
	uint64_t ticket = 0;

	buf_init(&user, 1024);
	enum status st = read_wish(all, line, m, &user, &ticket, &wish);
	struct hold *h = st == ST_OK ? calloc(1, sizeof *h) : NULL;
	if (st != ST_OK)
		return st;
	if (h == NULL)
		return ST_NOMEM;
	*h = (struct hold){ .all = all,
			    .asker = line,
			    .line = line,
			    .ticket = ticket,
			    .seq = m->seq,
			    .ask = m->ask };
	share(h, &wish);
	h->leader = leader_of(h);
	if (h->leader == NULL)
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
		answer(c, line, m->ask, m->seq, &told);
}

static bool
has_followers(const struct hold *h)
{
	list_each (it, &h->all->holds) {
		if (LIST_OF(it, struct hold, link)->leader == h)
			return true;
	}
	return false;
}

/* The last one that goes takes the approval with it. */
static void
cancel(struct hold *h)
{
	const struct approval_told told = { .st = ST_CLIENT_GONE };
	struct hold *leader = h->leader;

	if (leader == NULL && has_followers(h)) {
		if (h->line != NULL)
			answer(h->all->control, h->line, h->ask, h->seq, &told);
		h->line = NULL;
		h->asker = NULL;
		return;
	}
	if (leader == NULL)
		approval_drop(h->approval);
	end(h, &told);
	if (leader != NULL && leader->asker == NULL && !has_followers(leader))
		cancel(leader);
}

void
approvals_left(struct control *c, const struct ask_line *line, uint64_t ticket)
{
	if (c->approvals == NULL)
		return;
	list_each (it, &c->approvals->holds) {
		struct hold *h = LIST_OF(it, struct hold, link);
		if (h->asker != line || h->ticket != ticket)
			continue;
		cancel(h);
		return;
	}
}

/* Some hold of this line, or NULL. */
static struct hold *
one_of(const struct approvals *all, const struct ask_line *line)
{
	list_each (it, &all->holds) {
		struct hold *h = LIST_OF(it, struct hold, link);
		if (h->asker == line)
			return h;
	}
	return NULL;
}

void
approvals_line_lost(struct control *c, const struct ask_line *line)
{
	struct hold *h;

	/* One that ends may take another one with it. */
	while (c->approvals != NULL && (h = one_of(c->approvals, line)) != NULL) {
		h->line = NULL;
		cancel(h);
	}
}

void
approval_holds_close(struct approvals *all)
{
	list_each_safe (it, &all->holds) {
		struct hold *h = LIST_OF(it, struct hold, link);
		if (h->approval != NULL)
			approval_drop(h->approval);
		list_remove(&h->link);
		free(h);
	}
}
