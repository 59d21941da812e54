/* Sandboxes that are kept ready. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/control/brain.h"
#include "proxy/control/brain_json.h"
#include "proxy/control/brain_label.h"

struct claimed { /* two calls behind the answer of who got it */
	struct brain *brain;
	struct arena arena;
	struct brain_sandbox box;
	uint64_t expires_s;
};

enum { CLAIMED_ARENA = 256 * 1024 };

static void
claimed_free(struct claimed *c)
{
	arena_done(&c->arena);
	free(c);
}

static void
renewed(void *ctx, const struct call_got *got)
{
	struct claimed *c = ctx;

	brain_server_told(c->brain, c->box.server, got);
	if (got->st != ST_OK || got->http / 100 != 2)
		log_error(
			&c->brain->control->role.log,
			"a warm sandbox on %.*s was given away, and its server didn't "
			"take its time",
			STR_ARG(c->box.server));
	claimed_free(c);
}

static enum status
call(struct claimed *c, const char *method, const char *rest, const json_t *body,
     call_fn fn)
{
	struct call_wish w = {
		.connector = c->box.server,
		.method = str_from(method),
		.target = brain_target(&c->arena, c->box.upstream, rest),
		.type = STR("application/json"),
		.body = brain_dump(&c->arena, body),
		.deadline_ms = BRAIN_CALL_MS,
		.answer_max = CALL_ANSWER_MAX,
	};
	struct call *open;

	if (w.target.p == NULL || w.body.p == NULL)
		return ST_NOMEM;
	return call_begin(c->brain->control, &w, fn, c, &open);
}

static void
labelled(void *ctx, const struct call_got *got)
{
	struct claimed *c = ctx;
	json_t *body = json_object();
	enum status st;

	brain_server_told(c->brain, c->box.server, got);
	(void)json_object_set_new(body, "expiresAt", brain_time_json(c->expires_s));
	st = call(c, "POST", "/renew-expiration", body, renewed);
	json_decref(body);
	if (st != ST_OK)
		claimed_free(c);
}

void
brain_warm_claimed(struct brain *b, const struct brain_sandbox *box, uint64_t timeout_s)
{
	struct claimed *c = calloc(1, sizeof *c);
	json_t *request, *labels;
	enum status st;

	if (c == NULL)
		return;
	c->brain = b;
	c->expires_s = brain_now_s() + timeout_s;
	arena_init(&c->arena, CLAIMED_ARENA);
	st = brain_store_find_any(b->store, box->id, &c->arena, &c->box);
	request = st == ST_OK ? brain_json_object(c->box.request) : NULL;
	labels = json_object_get(json_object_get(request, "body"), "metadata");
	if (labels != NULL)
		(void)json_object_set_new(labels, "sandgate/id",
					  json_stringn(box->id.p, box->id.n));
	if (st == ST_OK && labels != NULL)
		st = call(c, "PATCH", "/metadata", labels, labelled);
	json_decref(request);
	if (st != ST_OK || labels == NULL)
		claimed_free(c);
}

/* Made in the background: as many as the configuration says of each shape. */

enum { WARM_AT_ONCE = 2, WARM_PAUSE_MS = 10000, WARM_ARENA = 1 << 20 };

struct warming {           /* of one entry of exec.warm */
	size_t open;       /* creates under way */
	uint64_t until_ms; /* one has failed: not before this */
};

struct warm_make { /* one that is being made */
	struct brain *brain;
	struct arena arena;
	struct brain_sandbox box;
	char name[STR_NAME_MAX + 1]; /* of the entry */
	struct call *call;
	uint64_t since_ms;
};

void
brain_pool_close(struct brain *b)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(&b->warming, &at, &key, &value);)
		free(value);
	map_done(&b->warming);
}

static struct warming *
warming_of(struct brain *b, struct str name)
{
	struct warming *w = map_get(&b->warming, name);

	if (w != NULL)
		return w;
	w = calloc(1, sizeof *w);
	if (w == NULL || map_put(&b->warming, name, w) == ST_OK)
		return w;
	free(w);
	return NULL;
}

static void
make_free(struct warm_make *m)
{
	arena_done(&m->arena);
	free(m);
}

static void
make_end(struct warm_make *m, enum status st)
{
	struct brain *b = m->brain;
	struct warming *w = map_get(&b->warming, str_from(m->name));

	brain_making_end(b, m->box.id);
	if (w != NULL && w->open > 0)
		w->open--;
	if (st != ST_OK) {
		if (w != NULL)
			w->until_ms = loop_now_ms(b->control->loop) + WARM_PAUSE_MS;
		log_info(&b->control->role.log, "no warm sandbox for %s: %s", m->name,
			 status_code(st));
		st = brain_store_state(b->store, m->box.id, BRAIN_FAILED,
				       brain_now_s());
		if (st == ST_OK)
			st = brain_job(b, m->box.id, BRAIN_KILL, NULL);
		if (st != ST_OK)
			log_error(&b->control->role.log, "a warm row stays: %s",
				  status_code(st));
	}
	make_free(m);
}

static void
warm_told(void *ctx, const struct call_got *got)
{
	struct warm_make *m = ctx;
	struct brain *b = m->brain;
	json_t *said = NULL;
	enum status st = got->st == ST_OK ? ST_UPSTREAM_BAD : got->st;

	brain_server_told(b, m->box.server, got);
	if (brain_got_object(got, &said)) {
		struct str upstream =
			arena_copy(&m->arena, brain_json_text(said, "id"));
		uint64_t expires_s = 0;

		if (!brain_time_read(brain_json_text(said, "expiresAt"), &expires_s))
			expires_s = 0;
		if (brain_json_is_id(upstream))
			st = brain_store_made(b->store, m->box.id, m->box.server,
					      upstream, brain_end_capped(b, expires_s));
		json_decref(said);
	}
	if (st == ST_OK) {
		m->box.cost.create_ms = loop_now_ms(b->control->loop) - m->since_ms;
		brain_spend(b, BRAIN_SPENT_CREATE, m->box.cost.create_ms,
			    (struct brain_memory){ 0 });
		st = brain_store_cost(b->store, m->box.id, &m->box.cost);
	}
	make_end(m, st);
}

/* As a caller would write it: so it is read, and its shape is what a caller's has. */

static void
set_pairs(json_t *to, const char *key, const struct image *im, uint32_t first,
	  uint32_t n)
{
	json_t *o = n == 0 ? NULL : json_object();

	for (uint32_t i = 0; i + 1 < n; i += 2) {
		struct str name = image_word(im, first + i);
		struct str value = image_word(im, first + i + 1);

		(void)json_object_setn_new(o, name.p, name.n,
					   json_stringn(value.p, value.n));
	}
	if (o != NULL)
		(void)json_object_set_new(to, key, o);
}

static json_t *
warm_json(const struct image *im, const struct image_exec_warm *w)
{
	struct str uri = image_str(im, w->image);
	json_t *entry = json_array();
	json_t *to = json_pack("{s:{s:o}}", "image", "uri", json_stringn(uri.p, uri.n));

	for (uint32_t i = 0; i < w->entrypoint_n; i++) {
		struct str word = image_word(im, w->entrypoint + i);

		(void)json_array_append_new(entry, json_stringn(word.p, word.n));
	}
	if (w->entrypoint_n > 0)
		(void)json_object_set(to, "entrypoint", entry);
	json_decref(entry);
	set_pairs(to, "env", im, w->env, w->env_n);
	set_pairs(to, "resourceLimits", im, w->limits, w->limits_n);
	(void)json_object_set_new(to, "timeout", json_null()); /* as long as it may */
	return to;
}

static enum status
read_warm(struct brain *b, const struct image_exec_warm *w, struct arena *a,
	  struct request *r)
{
	CLEANUP(buf_done) struct buf why = { 0 };
	const struct image *im = b->control->role.image;
	json_t *wish = warm_json(im, w);
	struct str text = brain_dump(a, wish);
	enum status st = text.p == NULL ? ST_NOMEM : ST_OK;

	buf_init(&why, 512);
	if (st == ST_OK)
		st = request_read(im, text, r, &why);
	if (st != ST_OK)
		log_error(&b->control->role.log, "exec.warm %.*s: %.*s",
			  STR_ARG(image_str(im, w->name)), (int)why.len,
			  why.len > 0 ? why.p : "");
	json_decref(wish);
	return st;
}

/* {"body": ...} as brain_kept_request() writes it: of nobody yet. */
static struct str
warm_kept(struct brain *b, const struct image_exec_warm *w, struct arena *a,
	  const struct request *r)
{
	const struct image *im = b->control->role.image;
	json_t *labels = json_object(), *kept;
	struct str text = { NULL, 0 };

	if (brain_labels_forced(labels, im) &&
	    label_set(labels, "sandgate/warm", image_str(im, w->name)) &&
	    json_object_set(r->body, "metadata", labels) == 0) {
		kept = json_pack("{s:O}", "body", r->body);
		text = brain_dump(a, kept);
		json_decref(kept);
	}
	json_decref(labels);
	return text;
}

static enum status
make_begin(struct warm_make *m)
{
	struct brain *b = m->brain;
	json_t *body = brain_dress(b, &m->box);
	struct call_wish w = { .connector = m->box.server,
			       .method = STR("POST"),
			       .target = STR("/v1/sandboxes"),
			       .type = STR("application/json"),
			       .body = brain_dump(&m->arena, body),
			       .deadline_ms = BRAIN_CREATE_MS,
			       .answer_max = CALL_ANSWER_MAX };
	enum status st = body == NULL || w.body.p == NULL
				 ? ST_NOMEM
				 : brain_making_begin(b, m->box.id);

	json_decref(body);
	if (st == ST_OK)
		st = call_begin(b->control, &w, warm_told, m, &m->call);
	return st;
}

static enum status
make_one(struct brain *b, const struct brain_warm *warm, struct str name)
{
	struct warm_make *m = calloc(1, sizeof *m);
	enum status st;

	if (m == NULL)
		return ST_NOMEM;
	m->brain = b;
	m->since_ms = loop_now_ms(b->control->loop);
	memcpy(m->name, name.p, num_min(name.n, STR_NAME_MAX));
	arena_init(&m->arena, WARM_ARENA);
	st = brain_store_warm_add(b->store, warm, &m->arena, &m->box.id);
	if (st == ST_OK)
		st = brain_store_find_any(b->store, m->box.id, &m->arena, &m->box);
	if (st != ST_OK) {
		make_free(m);
		return st;
	}
	warming_of(b, name)->open++;
	st = make_begin(m);
	if (st != ST_OK)
		make_end(m, st);
	return st;
}

static enum status
fill(struct brain *b, const struct image_exec_warm *w, struct arena *a,
     const struct request *r)
{
	const struct image *im = b->control->role.image;
	struct warming *state = warming_of(b, image_str(im, w->name));
	struct str servers[BRAIN_SERVERS];
	size_t n = brain_servers(b, (enum exec_tier)w->tier, servers, BRAIN_SERVERS);
	struct brain_warm warm = { .tier = w->tier, .now_s = brain_now_s() };
	uint64_t there = 0;
	enum status st = state == NULL ? ST_NOMEM : ST_OK;

	if (st != ST_OK || n == 0)
		return st;
	warm.server = servers[0];
	warm.shape = brain_shape(b, a, r, servers, n);
	warm.request = warm_kept(b, w, a, r);
	warm.expires_s = warm.now_s + r->timeout_s;
	if (warm.shape.p == NULL || warm.request.p == NULL)
		return ST_NOMEM;
	st = brain_store_warm_count(b->store, warm.shape, w->tier, warm.now_s, &there);
	for (; st == ST_OK && there < w->size && state->open < WARM_AT_ONCE; there++)
		st = make_one(b, &warm, image_str(im, w->name));
	return st;
}

void
brain_pool(struct brain *b)
{
	const struct image *im = b->control->role.image;
	size_t n;
	const struct image_exec_warm *w = image_exec_warms(im, &n);
	uint64_t now = loop_now_ms(b->control->loop);

	for (size_t i = 0; i < n; i++) {
		struct warming *state = map_get(&b->warming, image_str(im, w[i].name));
		struct request r = { 0 };
		struct arena a;

		if (state != NULL &&
		    (state->open >= WARM_AT_ONCE || now < state->until_ms))
			continue;
		arena_init(&a, WARM_ARENA);
		enum status st = read_warm(b, &w[i], &a, &r);
		if (st == ST_OK)
			st = fill(b, &w[i], &a, &r);
		state = warming_of(b, image_str(im, w[i].name));
		if (st != ST_OK && state != NULL)
			state->until_ms = now + WARM_PAUSE_MS;
		request_done(&r);
		arena_done(&a);
	}
}
