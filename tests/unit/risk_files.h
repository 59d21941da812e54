#ifndef TESTS_UNIT_RISK_FILES_H
#define TESTS_UNIT_RISK_FILES_H
/* risk_files: the shipped rules of risk, compiled. */
#include <fcntl.h>
#include <unistd.h>

#include "conf/conf.h"
#include "conf/image.h"

static inline void
risk_read_file(const char *path, struct buf *b)
{
	char chunk[4096];
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	need(fd >= 0);
	buf_init(b, 1 << 20);
	for (ssize_t n = read(fd, chunk, sizeof chunk); n > 0;
	     n = read(fd, chunk, sizeof chunk))
		buf_put(b, str_of(chunk, (size_t)n));
	(void)close(fd);
}

static inline struct image *
risk_image_shipped(void)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct conf_files files;
	struct report r;
	struct conf *c = NULL;
	struct image *im = NULL;
	int fd = -1;

	risk_read_file(SG_ROOT "/conf/risk/default.yaml", &b);
	conf_files_init(&files);
	need(report_init(&r) == ST_OK);
	need(conf_files_add(&files, CONF_MAIN, STR("t.yaml"), STR("workers: 1\n")) ==
	     ST_OK);
	need(conf_files_add(&files, CONF_RISK, STR("risk/default.yaml"),
			    str_of(b.p, b.len)) == ST_OK);
	need(conf_compile(&files, &r, &c) == ST_OK && conf_seal(c, &fd) == ST_OK);
	need(image_open(fd, &im) == ST_OK);
	(void)close(fd);
	conf_free(c);
	report_done(&r);
	conf_files_done(&files);
	return im;
}

#endif
