#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/h2_pair.h"

static void
end(struct h2_peer *p)
{
	assert_int_equal(h2_put_end(p->stream, &p->out, NULL), ST_OK);
}

static void
put(struct h2_peer *p, const char *text)
{
	assert_int_equal(h2_put(p->stream, str_from(text)), ST_OK);
}

static void
a_request_and_its_response_pass(void **state)
{
	struct h2_pair p;
	struct h2_peer *c = &p.client, *s = &p.server;

	(void)state;
	pair_open(&p);
	pair_ask(&p, "POST", "http://ok.test/a?b=c", "X-Thing: 1\r\nCookie: a=b\r\n",
		 BODY_LENGTH, 5);
	put(c, "hello");
	end(c);
	pair_run(&p);
	assert_string_equal(peer_log(s),
			    "POST /a?b=c host=ok.test x-thing=1 cookie=a=b "
			    "content-length=5 [length 5]\nbody hello\nend\n");
	pair_answer(&p, 200, "Server: me\r\n", BODY_CHUNKED, 0);
	put(s, "yes");
	end(s);
	pair_run(&p);
	assert_string_equal(peer_log(c),
			    "200 server=me [chunked]\nbody yes\nend\nclosed 0\n");
	assert_string_equal(peer_log(s), "closed 0\n");
	assert_int_equal(h2_streams(c->h) + h2_streams(s->h), 0);
	pair_close(&p);
}

static void
a_whole_message_has_no_end_of_its_own(void **state)
{
	struct h2_pair p;

	(void)state;
	pair_open(&p);
	pair_ask(&p, "GET", "http://ok.test:8080/", "", BODY_NONE, 0);
	pair_run(&p);
	assert_string_equal(peer_log(&p.server),
			    "GET / host=ok.test:8080 [none] whole\n");
	pair_answer(&p, 200, "", BODY_NONE, 0);
	pair_run(&p);
	/* In HTTP/1 this needs a length. */
	assert_string_equal(peer_log(&p.client), "200 [length 0] whole\nclosed 0\n");
	pair_close(&p);
}

static void
heads_before_the_response_pass(void **state)
{
	struct h2_pair p;

	(void)state;
	pair_open(&p);
	pair_ask(&p, "HEAD", "http://ok.test/", "", BODY_NONE, 0);
	pair_run(&p);
	pair_answer(&p, 103, "Link: x\r\n", BODY_CHUNKED, 0);
	pair_answer(&p, 100, "", BODY_CHUNKED, 0);
	p.server.out.has_length = true;
	pair_run(&p);
	pair_answer(&p, 200, "", BODY_NONE, 0);
	pair_run(&p);
	assert_string_equal(
		peer_log(&p.client),
		"103 link=x [none]\n100 [none]\n200 [none] whole\nclosed 0\n");
	pair_close(&p);
}

static void
trailers_pass_but_not_those_that_steer(void **state)
{
	struct h2_pair p;
	struct head trailers;

	(void)state;
	pair_open(&p);
	pair_ask(&p, "POST", "http://ok.test/",
		 "TE: trailers\r\nConnection: te, x-nom\r\n", BODY_CHUNKED, 0);
	head_init(&trailers, &p.client.arena);
	assert_int_equal(head_add(&trailers, STR("X-Sum"), STR("1")), ST_OK);
	assert_int_equal(head_add(&trailers, STR("Authorization"), STR("no")), ST_OK);
	assert_int_equal(head_add(&trailers, STR("Content-Length"), STR("3")), ST_OK);
	assert_int_equal(head_add(&trailers, STR("x-nom"), STR("3")), ST_OK);
	put(&p.client, "x");
	assert_int_equal(h2_put_end(p.client.stream, &p.client.out, &trailers), ST_OK);
	pair_run(&p);
	assert_string_equal(peer_log(&p.server),
			    "POST / host=ok.test te=trailers [chunked]\n"
			    "body x\nend x-sum=1\n");
	pair_close(&p);
}

static void
what_belongs_to_one_connection_does_not_pass(void **state)
{
	struct h2_pair p;

	(void)state;
	pair_open(&p);
	pair_ask(&p, "GET", "http://ok.test/",
		 "Connection: close, x-mine\r\nKeep-Alive: 1\r\nUpgrade: "
		 "h2c\r\nX-Mine: 1\r\n"
		 "HTTP2-Settings: x\r\nProxy-Authorization: y\r\nTransfer-Encoding: "
		 "chunked\r\nHost: other.test\r\nExpect: 100-continue\r\nA: b\r\n",
		 BODY_NONE, 0);
	pair_run(&p);
	assert_string_equal(peer_log(&p.server),
			    "GET / host=ok.test a=b [none] whole\n");
	pair_answer(&p, 200,
		    "Alt-Svc: h3\r\nConnection: x\r\nProxy-Authenticate: y\r\nX: z\r\n",
		    BODY_NONE, 0);
	pair_run(&p);
	assert_string_equal(peer_log(&p.client), "200 [length 0] whole\nclosed 0\n");
	pair_close(&p);
}

static void
our_own_answer_keeps_what_a_proxy_says(void **state)
{
	struct h2_pair p;
	struct h2_out o = { .head = &p.server.out, .is_whole = true, .is_own = true };

	(void)state;
	pair_open(&p);
	pair_ask(&p, "GET", "http://ok.test/", "", BODY_NONE, 0);
	pair_run(&p);
	peer_fields(&p.server, "Proxy-Authenticate: Basic\r\nProxy-Status: "
			       "x\r\nConnection: close\r\n");
	p.server.out.status = 407;
	assert_int_equal(h2_respond(p.server.stream, &o), ST_OK);
	pair_run(&p);
	assert_string_equal(
		peer_log(&p.client),
		"407 proxy-authenticate=Basic proxy-status=x [length 0] whole\n"
		"closed 0\n");
	pair_close(&p);
}

static void
a_websocket_is_an_upgrade_to_both_ends(void **state)
{
	struct h2_pair p;
	struct h2_out o;

	(void)state;
	pair_open(&p);
	assert_true(h2_has_begun(p.client.h));
	assert_false(h2_refuses_ws(p.client.h));
	o = peer_asking(
		&p.client, "GET", "http://ok.test/ws",
		"Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Key: "
		"x\r\nSec-WebSocket-Version: 13\r\n");
	o.is_ws = true;
	assert_int_equal(h2_request(p.client.h, &o, &p, &p.client.stream), ST_OK);
	pair_run(&p);
	assert_string_equal(
		peer_log(&p.server),
		"GET /ws host=ok.test sec-websocket-version=13 [none] ws\n");
	pair_answer(&p, 101, "Sec-WebSocket-Accept: y\r\nUpgrade: websocket\r\n",
		    BODY_TUNNEL, 0);
	put(&p.server, "down");
	put(&p.client, "up");
	end(&p.client);
	pair_run(&p);
	assert_string_equal(peer_log(&p.client), "101 [tunnel] ws\nbody down\n");
	assert_string_equal(peer_log(&p.server), "body up\nend\n");
	pair_close(&p);
}

static void
a_websocket_that_is_refused_is_a_response(void **state)
{
	struct h2_pair p;
	struct h2_out o;

	(void)state;
	pair_open(&p);
	o = peer_asking(&p.client, "GET", "http://ok.test/ws", "");
	o.is_ws = true;
	assert_int_equal(h2_request(p.client.h, &o, &p, &p.client.stream), ST_OK);
	pair_run(&p);
	pair_answer(&p, 403, "", BODY_NONE, 0);
	h2_leave(p.server.stream);
	pair_run(&p);
	assert_string_equal(peer_log(&p.client), "403 [length 0] ws whole\nclosed 0\n");
	pair_close(&p);
}

static void
connect_names_its_target_only(void **state)
{
	struct h2_pair p;
	struct h2_out o;

	(void)state;
	pair_open(&p);
	o = peer_asking(&p.client, "CONNECT", "ok.test:443", "");
	assert_int_equal(h2_request(p.client.h, &o, &p, &p.client.stream), ST_OK);
	pair_run(&p);
	assert_string_equal(peer_log(&p.server),
			    "CONNECT ok.test:443 host=ok.test:443 [none]\n");
	pair_answer(&p, 200, "", BODY_TUNNEL, 0);
	put(&p.server, "down");
	put(&p.client, "up");
	pair_run(&p);
	assert_string_equal(peer_log(&p.client), "200 [tunnel]\nbody down\n");
	assert_string_equal(peer_log(&p.server), "body up\n");
	pair_close(&p);
}

static void
a_reset_reaches_the_other_end(void **state)
{
	struct h2_pair p;

	(void)state;
	pair_open(&p);
	pair_ask(&p, "POST", "http://ok.test/", "", BODY_CHUNKED, 0);
	put(&p.client, "x");
	pair_run(&p);
	(void)peer_log(&p.server);
	h2_reset(p.server.stream, H2_INTERNAL_ERROR);
	put(&p.client, "y");
	pair_run(&p);
	assert_string_equal(peer_log(&p.client), "closed 2\n");
	assert_string_equal(peer_log(&p.server), "closed 2\n");
	pair_close(&p);
}

/* RFC 9113 section 8.1: an early answer is whole, then the rest isn't wanted. */
static void
answered_early(struct h2_pair *p, enum body_kind body, uint64_t length)
{
	pair_open(p);
	pair_ask(p, "POST", "http://ok.test/", "", body, length);
	pair_run(p);
	(void)peer_log(&p->server);
	pair_answer(p, 403, "", BODY_LENGTH, 2);
	put(&p->server, "no");
	end(&p->server);
	h2_leave(p->server.stream);
	pair_run(p);
	assert_string_equal(peer_log(&p->client),
			    "403 content-length=2 [length 2]\nbody no\nend\n");
}

static void
what_follows_an_early_answer_is_dropped(void **state)
{
	struct h2_pair p;

	(void)state;
	answered_early(&p, BODY_CHUNKED, 0);
	put(&p.client, "x");
	pair_run(&p);
	assert_false(h2_expire(p.server.h, p.now_ms + 4999));
	end(&p.client);
	pair_run(&p);
	assert_string_equal(peer_log(&p.client), "closed 0\n");
	assert_string_equal(peer_log(&p.server), "closed 0\n");
	pair_close(&p);
}

static void
what_follows_an_early_answer_must_keep_its_length(void **state)
{
	struct h2_pair p;

	(void)state;
	answered_early(&p, BODY_LENGTH, 5);
	put(&p.client, "four");
	end(&p.client);
	pair_run(&p);
	assert_string_equal(peer_log(&p.server), "closed 1\n");
	pair_close(&p);
}

static void
a_request_that_goes_on_behind_its_answer_is_ended(void **state)
{
	struct h2_pair p;

	(void)state;
	answered_early(&p, BODY_CHUNKED, 0);
	assert_true(h2_expire(p.server.h, p.now_ms + 5000));
	assert_false(h2_expire(p.server.h, p.now_ms + 5000));
	pair_run(&p);
	assert_string_equal(peer_log(&p.client), "closed 0\n");
	pair_close(&p);
}

static void
a_request_that_is_long_behind_its_answer_is_ended(void **state)
{
	static const char block[65536];
	struct h2_pair p;

	(void)state;
	answered_early(&p, BODY_CHUNKED, 0);
	assert_int_equal(h2_put(p.client.stream, str_of(block, sizeof block)), ST_OK);
	pair_run(&p);
	assert_string_equal(peer_log(&p.client), "");
	put(&p.client, "x");
	pair_run(&p);
	assert_string_equal(peer_log(&p.client), "closed 0\n");
	assert_string_equal(peer_log(&p.server), "closed 0\n");
	pair_close(&p);
}

static void
goaway_lets_what_runs_finish(void **state)
{
	struct h2_pair p;

	(void)state;
	pair_open(&p);
	pair_ask(&p, "GET", "http://ok.test/", "", BODY_NONE, 0);
	pair_run(&p);
	h2_goaway(p.server.h);
	h2_goaway(p.server.h);
	pair_run(&p);
	assert_true(h2_is_closing(p.client.h));
	assert_false(h2_may_request(p.client.h));
	assert_false(h2_is_over(p.server.h));
	pair_answer(&p, 200, "", BODY_NONE, 0);
	pair_run(&p);
	(void)peer_log(&p.server);
	assert_true(h2_is_over(p.server.h));
	assert_true(h2_is_over(p.client.h));
	assert_int_equal(p.client.st, ST_END);
	pair_close(&p);
}

/* Sent after our notice went and before it came: nobody did anything of it. */
static void
a_request_above_a_goaway_is_told_apart(void **state)
{
	struct h2_pair p;
	struct h2_stream *first;

	(void)state;
	pair_open(&p);
	pair_ask(&p, "GET", "http://ok.test/1", "", BODY_NONE, 0);
	pair_run(&p);
	first = p.client.stream;
	h2_goaway(p.server.h);
	(void)peer_send(&p.server, &p.client, 1000);
	(void)peer_send(&p.client, &p.server, 1000); /* the PING's answer */
	pair_run(&p);
	assert_non_null(first);
	pair_answer(&p, 200, "", BODY_NONE, 0);
	pair_run(&p);
	assert_string_equal(peer_log(&p.client), "200 [length 0] whole\nclosed 0\n");
	pair_close(&p);
}

static void
the_end_of_the_bytes_closes_what_runs(void **state)
{
	struct h2_pair p;

	(void)state;
	pair_open(&p);
	pair_ask(&p, "GET", "http://ok.test/1", "", BODY_NONE, 0);
	pair_ask(&p, "GET", "http://ok.test/2", "", BODY_NONE, 0);
	pair_run(&p);
	(void)peer_log(&p.server);
	h2_close(p.server.h);
	assert_string_equal(peer_log(&p.server), "closed 10\nclosed 10\n");
	assert_int_equal(h2_streams(p.server.h), 0);
	pair_close(&p);
}

static bool
has(struct str text, struct str part)
{
	return memmem(text.p, text.n, part.p, part.n) != NULL;
}

/* RFC 7541 section 7.1: such a value never lies in a table, nor comes as an index. */
static void
a_credential_is_never_indexed(void **state)
{
	struct h2_pair p;
	struct h2_limits wiping = pair_limits;
	const struct field last = { STR("x-key"), STR("\x01\x02\x03sec\x04ret"),
				    TOKEN_NONE };
	struct h2_out o;
	struct str v;

	(void)state;
	wiping.wipes = true;
	pair_open_limits(&p, &wiping, &pair_limits);
	for (size_t i = 0; i < 2; i++) {
		o = peer_asking(&p.client, "GET", "http://ok.test/",
				"Authorization: ~~~~~~~~\r\n");
		o.is_whole = true;
		o.last = &last;
		o.last_n = 1;
		assert_int_equal(h2_request(p.client.h, &o, &p, &p.client.stream),
				 ST_OK);
		v = h2_pending(p.client.h, 1000);
		/* Huffman codes are longer than these octets, so they are seen. */
		assert_true(has(v, last.value));
		assert_true(has(v, STR("~~~~~~~~")));
		/* 0001xxxx: a literal never indexed; authorization is static 23. */
		assert_true(has(v, STR("\x1f\x08\x08~~~~~~~~")));
		(void)peer_send(&p.client, &p.server, 1000);
	}
	pair_close(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_and_its_response_pass),
		cmocka_unit_test(a_whole_message_has_no_end_of_its_own),
		cmocka_unit_test(heads_before_the_response_pass),
		cmocka_unit_test(trailers_pass_but_not_those_that_steer),
		cmocka_unit_test(what_belongs_to_one_connection_does_not_pass),
		cmocka_unit_test(our_own_answer_keeps_what_a_proxy_says),
		cmocka_unit_test(a_websocket_is_an_upgrade_to_both_ends),
		cmocka_unit_test(a_websocket_that_is_refused_is_a_response),
		cmocka_unit_test(connect_names_its_target_only),
		cmocka_unit_test(a_reset_reaches_the_other_end),
		cmocka_unit_test(what_follows_an_early_answer_is_dropped),
		cmocka_unit_test(what_follows_an_early_answer_must_keep_its_length),
		cmocka_unit_test(a_request_that_goes_on_behind_its_answer_is_ended),
		cmocka_unit_test(a_request_that_is_long_behind_its_answer_is_ended),
		cmocka_unit_test(goaway_lets_what_runs_finish),
		cmocka_unit_test(a_request_above_a_goaway_is_told_apart),
		cmocka_unit_test(the_end_of_the_bytes_closes_what_runs),
		cmocka_unit_test(a_credential_is_never_indexed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
