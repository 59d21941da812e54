#ifndef PROXY_CONTROL_BRAIN_CREDENTIAL_IN_H
#define PROXY_CONTROL_BRAIN_CREDENTIAL_IN_H
/*
 * brain_credential_in: a change of a credential-vault from inside: brain_binding.c reads what
 * is wished, brain_credential.c has it kept.
 */
#include "proxy/control/brain.h"

enum { CREDENTIAL_PUTS = 64 };

struct put {
	struct str secret, connector, user, value;
};

struct keeping; /* the keeper is asked */

struct change {                         /* t->state */
	json_t *credentials, *bindings; /* as they will be */
	json_t *values;                 /* name -> text, of this request */
	json_int_t revision;
	struct put puts[CREDENTIAL_PUTS];
	size_t puts_n, at;
	bool is_rotating; /* it is there: a new version */
	uint16_t http;
	struct keeping *keeping;
	struct brain
		*brain; /* whose vault of that sandbox is ours to change; or NULL */
	char id[STR_NAME_MAX + 1];
};

/* Changes t->state, which begins as what is there, by the turn's body.  ST_DENIED: no connector
 * takes it; ST_CONFLICT: a name is there, or isn't; ST_BAD_PARAMETER; why says it. */
enum status binding_read(struct brain_turn *t, struct buf *why) MUSTCHECK;

#endif
