/* stream, towards the socket: what OpenSSL reads from and writes into. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "proxy/base/num.h"
#include "proxy/flow/stream.h"

/* What OpenSSL writes is collected, so that a gather of many records leaves in one
 * system call.  Records behind held ones are held too. */
static int
wire_put(BIO *b, const char *p, size_t n, size_t *ret_n)
{
	struct stream *s = BIO_get_data(b);
	struct stream_room *room = s->room;

	BIO_clear_retry_flags(b);
	if (ring_is_empty(&s->held) && n <= STREAM_WIRE - room->wire_n) {
		memcpy(room->wire + room->wire_n, p, n);
		room->wire_n += n;
	} else if (ring_write(&s->held, str_of(room->wire, room->wire_n)) !=
			   room->wire_n ||
		   ring_write(&s->held, str_of(p, n)) != n) {
		/* The peer makes us answer and does not read the answers. */
		s->is_broken = true;
		return 0;
	} else {
		room->wire_n = 0;
	}
	*ret_n = n;
	return 1;
}

static int
wire_take(BIO *b, char *p, size_t n, size_t *ret_n)
{
	struct stream *s = BIO_get_data(b);
	struct str first = ring_peek(&s->early);
	ssize_t k;

	BIO_clear_retry_flags(b);
	if (s->talk > STREAM_TALK_MAX)
		return 0;
	if (first.n > 0) {
		*ret_n = num_min(first.n, n);
		memcpy(p, first.p, *ret_n);
		ring_consume(&s->early, *ret_n);
		ring_trim(&s->early);
		return 1;
	}
	if (s->records >= STREAM_RECORDS) { /* the kernel tells again of what is left */
		BIO_set_retry_read(b);
		return 0;
	}
	do
		k = recv(s->fd, p, n, MSG_DONTWAIT);
	while (k < 0 && errno == EINTR);
	if (k > 0) {
		*ret_n = (size_t)k;
		return 1;
	}
	s->is_at_eof = k == 0;
	if (k < 0 && errno == EAGAIN)
		BIO_set_retry_read(b);
	else
		s->error = k < 0 ? errno : 0;
	return 0;
}

static long
wire_ctrl(BIO *b, int what, long number, void *p)
{
	(void)b;
	(void)number;
	(void)p;
	/* The end of the socket is ours to judge: no BIO_CTRL_EOF. */
	return what == BIO_CTRL_FLUSH;
}

static int
wire_create(BIO *b)
{
	BIO_set_init(b, 1);
	return 1;
}

enum status
stream_room_new(struct stream_room **ret_room)
{
	struct stream_room *room = calloc(1, sizeof *room);

	if (room == NULL)
		return ST_NOMEM;
	room->bio = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "stream");
	if (room->bio == NULL || BIO_meth_set_write_ex(room->bio, wire_put) != 1 ||
	    BIO_meth_set_read_ex(room->bio, wire_take) != 1 ||
	    BIO_meth_set_ctrl(room->bio, wire_ctrl) != 1 ||
	    BIO_meth_set_create(room->bio, wire_create) != 1) {
		stream_room_free(room);
		return ST_NOMEM;
	}
	*ret_room = room;
	return ST_OK;
}

void
stream_room_free(struct stream_room *room)
{
	if (room == NULL)
		return;
	BIO_meth_free(room->bio);
	OPENSSL_cleanse(room, sizeof *room); /* bodies, heads with credentials */
	free(room);
}
