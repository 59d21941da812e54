#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include "ledger_bench.h"
#include "proxy/base/clock.h"
#include "proxy/io/rowring.h"
#include "proxy/ledger/drain.h"
#include "proxy/ledger/retain.h"

struct bench {
	char dir[64];
	struct log log;
	struct loop *loop;
	struct store store;
	struct drain drain;
	int memfd, bell;
	struct rowring *writer;
	struct row_ids ids;
	bool is_open;
};

static int
copy(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

static void
open_ledger(struct bench *b)
{
	assert_int_equal(loop_new(&b->loop), ST_OK);
	drain_init(&b->drain, b->loop, &b->log);
	assert_int_equal(store_open(&b->store, b->dir, 2), ST_OK);
	assert_int_equal(drain_start(&b->drain, &b->store), ST_OK);
	assert_int_equal(drain_add(&b->drain, 1, copy(b->memfd), copy(b->bell)), ST_OK);
	b->is_open = true;
}

static void
close_ledger(struct bench *b)
{
	if (!b->is_open)
		return;
	drain_done(&b->drain);
	store_close(&b->store);
	loop_free(b->loop);
	b->is_open = false;
}

static int
setup(void **state)
{
	struct bench *b = calloc(1, sizeof *b);

	assert_non_null(b);
	b->log = (struct log){ .role = "test", .level = LOG_ERROR };
	b->ids.slot = 1;
	bench_dir(b->dir, sizeof b->dir);
	assert_int_equal(rowring_create("test", &b->memfd), ST_OK);
	b->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_int_equal(rowring_open_writer(b->memfd, b->bell, &b->writer), ST_OK);
	open_ledger(b);
	*state = b;
	return 0;
}

static int
teardown(void **state)
{
	struct bench *b = *state;

	close_ledger(b);
	rowring_close(b->writer);
	(void)close(b->memfd);
	(void)close(b->bell);
	bench_wipe(b->dir);
	free(b);
	return 0;
}

static void
put(struct bench *b, uint64_t from, uint64_t to)
{
	for (uint64_t n = from; n < to; n++) {
		struct row r = bench_row(&b->ids, n);
		assert_int_equal(rowring_put(b->writer, &r), ST_OK);
	}
}

static void
drain_all(struct bench *b)
{
	enum status st;

	while ((st = drain_batch(&b->drain)) == ST_OK)
		;
	assert_int_equal(st, ST_END);
}

static uint64_t
number(struct bench *b, const char *text)
{
	sqlite3_stmt *q = NULL;

	assert_int_equal(sql_prepare(b->store.db, text, &q), ST_OK);
	assert_int_equal(sql_next(q), ST_OK);
	uint64_t v = sql_get_u64(q, 0);
	sql_done(&q);
	return v;
}

static void
is_whole(struct bench *b)
{
	struct verify_result r = { 0 };

	assert_int_equal(ledger_verify(b->dir, &(struct verify_place){ 0 }, &r), ST_OK);
	if (!r.is_whole)
		fail_msg("rows %llu to %llu: %s", (unsigned long long)r.first,
			 (unsigned long long)r.last, r.what);
}

static void
rows_of_a_ring_are_stored_once_and_in_order(void **state)
{
	struct bench *b = *state;

	put(b, 0, 5000);
	drain_all(b);
	assert_int_equal(number(b, "SELECT count(*) FROM rows"), 5000);
	assert_int_equal(number(b, "SELECT count(DISTINCT id) FROM rows"), 5000);
	is_whole(b);
	close_ledger(b);
	open_ledger(b);
	put(b, 5000, 5010);
	drain_all(b);
	assert_int_equal(number(b, "SELECT count(*) FROM rows"), 5010);
	uint64_t seq = 0;
	assert_true(store_tail_fits(&b->store, &seq));
	is_whole(b);
}

/* What drain does, up to the commit; then the process is gone. */
static void
a_crash_between_commit_and_advance_stores_nothing_twice(void **state)
{
	struct bench *b = *state;
	CLEANUP(buf_done) struct buf bytes = { 0 };
	struct rowring *reader = NULL;
	struct chain_hash digest = { { 0 } };
	struct row r;

	put(b, 0, 50);
	buf_init(&bytes, ROW_MAX);
	assert_int_equal(rowring_open_reader(b->memfd, &reader), ST_OK);
	assert_int_equal(store_begin(&b->store), ST_OK);
	for (int i = 0; i < 30; i++) {
		assert_int_equal(rowring_next(reader, &bytes), ST_OK);
		struct str s = str_of(bytes.p, bytes.len);
		assert_int_equal(row_get(s, &r), ST_OK);
		assert_int_equal(store_add(&b->store, s, &r), ST_OK);
		digest = chain_digest(s);
	}
	assert_int_equal(store_consumed(&b->store, 1, &digest), ST_OK);
	assert_int_equal(store_commit(&b->store), ST_OK);
	rowring_close(reader);
	close_ledger(b);
	open_ledger(b);
	drain_all(b);
	assert_int_equal(number(b, "SELECT count(*) FROM rows"), 50);
	assert_int_equal(number(b, "SELECT count(DISTINCT id) FROM rows"), 50);
	is_whole(b);
}

/* Kill the reader at whatever it does, many times, while rows come. */
static void
kill_9_at_any_moment_loses_and_doubles_no_row(void **state)
{
	struct bench *b = *state;
	uint64_t n = 0;

	close_ledger(b);
	for (int round = 0; round < 100; round++) {
		pid_t pid = fork();
		if (pid == 0) {
			open_ledger(b);
			for (;;)
				if (drain_batch(&b->drain) == ST_END)
					(void)usleep(200);
		}
		assert_true(pid > 0);
		for (int i = 0; i < 40; i++, n++) {
			put(b, n, n + 1);
			(void)usleep((useconds_t)(100 + round * 3));
		}
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
	}
	open_ledger(b);
	drain_all(b);
	assert_int_equal(number(b, "SELECT count(*) FROM rows"), n);
	assert_int_equal(number(b, "SELECT count(DISTINCT id) FROM rows"), n);
	is_whole(b);
}

static void
refusals_above_the_limit_are_counted_and_the_count_outlives_the_process(void **state)
{
	struct bench *b = *state;
	CLEANUP(buf_done) struct buf json = { 0 };
	struct row r = bench_row(&b->ids, 0);

	b->drain.rates.limit = 50;
	for (int i = 0; i < 400; i++) {
		r.id = r.turn = row_next_id(&b->ids);
		r.time_us = clock_wall_us() / 1000000 * 1000000;
		assert_int_equal(rowring_put(b->writer, &r), ST_OK);
		if (i == 200) /* within one second or two */
			assert_int_equal(drain_batch(&b->drain), ST_OK);
	}
	struct row allowed = bench_row(&b->ids, 1);
	assert_int_equal(rowring_put(b->writer, &allowed), ST_OK);
	assert_int_equal(drain_batch(&b->drain), ST_OK);
	uint64_t stored = number(b, "SELECT count(*) FROM rows WHERE denial = 1");
	assert_in_range(stored, 50, 100);
	assert_int_equal(number(b, "SELECT count(*) FROM rows WHERE denial = 0"), 1);
	assert_true(number(b, "SELECT coalesce(sum(count), 0) FROM pending") > 0);
	close_ledger(b);
	open_ledger(b);
	(void)usleep(1300000);
	drain_all(b);
	assert_int_equal(number(b, "SELECT count(*) FROM pending"), 0);
	buf_init(&json, 64);
	buf_putf(&json, "%llu more refusals within a second",
		 (unsigned long long)(400 - stored));
	sqlite3_stmt *q = NULL;
	assert_int_equal(
		sql_prepare(b->store.db, "SELECT payload FROM rows WHERE seq > 51", &q),
		ST_OK);
	bool found = false;
	while (sql_next(q) == ST_OK) {
		assert_int_equal(row_get(sql_get_bytes(q, 0), &r), ST_OK);
		if (r.kind == ROW_AGGREGATE)
			found = found || str_eq(r.detail, str_of(json.p, json.len)) ||
				stored > 50;
	}
	sql_done(&q);
	assert_true(found);
	is_whole(b);
}

static void
a_full_disk_keeps_rows_in_the_ring_and_is_got_over(void **state)
{
	struct bench *b = *state;

	put(b, 0, 100);
	drain_all(b);
	b->log.level = (enum log_level) - 1; /* the error that comes is wanted */
	assert_int_equal(sql_exec(b->store.db, "PRAGMA max_page_count=20"), ST_OK);
	put(b, 100, 3000);
	assert_int_equal(drain_batch(&b->drain), ST_SYSTEM);
	assert_int_equal(drain_batch(&b->drain), ST_SYSTEM);
	assert_int_equal(number(b, "SELECT count(*) FROM rows"), 100);
	assert_int_equal(sql_exec(b->store.db, "PRAGMA max_page_count=1000000"), ST_OK);
	drain_all(b);
	assert_int_equal(number(b, "SELECT count(*) FROM rows"), 3000);
	assert_int_equal(number(b, "SELECT count(DISTINCT id) FROM rows"), 3000);
	is_whole(b);
}

static void
a_row_that_does_not_parse_is_told_and_does_not_stop_the_others(void **state)
{
	struct bench *b = *state;
	char *bytes = NULL;

	put(b, 0, 10);
	/* A writer that lies: the length of its sixth row is nonsense. */
	FILE *f = fdopen(copy(b->memfd), "r+");
	assert_non_null(f);
	bytes = calloc(1, 8192);
	assert_non_null(bytes);
	assert_int_equal(fseek(f, 4096, SEEK_SET), 0);
	assert_int_equal(fread(bytes, 1, 8192, f), 8192);
	size_t at = 0;
	for (int i = 0; i < 5; i++) {
		uint32_t n;
		memcpy(&n, bytes + at, sizeof n);
		at += 8 + (n + 7) / 8 * 8;
	}
	assert_int_equal(pwrite(b->memfd, "\xff\xff\xff\xff", 4, 4096 + (off_t)at), 4);
	(void)fclose(f);
	free(bytes);
	b->log.level = (enum log_level) - 1;
	drain_all(b);
	assert_int_equal(number(b, "SELECT count(*) FROM rows"),
			 6); /* five and the note */
	put(b, 10, 12);
	drain_all(b);
	assert_int_equal(number(b, "SELECT count(*) FROM rows"), 8);
	is_whole(b);
}

static void
too_old_segments_are_dropped_and_the_chain_still_verifies(void **state)
{
	struct bench *b = *state;
	struct heads h;
	EVP_PKEY *key = bench_key(1);

	b->store.limits.segment_rows = 100;
	put(b, 0, 1000);
	drain_all(b);
	assert_int_equal(heads_open(&h, b->dir), ST_OK);
	bench_sign(&h, &b->store, key);
	b->store.limits.max_age_ms = 60000;
	uint64_t before = number(b, "SELECT count(*) FROM rows");
	assert_int_equal(retain_step(&b->store, clock_wall_us()), ST_END);
	for (int i = 0; i < 3; i++)
		assert_int_equal(retain_step(&b->store, clock_wall_us() + 61000000),
				 ST_OK);
	assert_int_equal(number(b, "SELECT count(*) FROM rows"), before - 300 + 3);
	bench_sign(&h, &b->store, key);
	is_whole(b);
	heads_done(&h);
	EVP_PKEY_free(key);
}

static void
the_noisiest_sandbox_loses_the_content_of_its_refusals_first(void **state)
{
	struct bench *b = *state;

	b->store.limits.segment_rows = 200;
	put(b, 0, 2000);
	drain_all(b);
	uint64_t all = number(b, "SELECT count(*) FROM rows"), allowed = 0;
	b->store.limits.max_size = 4 * (number(b, "SELECT sum(bytes) FROM shares") / 3);
	allowed = number(b, "SELECT count(*) FROM rows WHERE denial = 0");
	assert_int_equal(retain_step(&b->store, clock_wall_us()), ST_OK);
	assert_true(number(b, "SELECT count(*) FROM rows WHERE payload IS NULL") > 0);
	assert_int_equal(number(b, "SELECT count(*) FROM rows"), all + 1);
	assert_true(number(b, "SELECT count(*) FROM rows WHERE denial = 0") > allowed);
	is_whole(b);
	/* In the end whole segments go, and it comes to rest. */
	b->store.limits.max_size = 1;
	enum status st = ST_OK;
	for (int i = 0; i < 200 && st == ST_OK; i++)
		st = retain_step(&b->store, clock_wall_us());
	assert_int_equal(st, ST_END);
	is_whole(b);
}

static void
a_strange_key_signs_nothing(void **state)
{
	struct bench *b = *state;
	struct heads h;
	struct head x;
	EVP_PKEY *key = bench_key(1), *other = bench_key(2);

	assert_int_equal(heads_open(&h, b->dir), ST_OK);
	put(b, 0, 10);
	drain_all(b);
	bench_sign(&h, &b->store, key);
	put(b, 10, 20);
	drain_all(b);
	assert_int_equal(heads_wanted(&b->store, &x), ST_OK);
	assert_int_equal(bench_sign_one(&h, &b->store, other, &x), ST_CONFLICT);
	is_whole(b);
	/* The rows after the last signed place go; heads.log knows a later one. */
	assert_int_equal(heads_unsigned(&h, &x), ST_OK);
	uint64_t seq = 0;
	assert_false(heads_is_cut(&h, &b->store, &seq));
	assert_int_equal(sql_exec(b->store.db, "DELETE FROM rows WHERE seq > 10"),
			 ST_OK);
	b->store.committed.seq = 10;
	assert_true(heads_is_cut(&h, &b->store, &seq));
	assert_int_equal(seq, 20);
	heads_done(&h);
	EVP_PKEY_free(key);
	EVP_PKEY_free(other);
}

static void
the_last_refusals_are_answered_newest_first_also_after_a_restart(void **state)
{
	struct bench *b = *state;
	CLEANUP(buf_done) struct buf json = { 0 };

	put(b, 0, 200);
	drain_all(b);
	close_ledger(b);
	open_ledger(b);
	buf_init(&json, 65536);
	last_put_json(&b->drain.last, STR("demo"), LAST_ROWS, &json);
	const char *text = buf_cstr(&json);
	assert_non_null(text);
	const char *newest = strstr(text, "h198.example.test:443"),
		   *older = strstr(text, "h192.example.test:443");
	assert_true(newest != NULL && older != NULL && newest < older);
	assert_null(strstr(text, "h195.")); /* of the other sandbox */
	buf_clear(&json);
	last_put_json(&b->drain.last, STR("nobody"), LAST_ROWS, &json);
	assert_string_equal(buf_cstr(&json), "[]");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(rows_of_a_ring_are_stored_once_and_in_order),
		CASE(a_crash_between_commit_and_advance_stores_nothing_twice),
		CASE(kill_9_at_any_moment_loses_and_doubles_no_row),
		CASE(refusals_above_the_limit_are_counted_and_the_count_outlives_the_process),
		CASE(a_full_disk_keeps_rows_in_the_ring_and_is_got_over),
		CASE(a_row_that_does_not_parse_is_told_and_does_not_stop_the_others),
		CASE(too_old_segments_are_dropped_and_the_chain_still_verifies),
		CASE(the_noisiest_sandbox_loses_the_content_of_its_refusals_first),
		CASE(a_strange_key_signs_nothing),
		CASE(the_last_refusals_are_answered_newest_first_also_after_a_restart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
