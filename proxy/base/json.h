#ifndef PROXY_BASE_JSON_H
#define PROXY_BASE_JSON_H
/*
 * json: one JSON text (RFC 8259) pulled apart as it comes, in pieces of any size.  For who
 * reads along with a stream: nothing is kept or allocated, texts are handed on in parts
 * as views of the input (an escape: of the reader), and strings are decoded to UTF-8.
 *
 * Strict: control characters and invalid UTF-8 in strings, leading zeros, commas too many
 * and nesting deeper than JSON_DEPTH are errors.  Half of a surrogate pair is U+FFFD, as
 * most readers make it.  Whatever way the input is cut, the parts put together are the
 * same, up to and including the place of an error.
 */
#include "proxy/base/str.h"

enum { JSON_DEPTH = 256 };

enum json_token {
	JSON_AGAIN, /* all of the input was taken */
	JSON_OBJECT,
	JSON_OBJECT_END,
	JSON_ARRAY,
	JSON_ARRAY_END,
	JSON_KEY,      /* a part of a name; none comes for "" */
	JSON_STRING,   /* a part of a string; none comes for "" */
	JSON_NUMBER,   /* a part of a number as written */
	JSON_KEY_END,  /* the name is whole */
	JSON_TEXT_END, /* the string or number is whole */
	JSON_LITERAL,  /* true, false or null */
	JSON_OVER,     /* the text is whole; nothing behind it was taken */
	JSON_BAD,      /* no JSON; for good */
};

struct json {
	uint8_t state, number; /* json.c */
	bool is_key;
	uint16_t depth; /* objects and arrays open */
	uint8_t is_array[JSON_DEPTH / 8];
	const char *word; /* what is left of a literal */
	uint8_t digits;   /* of \uXXXX */
	uint16_t unit, high;
	uint8_t tail, tail_low, tail_high; /* octets of a character to come; the next */
	char out[8];
};

void json_init(struct json *j);
/* Takes from *in; *ret_text is set for parts only and is never empty then. */
enum json_token json_next(struct json *j, struct str *in,
			  struct str *ret_text) MUSTCHECK;

bool json_is_space(char c);

#endif
