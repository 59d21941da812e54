#ifndef PROXY_BASE_JSON_PICK_H
#define PROXY_BASE_JSON_PICK_H
/*
 * json_pick: a few named values out of one JSON object that streams by, from its first or
 * second level.  All else is read over.
 *
 * Readers differ on which of two equal names counts, and some fold case: so a second
 * value of a wanted name, or a name that differs from it in case only, is JSON_PICK_BAD.
 * What is picked is then what every reader picks.
 */
#include "proxy/base/json.h"

enum { JSON_PICK_NAME = 64, JSON_PICK_WANTS = 16 };

struct json_want {
	int outer;        /* a want before this one whose object it lies in, or -1 */
	const char *name; /* NULL: told each name in there, by JSON_PICK_KEY */
};

enum json_picked {
	JSON_PICK_AGAIN,  /* all of the input was taken */
	JSON_PICK_STRING, /* a part of a wanted string, decoded */
	JSON_PICK_NUMBER, /* a part of a wanted number, as written */
	JSON_PICK_KEY,  /* a whole name, one octet longer than JSON_PICK_NAME if cut */
	JSON_PICK_OVER, /* the object is whole; nothing behind it was taken */
	JSON_PICK_BAD,  /* no such object; for good */
};

struct json_pick {
	struct json json;
	const struct json_want *wants;
	int count, outer, now; /* wants; the open one; the one whose value comes */
	uint32_t seen;
	bool is_object, is_bad;
	size_t key_n;
	char key[JSON_PICK_NAME + 1];
};

/* The table lives as long as the pick. */
void json_pick_init(struct json_pick *p, const struct json_want *wants, int count);
/* Takes from *in; *ret_want and *ret_text are set for parts and names only. */
enum json_picked json_pick_next(struct json_pick *p, struct str *in, int *ret_want,
				struct str *ret_text) MUSTCHECK;

#endif
