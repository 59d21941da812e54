#include "conf/policy.h"

#include <limits.h>

#include "proxy/base/enc.h"

enum { ENCODED_SLASH = 256 };

/* The octet at s, a percent triplet taken for what it stands for, so that no rule is
 * dodged by another spelling of the same path.  An encoded slash is an octet of its
 * own: it separates nothing. */
static unsigned
octet(struct str s, size_t *ret_n)
{
	int hi = s.n > 2 && s.p[0] == '%' ? enc_hex_digit(s.p[1]) : -1;
	int lo = hi < 0 ? -1 : enc_hex_digit(s.p[2]);

	*ret_n = lo < 0 ? 1 : 3;
	if (lo < 0)
		return (unsigned char)s.p[0];
	unsigned v = (unsigned)hi << 4 | (unsigned)lo;
	return v == '/' ? ENCODED_SLASH : v;
}

typedef unsigned (*octet_fn)(struct str s, size_t *ret_n);

/* One segment against one of the pattern; `*` is any run of octets, also none. */
static bool
segment_fits(struct str pattern, struct str text, octet_fn read)
{
	struct str star = { NULL, 0 }, from = { NULL, 0 };
	size_t p_n = 0, t_n = 0;

	while (text.n > 0) {
		unsigned t = read(text, &t_n);
		if (pattern.n > 0 && pattern.p[0] == '*') {
			pattern = str_skip(pattern, 1);
			star = pattern;
			from = text;
		} else if (pattern.n > 0 && read(pattern, &p_n) == t) {
			pattern = str_skip(pattern, p_n);
			text = str_skip(text, t_n);
		} else if (from.p != NULL) {
			(void)read(from, &t_n);
			from = str_skip(from, t_n);
			pattern = star;
			text = from;
		} else {
			return false;
		}
	}
	while (pattern.n > 0 && pattern.p[0] == '*')
		pattern = str_skip(pattern, 1);
	return pattern.n == 0;
}

static bool
segment_matches(struct str pattern, struct str text)
{
	return segment_fits(pattern, text, octet);
}

static struct str
cut_segment(struct str *rest)
{
	return str_cut(rest, '/');
}

/* How paths are read: where a segment of the path ends, and whether it fits. */
struct reading {
	struct str (*cut)(struct str *rest);
	bool (*fits)(struct str pattern, struct str text);
};

static const struct reading as_sent = { cut_segment, segment_matches };

/* Both start with a slash: the segments are what lies behind each slash. */
static bool
path_matches(struct str pattern, struct str path, const struct reading *r)
{
	struct str retry_pattern = { NULL, 0 }, retry_path = { NULL, 0 };

	if (!str_starts(pattern, STR("/")) || !str_starts(path, STR("/")))
		return str_eq(pattern, path); /* OPTIONS with the target "*" */
	pattern = str_skip(pattern, 1);
	path = str_skip(path, 1);
	/* p == NULL: behind the last segment.  Only the last `**` needs a second try.
	 */
	while (path.p != NULL) {
		struct str p_rest = pattern, t_rest = path;
		struct str p = str_cut(&p_rest, '/'), t = r->cut(&t_rest);

		if (pattern.p != NULL && str_eq(p, STR("**"))) {
			retry_pattern = pattern = p_rest;
			retry_path = path;
			if (pattern.p == NULL)
				return true;
			continue;
		}
		if (pattern.p != NULL && r->fits(p, t)) {
			pattern = p_rest;
			path = t_rest;
			continue;
		}
		if (retry_pattern.p == NULL)
			return false;
		(void)r->cut(&retry_path);
		pattern = retry_pattern;
		path = retry_path;
	}
	while (pattern.p != NULL) /* what is left must be able to match nothing */
		if (!str_eq(str_cut(&pattern, '/'), STR("**")))
			return false;
	return true;
}

bool
policy_path_matches(struct str pattern, struct str path)
{
	return path_matches(pattern, path, &as_sent);
}

/* As a server that forgives reads it: letters of either case, */
static unsigned
octet_loosely(struct str s, size_t *ret_n)
{
	unsigned c = octet(s, ret_n);

	return c <= UCHAR_MAX ? (unsigned char)ascii_lower((char)c) : c;
}

static bool
segment_matches_loosely(struct str pattern, struct str text)
{
	return segment_fits(pattern, text, octet_loosely);
}

static bool
is_slash(unsigned c)
{
	return c == '/' || c == ENCODED_SLASH;
}

/* Up to the next slash, encoded or not, without parameters; *ret_n: how far that is. */
static struct str
first_segment(struct str s, size_t *ret_n)
{
	size_t end = SIZE_MAX, at = 0, n = 0;

	for (; at < s.n; at += n) {
		unsigned c = octet(str_skip(s, at), &n);
		if (is_slash(c))
			break;
		if (c == ';' && end > at)
			end = at;
	}
	*ret_n = at;
	return str_head(s, end < at ? end : at);
}

/* From the next segment on that isn't empty. */
static struct str
skip_to_segment(struct str s)
{
	size_t n = 0;

	while (s.n > 0 && (is_slash(octet(s, &n)) || first_segment(s, &n).n == 0))
		s = str_skip(s, n);
	return s;
}

/* segments without their parameters, divided by encoded slashes too, and no empty ones. */
static struct str
cut_loosely(struct str *rest)
{
	struct str s = skip_to_segment(*rest), segment;
	size_t n = 0;

	segment = first_segment(s, &n);
	*rest = skip_to_segment(str_skip(s, n));
	if (rest->n == 0)
		*rest = (struct str){ NULL, 0 };
	return segment;
}

bool
policy_path_may_mean(struct str pattern, struct str path)
{
	static const struct reading loosely = { cut_loosely, segment_matches_loosely };

	return policy_path_matches(pattern, path) ||
	       path_matches(pattern, path, &loosely);
}

static unsigned
octet_as_it_is(struct str s, size_t *ret_n)
{
	*ret_n = 1;
	return (unsigned char)s.p[0];
}

bool
policy_text_matches(struct str pattern, struct str text)
{
	return segment_fits(pattern, text, octet_as_it_is);
}

bool
policy_file_matches(struct str pattern, struct str path)
{
	static const struct reading plain = { cut_segment, policy_text_matches };

	return path_matches(pattern, path, &plain);
}

uint32_t
policy_path_rank(struct str pattern)
{
	uint32_t octets = 0, two = 0, stars = 0;
	size_t n;

	while (pattern.n > 0) {
		bool is_star = octet(pattern, &n) == '*' && n == 1;
		two += str_starts(pattern, STR("**"));
		stars += is_star;
		octets += !is_star;
		pattern = str_skip(pattern, n);
	}
	return octets * 4 + (two == 0 ? 2 : 0) + (stars == 0 ? 1 : 0);
}

static struct str
before_star(struct str s)
{
	return str_cut(&s, '*');
}

static struct str
behind_last_star(struct str s)
{
	struct str rest = s;

	while (rest.p != NULL) {
		s = rest;
		(void)str_cut(&rest, '*');
	}
	return s;
}

/* As far as both go they are the same, octet by octet. */
static bool
starts_agree(struct str a, struct str b)
{
	size_t a_n, b_n;

	while (a.n > 0 && b.n > 0) {
		if (octet(a, &a_n) != octet(b, &b_n))
			return false;
		a = str_skip(a, a_n);
		b = str_skip(b, b_n);
	}
	return true;
}

/* How many octets s stands for, and s without the first skip of them. */
static size_t
count_octets(struct str s)
{
	size_t all = 0, n;

	for (; s.n > 0; all++) {
		(void)octet(s, &n);
		s = str_skip(s, n);
	}
	return all;
}

static struct str
skip_octets(struct str s, size_t skip)
{
	size_t n;

	for (; skip > 0; skip--) {
		(void)octet(s, &n);
		s = str_skip(s, n);
	}
	return s;
}

static bool
ends_agree(struct str a, struct str b)
{
	size_t a_n = count_octets(a), b_n = count_octets(b);

	if (a_n > b_n)
		return starts_agree(skip_octets(a, a_n - b_n), b);
	return starts_agree(a, skip_octets(b, b_n - a_n));
}

/* With a star in both, what lies between the outer stars finds room. */
static bool
segments_meet(struct str a, struct str b)
{
	if (!str_has(a, '*'))
		return segment_matches(b, a);
	if (!str_has(b, '*'))
		return segment_matches(a, b);
	return starts_agree(before_star(a), before_star(b)) &&
	       ends_agree(behind_last_star(a), behind_last_star(b));
}

bool
policy_hosts_meet(struct str a, struct str b)
{
	return segments_meet(a, b);
}

static bool
has_any_number(struct str path)
{
	while (path.p != NULL)
		if (str_eq(str_cut(&path, '/'), STR("**")))
			return true;
	return false;
}

/* The segments before the first `**`, or behind the last one, side by side. */
static bool
segments_agree(struct str a, struct str b)
{
	while (a.p != NULL && b.p != NULL) {
		struct str x = str_cut(&a, '/'), y = str_cut(&b, '/');
		if (str_eq(x, STR("**")) || str_eq(y, STR("**")))
			return true;
		if (!segments_meet(x, y))
			return false;
	}
	return true;
}

static struct str
last_segment(struct str *rest)
{
	size_t at = rest->n;

	while (at > 0 && rest->p[at - 1] != '/')
		at--;
	struct str s = str_skip(*rest, at);
	*rest = at == 0 ? (struct str){ NULL, 0 } : str_head(*rest, at - 1);
	return s;
}

static bool
tails_agree(struct str a, struct str b)
{
	while (a.p != NULL && b.p != NULL) {
		struct str x = last_segment(&a), y = last_segment(&b);
		if (str_eq(x, STR("**")) || str_eq(y, STR("**")))
			return true;
		if (!segments_meet(x, y))
			return false;
	}
	return true;
}

bool
policy_paths_meet(struct str a, struct str b)
{
	static const struct reading meeting = { cut_segment, segments_meet };

	if (!has_any_number(b))
		return path_matches(a, b, &meeting);
	if (!has_any_number(a))
		return path_matches(b, a, &meeting);
	return segments_agree(a, b) && tails_agree(a, b);
}
