/* exec_private: what is typed into a terminal is judged as a shell would read it.  Nothing waits
 * for a person here: what a line is to who gets it only the terminal's other end knows. */
#include "proxy/base/num.h"
#include "proxy/flow/pty_line.h"
#include "proxy/worker/exec_private.h"

enum {
	ROWS_MAX = 256, /* of one terminal; what comes behind is counted */
	BUDGET_MAX =
		65536, /* octets that are judged at once; nobody's paste stops others */
	BUDGET_EACH_S = 4096, /* so many more each second */
};

struct exec_typed {
	struct exec *e;
	struct pty_line line;
	uint64_t lines, unseen, risky;
	uint64_t budget, since_ms;
	struct risk_answer worst;
	enum status st;
};

struct exec_typed *
exec_typed_new(struct exec *e)
{
	struct exec_typed *t = arena_alloc(&e->t->arena, sizeof *t);

	if (t == NULL)
		return NULL;
	*t = (struct exec_typed){
		.e = e,
		.worst = { RISK_LOW, RISK_NO_RULE, RISK_SIGN_NONE },
		.budget = BUDGET_MAX,
		.since_ms = loop_now_ms(e->t->c->w->loop),
	};
	pty_line_init(&t->line);
	return t;
}

static void
put_reason(const struct exec_typed *t, struct exec_note *n, const char *key,
	   const struct risk_answer *a)
{
	CLEANUP(buf_done) struct buf why = { 0 };

	buf_init(&why, 2048);
	risk_put_reason(&why, t->e->t->c->w->role.image, a);
	if (why.st == ST_OK)
		exec_note_text(n, key, str_of(why.p, why.len));
}

static enum status
write_row(const struct exec_typed *t, struct str line, const struct risk_answer *a)
{
	CLEANUP(exec_note_done) struct exec_note n = { 0 };

	exec_note_begin(&n, STR("pty.input"));
	exec_note_text(&n, "command", line);
	exec_note_text(&n, "level", str_from(risk_level_word(a->level)));
	put_reason(t, &n, "why", a);
	exec_note_text(&n, "id", t->e->route.id);
	return exec_row_of(t->e, ROW_EXEC, &n);
}

/* Is there time to read it? */
static bool
spend(struct exec_typed *t, size_t n)
{
	uint64_t now = loop_now_ms(t->e->t->c->w->loop);
	uint64_t more = num_min((now - t->since_ms) * BUDGET_EACH_S / 1000, BUDGET_MAX);

	if (more > 0)
		t->since_ms = now;
	t->budget = num_min(t->budget + more, BUDGET_MAX);
	if (n > t->budget)
		return false;
	t->budget -= n;
	return true;
}

/* Other lines are counted only: a password that is asked for is one, too. */
static void
on_line(void *ctx, struct str line, bool is_whole)
{
	struct exec_typed *t = ctx;
	struct risk_question q = { .kind = RISK_COMMAND, .text = line };
	struct risk_answer a;

	t->lines++;
	if (!spend(t, line.n)) {
		t->unseen++;
		return;
	}
	t->unseen += is_whole ? 0 : 1;
	risk_judge(t->e->t->c->w->role.image, &q, &a);
	/* What can't be read as a command may be none: a text in an editor. */
	if (a.rule == RISK_NO_RULE || a.level == RISK_LOW)
		return;
	if (a.level > t->worst.level)
		t->worst = a;
	if (t->risky++ < ROWS_MAX && t->st == ST_OK)
		t->st = write_row(t, line, &a);
}

void
exec_typed_put(struct exec_typed *t, struct str octets)
{
	if (octets.p == NULL)
		on_line(t, STR(""), false);
	else
		pty_line_put(&t->line, octets, on_line, t);
}

enum status
exec_typed_status(const struct exec_typed *t)
{
	return t->st == ST_OK ? ST_OK : ST_NO_LEDGER;
}

void
exec_typed_note(const struct exec_typed *t, struct exec_note *n)
{
	if (t->lines == 0)
		return;
	exec_note_number(n, "lines", (int64_t)num_min(t->lines, INT64_MAX));
	if (t->unseen > 0)
		exec_note_number(n, "lines_unread",
				 (int64_t)num_min(t->unseen, INT64_MAX));
	exec_note_text(n, "typed_level", str_from(risk_level_word(t->worst.level)));
	put_reason(t, n, "typed_why", &t->worst);
}
