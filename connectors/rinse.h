#ifndef CONNECTORS_RINSE_H
#define CONNECTORS_RINSE_H
/*
 * rinse: what a response goes through on its way back: decoded if it was encoded, then
 * searched for what was shown, whose echoes are overwritten.  Nothing is held back but
 * what may be part of an echo.
 */
#include "connectors/cred.h"
#include "connectors/inflate.h"
#include "connectors/scrub.h"
#include "proxy/base/ring.h"
#include "proxy/base/shape.h"
#include "proxy/flow/side.h"

enum { RINSE_TEXTS = 4, RINSE_RING = 256 * 1024 };

struct rinse {
	struct shape_owner
		owner;    /* whose placeholders are the masks; key NULL: nobody's */
	struct str shape; /* of this connector's placeholders, or empty */
	struct cred text, mask; /* of the needles */
	struct needle needle[RINSE_TEXTS];
	size_t needles_n;
	struct needle_set *set; /* NULL: nothing is searched for */
	struct scrub scrub;
	struct inflate *inflate; /* NULL: came plain */
	struct ring coded;       /* came, and is not decoded yet */
	bool is_last;            /* all of it came */
	uint32_t count;          /* echoes that were overwritten */
};

void rinse_init(struct rinse *f);
void rinse_done(struct rinse *f);

/* Whose echoes come out as which placeholders: before rinse_add(); views until
 * rinse_begin(). */
void rinse_own(struct rinse *f, const struct shape_owner *o, struct str shape);
/* Before rinse_begin(): also this text.  Too short ones can't be told from chance. */
void rinse_add(struct rinse *f, struct str text);
enum status rinse_begin(struct rinse *f) MUSTCHECK;
bool rinse_is_on(const struct rinse *f);

/* All fields of a head. */
enum status rinse_fields(struct rinse *f, struct head *h) MUSTCHECK;
/* The body is encoded so.  ST_OK: it will come out plain; ST_END: it is plain. */
enum status rinse_decode(struct rinse *f, struct str codings) MUSTCHECK;

/* space: room for what is written, used within the call.  Puts to `to`; ST_OK: all went
 * on; ST_AGAIN: `to` takes no more, call again without bytes when it does. */
struct rinse_space {
	char *p;
	size_t n;
};
enum status rinse_put(struct rinse *f, struct str in, bool is_last,
		      const struct rinse_space *space, struct side *to) MUSTCHECK;

#endif
