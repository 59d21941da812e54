#ifndef PROXY_CONTROL_BRAIN_CREATE_IN_H
#define PROXY_CONTROL_BRAIN_CREATE_IN_H
/*
 * brain_create_in: a create from inside: brain_wish.c finds out what is wanted and where it
 * may be, brain_create.c claims and makes it, brain_existing.c gives one that is there.
 */
#include "proxy/control/brain.h"

struct create {         /* t->state */
	json_t *policy; /* the caller's, in the kept form; or NULL */
	json_t *said;   /* what the server said of it, until that is told; or NULL */
	struct brain_judged judged;
	struct exec_placing placing;
	enum exec_tier tier;
	enum brain_reuse reuse;
	struct str reuse_key, shape, kept, kept_policy, metadata;
	struct str only;     /* the one server that has the snapshot; or empty */
	struct str snapshot; /* ours */
	struct str servers[BRAIN_SERVERS];
	size_t servers_n, at;
	unsigned claims;
	const char *start; /* how it was come by: a word */
	uint64_t since_ms;
	bool is_making; /* others wait for us */
};

/* Fills c from the turn's wish.  Not ST_OK: why says it, for the caller. */
enum status create_wish(struct brain_turn *t, struct create *c,
			struct buf *why) MUSTCHECK;
/* Is it the same request, when its Idempotency-Key comes again? */
enum status create_hash(struct str body, uint8_t ret_hash[32]) MUSTCHECK;

/* brain_create.c: the servers are asked, one after the other. */
void create_make(struct brain_turn *t);
void create_claim(struct brain_turn *t); /* perhaps again: what it gave is no more */
/* said: what its server said of t->box, or NULL. */
void create_answer(struct brain_turn *t, const json_t *said);
void create_set_failed(struct brain_turn *t);
/* The row says so, others look again, and the turn ends. */
void create_fail(struct brain_turn *t, enum status st, const char *why);

/* brain_existing.c */
void create_existing(struct brain_turn *t);

/* brain_hold.c */
void create_hold(struct brain_turn *t);

#endif
