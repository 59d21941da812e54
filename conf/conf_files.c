/* Reading: the only part of conf/ that touches the file system. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/conf.h"

enum { FILE_MAX = 16 * 1024 * 1024, ALL_MAX = 256 * 1024 * 1024, FILES_MAX = 10000 };

void
conf_files_init(struct conf_files *f)
{
	*f = (struct conf_files){ 0 };
	arena_init(&f->arena, ALL_MAX);
}

void
conf_files_done(struct conf_files *f)
{
	arena_done(&f->arena);
	f->first = f->last = NULL;
}

static struct str
stem_of(struct str name)
{
	const char *slash = name.n == 0 ? NULL : memrchr(name.p, '/', name.n);
	struct str base =
		slash == NULL ? name : str_skip(name, (size_t)(slash - name.p) + 1);

	if (str_ends(base, STR(".yaml")))
		base = str_head(base, base.n - 5);
	return base;
}

/* text lies in the arena already. */
static enum status
add(struct conf_files *f, enum conf_kind kind, struct str name, struct str text)
{
	struct conf_file *file = arena_alloc(&f->arena, sizeof *file);

	if (file == NULL)
		return ST_NOMEM;
	file->kind = kind;
	file->name = arena_copy(&f->arena, name);
	file->stem = stem_of(file->name);
	file->text = text;
	if (f->first == NULL)
		f->first = file;
	else
		f->last->next = file;
	f->last = file;
	return f->arena.is_over ? ST_NOMEM : ST_OK;
}

enum status
conf_files_add(struct conf_files *f, enum conf_kind kind, struct str name,
	       struct str text)
{
	return add(f, kind, name, arena_copy(&f->arena, text));
}

static enum status
read_bytes(struct arena *a, int fd, size_t max, struct str *ret_text)
{
	struct stat sb;
	size_t len = 0;

	if (fstat(fd, &sb) != 0 || !S_ISREG(sb.st_mode))
		return ST_SYSTEM;
	if (sb.st_size < 0 || (uint64_t)sb.st_size > max)
		return ST_TOO_BIG;
	size_t cap = (size_t)sb.st_size;
	char *p = arena_alloc(a, cap + 1);
	if (p == NULL)
		return ST_NOMEM;
	while (len < cap) {
		ssize_t n = read(fd, p + len, cap - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return ST_SYSTEM;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	*ret_text = str_of(p, len);
	return ST_OK;
}

static const char *
why_unreadable(enum status st)
{
	if (st == ST_TOO_BIG)
		return "larger than 16 MiB";
	if (st == ST_NOMEM)
		return "not enough memory";
	return "not a readable file";
}

static enum status
read_file(struct conf_files *f, enum conf_kind kind, const char *path, struct report *r)
{
	struct place at = { str_from(path), 0, 0 };
	struct str text;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0) {
		report_error(r, at, "%s", strerror(errno));
		return ST_BAD_CONFIG;
	}
	enum status st = read_bytes(&f->arena, fd, FILE_MAX, &text);
	(void)close(fd);
	if (st == ST_OK)
		st = add(f, kind, str_from(path), text);
	if (st == ST_OK)
		return ST_OK;
	report_error(r, at, "%s", why_unreadable(st));
	return ST_BAD_CONFIG;
}

static int
is_yaml(const struct dirent *e)
{
	/* Editors' backup and lock files begin with a dot or end in something else. */
	return e->d_name[0] != '.' && str_ends(str_from(e->d_name), STR(".yaml"));
}

static enum status
read_entry(struct conf_files *f, enum conf_kind kind, struct str dir, const char *name,
	   struct report *r)
{
	CLEANUP(buf_done) struct buf path = { 0 };

	buf_init(&path, 8192);
	buf_put(&path, dir);
	buf_put(&path, str_from(name));
	const char *text = buf_cstr(&path);
	return text == NULL ? ST_TOO_BIG : read_file(f, kind, text, r);
}

/* All *.yaml of DIR/SUB/ in order of their names; no such folder is fine. */
static enum status
read_folder(struct conf_files *f, enum conf_kind kind, struct str dir, struct report *r)
{
	CLEANUP(buf_done) struct buf path = { 0 };
	struct dirent **entries = NULL;
	enum status st = ST_OK;

	buf_init(&path, 8192);
	buf_put(&path, dir);
	const char *text = buf_cstr(&path);
	if (text == NULL)
		return ST_TOO_BIG;
	int n = scandir(text, &entries, is_yaml, alphasort);
	if (n < 0 && errno == ENOENT)
		return ST_OK;
	if (n < 0 || n > FILES_MAX) {
		report_error(r, (struct place){ dir, 0, 0 }, "%s",
			     n < 0 ? strerror(errno) : "too many files");
		st = ST_BAD_CONFIG;
	}
	for (int i = 0; i < n; i++) {
		enum status one =
			st == ST_BAD_CONFIG && n > FILES_MAX
				? st
				: read_entry(f, kind, dir, entries[i]->d_name, r);
		if (one != ST_OK)
			st = one;
		free(entries[i]);
	}
	free(entries);
	return st;
}

static enum status
read_beside(struct conf_files *f, enum conf_kind kind, const char *path,
	    const char *sub, struct report *r)
{
	CLEANUP(buf_done) struct buf dir = { 0 };
	const char *slash = strrchr(path, '/');
	struct str view;

	buf_init(&dir, 8192);
	if (slash != NULL)
		buf_put(&dir, str_of(path, (size_t)(slash - path) + 1));
	buf_put(&dir, str_from(sub));
	enum status st = buf_finish(&dir, &view);
	return st == ST_OK ? read_folder(f, kind, view, r) : st;
}

static enum status
read_named(const struct conf_files *f, struct arena *a, struct str name, size_t max,
	   struct str *ret_text)
{
	CLEANUP(buf_done) struct buf path = { 0 };
	const char *slash = f->path.n == 0 ? NULL : memrchr(f->path.p, '/', f->path.n);

	buf_init(&path, 8192);
	if (!str_starts(name, STR("/")) && slash != NULL)
		buf_put(&path, str_head(f->path, (size_t)(slash - f->path.p) + 1));
	buf_put(&path, name);
	/* A pipe must not keep us waiting for somebody who writes. */
	const char *text = str_has(name, '\0') ? NULL : buf_cstr(&path);
	int fd = text == NULL
			 ? -1
			 : open(text, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return ST_SYSTEM;
	enum status st = read_bytes(a, fd, max, ret_text);
	(void)close(fd);
	return st;
}

enum status
conf_files_find(const struct conf_files *f, struct arena *a, struct str name,
		size_t max, struct str *ret_text)
{
	for (const struct conf_file *file = f->first; file != NULL; file = file->next) {
		if (file->kind != CONF_OTHER || !str_eq(file->name, name))
			continue;
		if (file->text.n > max)
			return ST_TOO_BIG;
		*ret_text = file->text;
		return ST_OK;
	}
	return f->path.n == 0 ? ST_NOT_FOUND : read_named(f, a, name, max, ret_text);
}

enum status
conf_files_read(struct conf_files *f, const char *path, struct report *r)
{
	f->path = arena_copy(&f->arena, str_from(path));
	enum status main_st = read_file(f, CONF_MAIN, path, r);
	enum status policies_st = read_beside(f, CONF_POLICY, path, "policies/", r);
	enum status connectors_st =
		read_beside(f, CONF_CONNECTOR, path, "connectors/", r);
	enum status risk_st = read_beside(f, CONF_RISK, path, "risk/", r);

	if (main_st != ST_OK)
		return main_st;
	if (policies_st != ST_OK)
		return policies_st;
	return connectors_st != ST_OK ? connectors_st : risk_st;
}
