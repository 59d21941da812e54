/* What the filter `scan` lets pass, on a real configuration and with no process. */
#include <stdlib.h>

#include "tests/unit/make_image.h"

#include "conf/placeholder.h"
#include "filters/exchange.h"
#include "proxy/base/enc.h"
#include "proxy/http/head.h"

static const char text[] = "connectors:\n"
			   "  - name: forge\n"
			   "    hosts: [forge.test]\n"
			   "    auth: {kind: bearer, secret: f, placeholder: "
			   "'ghp_********************', env: "
			   "FORGE_TOKEN}\n"
			   "    allow: [{methods: [GET, POST]}]\n"
			   "  - name: search\n"
			   "    hosts: [search.test]\n"
			   "    auth: {kind: query, secret: s, name: key, placeholder: "
			   "'****************'}\n"
			   "    allow: [{methods: [GET], query: [key, q]}]\n"
			   "  - name: bot\n"
			   "    hosts: [bot.test]\n"
			   "    auth: {kind: path, secret: b, prefix: /bot, "
			   "placeholder: '****************'}\n"
			   "    allow: [{methods: [GET]}]\n"
			   "  - name: login\n"
			   "    hosts: [login.test]\n"
			   "    auth: {kind: form, secret: l, name: pass, placeholder: "
			   "'****************'}\n"
			   "    allow: [{methods: [POST]}]\n"
			   "  - name: others\n"
			   "    hosts: [others.test]\n"
			   "    auth: {kind: header, secret: o, name: X-Key, "
			   "placeholder: '****************'}\n"
			   "    allow: [{methods: [GET]}]\n"
			   "policies:\n"
			   "  p: {connectors: [forge, search, bot, login], allow: "
			   "[{hosts: [open.test]}]}\n"
			   "  q: {allow: [{hosts: [open.test]}]}\n"
			   "sandboxes:\n"
			   "  - {id: demo, source: 10.0.0.1, policy: p}\n"
			   "resolver: {servers: [192.0.2.1]}\n";

static const struct sip_key key = { { 1, 2, 3 } };

struct scene {
	struct image *im;
	struct placeholders *all;
	struct arena arena;
	struct head head;
	struct who who;
	struct exchange x;
	unsigned alarms;
};

static enum status
host_record(struct exchange *x, enum filter_record what)
{
	struct scene *s = x->core;

	if (what == RECORD_ALARM) {
		s->alarms++;
		assert_int_equal(x->reason, ST_PLACEHOLDER);
		assert_true(x->detail.n > 0);
	}
	return ST_OK;
}

static const struct placeholders *
host_placeholders(struct exchange *x)
{
	struct scene *s = x->core;

	return s->all;
}

static const struct filter_host host = { .size = sizeof host,
					 .record = host_record,
					 .placeholders = host_placeholders };

static struct placeholders *
made_for(const struct scene *s, const char *policy, const char *id)
{
	struct placeholders *p = NULL;
	const struct who w = { .id = str_from(id),
			       .may.policy =
				       image_policy_by_name(s->im, str_from(policy)) };

	assert_int_equal(placeholders_new(s->im, &key, &w, &p), ST_OK);
	return p;
}

/* A request to a connector, or with NULL to a host that is simply allowed. */
static void
begin(struct scene *s, const char *connector)
{
	arena_done(&s->arena);
	arena_init(&s->arena, 1 << 20);
	head_init(&s->head, &s->arena);
	exchange_init(&s->x, &host, s);
	s->alarms = 0;
	s->x.image = s->im;
	s->x.who = &s->who;
	s->x.way = WAY_HTTP;
	s->x.request = &s->head;
	s->x.path = STR("/");
	s->x.action = ACTION_HTTP;
	s->x.connector = CONNECTOR_NONE;
	if (connector == NULL)
		return;
	s->x.action = ACTION_CONNECTOR;
	s->x.connector = image_connector_by_name(s->im, str_from(connector));
	assert_int_not_equal(s->x.connector, CONNECTOR_NONE);
}

static int
setup(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->im = make_image(text);
	s->all = made_for(s, "p", "demo");
	arena_init(&s->arena, 1 << 20);
	*state = s;
	return 0;
}

static int
teardown(void **state)
{
	struct scene *s = *state;

	placeholders_free(s->all);
	arena_done(&s->arena);
	image_close(s->im);
	free(s);
	return 0;
}

static struct str
placeholder_of(const struct scene *s, const char *connector)
{
	uint32_t want = image_connector_by_name(s->im, str_from(connector));
	size_t n;
	const struct placeholder *all = placeholders_all(s->all, &n);

	for (size_t i = 0; i < n; i++)
		if (all[i].connector == want)
			return all[i].text;
	fail_msg("%s has no placeholder", connector);
	return STR("");
}

static struct str
joined(struct scene *s, const char *before, struct str middle, const char *after)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 4096);
	buf_put(&b, str_from(before));
	buf_put(&b, middle);
	buf_put(&b, str_from(after));
	return arena_copy(&s->arena, str_of(b.p, b.len));
}

static void
expect(struct scene *s, enum verdict v)
{
	assert_int_equal(filter_scan.on_request(&s->x), v);
	assert_int_equal(s->alarms, v == VERDICT_DENY);
	if (v == VERDICT_DENY)
		assert_int_equal(s->x.reason, ST_PLACEHOLDER);
}

static void
a_sandbox_has_one_for_each_connector_of_its_policy(void **state)
{
	struct scene *s = *state;
	struct placeholders *other = made_for(s, "p", "else"),
			    *none = made_for(s, "q", "demo");
	size_t n;

	(void)placeholders_all(s->all, &n);
	assert_int_equal(n, 4);
	assert_true(str_starts(placeholder_of(s, "forge"), STR("ghp_")));
	assert_false(str_eq(placeholders_all(other, &n)[0].text,
			    placeholders_all(s->all, &n)[0].text));
	(void)placeholders_all(none, &n);
	assert_int_equal(n, 0);
	placeholders_free(other);
	placeholders_free(none);
}

static void
in_its_slot_it_passes(void **state)
{
	struct scene *s = *state;

	begin(s, "forge");
	assert_int_equal(head_add(&s->head, STR("authorization"),
				  joined(s, "token ", placeholder_of(s, "forge"), "")),
			 ST_OK);
	expect(s, VERDICT_NEXT);
	begin(s, "search");
	s->x.query = joined(s, "q=1&key=", placeholder_of(s, "search"), "&q=2");
	expect(s, VERDICT_NEXT);
	begin(s, "bot");
	s->x.path = joined(s, "/bot", placeholder_of(s, "bot"), "/send");
	expect(s, VERDICT_NEXT);
}

static void
basic_around_it_is_its_slot_too(void **state)
{
	struct scene *s = *state;
	CLEANUP(buf_done) struct buf b = { 0 };

	begin(s, "forge");
	buf_init(&b, 4096);
	buf_put(&b, STR("Basic "));
	enc_put_base64(&b, joined(s, "x:", placeholder_of(s, "forge"), ""));
	assert_int_equal(head_add(&s->head, STR("Authorization"), str_of(b.p, b.len)),
			 ST_OK);
	expect(s, VERDICT_NEXT);
	s->x.action = ACTION_HTTP;
	expect(s, VERDICT_DENY);
}

static void
anywhere_else_it_is_an_alarm(void **state)
{
	struct scene *s = *state;

	begin(s, NULL);
	s->x.path = joined(s, "/x/", placeholder_of(s, "bot"), "");
	expect(s, VERDICT_DENY);
	begin(s, "search");
	s->x.query = joined(s, "q=", placeholder_of(s, "search"), "&key=1");
	expect(s, VERDICT_DENY);
	begin(s, "search");
	s->x.query = joined(s, "k%65y=", placeholder_of(s, "search"), "");
	expect(s, VERDICT_DENY);
	begin(s, "bot");
	s->x.path = joined(s, "/bot1/", placeholder_of(s, "bot"), "");
	expect(s, VERDICT_DENY);
	begin(s, NULL);
	s->x.method = placeholder_of(s, "bot");
	expect(s, VERDICT_DENY);
	begin(s, "forge");
	assert_int_equal(head_add(&s->head, STR("user-agent"),
				  joined(s, "a/", placeholder_of(s, "forge"), "")),
			 ST_OK);
	expect(s, VERDICT_DENY);
	begin(s, NULL);
	assert_int_equal(head_add(&s->head, placeholder_of(s, "bot"), STR("x")), ST_OK);
	expect(s, VERDICT_DENY);
}

static void
in_the_slot_of_another_connector_it_is_an_alarm(void **state)
{
	struct scene *s = *state;

	begin(s, "forge");
	assert_int_equal(head_add(&s->head, STR("authorization"),
				  joined(s, "Bearer ", placeholder_of(s, "bot"), "")),
			 ST_OK);
	expect(s, VERDICT_DENY);
}

/* Shown piece by piece, what did not pass again in front of what came since. */
static enum verdict
body(struct scene *s, struct str whole, size_t piece)
{
	enum verdict v = VERDICT_NEXT;
	size_t passed = 0;

	for (size_t at = 0; v == VERDICT_NEXT && at < whole.n; at += piece) {
		size_t end = at + piece < whole.n ? at + piece : whole.n;
		struct str view = str_of(whole.p + passed, end - passed);
		size_t pass = view.n;

		v = filter_scan.on_body(&s->x, view, end == whole.n, &pass);
		assert_true(pass <= view.n);
		passed += pass;
	}
	if (v == VERDICT_NEXT)
		assert_int_equal(passed, whole.n);
	return v;
}

static void
in_a_body_it_is_found_in_every_form_at_every_cut(void **state)
{
	struct scene *s = *state;
	struct buf b[4];
	struct str ph = placeholder_of(s, "forge");

	for (size_t i = 0; i < COUNT_OF(b); i++)
		buf_init(&b[i], 4096);
	buf_putf(&b[0], "{\"a\": \"%.*s\"}", STR_ARG(ph));
	enc_put_hex(&b[1], ph);
	buf_put(&b[2], STR("data="));
	enc_put_base64(&b[2], joined(s, "x", ph, "y"));
	buf_putf(&b[3], "a=%%%02x%.*s&b=", (unsigned)ph.p[0], STR_ARG(str_skip(ph, 1)));
	for (size_t i = 0; i < COUNT_OF(b); i++) {
		struct str whole = str_of(b[i].p, b[i].len);

		for (size_t piece = 1; piece <= whole.n; piece++) {
			begin(s, "forge");
			expect(s, VERDICT_NEXT);
			assert_int_equal(body(s, whole, piece), VERDICT_DENY);
			assert_int_equal(s->alarms, 1);
		}
	}
	for (size_t i = 0; i < COUNT_OF(b); i++)
		buf_done(&b[i]);
}

static void
a_body_without_one_passes_whole(void **state)
{
	struct scene *s = *state;
	struct str ph = placeholder_of(s, "forge");

	begin(s, "forge");
	struct str whole = joined(s, "begin ", str_head(ph, ph.n - 1), "! ghp_");
	expect(s, VERDICT_NEXT);
	assert_true(s->x.needs & NEEDS_BODY);
	for (size_t piece = 1; piece <= whole.n; piece++)
		assert_int_equal(body(s, whole, piece), VERDICT_NEXT);
}

static void
a_form_may_hold_its_own_and_no_other(void **state)
{
	struct scene *s = *state;

	begin(s, "login");
	struct str own = joined(s, "user=x&pass=", placeholder_of(s, "login"), "&y=1");
	assert_int_equal(body(s, own, own.n), VERDICT_NEXT);
	assert_int_equal(body(s, own, 5), VERDICT_NEXT);
	CLEANUP(buf_done) struct buf both = { 0 };
	buf_init(&both, 4096);
	buf_put(&both, own);
	buf_put(&both, placeholder_of(s, "bot"));
	assert_int_equal(body(s, str_of(both.p, both.len), both.len), VERDICT_DENY);
	assert_int_equal(body(s, str_of(both.p, both.len), 5), VERDICT_DENY);
}

static void
a_trailer_field_is_no_slot(void **state)
{
	struct scene *s = *state;
	struct head trailers;
	size_t pass = 0;

	begin(s, "forge");
	head_init(&trailers, &s->arena);
	assert_int_equal(head_add(&trailers, STR("x-sum"), placeholder_of(s, "forge")),
			 ST_OK);
	s->x.trailers = &trailers;
	assert_int_equal(filter_scan.on_body(&s->x, STR(""), true, &pass),
			 VERDICT_DENY);
}

static void
who_has_none_is_not_looked_at(void **state)
{
	struct scene *s = *state;

	placeholders_free(s->all);
	s->all = made_for(s, "q", "demo");
	begin(s, NULL);
	expect(s, VERDICT_NEXT);
	assert_int_equal(s->x.needs, 0);
}

static void
nothing_passes_when_nobody_can_say_what_there_is(void **state)
{
	struct scene *s = *state;

	placeholders_free(s->all);
	s->all = NULL;
	begin(s, NULL);
	expect(s, VERDICT_FAIL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_sandbox_has_one_for_each_connector_of_its_policy),
		TEST(in_its_slot_it_passes),
		TEST(basic_around_it_is_its_slot_too),
		TEST(anywhere_else_it_is_an_alarm),
		TEST(in_the_slot_of_another_connector_it_is_an_alarm),
		TEST(in_a_body_it_is_found_in_every_form_at_every_cut),
		TEST(a_body_without_one_passes_whole),
		TEST(a_form_may_hold_its_own_and_no_other),
		TEST(a_trailer_field_is_no_slot),
		TEST(who_has_none_is_not_looked_at),
		TEST(nothing_passes_when_nobody_can_say_what_there_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
