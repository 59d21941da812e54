#ifndef CONNECTORS_SIGV4_H
#define CONNECTORS_SIGV4_H
/*
 * sigv4: AWS Signature Version 4 in its header form.  Region and service are what the
 * operator wrote, never what the request says, so a signature is good for nothing else.
 *
 * Not here, and refused by name (sigv4_refuses()): presigned queries, chunks that are
 * signed one by one, Signature Version 4A.
 */
#include "connectors/canon.h"

struct sigv4_keys {
	struct str id, secret, session; /* session: empty for long-term keys */
};

struct sigv4_scope {
	struct str region, service;
	uint64_t now_s; /* since 1970 */
};

enum { SIGV4_DATE = 16 };
/* 20150830T123600Z */
void sigv4_date(uint64_t now_s, char ret_date[SIGV4_DATE]);

/* The value of Authorization for the request that c describes; x-amz-date is among its
 * fields and says scope->now_s. */
enum status sigv4_put_authorization(struct cred *out, const struct canon *c,
				    const struct sigv4_scope *scope,
				    const struct sigv4_keys *keys) MUSTCHECK;

/* ST_OK, or ST_SIGV4_FORM: the client asks for a form that is not made here. */
enum status sigv4_refuses(const struct head *h, struct str query) MUSTCHECK;

#endif
