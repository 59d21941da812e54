/* exec_private: what passes of a request is read along with, for the ledger. */
#include "conf/exec.h"
#include "proxy/base/num.h"
#include "proxy/flow/exec_tap.h"
#include "proxy/flow/multipart_tap.h"
#include "proxy/flow/pty_tap.h"
#include "proxy/worker/exec_private.h"

struct exec_watch {
	bool has_parts, has_pty, has_events, has_bytes, is_over;
	bool is_unread; /* an upload whose type tells nothing */
	struct multipart_tap parts;
	const struct upload *judged; /* the last whose place was; NULL: none */
	struct pty_tap pty;
	struct exec_typed *typed; /* into it */
	struct exec_tap events;
	struct tally bytes;
};

static struct exec_watch *
watch_of(struct exec *e)
{
	if (e->watch == NULL)
		e->watch = arena_alloc(&e->t->arena, sizeof *e->watch);
	return e->watch;
}

static enum status
begin_parts(struct exec *e)
{
	const struct field *type = head_get(e->t->request, TOKEN_CONTENT_TYPE);
	struct exec_watch *w = watch_of(e);
	struct str value = type == NULL ? (struct str){ "", 0 } : type->value;
	enum status st = w == NULL ? ST_NOMEM : multipart_tap_init(&w->parts, value);

	if (w == NULL)
		return st;
	w->has_parts = st == ST_OK;
	w->is_unread = st == ST_BAD_HEADER; /* execd refuses it in its own words */
	return st == ST_BAD_HEADER ? ST_OK : st;
}

static void
typed(void *ctx, struct str octets)
{
	const struct exec_watch *w = ctx;

	exec_typed_put(w->typed, w->pty.is_tty, octets);
}

enum status
exec_watch_begin(struct exec *e)
{
	struct exec_watch *w = e->watch;
	enum status st = ST_OK;

	if (w != NULL) /* it is sent once more */
		return ST_OK;
	if (e->route.body == EXEC_BODY_PARTS)
		return begin_parts(e);
	if (e->route.op != EXEC_OP_PTY_ATTACH)
		return ST_OK;
	w = watch_of(e);
	st = w == NULL ? ST_NOMEM : pty_tap_init(&w->pty);
	if (st != ST_OK)
		return st;
	w->typed = exec_typed_new(e);
	w->has_pty = w->typed != NULL;
	w->pty.ctx = w;
	w->pty.typed = typed;
	return w->has_pty ? ST_OK : ST_NOMEM;
}

/* Without memory for a tap the answer goes on, and the row says less. */
void
exec_watch_answer(struct exec *e)
{
	struct exec_watch *w = watch_of(e);

	if (w == NULL || e->t->response->status >= 300)
		return;
	if (e->route.answer == EXEC_ANSWER_EVENTS)
		w->has_events = exec_tap_init(&w->events) == ST_OK;
	else if (e->route.answer == EXEC_ANSWER_BYTES && e->route.op != EXEC_OP_APP)
		w->has_bytes = tally_init(&w->bytes) == ST_OK;
}

/* exec.file_max is of each file, however many come in one request. */
static bool
is_too_big(const struct exec *e)
{
	uint64_t max = worker_option(e->t->c->w, OPT_EXEC_FILE_MAX);

	return max > 0 && e->watch->parts.largest > max;
}

/* What another reader might take for a place is none that was looked at. */
static bool
is_unread_upload(const struct exec_watch *w)
{
	return w->is_unread || w->parts.is_unreadable || w->parts.is_cut;
}

static void
set_why(struct exec *e, const struct risk_answer *a)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str why;

	buf_init(&b, 2048);
	risk_put_reason(&b, e->t->c->w->role.image, a);
	if (buf_finish(&b, &why) == ST_OK)
		why = arena_copy(&e->t->arena, why);
	else
		why = (struct str){ "", 0 };
	if (why.p != NULL)
		e->t->x.detail = why;
}

/* Where files are to go is known when they are on their way; execd puts none there before
 * all have come.  So what a person has to allow never comes whole. */
static enum status
judge_places(struct exec *e)
{
	const struct image *im = e->t->c->w->role.image;
	struct exec_watch *w = e->watch;
	const struct upload *u = w->judged != NULL ? w->judged->next : w->parts.first;

	if (!exec_needs_approval(im, RISK_HIGH))
		return ST_OK;
	for (; u != NULL && u->has_meta; u = u->next) {
		struct risk_question q = { .kind = RISK_WRITE, .text = u->path };
		struct risk_answer a;

		w->judged = u;
		risk_judge(im, &q, &a);
		if (!exec_needs_approval(im, a.level))
			continue;
		set_why(e, &a);
		return ST_UPLOAD_UNASKED;
	}
	enum risk_level level = (enum risk_level)image_number(im, OPT_RISK_UNREADABLE);
	return is_unread_upload(w) && exec_needs_approval(im, level) ? ST_UPLOAD_UNASKED
								     : ST_OK;
}

enum status
exec_watch_put(struct exec *e, bool is_response, struct str piece)
{
	struct exec_watch *w = e->watch;

	if (w == NULL || w->is_over || piece.n == 0)
		return ST_OK;
	if (w->has_pty && e->t->state == TURN_CARRY) {
		pty_tap_put(&w->pty, is_response ? PTY_SERVER : PTY_CLIENT, piece);
		return w->pty.sides[PTY_CLIENT].is_hidden ? ST_BAD_JSON
							  : exec_typed_status(w->typed);
	}
	if (w->has_parts && !is_response) {
		multipart_tap_put(&w->parts, piece);
		if (is_too_big(e))
			return ST_TOO_BIG;
	}
	if ((w->has_parts || w->is_unread) && !is_response) {
		enum status st = judge_places(e);
		if (st != ST_OK)
			return st;
	}
	if (w->has_events && is_response)
		exec_tap_put(&w->events, piece);
	if (w->has_bytes && is_response)
		tally_put(&w->bytes, piece);
	return ST_OK;
}

void
exec_watch_end(struct exec *e)
{
	struct exec_watch *w = e->watch;

	if (w == NULL || w->is_over)
		return;
	w->is_over = true;
	if (w->has_parts)
		multipart_tap_end(&w->parts);
	if (w->has_pty)
		exec_typed_end(w->typed);
	if (w->has_events)
		exec_tap_end(&w->events);
}

void
exec_watch_free(struct exec *e)
{
	struct exec_watch *w = e->watch;

	if (w == NULL)
		return;
	multipart_tap_done(&w->parts);
	pty_tap_done(&w->pty);
	exec_tap_done(&w->events);
	tally_done(&w->bytes);
	e->watch = NULL;
}

static void
note_tally(struct exec_note *n, const char *key, const struct tally *t)
{
	uint8_t hash[TALLY_HASH];

	if (t->octets > 0 && tally_sum(t, hash) == ST_OK)
		exec_note_stream(n, key, t->octets, hash);
}

static void
note_events(struct exec_note *n, const struct exec_tap *t)
{
	int64_t code;

	exec_note_text(n, "id", held_str(&t->id));
	if (exec_tap_exit(t, &code))
		exec_note_number(n, "exit", code);
	exec_note_text(n, "error", held_str(&t->ename));
	if (t->has_ms)
		exec_note_number(n, "ms", (int64_t)num_min(t->ms, INT64_MAX));
	note_tally(n, "stdout", &t->out[EXEC_STDOUT]);
	note_tally(n, "stderr", &t->out[EXEC_STDERR]);
	if (t->unreadable > 0)
		exec_note_number(n, "unreadable",
				 (int64_t)num_min(t->unreadable, INT64_MAX));
	if (!t->is_complete && !t->has_error)
		exec_note_text(n, "end", STR("not seen")); /* it may still run */
}

static void
note_parts(struct exec_note *n, const struct multipart_tap *t)
{
	exec_note_files_begin(n);
	for (const struct upload *u = t->first; u != NULL; u = u->next) {
		struct exec_file f = { .path = u->path,
				       .owner = u->owner,
				       .bytes = u->octets,
				       .hash = u->has_file ? u->hash : NULL,
				       .mode = u->has_mode ? u->mode : 0 };
		exec_note_file(n, &f);
	}
	exec_note_files_end(n);
	exec_note_number(n, "count", (int64_t)num_min(t->files, INT64_MAX));
	exec_note_number(n, "bytes", (int64_t)num_min(t->octets, INT64_MAX));
	if (t->is_unreadable || t->is_cut)
		exec_note_text(n, "unread", STR("not all of it was read"));
}

static void
note_pty(struct exec_note *n, const struct exec_watch *w)
{
	const struct pty_tap *t = &w->pty;

	note_tally(n, "stdin", &t->channels[PTY_STDIN]);
	note_tally(n, "stdout", &t->channels[PTY_STDOUT]);
	note_tally(n, "stderr", &t->channels[PTY_STDERR]);
	if (t->has_code)
		exec_note_number(n, "exit", t->code);
	if (t->sides[PTY_CLIENT].unreadable > 0 || t->sides[PTY_CLIENT].is_blind ||
	    t->sides[PTY_SERVER].is_blind)
		exec_note_text(n, "unread", STR("not all of it was read"));
	exec_typed_note(w->typed, n);
}

static void
note_bytes(struct exec_note *n, const struct tally *t)
{
	uint8_t hash[TALLY_HASH];

	exec_note_number(n, "bytes", (int64_t)num_min(t->octets, INT64_MAX));
	if (tally_sum(t, hash) == ST_OK)
		exec_note_hash(n, "sha256", hash);
}

void
exec_watch_note(struct exec *e, struct exec_note *n)
{
	const struct exec_watch *w = e->watch;

	if (w == NULL)
		return;
	if (w->has_events)
		note_events(n, &w->events);
	if (w->has_parts)
		note_parts(n, &w->parts);
	if (w->is_unread)
		exec_note_text(n, "unread", STR("an upload without a boundary"));
	if (w->has_pty)
		note_pty(n, w);
	if (w->has_bytes)
		note_bytes(n, &w->bytes);
}
