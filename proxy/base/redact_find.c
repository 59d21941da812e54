#include "proxy/base/redact_find.h"

enum { PEM_LABEL = 64 };

static const char *const schemes[] = { "bearer", "basic",           "digest",
				       "token",  "apikey",          "negotiate",
				       "ntlm",   "aws4-hmac-sha256" };

/* The end of "-----BEGIN x-----" or "-----END x-----" whose dashes are at i; 0: that is
 * none of a private key. */
static size_t
pem_line(struct str text, size_t i, struct str word)
{
	struct str s = str_head(str_skip(text, i), PEM_LABEL);

	if (!str_starts(s, STR("-----")) || !str_starts(str_skip(s, 5), word))
		return 0;
	for (size_t k = 5 + word.n; k < s.n; k++) {
		struct str label = str_skip(s, k);
		if (str_starts(label, STR("PRIVATE KEY-----")))
			return i + k + 16;
		if (str_starts(label, STR("PRIVATE KEY BLOCK-----")))
			return i + k + 22;
		if (!find_is_upper(s.p[k]) && s.p[k] != ' ')
			return 0;
	}
	return 0;
}

size_t
find_pem_end(struct str s, size_t i)
{
	size_t k = find_at(s, i) == '-' ? pem_line(s, i, STR("BEGIN ")) : 0, end;

	if (k == 0)
		return i;
	for (; k < s.n; k++)
		if (find_at(s, k) == '-' && (end = pem_line(s, k, STR("END "))) != 0)
			return end;
	return k;
}

static bool
is_scheme(struct str word)
{
	for (size_t i = 0; i < COUNT_OF(schemes); i++)
		if (str_ieq(word, str_from(schemes[i])))
			return true;
	return false;
}

size_t
find_name_end(struct str s, size_t i)
{
	while (find_is_name(find_at(s, i)) &&
	       (find_at(s, i) != '-' || pem_line(s, i, STR("BEGIN ")) == 0))
		i++;
	return i;
}

/* Over blanks, quotes and ends of brackets, and over ends of lines where a list or a
 * command goes on. */
static size_t
skip_lead(struct str s, size_t i, bool is_flag)
{
	for (;; i++) {
		char c = find_at(s, i);
		bool goes_on = c == '\n' && find_is_one_of(find_at(s, i - 1), "\\,");
		if (!find_is_blank(c) && !find_is_quote(c) &&
		    !find_is_one_of(c, "])\\") && !(is_flag && (c == ',' || goes_on)))
			return i;
	}
}

size_t
find_value_start(struct str s, size_t from, size_t i)
{
	bool is_flag = find_at(s, from) == '-';
	size_t k = skip_lead(s, i, is_flag);

	if (find_is_one_of(find_at(s, k), ":=")) {
		while (find_is_one_of(find_at(s, k), ":=>\"'`\\") ||
		       find_is_blank(find_at(s, k)))
			k++;
		return k;
	}
	/* Behind a flag comes its value, or the next flag. */
	if (!is_flag ||
	    (find_at(s, k) == '-' && find_is_one_of(find_at(s, k + 1), "-")) ||
	    (find_at(s, k) == '-' && ascii_is_alpha(find_at(s, k + 1))))
		return i;
	return k;
}

/* Up to the quote that shuts it or the end of the line.  is_raw: the quote that opened
 * it was escaped, so the one that shuts it is, too. */
static size_t
quoted_end(struct str s, size_t i, char quote, bool is_raw)
{
	while (i < s.n && find_at(s, i) != quote && find_at(s, i) != '\n') {
		size_t end = find_pem_end(s, i);
		bool is_pair =
			find_at(s, i) == '\\' && !is_raw && find_at(s, i + 1) != '\n';
		if (end > i)
			i = end;
		else
			i += is_pair && i + 1 < s.n ? 2 : 1;
	}
	return i;
}

/* A word as shells have them: what is in quotes in its middle belongs to it, unless all
 * of it is in quotes. */
static size_t
word_end(struct str s, size_t i, char quote)
{
	bool is_variable = str_starts(str_skip(s, i), STR("${"));

	while (i < s.n) {
		char c = find_at(s, i);
		size_t end = find_pem_end(s, i);
		if (end > i) {
			i = end;
		} else if (find_is_quote(c) && quote == '\0') {
			i = quoted_end(s, i + 1, c, false);
			i += find_at(s, i) == c;
		} else if (c == '}' && is_variable) {
			is_variable = false;
			i++;
		} else if (find_is_quote(c) || find_is_blank(c) ||
			   find_is_one_of(c, "\r\n,;&|<>)}")) {
			break;
		} else {
			i++;
		}
	}
	return i;
}

static size_t
line_end(struct str s, size_t i)
{
	while (i < s.n && !find_is_quote(find_at(s, i)) &&
	       !find_is_one_of(find_at(s, i), "\r\n"))
		i++;
	return i;
}

struct span
find_value(struct str s, size_t from, char quote, bool is_line)
{
	char before = find_at(s, from - 1); /* of 0: behind the end */
	bool is_raw = from > 1 && find_at(s, from - 2) == '\\';
	struct span v = { from, from };

	if (find_is_quote(before))
		v.to = quoted_end(s, from, before, is_raw);
	else
		v.to = is_line ? line_end(s, from) : word_end(s, from, quote);
	while (find_is_quote(before) && is_raw && v.to > from &&
	       find_at(s, v.to - 1) == '\\')
		v.to--;
	return v;
}

size_t
find_skip_scheme(struct str s, size_t from)
{
	size_t word = find_name_end(s, from), k = word;

	while (find_is_blank(find_at(s, k)) ||
	       (k > word && find_is_one_of(find_at(s, k), "\"'`\\")))
		k++;
	return k > word && k < s.n && is_scheme(find_part(s, from, word)) ? k : from;
}
