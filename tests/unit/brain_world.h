#ifndef TESTS_UNIT_BRAIN_WORLD_H
#define TESTS_UNIT_BRAIN_WORLD_H
/*
 * brain_world: the brain with a store of its own, a worker's and a dialer's end of its lines,
 * and the servers of brain_servers.h.
 */
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "proxy/control/approval_in.h"
#include "proxy/control/key_store.h"
#include "proxy/control/keys_in.h"
#include "proxy/io/memfd.h"
#include "proxy/io/rowring.h"
#include "tests/unit/brain_servers.h"
#include "tests/unit/make_image.h"

#define ALICE "sgk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
#define BOB   "sgk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE"

static const char world_config[] =
	"policies:\n"
	"  p: {connectors: [], allow: []}\n"
	"  out: {allow: [{hosts: [a.example.test, '*.b.example.test']}], deny: "
	"[{hosts: "
	"[x.b.example.test]}]}\n"
	"resolver: {servers: [192.0.2.1]}\n"
	"connectors:\n"
	"  - {name: id, hosts: [id.example.com], auth: {kind: passthrough}, allow: "
	"[{methods: [GET], paths: [/jwks]}]}\n"
	"listeners: [{name: e, kind: opensandbox, address: '127.0.0.1:8090'}]\n"
	"servers:\n"
	"  - {name: one, url: 'http://127.0.0.1:8081', key: k/one, tier: standard, "
	"endpoints: "
	"[127.0.0.0/8]}\n"
	"  - {name: two, url: 'http://127.0.0.1:8082', key: k/two, tier: standard, "
	"endpoints: "
	"[127.0.0.0/8]}\n"
	"  - {name: strong, url: 'http://127.0.0.1:8083', key: k/strong, tier: high, "
	"network: "
	"sg, endpoints: [127.0.0.0/8]}\n"
	"exec:\n"
	"  jwt: [{issuer: 'https://id.example.com', audience: sandgate, "
	"jwks_connector: "
	"id, jwks_path: /jwks}]\n"
	"  labels: {team: x}\n"
	"  volumes: ['/data/**']\n"
	"  images: ['sg/*', 'strong/*']\n"
	"  max_timeout: 2h\n"
	"  placement: [{tier: high, images: ['strong/*']}]\n";

/* The worker and the dialer. */

static inline void
world_tick(void *ctx)
{
	loop_stop(((struct world *)ctx)->c.loop);
}

static inline void
world_run(struct world *w)
{
	struct loop_timer t;

	for (int i = 0; i < 200; i++) {
		loop_timer_init(&t, w->c.loop, world_tick, w);
		loop_timer_set(&t, 1);
		loop_run(w->c.loop);
		/* Others stop the loop, too. */
		loop_timer_clear(&t);
		if (w->is_held || !world_serve(w))
			if (i > 3)
				break;
	}
}

static inline void
world_placed(void *ctx, enum status st, struct ask_msg *m)
{
	struct fake_answer *f = ctx;

	assert_int_equal(st, ST_OK);
	f->raw = malloc(m->body.n + 1);
	memcpy(f->raw, m->body.p, m->body.n);
	assert_int_equal(place_answer_get(str_of(f->raw, m->body.n), &f->a), ST_OK);
	f->is_there = true;
	if (f->a.body_n > PLACE_INLINE) {
		struct str view;

		assert_int_equal(m->fds_n, 1);
		assert_int_equal(memfd_map(m->fds[0], f->a.body_n, &view), ST_OK);
		f->body = strndup(view.p, view.n);
		memfd_unmap(&view);
	} else {
		f->body = strndup(f->a.body.n > 0 ? f->a.body.p : "", f->a.body.n);
	}
}

static inline void
world_reach(void *ctx, struct ask_line *line, struct ask_msg *m)
{
	struct world *w = ctx;
	char body[2] = { 0, 0 };

	assert_int_equal(m->ask, ASK_GRANT_REACH);
	w->reaches++;
	assert_int_equal(ask_answer(line, m->ask, m->seq, str_of(body, 2), NULL, 0),
			 ST_OK);
}

static inline void
world_heard(void *ctx, struct ask_line *line, struct ask_msg *m)
{
	struct world *w = ctx;

	brain_heard(w->c.brain, line, m);
}

static inline void
world_lost(void *ctx, struct ask_line *line, enum status why)
{
	struct world *w = ctx;

	(void)why;
	brain_line_lost(w->c.brain, line);
	ask_line_free(line);
}

static inline void
world_ours_lost(void *ctx, struct ask_line *line, enum status why)
{
	(void)ctx;
	(void)why;
	(void)line;
}

/* One PLACE; its answer comes with world_run(). */
static inline struct fake_answer *
world_begin(struct world *w, struct place_wish wish)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct fake_answer *f = &w->answers[++w->tickets % ANSWERS];

	free(f->raw);
	free(f->body);
	*f = (struct fake_answer){ .ticket = w->tickets };
	wish.ticket = w->tickets;
	if (wish.authority.n == 0)
		wish.authority = STR("gate.example.test:8090");
	buf_init(&b, ASK_BODY_MAX);
	place_wish_put(&b, &wish);
	assert_int_equal(ask_call(w->worker, ASK_PLACE,
				  ASK_LOAD(str_of(b.p, b.len), &w->caller[0], 1),
				  world_placed, f, NULL),
			 ST_OK);
	return f;
}

static inline struct fake_answer *
world_ask(struct world *w, struct place_wish wish)
{
	struct fake_answer *f = world_begin(w, wish);

	world_run(w);
	assert_true(f->is_there);
	return f;
}

static inline void
world_left(struct world *w, uint64_t ticket)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 16);
	buf_put_u64(&b, ticket);
	assert_int_equal(ask_tell(w->worker, ASK_LEFT, str_of(b.p, b.len), NULL, 0),
			 ST_OK);
	world_run(w);
}

/* A worker tells a control that was started anew what it holds. */
static inline void
world_kept(struct world *w, uint64_t number, const char *id)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 64);
	buf_put_u64(&b, number);
	wire_put_str(&b, str_from(id));
	assert_int_equal(ask_tell(w->worker, ASK_KEPT, str_of(b.p, b.len), NULL, 0),
			 ST_OK);
	world_run(w);
}

/* A member of an answer's body, which must be JSON; "" : not there. */
static inline const char *
world_text(struct fake_answer *f, const char *outer, const char *name)
{
	static char text[512];
	json_t *v = json_loads(f->body, 0, NULL);
	const json_t *in = outer == NULL ? v : json_object_get(v, outer);
	const char *found = json_string_value(json_object_get(in, name));

	(void)snprintf(text, sizeof text, "%s", found == NULL ? "" : found);
	json_decref(v);
	return text;
}

static inline struct place_wish
wish_of(const char *key, enum exec_op op, const char *sandbox, const char *body)
{
	return (struct place_wish){ .key = str_from(key),
				    .op = (uint16_t)op,
				    .is_v1 = true,
				    .sandbox = str_from(sandbox),
				    .body = str_from(body) };
}

#define CREATE_BODY                                                                    \
	"{\"image\":{\"uri\":\"sg/base:local\"},\"entrypoint\":[\"tail\",\"-f\","      \
	"\"/dev/null\"],\"timeout\":600,\"resourceLimits\":{\"cpu\":\"500m\","         \
	"\"memory\":\"256Mi\"},\"metadata\":{\"name\":\"n1\"}}"

/* A sandbox of this key; its id is the caller's to free. */
static inline char *
world_create(struct world *w, const char *key)
{
	struct fake_answer *f =
		world_ask(w, wish_of(key, EXEC_OP_SANDBOX_CREATE, "", CREATE_BODY));

	assert_int_equal(f->a.kind, PLACE_ANSWER);
	assert_int_equal(f->a.http, 202);
	return strdup(world_text(f, NULL, "id"));
}

static inline void
world_key(struct world *w, const char *key, const char *id, const char *user)
{
	struct key_row row = { .id = str_from(id),
			       .tenant = STR("blue"),
			       .user = str_from(user),
			       .agent = STR("coder"),
			       .scopes = SCOPE_ALL,
			       .created_s = 1 };
	uint8_t hash[KEY_HASH];

	token_hash(str_from(key), hash);
	assert_int_equal(key_store_add(&w->c.keys->store, &row, hash), ST_OK);
}

static inline struct ask_line *
world_line(struct world *w, enum role peer, ask_heard_fn heard, ask_lost_fn lost,
	   struct ask_line **ret_ours)
{
	struct ask_line *theirs = NULL;
	struct ask_end a = { -1, ROLE_CONTROL, peer }, b = { -1, peer, ROLE_CONTROL };
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	a.fd = fds[0];
	b.fd = fds[1];
	assert_int_equal(
		ask_line_new(w->c.loop, &a, peer == ROLE_WORKER ? heard : world_heard,
			     peer == ROLE_WORKER ? lost : world_ours_lost, w, &theirs),
		ST_OK);
	assert_int_equal(ask_line_new(w->c.loop, &b,
				      peer == ROLE_WORKER ? world_heard : heard,
				      world_ours_lost, w, ret_ours),
			 ST_OK);
	return theirs;
}

static inline int
world_up_with(void **state, const char *config)
{
	struct world *w = the_world();

	memset(w, 0, sizeof *w);
	bench_open(&w->bench);
	need(loop_new(&w->c.loop) == ST_OK);
	w->c.role.image = make_image(config);
	w->c.role.generation = 1;
	w->c.role.log = (struct log){ "test", LOG_ERROR };
	w->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	assert_int_equal(rowring_create("test", &w->ring), ST_OK);
	assert_int_equal(rowring_open_writer(w->ring, w->bell, &w->c.role.ring), ST_OK);
	w->c.role.bell = w->bell;
	w->c.store = w->bench.s;
	assert_int_equal(brain_open(&w->c), ST_OK);
	loop_timer_clear(&w->c.brain->tick); /* tests say when */
	w->c.lines[1] = world_line(w, ROLE_WORKER, world_heard, world_lost, &w->worker);
	w->c.dialer =
		world_line(w, ROLE_DIALER, world_reach, world_ours_lost, &w->dialer);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, w->caller),
			 0);
	world_key(w, ALICE, "key-1", "alice");
	world_key(w, BOB, "key-2", "bob");
	*state = w;
	return 0;
}

static inline int
world_up(void **state)
{
	return world_up_with(state, world_config);
}

static inline int
world_down(void **state)
{
	struct world *w = *state;

	ask_line_free(w->worker);
	ask_line_free(w->dialer);
	if (w->c.lines[1] != NULL)
		ask_line_free(w->c.lines[1]);
	ask_line_free(w->c.dialer);
	brain_close(w->c.brain);
	for (size_t i = 0; i < ANSWERS; i++) {
		free(w->answers[i].raw);
		free(w->answers[i].body);
	}
	for (size_t i = 0; i < CALLS; i++)
		free(w->calls[i].body);
	for (size_t i = 0; i < w->boxes_n; i++)
		json_decref(w->boxes[i].request);
	free(w->last_body);
	(void)close(w->caller[0]);
	(void)close(w->caller[1]);
	rowring_close(w->c.role.ring);
	(void)close(w->ring);
	(void)close(w->bell);
	image_close(w->c.role.image);
	loop_free(w->c.loop);
	bench_close(&w->bench);
	return 0;
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, world_up, world_down)

#endif
