#ifndef PROXY_HTTP_HEAD_H
#define PROXY_HTTP_HEAD_H
/*
 * head: what a message says before its body, whichever HTTP version carried it.
 * Also used for trailers (fields only).  Everything it points to lives in its arena;
 * removing a field only forgets it.  Fields keep their order; names keep their
 * spelling, and known ones carry their token, so nobody compares text twice.
 *
 * A reader never adds a field whose name only folds (case aside: '_' or '.' for '-')
 * to a hop-by-hop or credential name, and refuses one that folds to a framing name.
 */
#include "proxy/base/arena.h"

enum token_flag {
	TOKEN_IS_HOP = 1,
	TOKEN_IS_FRAMING = 2,
	TOKEN_IS_CREDENTIAL = 4,
	TOKEN_IS_ROUTING = 8,
	TOKEN_IS_CONTROL = 16,
};

/* Known field names, one row each: token.def. */
#define TOKEN(name, text, flags) TOKEN_##name,
enum token {
	TOKEN_NONE,
#include "proxy/http/token.def"
	TOKEN_COUNT
};
#undef TOKEN

enum token token_of(struct str name);     /* case folded; TOKEN_NONE: unknown */
enum token token_folded(struct str name); /* also '_' and '.' taken for '-' */
unsigned token_flags(enum token t);
const char *token_name(enum token t); /* lower case; "" for TOKEN_NONE */

/* Methods are case-sensitive: "connect" is METHOD_OTHER.  But for TRACE and TRACK, which
 * nobody may send and some server takes in any case. */
enum method {
	METHOD_OTHER,
	METHOD_GET,
	METHOD_HEAD,
	METHOD_POST,
	METHOD_PUT,
	METHOD_DELETE,
	METHOD_PATCH,
	METHOD_OPTIONS,
	METHOD_CONNECT,
	METHOD_TRACE,
	METHOD_TRACK,
};

enum method method_of(struct str name);
/* RFC 9110 section 9.2.1: asking twice does no more than asking once.  TRACE goes nowhere. */
bool method_is_safe(enum method m);

/* Where the body ends (RFC 9112 section 6.3). */
enum body_kind {
	BODY_NONE,
	BODY_LENGTH,
	BODY_CHUNKED,
	BODY_UNTIL_CLOSE, /* responses only */
	BODY_TUNNEL,      /* no more HTTP: 2xx to CONNECT, or 101 */
};

struct field {
	struct str name, value;
	enum token token;
};

struct head {
	struct arena *arena;
	struct str method, target; /* requests; empty in responses */
	enum method method_id;
	uint16_t status; /* responses; 0 in requests */
	uint8_t minor;   /* HTTP/1.minor */

	struct field *fields;
	size_t fields_len, fields_cap;

	enum body_kind body;
	uint64_t length;    /* what Content-Length says, if has_length */
	bool has_length;    /* also in answers to HEAD and in 304, which have no body */
	bool is_persistent; /* the sender keeps the connection after this message */
	bool expects_continue; /* HTTP/1.1 request with Expect: 100-continue */
};

void head_init(struct head *h, struct arena *a);

/* Name and value are copied; ST_NOMEM when the arena is full. */
enum status head_add(struct head *h, struct str name, struct str value) MUSTCHECK;
/* As head_add, for text that lives in the head's arena already; t is token_of(name). */
enum status head_add_view(struct head *h, enum token t, struct str name,
			  struct str value) MUSTCHECK;
/* The same field to some server: case, and '_' and '.' for '-'. */
bool head_same_name(struct str a, struct str b);
/* Remove every field of this name, however it is spelled, then add it once. */
enum status head_set(struct head *h, struct str name, struct str value) MUSTCHECK;

/* The first field of this token or name; NULL: not there. */
const struct field *head_get(const struct head *h, enum token t);
const struct field *head_find(const struct head *h, struct str name);
size_t head_count(const struct head *h, enum token t);
void head_remove(struct head *h, enum token t);
/* However it is spelled: head_same_name(). */
void head_remove_name(struct head *h, struct str name);

/* Is item a member of the comma list that all fields of this token make?  Case folded.
 */
bool head_lists(const struct head *h, enum token t, struct str item);

/* Connection names it, and it is none of the names that Connection can't reach. */
bool head_nominates(const struct head *h, const struct field *f);
/*
 * May this field of h go on to the next hop, whatever version that speaks?  Not the
 * hop-by-hop ones, nominated ones, Proxy-*, and what every writer states itself (Host,
 * Content-Length).
 */
bool head_field_passes(const struct head *h, const struct field *f);
/* The same for a trailer field of the message that h begins. */
bool head_trailer_passes(const struct head *h, const struct field *f);

bool is_http_token(struct str s); /* 1*tchar, RFC 9110 section 5.6.2 */
/*
 * May a reader of any version add this field?  ST_OK: yes, with *ret_t; ST_END: a name
 * that only folds to a hop-by-hop or credential one, leave it out; ST_BAD_HEADER: name
 * or value is malformed, or the name folds to a framing one.
 */
enum status head_judge(struct str name, struct str value, enum token *ret_t) MUSTCHECK;

#endif
