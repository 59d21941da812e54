/* Control's end of a call; we are the connector's process. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/control/call.h"
#include "proxy/io/memfd.h"
#include "tests/unit/make_image.h"

static const char config[] =
	"policies: {none: {allow: []}, some: {connectors: [tracker]}}\n"
	"servers:\n"
	"  - {name: standard, url: \"http://127.0.0.1:9\", key: a/b, endpoints: "
	"[\"127.0.0.0/8\"]}\n"
	"connectors:\n"
	"  - {name: tracker, hosts: [tracker.example.test], auth: {kind: bearer, "
	"secret: "
	"a/c}, allow: [{paths: [\"/**\"]}]}\n";

/* What we answer. */
enum manner { WELL, SILENT, LEAVE, NO_BODY, LONGER, TORN, REFUSED, NO_MEMFD };

struct scene {
	struct control control;
	struct ask_line *other;
	struct loop_timer guard;
	enum manner manner;
	struct call_wish heard; /* views into text */
	char text[512];
	bool is_begun;
	unsigned asks, answers, awaited;
	enum status st;
	uint16_t http;
	char body[64], type[64];
	struct call *call;
};

static void
too_long(void *ctx)
{
	(void)ctx;
	fail_msg("the loop should have stopped");
}

static void
stop(void *ctx)
{
	struct scene *s = ctx;

	loop_stop(s->control.loop);
}

static void
tell(struct ask_line *line, uint32_t seq, const struct call_answer *a, int fd)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str body;

	buf_init(&b, 4096);
	call_answer_put(&b, a);
	assert_int_equal(buf_finish(&b, &body), ST_OK);
	assert_int_equal(ask_answer(line, ASK_CALL, seq, body, &fd, fd >= 0), ST_OK);
}

static void
heard(void *ctx, struct ask_line *line, struct ask_msg *m)
{
	struct scene *s = ctx;
	struct call_answer a = { ST_OK, 201, STR("application/json"), 7 };
	enum manner how = s->manner;

	s->asks++;
	assert_int_equal(m->ask, ASK_CALL);
	assert_in_range(m->body.n, 1, sizeof s->text);
	memcpy(s->text, m->body.p, m->body.n);
	assert_int_equal(call_wish_get(str_of(s->text, m->body.n), &s->heard), ST_OK);
	if (how == LEAVE) {
		ask_line_free(s->other);
		s->other = NULL;
		return;
	}
	if (how == SILENT)
		return;
	if (how == TORN) {
		assert_int_equal(ask_answer(line, ASK_CALL, m->seq, STR("x"), NULL, 0),
				 ST_OK);
		return;
	}
	int fd = how == NO_MEMFD ? open("/dev/null", O_RDONLY | O_CLOEXEC)
				 : memfd_sealed("t", STR("{\"a\":1}"));
	a.body_n = how == LONGER ? 8 : 7;
	if (how == REFUSED)
		a = (struct call_answer){ .st = ST_SECRET_DENIED };
	tell(line, m->seq, &a, how == NO_BODY || how == REFUSED ? -1 : fd);
	assert_int_equal(close(fd), 0);
}

static void
lost(void *ctx, struct ask_line *line, enum status why)
{
	struct scene *s = ctx;

	(void)why;
	if (s->control.lines[3] == line)
		s->control.lines[3] = NULL;
	ask_line_free(line);
}

static void
copy(char *to, struct str s)
{
	assert_in_range(s.n, 0, 63);
	memset(to, 0, 64);
	if (s.n > 0)
		memcpy(to, s.p, s.n);
}

static void
told(void *ctx, const struct call_got *got)
{
	struct scene *s = ctx;

	assert_true(s->is_begun);
	s->answers++;
	s->st = got->st;
	s->http = got->http;
	s->call = NULL;
	copy(s->body, got->body);
	copy(s->type, got->type);
	if (s->answers >= s->awaited)
		loop_stop(s->control.loop);
}

static int
set_up(void **state)
{
	struct scene *s = test_calloc(1, sizeof *s);
	struct control *c = &s->control;
	int fds[2];

	*state = s;
	c->role.image = make_image(config);
	assert_int_equal(loop_new(&c->loop), ST_OK);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	const struct ask_end ours = { fds[0], ROLE_CONTROL, ROLE_CONNECTOR };
	const struct ask_end theirs = { fds[1], ROLE_CONNECTOR, ROLE_CONTROL };
	assert_int_equal(ask_line_new(c->loop, &ours, NULL, lost, s, &c->lines[3]),
			 ST_OK);
	assert_int_equal(ask_line_new(c->loop, &theirs, heard, lost, s, &s->other),
			 ST_OK);
	c->is_connector[3] = true;
	memcpy(c->group[3], "server/standard", sizeof "server/standard");
	loop_timer_init(&s->guard, c->loop, too_long, s);
	loop_timer_set(&s->guard, 10000);
	s->awaited = 1;
	return 0;
}

static int
tear_down(void **state)
{
	struct scene *s = *state;
	struct image *im;

	loop_timer_clear(&s->guard);
	ask_line_free(s->control.lines[3]);
	ask_line_free(s->other);
	loop_free(s->control.loop);
	memcpy(&im, &s->control.role.image, sizeof im);
	image_close(im);
	test_free(s);
	return 0;
}

static struct call_wish
sample(void)
{
	return (struct call_wish){ .connector = STR("standard"),
				   .method = STR("POST"),
				   .target = STR("/v1/sandboxes"),
				   .type = STR("application/json"),
				   .body = STR("{\"image\":1}"),
				   .deadline_ms = 5000,
				   .answer_max = 4096 };
}

static enum status
begin(struct scene *s, const struct call_wish *w)
{
	s->is_begun = false;
	enum status st = call_begin(&s->control, w, told, s, &s->call);
	s->is_begun = true;
	return st;
}

static void
run(struct scene *s, enum manner how)
{
	const struct call_wish w = sample();

	s->manner = how;
	assert_int_equal(begin(s, &w), ST_OK);
	loop_run(s->control.loop);
	assert_int_equal(s->answers, 1);
}

static void
the_wish_arrives_and_its_answer_comes_back(void **state)
{
	struct scene *s = *state;

	run(s, WELL);
	assert_true(str_eq(s->heard.target, STR("/v1/sandboxes")));
	assert_true(str_eq(s->heard.body, STR("{\"image\":1}")));
	assert_int_equal(s->heard.deadline_ms, 5000);
	assert_int_equal(s->st, ST_OK);
	assert_int_equal(s->http, 201);
	assert_string_equal(s->body, "{\"a\":1}");
	assert_string_equal(s->type, "application/json");
}

static void
what_the_connector_refuses_with_is_told(void **state)
{
	run(*state, REFUSED);
	assert_int_equal(((struct scene *)*state)->st, ST_SECRET_DENIED);
}

static void
an_answer_that_does_not_hold_together_is_none(void **state)
{
	static const enum manner bad[] = { NO_BODY, LONGER, TORN, NO_MEMFD };
	struct scene *s = *state;

	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		s->answers = 0;
		run(s, bad[i]);
		assert_int_equal(s->st, ST_BAD_MESSAGE);
		assert_int_equal(s->body[0], 0);
	}
}

static void
a_process_that_ends_leaves_no_call_open(void **state)
{
	struct scene *s = *state;
	const struct call_wish w = sample();

	run(s, LEAVE);
	assert_int_equal(s->st, ST_NEEDS_CONNECTOR);
	assert_int_equal(begin(s, &w), ST_NEEDS_CONNECTOR);
}

static void
the_deadline_holds_here_too(void **state)
{
	struct scene *s = *state;
	struct call_wish w = sample();

	w.deadline_ms = 50;
	s->manner = SILENT;
	assert_int_equal(begin(s, &w), ST_OK);
	loop_run(s->control.loop);
	assert_int_equal(s->st, ST_UPSTREAM_TIMEOUT);
	assert_int_equal(s->answers, 1);
}

static void
a_cancelled_call_is_never_told(void **state)
{
	struct scene *s = *state;
	const struct call_wish w = sample();
	struct loop_timer later;

	assert_int_equal(begin(s, &w), ST_OK);
	call_cancel(s->call);
	call_cancel(NULL);
	loop_timer_init(&later, s->control.loop, stop, s);
	loop_timer_set(&later, 100);
	loop_run(s->control.loop);
	loop_timer_clear(&later);
	assert_int_equal(s->asks, 1);
	assert_int_equal(s->answers, 0);
}

static void
many_at_once_are_each_answered(void **state)
{
	struct scene *s = *state;
	const struct call_wish w = sample();

	s->awaited = 200;
	for (unsigned i = 0; i < s->awaited; i++)
		assert_int_equal(begin(s, &w), ST_OK);
	loop_run(s->control.loop);
	assert_int_equal(s->answers, 200);
	assert_int_equal(s->asks, 200);
}

static void
only_connectors_of_the_gateway_itself_are_called(void **state)
{
	struct scene *s = *state;
	struct call_wish w = sample();

	w.connector = STR("tracker");
	assert_int_equal(begin(s, &w), ST_NOT_FOUND);
	w.connector = STR("absent");
	assert_int_equal(begin(s, &w), ST_NOT_FOUND);
	memcpy(s->control.group[3], "server/other", sizeof "server/other");
	w.connector = STR("standard");
	assert_int_equal(begin(s, &w), ST_NEEDS_CONNECTOR);
}

static void
wishes_out_of_bounds_are_not_begun(void **state)
{
	static char big[65535];
	struct scene *s = *state;
	struct call_wish w = sample();

	w.deadline_ms = 0;
	assert_int_equal(begin(s, &w), ST_BAD_REQUEST);
	w.deadline_ms = CALL_DEADLINE_MAX_MS + 1;
	assert_int_equal(begin(s, &w), ST_BAD_REQUEST);
	w = sample();
	w.answer_max = CALL_ANSWER_MAX + (size_t)1;
	assert_int_equal(begin(s, &w), ST_BAD_REQUEST);
	w = sample();
	w.body = str_of(big, CALL_BODY_MAX + 1);
	assert_int_equal(begin(s, &w), ST_TOO_BIG);
	w = sample();
	w.target = str_of(big, sizeof big);
	assert_int_equal(begin(s, &w), ST_TOO_BIG);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(the_wish_arrives_and_its_answer_comes_back),
		TEST(what_the_connector_refuses_with_is_told),
		TEST(an_answer_that_does_not_hold_together_is_none),
		TEST(a_process_that_ends_leaves_no_call_open),
		TEST(the_deadline_holds_here_too),
		TEST(a_cancelled_call_is_never_told),
		TEST(many_at_once_are_each_answered),
		TEST(only_connectors_of_the_gateway_itself_are_called),
		TEST(wishes_out_of_bounds_are_not_begun),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
