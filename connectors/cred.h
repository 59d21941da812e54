#ifndef CONNECTORS_CRED_H
#define CONNECTORS_CRED_H
/*
 * cred: text that holds a credential, being put together: a field's value, a target, a
 * signed claim.  Its memory is allocated once, at its largest size, so that growing
 * leaves no copy behind, and is wiped when it is given up.
 *
 * As buf, errors stick: write straight through, ask once at cred_finish().
 */
#include "proxy/base/str.h"

struct cred {
	char *p;
	size_t len, max; /* len <= max */
	enum status st;
};

void cred_init(struct cred *c, size_t max);
void cred_done(struct cred *c); /* wipes; fine twice, and on a zeroed one */

void cred_put(struct cred *c, struct str s);
void cred_putc(struct cred *c, char ch);
void cred_put_dec(struct cred *c, uint64_t v);
void cred_put_hex(struct cred *c, struct str bytes);       /* lower case */
void cred_put_base64(struct cred *c, struct str bytes);    /* RFC 4648 section 4 */
void cred_put_base64url(struct cred *c, struct str bytes); /* section 5, no padding */
/* RFC 3986: all but unreserved octets, and those of keep, as %XX in upper case. */
void cred_put_percent(struct cred *c, struct str bytes, struct str keep);
/* The value of application/x-www-form-urlencoded: as above, and a space is '+'. */
void cred_put_form(struct cred *c, struct str bytes);

/* Where the next octet goes, and what was written from there on (empty after a failure).
 * Views stay until cred_done(). */
size_t cred_mark(const struct cred *c);
struct str cred_since(const struct cred *c, size_t mark);
enum status cred_finish(const struct cred *c, struct str *ret_view) MUSTCHECK;

bool cred_is_unreserved(char ch); /* RFC 3986 section 2.3 */

#endif
