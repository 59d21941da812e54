#include "proxy/http/h1_line.h"

#include <string.h>

void
h1_line_init(struct h1_line *l, size_t limit)
{
	*l = (struct h1_line){ .limit = limit };
	buf_init(&l->part, limit);
}

void
h1_line_done(struct h1_line *l)
{
	buf_done(&l->part);
	l->is_given = false;
}

static enum status
check(struct str line, struct str *ret_line)
{
	if (line.n < 2 || line.p[line.n - 2] != '\r')
		return ST_BAD_REQUEST;
	line = str_head(line, line.n - 2);
	if (str_has(line, '\r') || str_has(line, '\0'))
		return ST_BAD_REQUEST;
	*ret_line = line;
	return ST_OK;
}

enum status
h1_line_take(struct h1_line *l, struct str *in, struct str *ret_line)
{
	const char *lf = in->n > 0 ? memchr(in->p, '\n', in->n) : NULL;
	struct str piece = str_head(*in, lf == NULL ? in->n : (size_t)(lf - in->p) + 1);

	if (l->is_given)
		buf_clear(&l->part);
	l->is_given = false;
	need(l->part.len <= l->limit);
	/* A line without its LF at the limit would be over it, so both ways agree. */
	if (piece.n > l->limit - l->part.len ||
	    (lf == NULL && piece.n == l->limit - l->part.len))
		return ST_TOO_BIG;
	*in = str_skip(*in, piece.n);
	if (lf != NULL && l->part.len == 0)
		return check(piece, ret_line);
	buf_put(&l->part, piece);
	if (l->part.st != ST_OK)
		return l->part.st;
	if (lf == NULL)
		return ST_AGAIN;
	l->is_given = true;
	return check(str_of(l->part.p, l->part.len), ret_line);
}

enum status
h1_line_field(struct str line, const struct h1_limits *lim, struct head *h)
{
	struct str value = line, name = str_cut(&value, ':');
	enum token t = TOKEN_NONE;

	/* A line that begins with a blank (obs-fold) fails here too: no blank in a
	 * token. */
	if (value.p == NULL)
		return ST_BAD_HEADER;
	enum status st = head_judge(name, value, &t);
	if (st != ST_OK && st != ST_END)
		return st;
	if (h->fields_len >= lim->fields)
		return ST_HEAD_TOO_LARGE;
	if (st == ST_END)
		return ST_OK;
	struct str copy = arena_copy(h->arena, line);
	if (copy.p == NULL)
		return ST_NOMEM;
	return head_add_view(h, t, str_head(copy, name.n),
			     str_trim(str_skip(copy, name.n + 1)));
}
