/*
 * What servers have is compared with what the store says, at the start and each minute:
 *
 *	a sandbox of ours that another hand paused, woke or lost   its row says so
 *	one that was being made when we ended                       is its row's
 *	one of ours that no row knows any more                      is ended there
 *	one of ours that another server's row names                 nothing is done: both
 *	                                                            stand on one docker
 *	one that is no sandbox of ours                              nothing is done
 *
 * Ours are those with this gateway's own label: servers may have other customers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/control/brain.h"
#include "proxy/control/brain_json.h"

enum { PAGE_ARENA = 4 << 20, PAGES = 100, PAGE_SIZE = 200, SEEN = PAGES * PAGE_SIZE };

struct brain_round { /* through one server's list */
	struct brain *brain;
	struct arena arena; /* of one page: of the server's list, or of rows */
	char server[STR_NAME_MAX + 1];
	struct call *call;
	uint64_t asked_s; /* when it began */
	unsigned page;
	struct map seen; /* upstream ids */
	struct buf last; /* the id of the last row of the page before */
	struct brain_sandboxes rows;
	size_t at; /* in rows: those that weren't seen are asked for */
	void (*got)(struct brain_round *r, const struct call_got *got);
};

static void
round_free(void *ctx)
{
	struct brain_round *r = ctx;

	map_done(&r->seen);
	buf_done(&r->last);
	arena_done(&r->arena);
	free(r);
}

static void
round_end(struct brain_round *r)
{
	struct brain *b = r->brain;

	(void)map_take(&b->rounds, str_from(r->server));
	call_cancel(r->call);
	r->call = NULL;
	loop_defer(b->control->loop, round_free, r);
}

void
brain_rounds_close(struct brain *b)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(&b->rounds, &at, &key, &value);) {
		struct brain_round *r = value;

		call_cancel(r->call);
		round_free(r);
	}
	map_done(&b->rounds);
}

static void
round_got(void *ctx, const struct call_got *got)
{
	struct brain_round *r = ctx;

	r->call = NULL;
	brain_server_told(r->brain, str_from(r->server), got);
	r->got(r, got);
}

static void
ask(struct brain_round *r, const char *method, struct str target,
    void (*got)(struct brain_round *r, const struct call_got *got))
{
	struct call_wish w = { .connector = str_from(r->server),
			       .method = str_from(method),
			       .target = target,
			       .deadline_ms = BRAIN_CALL_MS,
			       .answer_max = CALL_ANSWER_MAX };

	r->got = got;
	r->asked_s = brain_now_s();
	if (target.p == NULL ||
	    call_begin(r->brain->control, &w, round_got, r, &r->call) != ST_OK)
		round_end(r);
}

/* One that no row names. */

static void
ended(void *ctx, const struct call_got *got)
{
	struct brain *b = ctx;

	log_info(&b->control->role.log, "a sandbox that nobody owns was ended: %s",
		 got->st == ST_OK && got->http / 100 == 2 ? "ok" : "not yet");
}

static void
end_it(struct brain_round *r, struct str upstream)
{
	struct call_wish w = { .connector = str_from(r->server),
			       .method = STR("DELETE"),
			       .target = brain_target(&r->arena, upstream, ""),
			       .deadline_ms = BRAIN_CALL_MS,
			       .answer_max = CALL_ANSWER_MAX };
	struct call *open;

	/* It comes again with the next list. */
	if (w.target.p != NULL)
		(void)(call_begin(r->brain->control, &w, ended, r->brain, &open) ==
		       ST_OK);
}

/* Servers of several tiers on one docker list the sandboxes of each other. */
static bool
is_anothers(const struct brain_round *r, const struct brain_sandbox *box,
	    struct str upstream)
{
	return box->server.n > 0 && !str_eq(box->server, str_from(r->server)) &&
	       (box->upstream.n == 0 || str_eq(box->upstream, upstream));
}

/* By the label that it was given, since the answer to its create never came. */
static void
unknown(struct brain_round *r, struct str upstream, const json_t *said)
{
	const json_t *labels = json_object_get(said, "metadata");
	struct str id = brain_json_text(labels, "sandgate/id");
	struct brain_sandbox box;
	uint64_t expires_s = 0;

	if (!str_eq(brain_json_text(labels, "sandgate/gateway"),
		    str_from(r->brain->gateway)) ||
	    brain_job_runs(r->brain, id))
		return;
	if (!brain_time_read(brain_json_text(said, "expiresAt"), &expires_s))
		expires_s = 0;
	enum status st = brain_store_find_any(r->brain->store, id, &r->arena, &box);
	if (st == ST_OK && is_anothers(r, &box, upstream))
		return;
	if (st == ST_OK && box.state == BRAIN_PLACING && box.upstream.n == 0) {
		if (brain_store_made(r->brain->store, id, str_from(r->server), upstream,
				     brain_end_capped(r->brain, expires_s)) == ST_OK)
			return;
	}
	end_it(r, upstream);
}

static void
take_one(struct brain_round *r, const json_t *said)
{
	struct str upstream = brain_json_text(said, "id");
	struct brain_sandbox box;
	enum status st;

	/* Once: what a server says of it again is no news. */
	if (!brain_json_is_id(upstream) || r->seen.len >= SEEN ||
	    map_get(&r->seen, upstream) != NULL ||
	    map_put(&r->seen, upstream, r) != ST_OK)
		return;
	st = brain_store_by_upstream(r->brain->store, str_from(r->server), upstream,
				     &r->arena, &box);
	if (st == ST_NOT_FOUND)
		unknown(r, upstream, said);
	else if (st == ST_OK)
		(void)brain_view_hear(r->brain, &box, said, r->asked_s);
}

/* Rows whose sandbox wasn't in the list. */

static void next_row(struct brain_round *r);

static void
row_told(struct brain_round *r, const struct call_got *got)
{
	struct brain_sandbox *box = &r->rows.of[r->at++];

	if (got->st == ST_OK && got->http == 404 &&
	    !brain_job_runs(r->brain, box->id)) {
		if (brain_store_gone(r->brain->store, box->id, brain_now_s()) != ST_OK)
			log_error(&r->brain->control->role.log, "exec.db: a row stays");
		brain_forget(r->brain, box->id);
	}
	next_row(r);
}

static bool
is_unseen(const struct brain_round *r, const struct brain_sandbox *box)
{
	return str_eq(box->server, str_from(r->server)) &&
	       map_get(&r->seen, box->upstream) == NULL &&
	       !brain_job_runs(r->brain, box->id);
}

/* What the page before needed is not needed any more. */
static void
page_again(struct brain_round *r)
{
	r->rows = (struct brain_sandboxes){ 0 };
	arena_done(&r->arena);
	arena_init(&r->arena, PAGE_ARENA);
}

/* False: there are no more of them. */
static bool
next_page(struct brain_round *r)
{
	const unsigned states = BRAIN_BIT(BRAIN_RUNNING) | BRAIN_BIT(BRAIN_PAUSED);
	enum status st;

	if (r->rows.n > 0) {
		buf_clear(&r->last);
		buf_put(&r->last, r->rows.of[r->rows.n - 1].id);
	}
	page_again(r);
	r->at = 0;
	st = r->last.st;
	if (st == ST_OK)
		st = brain_store_walk(r->brain->store, states,
				      str_of(r->last.p, r->last.len), &r->arena,
				      &r->rows);
	return st == ST_OK && r->rows.n > 0;
}

static void
next_row(struct brain_round *r)
{
	do {
		for (; r->at < r->rows.n; r->at++) {
			struct str upstream = r->rows.of[r->at].upstream;

			if (!is_unseen(r, &r->rows.of[r->at]))
				continue;
			ask(r, "GET", brain_target(&r->arena, upstream, ""), row_told);
			return;
		}
	} while (next_page(r));
	round_end(r);
}

/* The list. */

static void ask_page(struct brain_round *r);

static void
page_told(struct brain_round *r, const struct call_got *got)
{
	json_t *said = NULL;
	const json_t *one;
	size_t i;

	if (!brain_got_object(got, &said)) {
		round_end(r);
		return;
	}
	/* More than was asked for is not read: those are asked for one by one. */
	json_array_foreach(json_object_get(said, "items"), i, one)
	{
		if (i < PAGE_SIZE)
			take_one(r, one);
	}
	bool has_more = json_is_true(
		json_object_get(json_object_get(said, "pagination"), "hasNextPage"));
	json_decref(said);
	if (has_more && ++r->page <= PAGES)
		ask_page(r);
	else if (has_more)
		round_end(r); /* not all was seen: nothing is known of the rest */
	else
		next_row(r);
}

static void
ask_page(struct brain_round *r)
{
	char target[96];

	page_again(r);
	(void)snprintf(target, sizeof target, "/v1/sandboxes?page=%u&pageSize=%d",
		       r->page, PAGE_SIZE);
	ask(r, "GET", arena_copy(&r->arena, str_from(target)), page_told);
}

static void
begin(struct brain *b, struct str server)
{
	struct brain_round *r;

	if (map_get(&b->rounds, server) != NULL)
		return;
	r = server.n > STR_NAME_MAX ? NULL : calloc(1, sizeof *r);
	if (r == NULL)
		return;
	r->brain = b;
	r->page = 1;
	arena_init(&r->arena, PAGE_ARENA);
	buf_init(&r->last, BRAIN_ID);
	map_init(&r->seen, SEEN);
	memcpy(r->server, server.p, server.n);
	if (map_put(&b->rounds, server, r) != ST_OK)
		round_free(r);
	else
		ask_page(r);
}

void
brain_reconcile(struct brain *b)
{
	const struct image *im = b->control->role.image;
	size_t n;
	const struct image_exec_server *s = image_exec_servers(im, &n);

	for (size_t i = 0; i < n; i++)
		begin(b, image_str(im, s[i].name));
}
