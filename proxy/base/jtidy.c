#include "proxy/base/jtidy.h"

#include "proxy/base/jscan.h"

struct tidy {
	struct jscan scan;
	struct buf *out, text; /* text: of a name or string, as far as it came */
	bool is_next;          /* something stands before what comes, on its level */
	bool is_number;
};

static void
begin_item(struct tidy *t)
{
	if (t->is_next)
		buf_putc(t->out, ',');
	t->is_next = true;
}

static void
put_text(struct tidy *t)
{
	begin_item(t);
	if (t->is_number)
		buf_put(t->out, str_of(t->text.p, t->text.len));
	else
		buf_put_json(t->out, str_of(t->text.p, t->text.len));
	buf_clear(&t->text);
	t->is_number = false;
}

static void
open_one(struct tidy *t, char c)
{
	begin_item(t);
	buf_putc(t->out, c);
	t->is_next = false;
}

static void
shut_one(struct tidy *t, char c)
{
	buf_putc(t->out, c);
	t->is_next = true;
}

/* read: the input up to the literal's last letter. */
static void
put_literal(struct tidy *t, struct str read)
{
	static const char *const words[] = { "true", "false", "null" };

	begin_item(t);
	for (size_t i = 0; i < COUNT_OF(words); i++)
		if (str_ends(read, str_from(words[i])))
			buf_put(t->out, str_from(words[i]));
}

static void
put_name(struct tidy *t)
{
	put_text(t);
	buf_putc(t->out, ':');
	t->is_next = false;
}

static void
put_token(struct tidy *t, enum jscan_token token, struct str part, struct str read)
{
	switch (token) {
	case JSCAN_OBJECT:
	case JSCAN_ARRAY:
		open_one(t, token == JSCAN_ARRAY ? '[' : '{');
		break;
	case JSCAN_OBJECT_END:
	case JSCAN_ARRAY_END:
		shut_one(t, token == JSCAN_ARRAY_END ? ']' : '}');
		break;
	case JSCAN_KEY:
	case JSCAN_STRING:
	case JSCAN_NUMBER:
		t->is_number = token == JSCAN_NUMBER;
		buf_put(&t->text, part);
		break;
	case JSCAN_KEY_END:
		put_name(t);
		break;
	case JSCAN_TEXT_END:
		put_text(t);
		break;
	case JSCAN_LITERAL:
		put_literal(t, read);
		break;
	case JSCAN_AGAIN:
	case JSCAN_OVER:
	case JSCAN_BAD:
		break;
	}
}

static bool
is_blank(struct str s)
{
	while (s.n > 0 && jscan_is_space(s.p[0]))
		s = str_skip(s, 1);
	return s.n == 0;
}

static bool
put_all(struct tidy *t, struct str json)
{
	struct str in = json, part = { NULL, 0 };
	enum jscan_token token;
	bool is_first = true;

	while ((token = jscan_next(&t->scan, &in, &part)) != JSCAN_OVER) {
		if (token == JSCAN_AGAIN || token == JSCAN_BAD ||
		    (is_first && token != JSCAN_OBJECT))
			return false;
		is_first = false;
		put_token(t, token, part, str_head(json, json.n - in.n));
	}
	return is_blank(in) && t->text.st == ST_OK;
}

bool
jtidy_put_object(struct buf *b, struct str json)
{
	struct tidy t = { .out = b };
	size_t at = b->len;

	jscan_init(&t.scan);
	buf_init(&t.text, json.n + 1);
	bool ok = put_all(&t, json);
	buf_done(&t.text);
	if (!ok)
		b->len = at;
	return ok;
}
