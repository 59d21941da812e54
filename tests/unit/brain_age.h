#ifndef TESTS_UNIT_BRAIN_AGE_H
#define TESTS_UNIT_BRAIN_AGE_H
/* brain_age: time passes for a sandbox of a world: its row is made older, and the brain looks. */
#include "tests/unit/brain_world.h"

static inline void
backdate(struct world *w, const char *column, const char *id, uint64_t s)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	char text[128];

	(void)snprintf(text, sizeof text, "UPDATE sandboxes SET %s = ?1 WHERE id = ?2",
		       column);
	assert_int_equal(sql_prepare(brain_store_db(w->bench.s), text, &q), ST_OK);
	sql_u64(q, 1, s);
	sql_bytes(q, 2, str_from(id));
	assert_int_equal(sql_run(q), ST_OK);
}

static inline void
look(struct world *w)
{
	brain_idle(w->c.brain);
	world_run(w);
}

static inline enum brain_state
state_of(struct world *w, const char *id)
{
	return bench_get(&w->bench, str_from(id)).state;
}

#endif
