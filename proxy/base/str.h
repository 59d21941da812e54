#ifndef PROXY_BASE_STR_H
#define PROXY_BASE_STR_H
/*
 * str: a view of bytes.  Not owned, not NUL-terminated, may hold any octet.
 * Every parser works on these; nothing from the network becomes a C string.
 */
#include "proxy/base/base.h"

struct str {
	const char *p;
	size_t n;
};
#define STR(lit)   ((struct str){ (lit), sizeof(lit) - 1 })
#define STR_ARG(s) (int)((s).n), (s).p /* for "%.*s" */

struct str str_from(const char *cstr); /* NULL gives an empty view */
struct str str_of(const void *p, size_t n);

bool str_eq(struct str a, struct str b);
bool str_ieq(struct str a, struct str b); /* ASCII case folded */
bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);
bool str_has(struct str s, char c);
/* What a sandbox or a policy may be called: 1 to STR_NAME_MAX letters, digits, '-', '_'
 * and '.'. */
enum { STR_NAME_MAX = 64 };
bool str_is_name(struct str s);

/* Byte by byte, the shorter one first: below, at or above 0. */
int str_cmp(struct str a, struct str b);

/* The part from offset on (at most s.n) and the first n bytes (at most s.n). */
struct str str_skip(struct str s, size_t offset);
struct str str_head(struct str s, size_t n);

/*
 * Cut *rest at the first sep: the part before is returned and *rest moves behind it.
 * Without a sep the whole is returned and *rest becomes empty with p == NULL.
 */
struct str str_cut(struct str *rest, char sep);

/* Without the optional white space (SP, HTAB) of RFC 9110 at both ends. */
struct str str_trim(struct str s);

/* Inline: parsers ask for every octet. */
static inline char
ascii_lower(char c)
{
	if (c < 'A' || c > 'Z')
		return c;
	return (char)(c - 'A' + 'a');
}

static inline bool
ascii_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool
ascii_is_alpha(char c)
{
	char l = ascii_lower(c);

	return l >= 'a' && l <= 'z';
}

#endif
