#ifndef TESTS_UNIT_MAKE_IMAGE_H
#define TESTS_UNIT_MAKE_IMAGE_H
/* make_image: configuration text to an open image, for tests that ask questions of one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "conf/conf.h"
#include "conf/image.h"

static inline enum status
make_memfd(const char *text, struct report *r, int *ret_memfd)
{
	struct conf_files files;
	struct conf *c = NULL;

	conf_files_init(&files);
	assert_int_equal(
		conf_files_add(&files, CONF_MAIN, STR("t.yaml"), str_from(text)),
		ST_OK);
	enum status st = conf_compile(&files, r, &c);
	if (st == ST_OK)
		st = conf_seal(c, ret_memfd);
	conf_free(c);
	conf_files_done(&files);
	return st;
}

/* The messages as text, in b. */
static inline enum status
make_messages(const char *text, struct buf *b)
{
	CLEANUP(report_done) struct report r = { 0 };
	int fd = -1;

	assert_int_equal(report_init(&r), ST_OK);
	enum status st = make_memfd(text, &r, &fd);
	if (st == ST_OK)
		(void)close(fd);
	report_put(b, &r);
	return st;
}

struct told {
	const char *text, *messages; /* all that is said of it */
};

static inline void
assert_told(const struct told *all, size_t n)
{
	size_t bad = 0;

	for (size_t i = 0; i < n; i++) {
		CLEANUP(buf_done) struct buf b = { 0 };
		buf_init(&b, 65536);
		enum status st = make_messages(all[i].text, &b);
		const char *got = buf_cstr(&b);
		assert_non_null(got);
		/* Only warnings refuse nothing. */
		bool is_refused = strstr(got, "t.yaml") != NULL &&
				  strstr(got, ": warning: ") == NULL;
		assert_true(!is_refused || st == ST_BAD_CONFIG);
		if (strcmp(got, all[i].messages) == 0)
			continue;
		bad++;
		print_message("row %zu\n%swant:\n%sgot:\n%s", i, all[i].text,
			      all[i].messages, got);
	}
	assert_int_equal(bad, 0);
}

static inline struct image *
make_image(const char *text)
{
	CLEANUP(report_done) struct report r = { 0 };
	CLEANUP(buf_done) struct buf b = { 0 };
	struct image *im = NULL;
	int fd = -1;

	assert_int_equal(report_init(&r), ST_OK);
	enum status st = make_memfd(text, &r, &fd);
	buf_init(&b, 65536);
	report_put(&b, &r);
	if (st != ST_OK)
		(void)fprintf(stderr, "%s", buf_cstr(&b));
	assert_int_equal(st, ST_OK);
	assert_int_equal(image_open(fd, &im), ST_OK);
	(void)close(fd);
	return im;
}

/* Set-up and end of tests whose state is one. */
static inline int
make_image_up(void **state, const char *text)
{
	*state = make_image(text);
	return 0;
}

static inline int
make_image_down(void **state)
{
	image_close(*state);
	return 0;
}

#endif
