#ifndef PROXY_HTTP_H2_H
#define PROXY_HTTP_H2_H
/*
 * h2: one HTTP/2 session (RFC 9113), either end: bytes in, events and bytes out.  No
 * socket, no clock: time comes with the bytes.  nghttp2 does frames, HPACK, windows and
 * the rules of messages; what it does not limit is limited here before it costs
 * anything (h2_flood.h, and the size of heads).
 *
 *	h2_feed()     bytes of the peer: gives events
 *	h2_pending()  bytes for the peer, as a view; h2_sent() takes them off
 *
 * Events come only from within h2_feed(), h2_pending() and h2_close(), and only `closed`
 * from the second.  From inside an event everything of this page may be called but
 * these three and h2_free().
 *
 * A head that comes in means what h1_read would have made of it: Host is a field
 * whoever said it, cookie crumbs are one field, a WebSocket (RFC 8441) is a GET that is
 * answered with 101.  What goes out is written anew from such a head.
 *
 * Body bytes are given to the owner at once and are his until h2_credit(): the peer may
 * send as much as a stream's window ahead, so that is what he must be able to hold.  In
 * the other direction the session holds what was put, without a limit of its own: he
 * stops when h2_is_clear() is false.
 */
#include "proxy/http/h1_line.h"
#include "proxy/http/uri.h"

/* What a client says first, RFC 9113 section 3.4. */
#define H2_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

enum h2_role { H2_SERVER, H2_CLIENT };

/* Error codes, RFC 9113 section 7. */
enum h2_code {
	H2_NO_ERROR = 0,
	H2_PROTOCOL_ERROR = 1,
	H2_INTERNAL_ERROR = 2,
	H2_REFUSED_STREAM = 7,
	H2_CANCEL = 8,
	H2_CONNECT_ERROR = 10,
	H2_ENHANCE_YOUR_CALM = 11,
};

struct h2_limits {
	struct h1_limits head; /* of one section; octets as RFC 9113 section 6.5.2
				  counts */
	size_t heads; /* memory for the heads of all streams that live, about: above it
			 requests are refused, and streams with a response reset */
	uint32_t streams;  /* at once */
	size_t window;     /* octets a stream may be ahead */
	size_t connection; /* all of them together; with streams * window those that
				  stand still never slow another */
	/* It carries credentials: memory is wiped before it is freed, where a request
	 * goes is never indexed, and of what a host says nothing is kept in a table. */
	bool wipes;
};

struct h2;
struct h2_stream; /* good until its `closed` returns */

/* An incoming head.  It and its arena are the stream's, until the event returns if the
 * owner doesn't take them: h2_keep(). */
struct h2_msg {
	struct head *head;
	bool is_https;
	bool is_ws;    /* asks for a WebSocket */
	bool is_whole; /* nothing follows: no body, no end */
};

struct h2_events {
	/* A request; or 1xx heads, then a response. */
	void (*head)(void *ctx, struct h2_stream *s, const struct h2_msg *m);
	/* A request that is well-formed HTTP/2 and not acceptable: answer it.  Comes in
	 * place of head; nothing but closed follows it. */
	void (*bad)(void *ctx, struct h2_stream *s, enum status why);
	void (*body)(void *ctx, struct h2_stream *s, struct str view); /* view.n > 0 */
	/* The message is whole; NULL: no trailers.  They may be kept as a head may. */
	void (*end)(void *ctx, struct h2_stream *s, struct head *trailers);
	/* Once for every stream that had an event or an owner; the last one. */
	void (*closed)(void *ctx, struct h2_stream *s, uint32_t code);
};

/* Limits and events are copied.  NULL: no memory. */
struct h2 *h2_new(enum h2_role role, const struct h2_limits *lim,
		  const struct h2_events *ev, void *ctx);
void h2_free(struct h2 *h); /* no events */

/*
 * ST_OK; ST_END: the session is over, as agreed.  Else what is wrong: ST_BAD_REQUEST
 * (or, of a host, ST_UPSTREAM_BAD), ST_HEAD_TOO_LARGE, ST_LIMIT_RATE, ST_NOMEM.  Then
 * what is pending, a GOAWAY, is still to be written, and nothing more is to be fed.
 */
enum status h2_feed(struct h2 *h, struct str in, uint64_t now_ms) MUSTCHECK;
/* The peer's bytes have ended: every stream that isn't whole is closed (CONNECT_ERROR,
 * or REFUSED_STREAM where the peer said that it did nothing). */
void h2_close(struct h2 *h);
/* Empty: nothing to write.  Good until the next call of anything. */
struct str h2_pending(struct h2 *h, uint64_t now_ms);
void h2_sent(struct h2 *h, size_t n);
/* Is there something to write?  (True may be wrong, false is not.) */
bool h2_has_output(const struct h2 *h);
/* When the head began that is coming in; 0: none is. */
uint64_t h2_head_since(const struct h2 *h);
/* Nothing more will come and nothing is to be written: close the connection. */
bool h2_is_over(const struct h2 *h);
/* Some message isn't through: an end of the connection would cut it. */
size_t h2_streams(const struct h2 *h);
/* Accept no more requests; what runs goes on.  May be called again. */
void h2_goaway(struct h2 *h);

/* Clients: how many streams may run at once; may a request be made now, or
 * (is_closing) ever? */
uint32_t h2_most_streams(const struct h2 *h);
bool h2_may_request(const struct h2 *h);
bool h2_is_closing(const struct h2 *h);
/* Has the peer said its settings?  Clients: do they leave out RFC 8441? */
bool h2_has_begun(const struct h2 *h);
bool h2_refuses_ws(const struct h2 *h);

/* What goes out.  The head is read during the call and not kept. */
struct h2_out {
	const struct head *head;
	const struct uri *uri;    /* requests: where to */
	const struct field *last; /* credentials: written last, never indexed */
	size_t last_n;
	bool is_https; /* requests: scheme, and which port is left out */
	bool is_ws;    /* asks for a WebSocket */
	bool is_whole; /* nothing follows */
	bool is_own;   /* a response of our own: its Proxy-... fields go, too */
};

/* Clients; h2_may_request() was true. */
enum status h2_request(struct h2 *h, const struct h2_out *o, void *owner,
		       struct h2_stream **ret_s) MUSTCHECK;
/* Servers: 1xx heads, then one other; 101 accepts a WebSocket. */
enum status h2_respond(struct h2_stream *s, const struct h2_out *o) MUSTCHECK;
/* Behind the head; the view must stay until h2_hold() or until it was sent. */
enum status h2_put(struct h2_stream *s, struct str view) MUSTCHECK;
/* Views end here: what isn't sent is copied. */
enum status h2_hold(struct h2_stream *s) MUSTCHECK;
/* The message is whole.  Trailers (NULL: none) are copied; `of` is its head. */
enum status h2_put_end(struct h2_stream *s, const struct head *of,
		       const struct head *trailers) MUSTCHECK;
/* Nothing is held, and the peer would take something. */
bool h2_is_clear(const struct h2_stream *s);
/* The peer will take all that is held, with `others` octets of other streams before. */
bool h2_fits(const struct h2_stream *s, size_t others);
size_t h2_held(const struct h2_stream *s);
uint64_t h2_went(const struct h2_stream *s); /* body octets sent so far */

/* n octets of body have gone on: the peer may send as many again. */
void h2_credit(struct h2_stream *s, size_t n);
/* What is held is dropped, what still comes is nobody's; closed follows. */
void h2_reset(struct h2_stream *s, uint32_t code);
/*
 * The owner is through: what is held goes out, what still comes is dropped.  When our
 * message is out and the peer's isn't, that one is still held to the rules of messages
 * until it is whole, or was a window's worth, or took five seconds; then the stream is
 * reset with NO_ERROR (RFC 9113 section 8.1).
 */
void h2_leave(struct h2_stream *s);
/* Ends what has taken too long; from time to time.  True: there is something to write. */
bool h2_expire(struct h2 *h, uint64_t now_ms) MUSTCHECK;

void h2_own(struct h2_stream *s, void *owner);
void *h2_owner(const struct h2_stream *s);
/* Take the head of an event, or its trailers, out of the stream, where it is then empty.
 * *ret_a is set up. */
void h2_keep(struct h2_stream *s, const struct head *h, struct arena *ret_a,
	     struct head *ret_h);

#endif
