#include "proxy/cli/where.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/conf.h"
#include "conf/image.h"

#define SYSTEM_CONFIG "/etc/sandgate/sandgate.yaml"

enum { MESSAGES_MAX = 1024 * 1024 };

static bool
exists(struct buf *b, int mode)
{
	const char *path = buf_cstr(b);

	return path != NULL && access(path, mode) == 0;
}

static void
put_own_config(struct buf *b)
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (xdg != NULL && xdg[0] == '/')
		buf_putf(b, "%s/sandgate/sandgate.yaml", xdg);
	else if (home != NULL && home[0] == '/')
		buf_putf(b, "%s/.config/sandgate/sandgate.yaml", home);
}

static bool
own_config(struct buf *b)
{
	put_own_config(b);
	return b->len > 0 && exists(b, F_OK);
}

enum status
where_config(const char *given, struct buf *b)
{
	buf_clear(b);
	if (given != NULL) {
		buf_put(b, str_from(given));
		return buf_cstr(b) == NULL ? ST_TOO_BIG : ST_OK;
	}
	if (own_config(b))
		return ST_OK;
	buf_clear(b);
	buf_put(b, STR(SYSTEM_CONFIG));
	return exists(b, F_OK) ? ST_OK : ST_NOT_FOUND;
}

void
where_say_no_config(void)
{
	CLEANUP(buf_done) struct buf own = { 0 };

	buf_init(&own, 8192);
	put_own_config(&own);
	const char *path = own.len > 0 ? buf_cstr(&own) : NULL;
	(void)fprintf(stderr,
		      "sandgate: no configuration: there is no %s%s" SYSTEM_CONFIG
		      "; give one with -c FILE\n",
		      path == NULL ? "" : path, path == NULL ? "" : " and no ");
}

enum status
where_exe(const char *name, struct buf *b)
{
	static const char *const places[] = { "", "../libexec/sandgate/" };
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

	if (n <= 0)
		return ST_SYSTEM;
	self[n] = '\0';
	*(strrchr(self, '/') + 1) = '\0';
	for (size_t i = 0; i < COUNT_OF(places); i++) {
		buf_clear(b);
		buf_putf(b, "%s%s%s", self, places[i], name);
		if (exists(b, X_OK))
			return ST_OK;
	}
	return ST_NOT_FOUND;
}

enum status
where_image(const char *config, struct image **ret_im)
{
	CLEANUP(buf_done) struct buf text = { 0 };
	CLEANUP(report_done) struct report report = { 0 };
	int memfd = -1;
	enum status st = report_init(&report);

	if (st == ST_OK)
		st = conf_load(config, &report, &memfd);
	if (st == ST_OK) {
		st = image_open(memfd, ret_im);
		(void)close(memfd);
		return st;
	}
	buf_init(&text, MESSAGES_MAX);
	report_put(&text, &report);
	(void)fwrite(text.p, 1, text.len, stderr);
	return st;
}
