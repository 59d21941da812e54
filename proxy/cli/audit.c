/*
 * sandgate audit: the ledger as a table or as JSON lines; `verify` and `export`.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "proxy/base/clock.h"
#include "proxy/base/num.h"
#include "proxy/cli/args.h"
#include "proxy/cli/audit.h"
#include "proxy/cli/cmds.h"
#include "proxy/cli/ledger_exec.h"
#include "proxy/cli/ledger_read.h"

enum { FOLLOW_MS = 200 };

struct audit {
	const char *config, *state;
	struct ledger_filter filter;
	bool json, follow, is_export;
	bool failed; /* standard output is closed */
	struct buf line;
};

static const char usage[] =
	"usage: sandgate audit [-c FILE | --state DIR] [--follow] [--denied] [--exec]\n"
	"                      [--sandbox ID] [--user NAME] [--session NAME]\n"
	"                      [--since TIME] [--limit N] [--json]\n"
	"       sandgate audit verify [-c FILE | --state DIR] [--at ROW:LINK] "
	"[--json]\n"
	"       sandgate audit export [-c FILE | --state DIR] [--since TIME]"
	" [--format jsonl]\n"
	"TIME is RFC 3339 in UTC (2026-01-02T03:04:05Z) or how long ago: 90s, 10m, 2h, "
	"7d.\n";

static const struct option options[] = {
	{ "config", required_argument, NULL, 'c' },
	{ "state", required_argument, NULL, 'S' },
	{ "follow", no_argument, NULL, 'f' },
	{ "denied", no_argument, NULL, 'd' },
	{ "exec", no_argument, NULL, 'e' },
	{ "sandbox", required_argument, NULL, 's' },
	{ "user", required_argument, NULL, 'u' },
	{ "session", required_argument, NULL, 'i' },
	{ "since", required_argument, NULL, 't' },
	{ "limit", required_argument, NULL, 'n' },
	{ "json", no_argument, NULL, 'j' },
	{ "format", required_argument, NULL, 'F' },
	{ NULL, 0, NULL, 0 },
};

static bool
put_row(void *ctx, uint64_t seq, const struct row *r)
{
	struct audit *a = ctx;
	struct str text;

	a->filter.after = seq;
	buf_clear(&a->line);
	if (a->json) {
		row_put_json(&a->line, r);
		buf_putc(&a->line, '\n');
	} else if (a->filter.exec) {
		ledger_exec_put_line(&a->line, r);
	} else {
		ledger_put_line(&a->line, r);
	}
	if (buf_finish(&a->line, &text) != ST_OK)
		return true;
	a->failed = fwrite(text.p, 1, text.n, stdout) != text.n;
	return !a->failed;
}

static bool
take_format(struct audit *a, const char *format)
{
	if (a->is_export && strcmp(format, "jsonl") == 0)
		return true;
	if (a->is_export && strcmp(format, "otlp") == 0)
		(void)fprintf(stderr,
			      "sandgate: OTLP leaves through a connector, which "
			      "this version does not run; use --format jsonl\n");
	return false;
}

static bool
take_option(struct audit *a, int letter, const char *value)
{
	switch (letter) {
	case 'c':
		a->config = value;
		return true;
	case 'S':
		a->state = value;
		return true;
	case 'f':
		a->follow = true;
		return !a->is_export;
	case 'd':
		a->filter.denied = true;
		return true;
	case 'e':
		a->filter.exec = true;
		return true;
	case 's':
		a->filter.sandbox = str_from(value);
		return true;
	case 'u':
		a->filter.user = str_from(value);
		return true;
	case 'i':
		a->filter.session = str_from(value);
		return true;
	case 't':
		return ledger_since(str_from(value), clock_wall_us(),
				    &a->filter.since_us) ||
		       args_wrong("audit", "--since: not a TIME:", value);
	case 'n':
		return num_parse_u64(str_from(value), INT64_MAX, &a->filter.limit) ||
		       args_wrong("audit", "--limit: not a whole number:", value);
	case 'j':
		a->json = true;
		return true;
	case 'F':
		return take_format(a, value);
	default:
		return false;
	}
}

static enum status
show(struct audit *a, sqlite3 *db)
{
	enum status st = ledger_each(db, &a->filter, put_row, a);

	while (st == ST_OK && a->follow && !a->failed) {
		const struct timespec pause = { 0, FOLLOW_MS * 1000000L };
		if (fflush(stdout) != 0)
			break;
		(void)nanosleep(&pause, NULL);
		a->filter.limit = 0;
		st = ledger_each(db, &a->filter, put_row, a);
	}
	return st;
}

static int
run(struct audit *a)
{
	CLEANUP(buf_done) struct buf dir = { 0 };
	sqlite3 *db = NULL;

	buf_init(&dir, 4200);
	if (ledger_find(a->config, a->state, &dir) != ST_OK)
		return 2;
	enum status st = ledger_open(buf_cstr(&dir), &db);
	if (st != ST_OK) {
		ledger_say_unreadable(buf_cstr(&dir), st);
		return 2;
	}
	buf_init(&a->line, ROW_JSON_MAX);
	st = show(a, db);
	buf_done(&a->line);
	if (st != ST_OK)
		(void)fprintf(stderr, "sandgate: the ledger can't be read: %s\n",
			      sqlite3_errmsg(db));
	(void)sqlite3_close(db);
	return st == ST_OK && !a->failed && fflush(stdout) == 0 ? 0 : 1;
}

int
cmd_audit(int argc, char **argv)
{
	struct audit a = { 0 };
	int letter;

	if (argc > 1 && strcmp(argv[1], "verify") == 0)
		return audit_verify(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "export") == 0) {
		a.is_export = a.json = true;
		argc--;
		argv++;
	}
	args_help(argc, argv, usage);
	optind = 0; /* of getopt: start anew */
	while ((letter = getopt_long(argc, argv, "c:", options, NULL)) != -1) {
		if (!take_option(&a, letter, optarg)) {
			(void)fputs(usage, stderr);
			return 2;
		}
	}
	if (optind != argc && !args_wrong("audit", "unexpected:", argv[optind])) {
		(void)fputs(usage, stderr);
		return 2;
	}
	return run(&a);
}
