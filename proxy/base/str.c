#include "proxy/base/str.h"

#include <string.h>

struct str
str_from(const char *cstr)
{
	return cstr == NULL ? (struct str){ "", 0 }
			    : (struct str){ cstr, strlen(cstr) };
}

struct str
str_of(const void *p, size_t n)
{
	return (struct str){ p, n };
}

bool
str_eq(struct str a, struct str b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool
str_ieq(struct str a, struct str b)
{
	if (a.n != b.n)
		return false;
	for (size_t i = 0; i < a.n; i++)
		if (ascii_lower(a.p[i]) != ascii_lower(b.p[i]))
			return false;
	return true;
}

bool
str_starts(struct str s, struct str prefix)
{
	return s.n >= prefix.n && str_eq(str_head(s, prefix.n), prefix);
}

bool
str_ends(struct str s, struct str suffix)
{
	return s.n >= suffix.n && str_eq(str_skip(s, s.n - suffix.n), suffix);
}

bool
str_has(struct str s, char c)
{
	return s.n > 0 && memchr(s.p, c, s.n) != NULL;
}

static bool
is_name_char(char c)
{
	return ascii_is_alpha(c) || ascii_is_digit(c) || c == '-' || c == '_' ||
	       c == '.';
}

bool
str_is_name(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!is_name_char(s.p[i]))
			return false;
	return s.n > 0 && s.n <= STR_NAME_MAX;
}

struct str
str_skip(struct str s, size_t offset)
{
	size_t k = offset < s.n ? offset : s.n;

	return (struct str){ k == 0 ? s.p : s.p + k, s.n - k };
}

struct str
str_head(struct str s, size_t n)
{
	return (struct str){ s.p, n < s.n ? n : s.n };
}

struct str
str_cut(struct str *rest, char sep)
{
	const char *at = rest->n > 0 ? memchr(rest->p, sep, rest->n) : NULL;
	struct str whole = *rest;

	if (at == NULL) {
		*rest = (struct str){ NULL, 0 };
		return whole;
	}
	size_t k = (size_t)(at - whole.p);
	*rest = str_skip(whole, k + 1);
	return str_head(whole, k);
}

struct str
str_trim(struct str s)
{
	while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t'))
		s = str_skip(s, 1);
	while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return s;
}

int
str_cmp(struct str a, struct str b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int c = n == 0 ? 0 : memcmp(a.p, b.p, n);

	return c != 0 ? c : (a.n > b.n) - (a.n < b.n);
}
