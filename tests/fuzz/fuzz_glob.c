/* Globs over texts and paths of files do what a plain reading of them says; two that match
 * the same host meet.  Input: pattern, pattern, text, divided by NUL. */
#include "conf/exec.h"
#include "conf/policy.h"

/* The model tries everything. */
enum { SHORT = 12, STARS = 4, NO_STOP = 256 };

static bool
is_small(struct str pattern)
{
	size_t stars = 0;

	for (size_t i = 0; i < pattern.n; i++)
		stars += pattern.p[i] == '*';
	return pattern.n <= SHORT && stars <= STARS;
}

/* `*` is any run of octets but `stop`. */
static bool
model(struct str p, struct str t, int stop)
{
	if (p.n == 0)
		return t.n == 0;
	if (p.p[0] != '*')
		return t.n > 0 && t.p[0] == p.p[0] &&
		       model(str_skip(p, 1), str_skip(t, 1), stop);
	if (model(str_skip(p, 1), t, stop))
		return true;
	return t.n > 0 && t.p[0] != stop && model(p, str_skip(t, 1), stop);
}

/* Both from a slash on; `**` is any number of whole segments. */
static bool
path_model(struct str p, struct str t)
{
	struct str p_rest = p, t_rest = t;

	if (p.p == NULL)
		return t.p == NULL;
	struct str segment = str_cut(&p_rest, '/');
	if (str_eq(segment, STR("**")))
		for (;;) {
			if (path_model(p_rest, t))
				return true;
			if (t.p == NULL)
				return false;
			(void)str_cut(&t, '/');
		}
	return t.p != NULL && model(segment, str_cut(&t_rest, '/'), '/') &&
	       path_model(p_rest, t_rest);
}

static void
check_paths(struct str pattern, struct str text)
{
	if (str_starts(pattern, STR("/")) && str_starts(text, STR("/")))
		need(policy_file_matches(pattern, text) ==
		     path_model(str_skip(pattern, 1), str_skip(text, 1)));
}

/* What is understood is a number that grows with its digits. */
static void
check_quantity(struct str text)
{
	uint64_t cpu, memory;

	if (exec_parse_memory(text, &memory))
		need(memory <= UINT64_MAX / 2 + UINT64_MAX / 1000);
	if (exec_parse_cpu(text, &cpu))
		need(text.n > 0 && ascii_is_digit(text.p[0]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = str_of(data, size);
	struct str a = str_cut(&rest, '\0'), b = str_cut(&rest, '\0'), text = rest;

	(void)policy_text_matches(a, text);
	(void)policy_file_matches(a, text);
	check_quantity(a);
	if (!is_small(a) || !is_small(b) || text.n > 2 * SHORT || text.p == NULL)
		return 0;
	need(policy_text_matches(a, text) == model(a, text, NO_STOP));
	check_paths(a, text);
	if (!str_has(text, '%') && !str_has(a, '%') && !str_has(b, '%') &&
	    policy_text_matches(a, text) && policy_text_matches(b, text))
		need(policy_hosts_meet(a, b) && policy_hosts_meet(b, a));
	return 0;
}
