#ifndef PROXY_LEDGER_LAST_H
#define PROXY_LEDGER_LAST_H
/*
 * last: the newest refusals of each sandbox, kept in memory for
 * http://sandgate.internal/last.  At most LAST_ROWS a sandbox and LAST_SANDBOXES in
 * all; the sandbox that was refused longest ago is forgotten first.
 */
#include "proxy/base/list.h"
#include "proxy/base/map.h"
#include "proxy/io/row.h"

enum { LAST_ROWS = 16, LAST_SANDBOXES = 2048 };

struct last {
	struct map by_sandbox; /* struct last_of */
	struct list by_age;    /* oldest first */
};

void last_init(struct last *l);
void last_done(struct last *l);
void last_add(struct last *l,
	      const struct row *r); /* others than refusals are passed over */
/* A JSON array, newest first, of at most so many. */
void last_put_json(const struct last *l, struct str sandbox, size_t most,
		   struct buf *b);

#endif
