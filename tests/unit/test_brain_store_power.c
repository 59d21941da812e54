/*
 * The power goes while sandboxes are given out.  After each cut the store opens by itself and
 * says of every sandbox what it said before the change or after it, and no change that
 * somebody was told of is lost.
 */
#include "tests/unit/power.h"

#include <dirent.h>

#include "proxy/base/buf.h"
#include "proxy/base/num.h"
#include "tests/unit/brain_bench.h"

enum { OPS = 11, OPS_MAX = 16, TELL_MAX = 8192, SOME = 1 };

struct point { /* what the store said when an operation had been acknowledged */
	size_t steps;
	char text[TELL_MAX];
};

struct world {
	struct point points[OPS_MAX];
	size_t n;
	struct brain_store *s;
	struct arena a;
	struct str one, two;
};

static struct brain_store *
open_store(int dir)
{
	struct brain_store *s = NULL;

	assert_int_equal(fchdir(dir), 0);
	assert_int_equal(brain_store_open("exec.db", &s), ST_OK);
	return s;
}

static void
tell_query(struct brain_store *s, const char *query, struct buf *b)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;

	assert_int_equal(sql_prepare(brain_store_db(s), query, &q), ST_OK);
	while (sql_next(q) == ST_OK) {
		for (int i = 0; i < sqlite3_column_count(q); i++) {
			buf_put(b, sql_get_bytes(q, i));
			buf_putc(b, ' ');
		}
		buf_putc(b, '\n');
	}
}

/* When it was last used is all that may be forgotten. */
static void
tell(struct brain_store *s, char text[TELL_MAX])
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str all;

	buf_init(&b, TELL_MAX - 1);
	tell_query(s,
		   "SELECT id, server, upstream, user, state, reuse_key, expires_s,"
		   " policy FROM sandboxes ORDER BY n",
		   &b);
	tell_query(s, "SELECT server, upstream, user FROM owned ORDER BY upstream", &b);
	tell_query(s, "SELECT key, sandbox FROM idempotency", &b);
	tell_query(s, "SELECT sandbox, key, value FROM labels", &b);
	tell_query(s, "SELECT id, user FROM keys", &b);
	bench_check(brain_store_db(s));
	buf_putc(&b, '.');
	assert_int_equal(buf_finish(&b, &all), ST_OK);
	memcpy(text, all.p, all.n);
	text[all.n] = '\0';
}

static enum status
claim(struct world *w, const char *user, struct str *ret_id)
{
	const struct brain_pair pair = { STR("team"), STR("red") };
	struct brain_claim c = bench_claim(user, "s1");
	struct brain_sandbox x;
	enum brain_claimed how;

	c.pairs = &pair;
	c.pairs_n = 1;
	c.idempotency = STR("again");
	c.idempotency_expires_s = BENCH_NOW + 100;
	enum status st = brain_store_claim(w->s, &c, &w->a, &x, &how);
	if (st == ST_OK)
		*ret_id = x.id;
	return st;
}

static enum status
change(struct world *w, size_t op)
{
	const struct brain_warm warm = { .server = STR("standard"),
					 .shape = STR("5a5a"),
					 .now_s = BENCH_NOW };
	struct str id;

	switch (op) {
	case 0:
		return claim(w, "ann", &w->one);
	case 1:
		return brain_store_made(w->s, w->one, STR("standard"), STR("u1"), 9);
	case 2:
		return brain_store_warm_add(w->s, &warm, &w->a, &w->two);
	case 3:
		return brain_store_made(w->s, w->two, STR("standard"), STR("u2"), 0);
	case 4:
		return brain_store_touch(w->s, w->one, BENCH_NOW + 5);
	case 5: /* another's tables, after what may be forgotten */
		return sql_exec(
			brain_store_db(w->s),
			"INSERT INTO keys(id, hash, tenant, user, agent, scopes,"
			" may_delegate, created_s) VALUES(x'41', zeroblob(32), x'',"
			" x'41', x'', 1, 0, 1)");
	case 6:
		return claim(w, "bob", &id);
	case 7:
		return brain_store_state(w->s, w->two, BRAIN_RUNNING, BENCH_NOW);
	case 8:
		return brain_store_frozen(w->s, w->one, STR("snap"), BENCH_NOW);
	case 9:
		return brain_store_made(w->s, w->one, STR("standard"), STR("u3"), 0);
	case 10:
		return brain_store_gone(w->s, w->two, BENCH_NOW);
	default:
		return ST_END;
	}
}

static int
make_dir(char path[64])
{
	(void)snprintf(path, 64, "/dev/shm/sandgate-brain-power-XXXXXX");
	assert_non_null(mkdtemp(path));
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void
empty_dir(int dir)
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

static void
remove_dir(int dir, const char *path)
{
	empty_dir(dir);
	assert_int_equal(chdir("/"), 0);
	(void)close(dir);
	(void)rmdir(path);
}

/* All operations, once, in a directory whose every step is written down. */
static void
record(struct world *w)
{
	char path[64];
	int dir = make_dir(path);

	arena_init(&w->a, BENCH_ARENA);
	power.is_on = true;
	power.fds[dir] = -1;
	w->s = open_store(dir);
	for (enum status st = ST_OK; st != ST_END; st = change(w, w->n++)) {
		assert_int_equal(st, ST_OK);
		w->points[w->n].steps = power.steps_n;
		power.is_on = false;
		tell(w->s, w->points[w->n].text);
		power.is_on = true;
	}
	power.is_on = false;
	brain_store_close(w->s);
	assert_int_equal(w->n, OPS + 1);
	remove_dir(dir, path);
}

static bool
is_fine(const struct world *w, size_t cut, const char *text)
{
	size_t done = 0;

	while (done < w->n && w->points[done].steps <= cut)
		done++;
	if (done == 0)
		return strcmp(text, ".") == 0;
	return strcmp(text, w->points[done - 1].text) == 0 ||
	       (done < w->n && strcmp(text, w->points[done].text) == 0);
}

static void
try_cut(int dir, const struct world *w, size_t cut, enum power_luck luck, uint64_t dice)
{
	char text[TELL_MAX];

	empty_dir(dir);
	power_cut(dir, cut, luck, dice);
	struct brain_store *s = open_store(dir);
	tell(s, text);
	brain_store_close(s);
	if (!is_fine(w, cut, text))
		fail_msg("cut %zu, luck %d, dice %llu: %.400s", cut, (int)luck,
			 (unsigned long long)dice, text);
}

/* SG_POWER: how often luck is tried for each cut; ./dev test long asks for more. */
static uint64_t
tries(void)
{
	const char *often = getenv("SG_POWER");
	uint64_t n = 0;

	return often != NULL && num_parse_u64(str_from(often), 1000, &n) ? n : SOME;
}

static void
after_each_cut_it_is_known_whose_each_sandbox_is(void **state)
{
	const struct world *w = *state;
	size_t cuts = 0;
	uint64_t most = tries();
	char path[64];
	int dir = make_dir(path);

	for (size_t cut = 0; cut <= power.steps_n; cut++) {
		try_cut(dir, w, cut, POWER_NOTHING, 0);
		for (uint64_t dice = 1; dice <= most; dice++)
			try_cut(dir, w, cut, POWER_SOME, dice * 7919 + cut);
		cuts += 1 + most;
	}
	print_message("%zu steps, %zu cuts\n", power.steps_n, cuts);
	remove_dir(dir, path);
}

/* So the test can find: from a disk that only says that it has synced, changes are lost. */
static void
a_change_that_was_not_synced_would_be_found_missing(void **state)
{
	const struct world *w = *state;
	char path[64], text[TELL_MAX];
	int dir = make_dir(path);
	size_t lost = 0;

	power.is_lying = true;
	for (size_t i = 1; i < w->n; i++) {
		empty_dir(dir);
		power_cut(dir, w->points[i].steps, POWER_NOTHING, 0);
		struct brain_store *s = open_store(dir);
		tell(s, text);
		brain_store_close(s);
		lost += !is_fine(w, w->points[i].steps, text);
	}
	power.is_lying = false;
	assert_int_equal(lost, w->n - 1);
	remove_dir(dir, path);
}

static int
set_up(void **state)
{
	static struct world w;

	record(&w);
	*state = &w;
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_each_cut_it_is_known_whose_each_sandbox_is),
		cmocka_unit_test(a_change_that_was_not_synced_would_be_found_missing),
	};

	return cmocka_run_group_tests_name("brain_store_power", tests, set_up, NULL);
}
