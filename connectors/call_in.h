#ifndef CONNECTORS_CALL_IN_H
#define CONNECTORS_CALL_IN_H
/*
 * call_in: the call's own struct, for call*.c only.
 */
#include "connectors/bond.h"
#include "connectors/call.h"
#include "connectors/errand.h"
#include "connectors/lent.h"
#include "proxy/io/call_body.h"

struct call {
	struct list link; /* all->calls */
	struct connector *all;
	struct peer *peer;
	uint32_t seq;
	struct loop_timer deadline;
	struct call_wish wish; /* views into: */
	char *text;            /* the ask's body */
	size_t text_n;
	/* of this try */
	uint32_t connector;
	struct auth_conf
		conf; /* views into the image in force, good until it is sent */
	struct arena scratch;
	struct head head;
	struct uri uri;
	struct auth_job job;
	struct lent *lent;
	struct lent_wait *leasing;
	struct bond_wait *bonding;
	struct words *words; /* what the answer is searched for; NULL: nothing */
	struct errand errand;
	bool is_sent, is_retry, is_over;
};

/* call_request.c */
/* All but the credential: is it to be sent at all, and how?  Judged anew with each try. */
enum status call_prepare(struct call *c) MUSTCHECK;
/* The credential is made of the lease, or of the token, and lives until the request is sent. */
enum status call_write(struct call *c, const struct bond_token *token) MUSTCHECK;

#endif
