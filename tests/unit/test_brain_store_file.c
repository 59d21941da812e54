/* What is in the file: it outlives us, and one that isn't ours is not used. */
#include "tests/unit/brain_bench.h"

#include <fcntl.h>
#include <string.h>

static void
what_was_claimed_is_there_after_a_restart(void **state)
{
	struct bench *b = *state;
	struct brain_claim c = bench_claim("ann", "s1");
	struct str id = bench_warm(b, "w1");
	struct brain_sandbox x = bench_take(b, &c, BRAIN_WARM);
	uint8_t one[BRAIN_SECRET], two[BRAIN_SECRET], other[BRAIN_SECRET];

	assert_int_equal(brain_store_secret(b->s, STR("capability"), one), ST_OK);
	assert_int_equal(brain_store_secret(b->s, STR("other"), other), ST_OK);
	bench_again(b);
	x = bench_take(b, &c, BRAIN_EXISTING);
	assert_true(str_eq(x.id, id));
	assert_int_equal(brain_store_secret(b->s, STR("capability"), two), ST_OK);
	assert_memory_equal(one, two, sizeof one);
	assert_memory_not_equal(one, other, sizeof one);
}

/* Files of others. */

static void
a_file_with_other_tables_or_triggers_is_not_used(void **state)
{
	static const char *const changes[] = {
		"CREATE TRIGGER t AFTER INSERT ON keys BEGIN DELETE FROM keys; END",
		"CREATE TABLE more(x)",
		"CREATE VIEW v AS SELECT 1",
		"DROP INDEX sandboxes_reused",
		"DROP TRIGGER sandboxes_keep",
		"DROP TABLE owned",
		"ALTER TABLE keys ADD COLUMN x INTEGER",
		/* without the check of keys, as a shell has it */
		"PRAGMA foreign_keys=OFF; UPDATE sandboxes SET upstream = x'99'",
	};

	for (size_t i = 0; i < COUNT_OF(changes); i++) {
		struct brain_claim c = bench_claim("ann", "");
		struct bench b;
		bench_open(&b);
		(void)bench_warm(&b, "w1");
		(void)bench_take(&b, &c, BRAIN_WARM);
		brain_store_close(b.s);
		b.s = NULL;
		bench_sql(b.path, changes[i]);
		bench_damaged(&b);
		bench_close(&b);
	}
	(void)state;
}

static void
write_file(const char *path, off_t at, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(pwrite(fd, "x", 1, at + (off_t)i), 1);
	(void)close(fd);
}

static void
a_file_that_is_no_database_or_half_of_one_is_not_used(void **state)
{
	struct bench *b = *state;

	for (int i = 0; i < 300; i++) {
		struct brain_claim c = bench_claim("ann", "");
		(void)bench_take(b, &c, BRAIN_NEW);
	}
	brain_store_close(b->s);
	b->s = NULL;
	assert_int_equal(truncate(b->path, 50000), 0);
	bench_damaged(b);
	bench_remove(b->path, "");
	bench_remove(b->path, "-wal");
	write_file(b->path, 0, 10000);
	bench_damaged(b);
}

/* A byte of it anywhere: it is found, or it is none that counts. */
static void
a_changed_page_is_found_or_harms_nothing(void **state)
{
	struct bench *b = *state;
	size_t found = 0;
	struct brain_store *s;

	for (int i = 0; i < 100; i++) {
		struct brain_claim c = bench_claim("ann", "");
		(void)bench_take(b, &c, BRAIN_NEW);
	}
	brain_store_close(b->s);
	b->s = NULL;
	int fd = open(b->path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	static char whole[1 << 20];
	ssize_t n = read(fd, whole, sizeof whole);
	assert_true(n > 100000 && (size_t)n < sizeof whole);
	(void)close(fd);
	for (off_t at = 0; at < n; at += 1021) {
		write_file(b->path, at, 16);
		enum status st = brain_store_open(b->path, &s);
		found += st == ST_STORE_DAMAGED;
		if (st == ST_OK)
			brain_store_close(s);
		bench_remove(b->path, "-wal");
		bench_remove(b->path, "-shm");
		fd = open(b->path, O_WRONLY | O_TRUNC | O_CLOEXEC);
		assert_int_equal(write(fd, whole, (size_t)n), n);
		(void)close(fd);
	}
	print_message("%zu of %zd found\n", found, n / 1021);
	assert_true(found > 0);
	assert_int_equal(brain_store_open(b->path, &b->s), ST_OK);
	bench_check(brain_store_db(b->s));
}

/* Labels, snapshots, what is forgotten. */

static uint64_t
count_by(struct bench *b, const struct brain_pair *pairs, size_t n)
{
	const struct brain_filter f = { .owner = bench_owner("ann"),
					.pairs = pairs,
					.pairs_n = n,
					.page = 1,
					.page_size = 10 };
	struct brain_sandboxes got;

	assert_int_equal(brain_store_list(b->s, &f, &b->a, &got), ST_OK);
	assert_int_equal(got.n, got.total);
	return got.total;
}

static void
a_list_wants_all_pairs_and_the_metadata_of_now(void **state)
{
	const struct brain_pair a = { STR("team"), STR("red") },
				other = { STR("team"), STR("blue") },
				both[] = { { STR("team"), STR("red") },
					   { STR("kind"), STR("x") } };
	struct bench *b = *state;
	struct brain_claim c = bench_claim("ann", "");
	struct brain_pair many[BRAIN_FILTER_PAIRS + 1];
	struct brain_sandboxes got;

	c.pairs = both;
	c.pairs_n = 2;
	struct brain_sandbox x = bench_take(b, &c, BRAIN_NEW);
	c.pairs_n = 1;
	(void)bench_take(b, &c, BRAIN_NEW);
	c.pairs_n = 0;
	(void)bench_take(b, &c, BRAIN_NEW);
	assert_int_equal(count_by(b, NULL, 0), 3);
	assert_int_equal(count_by(b, &a, 1), 2);
	assert_int_equal(count_by(b, both, 2), 1);
	assert_int_equal(
		brain_store_metadata(b->s, x.id, STR("{\"team\":\"blue\"}"), &other, 1),
		ST_OK);
	assert_int_equal(count_by(b, &a, 1), 1);
	assert_int_equal(count_by(b, &other, 1), 1);
	assert_int_equal(count_by(b, both, 2), 0);
	assert_int_equal(brain_store_gone(b->s, x.id, BENCH_NOW), ST_OK);
	assert_int_equal(count_by(b, &other, 1), 0);
	for (size_t i = 0; i < COUNT_OF(many); i++)
		many[i] = a;
	assert_int_equal(count_by(b, many, BRAIN_FILTER_PAIRS), 1);
	const struct brain_filter f = { .owner = bench_owner("ann"),
					.pairs = many,
					.pairs_n = COUNT_OF(many),
					.page = 1,
					.page_size = 1 };
	assert_int_equal(brain_store_list(b->s, &f, &b->a, &got), ST_TOO_BIG);
	assert_int_equal(brain_store_metadata(b->s, STR("sb-no"), STR("{}"), NULL, 0),
			 ST_NOT_FOUND);
}

static void
a_snapshot_is_its_owners(void **state)
{
	struct bench *b = *state;
	struct brain_snapshot sn = { .server = STR("standard"),
				     .upstream = STR("up-1"),
				     .sandbox = STR("sb-1"),
				     .name = STR("before"),
				     .owner = bench_owner("ann"),
				     .shape = STR("5a5a"),
				     .info = STR("{}"),
				     .created_s = 5 },
			      got;
	const struct brain_owner bob = bench_owner("bob");
	struct brain_snapshot_filter f = { .owner = sn.owner,
					   .page = 1,
					   .page_size = 2 };
	struct brain_snapshots all;
	struct str id, more;

	assert_int_equal(brain_store_snapshot_add(b->s, &sn, &b->a, &id), ST_OK);
	assert_int_equal(brain_store_snapshot_add(b->s, &sn, &b->a, &more),
			 ST_CONFLICT);
	sn.owner = bob;
	assert_int_equal(brain_store_snapshot_add(b->s, &sn, &b->a, &more),
			 ST_CONFLICT);
	sn.owner = f.owner;
	sn.upstream = STR("up-2");
	sn.name = STR("after");
	sn.created_s = 6;
	assert_int_equal(brain_store_snapshot_add(b->s, &sn, &b->a, &more), ST_OK);
	assert_int_equal(brain_store_snapshot_find(b->s, &bob, id, &b->a, &got),
			 ST_NOT_FOUND);
	assert_int_equal(brain_store_snapshot_info(b->s, id, STR("{\"a\":1}")), ST_OK);
	assert_int_equal(brain_store_snapshot_find(b->s, &f.owner, id, &b->a, &got),
			 ST_OK);
	assert_true(str_eq(got.info, STR("{\"a\":1}")));
	f.newest_first = true;
	assert_int_equal(brain_store_snapshot_list(b->s, &f, &b->a, &all), ST_OK);
	assert_int_equal(all.total, 2);
	assert_true(str_eq(all.of[0].id, more) && str_eq(all.of[1].id, id));
	f.name = STR("before");
	f.page_size = 1;
	assert_int_equal(brain_store_snapshot_list(b->s, &f, &b->a, &all), ST_OK);
	assert_int_equal(all.total, 1);
	assert_int_equal(brain_store_snapshot_gone(b->s, id), ST_OK);
	assert_int_equal(brain_store_snapshot_gone(b->s, id), ST_NOT_FOUND);
}

static void
the_idle_and_the_expired_are_found_and_the_busy_are_not(void **state)
{
	struct bench *b = *state;
	struct brain_claim c = bench_claim("ann", "");
	struct brain_sandbox x = bench_take(b, &c, BRAIN_NEW),
			     y = bench_take(b, &c, BRAIN_NEW);
	struct brain_sandboxes got;

	(void)bench_warm(b, "w1");
	assert_int_equal(brain_store_made(b->s, x.id, STR("standard"), STR("u1"), 0),
			 ST_OK);
	assert_int_equal(brain_store_made(b->s, y.id, STR("standard"), STR("u2"), 0),
			 ST_OK);
	assert_int_equal(brain_store_touch(b->s, y.id, BENCH_NOW + 100), ST_OK);
	assert_int_equal(
		brain_store_idle(b->s, BRAIN_RUNNING, BENCH_NOW + 50, 0, &b->a, &got),
		ST_OK);
	assert_int_equal(got.n, 1);
	assert_true(str_eq(got.of[0].id, x.id));
	assert_int_equal(
		brain_store_idle(b->s, BRAIN_PAUSED, BENCH_NOW + 50, 0, &b->a, &got),
		ST_OK);
	assert_int_equal(got.n, 0);
	/* The warm one, whose time is shortest. */
	assert_int_equal(brain_store_expired(b->s, BENCH_NOW + 1000, 0, &b->a, &got),
			 ST_OK);
	assert_int_equal(got.n, 1);
	assert_int_equal(brain_store_expired(b->s, BENCH_NOW + 3600, 0, &b->a, &got),
			 ST_OK);
	assert_int_equal(got.n, 3);
}

/* Nobody's long requests keep others from being ended. */
static void
rows_of_walks_are_short_whatever_callers_wrote(void **state)
{
	enum { ROWS = 100, LONG = 40 * 1024 };
	struct bench *b = *state;
	struct brain_claim c = bench_claim("ann", "");
	struct brain_sandboxes got;
	struct arena a;
	char *text = malloc(LONG);

	assert_non_null(text);
	memset(text, 'x', LONG);
	c.request = c.metadata = c.policy = str_of(text, LONG);
	for (int i = 0; i < ROWS; i++)
		(void)bench_take(b, &c, BRAIN_NEW);
	arena_init(&a, 256 * 1024);
	assert_int_equal(brain_store_expired(b->s, BENCH_NOW + 3600, 0, &a, &got),
			 ST_OK);
	assert_int_equal(got.n, ROWS);
	assert_int_equal(got.of[0].request.n, 0);
	assert_true(str_eq(got.of[0].owner.user, STR("ann")));
	arena_done(&a);
	assert_int_equal(brain_store_walk(b->s, BRAIN_NOT_GONE, STR(""), &a, &got),
			 ST_OK);
	assert_int_equal(got.n, ROWS);
	arena_done(&a);
	assert_int_equal(
		brain_store_idle(b->s, BRAIN_PLACING, BENCH_NOW + 50, 0, &a, &got),
		ST_OK);
	assert_int_equal(got.n, ROWS);
	arena_done(&a);
	free(text);
}

static void
who_owned_one_is_remembered_for_ninety_days_more(void **state)
{
	static const char count[] = "SELECT count(*) FROM owned";
	enum { DAY = 24 * 3600 };
	struct bench *b = *state;
	struct brain_claim c = bench_claim("ann", "");
	struct brain_sandbox x = bench_take(b, &c, BRAIN_NEW);
	sqlite3 *db = brain_store_db(b->s);

	assert_int_equal(brain_store_made(b->s, x.id, STR("standard"), STR("u1"), 0),
			 ST_OK);
	/* One that is not gone is not forgotten, however old. */
	assert_int_equal(brain_store_forget(b->s, BENCH_NOW, BENCH_NOW + 1000 * DAY),
			 ST_END);
	assert_int_equal(brain_store_gone(b->s, x.id, BENCH_NOW), ST_OK);
	assert_int_equal(brain_store_forget(b->s, BENCH_NOW, BENCH_NOW + 89 * DAY),
			 ST_OK);
	assert_int_equal(brain_store_find_any(b->s, x.id, &b->a, &x), ST_NOT_FOUND);
	assert_int_equal(bench_number(db, count), 1);
	assert_int_equal(brain_store_forget(b->s, BENCH_NOW, BENCH_NOW + 91 * DAY),
			 ST_OK);
	assert_int_equal(bench_number(db, count), 0);
}

static void
an_arena_that_is_full_is_told_and_changes_nothing(void **state)
{
	struct bench *b = *state;
	struct brain_claim c = bench_claim("ann", "");
	enum brain_claimed how;
	struct brain_sandbox x;
	struct arena small;

	arena_init(&small, 64);
	assert_int_equal(brain_store_claim(b->s, &c, &small, &x, &how), ST_NOMEM);
	assert_int_equal(count_by(b, NULL, 0), 0);
	arena_done(&small);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_up, bench_down)
	const struct CMUnitTest tests[] = {
		TEST(what_was_claimed_is_there_after_a_restart),
		cmocka_unit_test(a_file_with_other_tables_or_triggers_is_not_used),
		TEST(a_file_that_is_no_database_or_half_of_one_is_not_used),
		TEST(a_changed_page_is_found_or_harms_nothing),
		TEST(a_list_wants_all_pairs_and_the_metadata_of_now),
		TEST(a_snapshot_is_its_owners),
		TEST(the_idle_and_the_expired_are_found_and_the_busy_are_not),
		TEST(rows_of_walks_are_short_whatever_callers_wrote),
		TEST(who_owned_one_is_remembered_for_ninety_days_more),
		TEST(an_arena_that_is_full_is_told_and_changes_nothing),
	};

	return cmocka_run_group_tests_name("brain_store_file", tests, NULL, NULL);
}
