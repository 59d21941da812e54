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
	char room[1 + PTY_LINE_MAX]; /* a quote, and a line */
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

/* The line as its octets came, where it isn't known what the keys between them did. */
static struct str
without_marks(struct exec_typed *t, struct str line)
{
	size_t n = 0;

	for (size_t i = 0; i < line.n; i++)
		if (line.p[i] != '\n')
			t->room[1 + n++] = line.p[i];
	return str_of(t->room + 1, n);
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

/* What can't be read as a command may be none: a text in an editor. */
static bool
is_risky(const struct risk_answer *a)
{
	return a->rule != RISK_NO_RULE && a->level > RISK_LOW;
}

struct found { /* the worst of all ways to read a line */
	struct str shown;
	struct risk_answer answer;
	bool is_risky, is_unread;
};

/* RISK_SIGN_LONG: there was no time to read it, either. */
static enum risk_sign
look(struct exec_typed *t, struct str text, struct str shown, struct found *f)
{
	struct risk_question q = { .kind = RISK_COMMAND, .text = text };
	struct risk_answer a;

	if (!spend(t, text.n)) {
		f->is_unread = true;
		return RISK_SIGN_LONG;
	}
	risk_judge(t->e->t->c->w->role.image, &q, &a);
	if (is_risky(&a) && (!f->is_risky || a.level > f->answer.level)) {
		f->is_risky = true;
		f->answer = a;
		f->shown = shown;
	}
	return a.sign;
}

/* What stands between keys of which nothing is known may be all that stayed. */
static void
look_at_pieces(struct exec_typed *t, struct str line, struct found *f)
{
	while (line.p != NULL) {
		struct str piece = str_cut(&line, '\n');

		if (piece.n > 0)
			(void)look(t, piece, piece, f);
	}
}

/* The quote that it leaves open may be the end of one that was begun out of our sight: before
 * this connection, or by a line that wasn't read whole. */
static void
look_as_closing(struct exec_typed *t, struct str bare, struct str line, struct found *f)
{
	static const char quotes[] = { '\'', '"' };

	for (size_t i = 0; i < COUNT_OF(quotes); i++) {
		t->room[0] = quotes[i];
		(void)look(t, str_of(t->room, bare.n + 1), line, f);
	}
}

static enum risk_sign
look_at(struct exec_typed *t, struct str line, struct found *f)
{
	struct str bare = without_marks(t, line), all;
	enum risk_sign alone = look(t, bare, line, f), joined = alone;

	f->is_unread = f->is_unread || alone != RISK_SIGN_NONE;
	if (alone == RISK_SIGN_LONG)
		return alone;
	if (bare.n < line.n)
		look_at_pieces(t, line, f);
	all = join(t, bare);
	if (all.n != bare.n)
		joined = look(t, all, all, f);
	if (alone == RISK_SIGN_OPEN)
		look_as_closing(t, bare, line, f);
	return joined;
}

static void
tell(struct exec_typed *t, const struct found *f)
{
	if (f->answer.level > t->worst.level)
		t->worst = f->answer;
	if (t->risky++ < ROWS_MAX && t->st == ST_OK)
		t->st = write_row(t, f->shown, &f->answer);
}

/* Other lines are counted only: a password that is asked for is one, too.  A line that goes on
 * within a quote of lines before is also read with them. */
static void
on_line(void *ctx, struct str line, bool is_whole)
{
	struct exec_typed *t = ctx;
	struct found f = { .is_unread = !is_whole };

	t->lines++;
	if (look_at(t, line, &f) != RISK_SIGN_OPEN)
		t->open_n = 0;
	t->unseen += f.is_unread;
	if (f.is_risky)
		tell(t, &f);
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
