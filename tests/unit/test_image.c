#include "tests/unit/make_image.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "conf/image_format.h"

static const char text[] =
	"listeners: [{name: a, kind: proxy, address: '127.0.0.1:3128'}]\n"
	"resolver: {servers: [127.0.0.53], hosts: {a.test: 10.0.0.1}}\n"
	"sandboxes: [{id: s, source: [10.0.0.2, 'fd00::2'], policy: p}]\n"
	"policies:\n"
	"  p:\n"
	"    allow: [{hosts: [a.test, '*.b.example'], ports: [80], methods: [GET], "
	"paths: ['/x/**']},\n"
	"      {cidrs: [192.0.2.0/24], ports: [22], protocol: tcp}]\n";

static int
sealed(const void *p, size_t n, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, p, n), (ssize_t)n);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static enum status
open_bytes(const void *p, size_t n, struct image **ret_im)
{
	int fd = sealed(p, n, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK);
	enum status st = image_open(fd, ret_im);

	(void)close(fd);
	return st;
}

static void
take_bytes(struct buf *b)
{
	CLEANUP(report_done) struct report r = { 0 };
	int fd = -1;
	char chunk[4096];

	assert_int_equal(report_init(&r), ST_OK);
	assert_int_equal(make_memfd(text, &r, &fd), ST_OK);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	for (ssize_t n = read(fd, chunk, sizeof chunk); n > 0;
	     n = read(fd, chunk, sizeof chunk))
		buf_put(b, str_of(chunk, (size_t)n));
	(void)close(fd);
}

static void
only_a_sealed_descriptor_opens(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct image *im;

	(void)state;
	buf_init(&b, 1 << 20);
	take_bytes(&b);
	int fd = sealed(b.p, b.len, F_SEAL_GROW | F_SEAL_SHRINK);
	assert_int_equal(image_open(fd, &im), ST_BAD_MESSAGE);
	(void)close(fd);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_int_equal(image_open(fd, &im), ST_BAD_MESSAGE);
	(void)close(fd);
	assert_int_equal(open_bytes(b.p, b.len, &im), ST_OK);
	image_close(im);
}

static void
an_image_of_another_length_does_not_open(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct image *im;

	(void)state;
	buf_init(&b, 1 << 20);
	take_bytes(&b);
	for (size_t n = 1; n < b.len; n += 37)
		assert_int_equal(open_bytes(b.p, n, &im), ST_BAD_MESSAGE);
	buf_putc(&b, '\0');
	assert_int_equal(open_bytes(b.p, b.len, &im), ST_BAD_MESSAGE);
}

static void
a_table_that_leaves_the_image_does_not_open(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct image *im;
	struct image_header good, h;

	(void)state;
	buf_init(&b, 1 << 20);
	take_bytes(&b);
	memcpy(&good, b.p, sizeof good);
	for (size_t i = 0; i < IMAGE_SECTIONS; i++) {
		h = good;
		h.section[i].count = UINT32_MAX;
		memcpy(b.p, &h, sizeof h);
		assert_int_equal(open_bytes(b.p, b.len, &im), ST_BAD_MESSAGE);
		h = good;
		h.section[i].offset = UINT64_MAX - 7;
		memcpy(b.p, &h, sizeof h);
		assert_int_equal(open_bytes(b.p, b.len, &im), ST_BAD_MESSAGE);
		h = good;
		h.section[i].each++;
		memcpy(b.p, &h, sizeof h);
		assert_int_equal(open_bytes(b.p, b.len, &im), ST_BAD_MESSAGE);
	}
}

static void
an_option_out_of_bounds_does_not_open(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct image *im;
	struct image_header h;
	struct image_option o;

	(void)state;
	buf_init(&b, 1 << 20);
	take_bytes(&b);
	memcpy(&h, b.p, sizeof h);
	size_t at = h.section[IMAGE_OPTIONS].offset + OPT_WORKERS * sizeof o;
	memcpy(&o, b.p + at, sizeof o);
	o.number = 65;
	memcpy(b.p + at, &o, sizeof o);
	assert_int_equal(open_bytes(b.p, b.len, &im), ST_BAD_MESSAGE);
	o.number = 64;
	memcpy(b.p + at, &o, sizeof o);
	assert_int_equal(open_bytes(b.p, b.len, &im), ST_OK);
	image_close(im);
}

/* Give each 32-bit word of the image, one after the other, a value that reaches far
 * out: it is refused, or it was no reference. */
static void
a_reference_that_leaves_its_table_is_refused_or_harmless(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	const struct addr source = { 4, { 10, 0, 0, 2 } };
	size_t refused = 0, n;

	(void)state;
	buf_init(&b, 1 << 20);
	take_bytes(&b);
	for (size_t at = sizeof(struct image_header); at + 4 <= b.len; at += 4) {
		char before[4];
		struct image *im;
		memcpy(before, b.p + at, 4);
		memset(b.p + at, 0x7f, 4);
		if (open_bytes(b.p, b.len, &im) != ST_OK) {
			refused++;
		} else {
			(void)image_host_addrs(im, STR("a.test"), &n);
			(void)image_sandbox_by_id(im, STR("s"));
			(void)image_sandbox_by_source(im, &source);
			image_close(im);
		}
		memcpy(b.p + at, before, 4);
	}
	assert_true(refused > 50);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_a_sealed_descriptor_opens),
		cmocka_unit_test(an_image_of_another_length_does_not_open),
		cmocka_unit_test(a_table_that_leaves_the_image_does_not_open),
		cmocka_unit_test(an_option_out_of_bounds_does_not_open),
		cmocka_unit_test(
			a_reference_that_leaves_its_table_is_refused_or_harmless),
	};

	return cmocka_run_group_tests_name("image", tests, NULL, NULL);
}
