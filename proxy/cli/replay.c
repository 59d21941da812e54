/*
 * sandgate replay ID: what ran in a sandbox, or within a session, in order, from the
 * ledger; and whether the rows that say so are what was written.
 */
#include <stdio.h>
#include <stdlib.h>

#include "proxy/base/clock.h"
#include "proxy/base/enc.h"
#include "proxy/base/num.h"
#include "proxy/cli/args.h"
#include "proxy/cli/cmds.h"
#include "proxy/cli/ledger_exec.h"
#include "proxy/cli/ledger_read.h"
#include "proxy/cli/ledger_replay.h"
#include "proxy/cli/ledger_verify.h"

struct wish {
	const char *config, *state, *id;
	bool is_session, json;
};

struct show {
	const struct wish *wish;
	const struct replay *all;
	struct verify_result proof;
	struct buf out; /* of one step */
	bool failed;
};

static const char usage[] =
	"usage: sandgate replay [-c FILE | --state DIR] [--json] SANDBOX\n"
	"       sandgate replay [-c FILE | --state DIR] [--json] --session SESSION\n"
	"0: told, and its rows are what was written; 1: nothing is there, or a row "
	"does not fit.\n";

/* What one step may take, each octet escaped, with the approvals of a long wait. */
enum { STEP_MAX = ROW_JSON_MAX * 64, US_MS = 1000, MS_S = 1000 };

static bool
take_options(int argc, char **argv, struct wish *w)
{
	const char *session = NULL;
	const struct arg args[] = {
		{ 'c', "config", &w->config, NULL },
		{ 0, "state", &w->state, NULL },
		{ 0, "session", &session, NULL },
		{ 0, "json", NULL, &w->json },
	};
	size_t n;

	if (!args_take(argc, argv, args, COUNT_OF(args), &n))
		return false;
	w->is_session = session != NULL;
	w->id = w->is_session ? session : n == 1 ? argv[1] : NULL;
	return args_need("replay", "a SANDBOX or --session", w->id != NULL) &&
	       n == (w->is_session ? 0 : 1);
}

/* Up to the first misfit all is what was written. */
static bool
is_proven(const struct show *s, uint64_t seq)
{
	return s->proof.is_whole || seq < s->proof.first;
}

static void
put_offset(struct buf *b, const struct show *s, const struct row *r)
{
	uint64_t us = r->time_us > s->all->begun_us ? r->time_us - s->all->begun_us : 0;
	unsigned long long ms = us / US_MS;

	buf_putf(b, "+%llu.%03llus", ms / MS_S, ms % MS_S);
}

static void
put_verdict(struct buf *b, const struct row *r)
{
	const struct status_words *w = status_words(r->reason);

	if (r->kind == ROW_DENY)
		buf_putf(b, "refused: %s (%s)", w->sentence, w->code);
	else if (r->kind == ROW_APPROVAL)
		buf_put(b, STR("approval"));
	else if (r->kind == ROW_EXEC)
		buf_put(b, STR("allowed"));
	else if (r->reason == ST_OK)
		buf_put(b, STR("ended"));
	else
		buf_putf(b, "failed: %s (%s)", w->sentence, w->code);
}

static void
put_row(struct show *s, const struct replay_row *x)
{
	struct buf *b = &s->out;

	buf_put(b, STR("  "));
	put_verdict(b, &x->r);
	buf_putc(b, ' ');
	put_offset(b, s, &x->r);
	ledger_exec_put_end(b, &x->r, NULL);
	buf_put(b, STR(" row "));
	enc_put_id(b, x->r.id);
	if (!is_proven(s, x->seq))
		buf_putf(b, " DOES NOT FIT (row %llu of the ledger)",
			 (unsigned long long)x->seq);
	buf_putc(b, '\n');
	ledger_exec_put_all(b, "    ", x->exec);
	if (x->exec == NULL)
		ledger_exec_put_lines(b, "    ", x->r.exec);
	if (x->r.detail.n > 0) {
		buf_put(b, STR("    "));
		ledger_exec_put_shown(b, x->r.detail);
		buf_putc(b, '\n');
	}
}

static const struct row *
first_of(const struct replay *all)
{
	const struct replay_step *s =
		LIST_OF(all->steps.next, struct replay_step, link);

	return &LIST_OF(s->rows.next, struct replay_row, link)->r;
}

static void
put_step(struct show *s, const struct replay_step *step)
{
	const struct replay_row *first =
		LIST_OF(step->rows.next, struct replay_row, link);
	struct buf *b = &s->out;

	buf_putf(b, "%llu ", (unsigned long long)step->number);
	put_offset(b, s, &first->r);
	buf_putc(b, ' ');
	ledger_exec_put_shown(b, ledger_exec_str(first->exec, "op"));
	if (s->wish->is_session && first->r.sandbox.n > 0) {
		buf_put(b, STR(" in "));
		ledger_exec_put_shown(b, first->r.sandbox);
	}
	/* Somebody else was here, or tried to. */
	if (!str_eq(first->r.user, first_of(s->all)->user)) {
		buf_put(b, STR(" by "));
		ledger_exec_put_shown(b, first->r.user);
	}
	buf_putc(b, '\n');
	list_each (it, &step->rows)
		put_row(s, LIST_OF(it, struct replay_row, link));
	if (step->start != NULL && step->end == NULL)
		buf_put(b, STR("  no end is told: it runs, or nobody lived to tell\n"));
}

static void
put_step_json(struct show *s, const struct replay_step *step)
{
	struct buf *b = &s->out;
	bool is_first = true;

	buf_putf(b, "%s{\"step\":%llu,\"rows\":[", step->number > 1 ? "," : "",
		 (unsigned long long)step->number);
	list_each (it, &step->rows) {
		const struct replay_row *x = LIST_OF(it, struct replay_row, link);
		buf_putf(b, "%s{\"seq\":%llu,\"fits\":%s,\"offset_us\":%llu,\"row\":",
			 is_first ? "" : ",", (unsigned long long)x->seq,
			 is_proven(s, x->seq) ? "true" : "false",
			 (unsigned long long)(x->r.time_us -
					      num_min(x->r.time_us, s->all->begun_us)));
		row_put_json(b, &x->r);
		buf_putc(b, '}');
		is_first = false;
	}
	buf_putf(b, "],\"has_start\":%s,\"has_end\":%s}",
		 step->start != NULL ? "true" : "false",
		 step->end != NULL ? "true" : "false");
}

static void
flush(struct show *s)
{
	struct str text;

	if (buf_finish(&s->out, &text) != ST_OK ||
	    fwrite(text.p, 1, text.n, stdout) != text.n)
		s->failed = true;
	buf_clear(&s->out);
}

static void
put_head(struct show *s)
{
	const struct row *r = first_of(s->all);
	struct buf *b = &s->out;

	buf_put(b, s->wish->is_session ? STR("Session ") : STR("Sandbox "));
	ledger_exec_put_shown(b, str_from(s->wish->id));
	buf_put(b, STR(", user "));
	ledger_exec_put_shown(b, r->user);
	buf_put(b, STR(", agent "));
	ledger_exec_put_shown(b, r->agent);
	buf_putf(b, ", %llu steps from ", (unsigned long long)s->all->steps_n);
	clock_put(b, s->all->begun_us);
	buf_putc(b, '\n');
}

/* Are all of the rows that were shown what was written? */
static bool
all_fit(const struct show *s)
{
	return is_proven(s, s->all->last_seq);
}

static void
put_proof(struct show *s)
{
	const struct verify_result *p = &s->proof;
	struct buf *b = &s->out;

	if (!p->is_whole)
		buf_putf(b, "The ledger was changed: %s.%s\n", p->what,
			 all_fit(s) ? "  The rows above are before that, and fit."
				    : "  Rows above that do not fit are marked.");
	else
		buf_putf(b,
			 "The %llu rows above are what was written: the chain fits up "
			 "to row %llu.%s\n",
			 (unsigned long long)s->all->rows_n,
			 (unsigned long long)p->tip.seq,
			 p->signatures == 0 ? "  Nothing is signed yet." : "");
}

static void
put_proof_json(struct show *s)
{
	struct buf *b = &s->out;

	buf_putf(b, "],\"whole\":%s,\"fits\":%s,\"signatures\":%llu",
		 s->proof.is_whole ? "true" : "false", all_fit(s) ? "true" : "false",
		 (unsigned long long)s->proof.signatures);
	if (!s->proof.is_whole) {
		buf_putf(b, ",\"first_misfit\":%llu,\"what\":",
			 (unsigned long long)s->proof.first);
		buf_put_json(b, str_from(s->proof.what));
	}
	buf_put(b, STR("}\n"));
}

static int
show(struct show *s)
{
	bool json = s->wish->json;

	buf_init(&s->out, STEP_MAX);
	if (json) {
		buf_putf(&s->out,
			 "{\"%s\":", s->wish->is_session ? "session" : "sandbox");
		buf_put_json(&s->out, str_from(s->wish->id));
		buf_put(&s->out, STR(",\"steps\":["));
	} else {
		put_head(s);
	}
	list_each (it, &s->all->steps) {
		const struct replay_step *step = LIST_OF(it, struct replay_step, link);
		if (json)
			put_step_json(s, step);
		else
			put_step(s, step);
		flush(s);
	}
	if (json)
		put_proof_json(s);
	else
		put_proof(s);
	flush(s);
	buf_done(&s->out);
	if (s->failed || fflush(stdout) != 0)
		return 2;
	return all_fit(s) ? 0 : 1;
}

struct taker {
	struct replay *all;
	enum status st;
};

static bool
take_row(void *ctx, uint64_t seq, const struct row *r)
{
	struct taker *t = ctx;

	t->st = replay_add(t->all, seq, r);
	return t->st == ST_OK;
}

static enum status
read_rows(const char *dir, const struct wish *w, struct replay *all)
{
	struct ledger_filter f = { .exec = true };
	struct taker t = { all, ST_OK };
	sqlite3 *db = NULL;
	enum status st = ledger_open(dir, &db);

	*(w->is_session ? &f.session : &f.sandbox) = str_from(w->id);
	if (st == ST_OK)
		st = ledger_each(db, &f, take_row, &t);
	(void)sqlite3_close(db);
	if (st == ST_OK)
		st = t.st;
	return st == ST_OK ? replay_join(all) : st;
}

static int
replay(const char *dir, const struct wish *w)
{
	CLEANUP(replay_done) struct replay all = { 0 };
	struct show s = { .wish = w, .all = &all };
	const struct verify_place none = { 0 };

	replay_init(&all);
	enum status st = read_rows(dir, w, &all);
	/* After them, so that it has seen each. */
	if (st == ST_OK)
		st = ledger_verify(dir, &none, &s.proof);
	if (st != ST_OK) {
		ledger_say_unreadable(dir, st);
		return 2;
	}
	if (all.rows_n > 0)
		return show(&s);
	(void)fprintf(stderr, "sandgate: the ledger has no execution of this %s\n",
		      w->is_session ? "session" : "sandbox");
	return 1;
}

int
cmd_replay(int argc, char **argv)
{
	CLEANUP(buf_done) struct buf dir = { 0 };
	struct wish w = { 0 };

	args_help(argc, argv, usage);
	if (!take_options(argc, argv, &w)) {
		(void)fputs(usage, stderr);
		return 2;
	}
	buf_init(&dir, 4200);
	if (ledger_find(w.config, w.state, &dir) != ST_OK)
		return 2;
	return replay(buf_cstr(&dir), &w);
}
