/*
 * sandgate learn: the smallest policy that would have allowed what a sandbox was seen
 * to ask for, as YAML that `sandgate check` takes.  What no rule should allow (a deny
 * rule, metadata, malformed names) is told as a comment.
 */
#include <stdio.h>

#include "proxy/base/clock.h"
#include "proxy/cli/args.h"
#include "proxy/cli/cmds.h"
#include "proxy/cli/learned.h"
#include "proxy/cli/ledger_read.h"

static const char usage[] = "usage: sandgate learn [-c FILE | --state DIR] --sandbox "
			    "ID [--since TIME] [--http]\n"
			    "--http also writes the methods and paths of plain HTTP.\n";

struct wish {
	const char *config, *state;
	struct ledger_filter filter;
	bool http;
};

static bool
take_options(int argc, char **argv, struct wish *w)
{
	const char *sandbox = NULL, *since = NULL;
	const struct arg args[] = {
		{ 'c', "config", &w->config, NULL }, { 0, "state", &w->state, NULL },
		{ 0, "sandbox", &sandbox, NULL },    { 0, "since", &since, NULL },
		{ 0, "http", NULL, &w->http },
	};
	size_t n;

	if (!args_take(argc, argv, args, COUNT_OF(args), &n) || n != 0 ||
	    !args_need("learn", "--sandbox ID", sandbox != NULL))
		return false;
	w->filter.sandbox = str_from(sandbox);
	return since == NULL ||
	       ledger_since(str_from(since), clock_wall_us(), &w->filter.since_us) ||
	       args_wrong("learn", "--since: not a TIME:", since);
}

static bool
see(void *ctx, uint64_t seq, const struct row *r)
{
	(void)seq;
	return learned_see(ctx, r) == ST_OK;
}

int
cmd_learn(int argc, char **argv)
{
	CLEANUP(buf_done) struct buf dir = { 0 };
	CLEANUP(buf_done) struct buf out = { 0 };
	CLEANUP(learned_done) struct learned l = { 0 };
	struct wish w = { 0 };
	sqlite3 *db = NULL;

	buf_init(&dir, 4200);
	buf_init(&out, 64 << 20);
	learned_init(&l);
	args_help(argc, argv, usage);
	if (!take_options(argc, argv, &w)) {
		(void)fputs(usage, stderr);
		return 2;
	}
	if (ledger_find(w.config, w.state, &dir) != ST_OK)
		return 2;
	enum status st = ledger_open(buf_cstr(&dir), &db);
	if (st == ST_OK)
		st = ledger_each(db, &w.filter, see, &l);
	(void)sqlite3_close(db);
	if (st != ST_OK) {
		ledger_say_unreadable(buf_cstr(&dir), st);
		return 2;
	}
	learned_put(&l, w.filter.sandbox, w.http, &out);
	const char *said = buf_cstr(&out);
	if (said == NULL || fputs(said, stdout) < 0 || fflush(stdout) != 0)
		return 2;
	return 0;
}
