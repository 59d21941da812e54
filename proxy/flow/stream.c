#include "proxy/flow/stream.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/err.h>

#include "proxy/base/num.h"

void
stream_plain(struct stream *s, int fd)
{
	*s = (struct stream){ .fd = fd };
	ring_init(&s->held, STREAM_WIRE);
	ring_init(&s->early, 1);
}

/* Each key update costs us far more than its sender, and each record more than the few
 * bytes that may be in it.  The type is OpenSSL's. */
/* NOLINTBEGIN(readability-function-size) */
static void
on_message(int is_write, int version, int type, const void *p, size_t n, SSL *ssl,
	   void *ctx)
/* NOLINTEND(readability-function-size) */
{
	struct stream *s = ctx;

	(void)version;
	(void)p;
	(void)n;
	(void)ssl;
	if (is_write != 0)
		return;
	if (type == SSL3_RT_HANDSHAKE || type == SSL3_RT_HEADER)
		s->talk++;
	if (type == SSL3_RT_HEADER)
		s->records++;
}

enum status
stream_tls(struct stream *s, int fd, SSL *ssl, struct stream_room *room)
{
	BIO *b = BIO_new(room->bio);

	stream_plain(s, fd);
	if (b == NULL) {
		SSL_free(ssl);
		return ST_NOMEM;
	}
	BIO_set_data(b, s);
	SSL_set_bio(ssl, b, b);
	s->ssl = ssl;
	s->room = room;
	SSL_set_msg_callback(ssl, on_message);
	SSL_set_msg_callback_arg(ssl, s);
	return ST_OK;
}

enum status
stream_early(struct stream *s, struct str bytes)
{
	need(s->ssl != NULL && ring_is_empty(&s->early));
	ring_init(&s->early, num_max(bytes.n, 1));
	return ring_write(&s->early, bytes) == bytes.n ? ST_OK : ST_NOMEM;
}

void
stream_move(struct stream *to, struct stream *from)
{
	*to = *from;
	if (to->ssl != NULL) {
		BIO_set_data(SSL_get_rbio(to->ssl), to);
		SSL_set_msg_callback_arg(to->ssl, to);
	}
	*from = (struct stream){ .fd = -1 };
}

void
stream_done(struct stream *s)
{
	SSL_free(s->ssl);
	s->ssl = NULL;
	if (s->held.cap > 0)
		ring_done(&s->held);
	if (s->early.cap > 0)
		ring_done(&s->early);
}

bool
stream_is_tls(const struct stream *s)
{
	return s->ssl != NULL;
}

static enum status
error_of(struct stream *s, int error)
{
	s->error = error;
	return error == ETIMEDOUT ? ST_TIMEOUT : ST_CUT;
}

/* Bytes that the socket took; 0 when it takes none now.  Another process may hold the
 * same socket and have it wait (the worker of a lane, if it was taken over): so each call
 * says itself that it does not. */
static enum status
push(struct stream *s, const struct iovec *v, size_t n, size_t *ret_taken)
{
	struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)v, .msg_iovlen = n };
	ssize_t k;

	do
		k = sendmsg(s->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (k < 0 && errno == EINTR);
	if (k < 0 && errno != EAGAIN)
		return error_of(s, errno);
	*ret_taken = k < 0 ? 0 : (size_t)k;
	return ST_OK;
}

/* What one call of OpenSSL wrote goes to the socket, the rest is held. */
static enum status
wire_push(struct stream *s)
{
	struct stream_room *room = s->room;
	struct iovec v = { room->wire, room->wire_n };
	size_t taken = 0;
	enum status st = ST_OK;

	room->wire_n = 0;
	if (v.iov_len == 0)
		return ST_OK;
	if (ring_is_empty(&s->held))
		st = push(s, &v, 1, &taken);
	struct str rest = str_skip(str_of(v.iov_base, v.iov_len), taken);
	if (st == ST_OK && ring_write(&s->held, rest) != rest.n)
		st = ST_NOMEM;
	s->is_broken |= st != ST_OK;
	return st;
}

static enum status
failed(struct stream *s, enum status st)
{
	s->is_broken = true;
	s->end = st;
	return st;
}

/* After an SSL call that did not go through. */
static enum status
outcome(struct stream *s, int rc)
{
	switch (SSL_get_error(s->ssl, rc)) {
	case SSL_ERROR_WANT_CLIENT_HELLO_CB:
		s->is_suspended = true;
		return ST_AGAIN;
	case SSL_ERROR_WANT_READ:
		return ST_AGAIN;
	case SSL_ERROR_ZERO_RETURN:
		s->end = ST_END;
		return ST_END;
	case SSL_ERROR_SYSCALL:
		if (s->is_at_eof)
			return failed(s, ST_CUT);
		return failed(s, s->error != 0 ? error_of(s, s->error) : ST_TLS_BROKEN);
	default:
		return failed(s, ST_TLS_BROKEN);
	}
}

enum status
stream_handshake(struct stream *s)
{
	if (s->ssl == NULL)
		return ST_OK;
	if (s->end != ST_OK)
		return s->end;
	ERR_clear_error();
	s->is_suspended = false;
	s->records = 0;
	int rc = SSL_do_handshake(s->ssl);
	enum status st = rc == 1 ? ST_OK : outcome(s, rc);
	/* Also the alert that says why. */
	enum status sent = wire_push(s);
	if (sent != ST_OK && (st == ST_OK || st == ST_AGAIN))
		st = failed(s, sent);
	/* Bytes that came with the peer's last message of the handshake. */
	s->is_ready = st == ST_OK && SSL_has_pending(s->ssl);
	return st;
}

bool
stream_is_suspended(const struct stream *s)
{
	return s->is_suspended;
}

struct str
stream_alpn(const struct stream *s)
{
	const unsigned char *p = NULL;
	unsigned n = 0;

	if (s->ssl != NULL)
		SSL_get0_alpn_selected(s->ssl, &p, &n);
	return str_of(p, n);
}

static enum status
read_plain(struct stream *s, char *p, size_t n, size_t *ret_n)
{
	ssize_t k;

	do
		k = recv(s->fd, p, n, MSG_DONTWAIT);
	while (k < 0 && errno == EINTR);
	if (k > 0) {
		*ret_n = (size_t)k;
		return ST_OK;
	}
	if (k == 0)
		return ST_END;
	if (errno == EAGAIN)
		return ST_AGAIN;
	return error_of(s, errno);
}

/* Record after record, while there is room and the kernel has given more than one. */
static enum status
read_records(struct stream *s, char *p, size_t n, size_t *ret_n)
{
	size_t got = 0, k;
	enum status st = ST_OK;

	do {
		k = 0;
		int rc = SSL_read_ex(s->ssl, p + got, n - got, &k);
		st = rc == 1 ? ST_OK : outcome(s, rc);
		got += k;
		if (k > 0 && s->talk > 0)
			s->talk--; /* its record was good for something */
	} while (st == ST_OK && got < n && s->records < STREAM_RECORDS &&
		 SSL_has_pending(s->ssl));
	/* Told with the next read: how it ended, and what did not fit. */
	s->is_ready =
		got > 0 && st != ST_AGAIN && (st != ST_OK || SSL_has_pending(s->ssl));
	*ret_n = got;
	return got > 0 ? ST_OK : st;
}

enum status
stream_read(struct stream *s, void *p, size_t n, size_t *ret_n)
{
	if (s->ssl == NULL)
		return read_plain(s, p, n, ret_n);
	s->is_ready = false;
	if (s->end != ST_OK)
		return s->end;
	ERR_clear_error();
	s->records = 0;
	enum status st = read_records(s, p, n, ret_n);
	/* An answer to a key update, or an alert.  That it doesn't leave is seen by
	 * whoever writes next. */
	if (wire_push(s) != ST_OK)
		s->is_broken = true;
	return st;
}

/* As much of the parts as makes one record: small ones are copied together, a large one
 * is taken where it is. */
static struct str
record_of(struct stream_room *room, const struct iovec *v, size_t n, size_t skip)
{
	struct str first = str_skip(str_of(v->iov_base, v->iov_len), skip);
	size_t len = 0;

	if (n == 1 || first.n >= STREAM_RECORD)
		return str_head(first, STREAM_ROUND);
	for (size_t i = 0; i < n && len < STREAM_RECORD; i++) {
		struct str s = i == 0 ? first : str_of(v[i].iov_base, v[i].iov_len);
		size_t k = num_min(s.n, STREAM_RECORD - len);
		memcpy(room->text + len, s.p, k);
		len += k;
	}
	return str_of(room->text, len);
}

struct place { /* in a gather */
	const struct iovec *v;
	size_t n, skip;
};

static void
move(struct place *at, size_t k)
{
	k += at->skip;
	while (at->n > 0 && k >= at->v->iov_len) {
		k -= at->v->iov_len;
		at->v++;
		at->n--;
	}
	at->skip = k;
}

/* At most STREAM_ROUND bytes, so that their records fit into the room. */
static enum status
write_round(struct stream *s, struct place *at, size_t *taken)
{
	size_t round = STREAM_ROUND;

	while (round > 0 && at->n > 0) {
		struct str r = record_of(s->room, at->v, at->n, at->skip);
		size_t k = 0, copied = r.p == s->room->text ? r.n : 0;
		r = str_head(r, round);
		int rc = SSL_write_ex(s->ssl, r.p, r.n, &k);
		OPENSSL_cleanse(s->room->text, copied); /* heads with credentials */
		if (rc != 1 || s->is_broken)            /* our BIO is never full */
			return failed(s, ST_TLS_BROKEN);
		move(at, k);
		*taken += k;
		round -= k;
	}
	return wire_push(s);
}

static enum status
write_records(struct stream *s, struct place *at, size_t *ret_taken)
{
	size_t taken = 0;
	enum status st = stream_flush(s);

	ERR_clear_error();
	move(at, 0); /* empty parts */
	while (st == ST_OK && at->n > 0 && !stream_is_blocked(s))
		st = write_round(s, at, &taken);
	if (st != ST_OK && st != ST_AGAIN)
		return st;
	*ret_taken = taken;
	return ST_OK;
}

enum status
stream_writev(struct stream *s, const struct iovec *v, size_t n, size_t *ret_taken)
{
	struct place at = { v, n, 0 };

	if (s->ssl == NULL)
		return push(s, v, n, ret_taken);
	return write_records(s, &at, ret_taken);
}

bool
stream_is_blocked(const struct stream *s)
{
	return !ring_is_empty(&s->held);
}

enum status
stream_flush(struct stream *s)
{
	size_t taken = 1;
	enum status st = s->is_broken ? ST_CUT : ST_OK;

	while (st == ST_OK && taken > 0 && stream_is_blocked(s)) {
		struct str first = ring_peek(&s->held);
		struct iovec v = { (void *)(uintptr_t)first.p, first.n };
		st = push(s, &v, 1, &taken);
		if (st == ST_OK)
			ring_consume(&s->held, taken);
	}
	if (st != ST_OK || stream_is_blocked(s))
		return st == ST_OK ? ST_AGAIN : st;
	ring_trim(&s->held);
	if (s->is_closing)
		(void)shutdown(s->fd, SHUT_WR);
	return ST_OK;
}

enum status
stream_shutdown(struct stream *s)
{
	if (s->ssl != NULL && !s->is_broken && !s->is_closing &&
	    SSL_is_init_finished(s->ssl)) {
		ERR_clear_error();
		(void)SSL_shutdown(s->ssl); /* says close_notify, waits for nothing */
		(void)wire_push(s);
	}
	s->is_closing = true;
	return stream_flush(s);
}

unsigned
stream_wants(const struct stream *s, unsigned wanted)
{
	return stream_is_blocked(s) ? wanted | LOOP_WRITE : wanted;
}

void
stream_arm(struct stream *s, struct loop_io *io, unsigned wanted)
{
	loop_io_want(io, stream_wants(s, wanted));
	if (s->is_ready && (wanted & LOOP_READ) != 0)
		loop_io_poke(io);
}
