#include "proxy/http/puny.h"

enum { BASE = 36, T_MIN = 1, T_MAX = 26, SKEW = 38, DAMP = 700, FIRST_BIAS = 72 };
enum { LABEL_MAX = 63 };

struct label {
	uint32_t cp[LABEL_MAX];
	size_t n;
};

static uint32_t
adapt(uint32_t delta, uint32_t points, bool is_first)
{
	uint32_t k = 0;

	delta = is_first ? delta / DAMP : delta / 2;
	delta += delta / points;
	for (; delta > (BASE - T_MIN) * T_MAX / 2; k += BASE)
		delta /= BASE - T_MIN;
	return k + (BASE - T_MIN + 1) * delta / (delta + SKEW);
}

static uint32_t
threshold(uint32_t k, uint32_t bias)
{
	if (k <= bias)
		return T_MIN;
	return k - bias >= T_MAX ? T_MAX : k - bias;
}

/* One generalised variable-length integer, added to *i. */
static bool
get_delta(struct str *rest, uint32_t bias, uint32_t *i)
{
	uint32_t w = 1, digit = 0, t = 0, step = 0;

	for (uint32_t k = BASE;; k += BASE) {
		if (rest->n == 0)
			return false;
		char c = rest->p[0];
		if (!ascii_is_alpha(c) && !ascii_is_digit(c))
			return false;
		digit = (uint32_t)(ascii_is_digit(c) ? c - '0' + 26
						     : ascii_lower(c) - 'a');
		*rest = str_skip(*rest, 1);
		if (__builtin_mul_overflow(digit, w, &step) ||
		    __builtin_add_overflow(*i, step, i))
			return false;
		t = threshold(k, bias);
		if (digit < t)
			return true;
		if (__builtin_mul_overflow(w, BASE - t, &w))
			return false;
	}
}

/* What no label may hold: C1 controls, soft hyphen, zero width, surrogates, beyond
 * Unicode. */
static bool
is_printable(uint32_t cp)
{
	return cp >= 0xa1 && cp != 0xad && cp <= 0x10ffff &&
	       (cp < 0xd800 || cp > 0xdfff) && (cp < 0x200b || cp > 0x200f) &&
	       (cp < 0x2028 || cp > 0x202f) && (cp < 0x2060 || cp > 0x206f) &&
	       cp != 0x3000 && cp != 0xfeff && (cp < 0xfff0 || cp > 0xffff);
}

static bool
insert(struct label *l, size_t at, uint32_t cp)
{
	if (l->n >= LABEL_MAX)
		return false;
	for (size_t i = l->n; i > at; i--)
		l->cp[i] = l->cp[i - 1];
	l->cp[at] = cp;
	l->n++;
	return true;
}

/* The ASCII letters come first, before the last hyphen. */
static bool
get_basic(struct str *rest, struct label *l)
{
	size_t basic = 0;

	for (size_t i = 0; i < rest->n; i++)
		basic = rest->p[i] == '-' ? i : basic;
	for (; l->n < basic; l->n++)
		l->cp[l->n] = (uint32_t)(unsigned char)rest->p[l->n];
	*rest = str_skip(*rest, basic > 0 ? basic + 1 : 0);
	return rest->n > 0;
}

bool
puny_is_valid(struct str ace)
{
	struct label l = { .n = 0 };
	uint32_t n = 0x80, i = 0, bias = FIRST_BIAS;

	if (ace.n == 0 || ace.n > LABEL_MAX - 4 || !get_basic(&ace, &l))
		return false;
	bool is_first = true;
	/*
	 * What decodes is the only spelling: a digit at or above its threshold goes on
	 * and one below it ends, so no value can be written with more digits than it
	 * needs.
	 */
	while (ace.n > 0) {
		uint32_t old = i, points = (uint32_t)l.n + 1;
		if (!get_delta(&ace, bias, &i))
			return false;
		bias = adapt(i - old, points, is_first);
		is_first = false;
		if (__builtin_add_overflow(n, i / points, &n) || !is_printable(n))
			return false;
		i %= points;
		if (!insert(&l, i++, n))
			return false;
	}
	return true;
}
