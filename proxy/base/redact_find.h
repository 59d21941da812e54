#ifndef PROXY_BASE_REDACT_FIND_H
#define PROXY_BASE_REDACT_FIND_H
/*
 * redact_find: where in a text of any language the value of a name lies.  For redact.c,
 * which says what is a secret.  Pure; places behind the end hold NUL, which is a part of
 * nothing.
 */
#include "proxy/base/str.h"

struct span {
	size_t from, to;
};

/* 0 behind the end, and NUL is no part of anything that is looked for. */
static inline char
find_at(struct str s, size_t i)
{
	if (i >= s.n)
		return '\0';
	return s.p[i];
}

static inline struct str
find_part(struct str s, size_t from, size_t to)
{
	return str_skip(str_head(s, to), from);
}

static inline bool
find_is_one_of(char c, const char *set)
{
	while (*set != '\0' && *set != c)
		set++;
	return *set != '\0';
}

/* Or a digit. */
static inline bool
find_is_upper(char c)
{
	return ascii_is_digit(c) || (c >= 'A' && c <= 'Z');
}

static inline bool
find_is_alnum(char c)
{
	return ascii_is_alpha(c) || ascii_is_digit(c);
}

static inline bool
find_is_name(char c)
{
	return find_is_alnum(c) || find_is_one_of(c, "_-.");
}

static inline bool
find_is_quote(char c)
{
	return find_is_one_of(c, "\"'`");
}

static inline bool
find_is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Behind the private key (PEM) that begins at i, else i.  One without an end is all the
 * rest. */
size_t find_pem_end(struct str s, size_t i);
/* A name also ends where a private key begins, with dashes. */
size_t find_name_end(struct str s, size_t i);
/* Where the value of the name [from, i) begins; i: it has none. */
size_t find_value_start(struct str s, size_t from, size_t i);
/* Over a word like Bearer, which is no secret. */
size_t find_skip_scheme(struct str s, size_t from);
/* quote: what is open at `from`, or NUL; is_line: all up to the line's end belongs to it.
 */
struct span find_value(struct str s, size_t from, char quote, bool is_line);

#endif
