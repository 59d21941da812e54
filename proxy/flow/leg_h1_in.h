#ifndef PROXY_FLOW_LEG_H1_IN_H
#define PROXY_FLOW_LEG_H1_IN_H
/*
 * leg_h1_in: the struct of the HTTP/1 leg, for leg_h1*.c only.  One request at a time;
 * in between any byte, and any end, makes the leg unfit: nobody asked it anything.
 */
#include "proxy/flow/leg.h"
#include "proxy/http/h1_body.h"
#include "proxy/http/h1_read.h"
#include "proxy/http/ws.h"

enum { LEG_H1_ARENA_MAX = 1024 * 1024, LEG_H1_SCRATCH_MAX = 512 * 1024 };

struct leg_h1 {
	struct leg leg;
	struct side side;
	uint32_t
		serial; /* of the request: who calls out looks whether it is the same */

	struct arena arena; /* one head of the host, which may send many interim ones */
	struct h1_read reader;
	struct h1_body body;
	struct head response;
	struct ring behind; /* what the turn didn't want yet */

	struct out out;
	struct buf scratch;
	uint8_t asked_frame; /* enum body_kind of the request */
	enum method asked;
	uint8_t digest[WS_DIGEST]; /* is_ws: of the key that was sent */

	bool is_open;    /* the side has a turn */
	bool is_gone;    /* and the turn knows that the host isn't there any more */
	bool is_ws;      /* a tunnel was asked for */
	bool is_carried; /* and accepted: both ways are bare bytes */
	bool is_asked;   /* the head of the request went */
	bool is_put;     /* the request is whole */
	bool head_seen;  /* the final head was given */
	bool had_interim;
	bool is_whole; /* the response was given */
	bool is_clean; /* nothing came that no one asked for */
	bool is_eof;
	bool is_shut;
};

extern const struct side_class leg_h1_side;

void leg_h1_arm(struct leg_h1 *g);
size_t leg_h1_feed(struct leg_h1 *g, struct str in);
/* Once nothing waits in `behind`: what the end then means. */
void leg_h1_look_at_end(struct leg_h1 *g);
/* Ready for the next request, or over. */
void leg_h1_settle(struct leg_h1 *g, bool is_fit);

static inline struct leg_h1 *
leg_h1_of_side(struct side *s)
{
	return (struct leg_h1 *)(void *)((char *)s - offsetof(struct leg_h1, side));
}

#endif
