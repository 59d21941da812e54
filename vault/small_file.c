#include "vault/small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME = 64 };

struct name {
	char text[NAME];
};

static struct name
staged(const char *name)
{
	struct name n;
	int length = snprintf(n.text, sizeof n.text, "%s.new", name);

	need(length > 0 && (size_t)length < sizeof n.text);
	return n;
}

/* Of ours, or of root where a service manager made it for us. */
static bool
is_private(const struct stat *info, unsigned forbidden)
{
	return S_ISREG(info->st_mode) && (info->st_mode & forbidden) == 0 &&
	       (info->st_uid == geteuid() || info->st_uid == 0);
}

enum status
small_file_read_fd(int fd, unsigned forbidden, void *bytes, size_t room, size_t *ret_n)
{
	struct stat info;

	if (fstat(fd, &info) != 0)
		return ST_SYSTEM;
	if (!is_private(&info, forbidden))
		return ST_CONFLICT;
	if ((uint64_t)info.st_size > room)
		return ST_TOO_BIG;
	ssize_t n = pread(fd, bytes, room, 0);
	if (n < 0)
		return ST_SYSTEM;
	*ret_n = (size_t)n;
	return ST_OK;
}

enum status
small_file_read(int dir, const char *name, void *bytes, size_t room, size_t *ret_n)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT  ? ST_NOT_FOUND
		       : errno == ELOOP ? ST_CONFLICT
					: ST_SYSTEM;
	enum status st = small_file_read_fd(fd, SMALL_FILE_OURS, bytes, room, ret_n);
	(void)close(fd);
	return st;
}

enum status
small_file_read_staged(int dir, const char *name, void *bytes, size_t room,
		       size_t *ret_n)
{
	struct name n = staged(name);

	return small_file_read(dir, n.text, bytes, room, ret_n);
}

enum status
small_file_stage(int dir, const char *name, struct str bytes)
{
	struct name n = staged(name);

	/* What a crash left half done. */
	if (unlinkat(dir, n.text, 0) != 0 && errno != ENOENT)
		return ST_SYSTEM;
	int fd = openat(dir, n.text,
			O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return ST_SYSTEM;
	bool ok = write(fd, bytes.p, bytes.n) == (ssize_t)bytes.n && fsync(fd) == 0;
	(void)close(fd);
	/* The name too: a vault may soon need the key that lies there. */
	return ok && fsync(dir) == 0 ? ST_OK : ST_SYSTEM;
}

enum status
small_file_settle(int dir, const char *name)
{
	struct name n = staged(name);

	if (renameat(dir, n.text, dir, name) != 0)
		return ST_SYSTEM;
	return fsync(dir) == 0 ? ST_OK : ST_SYSTEM;
}

enum status
small_file_write(int dir, const char *name, struct str bytes)
{
	enum status st = small_file_stage(dir, name, bytes);

	return st == ST_OK ? small_file_settle(dir, name) : st;
}

void
small_file_remove(int dir, const char *name)
{
	(void)unlinkat(dir, name, 0);
}
