#ifndef PROXY_WORKER_TURN_IN_H
#define PROXY_WORKER_TURN_IN_H
/*
 * turn_in: the turn's own struct, for turn*.c and page.c only.
 *
 *	HEAD ─> OPEN ─> FORWARD ─> OVER
 *	                  └──> CARRY ─┘
 *
 * OPEN waits for a filter, for the dialer or, for a page, for the ledger.  In FORWARD
 * the request's body and the response go on side by side; in CARRY, behind a 101, bare
 * bytes do.  OVER: nothing of the conn, the front or the turn may be touched.
 *
 * Only if a filter looks at bodies do they go through a sieve.
 */
#include "proxy/worker/dial.h"
#include "proxy/worker/lane.h"
#include "proxy/worker/reach.h"
#include "proxy/worker/turn.h"

enum turn_state { TURN_HEAD, TURN_OPEN, TURN_FORWARD, TURN_CARRY, TURN_OVER };

enum {
	TURN_ARENA_MAX = 1024 * 1024,
	TURN_TEXT_MAX = 512 * 1024,
	TURN_INTERIM_MAX = 16,
	TURN_SIEVE_MAX = 128 * 1024 + WORKER_SPACE /* held, and one read behind it */
};

/* One direction of bodies. */
struct sieve {
	struct ring held; /* what a filter has seen and does not let pass yet */
	bool waits;       /* a filter said HOLD */
	bool is_last;     /* the body's end was shown */
	bool is_over;     /* all of the message has gone on */
	uint64_t counted; /* bytes that came and are not in the sandbox's budget yet */
	const struct head *trailers;
};

struct exec; /* what is different on an execution listener, exec.h */

struct turn {
	struct list link; /* visit->turns */
	struct visit *v;
	struct conn *c;
	enum turn_state state;
	struct side *front, *leg; /* leg NULL: none, or no more */
	uint64_t since_ms;  /* when this state was entered or last made progress */
	uint64_t begun_ms;  /* first byte of the request head */
	struct arena arena; /* of answers of our own */
	struct head none;   /* a request that never came whole */
	struct head *request, *response; /* the sides' own */
	struct uri uri;
	struct exchange x;
	struct sieve up, down;
	enum phase held_in;  /* while x.is_held */
	unsigned needs;      /* of all filters */
	uint64_t generation; /* of the policy when the host was asked for */
	uint32_t revision;   /* of the sandbox, then */
	struct dial *dial;
	struct reach *reach;    /* TLS with the host that was dialled */
	struct lane_call *lane; /* being opened */
	struct head lane_trailers;
	struct exec *exec; /* NULL on other listeners, and before the head is there */
	uint32_t ask_seq;  /* the ledger is asked for a page; 0: it isn't */
	uint64_t body_bytes;
	uint64_t rowed_ms, rowed_bytes; /* CARRY: the last row */
	uint32_t interim;
	bool is_https;     /* the client's end */
	bool is_misled;    /* the request names the other scheme */
	bool request_ends; /* the request's head said it has no body */
	bool reply_ends;   /* the response's */
	bool is_lane;      /* the leg leads to a connector */
	bool has_exchange, is_ws, is_retry, is_answered, is_last;
};

void turn_to(struct turn *t, enum turn_state s);
/* After every event: send what was put, then say what may come next. */
void turn_settle(struct turn *t);
/* All that the turn holds ends, but its front: the caller's to end, behind this. */
void turn_over(struct turn *t);

/* turn_request.c */
void turn_on_head(void *ctx, struct side_msg *m);
void turn_on_body(void *ctx, struct str view);
void turn_on_end(void *ctx, const struct head *trailers);
void turn_describe(struct turn *t);     /* a fresh exchange from what is known */
void turn_forward(struct turn *t);      /* the chain lets it out: the head goes */
void turn_body_resumed(struct turn *t); /* of the request */

/* turn_leg.c: find a leg for the request, or make one */
void turn_open(struct turn *t);

/* turn_lane.c: what a connector says beside the response (proxy/flow/lane.h).  ST_OK, or
 * why there is none. */
enum status turn_lane_head(struct turn *t, struct head *h) MUSTCHECK;
/* Without what was only for us. */
const struct head *turn_lane_trailers(struct turn *t, const struct head *trailers);

/* turn_reply.c */
extern const struct side_events turn_leg_events;
void turn_reply_begin(struct turn *t);   /* the chain lets the response's head pass */
void turn_reply_resumed(struct turn *t); /* its body */
void turn_finish(struct turn *t);        /* the response has gone */

/* turn_carry.c */
void turn_carry(struct turn *t, struct side_msg *m); /* behind a 101 */
void turn_carry_body(struct turn *t, bool is_response, struct str view);
void turn_carry_end(struct turn *t, bool is_response);
void turn_carry_over(struct turn *t, enum status why);
void turn_carry_judge(struct turn *t);
void turn_carry_tick(struct turn *t);

/* turn_chain.c */
/* Run a phase and do what it says: go on, wait, answer or refuse. */
void turn_chain(struct turn *t, enum phase phase);
void turn_went(struct turn *t, enum phase phase, enum verdict v);
/*
 * One piece of a body through the filters and on; is_last comes once, with or without
 * bytes.  ST_OK; ST_AGAIN: a filter holds, call again without bytes when it resumes;
 * else what is wrong.
 */
enum status turn_put_body(struct turn *t, bool is_response, struct str piece,
			  bool is_last) MUSTCHECK;

/* turn_refuse.c: each ends the turn */
void turn_refuse(struct turn *t, enum status why);
/* An answer of our own; the body is text of this type. */
void turn_answer(struct turn *t, uint16_t status, const char *type, struct str body);
/* It can't be told in words any more. */
void turn_break(struct turn *t, enum status why);
void turn_end_exchange(struct turn *t, enum status why);
void turn_drop_leg(struct turn *t);
/* An answer of our own, and the end of the turn; the exchange has ended. */
void turn_say(struct turn *t, struct side_msg *m, struct str body);
/* A refusal in words: the end of exchange and turn.  st: how its head came about. */
void turn_tell(struct turn *t, enum status why, struct head *h, enum status st,
	       struct buf *body);

/* page.c: http://sandgate.internal/ */
bool page_is_ours(const struct dest *d);
void page_serve(struct turn *t);

#endif
