#ifndef CONNECTORS_BOND_IN_H
#define CONNECTORS_BOND_IN_H
/*
 * bond_in: the bond's own struct, for bond*.c only.
 *
 *	IDLE ─> SOON ─> LEASE ─> CALL ─> ROTATE ─> IDLE
 *	         │        └───────┴─────────────────┘
 *	         └─> ROTATE, of a token that only isn't durable yet
 *
 * Runs by itself: those who wait may go.  A refresh that was sent is seen through, also
 * past a reload, or its new refresh token would be lost.
 */
#include "connectors/bond.h"
#include "connectors/errand.h"

enum bond_state { BOND_IDLE, BOND_SOON, BOND_LEASE, BOND_CALL, BOND_ROTATE };

enum { BOND_CALL_MS = 20000, BOND_NAME_MAX = 128 };

struct bond {
	struct list link; /* all->bonds */
	struct connector *all;
	enum bond_state state;
	bool is_old;        /* how it is got has changed */
	bool is_durable;    /* the token may be used */
	struct arena arena; /* of conf and name */
	struct auth_conf conf;
	struct str name; /* the connector's */
	struct str user; /* of delegated ones */
	struct list waits;

	struct token_held token;
	uint64_t serial;
	uint32_t version;
	enum status failed; /* the last try; ST_OK: it did not */
	uint64_t failed_ms;

	/* while it runs */
	int sandbox; /* -1, or a duplicate */
	bool has_x;
	struct exchange x;
	struct loop_timer timer;
	struct lease_call *leasing;
	struct rotate_call *rotating;
	struct lease lease;
	struct arena scratch;
	struct errand errand;
};

void bond_to(struct bond *b, enum bond_state s);
/* The end of one run: those who wait are told. */
void bond_finish(struct bond *b, enum status st);

/* bond_call.c */
void bond_run(struct bond *b, int sandbox);
void bond_stop(struct bond *b); /* nothing runs any more */

#endif
