#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/base/enc.h"
#include "proxy/base/num.h"
#include "proxy/cli/span.h"
#include "proxy/cli/trust_files.h"
#include "proxy/cli/trust_java.h"

static const char two[] = "# Some root\n"
			  "-----BEGIN CERTIFICATE-----\r\n"
			  "MAMC\r\nAQc=\r\n"
			  "-----END CERTIFICATE-----\r\n"
			  "between\n"
			  "-----BEGIN CERTIFICATE-----\n"
			  "MAA=\n"
			  "-----END CERTIFICATE-----\n";

static void
put_hex(void *ctx, struct str der)
{
	enc_put_hex(ctx, der);
	buf_putc(ctx, ' ');
}

static void
each_certificate_of_a_bundle_is_found_whatever_its_lines_end_in(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	buf_init(&b, 100);
	trust_each_der(STR(two), put_hex, &b);
	assert_string_equal(buf_cstr(&b), "3003020107 3000 ");
}

static void
a_block_that_is_cut_or_does_not_decode_is_left_out(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	buf_init(&b, 100);
	trust_each_der(STR("-----BEGIN CERTIFICATE-----\nM*A=\n-----END "
			   "CERTIFICATE-----\n"),
		       put_hex, &b);
	trust_each_der(STR("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"),
		       put_hex, &b);
	trust_each_der(STR("-----BEGIN CERTIFICATE-----\nMAA=\n"), put_hex, &b);
	assert_int_equal(b.len, 0);
}

/* Magic, version, count; each: kind, alias, date, type, length, bytes; SHA-1.  A real
 * keytool reads one in tests/flow/test_trust.py. */
static void
a_store_holds_its_certificates_in_order_and_a_seal(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	buf_init(&b, 1000);
	assert_int_equal(trust_put_java(&b, STR(two)), ST_OK);
	const char *p = b.p;
	assert_int_equal(num_be32(p), 0xfeedfeed);
	assert_int_equal(num_be32(p + 4), 2);
	assert_int_equal(num_be32(p + 8), 2);
	assert_memory_equal(p + 12,
			    "\0\0\0\2\0\1"
			    "0\0\0\0\0\0\0\0\0\0\5X.509\0\0\0\5",
			    26);
	assert_memory_equal(p + 38, "\x30\x03\x02\x01\x07", 5);
	assert_int_equal(b.len, 12 + (26 + 5) + (26 + 2) + 20);
}

static void
write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	(void)fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void
only_a_regular_file_with_a_certificate_counts_as_roots(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	char dir[] = "/tmp/trust-XXXXXX", path[64];

	(void)state;
	buf_init(&b, 4096);
	assert_non_null(mkdtemp(dir));
	assert_int_equal(trust_read(dir, &b), ST_NOT_FOUND);
	(void)snprintf(path, sizeof path, "%s/f", dir);
	assert_int_equal(trust_read(path, &b), ST_NOT_FOUND);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(trust_read(path, &b), ST_NOT_FOUND); /* and doesn't wait */
	assert_int_equal(unlink(path), 0);
	write_text(path, "no certificate\n");
	assert_int_equal(trust_read(path, &b), ST_NOT_FOUND);
	assert_int_equal(b.len, 0);
	write_text(path,
		   "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----");
	assert_int_equal(trust_read(path, &b), ST_OK);
	assert_int_equal(b.p[b.len - 1], '\n'); /* or the next one would run into it */
	assert_int_equal(trust_write(path, STR("x")), ST_SYSTEM);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(trust_write(path, STR("x")), ST_OK);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
}

static void
times_are_spans_or_points(void **state)
{
	uint64_t s = 0;

	(void)state;
	assert_true(span_read(STR("90d"), &s) && s == 7776000);
	assert_true(span_read(STR("10m"), &s) && s == 600);
	assert_false(span_read(STR("d"), &s));
	assert_false(span_read(STR("-1d"), &s));
	assert_false(span_read(STR("1w"), &s));
	assert_false(span_read(STR("99999999999d"), &s));
	assert_true(span_read_point(STR("2026-01-02T03:04:05Z"), &s) &&
		    s == 1767323045);
	assert_false(span_read_point(STR("2026-01-02T03:04:05"), &s));
	assert_false(span_read_point(STR("2026-01-02"), &s));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			each_certificate_of_a_bundle_is_found_whatever_its_lines_end_in),
		cmocka_unit_test(a_block_that_is_cut_or_does_not_decode_is_left_out),
		cmocka_unit_test(a_store_holds_its_certificates_in_order_and_a_seal),
		cmocka_unit_test(
			only_a_regular_file_with_a_certificate_counts_as_roots),
		cmocka_unit_test(times_are_spans_or_points),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
