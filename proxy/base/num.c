#include "proxy/base/num.h"

static int
digit_value(char c, unsigned base)
{
	int v = -1;

	if (ascii_is_digit(c))
		v = c - '0';
	else if (ascii_is_alpha(c))
		v = ascii_lower(c) - 'a' + 10;
	return v >= 0 && (unsigned)v < base ? v : -1;
}

static bool
parse(struct str s, unsigned base, uint64_t max, uint64_t *ret_v)
{
	uint64_t v = 0;

	if (s.n == 0)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		int d = digit_value(s.p[i], base);
		if (d < 0 || __builtin_mul_overflow(v, base, &v) ||
		    __builtin_add_overflow(v, (uint64_t)d, &v) || v > max)
			return false;
	}
	*ret_v = v;
	return true;
}

bool
num_parse_u64(struct str s, uint64_t max, uint64_t *ret_v)
{
	return parse(s, 10, max, ret_v);
}

bool
num_parse_strict(struct str s, uint64_t max, uint64_t *ret_v)
{
	return !(s.n > 1 && s.p[0] == '0') && parse(s, 10, max, ret_v);
}

bool
num_parse_hex(struct str s, uint64_t max, uint64_t *ret_v)
{
	return parse(s, 16, max, ret_v);
}

bool
num_add(size_t a, size_t b, size_t *ret_sum)
{
	return !__builtin_add_overflow(a, b, ret_sum);
}

bool
num_mul(size_t a, size_t b, size_t *ret_product)
{
	return !__builtin_mul_overflow(a, b, ret_product);
}

size_t
num_min(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t
num_max(size_t a, size_t b)
{
	return a > b ? a : b;
}

uint16_t
num_be16(const void *p)
{
	const uint8_t *b = p;

	return (uint16_t)(b[0] << 8 | b[1]);
}

uint32_t
num_be32(const void *p)
{
	const uint8_t *b = p;

	return (uint32_t)num_be16(b) << 16 | num_be16(b + 2);
}

uint64_t
num_be64(const void *p)
{
	const uint8_t *b = p;

	return (uint64_t)num_be32(b) << 32 | num_be32(b + 4);
}

uint64_t
num_hash(struct str s, uint64_t salt)
{
	uint64_t h = 14695981039346656037ULL ^ salt;

	for (size_t i = 0; i < s.n; i++)
		h = (h ^ (unsigned char)s.p[i]) * 1099511628211ULL;
	return h ^ h >> 32;
}
