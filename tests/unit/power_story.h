#ifndef TESTS_UNIT_POWER_STORY_H
#define TESTS_UNIT_POWER_STORY_H
/*
 * power_story: something that is kept in files is changed, one operation after the other, and
 * the power goes after every step of that.  Whenever it is opened afterwards it tells what it
 * told before the change or after it, and no change that was acknowledged is lost.
 *
 * A test fills in the functions, which fail by themselves, and hands the story to both tests
 * below as their state.  Included once, like power.h.
 */
#include "tests/unit/power.h"

#include <setjmp.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>

#include "proxy/base/num.h"

enum { STORY_OPS = 32, STORY_TELL = 16384 };

struct power_point { /* what it told when an operation had been acknowledged */
	size_t steps;
	char text[STORY_TELL];
};

struct power_story {
	size_t ops;
	uint64_t some;    /* how often luck is tried for each cut */
	bool is_thorough; /* also with all that was written, and opened once more */
	const char
		*new_tells; /* how it begins to tell before anything was acknowledged */
	void *(*open_in)(int dir);
	void (*close)(void *store);
	void (*tell)(void *store, char text[STORY_TELL]);
	enum status (*change)(void *store, size_t op); /* ST_END: there is no such op */
	struct power_point points[STORY_OPS];
	size_t n;
};

static inline int
story_make_dir(char path[64])
{
	(void)snprintf(path, 64, "/dev/shm/sandgate-power-XXXXXX");
	assert_non_null(mkdtemp(path));
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static inline void
story_empty_dir(int dir)
{
	DIR *d = fdopendir(fcntl(dir, F_DUPFD_CLOEXEC, 0));
	const struct dirent *e;

	assert_non_null(d);
	rewinddir(d);
	while ((e = readdir(d)) != NULL)
		if (e->d_name[0] != '.')
			(void)unlinkat(dir, e->d_name, 0);
	(void)closedir(d);
}

static inline void
story_remove_dir(int dir, const char *path)
{
	story_empty_dir(dir);
	assert_int_equal(chdir("/"), 0);
	(void)close(dir);
	(void)rmdir(path);
}

/* All operations, once, in a directory whose every step is written down. */
static inline void
story_record(struct power_story *t)
{
	char path[64];
	int dir = story_make_dir(path);

	power.is_on = true;
	power.fds[dir] = -1;
	void *store = t->open_in(dir);
	for (enum status st = ST_OK; st != ST_END; st = t->change(store, t->n++)) {
		assert_int_equal(st, ST_OK);
		assert_true(t->n < STORY_OPS);
		t->points[t->n].steps = power.steps_n;
		power.is_on = false;
		t->tell(store, t->points[t->n].text);
		power.is_on = true;
	}
	t->close(store);
	power.is_on = false;
	assert_int_equal(t->n, t->ops + 1);
	story_remove_dir(dir, path);
}

/* Before the first was acknowledged there was nothing to lose: a new one is made. */
static inline bool
story_is_fine(const struct power_story *t, size_t cut, const char *text)
{
	size_t done = 0;

	while (done < t->n && t->points[done].steps <= cut)
		done++;
	if (done == 0)
		return strncmp(text, t->new_tells, strlen(t->new_tells)) == 0;
	return strcmp(text, t->points[done - 1].text) == 0 ||
	       (done < t->n && strcmp(text, t->points[done].text) == 0);
}

static inline void
story_tell_in(const struct power_story *t, int dir, char text[STORY_TELL])
{
	void *store = t->open_in(dir);

	t->tell(store, text);
	t->close(store);
}

static inline void
story_try_cut(int dir, const struct power_story *t, size_t cut, enum power_luck luck,
	      uint64_t dice)
{
	char text[STORY_TELL], again[STORY_TELL];

	story_empty_dir(dir);
	power_cut(dir, cut, luck, dice);
	story_tell_in(t, dir, text);
	if (!story_is_fine(t, cut, text))
		fail_msg("cut %zu, luck %d, dice %llu: %.400s", cut, (int)luck,
			 (unsigned long long)dice, text);
	if (!t->is_thorough)
		return;
	story_tell_in(t, dir, again);
	assert_string_equal(text, again);
}

/* SG_POWER: how often luck is tried for each cut; ./dev test long asks for more. */
static inline uint64_t
story_tries(const struct power_story *t)
{
	const char *often = getenv("SG_POWER");
	uint64_t n = 0;

	return often != NULL && num_parse_u64(str_from(often), 1000, &n) ? n : t->some;
}

static inline void
after_each_cut_it_is_the_old_or_the_new_one(void **state)
{
	const struct power_story *t = *state;
	size_t cuts = 0;
	uint64_t most = story_tries(t);
	char path[64];
	int dir = story_make_dir(path);

	for (size_t cut = 0; cut <= power.steps_n; cut++) {
		story_try_cut(dir, t, cut, POWER_NOTHING, 0);
		if (t->is_thorough)
			story_try_cut(dir, t, cut, POWER_ALL, 0);
		for (uint64_t dice = 1; dice <= most; dice++)
			story_try_cut(dir, t, cut, POWER_SOME, dice * 7919 + cut);
		cuts += 1 + t->is_thorough + most;
	}
	print_message("%zu steps, %zu cuts\n", power.steps_n, cuts);
	story_remove_dir(dir, path);
}

/* So the test can find: from a disk that only says that it has synced, changes are lost. */
static inline void
a_change_that_was_not_synced_would_be_found_missing(void **state)
{
	const struct power_story *t = *state;
	char path[64], text[STORY_TELL];
	int dir = story_make_dir(path);
	size_t lost = 0;

	power.is_lying = true;
	for (size_t i = 1; i < t->n; i++) {
		story_empty_dir(dir);
		power_cut(dir, t->points[i].steps, POWER_NOTHING, 0);
		story_tell_in(t, dir, text);
		lost += !story_is_fine(t, t->points[i].steps, text);
	}
	power.is_lying = false;
	assert_int_equal(lost, t->n - 1);
	story_remove_dir(dir, path);
}

#endif
