#include "proxy/io/state_dir.h"

#include <stdlib.h>
#include <unistd.h>

static bool
is_absolute(const char *path)
{
	return path != NULL && path[0] == '/';
}

/* XDG Base Directory Specification: a relative path there is to be ignored. */
static enum status
put_default(struct buf *b)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (geteuid() == 0)
		buf_put(b, STR("/var/lib/sandgate"));
	else if (is_absolute(state))
		buf_putf(b, "%s/sandgate", state);
	else if (is_absolute(home))
		buf_putf(b, "%s/.local/state/sandgate", home);
	else
		return ST_NOT_FOUND;
	return b->st;
}

enum status
state_dir_put(struct buf *b, struct str configured)
{
	if (configured.n == 0)
		return put_default(b);
	if (configured.p[0] != '/' || str_has(configured, '\0'))
		return ST_BAD_CONFIG;
	buf_put(b, configured);
	return b->st;
}
