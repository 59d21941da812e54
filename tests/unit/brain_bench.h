#ifndef TESTS_UNIT_BRAIN_BENCH_H
#define TESTS_UNIT_BRAIN_BENCH_H
/* brain_bench: a store in a directory of its own, and words for tests of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/base/arena.h"
#include "proxy/control/brain_store.h"
#include "proxy/io/sql.h"

enum { BENCH_NOW = 1000000, BENCH_ARENA = 64 << 20 };

struct bench {
	char dir[64], path[96];
	struct brain_store *s;
	struct arena a;
};

static inline void
bench_open(struct bench *b)
{
	(void)snprintf(b->dir, sizeof b->dir, "/dev/shm/sandgate-brain-XXXXXX");
	assert_non_null(mkdtemp(b->dir));
	(void)snprintf(b->path, sizeof b->path, "%s/exec.db", b->dir);
	arena_init(&b->a, BENCH_ARENA);
	assert_int_equal(brain_store_open(b->path, &b->s), ST_OK);
}

static inline void
bench_remove(const char *path, const char *more)
{
	char name[128];

	(void)snprintf(name, sizeof name, "%s%s", path, more);
	(void)unlink(name);
}

static inline void
bench_close(struct bench *b)
{
	brain_store_close(b->s);
	b->s = NULL;
	arena_done(&b->a);
	bench_remove(b->path, "");
	bench_remove(b->path, "-wal");
	bench_remove(b->path, "-shm");
	(void)rmdir(b->dir);
}

/* As a test's state. */
static inline int
bench_up(void **state)
{
	struct bench *b = calloc(1, sizeof *b);

	assert_non_null(b);
	bench_open(b);
	*state = b;
	return 0;
}

static inline int
bench_down(void **state)
{
	bench_close(*state);
	free(*state);
	return 0;
}

static inline void
bench_again(struct bench *b)
{
	brain_store_close(b->s);
	b->s = NULL;
	assert_int_equal(brain_store_open(b->path, &b->s), ST_OK);
}

static inline struct brain_owner
bench_owner(const char *user)
{
	return (struct brain_owner){ STR("acme"), str_from(user) };
}

static inline struct brain_claim
bench_claim(const char *user, const char *session)
{
	return (struct brain_claim){
		.owner = bench_owner(user),
		.agent = STR("coder"),
		.session = str_from(session),
		.server = STR("standard"),
		.reuse = *session == '\0' ? BRAIN_REUSE_NONE : BRAIN_REUSE_SESSION,
		.reuse_key = str_from(session),
		.shape = STR("5a5a"),
		.may_be_warm = true,
		.now_s = BENCH_NOW,
		.expires_s = BENCH_NOW + 3600,
		.request = STR("{\"image\":1}"),
		.metadata = STR("{}"),
	};
}

static inline struct brain_sandbox
bench_take(struct bench *b, const struct brain_claim *c, enum brain_claimed want)
{
	struct brain_sandbox x;
	enum brain_claimed how;

	assert_int_equal(brain_store_claim(b->s, c, &b->a, &x, &how), ST_OK);
	assert_int_equal(how, want);
	return x;
}

static inline struct str
bench_warm(struct bench *b, const char *upstream)
{
	const struct brain_warm w = { .server = STR("standard"),
				      .shape = STR("5a5a"),
				      .request = STR("{}"),
				      .now_s = BENCH_NOW - 10,
				      .expires_s = BENCH_NOW + 1000 };
	struct str id;

	assert_int_equal(brain_store_warm_add(b->s, &w, &b->a, &id), ST_OK);
	assert_int_equal(
		brain_store_made(b->s, id, STR("standard"), str_from(upstream), 0),
		ST_OK);
	return id;
}

static inline struct brain_sandbox
bench_get(struct bench *b, struct str id)
{
	struct brain_sandbox x = { 0 };

	assert_int_equal(brain_store_find_any(b->s, id, &b->a, &x), ST_OK);
	return x;
}

static inline uint64_t
bench_number(sqlite3 *db, const char *query)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;

	assert_int_equal(sql_prepare(db, query, &q), ST_OK);
	assert_int_equal(sql_next(q), ST_OK);
	return sql_get_u64(q, 0);
}

/* By somebody else's hand. */
static inline void
bench_sql(const char *path, const char *text)
{
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sql_exec(db, text), ST_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static inline void
bench_damaged(struct bench *b)
{
	struct brain_store *s = NULL;

	assert_int_equal(brain_store_open(b->path, &s), ST_STORE_DAMAGED);
	assert_null(s);
}

/* What must hold whatever happened: by asking the file, not by trusting its constraints. */
static inline void
bench_check(sqlite3 *db)
{
	static const char *const broken[] = {
		/* two rows of one upstream */
		"SELECT count(*) FROM (SELECT 1 FROM sandboxes WHERE upstream IS NOT "
		"NULL"
		" GROUP BY server, upstream HAVING count(*) > 1)",
		/* two live ones of one reuse */
		"SELECT count(*) FROM (SELECT 1 FROM sandboxes WHERE reuse > 0 AND "
		"state < 5"
		" GROUP BY tenant, user, reuse, reuse_key, shape, tier HAVING count(*) "
		"> 1)",
		/* another's than it was */
		"SELECT count(*) FROM sandboxes s JOIN owned o ON s.server = o.server "
		"AND"
		" s.upstream = o.upstream WHERE s.user IS NOT o.user OR"
		" s.tenant IS NOT o.tenant",
		/* an owner that isn't written down */
		"SELECT count(*) FROM sandboxes s WHERE upstream IS NOT NULL AND user "
		"IS NOT"
		" NULL AND NOT EXISTS(SELECT 1 FROM owned o WHERE s.server = o.server "
		"AND"
		" s.upstream = o.upstream)",
		/* running nowhere */
		"SELECT count(*) FROM sandboxes WHERE state IN (2, 3) AND upstream IS "
		"NULL",
		/* remembered, and never there */
		"SELECT count(*) FROM idempotency i WHERE NOT EXISTS(SELECT 1 FROM "
		"sandboxes s"
		" WHERE s.id = i.sandbox AND s.user = i.user AND s.tenant = i.tenant)",
	};

	for (size_t i = 0; i < COUNT_OF(broken); i++)
		if (bench_number(db, broken[i]) != 0)
			fail_msg("%s", broken[i]);
	assert_int_equal(
		bench_number(db, "SELECT count(*) FROM pragma_foreign_key_check"), 0);
	assert_int_equal(bench_number(db, "SELECT count(*) FROM pragma_integrity_check"
					  " WHERE integrity_check <> 'ok'"),
			 0);
}

#endif
