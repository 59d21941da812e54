#include "proxy/control/approvals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/risk.h"
#include "proxy/base/clock.h"
#include "proxy/base/num.h"
#include "proxy/control/approval_in.h"
#include "proxy/io/exec_note.h"

struct approval {
	struct list link;      /* all->waiting */
	struct approvals *all; /* NULL: closed, and on_covered() frees it */
	uint64_t id;           /* 0: covered by a grant */
	approval_fn fn;        /* NULL: nobody is told */
	void *ctx;
	struct loop_timer deadline;
	struct approval_cover cover;
};

uint64_t
approvals_now_s(void)
{
	return clock_wall_us() / 1000000;
}

/* The ledger. */

static struct str
level_word(const struct approval_wish *w)
{
	return w->level < RISK_LEVELS
		       ? str_from(risk_level_word((enum risk_level)w->level))
		       : STR("");
}

static void
put_note(struct exec_note *n, const struct approval_row *r)
{
	exec_note_begin(n, r->wish.what);
	exec_note_number(n, "approval", (int64_t)r->id);
	exec_note_text(n, "state", str_from(approval_state_word(r->state)));
	exec_note_text(n, "by", r->by);
	if (r->state == APPROVAL_ALLOWED)
		exec_note_text(n, "scope", str_from(approval_scope_word(r->scope)));
	exec_note_text(n, "note", r->note);
	exec_note_text(n, "level", level_word(&r->wish));
	exec_note_text(n, "why", r->wish.why);
	exec_note_hash(n, "sha256", r->wish.hash);
	exec_note_text(n, "on_behalf_of", r->wish.on_behalf_of);
	exec_note_text(n, "text", r->wish.text);
}

static enum status
record(struct approvals *all, const struct approval_row *r, enum status reason)
{
	struct row row = role_row_begin(&all->control->role, ROW_APPROVAL, NULL);
	CLEANUP(exec_note_done) struct exec_note note = { 0 };
	char detail[256];

	put_note(&note, r);
	(void)snprintf(detail, sizeof detail, "approval %llu %s%s%.*s",
		       (unsigned long long)r->id, approval_state_word(r->state),
		       r->by.n > 0 ? " by " : "", STR_ARG(str_head(r->by, 128)));
	row.reason = reason;
	row.sandbox = r->wish.sandbox;
	row.user = r->wish.user;
	row.agent = r->wish.agent;
	row.session = r->wish.session;
	row.detail = str_from(detail);
	row.exec = exec_note_end(&note);
	return role_row(&all->control->role, &row);
}

/* The end of one. */

/* Whoever asked is told, and it is gone at the end of the turn. */
static void
tell(struct approval *a, const struct approval_told *told)
{
	approval_fn fn = a->fn;

	a->fn = NULL;
	loop_timer_clear(&a->deadline);
	list_remove(&a->link);
	a->all->waiting_n--;
	loop_defer(a->all->control->loop, free, a);
	if (fn != NULL)
		fn(a->ctx, told);
}

static enum status
reason_of(enum approval_state s)
{
	static const enum status of[APPROVAL_STATES] = {
		[APPROVAL_PENDING] = ST_AGAIN,
		[APPROVAL_ALLOWED] = ST_OK,
		[APPROVAL_DENIED] = ST_APPROVAL_DENIED,
		[APPROVAL_EXPIRED] = ST_APPROVAL_EXPIRED,
		[APPROVAL_CANCELLED] = ST_CLIENT_GONE,
	};

	return of[s];
}

struct ending {
	struct approvals *all;
	enum status st;
};

static bool
record_end(void *ctx, const struct approval_row *r)
{
	struct ending *e = ctx;

	e->st = record(e->all, r, reason_of(r->state));
	return true;
}

/* In exec.db and in the ledger, or in neither. */
static enum status
write_end(struct approvals *all, uint64_t id, const struct approval_end *e)
{
	struct ending ending = { all, ST_OK };
	enum status st = approval_store_begin(all->store);

	if (st != ST_OK)
		return st;
	st = approval_store_decide(all->store, id, e);
	if (st == ST_OK)
		st = approval_store_find(all->store, id, record_end, &ending);
	if (st == ST_OK)
		st = ending.st;
	return approval_store_end(all->store, st);
}

/* A denial holds also where it can't be written. */
static void
end_unasked(struct approval *a, enum approval_state to)
{
	const struct approval_end e = { .state = to, .now_s = approvals_now_s() };
	enum status st = write_end(a->all, a->id, &e);

	if (st != ST_OK)
		log_error(&a->all->control->role.log, "approval %llu: %s",
			  (unsigned long long)a->id, status_code(st));
}

static void
on_deadline(void *ctx)
{
	struct approval *a = ctx;
	const struct approval_told told = { .st = ST_APPROVAL_EXPIRED, .id = a->id };

	end_unasked(a, APPROVAL_EXPIRED);
	tell(a, &told);
}

void
approval_drop(struct approval *a)
{
	const struct approval_told told = { .st = ST_CLIENT_GONE, .id = a->id };

	a->fn = NULL;
	if (a->id == 0)
		return; /* on_covered() comes, and tells nobody */
	end_unasked(a, APPROVAL_CANCELLED);
	tell(a, &told);
}

uint64_t
approval_id(const struct approval *a)
{
	return a->id;
}

static struct approval *
find(const struct approvals *all, uint64_t id)
{
	list_each (it, &all->waiting) {
		struct approval *a = LIST_OF(it, struct approval, link);
		if (a->id == id)
			return a;
	}
	return NULL;
}

struct check {
	struct str by;
	enum status st;
};

/* Letters of another case are the same name to a person. */
static bool
check_own(void *ctx, const struct approval_row *r)
{
	struct check *c = ctx;

	if (str_ieq(c->by, r->wish.user) || str_ieq(c->by, r->wish.on_behalf_of))
		c->st = ST_APPROVAL_OWN;
	return true;
}

enum status
approvals_decide(struct approvals *all, uint64_t id, const struct approval_end *e)
{
	struct approval *a = id == 0 ? NULL : find(all, id);
	struct check check = { e->by, ST_OK };
	enum status st = approval_store_find(all->store, id, check_own, &check);

	if (st == ST_OK)
		st = a == NULL ? ST_CONFLICT : check.st;
	if (st == ST_OK)
		st = write_end(all, id, e);
	if (st != ST_OK)
		return st;
	const struct approval_told told = { .st = reason_of(e->state),
					    .id = id,
					    .by = e->by };
	tell(a, &told);
	return ST_OK;
}

/* The beginning of one. */

static struct approval *
approval_new(struct approvals *all, approval_fn fn, void *ctx)
{
	struct approval *a = calloc(1, sizeof *a);

	if (a == NULL)
		return NULL;
	a->all = all;
	a->fn = fn;
	a->ctx = ctx;
	loop_timer_init(&a->deadline, all->control->loop, on_deadline, a);
	return a;
}

static void
start(struct approval *a)
{
	list_append(&a->all->waiting, &a->link);
	a->all->waiting_n++;
}

static void
on_covered(void *ctx)
{
	struct approval *a = ctx;
	const struct approval_told told = { .st = ST_OK,
					    .id = a->cover.approval,
					    .by = str_of(a->cover.by, a->cover.by_n) };

	if (a->all == NULL)
		free(a); /* closed meanwhile */
	else
		tell(a, &told);
}

/* That it was granted is in the ledger; what passes by it is its asker's row, which names
 * the approval. */
static void
pass(struct approval *a)
{
	start(a);
	loop_defer(a->all->control->loop, on_covered, a);
}

static enum status
check_room(struct approvals *all, const struct approval_wish *w)
{
	uint64_t n = 0, own = 0;
	enum status st = approval_store_pending(all->store, w->tenant, &n);

	if (st == ST_OK)
		st = approval_store_pending_of(all->store, w, &own);
	if (st != ST_OK)
		return st;
	/* Nobody's crowd keeps another one's from being asked. */
	return own >= APPROVALS_USER_MAX || n >= APPROVALS_TENANT_MAX ||
			       all->waiting_n >= APPROVALS_MAX
		       ? ST_LIMIT_APPROVALS
		       : ST_OK;
}

static enum status
write_asked(struct approvals *all, struct approval_row *r)
{
	enum status st = approval_store_begin(all->store);

	if (st != ST_OK)
		return st;
	st = approval_store_add(all->store, &r->wish, r->asked_s, r->deadline_s,
				&r->id);
	if (st == ST_OK)
		st = record(all, r, ST_AGAIN);
	return approval_store_end(all->store, st);
}

static enum status
ask(struct approval *a, const struct approval_wish *w)
{
	struct approvals *all = a->all;
	uint64_t ms = image_number(all->control->role.image, OPT_EXEC_APPROVAL_TIMEOUT);
	struct approval_row r = { .wish = *w, .asked_s = approvals_now_s() };
	enum status st = check_room(all, w);

	r.deadline_s = r.asked_s + (ms + 999) / 1000;
	if (st == ST_OK)
		st = write_asked(all, &r);
	if (st != ST_OK)
		return st;
	a->id = r.id;
	start(a);
	loop_timer_set(&a->deadline, ms);
	approval_hook_tell(all, &r);
	return ST_OK;
}

/* Whoever looks at it sees what isn't secret, and nothing else is kept; and sees that there
 * is more.  Workers cut at the same length, at most three octets earlier. */
static enum status
put_text(struct buf *b, struct str text)
{
	const struct str more =
		STR("\n[there is more, which is not shown: sha256 is of all of it]");
	bool is_cut = text.n > APPROVALS_TEXT_MAX - 4;

	buf_init(b, (size_t)4 * APPROVALS_TEXT_MAX);
	redact_put(b, str_head(text, APPROVALS_TEXT_MAX), NULL);
	if (b->st != ST_OK || (!is_cut && b->len <= APPROVALS_TEXT_MAX))
		return b->st;
	b->len = num_min(b->len, APPROVALS_TEXT_MAX - more.n);
	buf_put(b, more);
	return b->st;
}

enum status
approvals_begin(struct control *c, const struct approval_wish *wish, approval_fn fn,
		void *ctx, struct approval **ret_a)
{
	struct approvals *all = c->approvals;
	struct approval *a = all == NULL ? NULL : approval_new(all, fn, ctx);
	struct approval_wish w = *wish;
	CLEANUP(buf_done) struct buf text = { 0 };

	if (a == NULL)
		return ST_NOMEM;
	enum status st = put_text(&text, wish->text);
	w.text = str_of(text.p, text.len);
	if (st == ST_OK)
		st = approval_store_covered(all->store, &w, approvals_now_s(),
					    &a->cover);
	if (st == ST_OK)
		pass(a);
	else if (st == ST_NOT_FOUND)
		st = ask(a, &w);
	if (st == ST_OK)
		*ret_a = a;
	else
		free(a);
	return st;
}

/* All of them. */

enum status
approvals_open(struct control *c, struct sqlite3 *db, approval_who_fn who,
	       struct approvals **ret_a)
{
	struct approvals *all = calloc(1, sizeof *all);

	if (all == NULL)
		return ST_NOMEM;
	*all = (struct approvals){ .control = c, .who = who };
	list_init(&all->waiting);
	list_init(&all->holds);
	list_init(&all->posts);
	enum status st = approval_store_open(db, approvals_now_s(), &all->store);
	if (st != ST_OK) {
		free(all);
		return st;
	}
	c->approvals = all;
	*ret_a = all;
	return ST_OK;
}

void
approvals_close(struct approvals *all)
{
	const struct approval_told nothing = { .st = ST_DRAINING };

	if (all == NULL)
		return;
	approval_hooks_close(all);
	approval_holds_close(all);
	list_each_safe (it, &all->waiting) {
		struct approval *a = LIST_OF(it, struct approval, link);
		a->fn = NULL;
		if (a->id != 0) {
			tell(a, &nothing);
			continue;
		}
		list_remove(&a->link);
		a->all = NULL;
	}
	approval_store_close(all->store);
	all->control->approvals = NULL;
	free(all);
}
