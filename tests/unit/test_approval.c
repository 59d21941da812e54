/* When the filter `approval` asks a person, and what about, on a real configuration. */
#include <stdlib.h>

#include "tests/unit/make_image.h"

#include "conf/policy.h"
#include "filters/exchange.h"
#include "proxy/http/head.h"

static const char text[] =
	"connectors:\n"
	"  - {name: bank, hosts: [bank.test], auth: {kind: passthrough}, approval: "
	"always,\n"
	"     allow: [{paths: [\"/**\"]}]}\n"
	"  - {name: forge, hosts: [forge.test], auth: {kind: passthrough}, approval: "
	"first,\n"
	"     allow: [{paths: [\"/**\"]}]}\n"
	"policies:\n"
	"  p:\n"
	"    connectors: [bank, forge]\n"
	"    allow:\n"
	"      - {hosts: [\"*.new.test\"], approval: first}\n"
	"      - {hosts: [old.new.test]}\n"
	"      - {hosts: [ssh.test], protocol: tcp, ports: [22], approval: first}\n"
	"  o: {mode: observe, allow: [{hosts: [x.test], approval: first}]}\n"
	"resolver: {servers: [192.0.2.1]}\n";

struct scene {
	struct image *im;
	struct arena arena;
	struct head head;
	struct who who;
	struct dest dest;
	struct exchange x;
	enum status st; /* of asking */
	unsigned asked, forgotten;
	char what[32], words[256];
};

static enum status
take(struct exchange *x, enum filter_budget what)
{
	(void)x;
	(void)what;
	return ST_OK;
}

static enum status
put_row(struct exchange *x, enum filter_record what)
{
	(void)x;
	(void)what;
	return ST_OK;
}

static enum status
ask_person(struct exchange *x, const struct filter_question *q)
{
	struct scene *s = x->core;

	s->asked++;
	(void)snprintf(s->what, sizeof s->what, "%.*s", STR_ARG(q->what));
	(void)snprintf(s->words, sizeof s->words, "%.*s", STR_ARG(q->text));
	assert_true(str_starts(q->why, STR("t.yaml:")));
	if (s->st == ST_OK)
		x->person = s;
	return s->st;
}

static void
forget_person(struct exchange *x)
{
	struct scene *s = x->core;

	s->forgotten++;
	x->person = NULL;
}

static const struct filter_host host = { .size = sizeof host,
					 .take = take,
					 .record = put_row,
					 .ask_person = ask_person,
					 .forget_person = forget_person };

static int
setup(void **state)
{
	struct scene *s = calloc(1, sizeof *s);

	assert_non_null(s);
	s->im = make_image(text);
	arena_init(&s->arena, 1 << 20);
	head_init(&s->head, &s->arena);
	*state = s;
	return 0;
}

static int
teardown(void **state)
{
	struct scene *s = *state;

	arena_done(&s->arena);
	image_close(s->im);
	free(s);
	return 0;
}

/* What the policy says of it, as the filter before this one leaves it. */
static void
begin(struct scene *s, const char *policy, enum policy_way way, const char *at)
{
	struct policy_question q = { .dest = &s->dest, .way = way, .is_tls = true };
	struct policy_answer a;

	assert_int_equal(dest_from_authority(str_from(at), 0, &s->dest), ST_OK);
	s->who = (struct who){ .handle = 1,
			       .may.policy =
				       image_policy_by_name(s->im, str_from(policy)) };
	exchange_init(&s->x, &host, s);
	s->x.image = s->im;
	s->x.who = &s->who;
	s->x.dest = &s->dest;
	s->x.way = way;
	s->x.method = q.method = STR("POST");
	s->x.path = q.path = STR("/pay");
	s->x.query = q.query = STR("to=me");
	s->x.request = &s->head;
	q.may = s->who.may;
	policy_judge(s->im, &q, &a);
	s->x.action = a.action;
	s->x.rule = a.rule;
	s->x.connector = a.connector;
	s->x.observed = a.observed;
	s->asked = 0;
}

static void
expect(struct scene *s, filter_phase_fn fn, const char *what, const char *words)
{
	assert_int_equal(fn(&s->x), what == NULL ? VERDICT_NEXT : VERDICT_HOLD);
	assert_int_equal(s->asked, what != NULL);
	if (what == NULL)
		return;
	assert_string_equal(s->what, what);
	assert_string_equal(s->words, words);
}

static void
each_request_of_a_connector_or_its_first_use(void **state)
{
	struct scene *s = *state;

	begin(s, "p", WAY_HTTP, "bank.test:443");
	expect(s, filter_approval.on_request, "request",
	       "POST bank bank.test:443/pay?to=me");
	begin(s, "p", WAY_HTTP, "forge.test:443");
	expect(s, filter_approval.on_request, "connector", "forge");
}

static void
a_host_is_asked_about_however_it_is_used(void **state)
{
	struct scene *s = *state;

	begin(s, "p", WAY_HTTP, "a.new.test:443");
	expect(s, filter_approval.on_request, "host", "a.new.test:443");
	begin(s, "p", WAY_TLS, "a.new.test:443");
	expect(s, filter_approval.on_dial, "host", "a.new.test:443");
	begin(s, "p", WAY_TCP, "ssh.test:22");
	expect(s, filter_approval.on_dial, "host", "ssh.test:22");
}

static void
a_rule_that_asks_nobody_decides_before_one_that_does(void **state)
{
	struct scene *s = *state;

	begin(s, "p", WAY_TLS, "old.new.test:443");
	expect(s, filter_approval.on_dial, NULL, NULL);
	begin(s, "p", WAY_HTTP, "old.new.test:443");
	expect(s, filter_approval.on_request, NULL, NULL);
}

static void
what_is_only_observed_asks_nobody(void **state)
{
	struct scene *s = *state;

	begin(s, "o", WAY_TLS, "other.test:443");
	assert_true(s->x.observed);
	expect(s, filter_approval.on_dial, NULL, NULL);
	begin(s, "o", WAY_TLS, "x.test:443");
	expect(s, filter_approval.on_dial, "host", "x.test:443");
}

static void
whom_nobody_can_ask_is_refused(void **state)
{
	struct scene *s = *state;

	s->st = ST_NO_CONTROL;
	begin(s, "p", WAY_TLS, "a.new.test:443");
	assert_int_equal(filter_approval.on_dial(&s->x), VERDICT_DENY);
	assert_int_equal(s->x.reason, ST_NO_CONTROL);
	exchange_done(&s->x);
	assert_int_equal(s->forgotten, 0);
}

static void
a_policy_that_came_meanwhile_lets_nothing_pass_unasked(void **state)
{
	struct scene *s = *state;

	begin(s, "p", WAY_TLS, "a.new.test:443");
	assert_int_equal(filter_approval.on_open(&s->x), VERDICT_DENY);
	assert_int_equal(s->x.reason, ST_RELOADED);
	begin(s, "p", WAY_TLS, "a.new.test:443");
	s->x.approval = STR("approval 1 allowed by bob");
	assert_int_equal(filter_approval.on_open(&s->x), VERDICT_NEXT);
}

static void
the_end_forgets_who_was_asked(void **state)
{
	struct scene *s = *state;

	begin(s, "p", WAY_TLS, "a.new.test:443");
	expect(s, filter_approval.on_dial, "host", "a.new.test:443");
	exchange_done(&s->x);
	assert_int_equal(s->forgotten, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_request_of_a_connector_or_its_first_use),
		TEST(a_host_is_asked_about_however_it_is_used),
		TEST(a_rule_that_asks_nobody_decides_before_one_that_does),
		TEST(what_is_only_observed_asks_nobody),
		TEST(whom_nobody_can_ask_is_refused),
		TEST(a_policy_that_came_meanwhile_lets_nothing_pass_unasked),
		TEST(the_end_forgets_who_was_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
