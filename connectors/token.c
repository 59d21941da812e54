#include "connectors/token.h"

#include <jansson.h>
#include <openssl/crypto.h>
#include <time.h>

#include "proxy/base/num.h"

enum { EXPIRES_MAX = 366 * 86400, PART_MAX = AUTH_VALUE_MAX };

/* A part that will stand in a field or in a form: visible ASCII. */
static bool
is_part(struct str s)
{
	if (s.n == 0 || s.n > PART_MAX)
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~')
			return false;
	return true;
}

static struct str
text_of(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);

	return json_is_string(v) ? str_of(json_string_value(v), json_string_length(v))
				 : (struct str){ NULL, 0 };
}

/* Moves parts into memory of the token's own. */
static enum status
keep(struct token_held *t, struct str value, struct str refresh,
     struct token_held *ret_t)
{
	cred_init(&t->text, value.n + refresh.n);
	cred_put(&t->text, value);
	cred_put(&t->text, refresh);
	if (t->text.st != ST_OK) {
		cred_done(&t->text);
		return ST_NOMEM;
	}
	t->shown.value = str_of(t->text.p, value.n);
	t->refresh = str_of(t->text.p + value.n, refresh.n);
	*ret_t = *t;
	return ST_OK;
}

/* A number, or, as some services have it, its digits as text.  UINT64_MAX: not told. */
static bool
expires_in(const json_t *object, uint64_t *ret_s)
{
	const json_t *v = json_object_get(object, "expires_in");
	json_int_t n = json_is_integer(v) ? json_integer_value(v) : -1;

	if (v == NULL || json_is_null(v)) {
		*ret_s = UINT64_MAX;
		return true;
	}
	if (json_is_string(v))
		return num_parse_u64(text_of(object, "expires_in"), EXPIRES_MAX, ret_s);
	if (json_is_real(v) && json_real_value(v) >= 0 &&
	    json_real_value(v) <= EXPIRES_MAX)
		n = (json_int_t)json_real_value(v);
	if (n < 0 || n > EXPIRES_MAX)
		return false;
	*ret_s = (uint64_t)n;
	return true;
}

static enum status
read_oauth(const json_t *object, uint64_t now_s, struct token_held *ret_t)
{
	struct token_held t = { .expires_s = 0 };
	struct str value = text_of(object, "access_token"),
		   type = text_of(object, "token_type"),
		   refresh = text_of(object, "refresh_token");
	uint64_t seconds;

	/* A type that we don't know how to show must not be shown: RFC 6749 section
	 * 7.1. */
	if (!is_part(value) || (type.p != NULL && !str_ieq(type, STR("bearer"))) ||
	    (refresh.n > 0 && !is_part(refresh)) || !expires_in(object, &seconds))
		return ST_TOKEN_FAILED;
	if (seconds != UINT64_MAX)
		t.expires_s = now_s + seconds;
	return keep(&t, value, refresh, ret_t);
}

static enum status
read_github(const json_t *object, struct token_held *ret_t)
{
	struct token_held t = { .expires_s = 0 };
	struct str value = text_of(object, "token");

	if (!is_part(value) ||
	    !token_parse_time(text_of(object, "expires_at"), &t.expires_s))
		return ST_TOKEN_FAILED;
	return keep(&t, value, STR(""), ret_t);
}

static json_t *
load(struct str body)
{
	json_t *object;

	if (body.n > TOKEN_BODY_MAX)
		return NULL;
	object = json_loadb(body.p, body.n, JSON_REJECT_DUPLICATES, NULL);
	if (object != NULL && !json_is_object(object)) {
		json_decref(object);
		return NULL;
	}
	return object;
}

enum status
token_parse_oauth(struct str body, uint64_t now_s, struct token_held *ret_t)
{
	json_t *object = load(body);
	enum status st =
		object == NULL ? ST_TOKEN_FAILED : read_oauth(object, now_s, ret_t);

	json_decref(object);
	return st;
}

enum status
token_parse_github(struct str body, struct token_held *ret_t)
{
	json_t *object = load(body);
	enum status st = object == NULL ? ST_TOKEN_FAILED : read_github(object, ret_t);

	json_decref(object);
	return st;
}

/* Digits of text at a place, then the octet that must follow them. */
static bool
take(struct str *s, size_t digits, char then, uint64_t max, int *ret_v)
{
	uint64_t v;

	if (s->n < digits + 1 || s->p[digits] != then ||
	    !num_parse_u64(str_head(*s, digits), max, &v))
		return false;
	*s = str_skip(*s, digits + 1);
	*ret_v = (int)v;
	return true;
}

static bool
take_fraction(struct str *s)
{
	size_t n = 0;

	while (n < s->n && ascii_is_digit(s->p[n]))
		n++;
	*s = str_skip(*s, n);
	return n > 0 && n <= 9 && str_eq(*s, STR("Z"));
}

bool
token_parse_time(struct str s, uint64_t *ret_s)
{
	struct tm tm = { 0 };
	time_t t;

	if (!take(&s, 4, '-', 9999, &tm.tm_year) || !take(&s, 2, '-', 12, &tm.tm_mon) ||
	    !take(&s, 2, 'T', 31, &tm.tm_mday) || !take(&s, 2, ':', 23, &tm.tm_hour) ||
	    !take(&s, 2, ':', 59, &tm.tm_min))
		return false;
	if (s.n > 2 && s.p[2] == '.') {
		if (!take(&s, 2, '.', 60, &tm.tm_sec) || !take_fraction(&s))
			return false;
	} else if (!take(&s, 2, 'Z', 60, &tm.tm_sec) || s.n > 0) {
		return false;
	}
	if (tm.tm_year < 1970 || tm.tm_mon < 1 || tm.tm_mday < 1)
		return false;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	t = timegm(&tm);
	if (t < 0)
		return false;
	*ret_s = (uint64_t)t;
	return true;
}

bool
token_is_fresh(const struct token_held *t, uint64_t now_s, uint64_t skew_s)
{
	if (t->shown.value.n == 0)
		return false;
	return t->expires_s == 0 ||
	       (now_s < t->expires_s && t->expires_s - now_s > skew_s);
}

void
token_done(struct token_held *t)
{
	cred_done(&t->text);
	*t = (struct token_held){ .expires_s = 0 };
}

void
token_forget_refresh(struct token_held *t)
{
	if (t->refresh.n > 0)
		OPENSSL_cleanse(t->text.p + (t->refresh.p - t->text.p), t->refresh.n);
	t->refresh = STR("");
}
