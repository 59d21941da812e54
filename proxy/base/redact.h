#ifndef PROXY_BASE_REDACT_H
#define PROXY_BASE_REDACT_H
/*
 * redact: a text for people and ledgers with what looks like a credential replaced by
 * REDACTED.  It reads commands, code, headers and settings alike, so it goes by what they
 * have in common and rather takes too much:
 *
 *	NAME=value  NAME: value  "NAME": "value"  --NAME value    redact_names.def
 *	Authorization: Bearer value   Bearer value   Basic value
 *	scheme://user:password@host   -u user:password
 *	ghp_…  sk-…  AKIA…  eyJ….….…                              redact_heads.def
 *	-----BEGIN … PRIVATE KEY----- … -----END … PRIVATE KEY-----
 *
 * A variable ($NAME, ${NAME}, $(…)) stays, and so does what the caller names: placeholders
 * are no secrets, and who reads the ledger wants to see that one was used.
 *
 * Linear in the text, which is read until nothing changes.  What was redacted once stays as it is.  A value with a space, a
 * line's end or ",;&|<>)}`" in it must be in quotes to be seen whole.
 */
#include "proxy/base/buf.h"

#define REDACTED "[redacted]"

struct redact_keep { /* values that stay */
	const struct str *texts;
	size_t n;
};

/* keep: may be NULL. */
void redact_put(struct buf *b, struct str text, const struct redact_keep *keep);
/* An argument, as a program gets it, behind another: all of it is the value of a flag. */
void redact_put_behind(struct buf *b, struct str flag, struct str text,
		       const struct redact_keep *keep);

#endif
