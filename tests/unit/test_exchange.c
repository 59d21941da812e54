#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "filters/exchange.h"

struct scene {
	unsigned takes, starts, ends;
	enum status take, record;
};

static enum status
host_take(struct exchange *x, enum filter_budget what)
{
	struct scene *s = x->core;

	(void)what;
	s->takes++;
	return s->take;
}

static enum status
host_record(struct exchange *x, enum filter_record what)
{
	struct scene *s = x->core;

	s->starts += what == RECORD_START;
	s->ends += what == RECORD_END;
	return s->record;
}

static void
host_resume(struct exchange *x)
{
	(void)x;
}

static const struct filter_host host = { .size = sizeof host,
					 .take = host_take,
					 .record = host_record,
					 .resume = host_resume };
static const struct who somebody = { .handle = 1, .may.policy = POLICY_NONE };

static struct exchange
some_exchange(struct scene *s)
{
	struct exchange x;

	exchange_init(&x, &host, s);
	x.who = &somebody;
	return x;
}

static void
the_unknown_are_denied_before_anything_is_taken(void **state)
{
	struct scene s = { 0 };
	struct exchange x = some_exchange(&s);

	(void)state;
	x.who = NULL;
	assert_int_equal(exchange_run(&x, PHASE_CONNECTION), VERDICT_DENY);
	assert_int_equal(x.reason, ST_UNKNOWN_SANDBOX);
	assert_int_equal(s.takes, 0);
}

static void
the_worst_verdict_latches(void **state)
{
	struct scene s = { .take = ST_LIMIT_RATE };
	struct exchange x = some_exchange(&s);

	(void)state;
	assert_int_equal(exchange_run(&x, PHASE_CONNECTION), VERDICT_DENY);
	s.take = ST_OK;
	assert_int_equal(exchange_run(&x, PHASE_CONNECTION), VERDICT_DENY);
	assert_int_equal(exchange_run(&x, PHASE_OPEN), VERDICT_DENY);
	assert_int_equal(x.reason, ST_LIMIT_RATE);
	assert_int_equal(s.takes, 1);
	assert_int_equal(s.starts, 0);
}

static void
no_row_is_a_failure_and_leaves_no_end(void **state)
{
	struct scene s = { .record = ST_NO_LEDGER };
	struct exchange x = some_exchange(&s);

	(void)state;
	assert_int_equal(exchange_run(&x, PHASE_OPEN), VERDICT_FAIL);
	assert_int_equal(x.reason, ST_NO_LEDGER);
	exchange_done(&x);
	assert_int_equal(s.ends, 0);
}

static void
what_was_started_is_ended_once(void **state)
{
	struct scene s = { 0 };
	struct exchange x = some_exchange(&s);

	(void)state;
	assert_int_equal(exchange_run(&x, PHASE_OPEN), VERDICT_NEXT);
	exchange_done(&x);
	exchange_done(&x);
	assert_int_equal(s.starts, 1);
	assert_int_equal(s.ends, 1);
}

static void
bodies_that_nobody_reads_pass_whole(void **state)
{
	struct scene s = { 0 };
	struct exchange x = some_exchange(&s);
	size_t pass = 0;

	(void)state;
	assert_int_equal(exchange_body(&x, false, STR("12345"), false, &pass),
			 VERDICT_NEXT);
	assert_int_equal(pass, 5);
	assert_int_equal(exchange_body(&x, true, STR(""), true, &pass), VERDICT_NEXT);
	assert_int_equal(pass, 0);
	assert_int_equal(exchange_needs() & (NEEDS_BODY | NEEDS_TUNNEL_BYTES), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_unknown_are_denied_before_anything_is_taken),
		cmocka_unit_test(the_worst_verdict_latches),
		cmocka_unit_test(no_row_is_a_failure_and_leaves_no_end),
		cmocka_unit_test(what_was_started_is_ended_once),
		cmocka_unit_test(bodies_that_nobody_reads_pass_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
