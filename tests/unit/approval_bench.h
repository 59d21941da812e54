#ifndef TESTS_UNIT_APPROVAL_BENCH_H
#define TESTS_UNIT_APPROVAL_BENCH_H
/* Approvals on an exec.db in memory, with a loop and a ring for their rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "make_image.h"
#include "proxy/control/approval_in.h"
#include "proxy/control/brain_schema.h"
#include "proxy/io/place.h"
#include "proxy/io/rowring.h"

static const char approval_config[] = "state_dir: /tmp\n"
				      "resolver: {servers: [\"127.0.0.1\"]}\n"
				      "exec: {approval_timeout: 1s}\n";

struct scene {
	struct control c;
	struct approvals *all;
	sqlite3 *db;
	int ring_fd, bell;
	struct rowring *rows;
	struct loop_timer stop;
	/* What somebody who waits was told last. */
	int told;
	enum status st;
	uint64_t id;
	char by[64];
};

static inline void
on_stop(void *ctx)
{
	struct scene *s = ctx;

	loop_stop(s->c.loop);
}

/* Tickets 1 to 9 are bob's in session s1; 10 is alice's; of others nobody knows. */
static inline bool
whose(struct control *c, const struct ask_line *line, uint64_t ticket,
      struct approval_wish *ret_w)
{
	(void)c;
	(void)line;
	if (ticket > 10)
		return false;
	*ret_w = (struct approval_wish){ .tenant = STR("t"),
					 .user = ticket == 10 ? STR("alice")
							      : STR("bob"),
					 .session = STR("s1"),
					 .sandbox = STR("sb-1") };
	return true;
}

static inline int
set_up(void **state)
{
	struct scene *s = test_calloc(1, sizeof *s);

	assert_int_equal(sql_open_writer(":memory:", &s->db), ST_OK);
	for (size_t i = 0; i < COUNT_OF(brain_schema); i++)
		assert_int_equal(sql_exec(s->db, brain_schema[i]), ST_OK);
	assert_int_equal(loop_new(&s->c.loop), ST_OK);
	s->c.role.image = make_image(approval_config);
	s->c.role.log = (struct log){ "control", LOG_ERROR };
	s->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	assert_int_equal(rowring_create("test", &s->ring_fd), ST_OK);
	assert_int_equal(rowring_open_writer(s->ring_fd, s->bell, &s->c.role.ring),
			 ST_OK);
	assert_int_equal(rowring_open_reader(s->ring_fd, &s->rows), ST_OK);
	loop_timer_init(&s->stop, s->c.loop, on_stop, s);
	assert_int_equal(approvals_open(&s->c, s->db, whose, &s->all), ST_OK);
	*state = s;
	return 0;
}

static inline int
tear_down(void **state)
{
	struct scene *s = *state;

	approvals_close(s->all);
	assert_null(s->c.approvals);
	loop_timer_clear(&s->stop);
	loop_free(s->c.loop);
	image_close(s->c.role.image);
	rowring_close(s->c.role.ring);
	rowring_close(s->rows);
	(void)close(s->ring_fd);
	(void)close(s->bell);
	assert_int_equal(sqlite3_close(s->db), SQLITE_OK);
	test_free(s);
	return 0;
}

static inline void
run(struct scene *s, uint64_t ms)
{
	loop_timer_set(&s->stop, ms);
	loop_run(s->c.loop);
}

static inline void
on_told(void *ctx, const struct approval_told *t)
{
	struct scene *s = ctx;

	s->told++;
	s->st = t->st;
	s->id = t->id;
	(void)snprintf(s->by, sizeof s->by, "%.*s", STR_ARG(t->by));
}

static struct approval_wish
wish_of(const char *user, uint8_t text)
{
	struct approval_wish w = { .tenant = STR("t"),
				   .user = str_from(user),
				   .session = STR("s1"),
				   .sandbox = STR("sb-1"),
				   .what = STR("command"),
				   .text = STR("curl -u a:topsecret1 https://x.test"),
				   .level = 2 };

	w.hash[0] = text;
	return w;
}

static inline struct approval *
begin(struct scene *s, const char *user, uint8_t text)
{
	struct approval_wish w = wish_of(user, text);
	struct approval *a = NULL;

	assert_int_equal(approvals_begin(&s->c, &w, on_told, s, &a), ST_OK);
	assert_non_null(a);
	return a;
}

static inline enum status
decide(struct scene *s, uint64_t id, enum approval_state to, const char *by,
       enum approval_scope scope)
{
	const struct approval_end e = { .state = to,
					.scope = scope,
					.by = str_from(by),
					.now_s = approvals_now_s(),
					.expires_s = approvals_now_s() + 100 };

	return approvals_decide(s->all, id, &e);
}

static inline bool
copy_state(void *ctx, const struct approval_row *r)
{
	*(enum approval_state *)ctx = r->state;
	return true;
}

static inline enum approval_state
state_of(struct scene *s, uint64_t id)
{
	enum approval_state st = APPROVAL_STATES;

	assert_int_equal(approval_store_find(s->all->store, id, copy_state, &st),
			 ST_OK);
	return st;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
