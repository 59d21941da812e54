/*
 * sandgate why ID: one decision, told: what was asked, by whom, which rule, why, and
 * what to do next.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <jansson.h>

#include "proxy/base/clock.h"
#include "proxy/base/enc.h"
#include "proxy/cli/args.h"
#include "proxy/cli/cmds.h"
#include "proxy/cli/ledger_exec.h"
#include "proxy/cli/ledger_read.h"

enum { RELATED_MAX = 200 };
/* A refusal is told before its row is stored: whoever asks at once is made to wait. */
enum { WAITS = 10, WAIT_MS = 50 };

struct why {
	const char *config, *state;
	bool json;
	uint64_t id;
};

struct related { /* the rows of the same turn */
	uint64_t turn, id;
	size_t n;
	bool json;
	struct buf out;
};

static const char usage[] = "usage: sandgate why [-c FILE | --state DIR] [--json] ID\n"
			    "ID stands in the refusal and in the ledger; the whole "
			    "JSON of a refusal will do.\n";

/* A model pastes what it was given: {"error": {"id": "..."}} or {"id": "..."}. */
static bool
id_of_json(const char *text, uint64_t *ret_id)
{
	json_t *root = json_loads(text, 0, NULL);
	const json_t *error = json_object_get(root, "error");
	const char *id =
		json_string_value(json_object_get(error == NULL ? root : error, "id"));
	bool ok = id != NULL && enc_get_id(str_from(id), ret_id);

	json_decref(root);
	return ok;
}

static bool
take_options(int argc, char **argv, struct why *w)
{
	const struct arg args[] = {
		{ 'c', "config", &w->config, NULL },
		{ 0, "state", &w->state, NULL },
		{ 0, "json", NULL, &w->json },
	};
	size_t n;

	if (!args_take(argc, argv, args, COUNT_OF(args), &n) || n != 1)
		return false;
	return enc_get_id(str_from(argv[1]), &w->id) || id_of_json(argv[1], &w->id) ||
	       args_wrong("why", "not an ID:", argv[1]);
}

static void
put_field(struct buf *b, const char *name, struct str s)
{
	if (s.n == 0)
		return;
	buf_putf(b, "%-9s ", name);
	ledger_put_clean(b, s);
	buf_putc(b, '\n');
}

static void
put_who(struct buf *b, const struct row *r)
{
	const struct {
		const char *name;
		struct str s;
	} more[] = { { "user", r->user },
		     { "agent", r->agent },
		     { "session", r->session } };

	buf_put(b, STR("Who       "));
	if (r->sandbox.n == 0)
		buf_put(b, STR("no registered sandbox"));
	else
		buf_put(b, STR("sandbox "));
	ledger_put_clean(b, r->sandbox);
	for (size_t i = 0; i < COUNT_OF(more); i++) {
		if (more[i].s.n == 0)
			continue;
		buf_putf(b, ", %s ", more[i].name);
		ledger_put_clean(b, more[i].s);
	}
	buf_putc(b, '\n');
}

static void
put_asked(struct buf *b, const struct row *r)
{
	if (r->host.n == 0)
		return;
	buf_put(b, STR("Asked     "));
	if (r->method.n > 0) {
		ledger_put_clean(b, r->method);
		buf_putc(b, ' ');
	}
	ledger_put_clean(b, r->host);
	ledger_put_clean(b, r->path);
	buf_putc(b, '\n');
}

/* What was to run, or how it ended, member by member. */
static void
put_exec(struct buf *b, const struct row *r)
{
	if (r->exec.n == 0)
		return;
	json_t *exec = ledger_exec_load(r->exec);
	put_field(b, "Operation", ledger_exec_str(exec, "op"));
	buf_put(b, STR("Execution\n"));
	if (exec == NULL)
		ledger_exec_put_lines(b, "          ", r->exec);
	ledger_exec_put_all(b, "          ", exec);
	json_decref(exec);
}

static void
put_verdict(struct buf *b, const struct row *r)
{
	const struct status_words *w = status_words(r->reason);

	if (r->observed)
		buf_putf(b, "Allowed, but only because the policy observes: %s (%s)\n",
			 w->sentence, w->code);
	else if (r->reason != ST_OK)
		buf_putf(b, "%s: %s (%s)\n", row_is_refusal(r) ? "Refused" : "Failed",
			 w->sentence, w->code);
	else
		buf_putf(b, "Allowed (%s)\n", row_kind_word(r->kind));
}

/* Which credential went along is said by its version, never by a value. */
static void
put_connector(struct buf *b, const struct row *r)
{
	if (r->connector.n == 0)
		return;
	buf_put(b, STR("Connector "));
	ledger_put_clean(b, r->connector);
	if (r->secret_version != 0)
		buf_putf(b, ", its secret in version %u", r->secret_version);
	else
		buf_put(b, STR(", no secret was added"));
	if (r->scrubbed != 0)
		buf_putf(b, "; echoes of it replaced: %u", r->scrubbed);
	buf_putc(b, '\n');
}

static void
put_told(struct buf *b, const struct row *r)
{
	const char *hint = status_words(r->reason)->hint;

	put_verdict(b, r);
	buf_put(b, STR("When      "));
	clock_put(b, r->time_us);
	buf_putc(b, '\n');
	put_who(b, r);
	put_field(b, "Through", r->listener);
	put_asked(b, r);
	put_field(b, "Dialled", r->address);
	put_field(b, "Country", r->country);
	/* Executions are judged by rules of risk, which stand in `why`. */
	if (r->rule.n > 0 || !row_is_exec(r))
		put_field(b, "Rule", r->rule.n > 0 ? r->rule : STR("none covers it"));
	put_connector(b, r);
	put_exec(b, r);
	put_field(b, "Detail", r->detail);
	buf_putf(b, "Policy    generation %llu\n", (unsigned long long)r->generation);
	if (r->reason != ST_OK && hint[0] != '\0')
		buf_putf(b, "Next      %s\n", hint);
}

static bool
put_related(void *ctx, uint64_t seq, const struct row *r)
{
	struct related *x = ctx;

	(void)seq;
	if (r->turn != x->turn || r->id == x->id)
		return true;
	if (x->json) {
		if (x->n > 0)
			buf_putc(&x->out, ',');
		row_put_json(&x->out, r);
	} else {
		if (x->n == 0)
			buf_put(&x->out, STR("Same turn\n"));
		buf_put(&x->out, STR("  "));
		if (row_is_exec(r))
			ledger_exec_put_line(&x->out, r);
		else
			ledger_put_line(&x->out, r);
	}
	return ++x->n < RELATED_MAX;
}

static enum status
tell(sqlite3 *db, const struct why *w, struct related *x)
{
	CLEANUP(buf_done) struct buf bytes = { 0 };
	struct row r;

	buf_init(&bytes, ROW_MAX);
	enum status st = ledger_by_id(db, w->id, &bytes, &r);
	if (st != ST_OK)
		return st;
	*x = (struct related){
		.turn = r.turn, .id = r.id, .json = w->json, .out = x->out
	};
	const struct ledger_filter f = { .since_id = r.turn };
	if (!w->json) {
		put_told(&x->out, &r);
		return ledger_each(db, &f, put_related, x);
	}
	const struct status_words *words = status_words(r.reason);
	buf_put(&x->out, STR("{\"row\":"));
	row_put_json(&x->out, &r);
	buf_put(&x->out, STR(",\"message\":"));
	buf_put_json(&x->out, str_from(words->sentence));
	buf_put(&x->out, STR(",\"hint\":"));
	buf_put_json(&x->out, str_from(words->hint));
	buf_put(&x->out, STR(",\"related\":["));
	st = ledger_each(db, &f, put_related, x);
	buf_put(&x->out, STR("]}\n"));
	return st;
}

int
cmd_why(int argc, char **argv)
{
	CLEANUP(buf_done) struct buf dir = { 0 };
	struct related x = { 0 };
	struct why w = { 0 };
	sqlite3 *db = NULL;
	int code = 2;

	args_help(argc, argv, usage);
	if (!take_options(argc, argv, &w)) {
		(void)fputs(usage, stderr);
		return 2;
	}
	buf_init(&dir, 4200);
	buf_init(&x.out, (size_t)ROW_JSON_MAX * RELATED_MAX);
	if (ledger_find(w.config, w.state, &dir) != ST_OK)
		return 2;
	enum status st = ledger_open(buf_cstr(&dir), &db);
	if (st == ST_OK)
		st = tell(db, &w, &x);
	for (int i = 0; i < WAITS && st == ST_NOT_FOUND && db != NULL; i++) {
		const struct timespec pause = { 0, WAIT_MS * 1000000L };
		(void)nanosleep(&pause, NULL);
		st = tell(db, &w, &x);
	}
	const char *said = buf_cstr(&x.out);
	if (st == ST_OK && said != NULL)
		code = fputs(said, stdout) < 0 || fflush(stdout) != 0 ? 2 : 0;
	else if (st == ST_NOT_FOUND && db != NULL)
		code = fprintf(stderr,
			       "sandgate: no row of the ledger has this id; it may "
			       "have been counted in an aggregate row, or dropped\n") <
				       0
			       ? 2
			       : 1;
	else
		ledger_say_unreadable(buf_cstr(&dir), st);
	(void)sqlite3_close(db);
	buf_done(&x.out);
	return code;
}
