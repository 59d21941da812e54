#ifndef PROXY_BASE_NEEDLE_FORM_H
#define PROXY_BASE_NEEDLE_FORM_H
/* needle_form: how each form of needle.def is read and written.  For needle.c alone. */
#include "proxy/base/needle.h"

enum needle_read { READ_DEAD, READ_LIVE, READ_DONE };

/* One more character of a thread that reads text. */
enum needle_read needle_form_read(struct str text, struct needle_thread *t, char c);
/* Which characters a thread can read next; how many. */
enum { NEXT_MAX = 80 };
size_t needle_form_next(struct str text, const struct needle_thread *t,
			char next[NEXT_MAX]);
/* What follows the backslash in JSON's short escape of c; 0: there is none. */
char needle_form_short(char c);
/* How many leading units (as needle_thread.at counts them) the mask leaves alone. */
uint32_t needle_form_kept(enum needle_form f, const struct needle *n);
/* Characters p[0 .. n) in form f say text: make them say mask, from `from` on. */
void needle_form_mask(enum needle_form f, const struct needle *needle, char *p,
		      size_t n, size_t from);
/* The fewest characters that say text. */
size_t needle_form_least(enum needle_form f, struct str text);

#endif
