#include "proxy/http/head.h"

#include <string.h>

enum { FIRST_FIELDS = 24 };

struct token_row {
	struct str name;
	unsigned flags;
};

#define TOKEN(name, text, flags) [TOKEN_##name] = { { text, sizeof(text) - 1 }, flags },
static const struct token_row rows[TOKEN_COUNT] = {
#include "proxy/http/token.def"
};
#undef TOKEN

/* Characters of a token (RFC 9110 section 5.6.2), one bit each. */
static bool
is_tchar(char c)
{
	static const uint32_t bits[8] = { 0x00000000, 0x03ff6cfa, 0xc7fffffe,
					  0x57ffffff };
	unsigned char u = (unsigned char)c;

	return bits[u / 32] >> u % 32 & 1;
}

bool
is_http_token(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!is_tchar(s.p[i]))
			return false;
	return s.n > 0;
}

/* Visible, blank, or obs-text (RFC 9110 section 5.5). */
static bool
is_value(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

static char
fold(char c)
{
	if (c == '_' || c == '.')
		return '-';
	return ascii_lower(c);
}

/* Order of the table: length, then text; the name is folded. */
static int
compare(struct str name, struct str known)
{
	if (name.n != known.n)
		return name.n < known.n ? -1 : 1;
	for (size_t i = 0; i < name.n; i++) {
		char c = fold(name.p[i]);
		if (c != known.p[i])
			return c < known.p[i] ? -1 : 1;
	}
	return 0;
}

enum token
token_folded(struct str name)
{
	unsigned low = 1, high = TOKEN_COUNT;

	while (low < high) {
		unsigned mid = (low + high) / 2;
		int order = compare(name, rows[mid].name);
		if (order == 0)
			return (enum token)mid;
		if (order < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return TOKEN_NONE;
}

enum token
token_of(struct str name)
{
	enum token t = token_folded(name);

	return str_ieq(rows[t].name, name) ? t : TOKEN_NONE;
}

enum status
head_judge(struct str name, struct str value, enum token *ret_t)
{
	if (!is_http_token(name) || !is_value(value))
		return ST_BAD_HEADER;
	enum token t = token_folded(name);
	if (!str_ieq(rows[t].name, name)) {
		if (rows[t].flags & TOKEN_IS_FRAMING)
			return ST_BAD_HEADER;
		if (rows[t].flags & (TOKEN_IS_HOP | TOKEN_IS_CREDENTIAL))
			return ST_END;
		t = TOKEN_NONE;
	}
	*ret_t = t;
	return ST_OK;
}

unsigned
token_flags(enum token t)
{
	need(t < TOKEN_COUNT);
	return rows[t].flags;
}

const char *
token_name(enum token t)
{
	need(t < TOKEN_COUNT);
	return t == TOKEN_NONE ? "" : rows[t].name.p;
}

bool
method_is_safe(enum method m)
{
	return m == METHOD_GET || m == METHOD_HEAD || m == METHOD_OPTIONS;
}

enum method
method_of(struct str name)
{
	static const struct str names[] = {
		[METHOD_OTHER] = { "", 0 },
		[METHOD_GET] = { "GET", 3 },
		[METHOD_HEAD] = { "HEAD", 4 },
		[METHOD_POST] = { "POST", 4 },
		[METHOD_PUT] = { "PUT", 3 },
		[METHOD_DELETE] = { "DELETE", 6 },
		[METHOD_PATCH] = { "PATCH", 5 },
		[METHOD_OPTIONS] = { "OPTIONS", 7 },
		[METHOD_CONNECT] = { "CONNECT", 7 },
		[METHOD_TRACE] = { "TRACE", 5 },
		[METHOD_TRACK] = { "TRACK", 5 },
	};

	/* Methods that are refused are so in any case: not every server minds it. */
	for (size_t m = 1; m < COUNT_OF(names); m++)
		if (m < METHOD_TRACE ? str_eq(names[m], name) : str_ieq(names[m], name))
			return (enum method)m;
	return METHOD_OTHER;
}

void
head_init(struct head *h, struct arena *a)
{
	*h = (struct head){ .arena = a };
}

/* The old array stays in the arena: doubling wastes at most as much as is used. */
static bool
grow(struct head *h)
{
	size_t cap = h->fields_cap == 0 ? FIRST_FIELDS : h->fields_cap * 2;
	struct field *f = arena_alloc(h->arena, cap * sizeof *f);

	if (f == NULL)
		return false;
	if (h->fields_len > 0)
		memcpy(f, h->fields, h->fields_len * sizeof *f);
	h->fields = f;
	h->fields_cap = cap;
	return true;
}

enum status
head_add_view(struct head *h, enum token t, struct str name, struct str value)
{
	if (h->fields_len == h->fields_cap && !grow(h))
		return ST_NOMEM;
	h->fields[h->fields_len++] = (struct field){ name, value, t };
	return ST_OK;
}

enum status
head_add(struct head *h, struct str name, struct str value)
{
	struct str n = arena_copy(h->arena, name), v = arena_copy(h->arena, value);

	if (n.p == NULL || v.p == NULL)
		return ST_NOMEM;
	return head_add_view(h, token_of(n), n, v);
}

enum status
head_set(struct head *h, struct str name, struct str value)
{
	head_remove_name(h, name);
	return head_add(h, name, value);
}

const struct field *
head_get(const struct head *h, enum token t)
{
	for (size_t i = 0; i < h->fields_len; i++)
		if (h->fields[i].token == t)
			return &h->fields[i];
	return NULL;
}

const struct field *
head_find(const struct head *h, struct str name)
{
	for (size_t i = 0; i < h->fields_len; i++)
		if (str_ieq(h->fields[i].name, name))
			return &h->fields[i];
	return NULL;
}

size_t
head_count(const struct head *h, enum token t)
{
	size_t n = 0;

	for (size_t i = 0; i < h->fields_len; i++)
		n += h->fields[i].token == t;
	return n;
}

void
head_remove(struct head *h, enum token t)
{
	size_t kept = 0;

	need(t != TOKEN_NONE);
	for (size_t i = 0; i < h->fields_len; i++)
		if (h->fields[i].token != t)
			h->fields[kept++] = h->fields[i];
	h->fields_len = kept;
}

bool
head_same_name(struct str a, struct str b)
{
	if (a.n != b.n)
		return false;
	for (size_t i = 0; i < a.n; i++)
		if (fold(a.p[i]) != fold(b.p[i]))
			return false;
	return true;
}

void
head_remove_name(struct head *h, struct str name)
{
	size_t kept = 0;

	for (size_t i = 0; i < h->fields_len; i++)
		if (!head_same_name(h->fields[i].name, name))
			h->fields[kept++] = h->fields[i];
	h->fields_len = kept;
}

static bool
list_has(struct str list, struct str item)
{
	while (list.p != NULL)
		if (str_ieq(str_trim(str_cut(&list, ',')), item))
			return true;
	return false;
}

bool
head_lists(const struct head *h, enum token t, struct str item)
{
	for (size_t i = 0; i < h->fields_len; i++)
		if (h->fields[i].token == t && list_has(h->fields[i].value, item))
			return true;
	return false;
}

bool
head_nominates(const struct head *h, const struct field *f)
{
	unsigned fixed = TOKEN_IS_FRAMING | TOKEN_IS_CREDENTIAL | TOKEN_IS_ROUTING;

	return (token_flags(f->token) & fixed) == 0 &&
	       head_lists(h, TOKEN_CONNECTION, f->name);
}

static bool
is_proxy_name(struct str name)
{
	return name.n > 6 && compare(str_head(name, 6), STR("proxy-")) == 0;
}

bool
head_field_passes(const struct head *h, const struct field *f)
{
	if (f->token == TOKEN_HOST ||
	    (token_flags(f->token) & (TOKEN_IS_HOP | TOKEN_IS_FRAMING)))
		return false;
	return !is_proxy_name(f->name) && !head_nominates(h, f);
}

bool
head_trailer_passes(const struct head *h, const struct field *f)
{
	return token_flags(f->token) == 0 && head_field_passes(h, f);
}
