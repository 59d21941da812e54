#ifndef TESTS_FUZZ_COMPILE_TWICE_H
#define TESTS_FUZZ_COMPILE_TWICE_H
/* compile_twice: files are refused with a message, or give an image that opens; and
 * twice the same. */
#include <string.h>
#include <unistd.h>

#include "conf/conf.h"
#include "conf/image.h"

static inline enum status
compile_once(const struct conf_files *files, struct buf *said, int *ret_fd)
{
	struct report r;
	struct conf *c = NULL;

	need(report_init(&r) == ST_OK);
	enum status st = conf_compile(files, &r, &c);
	need((st == ST_OK) == (r.errors == 0));
	if (st == ST_OK)
		st = conf_seal(c, ret_fd);
	report_put(said, &r);
	conf_free(c);
	report_done(&r);
	return st;
}

static inline bool
is_same(int a, int b)
{
	char left[4096], right[4096];
	off_t at = 0;

	for (;;) {
		ssize_t n = pread(a, left, sizeof left, at);
		ssize_t m = pread(b, right, sizeof right, at);
		if (n != m || n < 0 || memcmp(left, right, (size_t)n) != 0)
			return false;
		if (n == 0)
			return true;
		at += n;
	}
}

/* The open image, or NULL when the files were refused. */
static inline struct image *
compile_twice(const struct conf_files *files)
{
	CLEANUP(buf_done) struct buf first = { 0 }, second = { 0 };
	struct image *im = NULL;
	int a = -1, b = -1;

	buf_init(&first, 1 << 20);
	buf_init(&second, 1 << 20);
	enum status st = compile_once(files, &first, &a);
	need(compile_once(files, &second, &b) == st);
	need(str_eq(str_of(first.p, first.len), str_of(second.p, second.len)));
	if (st != ST_OK)
		return NULL;
	need(image_open(a, &im) == ST_OK && is_same(a, b));
	(void)close(a);
	(void)close(b);
	return im;
}

#endif
