/* Patterns against words with holes: all positions of the pattern at once, as bits. */
#include <string.h>

#include "conf/risk_private.h"

/* From each set bit over the run of mask bits that it stands in, and one further. */
static uint64_t
flood(uint64_t set, uint64_t mask)
{
	return (((set & mask) + mask) ^ mask) | set;
}

struct pattern {
	struct str text;
	bool is_path;
	/* `*`; what is no slash; that without dots that begin a name, which no `*` of a
	 * shell finds; letters that say something. */
	uint64_t stars, parts, bare, letters;
};

/* Positions: reached without and with a letter of the pattern really seen. */
struct places {
	uint64_t blind, seen;
};

static bool
is_deep(const struct pattern *p, size_t i)
{
	struct str s = p->text;

	return !p->is_path || (i + 1 < s.n && s.p[i + 1] == '*') ||
	       (i > 0 && s.p[i - 1] == '*');
}

static uint64_t
step(const struct pattern *p, uint64_t set, char c)
{
	uint64_t next = 0;

	for (; set != 0; set &= set - 1) {
		size_t i = (size_t)__builtin_ctzll(set);
		if (i >= p->text.n)
			break;
		char want = p->text.p[i];
		if (want == '*')
			next |= (uint64_t)(is_deep(p, i) || c != '/') << i;
		else if (want == c || (want == '?' && (!p->is_path || c != '/')))
			next |= (uint64_t)2 << i;
	}
	return next;
}

static uint64_t
fill(const struct pattern *p, uint64_t set, char hole, bool is_first)
{
	uint64_t all = ((uint64_t)2 << p->text.n) - 1;

	if (set == 0)
		return 0;
	if (hole == HOLE_ANY)
		return all & ~((set & (~set + 1)) - 1);
	return flood(flood(set, is_first ? p->bare : p->parts), p->stars) & all;
}

static struct places
move(const struct pattern *p, struct places at, char c, bool is_first)
{
	if (c == HOLE_ANY || c == HOLE_PART)
		return (struct places){ fill(p, at.blind, c, is_first),
					fill(p, at.seen, c, is_first) };
	uint64_t blind = step(p, at.blind, c);
	/* The step over a letter ends behind it. */
	uint64_t seen = step(p, at.seen, c) | (blind & (p->letters << 1));
	return (struct places){ flood(blind, p->stars), flood(seen, p->stars) };
}

static struct pattern
prepare(struct str text, bool is_path)
{
	struct pattern p = { .text = text, .is_path = is_path };

	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];
		bool begins = i == 0 || text.p[i - 1] == '/';
		p.stars |= (uint64_t)(c == '*') << i;
		p.parts |= (uint64_t)(c != '/') << i;
		p.bare |= (uint64_t)(c != '/' && !(c == '.' && begins)) << i;
		p.letters |= (uint64_t)!str_has(STR("*?/."), c) << i;
	}
	return p;
}

static bool
is_wild(char c)
{
	return c == '*' || c == '?';
}

static bool
is_hole(char c)
{
	return c == HOLE_ANY || c == HOLE_PART;
}

static bool
differ(char want, char c)
{
	return want != c && !is_wild(want) && !is_hole(c);
}

/* `*word*`, of which there are many: the word, or n == 0. */
static struct str
middle(struct str pattern)
{
	if (pattern.n < 3 || pattern.p[0] != '*' || pattern.p[pattern.n - 1] != '*')
		return STR("");
	struct str s = str_head(str_skip(pattern, 1), pattern.n - 2);
	for (size_t i = 0; i < s.n; i++)
		if (is_wild(s.p[i]))
			return STR("");
	return s;
}

bool
risk_meets(struct str pattern, struct str word, bool is_path)
{
	need(pattern.n <= RISK_PATTERN_MAX);
	/* Nearly all differ at one of their ends. */
	if (pattern.n > 0 && word.n > 0 &&
	    (differ(pattern.p[0], word.p[0]) ||
	     differ(pattern.p[pattern.n - 1], word.p[word.n - 1])))
		return false;
	struct str part = is_path ? STR("") : middle(pattern);
	if (part.n > 0 && !risk_has_hole(word))
		return word.n >= part.n &&
		       memmem(word.p, word.n, part.p, part.n) != NULL;
	struct pattern p = prepare(pattern, is_path);
	struct places at = { flood(1, p.stars), 0 };

	for (size_t i = 0; i < word.n && at.blind != 0; i++)
		at = move(&p, at, word.p[i], i == 0 || word.p[i - 1] == '/');
	/* A word that is a hole where it matters could be anything; that alone is no
	 * reason to take it for the worst. */
	uint64_t ends = p.letters != 0 ? at.seen : at.blind;
	if (ends >> pattern.n & 1)
		return true;
	return is_path && pattern.n > 3 && str_ends(pattern, STR("/**")) &&
	       (ends >> (pattern.n - 3) & 1);
}

bool
risk_has_hole(struct str s)
{
	return str_has(s, HOLE_ANY) || str_has(s, HOLE_PART);
}
