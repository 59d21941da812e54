/*
 * Bytes that are a row have one spelling: what is read and put again is the same (of a
 * row of a version before: means the same).  And whatever a peer's text is, the row
 * that holds it can be put and read, and is JSON as Jansson reads it.
 */
#include <jansson.h>

#include "proxy/io/row.h"

enum { VERSION = 3 };

static void
round_trip(const struct row *r, struct row *ret_got, struct buf *b)
{
	struct str bytes;

	buf_init(b, ROW_MAX);
	row_put(b, r);
	need(buf_finish(b, &bytes) == ST_OK);
	need(row_get(bytes, ret_got) == ST_OK);
}

/* Jansson has limits of its own, which are not about broken text. */
static bool
is_beyond_jansson(const json_error_t *e)
{
	enum json_error_code code = json_error_code(e);

	return code == json_error_numeric_overflow ||
	       code == json_error_null_byte_in_key || code == json_error_stack_overflow;
}

static void
check_exec(struct str json, struct str exec)
{
	json_error_t e;
	json_t *row = json_loadb(json.p, json.n, JSON_ALLOW_NUL, &e);

	need(row != NULL || is_beyond_jansson(&e));
	const json_t *v = json_object_get(row, "exec");
	need(row == NULL || (exec.n > 0) == (v != NULL));
	need(v == NULL || json_is_object(v) || json_is_string(v));
	json_decref(row);
}

static void
check_json(const struct row *r)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	/* At worst each byte of a field becomes six. */
	buf_init(&b, (size_t)8 * ROW_MAX);
	row_put_json(&b, r);
	need(b.st == ST_OK && b.p[0] == '{' && b.p[b.len - 1] == '}');
	for (size_t i = 0; i < b.len; i++)
		need((unsigned char)b.p[i] >= 0x20 && (unsigned char)b.p[i] != 0x7f);
	check_exec(str_of(b.p, b.len), r->exec);
}

/* The input as the fields of a row, each a part of it. */
static void
check_text(struct str text)
{
	CLEANUP(buf_done) struct buf b = { 0 }, again = { 0 };
	struct row r = { .kind = ROW_DENY, .reason = ST_BAD_HOST, .turn = 7 }, got,
		   twice;
	size_t k = text.n / 4;

	r.host = str_head(text, k);
	r.path = str_skip(text, k);
	r.detail = text;
	r.sandbox = str_skip(text, 3 * k);
	r.exec = text;
	round_trip(&r, &got, &b);
	need(text.n > 1024 || (str_eq(got.path, r.path) && str_eq(got.detail, text)));
	check_json(&got);
	round_trip(&got, &twice, &again);
	need(b.len == again.len &&
	     str_eq(str_of(b.p, b.len), str_of(again.p, again.len)));
}

/* A field longer than any cap, filled with the input over and over. */
static void
check_long(struct str text)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, (size_t)4 * ROW_MAX);
	while (text.n > 0 && b.len < (size_t)3 * ROW_FIELD_MAX)
		buf_put(&b, text);
	check_text(str_of(b.p, b.len));
}

/* Numbers of one maker only rise, and none is given twice. */
static void
check_ids(struct str in)
{
	struct row_ids ids = { .slot = (uint8_t)in.n };
	uint64_t last = 0;

	for (size_t i = 0; i < in.n % 64 + 2; i++) {
		uint64_t id = row_next_id(&ids);
		need(id > last && (id >> 16 & 0xff) == ids.slot);
		last = id;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	CLEANUP(buf_done) struct buf again = { 0 };
	struct str in = str_of(data, size);
	struct row r, got;

	check_text(in);
	if (size > 0 && size % 32 == 0)
		check_long(in);
	check_ids(in);
	if (row_get(in, &r) != ST_OK)
		return 0;
	check_json(&r);
	round_trip(&r, &got, &b);
	if (in.p[0] != VERSION)
		round_trip(&got, &r, &again);
	need(str_eq(str_of(b.p, b.len),
		    again.len > 0 ? str_of(again.p, again.len) : in));
	return 0;
}
