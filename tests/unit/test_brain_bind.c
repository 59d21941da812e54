/* Sandboxes whose way out is looked for, many at once: as after a start of the gateway. */
#include <string.h>

#include "tests/unit/brain_locator.h"

enum { MANY = 150, AT_ONCE = 64, NAME = 32 };

static const char config[] =
	"policies: {p: {allow: []}}\n"
	"listeners: [{name: e, kind: opensandbox, address: '127.0.0.1:8090'}]\n"
	"servers:\n"
	"  - {name: strong, url: 'http://127.0.0.1:8083', key: k, tier: high, network: "
	"sg, "
	"endpoints: [127.0.0.0/8]}\n"
	"exec: {policy: p, docker: /d.sock}\n";

static struct fake_locator {
	uint32_t open[AT_ONCE];
	size_t open_n, asked;
	char first[NAME]; /* of those that came since it was cleared */
} the_locator;

static void
locator_heard(void *ctx, struct ask_line *line, struct ask_msg *m)
{
	struct fake_locator *f = &the_locator;
	struct wire w = wire_from(m->body);
	struct str sandbox = wire_str(&w);

	(void)ctx;
	(void)line;
	assert_int_equal(m->ask, ASK_LOCATE);
	assert_true(f->open_n < AT_ONCE);
	f->open[f->open_n++] = m->seq;
	f->asked++;
	if (f->first[0] == '\0')
		(void)snprintf(f->first, sizeof f->first, "%.*s", STR_ARG(sandbox));
}

/* Docker has none of them. */
static void
answer_all(void)
{
	struct fake_locator *f = &the_locator;
	const char no[2] = { 0, ST_NOT_FOUND };

	for (size_t i = 0; i < f->open_n; i++)
		assert_int_equal(ask_answer(*locator_end(), ASK_LOCATE, f->open[i],
					    str_of(no, sizeof no), NULL, 0),
				 ST_OK);
	f->open_n = 0;
}

static int
up(void **state)
{
	int rc = world_up_with(state, config);

	the_locator = (struct fake_locator){ 0 };
	locator_up(*state, locator_heard);
	return rc;
}

/* Of the server with a network; runs. */
static struct str
add(struct world *w, int n)
{
	struct brain_claim c = bench_claim("ann", "");
	char upstream[NAME];

	c.server = STR("strong");
	c.tier = EXEC_TIER_HIGH;
	(void)snprintf(upstream, sizeof upstream, "up-%d", n);
	struct brain_sandbox x = bench_take(&w->bench, &c, BRAIN_NEW);
	assert_int_equal(
		brain_store_made(w->bench.s, x.id, c.server, str_from(upstream), 0),
		ST_OK);
	return x.id;
}

static void
each_of_many_is_looked_for_and_never_more_than_may_be_at_once(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < MANY; i++)
		(void)add(w, i);
	brain_bind_all(w->c.brain);
	world_run(w);
	assert_true(the_locator.open_n > AT_ONCE / 2);
	for (uint64_t end = loop_now_ms(w->c.loop) + 20000;
	     the_locator.asked < MANY && loop_now_ms(w->c.loop) < end;) {
		answer_all();
		world_run(w);
		brain_bind_next(w->c.brain); /* as each second */
	}
	answer_all();
	world_run(w);
	assert_int_equal(the_locator.asked, MANY);
	assert_int_equal(w->c.brain->binds.len, 0);
	assert_int_equal(w->c.brain->binds_open, 0);
	/* The next round is another one. */
	brain_bind_all(w->c.brain);
	assert_int_equal(w->c.brain->binds.len, MANY);
}

static void
told(void *ctx, enum status st, const struct call_got *got)
{
	(void)got;
	*(enum status *)ctx = st;
}

static void
one_that_somebody_waits_for_comes_first(void **state)
{
	struct world *w = *state;
	enum status st = ST_OK;
	struct brain_wait wait = { .fn = told, .ctx = &st };

	for (int i = 0; i < MANY; i++)
		(void)add(w, i);
	brain_bind_all(w->c.brain);
	world_run(w);
	struct str id = add(w, MANY);
	assert_int_equal(brain_bind(w->c.brain, id, &wait), ST_OK);
	world_run(w);
	the_locator.first[0] = '\0';
	answer_all();
	world_run(w);
	assert_true(str_eq(str_from(the_locator.first), id));
	answer_all();
	world_run(w);
	assert_int_equal(st, ST_NOT_FOUND);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, up, locator_down)
	const struct CMUnitTest tests[] = {
		TEST(each_of_many_is_looked_for_and_never_more_than_may_be_at_once),
		TEST(one_that_somebody_waits_for_comes_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
