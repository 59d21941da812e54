/* The index against a plain walk over all rules; the path glob against a plain
 * backtracking one. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "conf/conf.h"
#include "conf/policy.h"
#include "conf/policy_rule.h"

enum { NAMES = 24, RULES_SEEN = 512 };

static const char *const labels[] = { "a", "b", "ab", "x-y", "_srv" };

static void
put_name(struct buf *b, uint8_t choice)
{
	buf_putf(b, "%s.", labels[choice % 5]);
	if (choice & 0x40)
		buf_putf(b, "%s.", labels[(choice >> 3) % 5]);
	buf_put(b, STR("example.com"));
}

/* A rule for each byte: wildcard or exact, allow or deny. */
static struct image *
make(const uint8_t *data, size_t n, bool is_deny)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct conf_files files;
	struct report r;
	struct conf *c = NULL;
	struct image *im;
	struct str text;
	int fd;

	buf_init(&b, 1 << 16);
	buf_put(&b, is_deny ? STR("policies: {p: {allow: [], deny: [")
			    : STR("policies: {p: {allow: ["));
	for (size_t i = 0; i < n; i++) {
		buf_put(&b, data[i] & 0x80 ? STR("{hosts: ['*.") : STR("{hosts: ['"));
		put_name(&b, data[i]);
		buf_put(&b, STR("']},"));
	}
	buf_put(&b, STR("]}}\n"));
	need(buf_finish(&b, &text) == ST_OK && report_init(&r) == ST_OK);
	conf_files_init(&files);
	need(conf_files_add(&files, CONF_MAIN, STR("f.yaml"), text) == ST_OK);
	need(conf_compile(&files, &r, &c) == ST_OK && conf_seal(c, &fd) == ST_OK);
	need(image_open(fd, &im) == ST_OK);
	(void)close(fd);
	conf_free(c);
	report_done(&r);
	conf_files_done(&files);
	return im;
}

struct seen {
	bool rule[RULES_SEEN];
};

static void
hear(void *ctx, uint32_t index, const struct image_rule *r)
{
	struct seen *s = ctx;

	(void)r;
	need(index < RULES_SEEN && !s->rule[index]); /* each once */
	s->rule[index] = true;
}

static bool
covers(const struct image *im, const struct image_rule *r, struct str name)
{
	size_t n;
	const struct image_pattern *p = image_table(im, IMAGE_PATTERNS, &n);
	struct str pattern = image_str(im, p[r->hosts].name);

	if (!p[r->hosts].is_wild)
		return str_eq(name, pattern);
	return name.n > pattern.n + 1 && str_ends(name, pattern) &&
	       name.p[name.n - pattern.n - 1] == '.';
}

static void
compare(const struct image *im, struct str name)
{
	struct seen seen = { { false } };
	struct dest d;
	size_t n;
	const struct image_rule *r = image_rules(im, &n);

	need(dest_from_host(name, 443, &d) == ST_OK);
	policy_each_rule(im, 0, &d, NULL, hear, &seen);
	for (size_t i = 0; i < n; i++)
		need(seen.rule[i] == covers(im, &r[i], name));
}

static bool
slow_segment(struct str p, struct str t)
{
	if (p.n == 0)
		return t.n == 0;
	if (p.p[0] == '*')
		return slow_segment(str_skip(p, 1), t) ||
		       (t.n > 0 && slow_segment(p, str_skip(t, 1)));
	return t.n > 0 && p.p[0] == t.p[0] &&
	       slow_segment(str_skip(p, 1), str_skip(t, 1));
}

/* Both without their first slash; p == NULL: no segment left. */
static bool
slow_path(struct str p, struct str t)
{
	struct str p_rest = p, t_rest = t;

	if (p.p == NULL)
		return t.p == NULL;
	struct str segment = str_cut(&p_rest, '/');
	if (t.p != NULL)
		(void)str_cut(&t_rest, '/');
	if (str_eq(segment, STR("**")))
		return slow_path(p_rest, t) || (t.p != NULL && slow_path(p, t_rest));
	if (t.p == NULL)
		return false;
	struct str rest = t, first = str_cut(&rest, '/');
	return slow_segment(segment, first) && slow_path(p_rest, t_rest);
}

static void
compare_paths(const uint8_t *data, size_t size)
{
	static const char letters[] = "a/*b/*/a";
	char pattern[17] = "/", path[17] = "/";
	size_t n = 1, m = 1;

	for (size_t i = 0; i < size && n < 16 && m < 16; i++) {
		if (data[i] & 8)
			pattern[n++] = letters[data[i] & 7];
		else
			path[m++] = letters[data[i] & 7] == '*' ? 'c'
								: letters[data[i] & 7];
	}
	struct str p = str_of(pattern, n), t = str_of(path, m);
	need(policy_path_matches(p, t) == slow_path(str_skip(p, 1), str_skip(t, 1)));
}

/* Two patterns that match one path meet, whichever comes first. */
static void
compare_patterns(const uint8_t *data, size_t size)
{
	static const char letters[] = "a/*b/**/";
	char text[3][12] = { "/", "/", "/" };
	size_t n[3] = { 1, 1, 1 };

	for (size_t i = 0; i < size && i < 30; i++) {
		unsigned which = (data[i] >> 3) % 3;
		char c = letters[data[i] & 7];
		if (n[which] < sizeof text[0])
			text[which][n[which]++] = which == 2 && c == '*' ? 'c' : c;
	}
	struct str a = str_of(text[0], n[0]), b = str_of(text[1], n[1]),
		   path = str_of(text[2], n[2]);
	bool meet = policy_paths_meet(a, b);
	need(meet == policy_paths_meet(b, a));
	if (policy_path_matches(a, path) && policy_path_matches(b, path))
		need(meet);
	if (str_eq(a, b))
		need(meet && policy_path_rank(a) == policy_path_rank(b));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t rules = size / 2 < NAMES ? size / 2 : NAMES;

	compare_paths(data, size);
	compare_patterns(data, size);
	if (size < 2)
		return 0;
	struct image *im = make(data + 1, rules, data[0] & 1);
	for (size_t i = 1 + rules; i < size && i < 1 + 2 * NAMES; i++) {
		CLEANUP(buf_done) struct buf b = { 0 };
		struct str name;
		buf_init(&b, 300);
		if (data[i] & 0x80)
			buf_put(&b, STR("q."));
		put_name(&b, data[i]);
		need(buf_finish(&b, &name) == ST_OK);
		compare(im, name);
	}
	image_close(im);
	return 0;
}
