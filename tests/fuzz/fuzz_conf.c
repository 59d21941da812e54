/* Any text is refused with a message, or gives an image that opens; twice the same. */
#include <string.h>
#include <unistd.h>

#include "conf/conf.h"
#include "conf/image.h"

static enum status
compile(struct str text, struct buf *said, int *ret_fd)
{
	struct conf_files files;
	struct report r;
	struct conf *c = NULL;

	conf_files_init(&files);
	need(report_init(&r) == ST_OK);
	need(conf_files_add(&files, CONF_MAIN, STR("f.yaml"), text) == ST_OK);
	enum status st = conf_compile(&files, &r, &c);
	need((st == ST_OK) == (r.errors == 0));
	if (st == ST_OK)
		st = conf_seal(c, ret_fd);
	report_put(said, &r);
	conf_free(c);
	report_done(&r);
	conf_files_done(&files);
	return st;
}

static bool
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(buf_done) struct buf first, second;
	struct str text = str_of(data, size);
	struct image *im;
	int a = -1, b = -1;

	buf_init(&first, 1 << 20);
	buf_init(&second, 1 << 20);
	enum status st = compile(text, &first, &a);
	need(compile(text, &second, &b) == st);
	need(str_eq(str_of(first.p, first.len), str_of(second.p, second.len)));
	if (st != ST_OK)
		return 0;
	need(image_open(a, &im) == ST_OK);
	image_close(im);
	need(is_same(a, b));
	(void)close(a);
	(void)close(b);
	return 0;
}
