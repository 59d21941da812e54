/*
 * Answers of token services: what is taken is whole (visible ASCII, in memory of the
 * token's own), blanks around it change nothing, and what is refused leaves nothing.
 *
 * Input: an octet that says whose answer it is, then the answer.
 */
#include <string.h>

#include "connectors/token.h"

static enum status
parse(unsigned which, struct str body, struct token_held *ret_t)
{
	if (which == 0)
		return token_parse_oauth(body, 1000, ret_t);
	return which == 1 ? token_parse_github(body, ret_t)
			  : token_parse_sts(body, ret_t);
}

static void
is_visible(const struct token_held *t, struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		need(s.p[i] > ' ' && s.p[i] <= '~');
	need(s.n == 0 || (s.p >= t->text.p && s.p + s.n <= t->text.p + t->text.len));
}

static bool
is_same(const struct token_held *a, const struct token_held *b)
{
	return str_eq(a->shown.value, b->shown.value) &&
	       str_eq(a->shown.id, b->shown.id) &&
	       str_eq(a->shown.session, b->shown.session) &&
	       str_eq(a->refresh, b->refresh) && a->expires_s == b->expires_s;
}

static void
blanks_change_nothing(unsigned which, struct str body, const struct token_held *t)
{
	CLEANUP(cred_done) struct cred more = { 0 };
	struct token_held again = { .expires_s = 0 };

	cred_init(&more, body.n + 2);
	cred_put(&more, body);
	cred_put(&more, STR("\n "));
	need(parse(which, cred_since(&more, 0), &again) == ST_OK);
	need(is_same(t, &again));
	token_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct token_held t = { .expires_s = 42 };
	struct str body;
	unsigned which;

	if (size == 0 || size > TOKEN_BODY_MAX)
		return 0;
	which = data[0] % 3u;
	body = str_of(data + 1, size - 1);
	enum status st = parse(which, body, &t);
	if (st != ST_OK) {
		need(st == ST_TOKEN_FAILED && t.text.p == NULL && t.expires_s == 42);
		return 0;
	}
	need(t.shown.value.n > 0 && t.shown.value.n <= AUTH_VALUE_MAX);
	is_visible(&t, t.shown.value);
	is_visible(&t, t.shown.id);
	is_visible(&t, t.shown.session);
	is_visible(&t, t.refresh);
	need(which != 2 || (t.shown.id.n > 0 && t.shown.session.n > 0));
	need(t.expires_s == 0 || token_is_fresh(&t, t.expires_s - 1, 0));
	need(!token_is_fresh(&t, UINT64_MAX, 0) || t.expires_s == 0);
	blanks_change_nothing(which, body, &t);
	token_done(&t);
	return 0;
}
