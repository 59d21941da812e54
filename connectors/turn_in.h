#ifndef CONNECTORS_TURN_IN_H
#define CONNECTORS_TURN_IN_H
/*
 * turn_in: the turn's own struct, for turn*.c only.
 *
 *	HEAD ─> GATHER ─> OPEN ─> FORWARD ─> OVER
 *	  └────────────────┘        └─> CARRY ─┘
 *
 * OPEN waits for an upstream, for a token, for a lease, in the order of turn_step().
 * A lease is taken last, and is the sandbox's for a moment; only what the response is searched
 * for stays with the turn, and goes with it.
 */
#include "connectors/auth.h"
#include "connectors/bond.h"
#include "connectors/lent.h"
#include "connectors/rinse.h"
#include "connectors/turn.h"
#include "connectors/upstream.h"

enum turn_state {
	TURN_HEAD,
	TURN_GATHER,
	TURN_OPEN,
	TURN_FORWARD,
	TURN_CARRY,
	TURN_OVER
};

enum { TURN_ARENA_MAX = 1024 * 1024, TURN_INTERIM_MAX = 16 };

struct turn {
	struct list link; /* lane->turns */
	struct lane *lane;
	struct connector *all;
	enum turn_state state;
	struct side *front, *leg;
	struct arena arena;
	uint64_t since_ms; /* when this state was entered or last made progress */

	/* the request; head and what it points to are the front's */
	struct head *request;
	struct uri uri;    /* what the sandbox asked for */
	struct uri target; /* what is asked for it */
	const struct image_connector *at;
	uint32_t connector; /* as long as gauge_leave() is owed; else CONNECTOR_NONE */
	uint32_t rule;
	struct auth_conf conf;
	struct cred body; /* gathered */
	size_t reserved;  /* of lane->gathered */
	bool is_gathered, request_ends, is_ws, is_plain;
	uint64_t body_bytes;

	/* what is waited for */
	struct upstream_call *calling;
	struct lent_wait *leasing;
	struct bond_wait *bonding;

	/* the credential */
	bool has_bond;
	struct bond_token token; /* while has_bond */
	uint32_t version;
	struct rinse rinse; /* of the response */

	struct head *response; /* the leg's */
	uint32_t interim;
	const struct head *trailers; /* the leg's, once has_end */
	bool up_over, down_over, has_end, is_answered, is_retry, is_renewed;
};

void turn_to(struct turn *t, enum turn_state s);
void turn_settle(struct turn *t);
/* All that the turn holds ends, but its front: the caller's to end, behind this. */
void turn_over(struct turn *t);
void turn_refuse(struct turn *t, enum status why);
void turn_break(struct turn *t, enum status why);
void turn_drop_leg(struct turn *t);
void turn_stop_waiting(struct turn *t);

/* turn_request.c */
void turn_on_head(void *ctx, struct side_msg *m);
void turn_on_body(void *ctx, struct str view);
void turn_on_end(void *ctx, const struct head *trailers);
void turn_step(struct turn *t);  /* whatever is next before the request can go */
void turn_again(struct turn *t); /* under a new policy, before it went */

/* turn_write.c */
void turn_forward(struct turn *t);
/* Those of the client's that may go on; ret_out is good as long as `in`. */
enum status turn_trailers(struct turn *t, const struct head *in,
			  struct head *ret_out) MUSTCHECK;

/* turn_reply.c */
extern const struct side_events turn_leg_events;
void turn_reply_go_on(struct turn *t); /* the client takes more */

#endif
