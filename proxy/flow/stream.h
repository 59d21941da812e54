#ifndef PROXY_FLOW_STREAM_H
#define PROXY_FLOW_STREAM_H
/*
 * stream: bytes both ways on one non-blocking descriptor, plain or under TLS (1.2, 1.3), so
 * that what reads and writes them does not care which.  The owner keeps the descriptor
 * and its loop_io; stream_done() closes neither.
 *
 *	plain  nothing is kept; a gather is one sendmsg()
 *	TLS    what is taken for writing is encrypted at once; records that the socket does
 *	       not take yet stay in `held`, and while there are any nothing more is taken
 *
 * So under TLS reading never waits for writing nor the other way round (renegotiation
 * is off), but held records want LOOP_WRITE even when the owner has nothing to say, and
 * bytes may be readable that the kernel no longer announces.  Both are stream_arm()'s
 * business: owners call it where they would call loop_io_want().
 *
 * TLS without close_notify at its end (RFC 8446 section 6.1) is ST_CUT, so that a body which
 * lasts until the end can't be shortened by a third party.
 */
#include <openssl/ssl.h>
#include <sys/uio.h>

#include "proxy/base/ring.h"
#include "proxy/io/loop.h"

enum {
	STREAM_RECORD = 16 * 1024, /* RFC 8446 section 5.1 */
	STREAM_WIRE = 160 * 1024,
	STREAM_ROUND = 8 * STREAM_RECORD, /* taken by one call under TLS, at most */
	/* Of a peer's records that carry nothing, and of messages in them: key updates,
	 * alerts, empty ones. */
	STREAM_TALK_MAX = 2000,
	STREAM_RECORDS = 256 /* in one read, about: others wait meanwhile */
};

/* What all TLS streams of a process share: memory that is used within one call. */
struct stream_room {
	BIO_METHOD *bio;
	char text[STREAM_RECORD]; /* small parts on their way into one record */
	char wire[STREAM_WIRE];   /* records on their way into one send() */
	size_t wire_n;
};

enum status stream_room_new(struct stream_room **ret_room) MUSTCHECK;
void stream_room_free(struct stream_room *room);

struct stream {
	int fd;
	SSL *ssl; /* NULL: plain */
	struct stream_room *room;
	struct ring held;  /* records that the socket did not take */
	struct ring early; /* bytes that were read before this stream began */
	enum status end;   /* how reading ended; ST_OK while it goes on */
	uint32_t talk;     /* such records and messages so far */
	uint32_t records;  /* in this call */
	int error;         /* errno of the socket's last failure; 0: none */
	bool is_ready;     /* reading again gives something without the kernel's word */
	bool is_at_eof;    /* of the socket */
	bool is_suspended;
	bool is_closing; /* our end was said; FIN follows the last record */
	bool is_broken;  /* TLS failed: nothing more can be written */
};

void stream_plain(struct stream *s, int fd);
/* Takes over ssl, also when it fails; its role is set (SSL_set_connect_state or
 * accept_state).  From now on the stream must stay where it is. */
enum status stream_tls(struct stream *s, int fd, SSL *ssl,
		       struct stream_room *room) MUSTCHECK;
/* These bytes came first.  Before the handshake, and under TLS only. */
enum status stream_early(struct stream *s, struct str bytes) MUSTCHECK;
/* To where it will stay; from is nothing any more. */
void stream_move(struct stream *to, struct stream *from);
void stream_done(struct stream *s);
bool stream_is_tls(const struct stream *s);

/*
 * ST_OK: it is done.  ST_AGAIN: wait for what stream_arm(s, io, LOOP_READ) arms; or, if
 * a callback of SSL suspended it, for that (stream_is_suspended()).  Else it failed:
 * ST_CUT, ST_TIMEOUT, ST_TLS_BROKEN; reasons lie in OpenSSL's queue of errors.
 */
enum status stream_handshake(struct stream *s) MUSTCHECK;
bool stream_is_suspended(const struct stream *s);
/* The protocol agreed on (ALPN); empty: none, or plain. */
struct str stream_alpn(const struct stream *s);

/* ST_OK: *ret_n > 0 bytes.  ST_AGAIN.  ST_END: the peer's end, as it should be.  ST_CUT:
 * it broke off.  ST_TIMEOUT: the kernel gave up.  ST_TLS_BROKEN: not TLS any more. */
enum status stream_read(struct stream *s, void *p, size_t n, size_t *ret_n) MUSTCHECK;
/* ST_OK: *ret_taken bytes are taken for good, 0 when nothing can be now.  Else the peer
 * is gone. */
enum status stream_writev(struct stream *s, const struct iovec *v, size_t n,
			  size_t *ret_taken) MUSTCHECK;
/* What was taken is not with the kernel yet. */
bool stream_is_blocked(const struct stream *s);
/* LOOP_WRITE: ST_OK: nothing is held any more; ST_AGAIN; else the peer is gone. */
enum status stream_flush(struct stream *s) MUSTCHECK;
/* We have said all: close_notify, then FIN.  ST_AGAIN: stream_flush() goes on. */
enum status stream_shutdown(struct stream *s) MUSTCHECK;

/* Which LOOP_ events of the socket must be armed for what the owner wants. */
unsigned stream_wants(const struct stream *s, unsigned wanted);
/* loop_io_want() for a stream: also wakes the owner, after this callback, for bytes that
 * lie ready inside. */
void stream_arm(struct stream *s, struct loop_io *io, unsigned wanted);

#endif
