#include <stdio.h>

#include "conf/image.h"
#include "proxy/cli/ledger_read.h"
#include "proxy/cli/where.h"
#include "proxy/io/state_dir.h"

/* What `state_dir:` of the file says; the file must be right as a whole, so that no
 * other ledger is looked at than the gateway writes. */
static enum status
from_config(const char *config, struct buf *state)
{
	struct image *im = NULL;
	enum status st = where_image(config, &im);

	if (st != ST_OK)
		return st;
	st = state_dir_put(state, image_text(im, OPT_STATE_DIR));
	image_close(im);
	return st;
}

/* Without a file given and none in the usual place: the default of `state_dir:`. */
static enum status
by_default(struct buf *state)
{
	CLEANUP(buf_done) struct buf config = { 0 };

	buf_init(&config, 4200);
	if (where_config(NULL, &config) == ST_OK && buf_cstr(&config) != NULL)
		return from_config(buf_cstr(&config), state);
	return state_dir_put(state, STR(""));
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
		st = by_default(dir);
	buf_put(dir, STR("/ledger"));
	if (st == ST_OK && buf_cstr(dir) == NULL)
		st = ST_TOO_BIG;
	if (st != ST_OK)
		(void)fprintf(stderr,
			      "sandgate: the state directory is not known: %s\n",
			      status_words(st)->sentence);
	return st;
}
