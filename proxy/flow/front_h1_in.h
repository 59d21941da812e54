#ifndef PROXY_FLOW_FRONT_H1_IN_H
#define PROXY_FLOW_FRONT_H1_IN_H
/*
 * front_h1_in: the struct of the HTTP/1 front, for front_h1*.c only.
 *
 *	IDLE ─> HEAD ─> BODY ─> FLUSH ─> IDLE     one request after the other
 *	         │                └────> LINGER   the answer was the last one
 *	         └──────> FLUSH
 *
 * From HEAD to FLUSH the side has a turn (is_open).  BODY lasts as long as the response
 * does, whether or not the request is whole.  FLUSH waits until the client has taken
 * the answer; LINGER reads and drops what it still sends, so that the answer isn't
 * destroyed by a reset.
 *
 * Bytes that the present state can't take yet stay in `ahead`, and while that isn't
 * empty the client is not read.
 */
#include "proxy/flow/front.h"
#include "proxy/http/h1_body.h"
#include "proxy/http/h1_read.h"

enum front_h1_state {
	FRONT_H1_IDLE,
	FRONT_H1_HEAD,
	FRONT_H1_BODY,
	FRONT_H1_FLUSH,
	FRONT_H1_LINGER,
	FRONT_H1_OVER,
};

enum { FRONT_H1_ARENA_MAX = 1024 * 1024, FRONT_H1_SCRATCH_MAX = 512 * 1024 };

struct front_h1 {
	struct front front;
	struct side side;
	enum front_h1_state state;
	uint64_t since_ms; /* when this state was entered */
	uint64_t dropped;  /* in LINGER */
	uint32_t served;
	uint32_t
		serial; /* of the request: who calls out looks whether it is the same */

	struct arena arena; /* of the request */
	struct h1_read reader;
	struct h1_body body;
	struct head request;
	struct ring ahead;

	struct out out;
	struct buf scratch;  /* heads being written */
	uint8_t reply_frame; /* enum body_kind: how the client gets the response */

	bool is_open;    /* the side has a turn */
	bool is_gone;    /* and the turn knows that the client isn't there any more */
	bool is_stalled; /* it was we who gave up */
	bool is_whole;   /* of the request nothing is to come */
	bool has_begun;  /* some of the body was given */
	bool is_put;     /* the response is whole */
	bool is_carried; /* a tunnel: both ways are bare bytes */
	bool is_last;    /* nothing after this response */
	bool is_eof;     /* the client has said its last word */
	bool is_pumped;  /* front_h1_pump() is to come */
	bool is_shut;    /* our last word is said */
};

void front_h1_to(struct front_h1 *f, enum front_h1_state s);
/* The end, told to the owner; f is dead. */
void front_h1_over(struct front_h1 *f, bool is_reset);
/* What the socket is to tell from now on. */
void front_h1_arm(struct front_h1 *f);
/* Behind the last byte of an answer: the next request, or the end. */
void front_h1_next(struct front_h1 *f);
/* Bytes through the present state; returns how many were taken.  one: no further than
 * the present request. */
size_t front_h1_feed(struct front_h1 *f, struct str in, bool one);

/* Of the body alone, also if `in` is empty: the end may not have been given yet. */
size_t front_h1_take_body(struct front_h1 *f, struct str in);
/* Once nothing waits in `ahead`: what it means that the client has said its last word. */
void front_h1_look_at_end(struct front_h1 *f);

/* front_h1_side.c: what turns call */
extern const struct side_class front_h1_side;

static inline struct front_h1 *
front_h1_of_side(struct side *s)
{
	return (struct front_h1 *)(void *)((char *)s - offsetof(struct front_h1, side));
}

#endif
