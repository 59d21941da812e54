/*
 * A JSON text is read the same however it is cut, and as Jansson reads it: what one takes
 * the other takes, with the same structure, names and strings.  Where they are meant to
 * differ (halves of surrogate pairs, numbers out of range, equal names, NUL in names,
 * depth) only the cuts are compared.
 *
 * Input: an octet for the size of pieces, then the text.
 */
#include <jansson.h>
#include <string.h>

#include "proxy/base/buf.h"
#include "proxy/base/jscan.h"

enum { DEEP = JSCAN_DEPTH };

static void
put_token(struct buf *b, enum jscan_token t, struct str text, bool *is_number)
{
	static const char words[] = {
		[JSCAN_OBJECT] = '{',  [JSCAN_OBJECT_END] = '}',
		[JSCAN_ARRAY] = '[',   [JSCAN_ARRAY_END] = ']',
		[JSCAN_KEY_END] = ':', [JSCAN_TEXT_END] = ';',
		[JSCAN_LITERAL] = '!', [JSCAN_OVER] = '.',
		[JSCAN_BAD] = '?',
	};

	if (t == JSCAN_KEY || t == JSCAN_STRING) {
		buf_put(b, text);
	} else if (t == JSCAN_NUMBER) {
		*is_number = true;
	} else if (t != JSCAN_AGAIN) {
		if (t == JSCAN_TEXT_END && *is_number)
			buf_putc(b, '#');
		*is_number = false;
		buf_putc(b, words[t]);
	}
}

/* Is it one text, with nothing but white space behind? */
static bool
read_in(struct buf *b, struct str in, size_t piece)
{
	enum jscan_token t = JSCAN_AGAIN;
	bool is_number = false;
	struct jscan j;

	buf_init(b, 1 << 24);
	jscan_init(&j);
	while (t != JSCAN_OVER && t != JSCAN_BAD && (t != JSCAN_AGAIN || in.n > 0)) {
		struct str cut = str_head(in, piece), text = { NULL, 0 };
		size_t n = cut.n;
		t = jscan_next(&j, &cut, &text);
		need(j.depth <= DEEP && cut.n <= n);
		put_token(b, t, text, &is_number);
		in = str_skip(in, n - cut.n);
	}
	while (in.n > 0 && jscan_is_space(in.p[0]))
		in = str_skip(in, 1);
	return t == JSCAN_OVER && in.n == 0;
}

static void put_model(struct buf *b, const json_t *v);

static void
put_object(struct buf *b, const json_t *v)
{
	json_t *object = json_copy((json_t *)(uintptr_t)v), *value;
	const char *key;

	buf_putc(b, '{');
	json_object_foreach(object, key, value)
	{
		buf_put(b, str_from(key));
		buf_putc(b, ':');
		put_model(b, value);
	}
	buf_putc(b, '}');
	json_decref(object);
}

static void
put_model(struct buf *b, const json_t *v)
{
	if (json_is_object(v)) {
		put_object(b, v);
	} else if (json_is_array(v)) {
		buf_putc(b, '[');
		for (size_t i = 0; i < json_array_size(v); i++)
			put_model(b, json_array_get(v, i));
		buf_putc(b, ']');
	} else if (json_is_string(v)) {
		buf_put(b, str_of(json_string_value(v), json_string_length(v)));
		buf_putc(b, ';');
	} else {
		buf_put(b, json_is_number(v) ? STR("#;") : STR("!"));
	}
}

/* May Jansson refuse this although it is JSON? */
static bool
is_meant_to_differ(struct str in, const json_error_t *e)
{
	enum json_error_code code = json_error_code(e);

	return code == json_error_numeric_overflow ||
	       code == json_error_duplicate_key ||
	       code == json_error_null_byte_in_key ||
	       code == json_error_stack_overflow ||
	       memmem(in.p, in.n, "\\ud", 3) != NULL ||
	       memmem(in.p, in.n, "\\uD", 3) != NULL;
}

static void
need_as_model(struct str in, bool is_taken, struct str read)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	json_error_t e;
	json_t *v = json_loadb(
		in.p, in.n, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES,
		&e);

	if (v == NULL) {
		need(!is_taken || is_meant_to_differ(in, &e));
		return;
	}
	if (is_taken) {
		buf_init(&b, 1 << 24);
		put_model(&b, v);
		buf_putc(&b, '.');
		need(b.st == ST_OK && str_eq(read, str_of(b.p, b.len)));
	}
	/* Jansson nests deeper. */
	need(is_taken || in.n > DEEP);
	json_decref(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(buf_done) struct buf whole = { 0 };
	CLEANUP(buf_done) struct buf split = { 0 };

	if (size < 2)
		return 0;
	struct str in = str_of(data + 1, size - 1);
	bool is_taken = read_in(&whole, in, SIZE_MAX);
	need(read_in(&split, in, data[0] % 16 + 1) == is_taken);
	need(whole.st == ST_OK && split.st == ST_OK);
	need(str_eq(str_of(whole.p, whole.len), str_of(split.p, split.len)));
	/* A number at the very end has no end here: there is always more to come. */
	if (ascii_is_digit(in.p[in.n - 1]))
		return 0;
	/* Jansson takes a NUL between tokens for the end of the text. */
	if (str_has(in, '\0'))
		return 0;
	need_as_model(in, is_taken, str_of(whole.p, whole.len));
	return 0;
}
