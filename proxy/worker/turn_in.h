#ifndef PROXY_WORKER_TURN_IN_H
#define PROXY_WORKER_TURN_IN_H
/*
 * turn_in: the turn engine's own struct, for turn*.c and page.c only.
 *
 *	IDLE ─> HEAD ─> OPEN ─> FORWARD ─> IDLE          one request after the other
 *	         │       │        │
 *	         └───────┴────────┴──> FLUSH ─> LINGER    the answer was the last one
 *
 * OPEN waits for a filter, for the dialer or, for a page, for the ledger.  In FORWARD
 * the request's body and the response go on side by side.  FLUSH waits until the
 * client has taken the answer, LINGER reads and drops what the client still sends, so
 * that the answer isn't destroyed by a reset.
 *
 * Bytes of the client that the present state can't take yet stay in `ahead`, and
 * while that isn't empty the client is not read.  `behind` is the same for the host,
 * while a filter holds.  Only if a filter looks at bodies do they go through a sieve.
 */
#include "proxy/http/h1_write.h"
#include "proxy/worker/conn.h"
#include "proxy/worker/dial.h"
#include "proxy/worker/leg.h"
#include "proxy/worker/turn.h"

enum turn_state {
	TURN_IDLE,
	TURN_HEAD,
	TURN_OPEN,
	TURN_FORWARD,
	TURN_FLUSH,
	TURN_LINGER,
	TURN_OVER, /* the conn is closed or has another owner */
};

enum {
	TURN_ARENA_MAX = 1024 * 1024,
	TURN_SCRATCH_MAX = 512 * 1024,
	TURN_INTERIM_MAX = 16,
	TURN_SIEVE_MAX = 128 * 1024
};

/* What a filter has seen of a body and does not let pass yet. */
struct sieve {
	struct ring held;
	bool waits;   /* a filter said HOLD */
	bool is_last; /* the body's end was shown */
};

struct turn {
	struct conn *c;
	enum turn_state state;
	uint64_t since_ms;  /* when this state was entered or last made progress */
	uint64_t begun_ms;  /* first byte of the request head */
	struct arena arena; /* of the exchange: the request */
	struct arena reply; /* one head of the host, which may send many interim ones */
	struct h1_read reader;
	struct h1_body body;
	struct head request, response;
	struct uri uri;
	struct exchange x;
	struct ring ahead, behind;
	struct sieve up, down;
	enum phase held_in;  /* while x.is_held */
	unsigned needs;      /* of all filters */
	uint64_t generation; /* of the policy when the host was asked for */
	struct out out;
	struct buf scratch; /* heads being written */
	struct leg *leg;
	struct dial *dial;
	uint32_t ask_seq; /* the ledger is asked for a page; 0: it isn't */
	uint64_t body_bytes, dropped;
	uint32_t served, interim;
	uint8_t reply_frame; /* enum body_kind: how the client gets the response */
	bool has_exchange, is_ws, is_retry, is_answered, is_last, is_eof;
};

void turn_to(struct turn *t, enum turn_state s);
/* After every event: feed what waits in `ahead`, then say what may come next. */
void turn_settle(struct turn *t);

/* turn_request.c: each returns how many bytes it took. */
size_t turn_take_head(struct turn *t, struct str in);
size_t turn_take_body(struct turn *t, struct str in);
void turn_describe(struct turn *t); /* a fresh exchange from what is known */
void turn_open(struct turn *t);     /* find or dial a leg for t->uri.dest */
void turn_forward(struct turn *t);  /* the chain lets it out: the head goes */
bool turn_request_is_over(const struct turn *t);
bool turn_may_repeat(const struct turn *t);
void turn_body_resumed(struct turn *t); /* of the request */

/* turn_reply.c */
void turn_on_leg(void *ctx, unsigned events);
void turn_finish(struct turn *t);        /* the response is complete */
void turn_reply_begin(struct turn *t);   /* the chain lets the response's head pass */
void turn_reply_resumed(struct turn *t); /* its body */
void turn_feed_behind(struct turn *t);
bool turn_reply_waits(const struct turn *t);

/* turn_chain.c */
/* Run a phase and do what it says: go on, wait, answer or refuse. */
void turn_chain(struct turn *t, enum phase phase);
void turn_went(struct turn *t, enum phase phase, enum verdict v);
void turn_resume(struct conn *c); /* a filter that held has its answer */
void turn_sieve_done(struct turn *t);
/*
 * One piece of a body through the filters and on, framed for its receiver; is_last
 * comes once, with or without bytes.  ST_OK; ST_AGAIN: a filter holds, call again
 * without bytes when it resumes; else what is wrong.
 */
enum status turn_put_body(struct turn *t, bool is_response, struct gather *g,
			  struct str piece, bool is_last) MUSTCHECK;

/* turn_refuse.c */
void turn_refuse(struct turn *t, enum status why);
/* An answer of our own; the body is text of this type. */
void turn_answer(struct turn *t, uint16_t status, const char *type, struct str body);
void turn_end_exchange(struct turn *t, enum status why);
void turn_drop_leg(struct turn *t);
/* Behind the last byte of an answer: next request, or the end. */
void turn_next(struct turn *t);

/* page.c: http://sandgate.internal/ */
bool page_is_ours(const struct dest *d);
void page_serve(struct turn *t);

#endif
