/* exec_private: what is typed into a terminal is judged as a shell would read it.  Nothing waits
 * for a person here: what a line is to who gets it only the terminal's other end knows. */
#include <string.h>

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
	char open[PTY_LINE_MAX]; /* lines of before whose quote or bracket is open */
	size_t open_n;
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
	t->e = e; /* the arena's memory is zeroed */
	t->worst = (struct risk_answer){ RISK_LOW, RISK_NO_RULE, RISK_SIGN_NONE };
	t->budget = BUDGET_MAX;
	t->since_ms = loop_now_ms(e->t->c->w->loop);
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

/* As one text with those of before that are open, which are forgotten if that is too long. */
static struct str
join(struct exec_typed *t, struct str line)
{
	bool is_first = t->open_n == 0;

	if (line.n + 1 > sizeof t->open - t->open_n) {
		t->open_n = 0;
		return line;
	}
	if (!is_first)
		t->open[t->open_n++] = '\n';
	memcpy(t->open + t->open_n, line.p, line.n);
	t->open_n += line.n;
	return is_first ? line : str_of(t->open, t->open_n);
}

static void
ask(struct exec_typed *t, struct str text, struct risk_answer *ret_a)
{
	struct risk_question q = { .kind = RISK_COMMAND, .text = text };

	risk_judge(t->e->t->c->w->role.image, &q, ret_a);
}

/* What can't be read as a command may be none: a text in an editor. */
static bool
is_risky(const struct risk_answer *a)
{
	return a->rule != RISK_NO_RULE && a->level > RISK_LOW;
}

static void
tell(struct exec_typed *t, struct str line, const struct risk_answer *a)
{
	if (a->level > t->worst.level)
		t->worst = *a;
	if (t->risky++ < ROWS_MAX && t->st == ST_OK)
		t->st = write_row(t, line, a);
}

/* Other lines are counted only: a password that is asked for is one, too.  A line that goes on
 * within a quote of lines before is also read with them. */
static void
on_line(void *ctx, struct str line, bool is_whole)
{
	struct exec_typed *t = ctx;
	struct str all = join(t, line);
	struct risk_answer alone, joined;

	t->lines++;
	if (!spend(t, all.n == line.n ? line.n : all.n + line.n)) {
		t->unseen++;
		t->open_n = 0;
		return;
	}
	ask(t, line, &alone);
	joined = alone;
	if (all.n != line.n)
		ask(t, all, &joined);
	t->unseen += is_whole && alone.sign == RISK_SIGN_NONE ? 0 : 1;
	if (is_risky(&joined) && (!is_risky(&alone) || joined.level > alone.level))
		tell(t, all, &joined);
	else if (is_risky(&alone))
		tell(t, line, &alone);
	if (joined.sign != RISK_SIGN_OPEN)
		t->open_n = 0;
}

void
exec_typed_put(struct exec_typed *t, bool is_tty, struct str octets)
{
	t->line.is_tty = is_tty;
	pty_line_put(&t->line, octets, on_line, t);
}

void
exec_typed_end(struct exec_typed *t)
{
	pty_line_end(&t->line, on_line, t);
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
