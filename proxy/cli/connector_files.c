#include "proxy/cli/connector_files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define NO_FILE "(none)"
enum { TEXT_MAX = 1024 * 1024, MAIN_MAX = 256 * 1024 };

static enum status
read_text(const char *path, struct buf *b)
{
	char space[16384];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : 1;

	while (n > 0) {
		n = read(fd, space, sizeof space);
		if (n > 0)
			buf_put(b, str_of(space, (size_t)n));
	}
	int why = errno;
	if (fd >= 0)
		(void)close(fd);
	errno = why;
	return n < 0 ? ST_SYSTEM : b->st;
}

static enum status
add_file(struct config *c, const char *path)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, TEXT_MAX);
	enum status st = read_text(path, &b);
	if (st == ST_OK)
		return conf_files_add(&c->files, CONF_CONNECTOR, str_from(path),
				      str_of(b.p, b.len));
	report_error(&c->report, (struct place){ str_from(path), 0, 0 }, "%s",
		     st == ST_SYSTEM ? strerror(errno) : status_words(st)->sentence);
	return ST_BAD_CONFIG;
}

static enum status
open_image(struct config *c)
{
	int fd = -1;
	enum status st = conf_compile(&c->files, &c->report, &c->conf);

	if (st == ST_OK)
		st = conf_seal(c->conf, &fd);
	if (st == ST_OK) {
		st = image_open(fd, &c->image);
		(void)close(fd);
	}
	return st;
}

static enum status
compile(struct config *c, struct str policies, char *const *paths, size_t paths_n)
{
	*c = (struct config){ 0 };
	conf_files_init(&c->files);
	enum status st = report_init(&c->report);
	if (st == ST_OK)
		st = conf_files_add(&c->files, CONF_MAIN, STR(NO_FILE), policies);
	for (size_t i = 0; i < paths_n && st != ST_NOMEM; i++) {
		enum status one = add_file(c, paths[i]);
		st = st == ST_OK ? one : st;
	}
	return st == ST_OK ? open_image(c) : st;
}

/* Of the configuration that isn't there; and before there is a policy all of them: that
 * none lists these connectors is why we are here. */
static void
drop_warnings(struct report *r, bool all)
{
	size_t n = 0;

	for (size_t i = 0; i < r->lines_n; i++) {
		const struct report_line *line = &r->lines[i];
		if (line->is_warning && (all || str_eq(line->at.file, STR(NO_FILE))))
			r->warnings--;
		else
			r->lines[n++] = *line;
	}
	r->lines_n = n;
}

static void
put_policy(struct buf *b, const struct image *im)
{
	size_t n;
	const struct image_connector *k = image_connectors(im, &n);

	buf_put(b, STR("policies: {lint: {connectors: ["));
	for (size_t i = 0; i < n; i++) {
		buf_put(b, i > 0 ? STR(", ") : STR(""));
		buf_put_json(b, image_str(im, k[i].name));
	}
	buf_put(b, STR("]}}\n"));
}

enum status
connector_files_read(struct config *c, char *const *paths, size_t paths_n)
{
	CLEANUP(buf_done) struct buf main = { 0 };
	struct str text = STR("");
	/* Their names are known only when they have been read once. */
	enum status st =
		compile(c, STR("policies: {lint: {allow: []}}\n"), paths, paths_n);

	drop_warnings(&c->report, true);
	if (st != ST_OK)
		return st;
	buf_init(&main, MAIN_MAX);
	put_policy(&main, c->image);
	st = buf_finish(&main, &text);
	if (st != ST_OK)
		return st;
	config_done(c);
	st = compile(c, text, paths, paths_n);
	drop_warnings(&c->report, false);
	return st;
}
