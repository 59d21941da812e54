#ifndef PROXY_CLI_ADMIN_H
#define PROXY_CLI_ADMIN_H
/*
 * admin: one request to the gateway that runs, over the address that its configuration
 * names.  The token of a port, or of one of several people who share a user, is read from
 * $SANDGATE_ADMIN_TOKEN.
 */
#include <jansson.h>

#include "proxy/base/buf.h"

struct admin_where { /* which gateway; all NULL: the default configuration's */
	const char *config;
	const char *state; /* its state directory, with admin.sock in it */
	bool may_be_none;  /* that none runs is an answer, not said as an error */
};

struct admin_wish {
	const char *method, *path;
	json_t *body;   /* NULL: none; stays the caller's */
	const int *fds; /* go with the request; Unix socket only */
	size_t fds_n;
};

struct admin_reply {
	unsigned http;
	json_t *body; /* the caller's; an object */
};

/* ST_NOT_FOUND: none runs there.  Says on standard error what is wrong. */
enum status admin_call(const struct admin_where *where, const struct admin_wish *wish,
		       struct admin_reply *ret_reply) MUSTCHECK;
/* "code: why" of a refusal to standard error: what is wrong with this very request, where
 * the gateway says so, else what the code means. */
void admin_print_refusal(const struct admin_reply *r);
bool admin_is_refusal(const struct admin_reply *r, enum status st) MUSTCHECK;

#endif
