#ifndef TESTS_FUZZ_SCRUB_MODEL_H
#define TESTS_FUZZ_SCRUB_MODEL_H
/*
 * scrub_model: the forms of needle.def written once more, as slowly and plainly as can
 * be: does a text, anywhere, say a secret?  What the scrubber lets out is held against it.
 */
#include "proxy/base/enc.h"
#include "proxy/base/needle.h"

/* Characters that the escape at p is long; 0: none.  *ret_o: the octet that it says. */
static inline size_t
model_escape(const char *p, size_t n, bool has_percent, int *ret_o)
{
	static const char *const shorts[] = { "\"\"", "\\\\", "//",  "b\b",
					      "f\f",  "n\n",  "r\r", "t\t" };

	if (has_percent && n >= 3 && p[0] == '%' && enc_hex_digit(p[1]) >= 0 &&
	    enc_hex_digit(p[2]) >= 0) {
		*ret_o = enc_hex_digit(p[1]) << 4 | enc_hex_digit(p[2]);
		return 3;
	}
	if (n >= 6 && p[0] == '\\' && p[1] == 'u' && p[2] == '0' && p[3] == '0' &&
	    enc_hex_digit(p[4]) >= 0 && enc_hex_digit(p[5]) >= 0) {
		*ret_o = enc_hex_digit(p[4]) << 4 | enc_hex_digit(p[5]);
		return *ret_o < 0x80 ? 6 : 0;
	}
	for (size_t i = 0; n >= 2 && p[0] == '\\' && i < COUNT_OF(shorts); i++)
		if (p[1] == shorts[i][0]) {
			*ret_o = (unsigned char)shorts[i][1];
			return 2;
		}
	return 0;
}

static inline size_t
model_escaped(const char *p, size_t n, bool has_percent, struct str secret)
{
	size_t at = 0;

	for (size_t i = 0; i < secret.n; i++) {
		int o = -1;
		size_t k = model_escape(p + at, n - at, has_percent, &o);

		if (k == 0 && at < n && p[at] != '\\' &&
		    (p[at] != '%' || !has_percent)) {
			o = (unsigned char)p[at];
			k = 1;
		}
		if (k == 0 || o != (int)(unsigned char)secret.p[i])
			return 0;
		at += k;
	}
	return at;
}

static inline int
model_sextet(char c)
{
	static const char *const sets[] = {
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	};

	for (int i = 0; i < 64; i++)
		if (c == sets[0][i] || c == sets[1][i])
			return i;
	return -1;
}

static inline int
model_bit(const char *p, size_t i) /* -1: not base64 */
{
	int v = model_sextet(p[i / 6]);

	return v < 0 ? -1 : v >> (5 - i % 6) & 1;
}

static inline size_t
model_base64(const char *p, size_t n, size_t lead, struct str secret)
{
	size_t chars = (lead + 8 * secret.n + 5) / 6;

	if (n < chars)
		return 0;
	for (size_t i = 0; i < 8 * secret.n; i++)
		if (model_bit(p, lead + i) !=
		    ((unsigned char)secret.p[i / 8] >> (7 - i % 8) & 1))
			return 0;
	for (size_t i = 0; i < chars; i++)
		if (model_sextet(p[i]) < 0)
			return 0;
	return chars;
}

static inline size_t
model_hex(const char *p, size_t n, struct str secret)
{
	for (size_t i = 0; i < secret.n; i++) {
		if (n < 2 * i + 2 || enc_hex_digit(p[2 * i]) < 0 ||
		    enc_hex_digit(p[2 * i + 1]) < 0 ||
		    (enc_hex_digit(p[2 * i]) << 4 | enc_hex_digit(p[2 * i + 1])) !=
			    (unsigned char)secret.p[i])
			return 0;
	}
	return 2 * secret.n;
}

/* How many characters at the start of p say secret in this form; 0: they do not. */
static inline size_t
model_says(enum needle_form f, const char *p, size_t n, struct str secret)
{
	switch (f) {
	case FORM_PLAIN:
		return n >= secret.n && str_eq(str_of(p, secret.n), secret) ? secret.n
									    : 0;
	case FORM_PERCENT:
		return model_escaped(p, n, true, secret);
	case FORM_JSON:
		return model_escaped(p, n, false, secret);
	case FORM_HEX:
		return model_hex(p, n, secret);
	case FORM_BASE64_0:
	case FORM_BASE64_1:
	case FORM_BASE64_2:
		return model_base64(p, n, 2 * (size_t)(f - FORM_BASE64_0), secret);
	case FORM_COUNT:
		break;
	}
	return 0;
}

static inline bool
model_holds(const char *p, size_t n, struct str secret)
{
	for (size_t at = 0; at < n; at++)
		for (int f = 0; f < FORM_COUNT; f++)
			if (model_says((enum needle_form)f, p + at, n - at, secret) > 0)
				return true;
	return false;
}

#endif
