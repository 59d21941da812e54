#ifndef PROXY_BASE_SHAPE_H
#define PROXY_BASE_SHAPE_H
/*
 * shape: texts that look like a secret and are none.  The same key, sandbox and connector
 * give the same text, in every process and after every reload; without the key nobody
 * foretells it.  It opens nothing: whoever knows the key can only tell what is one.
 */
#include "proxy/base/buf.h"
#include "proxy/base/sip.h"

enum {
	SHAPE_MAX = 512,
	SHAPE_STARS = 16, /* random letters and digits that a shape must have */
};

/* Whose text it is. */
struct shape_owner {
	const struct sip_key *key;
	struct str sandbox, connector;
};

/* A shape is good if it has enough `*`, each of which becomes a letter or digit, and
 * else only what is visible ASCII. */
bool shape_is_good(struct str shape);
/* out: shape.n characters. */
void shape_fill(const struct shape_owner *o, struct str shape, char *out);

/*
 * A text like the secret: as long, letters and digits where it has them, in the same
 * case, all else as it is; what tells the kind of a secret (`ghp_`, `AKIA`) stays, or of
 * longer ones without such a beginning the first character (from 12 on) or three (from
 * 24 on), so that it need not be held back in a stream before it is known.  Nothing else
 * of the secret is in it.  out: secret.n characters, never the secret itself.
 */
void shape_like(const struct shape_owner *o, struct str secret, char *out);

#endif
