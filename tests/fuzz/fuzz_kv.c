/*
 * Answers of a source of secrets: what is taken is whole (a token of visible ASCII, a value
 * without NUL, both of bounded length), blanks around it change nothing, and what is refused
 * leaves nothing.
 *
 * A login's body is one object of two texts, whatever they hold.
 *
 * Input: an octet that says what was asked, then the answer; or ROLE/SECRET; or statuses.
 */
#include <string.h>

#include "connectors/kv.h"

enum { NOW = 1767323045 };

static void
check_token(struct str body, enum status (*parse)(struct str, struct kv_token *))
{
	CLEANUP(cred_done) struct cred more = { 0 };
	struct kv_token t = { .lease_s = 42 }, again;
	enum status st = parse(body, &t);

	if (st != ST_OK) {
		need(st == ST_SOURCE_SILENT && t.text.p == NULL && t.lease_s == 42);
		return;
	}
	struct str token = t.text.p == NULL ? STR("") : cred_since(&t.text, 0);
	need((token.n > 0) == (parse == kv_parse_login) && token.n <= KV_TOKEN_MAX);
	for (size_t i = 0; i < token.n; i++)
		need(token.p[i] > ' ' && token.p[i] <= '~');
	need(t.lease_s <= KV_LEASE_MAX);
	cred_init(&more, body.n + 2);
	cred_put(&more, body);
	cred_put(&more, STR("\n "));
	need(parse(cred_since(&more, 0), &again) == ST_OK);
	need(again.lease_s == t.lease_s && again.is_renewable == t.is_renewable);
	kv_token_done(&again);
	kv_token_done(&t);
}

static bool
is_refusal(enum status st)
{
	return st == ST_SOURCE_SILENT || st == ST_SOURCE_BAD || st == ST_NO_SECRET;
}

/* The newest one pinned is the same one; any other pinned is none. */
static void
check_value(struct str body)
{
	struct kv_value v = { .version = 42 }, again = { .version = 0 };
	enum status st = kv_parse_value(body, STR("a"), 0, NOW, &v);

	if (st != ST_OK) {
		need(is_refusal(st) && v.text.p == NULL && v.version == 42);
		return;
	}
	struct str value = cred_since(&v.text, 0);
	need(value.n > 0 && value.n <= KV_VALUE_MAX && !str_has(value, '\0'));
	need(v.version > 0 && (v.expires_s == 0 || v.expires_s > NOW));
	need(kv_parse_value(body, STR("a"), v.version, NOW, &again) == ST_OK);
	need(str_eq(cred_since(&again.text, 0), value));
	kv_value_done(&again);
	need(v.version == UINT32_MAX ||
	     kv_parse_value(body, STR("a"), v.version + 1, NOW, &again) ==
		     ST_SOURCE_SILENT);
	kv_value_done(&v);
}

/* Whatever is shown, the body is one object of two texts, in one line. */
static void
check_login(struct str body)
{
	CLEANUP(cred_done) struct cred out = { 0 };
	struct str secret = body, role = str_cut(&secret, '/');
	size_t quotes = 0;

	if (secret.p == NULL)
		secret = STR("");
	cred_init(&out, 6 * body.n + 64);
	kv_put_login(&out, body.n % 2 == 0, role, secret);
	struct str made = cred_since(&out, 0);
	need(out.st == ST_OK && str_starts(made, STR("{\"role")));
	for (size_t i = 0; i < made.n; i++) {
		need((unsigned char)made.p[i] >= ' ');
		quotes += made.p[i] == '"';
	}
	need(quotes == 8);
}

static void
check_status(struct str body)
{
	for (size_t i = 0; i + 1 < body.n; i += 2) {
		uint16_t http = (uint16_t)((unsigned char)body.p[i] << 8 |
					   (unsigned char)body.p[i + 1]);
		need((kv_status(http) == ST_OK) == (http == 200));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0 || size > KV_BODY_MAX)
		return 0;
	struct str body = str_of(data + 1, size - 1);
	switch (data[0] % 5u) {
	case 0:
		check_token(body, kv_parse_login);
		break;
	case 1:
		check_token(body, kv_parse_self);
		break;
	case 2:
		check_value(body);
		break;
	case 3:
		check_login(body);
		break;
	default:
		check_status(body);
	}
	return 0;
}
