#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/http/hello.h"

/* A ClientHello in parts: the extensions are given, the rest is made around them. */
struct made {
	struct buf exts, message, wire;
};

static void
made_init(struct made *m)
{
	buf_init(&m->exts, 200000);
	buf_init(&m->message, 200000);
	buf_init(&m->wire, 400000);
}

static void
made_done(struct made *m)
{
	buf_done(&m->exts);
	buf_done(&m->message);
	buf_done(&m->wire);
}

static void
add_ext(struct made *m, uint16_t type, struct str data)
{
	buf_put_u16(&m->exts, type);
	buf_put_u16(&m->exts, (uint16_t)data.n);
	buf_put(&m->exts, data);
}

static void
add_name(struct made *m, struct str name)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 1000);
	buf_put_u16(&b, (uint16_t)(name.n + 3));
	buf_put_u8(&b, 0);
	buf_put_u16(&b, (uint16_t)name.n);
	buf_put(&b, name);
	add_ext(m, 0, str_of(b.p, b.len));
}

static void
add_versions(struct made *m)
{
	add_ext(m, 43, STR("\x06\x1a\x1a\x03\x04\x03\x03"));
}

/* The message around the extensions. */
static void
make_message(struct made *m)
{
	size_t body = 2 + 32 + 1 + 2 + 4 + 2 + 2 + m->exts.len;

	buf_clear(&m->message);
	buf_put_u8(&m->message, 1);
	buf_put_u8(&m->message, (uint8_t)(body >> 16));
	buf_put_u16(&m->message, (uint16_t)body);
	buf_put_u16(&m->message, 0x0303);
	buf_put(&m->message, STR("0123456789abcdef0123456789abcdef"));
	buf_put_u8(&m->message, 0);
	buf_put_u16(&m->message, 4);
	buf_put_u32(&m->message, 0x13011302);
	buf_put_u16(&m->message, 0x0100);
	buf_put_u16(&m->message, (uint16_t)m->exts.len);
	buf_put(&m->message, str_of(m->exts.p, m->exts.len));
}

static void
add_record(struct made *m, struct str content)
{
	buf_put(&m->wire, STR("\x16\x03\x01"));
	buf_put_u16(&m->wire, (uint16_t)content.n);
	buf_put(&m->wire, content);
}

/* Cut into records of so many bytes. */
static struct str
make_wire(struct made *m, size_t record)
{
	struct str rest;

	make_message(m);
	buf_clear(&m->wire);
	rest = str_of(m->message.p, m->message.len);
	while (rest.n > 0) {
		add_record(m, str_head(rest, record));
		rest = str_skip(rest, record);
	}
	return str_of(m->wire.p, m->wire.len);
}

static enum status
peek(struct str wire, struct hello *h)
{
	struct buf scratch;
	enum status st;

	buf_init(&scratch, HELLO_MAX);
	st = hello_peek(wire, &scratch, h);
	buf_done(&scratch);
	return st;
}

static enum status
peek_exts(struct made *m)
{
	struct hello h;

	return peek(make_wire(m, 16384), &h);
}

#define MADE_M()                                                                       \
	CLEANUP(made_done) struct made m = { 0 };                                      \
	made_init(&m);                                                                 \
	(void)state

static void
an_ordinary_hello_in_one_record_costs_no_memory(void **state)
{
	MADE_M();
	struct buf scratch;
	struct hello h;
	struct str wire;

	add_ext(&m, 0x2a2a, STR(""));
	add_name(&m, STR("Api.Example.test"));
	add_ext(&m, 16, STR("\x00\x0c\x02h2\x08http/1.1"));
	add_versions(&m);
	wire = make_wire(&m, 16384);
	buf_init(&scratch, HELLO_MAX);
	assert_int_equal(hello_peek(wire, &scratch, &h), ST_OK);
	assert_null(scratch.p);
	assert_true(h.has_name && str_eq(h.name, STR("Api.Example.test")));
	assert_true(h.has_alpn && h.offers_tls13 && !h.has_ech && !h.has_early_data);
	assert_int_equal(h.wire_size, wire.n);
	assert_int_equal(hello_alpn_check(&h), ST_OK);
}

static void
every_prefix_is_incomplete_and_every_cut_into_records_gives_the_same(void **state)
{
	MADE_M();
	static const size_t cuts[] = { 1, 2, 3, 5, 7, 50, 100 };

	add_name(&m, STR("ok.example.test"));
	add_versions(&m);
	for (size_t i = 0; i < COUNT_OF(cuts); i++) {
		struct str wire = make_wire(&m, cuts[i]);
		CLEANUP(buf_done) struct buf scratch = { 0 };
		struct hello h;

		buf_init(&scratch, HELLO_MAX);
		for (size_t n = 0; n < wire.n; n++)
			assert_int_equal(hello_peek(str_head(wire, n), &scratch, &h),
					 ST_AGAIN);
		assert_int_equal(hello_peek(wire, &scratch, &h), ST_OK);
		assert_true(str_eq(h.name, STR("ok.example.test")));
		assert_int_equal(h.wire_size, wire.n);
	}
}

static void
early_data_behind_the_hello_is_not_part_of_it(void **state)
{
	MADE_M();
	struct hello h;
	struct str wire;
	size_t n;

	add_name(&m, STR("ok.example.test"));
	add_ext(&m, 42, STR(""));
	add_versions(&m);
	n = make_wire(&m, 60).n;
	buf_put(&m.wire, STR("\x14\x03\x03\x00\x01\x01\x17\x03\x03\x00\x02zz"));
	wire = str_of(m.wire.p, m.wire.len);
	assert_int_equal(peek(wire, &h), ST_OK);
	assert_true(h.has_early_data);
	assert_int_equal(h.wire_size, n);
}

static void
a_second_message_in_the_same_record_is_refused(void **state)
{
	MADE_M();
	struct hello h;

	add_name(&m, STR("ok.example.test"));
	add_versions(&m);
	make_message(&m);
	buf_put_u8(&m.message, 1);
	add_record(&m, str_of(m.message.p, m.message.len));
	assert_int_equal(peek(str_of(m.wire.p, m.wire.len), &h), ST_HELLO_BAD);
}

static void
a_few_empty_records_pass_and_many_do_not(void **state)
{
	struct hello h;

	for (size_t empties = 0; empties < 12; empties++) {
		MADE_M();
		add_name(&m, STR("ok.example.test"));
		add_versions(&m);
		make_message(&m);
		for (size_t i = 0; i < empties; i++)
			add_record(&m, STR(""));
		add_record(&m, str_of(m.message.p, m.message.len));
		assert_int_equal(peek(str_of(m.wire.p, m.wire.len), &h),
				 empties <= HELLO_EMPTY_MAX ? ST_OK
							    : ST_HELLO_TOO_LARGE);
	}
}

static void
large_hellos_pass_up_to_the_cap_and_not_beyond(void **state)
{
	static char zeros[65000];
	struct hello h;

	for (size_t i = 0; i < 2; i++) {
		MADE_M();
		add_ext(&m, 21, str_of(zeros, i == 0 ? 60000 : 65000));
		add_name(&m, STR("ok.example.test"));
		add_versions(&m);
		if (i == 1)
			add_ext(&m, 22, str_of(zeros, 300));
		assert_int_equal(peek(make_wire(&m, 16384), &h), ST_OK);
		assert_int_equal(peek(make_wire(&m, 512), &h), ST_OK);
	}
	/* The length alone decides: nothing more needs to arrive. */
	assert_int_equal(peek(STR("\x16\x03\x01\x40\x00\x01\x01\x00\x00"), &h),
			 ST_HELLO_TOO_LARGE);
	assert_int_equal(peek(STR("\x16\x03\x01\x40\x00\x01\x00\xff\xfc"), &h),
			 ST_AGAIN);
}

static void
more_records_than_the_cap_are_refused(void **state)
{
	MADE_M();
	static char zeros[300];
	struct hello h;

	add_ext(&m, 21, str_of(zeros, 300));
	add_name(&m, STR("ok.example.test"));
	add_versions(&m);
	assert_int_equal(peek(make_wire(&m, 1), &h), ST_HELLO_TOO_LARGE);
	assert_int_equal(peek(make_wire(&m, 2), &h), ST_OK);
}

static void
server_names_that_a_server_may_read_otherwise_are_refused(void **state)
{
	static const struct str bad[] = {
		{ "", 0 },                     /* no list */
		{ "\0\0", 2 },                 /* empty list */
		{ "\0\3\0\0\0", 5 },           /* empty name */
		{ "\0\10\0\0\1a\0\0\1b", 10 }, /* two names */
		{ "\0\4\1\0\1a", 6 },          /* another type */
		{ "\0\4\0\0\1a!", 7 },         /* bytes behind the list */
		{ "\0\5\0\0\1a!", 7 },         /* bytes in the list */
		{ "\0\6\0\0\3a\0b", 8 },       /* NUL */
		{ "\0\6\0\0\4abc", 8 },        /* longer than there is */
	};

	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		MADE_M();
		add_ext(&m, 0, bad[i]);
		add_versions(&m);
		assert_int_equal(peek_exts(&m), ST_HELLO_BAD);
	}
}

static void
a_name_of_255_bytes_is_the_longest(void **state)
{
	static char name[256];

	memset(name, 'a', sizeof(name));
	for (size_t n = 255; n <= 256; n++) {
		MADE_M();
		add_name(&m, str_of(name, n));
		add_versions(&m);
		assert_int_equal(peek_exts(&m), n == 255 ? ST_OK : ST_HELLO_BAD);
	}
}

static void
an_extension_that_comes_twice_is_refused(void **state)
{
	static const uint16_t types[] = { 0, 16, 43, 0x0a0a, 0x1234 };

	for (size_t i = 0; i < COUNT_OF(types); i++) {
		MADE_M();
		add_name(&m, STR("ok.example.test"));
		add_versions(&m);
		add_ext(&m, 16, STR("\x00\x03\x02h2"));
		add_ext(&m, 0x0a0a, STR(""));
		add_ext(&m, 0x1234, STR(""));
		assert_int_equal(peek_exts(&m), ST_OK);
		if (types[i] == 0)
			add_name(&m, STR("ok.example.test"));
		else if (types[i] == 43)
			add_versions(&m);
		else
			add_ext(&m, types[i], STR("\x00\x03\x02h2"));
		assert_int_equal(peek_exts(&m), ST_HELLO_BAD);
	}
}

static void
ech_in_any_form_is_seen(void **state)
{
	static const uint16_t types[] = { 0xfe0d, 0xfe08, 0xffce };
	struct hello h;

	for (size_t i = 0; i < COUNT_OF(types); i++) {
		MADE_M();
		add_name(&m, STR("outer.example.test"));
		add_ext(&m, types[i], STR("\x00 anything"));
		add_versions(&m);
		assert_int_equal(peek(make_wire(&m, 16384), &h), ST_OK);
		assert_true(h.has_ech);
	}
}

static enum status
check_alpn(struct str list)
{
	struct hello h = { .has_alpn = true, .alpn = list };

	return hello_alpn_check(&h);
}

static void
only_http_may_be_offered_to_a_tunnel(void **state)
{
	struct hello none = { 0 };

	(void)state;
	assert_int_equal(hello_alpn_check(&none), ST_OK);
	assert_int_equal(check_alpn(STR("\x02h2\x08http/1.1")), ST_OK);
	assert_int_equal(check_alpn(STR("\x02\x1a\x1a\x02h2")), ST_OK);
	assert_int_equal(check_alpn(STR("\x08http/1.0")), ST_OK);
	assert_int_equal(check_alpn(STR("\x08http/0.9")), ST_ALPN);
	assert_int_equal(check_alpn(STR("\x02\x1a\x1a")), ST_ALPN);
	assert_int_equal(check_alpn(STR("\x0a"
					"acme-tls/1")),
			 ST_ALPN);
	assert_int_equal(check_alpn(STR("\x02h2\x03"
					"ftp")),
			 ST_ALPN);
	assert_int_equal(check_alpn(STR("\x04smtp")), ST_ALPN);
	assert_int_equal(check_alpn(STR("\x02H2")), ST_ALPN);
}

static void
malformed_alpn_is_refused(void **state)
{
	static const struct str bad[] = {
		{ "", 0 },
		{ "\x00\x00", 2 },
		{ "\x00\x01\x00", 3 },
		{ "\x00\x04\x02h2\x00", 6 },
		{ "\x00\x03\x03h2", 5 },
		{ "\x00\x03\x02h2!", 6 },
	};

	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		MADE_M();
		add_name(&m, STR("ok.example.test"));
		add_ext(&m, 16, bad[i]);
		add_versions(&m);
		assert_int_equal(peek_exts(&m), ST_HELLO_BAD);
	}
}

static void
a_hundred_protocols_are_read(void **state)
{
	MADE_M();
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str list, name;
	struct hello h;
	size_t n = 0;

	buf_init(&b, 1000);
	buf_put_u16(&b, 300);
	for (int i = 0; i < 100; i++)
		buf_put(&b, STR("\x02h2"));
	add_name(&m, STR("ok.example.test"));
	add_ext(&m, 16, str_of(b.p, b.len));
	add_versions(&m);
	assert_int_equal(peek(make_wire(&m, 16384), &h), ST_OK);
	for (list = h.alpn; hello_alpn_next(&list, &name);)
		n++;
	assert_int_equal(n, 100);
}

static void
versions_before_tls_1_2_are_refused(void **state)
{
	static const struct str bad[] = {
		{ "\x02\x03\x02", 3 }, { "\x00", 1 },         { "\x03\x03\x04\x00", 4 },
		{ "\x02\x1a\x1a", 3 }, { "\x04\x03\x04", 3 }, { "\x02\x03\x04\x00", 4 },
	};

	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		MADE_M();
		add_name(&m, STR("ok.example.test"));
		add_ext(&m, 43, bad[i]);
		assert_int_equal(peek_exts(&m), ST_HELLO_BAD);
	}
	/* Without the extension the old field counts. */
	MADE_M();
	add_name(&m, STR("ok.example.test"));
	assert_int_equal(peek_exts(&m), ST_OK);
}

static void
a_missing_name_is_told_apart_from_a_bad_one(void **state)
{
	MADE_M();
	struct hello h;

	add_versions(&m);
	assert_int_equal(peek(make_wire(&m, 16384), &h), ST_OK);
	assert_false(h.has_name);
}

static void
a_pre_shared_key_must_be_the_last_extension(void **state)
{
	MADE_M();

	add_name(&m, STR("ok.example.test"));
	add_versions(&m);
	add_ext(&m, 41, STR("anything"));
	assert_int_equal(peek_exts(&m), ST_OK);
	add_ext(&m, 21, STR(""));
	assert_int_equal(peek_exts(&m), ST_HELLO_BAD);
}

static void
other_protocols_are_not_taken_for_tls(void **state)
{
	struct hello h;

	(void)state;
	assert_true(hello_could_be(STR("")));
	assert_true(hello_could_be(STR("\x16")));
	assert_true(hello_could_be(STR("\x16\x03")));
	assert_false(hello_could_be(STR("GET / HTTP/1.1")));
	assert_false(hello_could_be(STR("\x16\x02")));
	assert_false(hello_could_be(STR("\x80\x2e\x01\x03\x01"))); /* SSLv2 */
	assert_int_equal(peek(STR("\x15\x03\x01\x00\x02\x02\x28"), &h), ST_HELLO_BAD);
	assert_int_equal(peek(STR("\x16\x03\x01\x00\x04\x02\x00\x00\x00"), &h),
			 ST_HELLO_BAD);
	assert_int_equal(peek(STR("\x16\x03\x01\x40\x01\x01"), &h), ST_HELLO_BAD);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_ordinary_hello_in_one_record_costs_no_memory),
		cmocka_unit_test(
			every_prefix_is_incomplete_and_every_cut_into_records_gives_the_same),
		cmocka_unit_test(early_data_behind_the_hello_is_not_part_of_it),
		cmocka_unit_test(a_second_message_in_the_same_record_is_refused),
		cmocka_unit_test(a_few_empty_records_pass_and_many_do_not),
		cmocka_unit_test(large_hellos_pass_up_to_the_cap_and_not_beyond),
		cmocka_unit_test(more_records_than_the_cap_are_refused),
		cmocka_unit_test(
			server_names_that_a_server_may_read_otherwise_are_refused),
		cmocka_unit_test(a_name_of_255_bytes_is_the_longest),
		cmocka_unit_test(an_extension_that_comes_twice_is_refused),
		cmocka_unit_test(ech_in_any_form_is_seen),
		cmocka_unit_test(only_http_may_be_offered_to_a_tunnel),
		cmocka_unit_test(malformed_alpn_is_refused),
		cmocka_unit_test(a_hundred_protocols_are_read),
		cmocka_unit_test(versions_before_tls_1_2_are_refused),
		cmocka_unit_test(a_missing_name_is_told_apart_from_a_bad_one),
		cmocka_unit_test(a_pre_shared_key_must_be_the_last_extension),
		cmocka_unit_test(other_protocols_are_not_taken_for_tls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
