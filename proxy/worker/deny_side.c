#include "proxy/worker/deny.h"

enum { TEXT_MAX = 20480, ARENA_MAX = 65536 };

static bool
put(struct side *front, struct head *h, struct str text, bool is_whole)
{
	struct side_msg m = { .head = h, .is_own = true, .is_whole = is_whole };

	h->has_length = true;
	h->length = text.n;
	h->body = is_whole ? BODY_NONE : BODY_LENGTH;
	side_put_head(front, &m);
	if (!is_whole) {
		side_put_body(front, text);
		side_put_end(front, h, NULL);
	}
	enum status st = side_flush(front);
	return st == ST_OK || st == ST_AGAIN;
}

void
deny_side(struct conn *c, struct side *front, struct exchange *x)
{
	CLEANUP(arena_done) struct arena arena = { 0 };
	CLEANUP(buf_done) struct buf body = { 0 };
	struct head h;
	struct str text;
	uint64_t id = deny_record(c, x);

	arena_init(&arena, ARENA_MAX);
	head_init(&h, &arena);
	buf_init(&body, TEXT_MAX);
	deny_put_json(&body, x->image, x, id);
	if (deny_head(&h, x->reason) == ST_OK && buf_finish(&body, &text) == ST_OK &&
	    put(front, &h, text, str_eq(x->method, STR("HEAD"))))
		side_done(front);
	else
		side_abort(front, ST_NOMEM);
}
