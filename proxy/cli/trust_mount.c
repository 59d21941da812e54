#include "proxy/cli/trust_mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proxy/base/num.h"
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

/* Over what another process has. */

/* A mount on a shared one would appear in other namespaces too, the host's perhaps. */
static bool
is_shared(FILE *mountinfo, const char *path)
{
	struct statx at;
	char line[8192];

	if (statx(AT_FDCWD, path, 0, STATX_MNT_ID, &at) < 0)
		return true;
	rewind(mountinfo);
	while (fgets(line, sizeof line, mountinfo) != NULL) {
		struct str rest = str_of(line, strcspn(line, "\n"));
		uint64_t id = 0;
		if (!num_parse_u64(str_cut(&rest, ' '), UINT64_MAX, &id) ||
		    id != at.stx_mnt_id)
			continue;
		/* parent, device, root, place, options; then what is asked, up to "-" */
		for (int i = 0; i < 5; i++)
			(void)str_cut(&rest, ' ');
		while (rest.n > 0 && !str_starts(rest, STR("- ")))
			if (str_starts(str_cut(&rest, ' '), STR("shared:")))
				return true;
		return false;
	}
	return true;
}

static enum status
refuse_shared(FILE *mountinfo, const char *const paths[], struct buf *why)
{
	struct stat at;

	for (size_t i = 0; paths[i] != NULL; i++) {
		if (stat(paths[i], &at) < 0 || !is_shared(mountinfo, paths[i]))
			continue;
		buf_putf(why, "what is mounted at %s is shared with other namespaces",
			 paths[i]);
		return ST_CONFLICT;
	}
	return ST_OK;
}

/* A directory for a moment: the mounts over the bundles keep what is in it. */
static enum status
make_place(FILE *mountinfo, char *path, size_t max, struct buf *why)
{
	static const char *const places[] = { "/run", "/dev/shm", "/tmp", "/var/tmp" };

	for (size_t i = 0; i < COUNT_OF(places); i++) {
		(void)snprintf(path, max, "%s/sandgate-XXXXXX", places[i]);
		if (is_shared(mountinfo, places[i]) || mkdtemp(path) == NULL)
			continue;
		if (mount("sandgate", path, "tmpfs", FLAGS, options) == 0)
			return ST_OK;
		(void)rmdir(path);
	}
	buf_putf(why, "there is no place for a file system of our own");
	return ST_SYSTEM;
}

static enum status
gather(struct trust *t, struct str ours, struct buf *why)
{
	struct str bundle = STR("");
	enum status st = trust_read_system(&t->bundle);

	if (st != ST_OK) {
		buf_putf(why, "it has no bundle of roots that could be added to");
		return st;
	}
	buf_put(&t->bundle, ours);
	buf_put(&t->extra, ours);
	st = buf_finish(&t->bundle, &bundle);
	return st == ST_OK ? trust_put_java(&t->java, bundle) : st;
}

static const char *
first_there(const char *const paths[])
{
	struct stat at;

	while (paths[0] != NULL && stat(paths[0], &at) < 0)
		paths++;
	return paths[0];
}

enum status
trust_mount_over(struct str ours, FILE *mountinfo, struct buf *why,
		 const char **ret_path)
{
	struct trust t = { .is_there = true };
	char path[32];

	buf_init(&t.bundle, (size_t)2 * TRUST_FILE_MAX);
	buf_init(&t.extra, TRUST_FILE_MAX);
	buf_init(&t.java, (size_t)4 * TRUST_FILE_MAX);
	enum status st = gather(&t, ours, why);
	if (st == ST_OK)
		st = refuse_shared(mountinfo, trust_bundles, why);
	if (st == ST_OK)
		st = refuse_shared(mountinfo, trust_stores, why);
	if (st == ST_OK)
		st = make_place(mountinfo, path, sizeof path, why);
	if (st == ST_OK) {
		st = put_files(&t, path, why);
		(void)umount2(path, MNT_DETACH);
		(void)rmdir(path);
	}
	trust_done(&t);
	if (st == ST_OK)
		*ret_path = first_there(trust_bundles);
	return st;
}
