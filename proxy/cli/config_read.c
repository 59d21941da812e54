#include "proxy/cli/config_read.h"

#include <stdio.h>
#include <unistd.h>

enum { SAID_MAX = 1024 * 1024 };

enum status
config_read(struct config *c, const char *path)
{
	int fd = -1;

	*c = (struct config){ 0 };
	conf_files_init(&c->files);
	enum status st = report_init(&c->report);
	if (st == ST_OK)
		st = conf_files_read(&c->files, path, &c->report);
	if (st == ST_OK)
		st = conf_compile(&c->files, &c->report, &c->conf);
	if (st == ST_OK)
		st = conf_seal(c->conf, &fd);
	if (st == ST_OK) {
		st = image_open(fd, &c->image);
		(void)close(fd);
	}
	return st;
}

void
config_done(struct config *c)
{
	image_close(c->image);
	conf_free(c->conf);
	report_done(&c->report);
	conf_files_done(&c->files);
}

void
config_say(struct config *c)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str view;

	buf_init(&b, SAID_MAX);
	report_put(&b, &c->report);
	if (buf_finish(&b, &view) == ST_OK)
		(void)fprintf(stderr, "%.*s", STR_ARG(view));
}
