/* What use does: time that is given, requests that a new control hears of, what one user may have
 * under way; and what is told of a sandbox meanwhile. */
#include "proxy/control/brain_show.h"
#include "proxy/control/principal.h"
#include "tests/unit/brain_age.h"

static uint64_t
end_of(struct world *w, const char *id)
{
	return bench_get(&w->bench, str_from(id)).expires_s;
}

/* CREATE_BODY asks for ten minutes. */
static void
what_is_used_in_its_last_quarter_lives_as_long_again(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	struct place_wish wish = wish_of(ALICE, EXEC_OP_PING, id, "");
	uint64_t now = brain_now_s();

	wish.port = 44772;
	backdate(w, "expires_s", id, now + 155);
	world_left(w, world_ask(w, wish)->ticket);
	assert_int_equal(end_of(w, id), now + 155);
	brain_span_forget(w->c.brain, str_from(id));
	backdate(w, "expires_s", id, now + 140);
	world_left(w, world_ask(w, wish)->ticket);
	assert_non_null(strstr(w->last, "renew-expiration"));
	assert_in_range(end_of(w, id), now + 600, now + 602);
	free(id);
}

static void
a_request_that_takes_long_renews_again_and_again(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	struct place_wish wish = wish_of(ALICE, EXEC_OP_PING, id, "");
	struct fake_answer *f = NULL;
	uint64_t now = brain_now_s();

	wish.port = 44772;
	for (int i = 0; i < 3; i++) {
		backdate(w, "expires_s", id, now + 100);
		if (f == NULL)
			f = world_ask(w, wish);
		else
			brain_spans_look(w->c.brain);
		world_run(w);
		assert_in_range(end_of(w, id), now + 600, now + 602);
	}
	world_left(w, f->ticket);
	backdate(w, "expires_s", id, now + 100);
	brain_spans_look(w->c.brain);
	world_run(w);
	assert_int_equal(end_of(w, id), now + 100);
	free(id);
}

/* A server that answers so to the first renewal is not asked for each request. */
static void
renewed_once(struct world *w, uint16_t http, const char *says)
{
	char *id = world_create(w, ALICE);
	struct place_wish wish = wish_of(ALICE, EXEC_OP_PING, id, "");
	uint64_t soon = brain_now_s() + 100;
	size_t calls;

	wish.port = 44772;
	world_left(w, world_ask(w, wish)->ticket);
	brain_span_forget(w->c.brain, str_from(id));
	backdate(w, "expires_s", id, soon);
	calls = w->calls_n;
	w->http = http;
	w->says = says;
	for (int i = 0; i < 5; i++)
		world_left(w, world_ask(w, wish)->ticket);
	assert_int_equal(w->calls_n, calls + 1);
	assert_int_equal(end_of(w, id), soon);
	free(id);
}

static void
a_server_that_does_not_renew_is_asked_later_again(void **state)
{
	renewed_once(*state, 501, "{\"code\":\"X\",\"message\":\"y\"}");
}

/* It says that it did, each time. */
static void
a_server_that_gives_no_time_is_asked_later_again(void **state)
{
	renewed_once(*state, 200, "{\"expiresAt\":\"2001-01-01T00:00:00Z\"}");
}

/* A control that was started anew knows of no request. */
static void
what_a_worker_still_holds_is_busy(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);

	backdate(w, "used_s", id, brain_now_s() - 700);
	backdate(w, "expires_s", id, brain_now_s() + 100);
	world_kept(w, 77, id);
	assert_int_equal(brain_busy(w->c.brain, str_from(id)), 1);
	assert_int_equal(w->c.brain->shares.len, 0); /* it uses up nobody's */
	assert_in_range(end_of(w, id), brain_now_s() + 590, brain_now_s() + 600);
	look(w);
	assert_int_equal(state_of(w, id), BRAIN_RUNNING);
	world_left(w, 77);
	backdate(w, "used_s", id, brain_now_s() - 700);
	look(w);
	assert_int_equal(state_of(w, id), BRAIN_PAUSED);
	/* Of what is gone, or never was, nothing is kept. */
	(void)world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_KILL, id, ""));
	world_kept(w, 78, id);
	world_kept(w, 79, "sb-never");
	assert_null(brain_ticket_find(w->c.brain, w->c.lines[1], 78));
	assert_int_equal(w->c.brain->by_number.len, 0);
	assert_int_equal(w->c.brain->shares.len, 0);
	free(id);
}

/* A worker that was taken over says what it likes of sandboxes that it has nothing to do with. */
static void
what_a_worker_says_to_hold_is_worth_little(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, BOB);
	CLEANUP(buf_done) struct buf b = { 0 };

	world_kept(w, 77, id);
	buf_init(&b, 64);
	buf_put_u64(&b, 77);
	wire_put_str(&b, STR("c-1"));
	wire_put_str(&b, STR("python"));
	assert_int_equal(ask_tell(w->worker, ASK_CONTEXT, str_of(b.p, b.len), NULL, 0),
			 ST_OK);
	world_run(w);
	assert_int_equal(brain_context_language(w->c.brain, str_from(id), STR("c-1")).n,
			 0);
	world_left(w, 77);
	w->c.brain->ticks = BRAIN_ROUND_TICKS;
	world_kept(w, 78, id);
	assert_int_equal(brain_busy(w->c.brain, str_from(id)), 0);
	free(id);
}

static struct brain_share *
share_of(struct world *w, const char *user)
{
	struct principal who = { .tenant = "blue" };

	assert_int_equal(principal_set(who.user, str_from(user)), ST_OK);
	return brain_share(w->c.brain, &who);
}

static void
one_user_takes_neither_all_turns_nor_all_tickets(void **state)
{
	struct world *w = *state;
	char *hers = world_create(w, ALICE), *his = world_create(w, BOB);
	struct place_wish ping = wish_of(ALICE, EXEC_OP_PING, hers, "");
	struct fake_answer *held;

	ping.port = 44772;
	w->is_held = true;
	held = world_begin(w, wish_of(ALICE, EXEC_OP_SANDBOX_GET, hers, ""));
	world_run(w);
	assert_int_equal(share_of(w, "alice")->turns, 1);
	share_of(w, "alice")->turns += BRAIN_USER_TURNS - 1;
	w->is_held = false;
	struct fake_answer *more = world_begin(w, ping);
	struct fake_answer *other =
		world_begin(w, wish_of(BOB, EXEC_OP_SANDBOX_GET, his, ""));
	world_run(w);
	assert_int_equal(more->a.kind, PLACE_REFUSE);
	assert_int_equal(more->a.st, ST_LIMIT_USER);
	assert_int_equal(other->a.http, 200);
	assert_int_equal(held->a.http, 200);
	share_of(w, "alice")->turns -= BRAIN_USER_TURNS - 1;
	/* Tickets. */
	held = world_ask(w, ping);
	assert_int_equal(held->a.kind, PLACE_ROUTE);
	assert_int_equal(share_of(w, "alice")->tickets, 1);
	share_of(w, "alice")->tickets = BRAIN_USER_TICKETS;
	assert_int_equal(world_ask(w, ping)->a.st, ST_LIMIT_USER);
	ping.key = STR(BOB);
	ping.sandbox = str_from(his);
	more = world_ask(w, ping);
	assert_int_equal(more->a.kind, PLACE_ROUTE);
	share_of(w, "alice")->tickets = 1;
	world_left(w, held->ticket);
	world_left(w, more->ticket);
	assert_int_equal(w->c.brain->shares.len, 0);
	free(hers);
	free(his);
}

/* Signed by nobody, but meant for us: it waits for the issuer's keys. */
#define EVES                                                                           \
	"eyJhbGciOiJFZERTQSIsImtpZCI6IjEifQ."                                          \
	"eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUuY29tIiwiYXVkIjoi"                         \
	"c2FuZGdhdGUiLCJleHAiOjQxMDI0NDQ4MDAsInN1YiI6ImV2ZSJ9"                         \
	".AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"                                 \
	"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

static void
tokens_that_wait_for_keys_leave_room_for_who_is_known(void **state)
{
	struct world *w = *state;
	const struct principal none = { .tenant = "" };
	struct brain *b = w->c.brain;
	char *id = world_create(w, ALICE);
	struct place_wish eve = wish_of("", EXEC_OP_SANDBOX_LIST, "", "");
	struct fake_answer *first, *second, *known;

	eve.bearer = STR(EVES);
	w->is_held = true;
	first = world_begin(w, eve);
	world_run(w);
	assert_false(first->is_there);
	assert_int_equal(brain_share(b, &none)->turns, 1);
	brain_share(b, &none)->turns = BRAIN_USER_TURNS;
	second = world_begin(w, eve);
	known = world_begin(w, wish_of(ALICE, EXEC_OP_NETPOLICY_GET, id, ""));
	world_run(w);
	assert_int_equal(second->a.st, ST_LIMIT_TURNS);
	assert_int_equal(known->a.http, 200);
	brain_share(b, &none)->turns -= BRAIN_USER_TURNS - 1;
	w->is_held = false;
	world_run(w);
	assert_int_equal(first->a.st, ST_ISSUER_SILENT);
	assert_int_equal(b->shares.len, 0);
	free(id);
}

static const char *
state_told(struct fake_answer *f)
{
	assert_int_equal(f->a.http, 200);
	return world_text(f, "status", "state");
}

static void
an_answer_of_before_changes_nothing(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	struct place_wish get = wish_of(ALICE, EXEC_OP_SANDBOX_GET, id, "");
	struct fake_answer *f;

	w->is_held = true;
	f = world_begin(w, get);
	world_run(w);
	assert_int_equal(brain_store_state(w->bench.s, str_from(id), BRAIN_PAUSED,
					   brain_now_s()),
			 ST_OK);
	w->is_held = false; /* the server still says that it runs */
	world_run(w);
	assert_string_equal(state_told(f), "Paused");
	assert_int_equal(state_of(w, id), BRAIN_PAUSED);
	/* And of one that was woken, that it sleeps. */
	(void)snprintf(w->boxes[0].state, sizeof w->boxes[0].state, "Paused");
	assert_int_equal(brain_store_state(w->bench.s, str_from(id), BRAIN_RUNNING,
					   brain_now_s()),
			 ST_OK);
	assert_string_equal(state_told(world_ask(w, get)), "Running");
	assert_int_equal(state_of(w, id), BRAIN_RUNNING);
	free(id);
}

static uint64_t
end_told(struct fake_answer *f)
{
	uint64_t s = 0;

	assert_true(brain_time_read(str_from(world_text(f, NULL, "expiresAt")), &s));
	return s;
}

/* Its server says 2099; exec.max_timeout is two hours. */
static void
the_earlier_end_is_told(void **state)
{
	struct world *w = *state;
	struct place_wish get = wish_of(ALICE, EXEC_OP_SANDBOX_GET, "", "");
	uint64_t most = brain_now_s() + 7200;
	struct fake_answer *f =
		world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_CREATE, "", CREATE_BODY));
	char *id = strdup(world_text(f, NULL, "id"));

	assert_in_range(end_told(f), most, most + 2);
	assert_in_range(end_of(w, id), most, most + 2);
	backdate(w, "expires_s", id, most - 5000);
	get.sandbox = str_from(id);
	assert_int_equal(end_told(world_ask(w, get)), most - 5000);
	free(id);
}

static void
an_id_that_comes_twice_is_nobodys_end(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	char says[256];

	(void)snprintf(says, sizeof says,
		       "{\"id\":\"%s\",\"status\":{\"state\":\"Running\"}}",
		       w->boxes[0].id);
	/* The same server makes it. */
	w->down[strcmp(w->boxes[0].server, "one") == 0 ? 1 : 0] = ST_CONNECT_REFUSED;
	w->http = 202;
	w->says = says;
	struct fake_answer *f =
		world_ask(w, wish_of(BOB, EXEC_OP_SANDBOX_CREATE, "", CREATE_BODY));
	assert_int_equal(f->a.st, ST_UPSTREAM_BAD);
	assert_true(str_eq(f->a.words,
			   STR("the server gave an id that another sandbox has")));
	w->http = 0;
	world_run(w);
	assert_int_equal(state_of(w, id), BRAIN_RUNNING);
	assert_false(w->boxes[0].is_gone);
	free(id);
}

static void
a_create_that_failed_is_tried_anew_by_the_same_key(void **state)
{
	struct world *w = *state;
	struct place_wish wish =
		wish_of(ALICE, EXEC_OP_SANDBOX_CREATE, "", CREATE_BODY);
	char id[64];

	wish.idempotency = STR("k1");
	w->http = 500;
	w->says = "{\"code\":\"X\",\"message\":\"y\"}";
	assert_int_equal(world_ask(w, wish)->a.http, 500);
	w->http = 0;
	struct fake_answer *f = world_ask(w, wish);
	assert_int_equal(f->a.http, 202);
	(void)snprintf(id, sizeof id, "%.60s", world_text(f, NULL, "id"));
	assert_string_equal(world_text(world_ask(w, wish), NULL, "id"), id);
	assert_int_equal(w->boxes_n, 1);
	/* Told for a while. */
	f = world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_LIST, "", ""));
	assert_non_null(strstr(f->body, "\"Failed\""));
	assert_int_equal(sql_exec(brain_store_db(w->bench.s),
				  "UPDATE sandboxes SET created_s = 1"),
			 ST_OK);
	brain_idle_rest(w->c.brain);
	world_run(w);
	f = world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_LIST, "", ""));
	assert_null(strstr(f->body, "\"Failed\""));
	assert_non_null(strstr(f->body, id));
}

static json_int_t
times_of(const json_t *costs, const char *what)
{
	return json_integer_value(
		json_object_get(json_object_get(costs, what), "times"));
}

static void
what_it_costs_is_counted_of_what_is_gone_too(void **state)
{
	struct world *w = *state;
	char *id = world_create(w, ALICE);
	struct str named = str_from(id);

	(void)world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_PAUSE, id, ""));
	(void)world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_RESUME, id, ""));
	assert_int_equal(brain_job(w->c.brain, named, BRAIN_FREEZE, NULL), ST_OK);
	world_run(w);
	assert_int_equal(state_of(w, id), BRAIN_SNAPSHOT);
	assert_false(bench_get(&w->bench, named).cost.freed.is_known);
	(void)world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_RESUME, id, ""));
	(void)world_ask(w, wish_of(ALICE, EXEC_OP_SANDBOX_KILL, id, ""));
	assert_int_equal(state_of(w, id), BRAIN_GONE);
	json_t *costs = brain_show_costs(w->c.brain);
	assert_int_equal(times_of(costs, "create"), 1);
	assert_int_equal(times_of(costs, "pause"), 1);
	assert_int_equal(times_of(costs, "snapshot"), 1);
	assert_int_equal(times_of(costs, "resume"), 2);
	assert_int_equal(times_of(costs, "kill"), 1);
	assert_null(json_object_get(costs, "warm"));
	json_decref(costs);
	free(id);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_WORLD(what_is_used_in_its_last_quarter_lives_as_long_again),
		WITH_WORLD(a_request_that_takes_long_renews_again_and_again),
		WITH_WORLD(a_server_that_does_not_renew_is_asked_later_again),
		WITH_WORLD(a_server_that_gives_no_time_is_asked_later_again),
		WITH_WORLD(what_a_worker_still_holds_is_busy),
		WITH_WORLD(what_a_worker_says_to_hold_is_worth_little),
		WITH_WORLD(one_user_takes_neither_all_turns_nor_all_tickets),
		WITH_WORLD(tokens_that_wait_for_keys_leave_room_for_who_is_known),
		WITH_WORLD(an_answer_of_before_changes_nothing),
		WITH_WORLD(the_earlier_end_is_told),
		WITH_WORLD(a_create_that_failed_is_tried_anew_by_the_same_key),
		WITH_WORLD(what_it_costs_is_counted_of_what_is_gone_too),
		WITH_WORLD(an_id_that_comes_twice_is_nobodys_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
