#ifndef CONF_PLACEHOLDER_H
#define CONF_PLACEHOLDER_H
/*
 * placeholder: what a sandbox may show where a client insists on a credential.  A
 * connector whose `auth` has a `placeholder` gives each sandbox that may use it a text of
 * that shape (proxy/base/shape.h).  It opens nothing: the connector removes whatever
 * stands in the credential's slot.  Anywhere else it is a sign that what looks like a
 * secret is being carried off, so it is looked for in every form of needle.def.
 *
 * Owner: whoever made it.  Holds its texts; the image may be closed.
 */
#include "conf/policy.h"
#include "conf/who.h"
#include "proxy/base/needle.h"
#include "proxy/base/shape.h"

struct placeholder {
	uint32_t connector; /* index in the image it was made from */
	struct str text;
};

struct placeholders;

/* All of one sandbox; none is fine.  ST_NOMEM. */
enum status placeholders_new(const struct image *im, const struct sip_key *key,
			     const struct who *w,
			     struct placeholders **ret_p) MUSTCHECK;
void placeholders_free(struct placeholders *p);

const struct placeholder *placeholders_all(const struct placeholders *p, size_t *ret_n);

/* The first one that stands whole in text; NULL: none. */
const struct placeholder *placeholders_find(const struct placeholders *p,
					    struct str text);
/*
 * A stream: view begins with what was not passed on before.  NULL: none, and *ret_pass is
 * what holds no beginning of one (all if is_last); else *ret_pass is where it ends.
 */
const struct placeholder *placeholders_sift(const struct placeholders *p,
					    struct str view, bool is_last,
					    size_t *ret_pass);

#endif
