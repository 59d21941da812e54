#ifndef PROXY_HTTP_H2_IN_H
#define PROXY_HTTP_H2_IN_H
/*
 * h2_in: the session's own structs, for h2*.c only.
 *
 *	h2.c        birth and death, feeding and draining, flow of the connection
 *	h2_frame.c  what nghttp2 tells, and what floods
 *	h2_head.c   fields in, a head out
 *	h2_out.c    a head in, fields out; body and trailers
 */
#include <nghttp2/nghttp2.h>

#include "proxy/base/list.h"
#include "proxy/base/ring.h"
#include "proxy/http/h2.h"
#include "proxy/http/h2_flood.h"

enum {
	H2_BATCH = 32 * 1024,  /* written at once, about */
	H2_QUEUE_MAX = 1000,   /* frames that wait to be written */
	H2_HEAD_SLACK = 16384, /* of an arena, besides three times the head */
	H2_HEAD_PAGE = 4096,   /* an arena's smallest piece, and what most heads need */
	H2_LEFT_MS = 5000,     /* for the rest of a request that was answered early */
};

struct h2 {
	nghttp2_session *session;
	nghttp2_mem mem;
	struct h2_limits limits;
	struct h2_events events;
	void *ctx;
	struct list streams; /* h2_stream */
	size_t streams_n;
	size_t heads; /* memory of the heads of all of them */
	struct h2_flood flood;
	struct buf out; /* frames made; the first out_sent octets are gone */
	size_t out_sent;
	uint64_t now_ms;
	uint64_t head_ms; /* when the head began that comes in */
	enum status why;  /* the first thing that went wrong */
	int32_t last_id, skipped_from, skipped_to; /* ids of the client's streams */
	bool is_server;
	bool has_begun;  /* the peer has said its settings */
	bool is_closing; /* no new streams, by a GOAWAY of either end */
	bool is_draining, has_final_goaway;
};

struct h2_stream {
	struct list link;
	struct h2 *h;
	void *owner;
	int32_t id;
	uint8_t asked; /* enum method: what a response answers */
	/* The section of fields that comes in. */
	struct arena arena;
	struct head head;
	struct str method, path, scheme, protocol, status;
	size_t fields, octets;
	enum status bad;
	size_t heads;      /* memory of all sections, as they are counted */
	size_t uncredited; /* body given to the owner */
	/* What goes out: held, then lent. */
	struct ring held;
	struct str lent;
	uint64_t went;
	uint64_t left_ms; /* when it was: left, and our message out */
	size_t dropped;   /* body that came after it was left */
	struct arena trailers_arena;
	struct head trailers;
	bool is_https, is_ws, has_authority;
	bool is_known;    /* the owner has heard of it, or made it */
	bool has_head;    /* the final head came in: what follows are trailers */
	bool is_in_whole; /* the peer's message is whole */
	bool is_dead;     /* nobody wants what comes */
	bool is_ours;     /* a reset of it is our own */
	bool has_end, has_trailers; /* put, maybe not sent */
	bool is_leaving, is_out_whole;
};

/* h2.c */
/* The connection ends: a GOAWAY with this code; the first reason stays. */
void h2_fail(struct h2 *h, enum status why, uint32_t code);
void h2_out_put(struct h2 *h, struct str s);
struct h2_stream *h2_stream_new(struct h2 *h, int32_t id);
void h2_stream_free(struct h2_stream *s);
void h2_drop_held(struct h2_stream *s); /* wiped first, where that must be */
void h2_emit_closed(struct h2_stream *s, uint32_t code);

/* h2_frame.c */
/* Our message is out; maybe nobody waits for the peer's. */
void h2_our_end(struct h2_stream *s);
void h2_set_callbacks(nghttp2_session_callbacks *c);

/* h2_head.c */
void h2_head_begin(struct h2_stream *s);
/* ST_OK; else the connection's end. */
enum status h2_head_field(struct h2_stream *s, struct str name, struct str value);
/* The section is complete: gives its event. */
void h2_head_end(struct h2_stream *s, bool is_end_stream);

/* h2_out.c */
ssize_t h2_out_read(nghttp2_session *session, int32_t id, uint8_t *p, size_t n,
		    uint32_t *flags, nghttp2_data_source *source, void *ctx);
int h2_out_frame(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *hd,
		 size_t n, nghttp2_data_source *source, void *ctx);

#endif
