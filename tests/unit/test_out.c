#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/flow/out.h"

struct pair {
	int ours, theirs;
};

static struct pair
pair_new(void)
{
	int ends[2];
	int small = 4096;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	(void)setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
	return (struct pair){ ends[0], ends[1] };
}

static size_t
drain(int fd, char *into, size_t max)
{
	size_t n = 0;
	ssize_t k;

	while (n < max && (k = read(fd, into + n, max - n)) > 0)
		n += (size_t)k;
	return n;
}

static void
parts_of_one_callback_arrive_in_order(void **state)
{
	struct pair p = pair_new();
	struct stream to;
	struct out o;
	struct gather g = { 0 };
	char got[64];

	(void)state;
	stream_plain(&to, p.ours);
	out_init(&o, &to);
	gather_begin(&g, &o);
	gather_copy(&g, STR("one "));
	gather_view(&g, STR("two "));
	gather_copy(&g, STR("three"));
	assert_int_equal(gather_end(&g, &o, 1), ST_OK);
	assert_int_equal(drain(p.theirs, got, sizeof got), 13);
	assert_memory_equal(got, "one two three", 13);
	assert_null(o.held.p);
	out_done(&o, &g);
	(void)close(p.ours);
	(void)close(p.theirs);
}

/* What a slow peer leaves is held, and nothing of it is lost, doubled or reordered. */
static void
what_a_slow_peer_leaves_is_held_and_sent_later(void **state)
{
	static char sent[200000], got[200000];
	struct pair p = pair_new();
	struct stream to;
	struct out o;
	struct gather g = { 0 };
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < sizeof sent; i++)
		sent[i] = (char)(i * 7 + i / 251);
	stream_plain(&to, p.ours);
	out_init(&o, &to);
	gather_begin(&g, &o);
	for (size_t at = 0; at < sizeof sent; at += 1000)
		if (at / 1000 % 2 == 0)
			gather_view(&g, str_of(sent + at, 1000));
		else
			gather_copy(&g, str_of(sent + at, 1000));
	assert_int_equal(gather_end(&g, &o, 5), ST_AGAIN);
	assert_true(out_is_blocked(&o));
	assert_int_equal(o.blocked_ms, 5);
	while (n < sizeof sent) {
		n += drain(p.theirs, got + n, sizeof got - n);
		assert_int_not_equal(out_resume(&o, 6), ST_END);
	}
	assert_memory_equal(got, sent, sizeof sent);
	assert_null(o.held.p); /* idle again: no memory */
	out_done(&o, &g);
	(void)close(p.ours);
	(void)close(p.theirs);
}

static void
a_peer_that_is_gone_ends_the_stream(void **state)
{
	struct pair p = pair_new();
	struct stream to;
	struct out o;
	struct gather g = { 0 };

	(void)state;
	stream_plain(&to, p.ours);
	out_init(&o, &to);
	(void)close(p.theirs);
	gather_begin(&g, &o);
	gather_view(&g, STR("x"));
	assert_int_equal(gather_end(&g, &o, 1), ST_END);
	out_done(&o, &g);
	(void)close(p.ours);
}

/* One gather serves all outs of a process: whose turn it is, the other's parts go. */
static void
parts_of_another_out_are_sent_before_it_takes_the_gather(void **state)
{
	struct pair p = pair_new(), q = pair_new();
	struct stream to, other;
	struct out o, r;
	struct gather g = { 0 };
	char got[64];

	(void)state;
	stream_plain(&to, p.ours);
	stream_plain(&other, q.ours);
	out_init(&o, &to);
	out_init(&r, &other);
	gather_begin(&g, &o);
	gather_view(&g, STR("mine"));
	gather_begin(&g, &r);
	gather_view(&g, STR("yours"));
	gather_begin(&g, &o);
	gather_view(&g, STR(" too"));
	assert_int_equal(gather_end(&g, &r, 1), ST_OK);
	assert_int_equal(gather_end(&g, &o, 1), ST_OK);
	assert_int_equal(drain(p.theirs, got, sizeof got), 8);
	assert_memory_equal(got, "mine too", 8);
	assert_int_equal(drain(q.theirs, got, sizeof got), 5);
	assert_memory_equal(got, "yours", 5);
	out_done(&o, &g);
	out_done(&r, &g);
	(void)close(p.ours);
	(void)close(p.theirs);
	(void)close(q.ours);
	(void)close(q.theirs);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_of_one_callback_arrive_in_order),
		cmocka_unit_test(
			parts_of_another_out_are_sent_before_it_takes_the_gather),
		cmocka_unit_test(what_a_slow_peer_leaves_is_held_and_sent_later),
		cmocka_unit_test(a_peer_that_is_gone_ends_the_stream),
	};

	return cmocka_run_group_tests_name("out", tests, NULL, NULL);
}
