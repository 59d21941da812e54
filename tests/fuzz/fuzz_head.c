/*
 * A head is a list of fields: whatever is added, set and removed, it holds what a plain
 * array does, in the same order.  Nothing that belongs to one connection, frames a
 * message or is named by Connection goes on, and a credential or address never stays
 * behind because Connection names it.
 *
 * Input: steps of an operation, a name and the length of a value that follows.
 */
#include <string.h>

#include "proxy/http/head.h"

enum { FIELDS = 64, VALUE_MAX = 40 };

static const struct str names[] = {
	{ "Connection", 10 },
	{ "connection", 10 },
	{ "X-One", 5 },
	{ "x-ONE", 5 },
	{ "Authorization", 13 },
	{ "authorizatioN", 13 },
	{ "Host", 4 },
	{ "Content-Length", 14 },
	{ "TE", 2 },
	{ "Proxy-Thing", 11 },
	{ "Cookie", 6 },
	{ "Transfer-Encoding", 17 },
	{ "X-Two", 5 },
	{ "Keep-Alive", 10 },
	{ "Location", 8 },
	{ "Date", 4 },
	{ "a", 1 },
};

struct model {
	struct str name[FIELDS], value[FIELDS];
	size_t n;
};

static void
model_remove(struct model *m, struct str name)
{
	size_t kept = 0;

	for (size_t i = 0; i < m->n; i++) {
		if (str_ieq(m->name[i], name))
			continue;
		m->name[kept] = m->name[i];
		m->value[kept++] = m->value[i];
	}
	m->n = kept;
}

static void
step(struct head *h, struct model *m, uint8_t op, struct str name, struct str value)
{
	enum token t = token_of(name);

	if (op % 8 == 0 && t != TOKEN_NONE) {
		head_remove(h, t);
		model_remove(m, name);
	} else if (op % 8 == 1) {
		head_remove_name(h, name);
		model_remove(m, name);
	} else if (m->n < FIELDS) {
		bool is_set = op % 8 == 2;
		if (is_set)
			model_remove(m, name);
		need((is_set ? head_set(h, name, value) : head_add(h, name, value)) ==
		     ST_OK);
		m->name[m->n] = name;
		m->value[m->n++] = value;
	}
}

static void
need_same(const struct head *h, const struct model *m, struct str name)
{
	size_t count = 0, first = SIZE_MAX;
	enum token t = token_of(name);

	need(h->fields_len == m->n);
	for (size_t i = 0; i < m->n; i++) {
		need(str_eq(h->fields[i].name, m->name[i]));
		need(str_eq(h->fields[i].value, m->value[i]));
		if (!str_ieq(m->name[i], name))
			continue;
		first = count++ == 0 ? i : first;
	}
	const struct field *f = head_find(h, name);
	need(count == 0 ? f == NULL : f == &h->fields[first]);
	if (t != TOKEN_NONE) {
		need(head_get(h, t) == f && head_count(h, t) == count);
		need(str_ieq(str_from(token_name(t)), name));
	}
}

static void
need_kept_apart(const struct head *h)
{
	for (size_t i = 0; i < h->fields_len; i++) {
		const struct field *f = &h->fields[i];
		unsigned flags = token_flags(f->token);
		bool is_named = head_lists(h, TOKEN_CONNECTION, f->name);
		bool is_fixed = flags & (TOKEN_IS_CREDENTIAL | TOKEN_IS_ROUTING);
		bool passes = head_field_passes(h, f);

		need(!passes || !(flags & (TOKEN_IS_HOP | TOKEN_IS_FRAMING)));
		need(!passes || !is_named || is_fixed);
		need(passes || !is_fixed || f->token == TOKEN_HOST ||
		     flags & (TOKEN_IS_HOP | TOKEN_IS_FRAMING) ||
		     str_ieq(str_head(f->name, 6), STR("proxy-")));
		need(!head_trailer_passes(h, f) || (passes && flags == 0));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = str_of(data, size);
	struct model m = { .n = 0 };
	struct arena a;
	struct head h;

	need(is_http_token(in) ==
	     (size > 0 && is_http_token(str_head(in, size / 2 + 1)) &&
	      (size < 2 || is_http_token(str_skip(in, size / 2)))));
	(void)method_of(in);
	need(token_of(in) == TOKEN_NONE || token_folded(in) == token_of(in));
	arena_init(&a, 1 << 22);
	head_init(&h, &a);
	while (in.n >= 3) {
		uint8_t op = (uint8_t)in.p[0];
		struct str name = names[(uint8_t)in.p[1] % COUNT_OF(names)];
		size_t n = (uint8_t)in.p[2] % VALUE_MAX;
		struct str value = str_head(str_skip(in, 3), n);

		step(&h, &m, op, name, value);
		need_same(&h, &m, name);
		in = str_skip(in, 3 + value.n);
	}
	need_kept_apart(&h);
	arena_done(&a);
	return 0;
}
