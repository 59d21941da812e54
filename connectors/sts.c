/*
 * The answer of AssumeRole.  Of XML only what the service writes is read: elements with
 * at most a namespace, text without references, no comment, no CDATA, no document type;
 * anything else is no answer.  The four parts are taken from AssumeRoleResponse,
 * AssumeRoleResult, Credentials, each there exactly once.
 */
#include "connectors/token.h"

enum { DEPTH_MAX = 8, PARTS = 4 };

struct reader {
	struct str rest;
	struct str open[DEPTH_MAX]; /* names, outermost first */
	size_t depth;
	struct str part[PARTS];
};

static const struct str part_names[PARTS] = { { "AccessKeyId", 11 },
					      { "SecretAccessKey", 15 },
					      { "SessionToken", 12 },
					      { "Expiration", 10 } };
static const struct str path[] = { { "AssumeRoleResponse", 18 },
				   { "AssumeRoleResult", 16 },
				   { "Credentials", 11 } };

static bool
is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool
is_blank(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!is_space(s.p[i]))
			return false;
	return true;
}

static bool
is_name(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!ascii_is_alpha(s.p[i]) && !ascii_is_digit(s.p[i]))
			return false;
	return s.n > 0;
}

/* <?xml ...?> in front of everything. */
static void
skip_declaration(struct reader *r)
{
	struct str rest = r->rest;

	if (!str_starts(rest, STR("<?xml ")))
		return;
	(void)str_cut(&rest, '>');
	if (rest.p != NULL)
		r->rest = rest;
}

static bool
is_at_credentials(const struct reader *r)
{
	if (r->depth != COUNT_OF(path) + 1)
		return false;
	for (size_t i = 0; i < COUNT_OF(path); i++)
		if (!str_eq(r->open[i], path[i]))
			return false;
	return true;
}

/* The text in front of a closing tag. */
static bool
take_part(struct reader *r, struct str text)
{
	if (!is_at_credentials(r))
		return true;
	for (size_t i = 0; i < PARTS; i++) {
		if (!str_eq(r->open[r->depth - 1], part_names[i]))
			continue;
		if (r->part[i].p != NULL)
			return false;
		r->part[i] = text;
	}
	return true;
}

static bool
open_tag(struct reader *r, struct str tag)
{
	struct str attributes = tag, name = str_cut(&attributes, ' ');

	if (!is_name(name) || r->depth == DEPTH_MAX ||
	    (attributes.p != NULL && !str_starts(attributes, STR("xmlns=\""))))
		return false;
	r->open[r->depth++] = name;
	return true;
}

static bool
close_tag(struct reader *r, struct str name, struct str text)
{
	if (r->depth == 0 || !str_eq(name, r->open[r->depth - 1]) ||
	    !take_part(r, text))
		return false;
	r->depth--;
	return true;
}

/* One piece of text and the tag behind it. */
static bool
step(struct reader *r, bool *is_text)
{
	struct str text = str_cut(&r->rest, '<'), tag;
	bool is_close;

	if (r->rest.p == NULL || str_has(text, '&') || str_has(text, '>'))
		return false;
	tag = str_cut(&r->rest, '>');
	if (r->rest.p == NULL || str_has(tag, '<'))
		return false;
	is_close = str_starts(tag, STR("/"));
	/* Text stands only between an opening tag and its closing one. */
	if (!is_blank(text) && !(is_close && *is_text))
		return false;
	*is_text = !is_close;
	return is_close ? close_tag(r, str_skip(tag, 1), text) : open_tag(r, tag);
}

static bool
read_all(struct reader *r)
{
	bool is_text = false;

	skip_declaration(r);
	do {
		if (!step(r, &is_text))
			return false;
	} while (r->depth > 0);
	return is_blank(r->rest);
}

static bool
is_part(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~')
			return false;
	return s.n > 0 && s.n <= AUTH_VALUE_MAX;
}

enum status
token_parse_sts(struct str body, struct token_held *ret_t)
{
	struct reader r = { .rest = body };
	struct token_held t = { .expires_s = 0 };

	if (body.n > TOKEN_BODY_MAX || !read_all(&r) || !is_part(r.part[0]) ||
	    !is_part(r.part[1]) || !is_part(r.part[2]) ||
	    !token_parse_time(r.part[3], &t.expires_s))
		return ST_TOKEN_FAILED;
	cred_init(&t.text, r.part[0].n + r.part[1].n + r.part[2].n);
	for (size_t i = 0; i < 3; i++)
		cred_put(&t.text, r.part[i]);
	if (t.text.st != ST_OK) {
		cred_done(&t.text);
		return ST_NOMEM;
	}
	t.shown.id = str_of(t.text.p, r.part[0].n);
	t.shown.value = str_of(t.text.p + r.part[0].n, r.part[1].n);
	t.shown.session = str_of(t.text.p + r.part[0].n + r.part[1].n, r.part[2].n);
	*ret_t = t;
	return ST_OK;
}
