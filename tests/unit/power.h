#ifndef TESTS_UNIT_POWER_H
#define TESTS_UNIT_POWER_H
/*
 * power: a disk that loses what was not synced.  Everything that this process does to the
 * files of one directory is written down (the functions below stand in front of libc's, also
 * for sqlite); power_cut() then makes the directory as a power cut after the first n of these
 * things may have left it:
 *
 *	what was written to a file is there if the file was synced later; else any part of it,
 *	in sectors, is or isn't
 *	a name that was made, moved or removed is so if the directory was synced later; else
 *	the first so many of them are
 *
 * A pessimist's model of POSIX: no file system loses more.  Included once, by a test of one
 * thread; what is recorded lives as long as the process.
 */
#undef _FORTIFY_SOURCE /* whose inline functions would stand in front of ours */
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	POWER_STEPS = 8192,
	POWER_FILES = 256,
	POWER_FDS = 256,
	POWER_NAME = 64,
	POWER_SECTOR = 512,
	POWER_SIZE = 1 << 20
};

enum power_op {
	POWER_MAKE,
	POWER_WRITE,
	POWER_CUT_OFF,
	POWER_SYNC,
	POWER_MOVE,
	POWER_REMOVE,
	POWER_SYNC_DIR
};

struct power_step {
	enum power_op op;
	int file;
	off_t at;
	size_t n;
	unsigned char *bytes;
	char name[POWER_NAME], to[POWER_NAME];
};

struct power {
	bool is_on;
	bool is_lying; /* a disk that says that it has synced, and has not */
	struct power_step steps[POWER_STEPS];
	size_t steps_n;
	char names[POWER_FILES][POWER_NAME]; /* of files; "": it has none any more */
	int files_n;
	int fds[POWER_FDS]; /* 0: another's, -1: the directory, else 1 + file */
	uint64_t dice;
};

static struct power power;

static inline uint32_t
power_draw(uint32_t below)
{
	power.dice = power.dice * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(power.dice >> 33) % below;
}

static inline struct power_step *
power_note(enum power_op op, int file)
{
	struct power_step *s = &power.steps[power.steps_n];

	if (power.steps_n == POWER_STEPS)
		abort();
	power.steps_n++;
	*s = (struct power_step){ .op = op, .file = file };
	return s;
}

static inline void
power_name(char to[POWER_NAME], const char *name)
{
	size_t n = strnlen(name, POWER_NAME);

	if (n == POWER_NAME)
		abort();
	memcpy(to, name, n + 1);
}

static inline const char *
power_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL ? path : slash + 1;
}

static inline int
power_find(const char *name)
{
	for (int i = 0; i < power.files_n; i++)
		if (strcmp(power.names[i], name) == 0)
			return i;
	return -1;
}

/* What sqlite makes anew from the rest, and what is no file of the directory. */
static inline bool
power_is_ours(const char *path)
{
	const char *base = power_base(path);
	size_t n = strlen(base);

	return strncmp(path, "/proc", 5) != 0 && strncmp(path, "/dev/", 5) != 0 &&
	       strncmp(path, "/sys", 4) != 0 && strncmp(path, "/etc", 4) != 0 &&
	       n < POWER_NAME && (n < 4 || strcmp(base + n - 4, "-shm") != 0);
}

static inline void
power_opened(int fd, const char *path, int flags)
{
	struct stat info;

	if (fd < 0 || fd >= POWER_FDS)
		return;
	power.fds[fd] = 0;
	if (!power.is_on || !power_is_ours(path) || fstat(fd, &info) != 0)
		return;
	if (S_ISDIR(info.st_mode)) {
		power.fds[fd] = -1;
		return;
	}
	int file = power_find(power_base(path));
	if (file < 0) {
		if ((flags & O_CREAT) == 0 || power.files_n == POWER_FILES)
			return;
		file = power.files_n++;
		power_name(power.names[file], power_base(path));
		power_name(power_note(POWER_MAKE, file)->name, power_base(path));
	}
	power.fds[fd] = 1 + file;
	if ((flags & O_TRUNC) != 0)
		power_note(POWER_CUT_OFF, file)->at = 0;
}

static inline void
power_wrote(int fd, const void *bytes, ssize_t n, off_t at)
{
	if (!power.is_on || n <= 0 || fd < 0 || fd >= POWER_FDS || power.fds[fd] <= 0)
		return;
	struct power_step *s = power_note(POWER_WRITE, power.fds[fd] - 1);
	s->at = at;
	s->n = (size_t)n;
	s->bytes = malloc(s->n);
	if (s->bytes == NULL || (size_t)at + s->n > POWER_SIZE)
		abort();
	memcpy(s->bytes, bytes, s->n);
}

static inline int
power_synced(int fd, int rc)
{
	if (!power.is_on || rc != 0 || fd < 0 || fd >= POWER_FDS)
		return rc;
	if (power.fds[fd] > 0)
		(void)power_note(POWER_SYNC, power.fds[fd] - 1);
	else if (power.fds[fd] < 0)
		(void)power_note(POWER_SYNC_DIR, -1);
	return rc;
}

/* In front of libc. */

static inline int
power_open(int dir, const char *path, int flags, mode_t mode)
{
	int fd = (int)syscall(SYS_openat, dir, path, flags, mode);

	power_opened(fd, path, flags);
	return fd;
}

#define POWER_MODE(flags, last)                                                        \
	mode_t mode = 0;                                                               \
	va_list ap;                                                                    \
	va_start(ap, last);                                                            \
	if (((flags)&O_CREAT) != 0)                                                    \
		mode = (mode_t)va_arg(ap, int);                                        \
	va_end(ap)

int
open64(const char *path, int flags, ...)
{
	POWER_MODE(flags, flags);
	return power_open(AT_FDCWD, path, flags, mode);
}

int
open(const char *path, int flags, ...)
{
	POWER_MODE(flags, flags);
	return power_open(AT_FDCWD, path, flags, mode);
}

int
openat(int dir, const char *path, int flags, ...)
{
	POWER_MODE(flags, flags);
	return power_open(dir, path, flags, mode);
}

ssize_t
write(int fd, const void *bytes, size_t n)
{
	off_t at = power.is_on ? lseek(fd, 0, SEEK_CUR) : 0;
	ssize_t done = syscall(SYS_write, fd, bytes, n);

	power_wrote(fd, bytes, done, at);
	return done;
}

ssize_t
pwrite64(int fd, const void *bytes, size_t n, off_t at)
{
	ssize_t done = syscall(SYS_pwrite64, fd, bytes, n, at);

	power_wrote(fd, bytes, done, at);
	return done;
}

int
ftruncate64(int fd, off_t to)
{
	int rc = (int)syscall(SYS_ftruncate, fd, to);

	if (power.is_on && rc == 0 && fd < POWER_FDS && power.fds[fd] > 0)
		power_note(POWER_CUT_OFF, power.fds[fd] - 1)->at = to;
	return rc;
}

int
fsync(int fd)
{
	return power_synced(fd, (int)syscall(SYS_fsync, fd));
}

int
fdatasync(int fd)
{
	return power_synced(fd, (int)syscall(SYS_fdatasync, fd));
}

int
close(int fd)
{
	if (fd >= 0 && fd < POWER_FDS)
		power.fds[fd] = 0;
	return (int)syscall(SYS_close, fd);
}

static inline int
power_removed(const char *path, int rc)
{
	int file = power.is_on && rc == 0 ? power_find(power_base(path)) : -1;

	if (file < 0)
		return rc;
	power_name(power_note(POWER_REMOVE, file)->name, power_base(path));
	power.names[file][0] = '\0';
	return rc;
}

int
unlink(const char *path)
{
	return power_removed(path, (int)syscall(SYS_unlink, path));
}

int
unlinkat(int dir, const char *path, int flags)
{
	return power_removed(path, (int)syscall(SYS_unlinkat, dir, path, flags));
}

int
renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	int rc = (int)syscall(SYS_renameat, from_dir, from, to_dir, to);
	int file = power.is_on && rc == 0 ? power_find(from) : -1, over;

	if (file < 0)
		return rc;
	struct power_step *s = power_note(POWER_MOVE, file);
	power_name(s->name, from);
	power_name(s->to, to);
	over = power_find(to);
	if (over >= 0)
		power.names[over][0] = '\0';
	power_name(power.names[file], to);
	return rc;
}

/* The disk afterwards. */

enum power_luck { POWER_NOTHING, POWER_ALL, POWER_SOME };

struct power_file {
	unsigned char *bytes;
	size_t n;
};

static inline bool
power_is_safe(size_t step, size_t cut, enum power_op by, int file)
{
	for (size_t i = step + 1; i < cut && !power.is_lying; i++)
		if (power.steps[i].op == by && power.steps[i].file == file)
			return true;
	return false;
}

static inline void
power_put(struct power_file *f, const struct power_step *s, bool is_torn)
{
	for (size_t at = 0; at < s->n;) {
		size_t n = POWER_SECTOR - ((size_t)s->at + at) % POWER_SECTOR;
		if (n > s->n - at)
			n = s->n - at;
		if (!is_torn || power_draw(2) == 0) {
			size_t end = (size_t)s->at + at + n;
			memcpy(f->bytes + s->at + at, s->bytes + at, n);
			f->n = end > f->n ? end : f->n;
		}
		at += n;
	}
}

static inline void
power_contents(struct power_file files[POWER_FILES], size_t cut, enum power_luck luck)
{
	for (size_t i = 0; i < cut; i++) {
		const struct power_step *s = &power.steps[i];
		if (s->op != POWER_WRITE && s->op != POWER_CUT_OFF)
			continue;
		bool is_safe = power_is_safe(i, cut, POWER_SYNC, s->file);
		if (!is_safe && (luck == POWER_NOTHING ||
				 (luck == POWER_SOME && power_draw(2) == 0)))
			continue;
		struct power_file *f = &files[s->file];
		if (s->op == POWER_WRITE) {
			power_put(f, s, !is_safe && luck == POWER_SOME);
		} else {
			size_t to = (size_t)s->at;
			if (to < f->n)
				memset(f->bytes + to, 0, f->n - to);
			f->n = to;
		}
	}
}

static inline void
power_drop_name(char names[POWER_FILES][POWER_NAME], const char *name)
{
	for (int i = 0; i < POWER_FILES; i++)
		if (strcmp(names[i], name) == 0)
			names[i][0] = '\0';
}

static inline void
power_names(char names[POWER_FILES][POWER_NAME], size_t cut, enum power_luck luck)
{
	bool is_lucky = luck != POWER_NOTHING;

	for (size_t i = 0; i < cut; i++) {
		const struct power_step *s = &power.steps[i];
		if (s->op != POWER_MAKE && s->op != POWER_MOVE && s->op != POWER_REMOVE)
			continue;
		if (!power_is_safe(i, cut, POWER_SYNC_DIR, -1)) {
			/* In the order in which they were done: a journal's. */
			if (luck == POWER_SOME && power_draw(2) == 0)
				is_lucky = false;
			if (!is_lucky)
				return;
		}
		if (s->op != POWER_REMOVE)
			power_drop_name(names, s->op == POWER_MOVE ? s->to : s->name);
		if (s->op == POWER_REMOVE)
			names[s->file][0] = '\0';
		else
			memcpy(names[s->file], s->op == POWER_MOVE ? s->to : s->name,
			       POWER_NAME);
	}
}

static inline void
power_save(int dir, const char *name, const struct power_file *f)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, f->bytes, f->n) != (ssize_t)f->n)
		abort();
	(void)close(fd);
}

/* What may be there after the first `cut` steps, put into dir, which is empty. */
static inline void
power_cut(int dir, size_t cut, enum power_luck luck, uint64_t dice)
{
	static struct power_file files[POWER_FILES];
	static char names[POWER_FILES][POWER_NAME];

	power.dice = dice;
	memset(names, 0, sizeof names);
	for (int i = 0; i < power.files_n; i++) {
		if (files[i].bytes == NULL)
			files[i].bytes = malloc(POWER_SIZE);
		if (files[i].bytes == NULL)
			abort();
		memset(files[i].bytes, 0, POWER_SIZE);
		files[i].n = 0;
	}
	power_contents(files, cut, luck);
	power_names(names, cut, luck);
	for (int i = 0; i < power.files_n; i++)
		if (names[i][0] != '\0')
			power_save(dir, names[i], &files[i]);
}

#endif
