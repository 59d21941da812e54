/*
 * sandgate audit verify: 0 when the ledger holds what was written, 1 when not (with
 * the first rows that don't fit), 2 when it can't be read.
 */
#include <stdio.h>

#include "proxy/base/enc.h"
#include "proxy/base/num.h"
#include "proxy/cli/args.h"
#include "proxy/cli/audit.h"
#include "proxy/cli/ledger_read.h"
#include "proxy/cli/ledger_verify.h"

static const char usage[] =
	"usage: sandgate audit verify [-c FILE | --state DIR] [--at ROW:LINK] "
	"[--json]\n"
	"--at takes a place that was noted elsewhere, as an earlier run printed it.\n";

struct wish {
	const char *config, *state;
	struct verify_place at;
	bool json;
};

static bool
take_place(struct str text, struct verify_place *ret_p)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct verify_place p;
	struct str bytes, number = str_cut(&text, ':');

	buf_init(&b, CHAIN_HASH);
	if (!num_parse_strict(number, INT64_MAX, &p.seq) || !enc_get_hex(&b, text) ||
	    buf_finish(&b, &bytes) != ST_OK || !chain_from(bytes, &p.link))
		return false;
	*ret_p = p;
	return true;
}

static bool
take_options(int argc, char **argv, struct wish *w)
{
	const char *at = NULL;
	const struct arg args[] = {
		{ 'c', "config", &w->config, NULL },
		{ 0, "state", &w->state, NULL },
		{ 0, "at", &at, NULL },
		{ 0, "json", NULL, &w->json },
	};
	size_t n;

	if (!args_take(argc, argv, args, COUNT_OF(args), &n) || n != 0)
		return false;
	return at == NULL || take_place(str_from(at), &w->at) ||
	       args_wrong("audit verify", "--at: not ROW:LINK:", at);
}

#define LL(v) ((unsigned long long)(v))

static void
put_text(struct buf *b, const struct verify_result *r)
{
	if (!r->is_whole) {
		buf_putf(b, "The ledger was changed: %s.\n", r->what);
		if (r->first == r->last)
			buf_putf(b, "First row that does not fit: %llu.\n",
				 LL(r->first));
		else
			buf_putf(b, "First misfit: among rows %llu to %llu.\n",
				 LL(r->first), LL(r->last));
		return;
	}
	buf_putf(b,
		 "The ledger is whole: %llu rows in %llu segments, %llu signed places,"
		 " %llu rows erased and %llu segments dropped by retention.\n",
		 LL(r->rows), LL(r->segments), LL(r->signatures), LL(r->erased),
		 LL(r->dropped));
	buf_putf(b, "Last row %llu:", LL(r->tip.seq));
	enc_put_hex(b, chain_str(&r->tip.link));
	buf_putc(b, '\n');
	if (r->signatures == 0 && r->rows > 0)
		buf_put(b, STR("Nothing is signed yet: a forged chain would not be "
			       "seen.\n"));
}

static void
put_json(struct buf *b, const struct verify_result *r)
{
	buf_putf(b, "{\"whole\":%s", r->is_whole ? "true" : "false");
	if (!r->is_whole) {
		buf_putf(b, ",\"first\":%llu,\"last\":%llu,\"what\":", LL(r->first),
			 LL(r->last));
		buf_put_json(b, str_from(r->what));
	}
	buf_putf(b,
		 ",\"rows\":%llu,\"segments\":%llu,\"signatures\":%llu,\"erased\":%llu,"
		 "\"dropped\":%llu,\"tip\":\"%llu:",
		 LL(r->rows), LL(r->segments), LL(r->signatures), LL(r->erased),
		 LL(r->dropped), LL(r->tip.seq));
	enc_put_hex(b, chain_str(&r->tip.link));
	buf_put(b, STR("\"}\n"));
}

int
audit_verify(int argc, char **argv)
{
	CLEANUP(buf_done) struct buf dir = { 0 };
	CLEANUP(buf_done) struct buf text = { 0 };
	struct wish w = { 0 };
	struct verify_result r = { 0 };

	buf_init(&dir, 4200);
	buf_init(&text, 4096);
	args_help(argc, argv, usage);
	if (!take_options(argc, argv, &w)) {
		(void)fputs(usage, stderr);
		return 2;
	}
	if (ledger_find(w.config, w.state, &dir) != ST_OK)
		return 2;
	enum status st = ledger_verify(buf_cstr(&dir), &w.at, &r);
	if (st != ST_OK) {
		ledger_say_unreadable(buf_cstr(&dir), st);
		return 2;
	}
	if (w.json)
		put_json(&text, &r);
	else
		put_text(&text, &r);
	const char *said = buf_cstr(&text);
	if (said == NULL || fputs(said, stdout) < 0 || fflush(stdout) != 0)
		return 2;
	return r.is_whole ? 0 : 1;
}
