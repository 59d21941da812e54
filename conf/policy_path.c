#include "conf/policy.h"

/* One segment against one of the pattern; `*` is any run of octets, also none. */
static bool
segment_matches(struct str pattern, struct str text)
{
	size_t p = 0, t = 0, star = SIZE_MAX, from = 0;

	while (t < text.n) {
		if (p < pattern.n && pattern.p[p] == '*') {
			star = p++;
			from = t;
		} else if (p < pattern.n && pattern.p[p] == text.p[t]) {
			p++;
			t++;
		} else if (star != SIZE_MAX) {
			p = star + 1;
			t = ++from;
		} else {
			return false;
		}
	}
	while (p < pattern.n && pattern.p[p] == '*')
		p++;
	return p == pattern.n;
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
	return pattern.p == NULL || str_eq(pattern, STR("**"));
}
