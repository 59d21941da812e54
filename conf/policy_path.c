#include "conf/policy.h"

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

/* One segment against one of the pattern; `*` is any run of octets, also none. */
static bool
segment_matches(struct str pattern, struct str text)
{
	struct str star = { NULL, 0 }, from = { NULL, 0 };
	size_t p_n = 0, t_n = 0;

	while (text.n > 0) {
		unsigned t = octet(text, &t_n);
		if (pattern.n > 0 && pattern.p[0] == '*') {
			pattern = str_skip(pattern, 1);
			star = pattern;
			from = text;
		} else if (pattern.n > 0 && octet(pattern, &p_n) == t) {
			pattern = str_skip(pattern, p_n);
			text = str_skip(text, t_n);
		} else if (from.p != NULL) {
			(void)octet(from, &t_n);
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

/* Both start with a slash: the segments are what lies behind each slash. */
bool
policy_path_matches(struct str pattern, struct str path)
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
		struct str p = str_cut(&p_rest, '/'), t = str_cut(&t_rest, '/');

		if (pattern.p != NULL && str_eq(p, STR("**"))) {
			retry_pattern = pattern = p_rest;
			retry_path = path;
			if (pattern.p == NULL)
				return true;
			continue;
		}
		if (pattern.p != NULL && segment_matches(p, t)) {
			pattern = p_rest;
			path = t_rest;
			continue;
		}
		if (retry_pattern.p == NULL)
			return false;
		(void)str_cut(&retry_path, '/');
		pattern = retry_pattern;
		path = retry_path;
	}
	while (pattern.p != NULL) /* what is left must be able to match nothing */
		if (!str_eq(str_cut(&pattern, '/'), STR("**")))
			return false;
	return true;
}
