#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/io/vault_op.h"

static void
round_trip(const struct vault_ask *a, enum status expected)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct vault_ask back = { 0 };
	struct str body;

	buf_init(&b, VAULT_ASK_MAX);
	vault_ask_put(&b, a);
	assert_int_equal(buf_finish(&b, &body), ST_OK);
	assert_int_equal(vault_ask_get(body, &back), expected);
	if (expected != ST_OK)
		return;
	assert_int_equal(back.op, a->op);
	assert_true(str_eq(back.name, a->name) && str_eq(back.tenant, a->tenant) &&
		    str_eq(back.connector, a->connector) && str_eq(back.user, a->user));
	assert_int_equal(back.kind, a->kind);
	assert_int_equal(back.expires, a->expires);
	assert_int_equal(back.seconds, a->seconds);
	for (size_t n = 0; n < body.n; n++)
		assert_int_equal(vault_ask_get(str_head(body, n), &back),
				 ST_BAD_MESSAGE);
}

static void
what_an_op_reads_arrives(void **state)
{
	(void)state;
	round_trip(&(struct vault_ask){ .op = VAULT_OP_PUT,
					.name = STR("users/alice/jira"),
					.tenant = STR("acme"),
					.connector = STR("jira"),
					.user = STR("alice"),
					.kind = VAULT_PEM,
					.expires = 2000000000 },
		   ST_OK);
	round_trip(&(struct vault_ask){ .op = VAULT_OP_ROTATE,
					.name = STR("a"),
					.seconds = 60 },
		   ST_OK);
	round_trip(&(struct vault_ask){ .op = VAULT_OP_STATUS }, ST_OK);
	round_trip(&(struct vault_ask){ .op = VAULT_OP_LIST }, ST_OK);
	round_trip(&(struct vault_ask){ .op = VAULT_OP_CA_ROTATE, .seconds = 86400 },
		   ST_OK);
}

static void
what_an_op_does_not_read_is_refused(void **state)
{
	(void)state;
	round_trip(&(struct vault_ask){ .op = VAULT_OP_SEAL, .name = STR("a") },
		   ST_BAD_MESSAGE);
	round_trip(&(struct vault_ask){ .op = VAULT_OP_RM,
					.name = STR("a"),
					.seconds = 1 },
		   ST_BAD_MESSAGE);
	round_trip(&(struct vault_ask){ .op = VAULT_OP_STATUS, .tenant = STR("t") },
		   ST_BAD_MESSAGE);
	round_trip(&(struct vault_ask){ .op = VAULT_OP_ROTATE,
					.name = STR("a"),
					.user = STR("u") },
		   ST_BAD_MESSAGE);
	round_trip(&(struct vault_ask){ .op = VAULT_OP_COUNT }, ST_BAD_MESSAGE);
}

static void
a_name_is_parts_between_slashes(void **state)
{
	static const char *const bad[] = { "",
					   "/",
					   "a/",
					   "/a",
					   "a//b",
					   "a b",
					   "a\n",
					   "@ca",
					   "é",
					   "users/{user}/x",
					   "1/2/3/4/5/6/7/8/9" };

	(void)state;
	assert_true(vault_is_name(STR("tracker/token")));
	assert_true(vault_is_name(STR("1/2/3/4/5/6/7/8")));
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		assert_false(vault_is_name(str_from(bad[i])));
		round_trip(&(struct vault_ask){ .op = VAULT_OP_RM,
						.name = str_from(bad[i]) },
			   ST_BAD_MESSAGE);
	}
}

static void
each_word_is_one_op(void **state)
{
	enum vault_op back;

	(void)state;
	for (enum vault_op op = VAULT_OP_STATUS; op < VAULT_OP_COUNT; op++) {
		assert_true(vault_op_by_word(str_from(vault_op_word(op)), &back));
		assert_int_equal(back, op);
	}
	assert_false(vault_op_by_word(STR("get"), &back));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_an_op_reads_arrives),
		cmocka_unit_test(what_an_op_does_not_read_is_refused),
		cmocka_unit_test(a_name_is_parts_between_slashes),
		cmocka_unit_test(each_word_is_one_op),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
