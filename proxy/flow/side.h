#ifndef PROXY_FLOW_SIDE_H
#define PROXY_FLOW_SIDE_H
/*
 * side: one end of one request with its response, whatever carries it: an HTTP/1
 * connection for a while, or one HTTP/2 stream.  Two sides and the turn between them
 * are one exchange.  A side knows framing, windows and its connection; it never knows
 * policy.  The turn knows no protocol.
 *
 *	client ── front side ── turn ── leg side ── host
 *
 *	            incoming message           outgoing message
 *	front       the request                1xx heads, then the response
 *	leg         1xx heads, the response    the request
 *
 * Incoming: events, in this order (side_events).
 *
 *	head [head ...] [body ...] [end]   in each callback then once: batch
 *	room, bad, gone                    at any time
 *
 *   - head comes without being asked for.  A leg gives 1xx heads (100..199 but 101)
 *     and then one final one; 101 is always what accepts a tunnel, see below.
 *   - body and end come only while the turn wants them: want(s, true).  No side wants
 *     anything at first.  want(s, false) may be called from inside an event and holds
 *     from the next event on: what came already stays with the side, which reads no
 *     more (h1: at most one read of space_n; h2: its stream window).
 *   - end tells the message is whole.  A message whose head says is_whole has neither
 *     body nor end.
 *   - batch is the last thing that a side does in a callback; nothing of the side is
 *     touched behind it.  Views given by body are good until batch returns (trailers
 *     as long as the head).  The turn flushes there and says what it wants.
 *   - room: what was held is gone, flush() would be ST_OK.  A batch follows.
 *   - bad (fronts only): the request can't be read, `why` names the fault.  Comes in
 *     place of head, body or end; nothing follows it, an answer may still be put.  A
 *     batch follows.
 *   - gone: the peer closed, reset, or (legs) sent what is no response.  Nothing
 *     follows, not even batch; nothing may be put.  The turn answers with done() or
 *     abort(), at once or later.
 *
 * Outgoing: put_head, put_body ..., put_end, then flush.  Puts do not fail and send
 * nothing by themselves that flush() couldn't as well: a failure sticks and is told by
 * flush().
 *
 *   - put_head: 1xx heads any number of times (a front drops those its client doesn't
 *     know), then the message's own.  If m->is_whole that was all: no put_end.
 *     The head is read during the call and not kept.
 *   - put_body: the view must stay where it is until flush() returns (or copy first:
 *     put_copy).  All of it is taken.  Whoever puts stops when flush() said ST_AGAIN,
 *     until room; so a side holds at most what one callback made of it.
 *   - put_end: `of` is the message's head, whose Connection may nominate trailers;
 *     trailers may be NULL.
 *   - flush: ST_OK: nothing is held.  ST_AGAIN: the peer doesn't take it now, room
 *     follows; is_blocked and blocked_ms say so meanwhile.  ST_END: the peer is gone,
 *     what was put is lost.  (A host may have answered before it closed: a leg may
 *     still give events behind ST_END, and gives gone in the end.)  Else: our fault
 *     (ST_NOMEM).
 *
 * Credit: want(s, true) says as well that all that was delivered has gone on.  An h2
 * side gives its bytes back to the peer's window then, and only then.
 *
 * Tunnels (WebSocket).  A request with m->is_ws asks for one: in neutral form it is a
 * GET with Sec-WebSocket-* fields.  h1 carries it as Upgrade, h2 as extended CONNECT
 * (RFC 8441).  What differs is made by the side that needs it:
 *     leg_h1    makes a key where the client sent none, checks the accept digest, and
 *               gives gone(ST_UPSTREAM_BAD) when it is wrong
 *     leg_h2    drops the key; gives status 101 for a 2xx
 *     front_h1  adds Sec-WebSocket-Accept where the response has none
 *     front_h2  says 200 for 101 and drops Sec-WebSocket-Accept
 * The accepting head has status 101, body BODY_TUNNEL.  After it both ways are bare
 * bytes by body and put_body; end and put_end half-close.  is_whole is false for both
 * heads of a tunnel; between a request for one and its 101 nothing is put.
 *
 * Who calls what from where.  Events come only from the loop, from deliver(), or from
 * the side's own deferred work: never from inside a put, want, flush, done or abort.
 * Inside any event the turn may call everything on both of its sides, also done() and
 * abort() of the side that is giving the event: after each event the side checks
 * whether it is dead (its memory lives to the end of the loop's turn, loop_defer).
 * deliver() is called by the turn, from batch or from the bottom of the loop, never
 * from head, body or end: it gives, as events, what the side holds and what is wanted
 * now, without a batch of its own, and returns whether it gave any.
 *
 * Life: a front side is made by its front, a leg side by whoever dialled.  Either ends
 * with exactly one done() or abort(), by the turn:
 *   done   the turn is through.  A front whose outgoing message is whole flushes what
 *          it holds and goes on with the next request if it can (an h1 connection
 *          whose request isn't whole, or that was told is_last, lingers and closes; an
 *          h2 stream whose request isn't whole is reset with NO_ERROR).  A leg that is
 *          whole both ways is given back, else closed.
 *   abort  the message can't become whole: RST, or RST_STREAM (a clean end would pass
 *          for the end of the body).  A leg's connection is closed, or its stream
 *          reset with CANCEL.
 * The incoming head with its trailers lives until then: whoever keeps views of them
 * lets go first.
 */
#include "proxy/flow/flow.h"
#include "proxy/http/uri.h"

struct side;

/* One head with what a protocol says besides. */
struct side_msg {
	/*
	 * body: BODY_NONE, BODY_LENGTH, or BODY_CHUNKED and BODY_UNTIL_CLOSE, which
	 * both mean a length that isn't known; the sender frames as its protocol wants.
	 * Requests in HTTP/1.1 form: target in origin form (absolute from a proxy
	 * listener's client), Host a field also when :authority said it.
	 */
	struct head *head;
	/* Requests being put: where it goes.  NULL in events. */
	const struct uri *uri;
	/* Requests being put: credentials.  They go behind all other fields, whatever
	 * Connection says, and into no compression table. */
	const struct field *last;
	size_t last_n;
	struct str reason; /* responses of our own, h1: the reason phrase */
	bool is_own;   /* a response of our own: all its fields go, also Proxy-... */
	bool is_https; /* requests: the scheme */
	/* Asks for a WebSocket.  In a head event only h2 says so; from h1 the turn finds
	 * out with ws_check_request(). */
	bool is_ws;
	bool is_whole; /* no body, no end */
	bool is_last;  /* responses being put: no other request after this one */
};

struct side_events {
	void (*head)(void *ctx, struct side_msg *m); /* m is good during the call */
	void (*body)(void *ctx, struct str view);    /* view.n > 0 */
	void (*end)(void *ctx, const struct head *trailers); /* NULL: none */
	void (*room)(void *ctx);
	void (*batch)(void *ctx);
	void (*bad)(void *ctx, enum status why);
	void (*gone)(void *ctx, enum status why);
};

struct side_class {
	const char *name; /* "h1", "h2" */
	void (*put_head)(struct side *s, const struct side_msg *m);
	void (*put_body)(struct side *s, struct str view);
	void (*put_copy)(struct side *s, struct str bytes);
	void (*put_end)(struct side *s, const struct head *of,
			const struct head *trailers);
	enum status (*flush)(struct side *s);
	void (*want)(struct side *s, bool reads);
	bool (*deliver)(struct side *s);
	void (*done)(struct side *s);
	void (*abort)(struct side *s, enum status why);
};

/* How sure it is that the host did nothing of a request whose leg is gone. */
enum side_repeat {
	SIDE_REPEAT_NO,
	SIDE_REPEAT_SAFE, /* a kept connection that closed: safe methods may be asked
			     again */
	SIDE_REPEAT_ANY,  /* the host said so: REFUSED_STREAM, or above a GOAWAY's id */
};

/* The part that the turn sees; the first member of every kind of side. */
struct side {
	const struct side_class *class;
	const struct side_events *events; /* of the turn; set before the first event */
	void *ctx;
	bool wants;          /* what want() said last */
	bool is_blocked;     /* flush() said ST_AGAIN, no room since */
	uint64_t blocked_ms; /* since when the peer takes nothing; 0: it does */
	uint8_t repeat;      /* enum side_repeat, legs, valid in gone */
};

static inline void
side_put_head(struct side *s, const struct side_msg *m)
{
	s->class->put_head(s, m);
}

static inline void
side_put_body(struct side *s, struct str view)
{
	s->class->put_body(s, view);
}

static inline void
side_put_copy(struct side *s, struct str bytes)
{
	s->class->put_copy(s, bytes);
}

static inline void
side_put_end(struct side *s, const struct head *of, const struct head *trailers)
{
	s->class->put_end(s, of, trailers);
}

static inline enum status
side_flush(struct side *s)
{
	return s->class->flush(s);
}

static inline void
side_want(struct side *s, bool reads)
{
	s->class->want(s, reads);
}

static inline bool
side_deliver(struct side *s)
{
	return s->class->deliver(s);
}

/* NULL is fine; the caller forgets its pointer. */
static inline void
side_done(struct side *s)
{
	if (s != NULL)
		s->class->done(s);
}

static inline void
side_abort(struct side *s, enum status why)
{
	if (s != NULL)
		s->class->abort(s, why);
}

#endif
