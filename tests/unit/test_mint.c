#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/flow/shake.h"
#include "proxy/flow/tls_client.h"
#include "proxy/worker/mint.c"
#include "vault/mint.h"

enum { CALLERS = 200 };

struct caller {
	struct scene *s;
	struct mint_wait wait;
	SSL *ssl;
	enum status said;
	bool is_said;
};

struct scene {
	struct loop *loop;
	struct ask_line *worker, *keeper;
	struct mint *mint;
	struct ca ca;
	unsigned asked, expected, told;
	enum status refuse; /* the keeper's answer */
	uint64_t lag_s;     /* how old the leaves are */
	bool is_mute;
	struct loop_timer end;
	struct caller callers[CALLERS];
};

static void
on_lost(void *ctx, struct ask_line *line, enum status why)
{
	struct scene *s = ctx;

	(void)why;
	if (line == s->worker)
		s->worker = NULL;
	if (line == s->keeper)
		s->keeper = NULL;
	ask_line_free(line);
}

/* With the keeper's own code. */
static void
on_heard(void *ctx, struct ask_line *line, struct ask_msg *m)
{
	struct scene *s = ctx;
	struct wire w = wire_from(m->body);
	struct str host = wire_str(&w);
	enum mint_way way = (enum mint_way)wire_u8(&w);
	struct str point = wire_bytes(&w, MINT_POINT);
	CLEANUP(buf_done) struct buf leaf = { 0 }, answer = { 0 };

	s->asked++;
	assert_int_equal(m->ask, ASK_MINT);
	assert_int_equal(wire_end(&w), ST_OK);
	if (s->is_mute)
		return;
	buf_init(&leaf, MINT_DER_MAX);
	buf_init(&answer, 4096);
	buf_put_u16(&answer, (uint16_t)s->refuse);
	if (s->refuse == ST_OK) {
		assert_int_equal(
			mint_put_leaf(&leaf, &s->ca, host, way, point,
				      &(struct mint_time){ .now = clock_wall_us() / US -
								  s->lag_s }),
			ST_OK);
		buf_put_u8(&answer, 1);
		wire_put_str(&answer, str_of(leaf.p, leaf.len));
	}
	assert_int_equal(ask_answer(line, ASK_MINT, m->seq,
				    str_of(answer.p, answer.len), NULL, 0),
			 ST_OK);
}

static void
on_end(void *ctx)
{
	struct scene *s = ctx;

	loop_stop(s->loop);
}

static int
set_up_scene(void **state)
{
	struct scene *s = test_calloc(1, sizeof *s);
	struct ask_end a = { .self = ROLE_WORKER, .peer = ROLE_KEEPER };
	struct ask_end b = { .self = ROLE_KEEPER, .peer = ROLE_WORKER };
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0 ||
	    loop_new(&s->loop) != ST_OK)
		return -1;
	a.fd = fds[0];
	b.fd = fds[1];
	if (ask_line_new(s->loop, &a, NULL, on_lost, s, &s->worker) != ST_OK ||
	    ask_line_new(s->loop, &b, on_heard, on_lost, s, &s->keeper) != ST_OK ||
	    mint_new(s->loop, &s->worker, &s->mint) != ST_OK ||
	    ca_make(clock_wall_us() / US, &s->ca) != ST_OK)
		return -1;
	loop_timer_init(&s->end, s->loop, on_end, s);
	*state = s;
	return 0;
}

static int
tear_down(void **state)
{
	struct scene *s = *state;

	for (size_t i = 0; i < CALLERS; i++) {
		mint_cancel(&s->callers[i].wait);
		SSL_free(s->callers[i].ssl);
	}
	ask_line_free(s->worker);
	ask_line_free(s->keeper);
	mint_free(s->mint);
	loop_timer_clear(&s->end);
	loop_free(s->loop);
	ca_done(&s->ca);
	test_free(s);
	return 0;
}

static void
on_told(void *ctx, enum status st, SSL *ssl)
{
	struct caller *c = ctx;
	struct scene *s = c->s;

	assert_false(c->is_said);
	c->is_said = true;
	c->said = st;
	c->ssl = ssl;
	assert_int_equal(st == ST_OK, ssl != NULL);
	if (++s->told == s->expected)
		loop_stop(s->loop);
}

static enum status
call(struct scene *s, size_t i, const char *host, enum mint_why why)
{
	struct caller *c = &s->callers[i];

	SSL_free(c->ssl);
	mint_cancel(&c->wait);
	*c = (struct caller){ .s = s, .wait = { .fn = on_told, .ctx = c } };
	return mint_ask(s->mint, str_from(host), why, &c->wait, &c->ssl);
}

static void
run(struct scene *s, unsigned expected, uint64_t ms)
{
	s->expected = expected;
	s->told = 0;
	loop_timer_set(&s->end, ms);
	loop_run(s->loop);
}

static void
many_who_want_one_host_cost_one_leaf(void **state)
{
	struct scene *s = *state;

	for (size_t i = 0; i < 50; i++)
		assert_int_equal(call(s, i, "a.test", MINT_TO_INTERCEPT), ST_AGAIN);
	run(s, 50, 5000);
	assert_int_equal(s->told, 50);
	assert_int_equal(s->asked, 1);
	for (size_t i = 0; i < 50; i++)
		assert_int_equal(s->callers[i].said, ST_OK);
	assert_int_equal(call(s, 50, "a.test", MINT_TO_INTERCEPT), ST_OK);
	assert_non_null(s->callers[50].ssl);
	assert_int_equal(s->asked, 1);
	/* A refusal has leaves of its own. */
	assert_int_equal(call(s, 51, "a.test", MINT_TO_REFUSE), ST_AGAIN);
	run(s, 1, 5000);
	assert_int_equal(s->asked, 2);
}

static void
more_hosts_than_the_keeper_takes_at_once_wait_a_little(void **state)
{
	struct scene *s = *state;
	char host[16];

	for (size_t i = 0; i < 60; i++) { /* the table says 50 a second */
		(void)snprintf(host, sizeof host, "h%zu.test", i);
		assert_int_equal(call(s, i, host, MINT_TO_INTERCEPT), ST_AGAIN);
	}
	run(s, 60, 8000);
	assert_int_equal(s->told, 60);
	assert_int_equal(s->asked, 60);
	for (size_t i = 0; i < 60; i++)
		assert_int_equal(s->callers[i].said, ST_OK);
}

static void
a_refusal_is_told_to_all_and_not_kept(void **state)
{
	struct scene *s = *state;

	s->refuse = ST_VAULT_SEALED;
	assert_int_equal(call(s, 0, "a.test", MINT_TO_INTERCEPT), ST_AGAIN);
	assert_int_equal(call(s, 1, "a.test", MINT_TO_INTERCEPT), ST_AGAIN);
	run(s, 2, 5000);
	assert_int_equal(s->callers[0].said, ST_VAULT_SEALED);
	assert_int_equal(s->callers[1].said, ST_VAULT_SEALED);
	s->refuse = ST_OK;
	assert_int_equal(call(s, 0, "a.test", MINT_TO_INTERCEPT), ST_AGAIN);
	run(s, 1, 5000);
	assert_int_equal(s->callers[0].said, ST_OK);
}

static void
a_keeper_that_dies_is_told_to_those_who_wait(void **state)
{
	struct scene *s = *state;

	s->is_mute = true;
	assert_int_equal(call(s, 0, "a.test", MINT_TO_INTERCEPT), ST_AGAIN);
	run(s, 1, 50);
	assert_int_equal(s->told, 0);
	ask_line_free(s->keeper);
	s->keeper = NULL;
	run(s, 1, 5000);
	assert_int_equal(s->callers[0].said, ST_NO_KEEPER);
	assert_int_equal(call(s, 0, "a.test", MINT_TO_INTERCEPT), ST_NO_KEEPER);
}

static void
who_has_no_patience_is_not_told(void **state)
{
	struct scene *s = *state;

	assert_int_equal(call(s, 0, "a.test", MINT_TO_INTERCEPT), ST_AGAIN);
	assert_int_equal(call(s, 1, "a.test", MINT_TO_INTERCEPT), ST_AGAIN);
	mint_cancel(&s->callers[0].wait);
	run(s, 1, 5000);
	assert_false(s->callers[0].is_said);
	assert_int_equal(s->callers[1].said, ST_OK);
}

static void
a_leaf_is_not_used_to_its_last_minute(void **state)
{
	struct scene *s = *state;

	assert_int_equal(call(s, 0, "a.test", MINT_TO_INTERCEPT), ST_AGAIN);
	run(s, 1, 5000);
	struct leaf *l = map_get(&s->mint->shelves[0].by_host, STR("a.test"));
	assert_non_null(l);
	int64_t rest = rest_of(l->cert);
	assert_true(l->until_us <= clock_wall_us() + (uint64_t)rest * US);
	l->until_us = clock_wall_us();
	assert_int_equal(call(s, 0, "a.test", MINT_TO_INTERCEPT), ST_AGAIN);
	run(s, 1, 5000);
	assert_int_equal(s->asked, 2);
	/* One that is over already is none. */
	s->lag_s = 400 * 86400;
	assert_int_equal(call(s, 0, "b.test", MINT_TO_INTERCEPT), ST_AGAIN);
	run(s, 1, 5000);
	assert_int_equal(s->callers[0].said, ST_BAD_MESSAGE);
}

static void
a_leaf_of_a_clock_that_was_ahead_is_not_used_again(void **state)
{
	struct scene *s = *state;

	s->lag_s -= 86400;
	assert_int_equal(call(s, 0, "a.test", MINT_TO_INTERCEPT), ST_AGAIN);
	run(s, 1, 5000);
	s->lag_s = 0;
	assert_int_equal(call(s, 0, "a.test", MINT_TO_INTERCEPT), ST_AGAIN);
	run(s, 1, 5000);
	assert_int_equal(call(s, 0, "a.test", MINT_TO_INTERCEPT), ST_OK);
	assert_int_equal(s->asked, 2);
}

static void
the_least_used_leaf_goes_first(void **state)
{
	struct scene *s = *state;

	s->mint->shelves[0].max = 2;
	assert_int_equal(call(s, 0, "a.test", MINT_TO_INTERCEPT), ST_AGAIN);
	assert_int_equal(call(s, 1, "b.test", MINT_TO_INTERCEPT), ST_AGAIN);
	run(s, 2, 5000);
	assert_int_equal(call(s, 0, "a.test", MINT_TO_INTERCEPT), ST_OK);
	assert_int_equal(call(s, 2, "c.test", MINT_TO_INTERCEPT), ST_AGAIN);
	run(s, 1, 5000);
	assert_int_equal(call(s, 0, "a.test", MINT_TO_INTERCEPT), ST_OK);
	assert_int_equal(call(s, 1, "b.test", MINT_TO_INTERCEPT), ST_AGAIN);
}

static void
leaves_of_the_authority_before_are_forgotten(void **state)
{
	struct scene *s = *state;

	assert_int_equal(call(s, 0, "a.test", MINT_TO_INTERCEPT), ST_AGAIN);
	run(s, 1, 5000);
	assert_int_equal(call(s, 1, "b.test", MINT_TO_INTERCEPT), ST_AGAIN);
	mint_forget(s->mint);
	run(s, 1, 5000);
	assert_int_equal(s->callers[1].said, ST_OK); /* asked for before: not kept */
	assert_int_equal(s->mint->shelves[0].by_host.len, 0);
	assert_int_equal(call(s, 0, "a.test", MINT_TO_INTERCEPT), ST_AGAIN);
	assert_int_equal(call(s, 1, "b.test", MINT_TO_INTERCEPT), ST_AGAIN);
	run(s, 2, 5000);
	assert_int_equal(s->asked, 4);
	assert_int_equal(call(s, 0, "a.test", MINT_TO_INTERCEPT), ST_OK);
}

static void
leaves_of_listeners_are_forgotten_alone(void **state)
{
	struct scene *s = *state;

	assert_int_equal(call(s, 0, "a.test", MINT_TO_INTERCEPT), ST_AGAIN);
	assert_int_equal(call(s, 1, "a.test", MINT_TO_LISTEN), ST_AGAIN);
	run(s, 2, 5000);
	assert_int_equal(call(s, 1, "a.test", MINT_TO_LISTEN), ST_OK);
	mint_forget_listeners(s->mint);
	assert_int_equal(call(s, 0, "a.test", MINT_TO_INTERCEPT), ST_OK);
	assert_int_equal(call(s, 1, "a.test", MINT_TO_LISTEN), ST_AGAIN);
	run(s, 1, 5000);
	assert_int_equal(s->asked, 3);
}

static void
hosts_of_impossible_length_are_refused(void **state)
{
	struct scene *s = *state;
	char host[300];

	memset(host, 'a', sizeof host);
	host[sizeof host - 1] = '\0';
	assert_int_equal(call(s, 0, host, MINT_TO_INTERCEPT), ST_BAD_HOST);
	assert_int_equal(call(s, 0, "", MINT_TO_INTERCEPT), ST_BAD_HOST);
	assert_int_equal(s->mint->shelves[0].by_host.len, 0);
}

/* What our own strict client makes of it. */
static void
meet(struct scene *s, SSL *server, enum tls_offer offer, struct str protocol)
{
	CLEANUP(buf_done) struct buf pem = { 0 };
	struct stream_room *room;
	struct stream a, b;
	struct tls_client *client;
	enum status sa = ST_AGAIN, sb = ST_AGAIN;
	struct dest d;
	SSL *ssl;
	int fds[2];

	buf_init(&pem, 8192);
	ca_put_pem(&pem, &s->ca);
	assert_int_equal(tls_client_new(str_of(pem.p, pem.len), &client), ST_OK);
	assert_int_equal(dest_from_host(STR("a.test"), 443, &d), ST_OK);
	assert_int_equal(tls_client_open(client, &d, offer, &ssl), ST_OK);
	assert_int_equal(stream_room_new(&room), ST_OK);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	assert_int_equal(stream_tls(&a, fds[0], ssl, room), ST_OK);
	assert_int_equal(stream_tls(&b, fds[1], server, room), ST_OK);
	for (int i = 0; i < 10 && (sa != ST_OK || sb != ST_OK); i++) {
		sa = stream_handshake(&a);
		sb = stream_handshake(&b);
	}
	assert_int_equal(tls_client_why(a.ssl, sa), ST_OK);
	assert_int_equal(sb, ST_OK);
	assert_true(str_eq(stream_alpn(&b), protocol));
	stream_done(&a);
	stream_done(&b);
	(void)close(fds[0]);
	(void)close(fds[1]);
	stream_room_free(room);
	tls_client_free(client);
}

static void
a_strict_client_takes_the_leaf_and_agrees_on_a_protocol(void **state)
{
	struct scene *s = *state;

	for (size_t i = 0; i < 2; i++)
		assert_int_equal(call(s, i, "a.test", MINT_TO_INTERCEPT), ST_AGAIN);
	run(s, 2, 5000);
	meet(s, s->callers[0].ssl, TLS_OFFER_H2, STR("h2"));
	meet(s, s->callers[1].ssl, TLS_OFFER_BOTH, STR("h2"));
	s->callers[0].ssl = s->callers[1].ssl = NULL;
	assert_int_equal(call(s, 0, "a.test", MINT_TO_INTERCEPT), ST_OK);
	meet(s, s->callers[0].ssl, TLS_OFFER_H1, STR("http/1.1"));
	s->callers[0].ssl = NULL;
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up_scene, tear_down)

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		CASE(many_who_want_one_host_cost_one_leaf),
		CASE(more_hosts_than_the_keeper_takes_at_once_wait_a_little),
		CASE(a_refusal_is_told_to_all_and_not_kept),
		CASE(a_keeper_that_dies_is_told_to_those_who_wait),
		CASE(who_has_no_patience_is_not_told),
		CASE(a_leaf_is_not_used_to_its_last_minute),
		CASE(a_leaf_of_a_clock_that_was_ahead_is_not_used_again),
		CASE(the_least_used_leaf_goes_first),
		CASE(leaves_of_the_authority_before_are_forgotten),
		CASE(leaves_of_listeners_are_forgotten_alone),
		CASE(hosts_of_impossible_length_are_refused),
		CASE(a_strict_client_takes_the_leaf_and_agrees_on_a_protocol),
	};

	return cmocka_run_group_tests_name("mint", tests, NULL, NULL);
}
