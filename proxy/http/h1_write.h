#ifndef PROXY_HTTP_H1_WRITE_H
#define PROXY_HTTP_H1_WRITE_H
/*
 * h1_write: what goes on, written anew from the parsed form; no byte of a head is
 * copied through.  Dropped both ways: hop-by-hop fields, what Connection nominates
 * (never framing, routing or credential names: a client can't have those removed),
 * Host, Content-Length, and every Proxy-* field.  Host, framing and Connection are
 * ours.  Alt-Svc is dropped from responses.  Via is not added: a sandbox's traffic
 * doesn't advertise its gateway.
 *
 * All put into a buf, whose failure sticks: ask buf_finish() once.
 */
#include "proxy/http/uri.h"

struct h1_frame {
	enum body_kind body; /* how we frame what follows */
	uint64_t length;     /* for BODY_LENGTH */
	bool is_close;       /* say Connection: close */
	bool is_upgrade;     /* say Connection: upgrade and Upgrade: websocket */
	bool keeps_expect;   /* requests: pass Expect: 100-continue on */
	bool is_absolute;    /* requests to a parent proxy: target in absolute form */
	bool is_own;         /* responses that we made: every field goes as it is */
	struct str reason;   /* responses: the phrase, where it isn't the usual one */
};

/* The frame that the head itself has; is_close and the flags false. */
struct h1_frame h1_frame_of(const struct head *h);

/* Host from u->dest, without the port if it is default_port. */
void h1_write_request(struct buf *b, const struct head *h, const struct uri *u,
		      uint16_t default_port, const struct h1_frame *f);
/* Answers to HEAD, and 304, keep the Content-Length they came with. */
void h1_write_response(struct buf *b, const struct head *h, const struct h1_frame *f);

/* Chunks: the head; n > 0 bytes and a CRLF behind them are the caller's. */
void h1_write_chunk_head(struct buf *b, uint64_t n);
/*
 * The last chunk and trailers; `of` is the message's own head, whose Connection may
 * nominate names.  trailers may be NULL.
 */
void h1_write_last_chunk(struct buf *b, const struct head *of,
			 const struct head *trailers);

const char *h1_reason(uint16_t status); /* "" for an unknown one */

#endif
