#ifndef CONNECTORS_EXCHANGE_H
#define CONNECTORS_EXCHANGE_H
/*
 * exchange: the request that turns a long-term secret into a token, and what its answer
 * means.  Pure: whoever sends it puts job.head with job.last behind it, and job.body.
 *
 *	oauth2_client_credentials  RFC 6749 section 4.4
 *	oauth2_refresh             RFC 6749 section 6
 *	jwt_bearer                 RFC 7523, or a GitHub App's installation token
 *	sigv4 with assume_role     AssumeRole
 */
#include "connectors/token.h"

struct exchange {
	struct auth_job job;
	struct auth_conf conf; /* what the request itself is signed with */
	struct head head;
	struct uri uri;
	struct cred form;
};

/* No request: the token is made from the secret alone. */
bool exchange_is_local(const struct auth_conf *c);
enum status exchange_make_local(const struct auth_conf *c, const struct str *parts,
				uint64_t now_s, struct token_held *ret_t) MUSTCHECK;

/* parts: AUTH_PARTS views, good until exchange_over().  a: for what is no secret. */
enum status exchange_make(struct exchange *x, const struct auth_conf *c,
			  const struct str *parts, uint64_t now_s,
			  struct arena *a) MUSTCHECK;
void exchange_over(struct exchange *x);

/* The whole answer.  ST_TOKEN_FAILED: anything but a token. */
enum status exchange_read(const struct auth_conf *c, uint16_t status, struct str body,
			  uint64_t now_s, struct token_held *ret_t) MUSTCHECK;

#endif
