#include "proxy/control/brain_json.h"

#include <string.h>
#include <time.h>

#include "proxy/base/clock.h"
#include "proxy/base/enc.h"
#include "proxy/base/num.h"

enum {
	CHANCE = 8, /* a shorter id may be part of any text */
	DEPTH = 64,
	TEXT_MAX = 8 << 20,
	QUERY_MAX = 4096, /* of one name or value */
};

static bool
is_deep(const json_t *v, int left)
{
	const json_t *one;
	size_t i;

	if (left == 0)
		return true;
	json_array_foreach(v, i, one)
	{
		if (is_deep(one, left - 1))
			return true;
	}
	json_t *o = (json_t *)(uintptr_t)v; /* Jansson's iterator changes nothing */
	for (void *it = json_object_iter(o); it != NULL;
	     it = json_object_iter_next(o, it))
		if (is_deep(json_object_iter_value(it), left - 1))
			return true;
	return false;
}

json_t *
brain_json_object(struct str text)
{
	json_t *v = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, NULL);

	if (json_is_object(v) && !is_deep(v, DEPTH))
		return v;
	json_decref(v);
	return NULL;
}

struct str
brain_string(const json_t *v)
{
	return str_of(json_string_value(v), json_string_length(v));
}

struct str
brain_json_text(const json_t *object, const char *key)
{
	return brain_string(json_object_get(object, key));
}

enum status
brain_bad(struct buf *why, const char *text)
{
	buf_put(why, str_from(text));
	return ST_BAD_PARAMETER;
}

bool
brain_json_is_id(struct str id)
{
	if (id.n == 0 || id.n > BRAIN_UPSTREAM_MAX || str_eq(id, STR(".")) ||
	    str_eq(id, STR("..")))
		return false;
	for (size_t i = 0; i < id.n; i++) {
		char c = id.p[i];

		if (!ascii_is_alpha(c) && !ascii_is_digit(c) && c != '-' && c != '_' &&
		    c != '.')
			return false;
	}
	return true;
}

void
brain_text_rename(struct buf *b, struct str text, struct str from, struct str to)
{
	if (from.n < CHANCE) {
		buf_put(b, text);
		return;
	}
	while (text.n >= from.n) {
		const char *at = memmem(text.p, text.n, from.p, from.n);

		if (at == NULL)
			break;
		size_t n = (size_t)(at - text.p);
		buf_put(b, str_head(text, n));
		buf_put(b, to);
		text = str_skip(text, n + from.n);
	}
	buf_put(b, text);
}

static void
rename_text(json_t *v, struct str from, struct str to)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str text = str_of(json_string_value(v), json_string_length(v)), out;

	if (str_eq(text, from)) {
		(void)json_string_setn(v, to.p, to.n);
		return;
	}
	if (memmem(text.p, text.n, from.p, from.n) == NULL || from.n < CHANCE)
		return;
	buf_init(&b, TEXT_MAX);
	brain_text_rename(&b, text, from, to);
	if (buf_finish(&b, &out) == ST_OK)
		(void)json_string_setn(v, out.p, out.n);
}

/* Members in which a short id is one, and not some word. */
static bool
holds_id(const char *key)
{
	static const char *const names[] = { "id", "sandboxId", "sandbox_id",
					     "snapshotId", "snapshot_id" };

	for (size_t i = 0; i < COUNT_OF(names); i++)
		if (strcmp(key, names[i]) == 0)
			return true;
	return false;
}

void
brain_json_rename(json_t *v, struct str from, struct str to)
{
	const char *key;
	json_t *one;
	size_t i;

	if (from.n == 0)
		return;
	if (json_is_string(v) && from.n >= CHANCE)
		rename_text(v, from, to);
	json_array_foreach(v, i, one) brain_json_rename(one, from, to);
	json_object_foreach(v, key, one)
	{
		if (json_is_string(one) && holds_id(key))
			rename_text(one, from, to);
		else
			brain_json_rename(one, from, to);
	}
}

/* Times. */

static bool
digits(struct str *s, size_t n, uint64_t max, uint64_t *ret_v)
{
	if (s->n < n || !num_parse_u64(str_head(*s, n), max, ret_v))
		return false;
	*s = str_skip(*s, n);
	return true;
}

static bool
literal(struct str *s, char a, char b)
{
	if (s->n == 0 || (s->p[0] != a && s->p[0] != b))
		return false;
	*s = str_skip(*s, 1);
	return true;
}

/* "Z" or "+01:00"; seconds east. */
static bool
read_zone(struct str s, int64_t *ret_s)
{
	uint64_t h, m;
	bool west = str_starts(s, STR("-"));

	*ret_s = 0;
	if (literal(&s, 'Z', 'z'))
		return s.n == 0;
	if (!literal(&s, '+', '-') || !digits(&s, 2, 23, &h) ||
	    !literal(&s, ':', ':') || !digits(&s, 2, 59, &m) || s.n > 0)
		return false;
	*ret_s = (int64_t)(h * 3600 + m * 60) * (west ? -1 : 1);
	return true;
}

bool
brain_time_read(struct str text, uint64_t *ret_s)
{
	uint64_t year, month, day, hour, minute, second;
	bool has_part = false;
	int64_t zone;

	if (!digits(&text, 4, 9999, &year) || !literal(&text, '-', '-') ||
	    !digits(&text, 2, 12, &month) || !literal(&text, '-', '-') ||
	    !digits(&text, 2, 31, &day) || !literal(&text, 'T', 't') ||
	    !digits(&text, 2, 23, &hour) || !literal(&text, ':', ':') ||
	    !digits(&text, 2, 59, &minute) || !literal(&text, ':', ':') ||
	    !digits(&text, 2, 60, &second) || year < 1970 || month == 0 || day == 0)
		return false;
	if (literal(&text, '.', '.')) {
		if (text.n == 0 || !ascii_is_digit(text.p[0]))
			return false;
		for (; text.n > 0 && ascii_is_digit(text.p[0]);
		     text = str_skip(text, 1))
			has_part = has_part || text.p[0] != '0';
	}
	if (!read_zone(text, &zone))
		return false;
	struct tm tm = { .tm_year = (int)year - 1900,
			 .tm_mon = (int)month - 1,
			 .tm_mday = (int)day,
			 .tm_hour = (int)hour,
			 .tm_min = (int)minute,
			 .tm_sec = (int)second };
	int64_t s = (int64_t)timegm(&tm) - zone + has_part;
	if (s < 0)
		return false;
	*ret_s = (uint64_t)s;
	return true;
}

json_t *
brain_time_json(uint64_t s)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str text;

	buf_init(&b, 64);
	clock_put(&b, s * 1000000);
	if (buf_finish(&b, &text) != ST_OK)
		return NULL;
	return json_stringn(text.p, text.n);
}

/* Queries. */

static bool
decode(struct buf *b, struct str text)
{
	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];

		if (c == '\0')
			return false;
		if (c == '+') {
			buf_putc(b, ' ');
		} else if (c != '%') {
			buf_putc(b, c);
		} else {
			if (text.n - i < 3)
				return false;
			int high = enc_hex_digit(text.p[i + 1]);
			int low = enc_hex_digit(text.p[i + 2]);
			if (high < 0 || low < 0 || (high == 0 && low == 0))
				return false;
			buf_putc(b, (char)(high * 16 + low));
			i += 2;
		}
	}
	return b->st == ST_OK;
}

bool
brain_query_next(struct str *rest, struct buf *key, struct buf *value, bool *ret_bad)
{
	while (rest->p != NULL && rest->n > 0) {
		struct str pair = str_cut(rest, '&'), name;

		if (pair.n == 0)
			continue;
		name = str_cut(&pair, '=');
		buf_clear(key);
		buf_clear(value);
		if (decode(key, name) && decode(value, pair))
			return true;
		*ret_bad = true;
		return false;
	}
	return false;
}

bool
brain_query_each(struct str query, brain_query_fn fn, void *ctx)
{
	CLEANUP(buf_done) struct buf key = { 0 }, value = { 0 };
	bool is_bad = false;

	buf_init(&key, QUERY_MAX);
	buf_init(&value, QUERY_MAX);
	while (brain_query_next(&query, &key, &value, &is_bad))
		if (!fn(ctx, str_of(key.p, key.len), str_of(value.p, value.len)))
			return false;
	return !is_bad;
}
