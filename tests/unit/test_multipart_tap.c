#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/base/buf.h"
#include "proxy/flow/multipart_tap.h"

#define TYPE STR("multipart/form-data; boundary=b0")
#define META_HEAD                                                                      \
	"Content-Disposition: form-data; name=\"metadata\"; filename=\"metadata\"\r\n" \
	"Content-Type: application/json\r\n\r\n"
#define FILE_HEAD                                                                      \
	"Content-Disposition: form-data; name=\"file\"; filename=\"x\"\r\n\r\n"
#define MARK "\r\n--b0\r\n"
#define LAST "\r\n--b0--\r\n"

static void
feed_as(struct multipart_tap *t, struct str type, struct str in, size_t step)
{
	assert_int_equal(multipart_tap_init(t, type), ST_OK);
	for (; in.n > 0; in = str_skip(in, step))
		multipart_tap_put(t, str_head(in, step));
	multipart_tap_end(t);
}

static const size_t steps[] = { SIZE_MAX, 1, 2, 3, 7, 64 };

#define EACH_STEP(t, type, in)                                                         \
	for (size_t s_ = 0;                                                            \
	     s_ < COUNT_OF(steps) && (feed_as((t), (type), (in), steps[s_]), true);    \
	     multipart_tap_done(t), s_++)

static void
assert_file(const struct upload *u, const char *path, struct str want)
{
	uint8_t hash[TALLY_HASH];
	struct tally all;

	assert_non_null(u);
	assert_true(u->has_meta && u->has_file);
	assert_true(str_eq(u->path, str_from(path)));
	assert_int_equal(u->octets, want.n);
	assert_int_equal(tally_init(&all), ST_OK);
	tally_put(&all, want);
	assert_int_equal(tally_sum(&all, hash), ST_OK);
	assert_memory_equal(u->hash, hash, TALLY_HASH);
	tally_done(&all);
}

static void
each_file_is_told_with_its_place_and_digest(void **state)
{
	struct str in = STR(
		"--b0\r\n" META_HEAD
		"{\"path\": \"/w/\\u00e4\", \"owner\": \"me\", \"group\": \"us\", "
		"\"mode\": 755}" MARK FILE_HEAD "one\r\n--b\r\r\n-b0 two" MARK META_HEAD
		"{\"mode\": null, \"path\": \"b\"}\n" MARK FILE_HEAD LAST);
	struct multipart_tap t;

	(void)state;
	EACH_STEP(&t, TYPE, in)
	{
		assert_false(t.is_unreadable || t.is_cut);
		assert_int_equal(t.files, 2);
		assert_file(t.first, "/w/\xc3\xa4", STR("one\r\n--b\r\r\n-b0 two"));
		assert_true(str_eq(t.first->owner, STR("me")));
		assert_true(str_eq(t.first->group, STR("us")));
		assert_true(t.first->has_mode && t.first->mode == 755);
		assert_file(t.first->next, "b", STR(""));
		assert_false(t.first->next->has_mode);
		assert_null(t.first->next->next);
		assert_int_equal(t.octets, 18);
	}
}

static void
the_nth_place_belongs_to_the_nth_file_in_any_order(void **state)
{
	struct str in = STR(
		"--b0\r\n" FILE_HEAD "1" MARK FILE_HEAD "22" MARK META_HEAD
		"{\"path\":\"a\"}" MARK META_HEAD "{\"path\":\"b\"}" MARK
		"content-disposition:form-data;name=note\r\n\r\nhello" MARK META_HEAD
		"{\"path\":\"c\"}" MARK FILE_HEAD "333" LAST "epilogue");
	struct multipart_tap t;

	(void)state;
	EACH_STEP(&t, TYPE, in)
	{
		assert_false(t.is_unreadable || t.is_cut);
		assert_int_equal(t.others, 1);
		assert_file(t.first, "a", STR("1"));
		assert_file(t.first->next, "b", STR("22"));
		assert_file(t.first->next->next, "c", STR("333"));
	}
}

static void
a_boundary_is_read_from_every_plain_form_of_the_type(void **state)
{
	static const char *const good[] = {
		"multipart/form-data; boundary=b0",
		"Multipart/Form-Data;BOUNDARY=\"b0\"",
		"multipart/form-data ; charset=utf-8; boundary=b0 ;",
	};
	static const char *const bad[] = {
		"",
		"multipart/mixed; boundary=b0",
		"multipart/form-data",
		"multipart/form-data; boundary=",
		"multipart/form-data; boundary=\"\"",
		"multipart/form-data; boundary=\"b0",
		"multipart/form-data; boundary=\"b0 \"",
		"multipart/form-data; boundary=\"b\\0\"",
		"multipart/form-data; boundary=b0; boundary=b1",
		"multipart/form-data; boundary=b0; boundary*=utf-8''b1",
		"multipart/form-data; boundary*0=b; boundary*1=0",
		"multipart/form-data, boundary=b0",
		"multipart/form-datax; boundary=b0",
		"multipart/form-data; "
		"boundary=01234567890123456789012345678901234567890"
		"123456789012345678901234567890",
	};
	struct multipart_tap t;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(good); i++) {
		feed_as(&t, str_from(good[i]), STR("--b0--"), 1);
		assert_false(t.is_unreadable);
		multipart_tap_done(&t);
	}
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		assert_int_equal(multipart_tap_init(&t, str_from(bad[i])),
				 ST_BAD_HEADER);
}

#define PAIR META_HEAD "{\"path\":\"a\"}" MARK FILE_HEAD "1"

static void
what_could_be_read_differently_is_marked(void **state)
{
	static const char *const bad[] = {
		"",
		"--b0\r\n",
		"preamble\r\n--b0\r\n" PAIR LAST,
		"\r\n--b0\r\n" PAIR LAST,
		"--b0\n" PAIR LAST,
		"--b0\r\n" PAIR "\r\n--b0x" LAST,
		"--b0\r\n" PAIR "\r\n--b0-" LAST,
		"--b0\r\n" PAIR "\r\n--b0--x",
		"--b0\r\n" PAIR "\r\n--b0 \n",
		"--b0\r\n" PAIR,
		"--b0\r\n" PAIR "\r\n--b0",
		"--b0\r\n" META_HEAD "{\"path\":\"a\"}" LAST,
		"--b0\r\n" FILE_HEAD "1" LAST,
		"--b0\r\n" PAIR MARK FILE_HEAD "2" LAST,
		"--b0\r\n\r\nx" LAST,
		"--b0\r\nContent-Type: a/b\r\n\r\nx" LAST,
		"--b0\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx" LAST,
		"--b0\r\nContent-Disposition: form-data; name=\"file\"; "
		"filename=\"\"\r\n"
		"\r\nx" LAST,
		"--b0\r\nContent-Disposition: form-data; name=x; "
		"name=file\r\n\r\nx" LAST,
		"--b0\r\nContent-Disposition: form-data; name=x; "
		"name*=a''file\r\n\r\n" LAST,
		"--b0\r\nContent-Disposition: form-data; name=\"f\\ile\"\r\n\r\nx" LAST,
		"--b0\r\nContent-Disposition: form-data; name=\"x\r\n\r\nx" LAST,
		"--b0\r\nContent-Disposition: attachment; name=x\r\n\r\nx" LAST,
		"--b0\r\nContent-Disposition: form-data; filename=x\r\n\r\nx" LAST,
		"--b0\r\nContent-Disposition: form-data; name=x\r\n"
		"Content-Disposition: form-data; name=y\r\n\r\nx" LAST,
		"--b0\r\nContent-Disposition: form-data;\r\n name=x\r\n\r\nx" LAST,
		"--b0\r\nContent-Disposition: form-data; name=x\n\r\n\r\nx" LAST,
		"--b0\r\nContent-Disposition : form-data; name=x\r\n\r\nx" LAST,
		"--b0\r\nContent-Transfer-Encoding: quoted-printable\r\n" FILE_HEAD
		"x" LAST,
		"--b0\r\nno colon\r\n" FILE_HEAD "x" LAST,
	};
	struct multipart_tap t;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		EACH_STEP(&t, TYPE, str_from(bad[i]))
		assert_true(t.is_unreadable);
	}
}

static void
metadata_that_names_no_single_place_is_marked(void **state)
{
	static const char *const bad[] = {
		"",
		"{}",
		"[]",
		"{\"path\":\"\"}",
		"{\"path\":7}",
		"{\"path\":\"a\"",
		"{\"path\":\"a\"} {}",
		"{\"path\":\"a\",\"path\":\"b\"}",
		"{\"path\":\"a\",\"Path\":\"b\"}",
		"{\"path\":\"a\",\"mode\":\"755\"}",
		"{\"path\":\"a\",\"mode\":7.5}",
		"{\"path\":\"a\",\"mode\":-1}",
		"{\"path\":\"a\",\"mode\":77777}",
		"{\"path\":\"\xff\"}",
	};
	struct multipart_tap t;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		CLEANUP(buf_done) struct buf b = { 0 };
		buf_init(&b, 4096);
		buf_putf(&b, "--b0\r\n%s%s%s%s1%s", META_HEAD, bad[i], MARK, FILE_HEAD,
			 LAST);
		EACH_STEP(&t, TYPE, str_of(b.p, b.len))
		assert_true(t.is_unreadable);
	}
}

static void
texts_longer_than_their_bounds_are_marked(void **state)
{
	static char line[MULTIPART_HEAD];
	static const char *const fields[] = { "path", "owner", "group" };
	const size_t fits[] = { MULTIPART_TAP_PATH, HELD_MAX, HELD_MAX };
	struct multipart_tap t;

	(void)state;
	memset(line, 'a', sizeof line);
	for (size_t i = 0; i < COUNT_OF(fields); i++) {
		CLEANUP(buf_done) struct buf b = { 0 };
		buf_init(&b, 1 << 16);
		buf_putf(&b, "--b0\r\n%s{%s\"%s\":\"", META_HEAD,
			 i == 0 ? "" : "\"path\":\"a\",", fields[i]);
		buf_put(&b, str_of(line, fits[i] + 1));
		buf_putf(&b, "\"}%s%s%s", MARK, FILE_HEAD, LAST);
		assert_int_equal(b.st, ST_OK);
		EACH_STEP(&t, TYPE, str_of(b.p, b.len))
		assert_true(t.is_unreadable);
	}
	assert_int_equal(multipart_tap_init(&t, TYPE), ST_OK);
	multipart_tap_put(&t, STR("--b0\r\n"));
	multipart_tap_put(&t, str_of(line, MULTIPART_LINE));
	assert_false(t.is_unreadable);
	multipart_tap_put(&t, STR("a"));
	assert_true(t.is_unreadable);
	multipart_tap_done(&t);
}

static void
a_head_of_many_lines_ends(void **state)
{
	struct multipart_tap t;
	int lines = 0;

	(void)state;
	assert_int_equal(multipart_tap_init(&t, TYPE), ST_OK);
	multipart_tap_put(&t, STR("--b0\r\n"));
	for (; !t.is_unreadable && lines < 2 * MULTIPART_HEAD; lines++)
		multipart_tap_put(&t, STR("a: b\r\n"));
	assert_in_range(lines, 100, MULTIPART_HEAD / 6 + 1);
	multipart_tap_done(&t);
}

static void
ten_thousand_files_are_counted_and_the_list_is_cut(void **state)
{
	struct multipart_tap t;

	(void)state;
	assert_int_equal(multipart_tap_init(&t, TYPE), ST_OK);
	multipart_tap_put(&t, STR("--b0\r\n"));
	for (int i = 0; i < 10000; i++)
		multipart_tap_put(&t, STR(PAIR MARK));
	multipart_tap_put(&t, STR(PAIR LAST));
	multipart_tap_end(&t);
	assert_int_equal(t.files, 10001);
	assert_int_equal(t.octets, 10001);
	assert_true(t.is_cut && !t.is_unreadable);
	assert_true(t.arena.used <= MULTIPART_TAP_ROOM);
	multipart_tap_done(&t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_file_is_told_with_its_place_and_digest),
		cmocka_unit_test(the_nth_place_belongs_to_the_nth_file_in_any_order),
		cmocka_unit_test(a_boundary_is_read_from_every_plain_form_of_the_type),
		cmocka_unit_test(what_could_be_read_differently_is_marked),
		cmocka_unit_test(metadata_that_names_no_single_place_is_marked),
		cmocka_unit_test(texts_longer_than_their_bounds_are_marked),
		cmocka_unit_test(a_head_of_many_lines_ends),
		cmocka_unit_test(ten_thousand_files_are_counted_and_the_list_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
