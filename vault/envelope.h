#ifndef VAULT_ENVELOPE_H
#define VAULT_ENVELOPE_H
/*
 * envelope: a value sealed with a random key of its own, and that key sealed with the
 * master's.  Both are bound to the place where they belong: tenant, name, kind, version.
 * Another master key means sealing the small keys anew, never the values.
 */
#include "vault/seal.h"

enum { ENVELOPE_VALUE_MAX = 8192 };

struct envelope_place {
	struct str tenant, name;
	uint8_t kind;
	uint32_t version;
};

struct envelope { /* as it is kept */
	struct str wrapped, sealed;
};

struct envelope_new { /* as it is made */
	unsigned char wrapped[SEAL_WRAPPED], sealed[ENVELOPE_VALUE_MAX + SEAL_MORE];
	size_t sealed_n;
};

/* ST_BAD_SECRET: nothing, or more than fits. */
enum status envelope_close(const struct seal_key *master,
			   const struct envelope_place *place, struct str value,
			   struct envelope_new *ret_e) MUSTCHECK;
/* value has room for e->sealed.n - SEAL_MORE. */
enum status envelope_open(const struct seal_key *master,
			  const struct envelope_place *place, const struct envelope *e,
			  unsigned char *value) MUSTCHECK;
/* The data key of e for another master, in ret_e->wrapped; sealed is left alone. */
enum status envelope_rewrap(const struct seal_key *from, const struct seal_key *to,
			    const struct envelope_place *place,
			    const struct envelope *e,
			    struct envelope_new *ret_e) MUSTCHECK;

#endif
