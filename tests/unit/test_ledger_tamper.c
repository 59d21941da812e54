#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "ledger_bench.h"
#include "proxy/base/clock.h"
#include "proxy/ledger/retain.h"

/*
 * A thousand tampered ledgers: a real ledger of some 300 rows in three closed segments
 * and an open one, all signed; each time a copy of it is changed at one place, and the
 * verifier must say so and name rows that hold the place.
 */
enum { ROWS = 300, SEGMENT = 80, ROUNDS = 1000 };

struct bench {
	char dir[64], copy[64];
	uint64_t rows; /* in the ledger, its own included */
	uint64_t random;
};

struct hit { /* what was done, and the rows that may be named for it */
	char what[96];
	uint64_t first, last;
};

static uint64_t
draw(struct bench *b, uint64_t below)
{
	b->random ^= b->random << 13;
	b->random ^= b->random >> 7;
	b->random ^= b->random << 17;
	return b->random % below;
}

static int
setup(void **state)
{
	struct bench *b = calloc(1, sizeof *b);
	struct row_ids ids = { .slot = 1 };
	struct store s;
	struct heads h;
	EVP_PKEY *key = bench_key(7);

	assert_non_null(b);
	b->random = clock_wall_us() | 1;
	bench_dir(b->dir, sizeof b->dir);
	bench_dir(b->copy, sizeof b->copy);
	assert_int_equal(store_open(&s, b->dir, 2), ST_OK);
	assert_int_equal(heads_open(&h, b->dir), ST_OK);
	s.limits.segment_rows = SEGMENT;
	for (uint64_t n = 0; n < ROWS; n += 100) {
		bench_fill(&s, &ids, n, n + 100);
		bench_sign(&h, &s, key);
	}
	/* One sandbox's refusals of the oldest segment have lost their content. */
	s.limits.max_size = 64;
	assert_int_equal(retain_step(&s, clock_wall_us()), ST_OK);
	bench_fill(&s, &ids, ROWS, ROWS + 10);
	bench_sign(&h, &s, key);
	b->rows = s.committed.seq;
	EVP_PKEY_free(key);
	heads_done(&h);
	store_close(&s);
	*state = b;
	return 0;
}

static int
teardown(void **state)
{
	struct bench *b = *state;

	bench_wipe(b->dir);
	bench_wipe(b->copy);
	free(b);
	return 0;
}

static void
copy_file(const struct bench *b, const char *name)
{
	char from[128], to[128];
	static char bytes[1 << 20];

	(void)snprintf(from, sizeof from, "%s/%s", b->dir, name);
	(void)snprintf(to, sizeof to, "%s/%s", b->copy, name);
	FILE *in = fopen(from, "re"), *out = fopen(to, "we");
	assert_non_null(in);
	assert_non_null(out);
	size_t n = fread(bytes, 1, sizeof bytes, in);
	assert_true(n < sizeof bytes);
	assert_int_equal(fwrite(bytes, 1, n, out), n);
	assert_int_equal(fclose(out), 0);
	(void)fclose(in);
}

static sqlite3 *
open_copy(const struct bench *b)
{
	char path[128];
	sqlite3 *db = NULL;

	copy_file(b, "ledger.db");
	copy_file(b, "heads.log");
	copy_file(b, "keeper.pub");
	for (int i = 0; i < 2; i++) {
		(void)snprintf(path, sizeof path, "%s/ledger.db%s", b->copy,
			       i == 0 ? "-wal" : "-shm");
		(void)unlink(path);
	}
	(void)snprintf(path, sizeof path, "%s/ledger.db", b->copy);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	return db;
}

PRINTF(2, 3)
static void
run(sqlite3 *db, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	char *text = sqlite3_vmprintf(fmt, ap);
	va_end(ap);
	if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s: %s", text, sqlite3_errmsg(db));
	sqlite3_free(text);
}

/* Flip a bit of one byte of a blob. */
static void
flip(struct bench *b, sqlite3 *db, const char *table, const char *column,
     uint64_t rowid)
{
	sqlite3_blob *blob = NULL;
	unsigned char byte = 0;

	assert_int_equal(sqlite3_blob_open(db, "main", table, column,
					   (sqlite3_int64)rowid, 1, &blob),
			 SQLITE_OK);
	int at = (int)draw(b, (uint64_t)sqlite3_blob_bytes(blob));
	assert_int_equal(sqlite3_blob_read(blob, &byte, 1, at), SQLITE_OK);
	byte = (unsigned char)(byte ^ (1u << draw(b, 8)));
	assert_int_equal(sqlite3_blob_write(blob, &byte, 1, at), SQLITE_OK);
	assert_int_equal(sqlite3_blob_close(blob), SQLITE_OK);
}

static uint64_t
number(sqlite3 *db, const char *text)
{
	sqlite3_stmt *q = NULL;

	assert_int_equal(sqlite3_prepare_v2(db, text, -1, &q, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(q), SQLITE_ROW);
	uint64_t v = (uint64_t)sqlite3_column_int64(q, 0);
	(void)sqlite3_finalize(q);
	return v;
}

/* A row that still has its content. */
static uint64_t
whole_row(struct bench *b, sqlite3 *db)
{
	char text[128];
	uint64_t seq;

	do {
		seq = 1 + draw(b, b->rows);
		(void)snprintf(text, sizeof text,
			       "SELECT payload IS NULL FROM rows WHERE seq = %llu",
			       (unsigned long long)seq);
	} while (number(db, text) != 0);
	return seq;
}

#define LL(v) ((long long)(v))

static struct hit
hit(uint64_t first, uint64_t last, const char *what)
{
	struct hit h = { .first = first, .last = last };

	(void)snprintf(h.what, sizeof h.what, "%s %lld..%lld", what, LL(first),
		       LL(last));
	return h;
}

static struct hit
flip_payload(struct bench *b, sqlite3 *db)
{
	uint64_t n = whole_row(b, db);

	flip(b, db, "rows", "payload", n);
	return hit(n, n, "payload flipped");
}

static struct hit
flip_digest(struct bench *b, sqlite3 *db)
{
	uint64_t n = 1 + draw(b, b->rows);

	flip(b, db, "rows", "digest", n);
	return hit(n, n, "digest flipped");
}

static struct hit
flip_link(struct bench *b, sqlite3 *db)
{
	uint64_t n = 1 + draw(b, b->rows);

	flip(b, db, "rows", "link", n);
	return hit(n, n, "link flipped");
}

static struct hit
change_index(struct bench *b, sqlite3 *db)
{
	static const char *const to[] = { "id = id + 1",     "denial = 1 - denial",
					  "sandbox = x'58'", "id = NULL",
					  "erased = 300",    "sandbox = NULL" };
	uint64_t n = whole_row(b, db);

	run(db, "UPDATE rows SET %s WHERE seq = %lld", to[draw(b, COUNT_OF(to))],
	    LL(n));
	return hit(n, n, "index changed");
}

static struct hit
take_content(struct bench *b, sqlite3 *db)
{
	uint64_t n = whole_row(b, db);
	const char *record =
		draw(b, 2) == 0 ? "NULL" : "(SELECT max(erased) FROM rows)";

	run(db,
	    "UPDATE rows SET payload = NULL, id = NULL, denial = NULL, sandbox = NULL,"
	    " erased = %s WHERE seq = %lld",
	    record, LL(n));
	/* Under a record that lists others, the whole list is what does not fit. */
	return hit(record[0] == 'N' ? n : 1, n, "content taken");
}

static struct hit
remove_row(struct bench *b, sqlite3 *db)
{
	uint64_t n = 1 + draw(b, b->rows);

	run(db, "DELETE FROM rows WHERE seq = %lld", LL(n));
	return hit(n, n, "row deleted");
}

/* Later rows move up by one to make room. */
static struct hit
insert_row(struct bench *b, sqlite3 *db)
{
	uint64_t n = 1 + draw(b, b->rows);

	run(db, "UPDATE rows SET seq = -seq - 1 WHERE seq >= %lld", LL(n));
	run(db, "UPDATE rows SET seq = -seq WHERE seq < 0");
	run(db,
	    "INSERT INTO rows SELECT %lld, id, denial, sandbox, payload, digest, link, "
	    "erased"
	    " FROM rows WHERE seq = %lld",
	    LL(n), LL(n > 1 ? n - 1 : 3));
	return hit(n, n, "row inserted");
}

/* Gone, and the rest numbered anew, so that no number is missing. */
static struct hit
close_gap(struct bench *b, sqlite3 *db)
{
	uint64_t n = 1 + draw(b, b->rows - 1);

	run(db, "DELETE FROM rows WHERE seq = %lld", LL(n));
	run(db, "UPDATE rows SET seq = -seq + 1 WHERE seq > %lld", LL(n));
	run(db, "UPDATE rows SET seq = -seq WHERE seq < 0");
	return hit(n, n, "row deleted, gap closed");
}

static struct hit
swap_rows(struct bench *b, sqlite3 *db)
{
	uint64_t n = 1 + draw(b, b->rows - 1), m = n + 1 + draw(b, b->rows - n);

	run(db, "UPDATE rows SET seq = -1 WHERE seq = %lld", LL(n));
	run(db, "UPDATE rows SET seq = %lld WHERE seq = %lld", LL(n), LL(m));
	run(db, "UPDATE rows SET seq = %lld WHERE seq = -1", LL(m));
	return hit(n, n, "rows swapped");
}

static struct hit
cut_end(struct bench *b, sqlite3 *db)
{
	uint64_t n = 2 + draw(b, b->rows - 1);

	run(db, "DELETE FROM rows WHERE seq >= %lld", LL(n));
	return hit(n, n, "end cut");
}

/* With segments and signatures made to agree: only heads.log knows. */
static struct hit
cut_end_neatly(struct bench *b, sqlite3 *db)
{
	uint64_t n = 2 + draw(b, b->rows - 1);

	run(db, "DELETE FROM rows WHERE seq >= %lld", LL(n));
	run(db, "DELETE FROM heads WHERE seq >= %lld", LL(n));
	run(db, "DELETE FROM segments WHERE first_seq > %lld", LL(n));
	run(db, "UPDATE segments SET last_seq = NULL, last_link = NULL, closed = NULL"
		" WHERE segment = (SELECT max(segment) FROM segments)");
	return hit(1, n, "end cut neatly"); /* no signature at all is told as such */
}

static struct hit
flip_head(struct bench *b, sqlite3 *db)
{
	static const char *const columns[] = { "link", "signature", "key" };
	uint64_t n = draw(b, number(db, "SELECT count(*) FROM heads"));
	char text[96];

	(void)snprintf(text, sizeof text, "SELECT seq FROM heads LIMIT 1 OFFSET %llu",
		       (unsigned long long)n);
	uint64_t seq = number(db, text);
	flip(b, db, "heads", columns[draw(b, COUNT_OF(columns))], seq);
	return hit(1, seq, "head flipped");
}

/* Forge a row and make everything after it agree, but for the signatures. */
static struct hit
forge(struct bench *b, sqlite3 *db)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL, *put = NULL;
	uint64_t n = whole_row(b, db);
	struct chain_hash link = { { 0 } }, digest;

	flip(b, db, "rows", "payload", n);
	assert_int_equal(
		sql_prepare(db, "SELECT seq, payload, digest FROM rows ORDER BY seq",
			    &q),
		ST_OK);
	assert_int_equal(
		sql_prepare(db, "UPDATE rows SET digest = ?, link = ? WHERE seq = ?",
			    &put),
		ST_OK);
	while (sql_next(q) == ST_OK) {
		uint64_t seq = sql_get_u64(q, 0);
		assert_true(chain_from(sql_get_bytes(q, 2), &digest));
		if (seq == n)
			digest = chain_digest(sql_get_bytes(q, 1));
		link = chain_link(&link, seq, &digest);
		sql_bytes(put, 1, chain_str(&digest));
		sql_bytes(put, 2, chain_str(&link));
		sql_u64(put, 3, seq);
		assert_int_equal(sql_run(put), ST_OK);
	}
	run(db,
	    "UPDATE segments SET"
	    " prev_link = coalesce((SELECT link FROM rows WHERE seq = first_seq - 1),"
	    " zeroblob(32)),"
	    " last_link = (SELECT link FROM rows WHERE seq = last_seq)");
	return hit(n, n, "forged and chained anew");
}

typedef struct hit (*tamper_fn)(struct bench *b, sqlite3 *db);

static const tamper_fn tampers[] = {
	flip_payload,   flip_digest, flip_link, change_index, take_content,
	remove_row,     insert_row,  close_gap, swap_rows,    cut_end,
	cut_end_neatly, flip_head,   forge,
};

static void
the_ledger_as_it_was_written_is_whole(void **state)
{
	struct bench *b = *state;
	struct verify_result r = { 0 };

	assert_int_equal(ledger_verify(b->dir, &(struct verify_place){ 0 }, &r), ST_OK);
	if (!r.is_whole)
		fail_msg("rows %llu to %llu: %s", (unsigned long long)r.first,
			 (unsigned long long)r.last, r.what);
	assert_int_equal(r.rows, b->rows);
	assert_true(r.erased > 0 && r.signatures >= 4 && r.segments == 4);
}

static void
each_of_a_thousand_tampered_ledgers_is_found_and_located(void **state)
{
	struct bench *b = *state;
	unsigned long long seed = b->random;

	for (size_t i = 0; i < ROUNDS; i++) {
		struct verify_result r = { 0 };
		sqlite3 *db = open_copy(b);
		run(db, "BEGIN");
		struct hit h = tampers[i % COUNT_OF(tampers)](b, db);
		run(db, "COMMIT");
		assert_int_equal(sqlite3_close(db), SQLITE_OK);
		assert_int_equal(
			ledger_verify(b->copy, &(struct verify_place){ 0 }, &r), ST_OK);
		if (r.is_whole || r.first > h.last || r.last < h.first)
			fail_msg("seed %llu round %zu, %s: whole %d, rows %llu to "
				 "%llu: %s",
				 seed, i, h.what, r.is_whole,
				 (unsigned long long)r.first,
				 (unsigned long long)r.last, r.what);
	}
}

/* Its first signature as a ledger writes it down: the key, the head, the line. */
static void
a_key_without_a_signature_is_borne_only_until_that_must_be_there(void **state)
{
	struct bench *b = *state;
	struct verify_result r = { 0 };
	char path[128];

	sqlite3 *db = open_copy(b);
	(void)snprintf(path, sizeof path, "%s/heads.log", b->copy);
	assert_int_equal(unlink(path), 0);
	run(db, "CREATE TABLE later AS SELECT * FROM heads");
	run(db, "DELETE FROM heads");
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	assert_int_equal(ledger_verify(b->copy, &(struct verify_place){ 0 }, &r),
			 ST_OK);
	assert_false(r.is_whole);
	assert_string_equal(r.what, "the signatures are gone");
	pid_t writer = fork();
	assert_true(writer >= 0);
	if (writer == 0) {
		(void)usleep(300000);
		(void)snprintf(path, sizeof path, "%s/ledger.db", b->copy);
		_exit(sqlite3_open(path, &db) != SQLITE_OK ||
		      sqlite3_exec(db, "INSERT INTO heads SELECT * FROM later", NULL,
				   NULL, NULL) != SQLITE_OK);
	}
	assert_int_equal(ledger_verify(b->copy, &(struct verify_place){ 0 }, &r),
			 ST_OK);
	int how = 1;
	assert_int_equal(waitpid(writer, &how, 0), writer);
	assert_int_equal(how, 0);
	assert_true(r.is_whole && r.signatures >= 4);
}

/* A place noted elsewhere shows what was cut back together with heads.log. */
static void
a_place_noted_elsewhere_misses_what_was_cut_off_everywhere(void **state)
{
	struct bench *b = *state;
	struct verify_result r = { 0 };
	char path[128];

	assert_int_equal(ledger_verify(b->dir, &(struct verify_place){ 0 }, &r), ST_OK);
	struct verify_place tip = r.tip;
	sqlite3 *db = open_copy(b);
	run(db, "DELETE FROM heads WHERE seq > 308");
	run(db, "DELETE FROM rows WHERE seq > 308");
	run(db, "DELETE FROM segments WHERE first_seq > 308");
	run(db, "UPDATE segments SET last_seq = NULL WHERE segment = 4");
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	(void)snprintf(path, sizeof path, "%s/heads.log", b->copy);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(ledger_verify(b->copy, &(struct verify_place){ 0 }, &r),
			 ST_OK);
	assert_true(r.is_whole);
	assert_int_equal(ledger_verify(b->copy, &tip, &r), ST_OK);
	assert_false(r.is_whole);
	assert_int_equal(r.first, 309);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_ledger_as_it_was_written_is_whole),
		cmocka_unit_test(
			each_of_a_thousand_tampered_ledgers_is_found_and_located),
		cmocka_unit_test(
			a_key_without_a_signature_is_borne_only_until_that_must_be_there),
		cmocka_unit_test(
			a_place_noted_elsewhere_misses_what_was_cut_off_everywhere),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
