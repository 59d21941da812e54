#ifndef PROXY_CONTROL_BRAIN_JSON_H
#define PROXY_CONTROL_BRAIN_JSON_H
/*
 * brain_json: what servers say, made fit for callers, and the small texts in requests.
 * Servers are not trusted: every value is looked at before it is used.
 */
#include <jansson.h>

#include "proxy/base/buf.h"

enum { BRAIN_UPSTREAM_MAX = 128 };

/* An object; NULL: it isn't one, or nested too deep. */
json_t *brain_json_object(struct str text);
/* p NULL: it is no text. */
struct str brain_string(const json_t *v);
struct str brain_json_text(const json_t *object, const char *key); /* of a member */
/* A request that can't be taken: why says what is wrong.  ST_BAD_PARAMETER. */
enum status brain_bad(struct buf *why, const char *text) MUSTCHECK;
/* An id of the server's: 1 to BRAIN_UPSTREAM_MAX octets of letters, digits, '-', '_', '.',
 * not "." or "..". */
bool brain_json_is_id(struct str id);

/* Wherever `from` occurs, `to` stands: members that hold ids exactly it, and within any text if
 * it is long enough not to be there by chance.  Names of members stay. */
void brain_json_rename(json_t *v, struct str from, struct str to);
/* The same in a text. */
void brain_text_rename(struct buf *b, struct str text, struct str from, struct str to);

/* RFC 3339 to seconds since 1970, rounded up. */
bool brain_time_read(struct str text, uint64_t *ret_s) MUSTCHECK;
/* To whole seconds. */
json_t *brain_time_json(uint64_t s);

/* The next parameter of a query, decoded; false: no more, or (*ret_bad) malformed. */
bool brain_query_next(struct str *rest, struct buf *key, struct buf *value,
		      bool *ret_bad);
/* Each of them, in their order.  False: one is malformed or too long, or fn said no. */
typedef bool (*brain_query_fn)(void *ctx, struct str key, struct str value);
bool brain_query_each(struct str query, brain_query_fn fn, void *ctx) MUSTCHECK;

#endif
