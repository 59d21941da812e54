#ifndef CONNECTORS_RINSE_H
#define CONNECTORS_RINSE_H
/*
 * rinse: what a response goes through on its way back: decoded if it was encoded, then
 * searched for what was shown, whose echoes are overwritten.  Nothing is held back but
 * what may be part of an echo.
 */
#include "connectors/inflate.h"
#include "connectors/scrub.h"
#include "connectors/words.h"
#include "proxy/base/ring.h"
#include "proxy/flow/side.h"

enum { RINSE_RING = 256 * 1024 };

struct rinse {
	struct words *words; /* NULL: nothing is searched for */
	struct scrub scrub;
	struct inflate *inflate; /* NULL: came plain */
	struct ring coded;       /* came, and is not decoded yet */
	bool is_last;            /* all of it came */
	bool is_over;            /* all of it was decoded and put */
	uint32_t count;          /* echoes that were overwritten */
};

void rinse_init(struct rinse *f);
void rinse_done(struct rinse *f);

/* Once: what is searched for.  Takes over the caller's reference. */
void rinse_use(struct rinse *f, struct words *w);
bool rinse_is_on(const struct rinse *f);

/* All fields of a head. */
enum status rinse_fields(struct rinse *f, struct head *h) MUSTCHECK;
/* The body is encoded so.  ST_OK: it will come out plain; ST_END: it is plain. */
enum status rinse_decode(struct rinse *f, struct str codings) MUSTCHECK;

/* space: room for what is written, used within the call; more than scrub_room() ever is.
 * Puts to `to`; ST_OK: all went on; ST_AGAIN: `to` takes no more, call again without
 * bytes when it does. */
struct rinse_space {
	char *p;
	size_t n;
};
enum status rinse_put(struct rinse *f, struct str in, bool is_last,
		      const struct rinse_space *space, struct side *to) MUSTCHECK;
/* Nothing of what came is still to be put.  A decoder may hold much of it itself. */
bool rinse_is_drained(const struct rinse *f);

#endif
