#include "proxy/io/stats.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct stats {
	uint64_t magic;
	uint32_t stats_n, statuses_n; /* both ends were built from the same tables */
	uint64_t stats[STAT_COUNT], refused[ST_COUNT];
};

static const uint64_t magic = 0x3153544154534753; /* "SGSTATS1" */

#define STAT(name, word, what) [STAT_##name] = (word),
static const char *const stat_words[STAT_COUNT] = {
#include "proxy/io/stats.def"
};
#undef STAT

enum status
stats_create(int *ret_memfd)
{
	struct stats first = { .magic = magic,
			       .stats_n = STAT_COUNT,
			       .statuses_n = ST_COUNT };
	int fd = memfd_create("sandgate-stats", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return ST_NO_FILES;
	if (write(fd, &first, sizeof first) != (ssize_t)sizeof first ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
		(void)close(fd);
		return ST_SYSTEM;
	}
	*ret_memfd = fd;
	return ST_OK;
}

enum status
stats_open(int memfd, bool writable, struct stats **ret_s)
{
	struct stat info = { 0 };
	int seals = fcntl(memfd, F_GET_SEALS);

	/* Unless it can't shrink, reading it can end in SIGBUS. */
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(memfd, &info) != 0 ||
	    info.st_size != (off_t)sizeof(struct stats))
		return ST_BAD_MESSAGE;
	int prot = writable ? PROT_READ | PROT_WRITE : PROT_READ;
	struct stats *s = mmap(NULL, sizeof *s, prot, MAP_SHARED, memfd, 0);
	if (s == MAP_FAILED)
		return ST_NOMEM;
	if (s->magic != magic || s->stats_n != STAT_COUNT ||
	    s->statuses_n != ST_COUNT) {
		stats_close(s);
		return ST_BAD_MESSAGE;
	}
	*ret_s = s;
	return ST_OK;
}

void
stats_close(struct stats *s)
{
	if (s != NULL)
		(void)munmap(s, sizeof *s);
}

void
stats_add(struct stats *s, enum counter which, int64_t by)
{
	need((size_t)which < STAT_COUNT);
	if (s != NULL)
		(void)__atomic_fetch_add(&s->stats[which], (uint64_t)by,
					 __ATOMIC_RELAXED);
}

uint64_t
stats_get(const struct stats *s, enum counter which)
{
	need((size_t)which < STAT_COUNT);
	return s == NULL ? 0 : __atomic_load_n(&s->stats[which], __ATOMIC_RELAXED);
}

void
stats_refused(struct stats *s, enum status why)
{
	need((size_t)why < ST_COUNT);
	if (s != NULL)
		(void)__atomic_fetch_add(&s->refused[why], 1, __ATOMIC_RELAXED);
}

uint64_t
stats_refusals(const struct stats *s, enum status why)
{
	need((size_t)why < ST_COUNT);
	return s == NULL ? 0 : __atomic_load_n(&s->refused[why], __ATOMIC_RELAXED);
}

const char *
stats_word(enum counter which)
{
	need((size_t)which < STAT_COUNT);
	return stat_words[which];
}
