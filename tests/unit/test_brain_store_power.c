/*
 * The power goes while sandboxes are given out.  After each cut the store opens by itself and
 * says of every sandbox what it said before the change or after it, and no change that
 * somebody was told of is lost.
 */
#include "tests/unit/power_story.h"

#include "proxy/base/buf.h"
#include "tests/unit/brain_bench.h"

struct world {
	struct brain_store *s;
	struct arena a;
	struct str one, two;
};

static void *
open_world(int dir)
{
	struct world *w = calloc(1, sizeof *w);

	assert_non_null(w);
	arena_init(&w->a, BENCH_ARENA);
	assert_int_equal(fchdir(dir), 0);
	assert_int_equal(brain_store_open("exec.db", &w->s), ST_OK);
	return w;
}

static void
close_world(void *store)
{
	struct world *w = store;

	brain_store_close(w->s);
	arena_done(&w->a);
	free(w);
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
tell(void *store, char text[STORY_TELL])
{
	struct brain_store *s = ((struct world *)store)->s;
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str all;

	buf_init(&b, STORY_TELL - 1);
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
change(void *store, size_t op)
{
	struct world *w = store;
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
set_up(void **state)
{
	static struct power_story t = {
		.ops = 11,
		.some = 1,
		.new_tells = ".",
		.open_in = open_world,
		.close = close_world,
		.tell = tell,
		.change = change,
	};

	story_record(&t);
	*state = &t;
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_each_cut_it_is_the_old_or_the_new_one),
		cmocka_unit_test(a_change_that_was_not_synced_would_be_found_missing),
	};

	return cmocka_run_group_tests_name("brain_store_power", tests, set_up, NULL);
}
