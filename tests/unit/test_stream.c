#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/flow/stream.h"
#include "tests/unit/make_cert.h"

#define VEC(lit)                                                                       \
	{                                                                              \
		(void *)(uintptr_t)(lit), sizeof(lit) - 1                              \
	}

struct scene {
	struct made ca, leaf;
	SSL_CTX *server, *client;
	struct stream_room *room;
	struct stream a, b; /* the client's end and the server's */
	int fds[2];
};

static int
set_up(void **state)
{
	struct scene *s = test_calloc(1, sizeof *s);
	int small = 8192;

	s->ca = cert_authority();
	s->leaf = cert_leaf(&s->ca, "DNS:a.test");
	s->server = cert_server(&s->leaf);
	s->client = cert_client(&s->ca);
	if (stream_room_new(&s->room) != ST_OK ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s->fds) != 0)
		return -1;
	for (int i = 0; i < 2; i++)
		(void)setsockopt(s->fds[i], SOL_SOCKET, SO_SNDBUF, &small,
				 sizeof small);
	*state = s;
	return 0;
}

static int
tear_down(void **state)
{
	struct scene *s = *state;

	stream_done(&s->a);
	stream_done(&s->b);
	for (int i = 0; i < 2; i++)
		if (s->fds[i] >= 0)
			(void)close(s->fds[i]);
	SSL_CTX_free(s->server);
	SSL_CTX_free(s->client);
	cert_done(&s->ca);
	cert_done(&s->leaf);
	stream_room_free(s->room);
	test_free(s);
	return 0;
}

static void
begin(struct scene *s)
{
	SSL *a = SSL_new(s->client), *b = SSL_new(s->server);

	SSL_set_connect_state(a);
	SSL_set_accept_state(b);
	assert_int_equal(stream_tls(&s->a, s->fds[0], a, s->room), ST_OK);
	assert_int_equal(stream_tls(&s->b, s->fds[1], b, s->room), ST_OK);
}

static void
shake(struct scene *s)
{
	enum status a = ST_AGAIN, b = ST_AGAIN;

	begin(s);
	for (int i = 0; i < 200 && (a != ST_OK || b != ST_OK); i++) {
		a = stream_handshake(&s->a);
		b = stream_handshake(&s->b);
		if (stream_is_blocked(&s->a))
			(void)!stream_flush(&s->a);
		if (stream_is_blocked(&s->b))
			(void)!stream_flush(&s->b);
	}
	assert_int_equal(a, ST_OK);
	assert_int_equal(b, ST_OK);
}

static void
fill(char *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (char)(rand_r(&seed) & 0xff);
}

/* All of it from one end to the other, the sender taking turns with the reader. */
static void
carry(struct scene *s, const char *bytes, size_t n, size_t piece, size_t room)
{
	char *got = test_malloc(n + 1);
	size_t sent = 0, read = 0, k;

	for (int turns = 0; read < n && turns < 100000; turns++) {
		struct iovec v[3];
		size_t parts = 0, at = sent;
		while (parts < 3 && at < n) {
			size_t len = parts == 1 ? 7 : piece;
			len = len < n - at ? len : n - at;
			v[parts++] =
				(struct iovec){ (void *)(uintptr_t)(bytes + at), len };
			at += len;
		}
		if (stream_is_blocked(&s->a))
			assert_int_not_equal(stream_flush(&s->a), ST_CUT);
		k = 0;
		if (parts > 0)
			assert_int_equal(stream_writev(&s->a, v, parts, &k), ST_OK);
		sent += k;
		do {
			size_t max = room < n + 1 - read ? room : n + 1 - read;
			enum status st = stream_read(&s->b, got + read, max, &k);
			if (st == ST_AGAIN)
				break;
			assert_int_equal(st, ST_OK);
			assert_true(k > 0 && k <= max);
			read += k;
		} while (s->b.is_ready);
	}
	assert_int_equal(read, n);
	assert_memory_equal(got, bytes, n);
	test_free(got);
}

static void
bytes_arrive_whole_and_in_order_whatever_the_sizes(void **state)
{
	static const size_t pieces[] = { 1, 100, 5000, 16384, 16385, 70000, 300000 };
	struct scene *s = *state;
	enum { N = 600000 };
	char *bytes = test_malloc(N);

	fill(bytes, N, 1);
	shake(s);
	for (size_t i = 0; i < COUNT_OF(pieces); i++) {
		size_t n = pieces[i] < 1000 ? 5000 : N;
		carry(s, bytes, n, pieces[i], 128 * 1024);
		carry(s, bytes, n, pieces[i], 333);
	}
	assert_null(s->a.held.p);
	test_free(bytes);
}

static void
what_the_socket_does_not_take_is_held_and_nothing_more_is_taken(void **state)
{
	struct scene *s = *state;
	enum { N = 400000 };
	char *bytes = test_malloc(N);
	struct iovec v = { bytes, N };
	size_t taken = 0, more = 1;

	fill(bytes, N, 2);
	shake(s);
	assert_int_equal(stream_wants(&s->a, LOOP_READ), LOOP_READ);
	assert_int_equal(stream_writev(&s->a, &v, 1, &taken), ST_OK);
	assert_true(taken > 0 && taken <= STREAM_ROUND);
	assert_true(stream_is_blocked(&s->a));
	assert_int_equal(stream_wants(&s->a, LOOP_READ), LOOP_READ | LOOP_WRITE);
	assert_int_equal(stream_writev(&s->a, &v, 1, &more), ST_OK);
	assert_int_equal(more, 0);
	test_free(bytes);
}

static void
small_parts_share_a_record(void **state)
{
	struct scene *s = *state;
	struct iovec v[3] = { VEC("one "), VEC(""), VEC("two") };
	char raw[256], got[16];
	size_t taken, n;

	shake(s);
	while (stream_read(&s->a, got, sizeof got, &n) == ST_OK)
		;
	assert_int_equal(stream_writev(&s->a, v, 3, &taken), ST_OK);
	assert_int_equal(taken, 7);
	ssize_t k = recv(s->fds[1], raw, sizeof raw, MSG_PEEK);
	assert_int_equal(k, 5 + 7 + 1 + 16); /* header, text, type, tag */
	assert_int_equal(stream_read(&s->b, got, sizeof got, &n), ST_OK);
	assert_int_equal(n, 7);
}

static void
an_end_with_close_notify_is_the_end(void **state)
{
	struct scene *s = *state;
	char got[16];
	size_t n, taken;
	struct iovec v = VEC("last");

	shake(s);
	assert_int_equal(stream_writev(&s->a, &v, 1, &taken), ST_OK);
	assert_int_equal(stream_shutdown(&s->a), ST_OK);
	assert_int_equal(stream_read(&s->b, got, sizeof got, &n), ST_OK);
	assert_int_equal(n, 4);
	assert_true(s->b.is_ready); /* the kernel might say nothing more */
	assert_int_equal(stream_read(&s->b, got, sizeof got, &n), ST_END);
	assert_int_equal(stream_read(&s->b, got, sizeof got, &n), ST_END);
	/* The other direction goes on. */
	assert_int_equal(stream_writev(&s->b, &v, 1, &taken), ST_OK);
	assert_int_equal(stream_read(&s->a, got, sizeof got, &n), ST_OK);
	assert_int_equal(n, 4);
}

static void
an_end_without_close_notify_is_a_cut(void **state)
{
	struct scene *s = *state;
	char got[16];
	size_t n, taken;
	struct iovec v = VEC("last");

	shake(s);
	assert_int_equal(stream_writev(&s->a, &v, 1, &taken), ST_OK);
	assert_int_equal(shutdown(s->fds[0], SHUT_WR), 0);
	assert_int_equal(stream_read(&s->b, got, sizeof got, &n), ST_OK);
	assert_int_equal(n, 4);
	assert_int_equal(stream_read(&s->b, got, sizeof got, &n), ST_CUT);
}

static void
the_end_of_a_plain_stream_needs_no_words(void **state)
{
	struct scene *s = *state;
	char got[16];
	size_t n, taken;
	struct iovec v[2] = { VEC("a"), VEC("b") };

	stream_plain(&s->a, s->fds[0]);
	stream_plain(&s->b, s->fds[1]);
	assert_int_equal(stream_handshake(&s->a), ST_OK);
	assert_int_equal(stream_read(&s->b, got, sizeof got, &n), ST_AGAIN);
	assert_int_equal(stream_writev(&s->a, v, 2, &taken), ST_OK);
	assert_int_equal(stream_shutdown(&s->a), ST_OK);
	assert_int_equal(stream_read(&s->b, got, sizeof got, &n), ST_OK);
	assert_int_equal(n, 2);
	assert_int_equal(stream_read(&s->b, got, sizeof got, &n), ST_END);
}

static void
bytes_that_are_no_records_break_it(void **state)
{
	struct scene *s = *state;
	char got[16];
	size_t n, taken;
	struct iovec v = VEC("x");

	shake(s);
	assert_int_equal(write(s->fds[0], "GET / HTTP/1.1\r\n", 16), 16);
	assert_int_equal(stream_read(&s->b, got, sizeof got, &n), ST_TLS_BROKEN);
	assert_int_equal(stream_writev(&s->b, &v, 1, &taken), ST_CUT);
}

static void
a_hello_that_was_read_before_is_given_back(void **state)
{
	struct scene *s = *state;
	char hello[4096];
	enum status a = ST_AGAIN, b = ST_AGAIN;

	begin(s);
	assert_int_equal(stream_handshake(&s->a), ST_AGAIN);
	ssize_t n = read(s->fds[1], hello, sizeof hello);
	assert_true(n > 100);
	assert_int_equal(stream_early(&s->b, str_of(hello, (size_t)n)), ST_OK);
	for (int i = 0; i < 20 && (a != ST_OK || b != ST_OK); i++) {
		b = stream_handshake(&s->b);
		a = stream_handshake(&s->a);
	}
	assert_int_equal(a, ST_OK);
	assert_int_equal(b, ST_OK);
	assert_null(s->b.early.p);
}

/* Some clients send the first request in one flight with the end of their handshake. */
static void
data_behind_the_handshake_wakes_the_reader(void **state)
{
	struct scene *s = *state;
	struct iovec v = VEC("GET");
	char got[16];
	size_t n, taken;

	begin(s);
	assert_int_equal(stream_handshake(&s->a), ST_AGAIN);
	assert_int_equal(stream_handshake(&s->b), ST_AGAIN);
	assert_int_equal(stream_handshake(&s->a), ST_OK);
	assert_int_equal(stream_writev(&s->a, &v, 1, &taken), ST_OK);
	assert_int_equal(stream_handshake(&s->b), ST_OK);
	assert_true(s->b.is_ready);
	assert_int_equal(stream_read(&s->b, got, sizeof got, &n), ST_OK);
	assert_int_equal(n, 3);
	assert_false(s->b.is_ready);
}

static void
a_peer_that_wants_answers_and_reads_none_is_cut_off(void **state)
{
	struct scene *s = *state;
	char got[16], drop[4096];
	size_t n, taken;
	struct iovec v = VEC("x");
	enum status st = ST_AGAIN;

	shake(s);
	for (int i = 0; i < 20000 && st == ST_AGAIN; i++) {
		assert_int_equal(SSL_key_update(s->a.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
		if (stream_writev(&s->a, &v, 1, &taken) != ST_OK)
			break;
		while ((st = stream_read(&s->b, got, sizeof got, &n)) == ST_OK)
			;
	}
	assert_int_equal(st, ST_TLS_BROKEN);
	assert_true(s->b.held.len <= STREAM_WIRE);
	while (read(s->fds[0], drop, sizeof drop) > 0)
		;
}

static void
a_peer_that_only_updates_keys_is_cut_off(void **state)
{
	struct scene *s = *state;
	char got[16];
	size_t n, taken;
	struct iovec v = VEC("x");
	enum status st = ST_OK;
	int i;

	shake(s);
	for (i = 0; i < 3000 && st == ST_OK; i++) {
		assert_int_equal(SSL_key_update(s->a.ssl, SSL_KEY_UPDATE_NOT_REQUESTED),
				 1);
		assert_int_equal(stream_writev(&s->a, &v, 1, &taken), ST_OK);
		st = stream_read(&s->b, got, sizeof got, &n);
	}
	assert_int_equal(st, ST_TLS_BROKEN);
	assert_in_range(i, 900, 1100);
}

/* Each is a call of ours, whatever is in it. */
static void
many_small_records_are_read_in_turns(void **state)
{
	struct scene *s = *state;
	struct iovec v = VEC("x");
	char got[1024];
	size_t n, taken;

	shake(s);
	for (int i = 1; i < 300; i++) /* they leave together */
		assert_int_equal(SSL_write(s->a.ssl, "x", 1), 1);
	assert_int_equal(stream_writev(&s->a, &v, 1, &taken), ST_OK);
	assert_int_equal(stream_read(&s->b, got, sizeof got, &n), ST_OK);
	assert_int_equal(n, STREAM_RECORDS);
	assert_int_equal(stream_read(&s->b, got, sizeof got, &n), ST_OK);
	assert_int_equal(n, 300 - STREAM_RECORDS);
	assert_true(s->b.talk < 10); /* they carried something */
}

static void
a_stream_that_was_moved_goes_on(void **state)
{
	struct scene *s = *state;
	struct stream there;
	struct iovec v = VEC("moved");
	char got[16];
	size_t n, taken;

	shake(s);
	stream_move(&there, &s->b);
	assert_int_equal(stream_writev(&s->a, &v, 1, &taken), ST_OK);
	assert_int_equal(stream_read(&there, got, sizeof got, &n), ST_OK);
	assert_int_equal(n, 5);
	assert_int_equal(stream_writev(&there, &v, 1, &taken), ST_OK);
	assert_int_equal(stream_read(&s->a, got, sizeof got, &n), ST_OK);
	stream_done(&there);
}

struct woken {
	struct scene *s;
	struct loop *loop;
	struct loop_io io;
	size_t got;
	int calls;
};

static void
on_bytes(void *ctx, unsigned events)
{
	struct woken *w = ctx;
	char one[1];
	size_t n;

	assert_int_equal(events, LOOP_READ);
	w->calls++;
	if (stream_read(&w->s->b, one, 1, &n) == ST_OK)
		w->got += n;
	stream_arm(&w->s->b, &w->io, LOOP_READ);
	if (w->got == 5)
		loop_stop(w->loop);
}

static void
bytes_that_lie_inside_wake_their_owner(void **state)
{
	struct scene *s = *state;
	struct woken w = { .s = s };
	struct iovec v = VEC("12345");
	size_t taken;

	shake(s);
	assert_int_equal(loop_new(&w.loop), ST_OK);
	loop_io_init(&w.io, w.loop, s->fds[1], on_bytes, &w);
	assert_int_equal(stream_writev(&s->a, &v, 1, &taken), ST_OK);
	stream_arm(&s->b, &w.io, LOOP_READ);
	loop_run(w.loop);
	assert_int_equal(w.got, 5);
	assert_int_equal(w.calls, 5);
	loop_io_clear(&w.io);
	loop_free(w.loop);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		CASE(bytes_arrive_whole_and_in_order_whatever_the_sizes),
		CASE(what_the_socket_does_not_take_is_held_and_nothing_more_is_taken),
		CASE(small_parts_share_a_record),
		CASE(an_end_with_close_notify_is_the_end),
		CASE(an_end_without_close_notify_is_a_cut),
		CASE(the_end_of_a_plain_stream_needs_no_words),
		CASE(bytes_that_are_no_records_break_it),
		CASE(a_hello_that_was_read_before_is_given_back),
		CASE(data_behind_the_handshake_wakes_the_reader),
		CASE(a_peer_that_wants_answers_and_reads_none_is_cut_off),
		CASE(a_peer_that_only_updates_keys_is_cut_off),
		CASE(many_small_records_are_read_in_turns),
		CASE(a_stream_that_was_moved_goes_on),
		CASE(bytes_that_lie_inside_wake_their_owner),
	};

	return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
