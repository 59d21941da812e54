#ifndef CONNECTORS_SCRUB_H
#define CONNECTORS_SCRUB_H
/*
 * scrub: one body on its way to a sandbox; each echo of a secret, in any form of
 * proxy/base/needle.def, is overwritten by its placeholder in the same form.
 *
 * Lengths stay: out is as long as in, so Content-Length, chunks, frames and ranges keep
 * their meaning, and a base64 text decodes to what it would have been with the
 * placeholder in it.  The output does not depend on how the input was cut.
 *
 *	held    what a live thread has read: passed on or masked when that is decided
 *	sent    characters of it that are out already (a mask leaves them alone)
 *
 * Only what a mask would change is held back, and only while a match is still possible;
 * at most needle_reach() characters (more may stay at hand, that are out already).  What
 * is held is part of an echo: it is wiped.
 *
 * Owner: the stream.  The set outlives it.
 */
#include "proxy/base/needle.h"

struct scrub { /* scrub_init(); all zero may be passed to scrub_done() */
	const struct needle_set *set;
	struct needle_run run;
	char *held;
	size_t held_n, sent, held_max;
	uint64_t safe, masked_to; /* positions in the stream */
	uint32_t again;           /* masks over masks, in a row */
	uint32_t count;           /* echoes that were masked */
	enum status st;
};

void scrub_init(struct scrub *s, const struct needle_set *set);
void scrub_done(struct scrub *s);

/* How many characters of room the next scrub_feed() needs beyond in.n. */
size_t scrub_room(const struct scrub *s);
/*
 * The next piece; is_last: no more comes, so nothing stays held.  *ret_out is what may
 * go on: a view of space (at least in.n + scrub_room() characters), or of in where
 * nothing was to be done.  A failure sticks: end the message, pass nothing on.
 */
enum status scrub_feed(struct scrub *s, struct str in, bool is_last, char *space,
		       struct str *ret_out) MUSTCHECK;

/* A whole text in place: a field of a head, a reason phrase.  *count grows by what was
 * masked. */
enum status scrub_text(const struct needle_set *set, char *p, size_t n,
		       uint32_t *count) MUSTCHECK;

#endif
