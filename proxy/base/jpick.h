#ifndef PROXY_BASE_JPICK_H
#define PROXY_BASE_JPICK_H
/*
 * jpick: a few named values out of one JSON object that streams by, from its first or
 * second level.  All else is read over.
 *
 * Readers differ on which of two equal names counts, and some fold case: so a second
 * value of a wanted name, or a name that differs from it in case only, is JPICK_BAD.
 * What is picked is then what every reader picks.
 */
#include "proxy/base/jscan.h"

enum { JPICK_NAME = 64, JPICK_WANTS = 16 };

struct jpick_want {
	int outer;        /* a want before this one whose object it lies in, or -1 */
	const char *name; /* NULL: told each name in there, by JPICK_KEY */
};

enum jpick_found {
	JPICK_AGAIN,  /* all of the input was taken */
	JPICK_STRING, /* a part of a wanted string, decoded */
	JPICK_NUMBER, /* a part of a wanted number, as written */
	JPICK_KEY,    /* a whole name, one octet longer than JPICK_NAME if cut */
	JPICK_OVER,   /* the object is whole; nothing behind it was taken */
	JPICK_BAD,    /* no such object; for good */
};

struct jpick {
	struct jscan scan;
	const struct jpick_want *wants;
	int count, outer, now; /* wants; the open one; the one whose value comes */
	uint32_t seen;
	bool is_object, is_bad;
	size_t key_n;
	char key[JPICK_NAME + 1];
};

/* The table lives as long as the pick. */
void jpick_init(struct jpick *p, const struct jpick_want *wants, int count);
/* Takes from *in; *ret_want and *ret_text are set for parts and names only. */
enum jpick_found jpick_next(struct jpick *p, struct str *in, int *ret_want,
			    struct str *ret_text) MUSTCHECK;

#endif
