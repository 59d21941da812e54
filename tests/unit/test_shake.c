#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/flow/shake.h"
#include "tests/unit/make_cert.h"

struct end {
	struct scene *scene;
	struct stream stream;
	struct loop_io io;
	struct shake shake;
	enum status said;
	bool is_said;
};

struct scene {
	struct made ca, leaf;
	SSL_CTX *server, *client;
	struct stream_room *room;
	struct loop *loop;
	struct loop_timer timer;
	struct end a, b;
	int fds[2], holds;
	bool is_b_alone;
};

static int
set_up(void **state)
{
	struct scene *s = test_calloc(1, sizeof *s);

	s->ca = cert_authority();
	s->leaf = cert_leaf(&s->ca, "DNS:a.test");
	s->server = cert_server(&s->leaf);
	s->client = cert_client(&s->ca);
	s->a.scene = s->b.scene = s;
	*state = s;
	return stream_room_new(&s->room) == ST_OK && loop_new(&s->loop) == ST_OK &&
			       socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0,
					  s->fds) == 0
		       ? 0
		       : -1;
}

static int
tear_down(void **state)
{
	struct scene *s = *state;

	shake_cancel(&s->a.shake);
	shake_cancel(&s->b.shake);
	loop_timer_clear(&s->timer);
	loop_io_clear(&s->a.io);
	loop_io_clear(&s->b.io);
	stream_done(&s->a.stream);
	stream_done(&s->b.stream);
	(void)close(s->fds[0]);
	(void)close(s->fds[1]);
	loop_free(s->loop);
	SSL_CTX_free(s->server);
	SSL_CTX_free(s->client);
	cert_done(&s->ca);
	cert_done(&s->leaf);
	stream_room_free(s->room);
	test_free(s);
	return 0;
}

static void
said(void *ctx, enum status st)
{
	struct end *e = ctx;
	struct scene *s = e->scene;

	assert_false(e->is_said);
	e->is_said = true;
	e->said = st;
	if ((s->is_b_alone || s->a.is_said) && s->b.is_said)
		loop_stop(s->loop);
}

static void
begin(struct end *e, int fd, SSL_CTX *ctx, uint64_t ms)
{
	SSL *ssl = SSL_new(ctx);

	if (e == &e->scene->a)
		SSL_set_connect_state(ssl);
	else
		SSL_set_accept_state(ssl);
	assert_int_equal(stream_tls(&e->stream, fd, ssl, e->scene->room), ST_OK);
	loop_io_init(&e->io, e->scene->loop, fd, NULL, NULL);
	shake_begin(&e->shake, &e->stream, &e->io, ms, said, e);
	assert_false(e->is_said);
}

static void
both_ends_hear_that_it_is_done(void **state)
{
	struct scene *s = *state;

	begin(&s->b, s->fds[1], s->server, 5000);
	begin(&s->a, s->fds[0], s->client, 5000);
	loop_run(s->loop);
	assert_int_equal(s->a.said, ST_OK);
	assert_int_equal(s->b.said, ST_OK);
	assert_int_equal(s->b.io.armed, 0);
	assert_false(shake_is_running(&s->b.shake));
}

static void
a_silent_peer_is_waited_for_only_so_long(void **state)
{
	struct scene *s = *state;

	s->is_b_alone = true;
	begin(&s->b, s->fds[1], s->server, 30);
	loop_run(s->loop);
	assert_int_equal(s->b.said, ST_TIMEOUT);
}

static void
what_is_wrong_from_the_start_is_said_later(void **state)
{
	struct scene *s = *state;

	s->is_b_alone = true;
	assert_int_equal(write(s->fds[0], "GET / HTTP/1.1\r\n\r\n", 18), 18);
	begin(&s->b, s->fds[1], s->server, 5000);
	loop_run(s->loop);
	assert_int_equal(s->b.said, ST_TLS_BROKEN);
}

static int
hold(SSL *ssl, int *alert, void *ctx)
{
	struct scene *s = ctx;

	(void)ssl;
	(void)alert;
	return s->holds-- > 0 ? SSL_CLIENT_HELLO_RETRY : SSL_CLIENT_HELLO_SUCCESS;
}

static void
resume(void *ctx)
{
	struct scene *s = ctx;

	assert_true(stream_is_suspended(&s->b.stream));
	assert_false(s->b.is_said);
	shake_resume(&s->b.shake);
}

static void
a_hello_may_wait_for_its_certificate(void **state)
{
	struct scene *s = *state;

	s->holds = 1;
	SSL_CTX_set_client_hello_cb(s->server, hold, s);
	begin(&s->a, s->fds[0], s->client, 5000);
	begin(&s->b, s->fds[1], s->server, 5000);
	assert_true(stream_is_suspended(&s->b.stream));
	loop_timer_init(&s->timer, s->loop, resume, s);
	loop_timer_set(&s->timer, 20);
	loop_run(s->loop);
	assert_int_equal(s->a.said, ST_OK);
	assert_int_equal(s->b.said, ST_OK);
	assert_int_equal(s->holds, -1);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		CASE(both_ends_hear_that_it_is_done),
		CASE(a_silent_peer_is_waited_for_only_so_long),
		CASE(what_is_wrong_from_the_start_is_said_later),
		CASE(a_hello_may_wait_for_its_certificate),
	};

	return cmocka_run_group_tests_name("shake", tests, NULL, NULL);
}
