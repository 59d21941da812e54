#ifndef CONNECTORS_TOKEN_H
#define CONNECTORS_TOKEN_H
/*
 * token: what a token service answered, and what is kept of it until it runs out.  Every
 * parser takes the shape that it expects, whole, or nothing: an error's text may hold what
 * was sent, so none of it goes anywhere.
 */
#include "connectors/auth.h"

struct token_held {
	struct cred text; /* all of the below; wiped with it */
	struct auth_token shown;
	struct str refresh; /* a new refresh token; empty: none */
	uint64_t expires_s; /* since 1970; 0: not told */
};

enum { TOKEN_BODY_MAX = 64 * 1024 };

/* RFC 6749 section 5.1. */
enum status token_parse_oauth(struct str body, uint64_t now_s,
			      struct token_held *ret_t) MUSTCHECK;
/* An installation token of a GitHub App. */
enum status token_parse_github(struct str body, struct token_held *ret_t) MUSTCHECK;
/* The Credentials of AssumeRole. */
enum status token_parse_sts(struct str body, struct token_held *ret_t) MUSTCHECK;

/* 2026-01-02T03:04:05Z, a fraction of the second allowed (RFC 3339, UTC only). */
bool token_parse_time(struct str s, uint64_t *ret_s) MUSTCHECK;

/* Good for a request that starts now: not within skew_s of its end. */
bool token_is_fresh(const struct token_held *t, uint64_t now_s, uint64_t skew_s);
void token_done(struct token_held *t);
void token_forget_refresh(struct token_held *t); /* wipes it alone */

#endif
