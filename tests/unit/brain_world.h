#ifndef TESTS_UNIT_BRAIN_WORLD_H
#define TESTS_UNIT_BRAIN_WORLD_H
/*
 * brain_world: the brain with a store of its own, a worker's and a dialer's end of its lines,
 * and servers that live in the test: they answer as OpenSandbox does, are down, or lie.
 */
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "proxy/control/approval_in.h"
#include "proxy/control/brain.h"
#include "proxy/control/brain_json.h"
#include "proxy/control/enroll.h"
#include "proxy/control/key_store.h"
#include "proxy/control/keys_in.h"
#include "proxy/io/memfd.h"
#include "proxy/io/rowring.h"
#include "tests/unit/brain_bench.h"
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

enum { BOXES = 64, CALLS = 64, ANSWERS = 64 };

struct fake_box { /* on a server */
	char id[40], server[16], state[16], snapshot[40];
	bool is_gone;
	json_t *request;
};

struct fake_call {
	bool is_open;
	call_fn fn;
	void *ctx;
	char connector[64], method[8], target[512];
	char *body;
};

struct fake_answer {
	uint64_t ticket;
	struct place_answer a;
	char *raw; /* views of a lie here */
	char *body;
	bool is_there;
};

struct world {
	struct bench bench;
	struct control c;
	struct ask_line *worker, *dialer; /* our ends */
	int caller[2], ring, bell;
	uint64_t tickets, reaches;
	struct fake_call calls[CALLS];
	size_t calls_n;  /* all that were made */
	char last[512];  /* "one POST /v1/sandboxes" */
	char *last_body; /* of a POST /v1/sandboxes */
	struct fake_box boxes[BOXES];
	size_t boxes_n;
	struct fake_answer answers[ANSWERS];
	/* Who is known by address. */
	char enrolled[32], policy[32], user[32], from[64], narrow[256];
	size_t enrolls, ends;
	bool trusts_ca;
	struct who who;
	enroll_fn enroll_fn;
	void *enroll_ctx;
	/* What the servers do. */
	enum status down[3]; /* one, two, strong: not ST_OK: what calls end with */
	bool is_held;        /* calls stay open until world_serve() */
	uint16_t http;       /* not 0: answers this, with `says` */
	const char *says;
	const char *endpoint; /* instead of the right one */
};

static inline struct world *
the_world(void)
{
	static struct world w;

	return &w;
}

enum status
call_begin(struct control *c, const struct call_wish *wish, call_fn fn, void *ctx,
	   struct call **ret_call)
{
	struct world *w = the_world();

	(void)c;
	for (size_t i = 0; i < CALLS; i++) {
		struct fake_call *f = &w->calls[i];

		if (f->is_open)
			continue;
		*f = (struct fake_call){ .is_open = true, .fn = fn, .ctx = ctx };
		(void)snprintf(f->connector, sizeof f->connector, "%.*s",
			       STR_ARG(wish->connector));
		(void)snprintf(f->method, sizeof f->method, "%.*s",
			       STR_ARG(wish->method));
		(void)snprintf(f->target, sizeof f->target, "%.*s",
			       STR_ARG(wish->target));
		f->body = strndup(wish->body.n > 0 ? wish->body.p : "", wish->body.n);
		w->calls_n++;
		*ret_call = (struct call *)(void *)f;
		return ST_OK;
	}
	return ST_LIMIT_RATE;
}

void
call_cancel(struct call *call)
{
	struct fake_call *f = (struct fake_call *)(void *)call;

	if (f == NULL)
		return;
	free(f->body);
	*f = (struct fake_call){ 0 };
}

/* Enrollment. */

static inline void
world_enrolled(void *ctx)
{
	struct world *w = ctx;
	enroll_fn fn = w->enroll_fn;

	w->enroll_fn = NULL;
	if (fn != NULL)
		fn(w->enroll_ctx, ST_OK, 7);
}

enum status
enroll_begin(struct control *c, const struct enroll_wish *wish, enroll_fn fn, void *ctx)
{
	struct world *w = the_world();
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 64);
	addr_put(&b, wish->sources);
	(void)snprintf(w->from, sizeof w->from, "%.*s", (int)b.len, b.p);
	(void)snprintf(w->enrolled, sizeof w->enrolled, "%.*s", STR_ARG(wish->id));
	(void)snprintf(w->policy, sizeof w->policy, "%.*s", STR_ARG(wish->policy));
	(void)snprintf(w->user, sizeof w->user, "%.*s", STR_ARG(wish->user));
	(void)snprintf(w->narrow, sizeof w->narrow, "%.*s",
		       wish->narrow == NULL ? 4 : (int)wish->narrow->n,
		       wish->narrow == NULL ? "NULL" : wish->narrow->p);
	w->trusts_ca = wish->trusts_ca;
	w->enrolls++;
	w->enroll_fn = fn;
	w->enroll_ctx = ctx;
	loop_defer(c->loop, world_enrolled, w);
	return ST_OK;
}

enum status
enroll_narrow(struct control *c, struct str id, const struct str *narrow, enroll_fn fn,
	      void *ctx)
{
	struct world *w = the_world();

	assert_true(str_eq(id, str_from(w->enrolled)));
	(void)snprintf(w->narrow, sizeof w->narrow, "%.*s", STR_ARG(*narrow));
	w->enroll_fn = fn;
	w->enroll_ctx = ctx;
	loop_defer(c->loop, world_enrolled, w);
	return ST_OK;
}

enum status
enroll_end(struct control *c, struct str id, enroll_fn fn, void *ctx)
{
	struct world *w = the_world();

	(void)c;
	(void)fn;
	(void)ctx;
	assert_true(str_eq(id, str_from(w->enrolled)));
	w->enrolled[0] = '\0';
	w->ends++;
	return ST_OK;
}

void
enroll_forget(struct control *c, const void *ctx)
{
	(void)c;
	if (the_world()->enroll_ctx == ctx)
		the_world()->enroll_fn = NULL;
}

const struct who *
enroll_find(struct control *c, struct str id)
{
	struct world *w = the_world();

	(void)c;
	return id.n > 0 && str_eq(id, str_from(w->enrolled)) ? &w->who : NULL;
}

/* The servers. */

static inline struct fake_box *
fake_find(struct world *w, const char *server, const char *id, size_t n)
{
	for (size_t i = 0; i < w->boxes_n; i++)
		if (!w->boxes[i].is_gone && strcmp(w->boxes[i].server, server) == 0 &&
		    strlen(w->boxes[i].id) == n && memcmp(w->boxes[i].id, id, n) == 0)
			return &w->boxes[i];
	return NULL;
}

static inline json_t *
fake_json(const struct fake_box *b)
{
	return json_pack("{s:s, s:{s:s}, s:O?, s:s, s:s, s:O?}", "id", b->id, "status",
			 "state", b->state, "metadata",
			 json_object_get(b->request, "metadata"), "createdAt",
			 "2026-01-01T00:00:00Z", "expiresAt", "2099-01-01T00:00:00Z",
			 "entrypoint", json_object_get(b->request, "entrypoint"));
}

static inline uint16_t
fake_create(struct world *w, const struct fake_call *f, json_t **ret)
{
	struct fake_box *b = &w->boxes[w->boxes_n++];

	assert_true(w->boxes_n < BOXES);
	*b = (struct fake_box){ .request = json_loads(f->body, 0, NULL) };
	assert_non_null(b->request);
	(void)snprintf(b->id, sizeof b->id, "0f0e0d0c-0000-4000-8000-%012zu",
		       w->boxes_n);
	(void)snprintf(b->server, sizeof b->server, "%.15s", f->connector);
	(void)snprintf(b->state, sizeof b->state, "Running");
	free(w->last_body);
	w->last_body = strdup(f->body);
	*ret = fake_json(b);
	return 202;
}

static inline uint16_t
fake_list(struct world *w, const struct fake_call *f, json_t **ret)
{
	json_t *items = json_array();

	for (size_t i = 0; i < w->boxes_n; i++)
		if (!w->boxes[i].is_gone &&
		    strcmp(w->boxes[i].server, f->connector) == 0)
			(void)json_array_append_new(items, fake_json(&w->boxes[i]));
	*ret = json_pack("{s:o, s:{s:b}}", "items", items, "pagination", "hasNextPage",
			 0);
	return 200;
}

static inline uint16_t
fake_endpoint(struct world *w, const struct fake_box *b, const char *rest, json_t **ret)
{
	char text[128];

	(void)snprintf(text, sizeof text, "127.0.0.1:4%.4s/proxy/%s", b->id + 32,
		       rest + strlen("/endpoints/"));
	*ret = json_pack("{s:s, s:{s:s, s:s}}", "endpoint",
			 w->endpoint != NULL ? w->endpoint : text, "headers",
			 "X-EXECD-ACCESS-TOKEN", "s3cr3t", "Host", "evil.example.test");
	return 200;
}

static inline uint16_t
fake_move(struct fake_box *b, const char *from, const char *to, json_t **ret)
{
	if (strcmp(b->state, from) != 0) {
		*ret = json_pack("{s:s, s:s}", "code", "DOCKER::X", "message", b->id);
		return 409;
	}
	(void)snprintf(b->state, sizeof b->state, "%s", to);
	return 202;
}

static inline uint16_t
fake_box_do(struct world *w, const struct fake_call *f, struct fake_box *b,
	    const char *rest, json_t **ret)
{
	if (strcmp(rest, "") == 0 && strcmp(f->method, "DELETE") == 0) {
		b->is_gone = true;
		return 204;
	}
	if (strcmp(rest, "/pause") == 0)
		return fake_move(b, "Running", "Paused", ret);
	if (strcmp(rest, "/resume") == 0)
		return fake_move(b, "Paused", "Running", ret);
	if (strncmp(rest, "/endpoints/", 11) == 0)
		return fake_endpoint(w, b, rest, ret);
	if (strcmp(rest, "/renew-expiration") == 0) {
		*ret = json_loads(f->body, 0, NULL);
		return 200;
	}
	if (strcmp(rest, "/snapshots") == 0) {
		(void)snprintf(b->snapshot, sizeof b->snapshot, "snap-%.30s", b->id);
		*ret = json_pack("{s:s, s:s, s:{s:s}}", "id", b->snapshot, "sandboxId",
				 b->id, "status", "state", "Ready");
		return 202;
	}
	*ret = fake_json(b);
	return 200;
}

static inline uint16_t
fake_server(struct world *w, const struct fake_call *f, json_t **ret)
{
	static const char boxes[] = "/v1/sandboxes";
	const char *id = f->target + sizeof boxes, *end;
	struct fake_box *b;

	if (strncmp(f->target, "/v1/snapshots/", 14) == 0) {
		*ret = json_pack("{s:s, s:{s:s}}", "id", f->target + 14, "status",
				 "state", "Ready");
		return strcmp(f->method, "DELETE") == 0 ? 204 : 200;
	}
	if (strncmp(f->target, boxes, sizeof boxes - 1) != 0)
		return 501;
	if (f->target[sizeof boxes - 1] == '\0')
		return fake_create(w, f, ret);
	if (f->target[sizeof boxes - 1] == '?')
		return fake_list(w, f, ret);
	end = strchrnul(id, '/');
	b = fake_find(w, f->connector, id, (size_t)(end - id));
	if (b != NULL)
		return fake_box_do(w, f, b, end, ret);
	*ret = json_pack("{s:s, s:s}", "code", "DOCKER::SANDBOX_NOT_FOUND", "message",
			 id);
	return 404;
}

static inline enum status
fake_down(const struct world *w, const char *server)
{
	static const char *const names[] = { "one", "two", "strong" };

	for (size_t i = 0; i < COUNT_OF(names); i++)
		if (strcmp(names[i], server) == 0)
			return w->down[i];
	return ST_NOT_FOUND;
}

/* Answers one open call; false: there is none. */
static inline bool
world_serve(struct world *w)
{
	for (size_t i = 0; i < CALLS; i++) {
		struct fake_call f = w->calls[i];
		struct call_got got = { .type = STR("application/json") };
		json_t *said = NULL;
		char *text = NULL;

		if (!f.is_open)
			continue;
		w->calls[i] = (struct fake_call){ 0 };
		(void)snprintf(w->last, sizeof w->last, "%s %s %.400s", f.connector,
			       f.method, f.target);
		got.st = fake_down(w, f.connector);
		if (got.st == ST_OK && w->http != 0) {
			got.http = w->http;
			got.body = str_from(w->says);
		} else if (got.st == ST_OK) {
			got.http = fake_server(w, &f, &said);
			text = json_dumps(said, 0);
			got.body = str_from(text);
			if (strstr(f.target, "/diagnostics/inspect") != NULL)
				got.body = STR("State: running\nNetwork:\n"
					       "  sgx: 172.30.0.6\n  sg: 172.30.0.5\n");
		}
		json_decref(said);
		f.fn(f.ctx, &got);
		free(text);
		free(f.body);
		return true;
	}
	return false;
}

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
