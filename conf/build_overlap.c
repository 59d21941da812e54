#include "conf/build_overlap.h"

#include "conf/policy.h"
#include "conf/policy_rule.h"

enum { NAMES_MAX = 4000000 };

struct look {
	struct build *build;
	const struct image_rule *rules;
	size_t rules_n;
};

static struct str
text_of(const struct look *l, struct image_ref r)
{
	return str_of(l->build->draft->table[IMAGE_STRINGS].p + r.offset, r.length);
}

static const struct image_pattern *
patterns_of(const struct look *l, const struct image_rule *r)
{
	const struct image_pattern *p = draft_table(l->build->draft, IMAGE_PATTERNS);

	return p + r->hosts;
}

static struct str
word_at(const struct look *l, uint32_t i)
{
	const struct image_ref *w = draft_table(l->build->draft, IMAGE_WORDS);

	return text_of(l, w[i]);
}

static struct str
connector_name(const struct look *l, uint32_t connector)
{
	const struct image_connector *c =
		draft_table(l->build->draft, IMAGE_CONNECTORS);

	return text_of(l, c[connector].name);
}

static struct place
place_of(const struct look *l, const struct image_rule *r)
{
	return (struct place){ text_of(l, r->file), r->line, r->column };
}

static bool
is_below(struct str name, struct str parent)
{
	return name.n > parent.n + 1 && str_ends(name, parent) &&
	       name.p[name.n - parent.n - 1] == '.';
}

static bool
patterns_meet(const struct look *l, const struct image_pattern *a,
	      const struct image_pattern *b)
{
	struct str x = text_of(l, a->name), y = text_of(l, b->name);

	if (a->is_wild && is_below(y, x))
		return true;
	if (b->is_wild && is_below(x, y))
		return true;
	return a->is_wild == b->is_wild && str_eq(x, y);
}

/* The first of a's patterns that some pattern of b shares a name with, or NULL. */
static const struct image_pattern *
hosts_meet(const struct look *l, const struct image_rule *a, const struct image_rule *b)
{
	const struct image_pattern *x = patterns_of(l, a), *y = patterns_of(l, b);

	for (uint32_t i = 0; i < a->hosts_n; i++)
		for (uint32_t k = 0; k < b->hosts_n; k++)
			if (patterns_meet(l, &x[i], &y[k]))
				return &x[i];
	return NULL;
}

static bool
ports_meet(const struct look *l, const struct image_rule *a, const struct image_rule *b)
{
	const struct image_ports *p = draft_table(l->build->draft, IMAGE_PORTS);

	for (uint32_t i = a->ports; i < a->ports + a->ports_n; i++)
		for (uint32_t k = b->ports; k < b->ports + b->ports_n; k++)
			if (p[i].low <= p[k].high && p[k].low <= p[i].high)
				return true;
	return a->ports_n == 0 || b->ports_n == 0;
}

/* As policy_method_fits(): GET speaks for HEAD. */
static bool
methods_meet(const struct look *l, const struct image_rule *a,
	     const struct image_rule *b)
{
	for (uint32_t i = 0; i < a->methods_n; i++)
		for (uint32_t k = 0; k < b->methods_n; k++) {
			struct str x = word_at(l, a->methods + i),
				   y = word_at(l, b->methods + k);
			if (str_eq(x, y) ||
			    (str_eq(x, STR("HEAD")) && str_eq(y, STR("GET"))) ||
			    (str_eq(x, STR("GET")) && str_eq(y, STR("HEAD"))))
				return true;
		}
	return a->methods_n == 0 || b->methods_n == 0;
}

/* A path pattern of each that are equally specific and match some path together. */
static bool
paths_tie(const struct look *l, const struct image_rule *a, const struct image_rule *b)
{
	for (uint32_t i = 0; i < a->paths_n; i++)
		for (uint32_t k = 0; k < b->paths_n; k++) {
			struct str x = word_at(l, a->paths + i),
				   y = word_at(l, b->paths + k);
			if (policy_path_rank(x) == policy_path_rank(y) &&
			    policy_paths_meet(x, y))
				return true;
		}
	return a->paths_n == 0 && b->paths_n == 0;
}

static bool
is_raw(const struct image_rule *r)
{
	return !r->is_deny && r->connector == CONNECTOR_NONE;
}

/* All rules of a connector stand together and share their hosts and ports. */
static bool
is_first_of_connector(const struct look *l, size_t i)
{
	return l->rules[i].connector != CONNECTOR_NONE &&
	       (i == 0 || l->rules[i - 1].connector != l->rules[i].connector);
}

static void
check_raw(const struct look *l, const struct image_rule *connector)
{
	for (size_t i = 0; i < l->rules_n; i++) {
		const struct image_rule *r = &l->rules[i];
		if (!is_raw(r) || !ports_meet(l, r, connector))
			continue;
		const struct image_pattern *p = hosts_meet(l, r, connector);
		if (p == NULL)
			continue;
		report_error(l->build->report, place_of(l, r),
			     "%s%.*s reaches a host of connector `%.*s` past the "
			     "connector's `allow`; name other hosts or ports, or take "
			     "the connector out of this policy",
			     p->is_wild ? "*." : "", STR_ARG(text_of(l, p->name)),
			     STR_ARG(connector_name(l, connector->connector)));
	}
}

static bool
rules_tie(const struct look *l, const struct image_rule *a, const struct image_rule *b)
{
	return !a->is_deny && !b->is_deny && methods_meet(l, a, b) &&
	       paths_tie(l, a, b);
}

/* first, second: where the rules of two connectors begin. */
static void
check_tie(const struct look *l, size_t first, size_t second)
{
	const struct image_rule *a = &l->rules[first], *b = &l->rules[second];

	if (!ports_meet(l, a, b) || hosts_meet(l, a, b) == NULL)
		return;
	for (size_t i = first; i < l->rules_n && l->rules[i].connector == a->connector;
	     i++)
		for (size_t k = second;
		     k < l->rules_n && l->rules[k].connector == b->connector; k++) {
			if (!rules_tie(l, &l->rules[i], &l->rules[k]))
				continue;
			struct place at = place_of(l, &l->rules[i]);
			report_error(l->build->report, place_of(l, &l->rules[k]),
				     "connectors `%.*s` and `%.*s` (%.*s:%u) match the "
				     "same requests and neither path is more specific",
				     STR_ARG(connector_name(l, b->connector)),
				     STR_ARG(connector_name(l, a->connector)),
				     STR_ARG(at.file), at.line);
			return;
		}
}

static void
check_connectors(const struct look *l)
{
	for (size_t i = 0; i < l->rules_n; i++) {
		if (!is_first_of_connector(l, i))
			continue;
		check_raw(l, &l->rules[i]);
		for (size_t k = i + 1; k < l->rules_n; k++)
			if (is_first_of_connector(l, k))
				check_tie(l, i, k);
	}
}

/* Patterns of rules without any condition on requests, to the rule: "=name" for an exact
 * one, ".name" for a wildcard. */
struct whole {
	struct map names;
};

static void *
as_value(const struct image_rule *r)
{
	union {
		const struct image_rule *in;
		void *out;
	} value = { .in = r };

	return value.out;
}

static void
put_key(struct buf *b, char kind, struct str name)
{
	buf_clear(b);
	buf_putc(b, kind);
	buf_put(b, name);
}

static void
remember(const struct look *l, struct whole *w, const struct image_rule *r)
{
	CLEANUP(buf_done) struct buf key = { 0 };
	const struct image_pattern *p = patterns_of(l, r);

	buf_init(&key, 512);
	for (uint32_t i = 0; i < r->hosts_n; i++) {
		put_key(&key, p[i].is_wild ? '.' : '=', text_of(l, p[i].name));
		struct str s = str_of(key.p, key.len);
		/* No memory: a warning less. */
		if (map_get(&w->names, s) == NULL &&
		    map_put(&w->names, s, as_value(r)) != ST_OK)
			return;
	}
}

/* The rule that covers all names of the pattern, or NULL. */
static const struct image_rule *
cover_of(const struct whole *w, bool is_wild, struct str name)
{
	CLEANUP(buf_done) struct buf key = { 0 };

	buf_init(&key, 512);
	put_key(&key, is_wild ? '.' : '=', name);
	const struct image_rule *r = map_get(&w->names, str_of(key.p, key.len));
	while (r == NULL && name.p != NULL) {
		(void)str_cut(&name, '.');
		put_key(&key, '.', name);
		if (name.p != NULL)
			r = map_get(&w->names, str_of(key.p, key.len));
	}
	return r;
}

/* Some one rule of w that covers all hosts of r, or NULL. */
static const struct image_rule *
all_covered(const struct look *l, const struct whole *w, const struct image_rule *r)
{
	const struct image_pattern *p = patterns_of(l, r);
	const struct image_rule *by = NULL;

	for (uint32_t i = 0; i < r->hosts_n; i++) {
		by = cover_of(w, p[i].is_wild, text_of(l, p[i].name));
		if (by == NULL)
			return NULL;
	}
	return by;
}

static bool
has_port(const struct look *l, const struct image_rule *r, const struct image_ports *p)
{
	const struct image_ports *all = draft_table(l->build->draft, IMAGE_PORTS);

	for (uint32_t i = r->ports; i < r->ports + r->ports_n; i++)
		if (all[i].low <= p->low && all[i].high >= p->high)
			return true;
	return r->ports_n == 0;
}

static bool
ports_cover(const struct look *l, const struct image_rule *by,
	    const struct image_rule *r)
{
	const struct image_ports *p = draft_table(l->build->draft, IMAGE_PORTS);

	for (uint32_t i = r->ports; i < r->ports + r->ports_n; i++)
		if (!has_port(l, by, &p[i]))
			return false;
	return r->ports_n > 0 || by->ports_n == 0;
}

static void
warn_denied(const struct look *l, const struct whole *denied,
	    const struct image_rule *r)
{
	const struct image_rule *by = all_covered(l, denied, r);

	if (by == NULL || r->cidrs_n > 0)
		return;
	struct place at = place_of(l, by);
	report_warning(l->build->report, place_of(l, r),
		       "this rule never applies: the deny rule at %.*s:%u covers its "
		       "hosts",
		       STR_ARG(at.file), at.line);
}

static void
warn_open(const struct look *l, const struct whole *open, const struct image_rule *r)
{
	const struct image_rule *by = all_covered(l, open, r);

	if (by == NULL || !ports_cover(l, by, r))
		return;
	struct place at = place_of(l, by);
	report_warning(l->build->report, place_of(l, r),
		       "methods, paths and query make no difference here: the rule at "
		       "%.*s:%u allows these hosts without",
		       STR_ARG(at.file), at.line);
}

static bool
has_conditions(const struct image_rule *r)
{
	return policy_rule_reads(r) || policy_rule_places(r);
}

static void
warn_unreachable(const struct look *l)
{
	struct whole denied, open;

	map_init(&denied.names, NAMES_MAX);
	map_init(&open.names, NAMES_MAX);
	for (size_t i = 0; i < l->rules_n; i++) {
		const struct image_rule *r = &l->rules[i];
		if (has_conditions(r))
			continue;
		if (r->is_deny && r->ports_n == 0)
			remember(l, &denied, r);
		else if (is_raw(r) && !r->is_tcp && !r->is_shared_suffix)
			remember(l, &open, r);
	}
	for (size_t i = 0; i < l->rules_n; i++) {
		const struct image_rule *r = &l->rules[i];
		if (r->is_deny || r->hosts_n == 0)
			continue;
		warn_denied(l, &denied, r);
		if (is_raw(r) && policy_rule_reads(r))
			warn_open(l, &open, r);
	}
	map_done(&denied.names);
	map_done(&open.names);
}

void
build_overlaps(struct build *b, const struct image_rule *rules, size_t rules_n)
{
	const struct look l = { b, rules, rules_n };

	check_connectors(&l);
	warn_unreachable(&l);
}
