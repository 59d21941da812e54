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

/* The peer may be ahead by the window, and by no more until that has gone on. */
static void
only_what_has_gone_on_is_credited(void **state)
{
	struct h2_pair p;
	static char much[200000];

	(void)state;
	pair_open(&p);
	p.server.credits = false;
	pair_ask(&p, "POST", "http://ok.test/", "", BODY_CHUNKED, 0);
	assert_true(h2_is_clear(p.client.stream));
	assert_int_equal(h2_put(p.client.stream, str_of(much, sizeof much)), ST_OK);
	pair_run(&p);
	assert_int_equal(p.server.body, 65536);
	assert_false(h2_is_clear(p.client.stream));
	assert_int_equal(h2_hold(p.client.stream), ST_OK);
	assert_int_equal(h2_held(p.client.stream), sizeof much - 65536);
	h2_credit(p.server.stream, 40000);
	pair_run(&p);
	assert_int_equal(p.server.body, 65536 + 40000);
	h2_credit(p.server.stream, 65536);
	p.server.credits = true;
	end(&p.client);
	pair_run(&p);
	assert_int_equal(p.server.body, sizeof much);
	assert_int_equal(h2_went(p.client.stream), sizeof much);
	pair_close(&p);
}

static void
ninety_nine_that_stand_still_do_not_slow_one(void **state)
{
	struct h2_pair p;
	struct h2_stream *all[100];
	static char much[100000];

	(void)state;
	pair_open(&p);
	p.server.credits = false;
	for (size_t i = 0; i < COUNT_OF(all); i++) {
		assert_true(h2_may_request(p.client.h));
		pair_ask(&p, "POST", "http://ok.test/", "", BODY_CHUNKED, 0);
		all[i] = p.client.stream;
	}
	assert_false(h2_may_request(p.client.h));
	for (size_t i = 0; i < 99; i++) {
		assert_int_equal(h2_put(all[i], str_of(much, sizeof much)), ST_OK);
		assert_int_equal(h2_hold(all[i]), ST_OK);
	}
	pair_run(&p);
	assert_int_equal(p.server.body, 99 * 65536);
	p.server.credits = true;
	for (size_t i = 0; i < 20; i++) {
		assert_int_equal(h2_put(all[99], str_of(much, sizeof much)), ST_OK);
		pair_run(&p);
		assert_true(h2_is_clear(all[99]));
	}
	pair_close(&p);
}

static void
streams_take_turns(void **state)
{
	struct h2_pair p;
	static char much[60000];
	struct h2_stream *first;
	struct str v;

	(void)state;
	pair_open(&p);
	pair_ask(&p, "GET", "http://ok.test/", "", BODY_NONE, 0);
	pair_run(&p);
	first = p.server.stream;
	pair_answer(&p, 200, "", BODY_CHUNKED, 0);
	pair_ask(&p, "GET", "http://ok.test/", "", BODY_NONE, 0);
	pair_run(&p);
	pair_answer(&p, 200, "", BODY_CHUNKED, 0);
	pair_run(&p);
	assert_int_equal(h2_put(first, str_of(much, sizeof much)), ST_OK);
	put(&p.server, "small");
	v = h2_pending(p.server.h, 1000);
	assert_int_equal(h2_went(p.server.stream), 5);
	assert_true(h2_held(first) > 0);
	h2_sent(p.server.h, v.n);
	pair_close(&p);
}

static void
bytes_come_out_whole_under_a_slow_reader(void **state)
{
	struct h2_pair p;
	static char much[60000];
	struct str v;
	enum status st = ST_OK;

	(void)state;
	pair_open(&p);
	pair_ask(&p, "POST", "http://ok.test/", "", BODY_CHUNKED, 0);
	assert_int_equal(h2_put(p.client.stream, str_of(much, sizeof much)), ST_OK);
	while ((v = h2_pending(p.client.h, 1000)).n > 0 && st == ST_OK) {
		struct str part = str_head(v, 777);
		st = h2_feed(p.server.h, part, 1000);
		h2_sent(p.client.h, part.n);
	}
	assert_int_equal(st, ST_OK);
	assert_int_equal(p.server.body, sizeof much);
	pair_close(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_has_gone_on_is_credited),
		cmocka_unit_test(ninety_nine_that_stand_still_do_not_slow_one),
		cmocka_unit_test(streams_take_turns),
		cmocka_unit_test(bytes_come_out_whole_under_a_slow_reader),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
