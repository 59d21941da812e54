/* Labels of sandboxes: which are good, which are ours, and what stands for a user. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/control/brain_label.h"

static void
labels_are_of_kubernetes_form_and_never_ours(void **state)
{
	(void)state;
	assert_true(label_key_is_good(STR("name")));
	assert_true(label_key_is_good(STR("example.com/name")));
	assert_false(label_key_is_good(STR("")));
	assert_false(label_key_is_good(STR("/x")));
	assert_false(label_key_is_good(STR("x/")));
	assert_false(label_key_is_good(STR("a/b/c")));
	assert_false(label_key_is_good(STR("Example.com/name")));
	assert_false(label_key_is_good(STR("-x")));
	assert_true(label_value_is_good(STR("")));
	assert_false(label_value_is_good(STR("a b")));
	assert_false(label_value_is_good(STR("a-")));
	assert_true(label_is_reserved(STR("sandgate/user")));
	assert_true(label_is_reserved(STR("opensandbox.io/id")));
	assert_true(label_is_reserved(STR("x.opensandbox.io/id")));
	assert_false(label_is_reserved(STR("notopensandbox.io/id")));
	assert_false(label_is_reserved(STR("sandgate")));
}

static void
a_user_is_told_by_a_hash_that_tenants_do_not_share(void **state)
{
	CLEANUP(buf_done) struct buf a = { 0 }, b = { 0 };

	(void)state;
	buf_init(&a, LABEL_MAX);
	buf_init(&b, LABEL_MAX);
	label_put_user(&a, STR("t"), STR("u"));
	label_put_user(&b, STR("tu"), STR(""));
	assert_int_equal(a.st, ST_OK);
	assert_true(label_value_is_good(str_of(a.p, a.len)));
	assert_false(str_eq(str_of(a.p, a.len), str_of(b.p, b.len)));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(labels_are_of_kubernetes_form_and_never_ours),
		cmocka_unit_test(a_user_is_told_by_a_hash_that_tenants_do_not_share),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
