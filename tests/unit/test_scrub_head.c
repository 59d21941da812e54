#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "connectors/scrub_head.h"

static struct str
value_of(const struct head *h, const char *name)
{
	const struct field *f = head_find(h, str_from(name));

	assert_non_null(f);
	return f->value;
}

static void
a_request_asks_for_what_can_be_read(void **state)
{
	static const char *const gone[] = { "range",
					    "if-range",
					    "a-im",
					    "grpc-accept-encoding",
					    "connect-accept-encoding",
					    "accept_encoding",
					    "sec-websocket-extensions" };
	struct arena a;
	struct head h;

	(void)state;
	arena_init(&a, 1 << 16);
	head_init(&h, &a);
	for (size_t i = 0; i < COUNT_OF(gone); i++)
		assert_int_equal(head_add(&h, str_from(gone[i]), STR("x")), ST_OK);
	assert_int_equal(head_add(&h, STR("Accept-Encoding"), STR("gzip, br")), ST_OK);
	assert_int_equal(head_add(&h, STR("accept-encoding"), STR("zstd")), ST_OK);
	assert_int_equal(scrub_request_head(&h), ST_OK);
	for (size_t i = 0; i < COUNT_OF(gone); i++)
		assert_null(head_find(&h, str_from(gone[i])));
	assert_int_equal(head_count(&h, TOKEN_ACCEPT_ENCODING), 1);
	assert_true(str_eq(value_of(&h, "accept-encoding"), STR("identity")));
	arena_done(&a);
}

static void
an_encoded_answer_loses_its_coding_and_its_length(void **state)
{
	struct arena a;
	struct head h;
	struct str codings;

	(void)state;
	arena_init(&a, 1 << 16);
	head_init(&h, &a);
	h.status = 200;
	h.body = BODY_LENGTH;
	h.has_length = true;
	assert_int_equal(head_add(&h, STR("Content-Encoding"), STR("gzip")), ST_OK);
	assert_int_equal(head_add(&h, STR("content-length"), STR("12")), ST_OK);
	assert_int_equal(head_add(&h, STR("content-encoding"), STR("br")), ST_OK);
	assert_int_equal(scrub_response_head(&h, &codings), ST_OK);
	assert_true(str_eq(codings, STR("gzip,br")));
	assert_int_equal(h.fields_len, 0);
	assert_int_equal(h.body, BODY_CHUNKED);
	assert_false(h.has_length);
	arena_done(&a);
}

static void
a_plain_answer_stays_and_a_part_is_refused(void **state)
{
	struct arena a;
	struct head h;
	struct str codings;

	(void)state;
	arena_init(&a, 1 << 16);
	head_init(&h, &a);
	h.status = 200;
	h.body = BODY_LENGTH;
	h.has_length = true;
	assert_int_equal(head_add(&h, STR("content-encoding"), STR("identity")), ST_OK);
	assert_int_equal(head_add(&h, STR("content-length"), STR("12")), ST_OK);
	assert_int_equal(scrub_response_head(&h, &codings), ST_OK);
	assert_null(codings.p);
	assert_int_equal(h.fields_len, 1);
	assert_true(h.has_length);
	h.status = 206;
	assert_int_equal(scrub_response_head(&h, &codings), ST_UPSTREAM_BAD);
	arena_done(&a);
}

static void
an_answer_whose_messages_are_compressed_is_refused(void **state)
{
	static const struct {
		uint16_t status;
		const char *name, *value;
		enum status st;
	} rows[] = {
		{ 200, "grpc-encoding", "gzip", ST_UPSTREAM_BAD },
		{ 200, "Grpc-Encoding", "identity", ST_OK },
		{ 200, "connect-content-encoding", "br", ST_UPSTREAM_BAD },
		{ 101, "sec-websocket-extensions", "permessage-deflate",
		  ST_UPSTREAM_BAD },
		{ 101, "sec-websocket-protocol", "chat", ST_OK },
		{ 226, "im", "diffe", ST_UPSTREAM_BAD },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct str codings = { 0 };
		struct arena a;
		struct head h;

		arena_init(&a, 1 << 16);
		head_init(&h, &a);
		h.status = rows[i].status;
		assert_int_equal(
			head_add(&h, str_from(rows[i].name), str_from(rows[i].value)),
			ST_OK);
		if (scrub_response_head(&h, &codings) != rows[i].st)
			fail_msg("%s: %s", rows[i].name, rows[i].value);
		arena_done(&a);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_asks_for_what_can_be_read),
		cmocka_unit_test(an_encoded_answer_loses_its_coding_and_its_length),
		cmocka_unit_test(a_plain_answer_stays_and_a_part_is_refused),
		cmocka_unit_test(an_answer_whose_messages_are_compressed_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
