/* Time that use gives: a sandbox that is used in the last quarter of its time gets, from then
 * on, as much again as was asked for when it was made.  What was asked for is never over
 * exec.max_timeout, so nor is what is given.
 *
 * Its server is told first: it ends what nobody renewed, whatever we think of it. */
#include <stdlib.h>
#include <string.h>

#include "proxy/control/brain.h"
#include "proxy/control/brain_json.h"

enum {
	LAST_PART = 4,      /* this part of its time is the last one */
	RENEW_AGAIN_S = 10, /* a server that doesn't is asked again after this */
	RENEW_ARENA = 1 << 20,
	RENEW_AT_ONCE = 64, /* looked at in one walk */
};

struct brain_span { /* of one sandbox that is used, or was lately */
	struct brain *brain;
	struct call *call; /* NULL: its server isn't being asked */
	uint64_t look_s;   /* nothing is to be done before this */
	uint64_t until_s;  /* what its server is asked for */
	char id[BRAIN_ID + 1];
	char server[STR_NAME_MAX + 1];
};

static void
span_free(struct brain_span *s)
{
	call_cancel(s->call);
	free(s);
}

void
brain_spans_close(struct brain *b)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(&b->spans, &at, &key, &value);)
		span_free(value);
	map_done(&b->spans);
}

void
brain_span_forget(struct brain *b, struct str id)
{
	struct brain_span *s = map_take(&b->spans, id);

	if (s != NULL)
		span_free(s);
}

static struct brain_span *
span_of(struct brain *b, struct str id)
{
	struct brain_span *s = map_get(&b->spans, id);

	if (s != NULL || id.n != BRAIN_ID)
		return s;
	s = calloc(1, sizeof *s);
	if (s == NULL)
		return NULL;
	s->brain = b;
	memcpy(s->id, id.p, id.n);
	if (map_put(&b->spans, id, s) == ST_OK)
		return s;
	free(s);
	return NULL;
}

/* What was asked for when it was made; a configuration of now may allow less. */
static uint64_t
time_of(const struct brain *b, const struct brain_sandbox *box)
{
	const struct image *im = b->control->role.image;
	uint64_t max = image_number(im, OPT_EXEC_MAX_TIMEOUT) / 1000;
	json_t *request = brain_json_object(box->request);
	json_int_t n = json_integer_value(
		json_object_get(json_object_get(request, "body"), "timeout"));

	json_decref(request);
	return n <= 0 || (uint64_t)n > max ? max : (uint64_t)n;
}

/* It was renewed by its owner meanwhile, perhaps for longer.  ST_CONFLICT: what its server
 * gives is no more than there was. */
static enum status
keep(struct brain_span *s, uint64_t expires_s)
{
	CLEANUP(arena_done) struct arena a = { 0 };
	struct brain *b = s->brain;
	struct brain_sandbox box;
	enum status st;

	arena_init(&a, RENEW_ARENA);
	st = brain_store_find_any(b->store, str_from(s->id), &a, &box);
	if (st != ST_OK)
		return st;
	if (expires_s <= box.expires_s)
		return box.expires_s < s->until_s ? ST_CONFLICT : ST_OK;
	return brain_store_expires(b->store, box.id, expires_s);
}

static void
renewed(void *ctx, const struct call_got *got)
{
	struct brain_span *s = ctx;
	struct log *log = &s->brain->control->role.log;
	json_t *said = NULL;
	uint64_t expires_s = 0;
	enum status st = ST_UPSTREAM_BAD;

	s->call = NULL;
	brain_server_told(s->brain, str_from(s->server), got);
	/* A server may give less than what was asked for. */
	if (brain_got_object(got, &said) &&
	    brain_time_read(brain_json_text(said, "expiresAt"), &expires_s))
		st = keep(s, num_min(expires_s, s->until_s));
	json_decref(said);
	s->look_s = st == ST_OK ? 0 : brain_now_s() + RENEW_AGAIN_S;
	if (st != ST_OK)
		log_error(log, "%s is used and was not renewed: %s", s->id,
			  status_code(got->st != ST_OK ? got->st : st));
}

static enum status
ask(struct brain_span *s, const struct brain_sandbox *box, struct arena *a)
{
	json_t *body = json_object();
	struct call_wish w = {
		.connector = box->server,
		.method = STR("POST"),
		.target = brain_target(a, box->upstream, "/renew-expiration"),
		.type = STR("application/json"),
		.deadline_ms = BRAIN_CALL_MS,
		.answer_max = CALL_ANSWER_MAX,
	};

	(void)json_object_set_new(body, "expiresAt", brain_time_json(s->until_s));
	w.body = brain_dump(a, body);
	json_decref(body);
	if (w.target.p == NULL || w.body.p == NULL || box->server.n >= sizeof s->server)
		return ST_NOMEM;
	memcpy(s->server, box->server.p, box->server.n);
	s->server[box->server.n] = '\0';
	return call_begin(s->brain->control, &w, renewed, s, &s->call);
}

static void
look(struct brain_span *s, const struct brain_sandbox *box, struct arena *a)
{
	uint64_t now = brain_now_s(), time_s = time_of(s->brain, box);
	uint64_t last_s = time_s / LAST_PART;

	s->look_s = now + RENEW_AGAIN_S;
	if (box->expires_s == 0)
		return; /* for ever, as far as we know */
	if (box->expires_s > now + last_s) {
		s->look_s = box->expires_s - last_s;
		return;
	}
	s->until_s = now + time_s;
	/* A job may be ending it, or putting it to sleep. */
	if (box->state == BRAIN_RUNNING && box->upstream.n > 0 &&
	    !brain_job_runs(s->brain, box->id) && ask(s, box, a) != ST_OK)
		log_error(&s->brain->control->role.log, "%s isn't renewed", s->id);
}

void
brain_used(struct brain *b, const struct brain_sandbox *box)
{
	CLEANUP(arena_done) struct arena a = { 0 };
	struct brain_span *s = span_of(b, box->id);

	if (s == NULL || s->call != NULL || brain_now_s() < s->look_s)
		return;
	arena_init(&a, RENEW_ARENA);
	look(s, box, &a);
}

/* What is used for long, by one request. */
static void
look_again(struct brain *b, struct str id)
{
	CLEANUP(arena_done) struct arena a = { 0 };
	struct brain_sandbox box;

	arena_init(&a, RENEW_ARENA);
	if (brain_busy(b, id) == 0 ||
	    brain_store_find_any(b->store, id, &a, &box) != ST_OK)
		brain_span_forget(b, id);
	else
		brain_used(b, &box);
}

void
brain_spans_look(struct brain *b)
{
	char ids[RENEW_AT_ONCE][BRAIN_ID];
	uint64_t now = brain_now_s();
	struct str key;
	void *value;
	size_t n = 0;

	for (size_t at = 0;
	     n < RENEW_AT_ONCE && map_next(&b->spans, &at, &key, &value);) {
		const struct brain_span *s = value;

		if (s->call == NULL && s->look_s <= now)
			memcpy(ids[n++], s->id, BRAIN_ID);
	}
	for (size_t i = 0; i < n; i++)
		look_again(b, str_of(ids[i], BRAIN_ID));
}
