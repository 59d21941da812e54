#include "proxy/cli/devices.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const nodes[] = { "/dev/null",   "/dev/zero",    "/dev/full",
				     "/dev/random", "/dev/urandom", "/dev/tty" };

enum { NODES = COUNT_OF(nodes) };

static enum status
fail(struct buf *why, const char *what, const char *path)
{
	buf_putf(why, "could not %s %s: %s", what, path, strerror(errno));
	return ST_SYSTEM;
}

/* The host's node, as a mount that is nowhere yet; one that isn't there stays away. */
static void
pick(int trees[NODES])
{
	for (size_t i = 0; i < NODES; i++)
		trees[i] = open_tree(AT_FDCWD, nodes[i],
				     OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

static enum status
place(int tree, const char *path, struct buf *why)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0)
		return fail(why, "make", path);
	(void)close(fd);
	if (move_mount(tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return fail(why, "place", path);
	return ST_OK;
}

static enum status
place_all(int trees[NODES], struct buf *why)
{
	enum status st = ST_OK;

	if (mount("sandgate", "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC,
		  "size=1m,mode=755") < 0)
		st = fail(why, "mask", "/dev");
	for (size_t i = 0; i < NODES; i++) {
		if (trees[i] < 0)
			continue;
		if (st == ST_OK)
			st = place(trees[i], nodes[i], why);
		(void)close(trees[i]);
	}
	return st;
}

static enum status
links(struct buf *why)
{
	static const struct {
		const char *to, *path;
	} all[] = {
		{ "/proc/self/fd", "/dev/fd" }, { "fd/0", "/dev/stdin" },
		{ "fd/1", "/dev/stdout" },      { "fd/2", "/dev/stderr" },
		{ "pts/ptmx", "/dev/ptmx" },
	};

	for (size_t i = 0; i < COUNT_OF(all); i++)
		if (symlink(all[i].to, all[i].path) < 0)
			return fail(why, "make", all[i].path);
	return ST_OK;
}

/* Other terminals of the same user: what is typed there could be read. */
static enum status
folders(struct buf *why)
{
	static const struct {
		const char *path, *type, *options;
		unsigned long flags;
	} all[] = {
		{ "/dev/pts", "devpts", "newinstance,ptmxmode=0666,mode=0620",
		  MS_NOSUID | MS_NOEXEC },
		{ "/dev/shm", "tmpfs", "mode=1777", MS_NOSUID | MS_NODEV },
	};

	for (size_t i = 0; i < COUNT_OF(all); i++) {
		if (mkdir(all[i].path, 0755) < 0)
			return fail(why, "make", all[i].path);
		if (mount(all[i].type, all[i].path, all[i].type, all[i].flags,
			  all[i].options) < 0)
			return fail(why, "mount", all[i].path);
	}
	return ST_OK;
}

enum status
devices_make(struct buf *why)
{
	int trees[NODES];
	struct stat at;

	if (lstat("/dev", &at) < 0)
		return ST_OK;
	pick(trees);
	enum status st = place_all(trees, why);
	if (st == ST_OK)
		st = folders(why);
	return st == ST_OK ? links(why) : st;
}
