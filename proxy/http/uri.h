#ifndef PROXY_HTTP_URI_H
#define PROXY_HTTP_URI_H
/*
 * uri: the target of a request (RFC 9112 section 3.2) and the one destination that
 * target and Host make together.  Views point into the head's arena.
 *
 * Refuses rather than repairs: only visible ASCII; scheme exactly "http"; no
 * userinfo, fragment or backslash (ST_BAD_TARGET).  Paths: valid percent triplets;
 * nothing that some server would take for a dot segment, a control character, a
 * backslash or overlong UTF-8 (ST_BAD_PATH).  %2f is an ordinary octet inside one
 * segment, and an empty segment is an ordinary segment: bytes are matched as sent.
 */
#include "proxy/http/dest.h"
#include "proxy/http/head.h"

enum uri_form { URI_ORIGIN, URI_ABSOLUTE, URI_AUTHORITY, URI_ASTERISK };

struct uri {
	enum uri_form form;
	struct dest dest; /* port 0 after uri_parse() of origin and asterisk forms */
	struct str path;  /* starts with '/'; "*" for OPTIONS *; empty for CONNECT */
	struct str query; /* without '?' */
	bool has_query;
};

/* The request target alone, in the form that fits its method. */
enum status uri_parse(enum method m, struct str target, struct uri *ret_u) MUSTCHECK;

/*
 * Target and Host together: the destination comes from the target if it names one,
 * else from Host with default_port.  When both name one they must be the same
 * (ST_MISMATCH); a Host that doesn't parse is an error even then.
 */
enum status uri_of_request(const struct head *h, uint16_t default_port,
			   struct uri *ret_u) MUSTCHECK;

/* An absolute path without query. */
enum status uri_check_path(struct str path) MUSTCHECK;

/* What follows the method on the wire upstream: path[?query]. */
void uri_put_target(struct buf *b, const struct uri *u);

#endif
