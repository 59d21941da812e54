#include <stdio.h>
#include <unistd.h>

#include "conf/conf.h"
#include "conf/image.h"
#include "proxy/cli/ledger_read.h"
#include "proxy/io/state_dir.h"

/* What `state_dir:` of this file says; the file must be right as a whole, so that no
 * other ledger is looked at than the gateway writes. */
static enum status
from_config(const char *config, struct buf *state)
{
	CLEANUP(buf_done) struct buf text;
	struct report report;
	struct image *im = NULL;
	int memfd = -1;
	enum status st = report_init(&report);

	if (st != ST_OK)
		return st;
	st = conf_load(config, &report, &memfd);
	if (st == ST_OK) {
		st = image_open(memfd, &im);
		(void)close(memfd);
	}
	if (st == ST_OK) {
		st = state_dir_put(state, image_text(im, OPT_STATE_DIR));
		image_close(im);
	} else {
		buf_init(&text, 65536);
		report_put(&text, &report);
		const char *said = buf_cstr(&text);
		(void)fputs(said == NULL ? "" : said, stderr);
	}
	report_done(&report);
	return st;
}

enum status
ledger_find(const char *config, const char *state, struct buf *dir)
{
	enum status st = ST_OK;

	if (state != NULL)
		buf_put(dir, str_from(state));
	else if (config != NULL)
		st = from_config(config, dir);
	else
		st = state_dir_put(dir, STR(""));
	buf_put(dir, STR("/ledger"));
	if (st == ST_OK && buf_cstr(dir) == NULL)
		st = ST_TOO_BIG;
	if (st != ST_OK)
		(void)fprintf(stderr,
			      "sandgate: the state directory is not known: %s\n",
			      status_words(st)->sentence);
	return st;
}
