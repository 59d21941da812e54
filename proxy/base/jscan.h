#ifndef PROXY_BASE_JSCAN_H
#define PROXY_BASE_JSCAN_H
/*
 * jscan: one JSON text (RFC 8259) pulled apart as it comes, in pieces of any size.  For who
 * reads along with a stream: nothing is kept or allocated, texts are handed on in parts
 * as views of the input (an escape: of the reader), and strings are decoded to UTF-8.
 *
 * Strict: control characters and invalid UTF-8 in strings, leading zeros, commas too many
 * and nesting deeper than JSCAN_DEPTH are errors.  Half of a surrogate pair is U+FFFD, as
 * most readers make it.  Whatever way the input is cut, the parts put together are the
 * same, up to and including the place of an error.
 */
#include "proxy/base/str.h"

enum { JSCAN_DEPTH = 256 };

enum jscan_token {
	JSCAN_AGAIN, /* all of the input was taken */
	JSCAN_OBJECT,
	JSCAN_OBJECT_END,
	JSCAN_ARRAY,
	JSCAN_ARRAY_END,
	JSCAN_KEY,      /* a part of a name; none comes for "" */
	JSCAN_STRING,   /* a part of a string; none comes for "" */
	JSCAN_NUMBER,   /* a part of a number as written */
	JSCAN_KEY_END,  /* the name is whole */
	JSCAN_TEXT_END, /* the string or number is whole */
	JSCAN_LITERAL,  /* true, false or null */
	JSCAN_OVER,     /* the text is whole; nothing behind it was taken */
	JSCAN_BAD,      /* no JSON; for good */
};

struct jscan {
	uint8_t state, number; /* jscan.c */
	bool is_key;
	uint16_t depth; /* objects and arrays open */
	uint8_t is_array[JSCAN_DEPTH / 8];
	const char *word; /* what is left of a literal */
	uint8_t digits;   /* of \uXXXX */
	uint16_t unit, high;
	uint8_t tail, tail_low, tail_high; /* octets of a character to come; the next */
	char out[8];
};

void jscan_init(struct jscan *j);
/* Takes from *in; *ret_text is set for parts only and is never empty then. */
enum jscan_token jscan_next(struct jscan *j, struct str *in,
			    struct str *ret_text) MUSTCHECK;

bool jscan_is_space(char c);

#endif
