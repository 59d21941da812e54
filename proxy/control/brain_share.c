/* What each user has under way: none takes all that there is. */
#include <stdlib.h>

#include "proxy/base/buf.h"
#include "proxy/control/brain.h"

static bool
put_key(struct buf *b, const struct principal *who)
{
	buf_init(b, (size_t)2 * (PRINCIPAL_NAME_MAX + 1));
	buf_put(b, str_from(who->tenant));
	buf_putc(b, '\0');
	buf_put(b, str_from(who->user));
	return b->st == ST_OK;
}

struct brain_share *
brain_share(struct brain *b, const struct principal *who)
{
	CLEANUP(buf_done) struct buf key = { 0 };
	struct brain_share *s;

	if (!put_key(&key, who))
		return NULL;
	s = map_get(&b->shares, str_of(key.p, key.len));
	if (s != NULL)
		return s;
	s = calloc(1, sizeof *s);
	if (s == NULL)
		return NULL;
	s->who = *who;
	if (map_put(&b->shares, str_of(key.p, key.len), s) == ST_OK)
		return s;
	free(s);
	return NULL;
}

void
brain_share_drop(struct brain *b, struct brain_share *s)
{
	CLEANUP(buf_done) struct buf key = { 0 };

	if (s == NULL || s->turns > 0 || s->tickets > 0 || !put_key(&key, &s->who))
		return;
	(void)map_take(&b->shares, str_of(key.p, key.len));
	free(s);
}
