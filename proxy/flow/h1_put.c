#include "proxy/flow/h1_put.h"

#include "proxy/http/h1_write.h"

void
h1_put_fail(const struct h1_put *p, enum status st)
{
	if (p->out->st == ST_OK)
		p->out->st = st;
}

struct gather *
h1_put_to(const struct h1_put *p)
{
	gather_begin(p->gather, p->out);
	return p->gather;
}

void
h1_put_scratch(const struct h1_put *p)
{
	struct str text;

	if (buf_finish(p->scratch, &text) == ST_OK)
		gather_copy(h1_put_to(p), text);
	else
		h1_put_fail(p, ST_NOMEM);
}

static void
put_part(const struct h1_put *p, struct str s, void (*put)(struct gather *, struct str))
{
	if (s.n == 0)
		return;
	if (p->is_chunked) {
		buf_clear(p->scratch);
		h1_write_chunk_head(p->scratch, s.n);
		h1_put_scratch(p);
	}
	put(h1_put_to(p), s);
	if (p->is_chunked)
		gather_copy(h1_put_to(p), STR("\r\n"));
}

void
h1_put_body(const struct h1_put *p, struct str view)
{
	put_part(p, view, gather_view);
}

void
h1_put_copy(const struct h1_put *p, struct str bytes)
{
	put_part(p, bytes, gather_copy);
}

void
h1_put_end(const struct h1_put *p, const struct head *of, const struct head *trailers)
{
	if (!p->is_chunked)
		return;
	buf_clear(p->scratch);
	h1_write_last_chunk(p->scratch, of, trailers);
	h1_put_scratch(p);
}
