#include "proxy/cli/trust_mount.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proxy/cli/trust_files.h"
#include "proxy/cli/trust_java.h"

static const char options[] = "size=32m,mode=755";
enum { FLAGS = MS_NOSUID | MS_NODEV | MS_NOEXEC };

static enum status
fail(struct buf *why, const char *what, const char *path)
{
	buf_putf(why, "%s %s: %s", what, path, strerror(errno));
	return ST_SYSTEM;
}

static enum status
put_file(const char *dir, const char *name, struct str text, struct buf *why)
{
	CLEANUP(buf_done) struct buf path = { 0 };

	buf_init(&path, 4096);
	buf_putf(&path, "%s/%s", dir, name);
	const char *p = buf_cstr(&path);
	if (p == NULL || trust_write(p, text) != ST_OK)
		return fail(why, "could not write", p == NULL ? name : p);
	return ST_OK;
}

/* Links are followed: what programs open at last is covered. */
static enum status
cover(const char *dir, const char *name, const char *const paths[], struct buf *why)
{
	CLEANUP(buf_done) struct buf from = { 0 };
	struct stat at;

	buf_init(&from, 4096);
	buf_putf(&from, "%s/%s", dir, name);
	const char *file = buf_cstr(&from);
	for (size_t i = 0; paths[i] != NULL; i++) {
		if (stat(paths[i], &at) < 0 || !S_ISREG(at.st_mode))
			continue;
		if (mount(file, paths[i], NULL, MS_BIND, NULL) < 0)
			return fail(why, "could not put our CA over", paths[i]);
	}
	return ST_OK;
}

static enum status
put_files(const struct trust *t, const char *dir, struct buf *why)
{
	enum status st =
		put_file(dir, "ca.crt", str_of(t->bundle.p, t->bundle.len), why);

	if (st == ST_OK)
		st = put_file(dir, "extra.crt", str_of(t->extra.p, t->extra.len), why);
	if (st == ST_OK && t->java.len > 0)
		st = put_file(dir, "java.jks", str_of(t->java.p, t->java.len), why);
	if (st == ST_OK &&
	    mount(NULL, dir, NULL, MS_REMOUNT | MS_RDONLY | FLAGS, options) < 0)
		st = fail(why, "could not make read-only", dir);
	if (st == ST_OK)
		st = cover(dir, "ca.crt", trust_bundles, why);
	if (st == ST_OK && t->java.len > 0)
		st = cover(dir, "java.jks", trust_stores, why);
	return st;
}

enum status
trust_mount(const struct trust *t, struct buf *why)
{
	if (!t->is_there)
		return ST_OK;
	if ((mkdir(TRUST_DIR, 0755) < 0 && errno != EEXIST) ||
	    mount("sandgate", TRUST_DIR, "tmpfs", FLAGS, options) < 0)
		return fail(why, "could not mount", TRUST_DIR);
	return put_files(t, TRUST_DIR, why);
}
