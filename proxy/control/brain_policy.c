#include "proxy/control/brain_policy.h"

#include <string.h>

#include "conf/describe.h"
#include "proxy/control/brain_json.h"

enum { DESCRIBE_MAX = 4 << 20 };

static struct str
target_of(const json_t *rule)
{
	return brain_string(json_object_get(rule, "target"));
}

static bool
is_allow(const json_t *rule)
{
	return str_eq(brain_string(json_object_get(rule, "action")), STR("allow"));
}

/* Targets. */

static bool
is_host(struct str name)
{
	if (name.p == NULL || name.n == 0 || name.n > NETPOLICY_TARGET)
		return false;
	for (struct str rest = name; rest.p != NULL;) {
		struct str label = str_cut(&rest, '.');

		if (label.n == 0 || label.n > 63)
			return false;
		for (size_t i = 0; i < label.n; i++)
			if (!ascii_is_alpha(label.p[i]) &&
			    !ascii_is_digit(label.p[i]) && label.p[i] != '-' &&
			    label.p[i] != '_')
				return false;
	}
	/* What ends in a number is an address to most resolvers, and it isn't one of the
	 * plain form. */
	return !ascii_is_digit(name.p[name.n - 1]);
}

static bool
is_target(struct str t)
{
	struct cidr c;

	return cidr_parse(t, &c) ||
	       is_host(str_starts(t, STR("*.")) ? str_skip(t, 2) : t);
}

/* Is everything that small means meant by big? */
static bool
covers(struct str big, struct str small)
{
	struct cidr b, s;

	if (cidr_parse(big, &b))
		return cidr_parse(small, &s) && s.bits >= b.bits &&
		       cidr_has(&b, &s.net);
	if (str_eq(big, small))
		return true;
	return str_starts(big, STR("*.")) && str_ends(small, str_skip(big, 1)) &&
	       !cidr_parse(small, &s);
}

/* Rules. */

/* NULL: not of the form, or no memory. */
static json_t *
rule_new(bool allow, struct str target)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, NETPOLICY_TARGET + 3);
	for (size_t i = 0; i < target.n; i++)
		buf_putc(&b, ascii_lower(target.p[i]));
	if (b.st != ST_OK || !is_target(str_of(b.p, b.len)))
		return NULL;
	return json_pack("{s:s, s:o}", "action", allow ? "allow" : "deny", "target",
			 json_stringn(b.p, b.len));
}

static bool
has_target(const json_t *rules, struct str target)
{
	const json_t *rule;
	size_t i;

	json_array_foreach(rules, i, rule)
	{
		if (str_eq(target_of(rule), target))
			return true;
	}
	return false;
}

static enum status
read_rule(const json_t *from, json_t **ret_rule, struct buf *why)
{
	struct str action = brain_string(json_object_get(from, "action"));
	bool allow = str_ieq(action, STR("allow"));

	if (!allow && !str_ieq(action, STR("deny")))
		return brain_bad(why, "the action of a rule is neither allow nor deny");
	json_t *rule = rule_new(allow, target_of(from));
	if (rule == NULL)
		return brain_bad(why,
				 "the target of a rule is no name, *.NAME, address or "
				 "network");
	*ret_rule = rule;
	return ST_OK;
}

/* More than conf/narrow.h takes, however it came about. */
static bool
is_too_much(const json_t *rules)
{
	size_t i, n = sizeof "default allow";
	const json_t *rule;

	json_array_foreach(rules, i, rule) n += sizeof "allow " + target_of(rule).n;
	return json_array_size(rules) > NETPOLICY_RULES || n > NARROW_TEXT_MAX;
}

/* Appends to `to`; once: of equal targets only the first. */
static enum status
read_rules(const json_t *from, bool once, json_t *to, struct buf *why)
{
	const json_t *one;
	size_t i;
	enum status st = ST_OK;

	if (!json_is_array(from))
		return brain_bad(why, "the rules are no list");
	if (json_array_size(from) > NETPOLICY_RULES)
		return ST_TOO_BIG;
	json_array_foreach(from, i, one)
	{
		json_t *rule = NULL;

		st = read_rule(one, &rule, why);
		if (st != ST_OK)
			return st;
		if (once && has_target(to, target_of(rule)))
			json_decref(rule);
		else if (json_array_append_new(to, rule) != 0)
			return ST_NOMEM;
	}
	return is_too_much(to) ? ST_TOO_BIG : ST_OK;
}

/* Takes over rules. */
static enum status
policy_new(bool allow, json_t *rules, json_t **ret_policy)
{
	*ret_policy = json_pack("{s:s, s:o}", "defaultAction", allow ? "allow" : "deny",
				"egress", rules);
	return *ret_policy == NULL ? ST_NOMEM : ST_OK;
}

static bool
allows_by_default(const json_t *policy)
{
	return str_eq(brain_string(json_object_get(policy, "defaultAction")),
		      STR("allow"));
}

static const json_t *
rules_of(const json_t *policy)
{
	return json_object_get(policy, "egress");
}

enum status
netpolicy_read(const json_t *from, json_t **ret_policy, struct buf *why)
{
	const json_t *rules = json_object_get(from, "egress");
	const json_t *usual = json_object_get(from, "defaultAction");
	struct str word = brain_string(usual);
	json_t *to;

	if (from != NULL && !json_is_null(from) && !json_is_object(from))
		return brain_bad(why, "a policy is an object");
	if (json_object_get(from, "default_action") != NULL)
		return brain_bad(why, "write defaultAction in this one way only");
	if (usual != NULL && !json_is_null(usual) && !str_ieq(word, STR("allow")) &&
	    !str_ieq(word, STR("deny")))
		return brain_bad(why, "defaultAction is neither allow nor deny");
	to = json_array();
	enum status st = rules == NULL || json_is_null(rules)
				 ? ST_OK
				 : read_rules(rules, false, to, why);
	if (st == ST_OK)
		return policy_new(str_ieq(word, STR("allow")), to, ret_policy);
	json_decref(to);
	return st;
}

/* Those whose target isn't among the others' already. */
static enum status
append_other(json_t *to, const json_t *rules)
{
	size_t i, had = json_array_size(to);
	const json_t *rule;

	json_array_foreach(rules, i, rule)
	{
		bool is_there = false;

		for (size_t k = 0; k < had && !is_there; k++)
			is_there = str_eq(target_of(json_array_get(to, k)),
					  target_of(rule));
		if (!is_there && json_array_append_new(to, json_deep_copy(rule)) != 0)
			return ST_NOMEM;
	}
	return is_too_much(to) ? ST_TOO_BIG : ST_OK;
}

enum status
netpolicy_patch(const json_t *policy, const json_t *rules, json_t **ret_policy,
		struct buf *why)
{
	json_t *to = json_array();
	enum status st = read_rules(rules, true, to, why);

	if (st == ST_OK)
		st = append_other(to, rules_of(policy));
	if (st == ST_OK)
		return policy_new(allows_by_default(policy), to, ret_policy);
	json_decref(to);
	return st;
}

static bool
is_listed(const json_t *targets, struct str target)
{
	const json_t *one;
	size_t i;

	json_array_foreach(targets, i, one)
	{
		if (str_ieq(brain_string(one), target))
			return true;
	}
	return false;
}

enum status
netpolicy_delete(const json_t *policy, const json_t *targets, json_t **ret_policy,
		 struct buf *why)
{
	const json_t *rule;
	size_t i;
	json_t *to;

	if (!json_is_array(targets) || json_array_size(targets) > NETPOLICY_RULES)
		return brain_bad(why, "the targets are no list");
	json_array_foreach(targets, i, rule)
	{
		if (!json_is_string(rule))
			return brain_bad(why, "a target is no text");
	}
	to = json_array();
	json_array_foreach(rules_of(policy), i, rule)
	{
		if (is_listed(targets, target_of(rule)))
			continue;
		if (json_array_append_new(to, json_deep_copy(rule)) != 0) {
			json_decref(to);
			return ST_NOMEM;
		}
	}
	return policy_new(allows_by_default(policy), to, ret_policy);
}

const char *
netpolicy_mode(const json_t *policy)
{
	if (json_array_size(rules_of(policy)) > 0)
		return "enforcing";
	return allows_by_default(policy) ? "allow_all" : "deny_all";
}

size_t
netpolicy_hosts(const json_t *policy, struct str *ret_hosts, size_t max)
{
	const json_t *rule;
	size_t i, n = 0;

	if (allows_by_default(policy) || json_array_size(rules_of(policy)) > max) {
		ret_hosts[0] = STR("*");
		return 1;
	}
	json_array_foreach(rules_of(policy), i, rule)
	{
		if (is_allow(rule))
			ret_hosts[n++] = target_of(rule);
	}
	return n;
}

void
netpolicy_put_narrow(struct buf *b, const json_t *policy)
{
	const json_t *rule;
	size_t i;

	buf_putf(b, "default %s\n", allows_by_default(policy) ? "allow" : "deny");
	json_array_foreach(rules_of(policy), i, rule)
	{
		buf_put(b, is_allow(rule) ? STR("allow ") : STR("deny "));
		buf_put(b, target_of(rule));
		buf_putc(b, '\n');
	}
}

/* The operator's. */

/* What a sidecar, which knows names only, must not let through by name. */
static bool
is_by_name(const json_t *rule)
{
	static const char *const finer[] = { "methods", "paths", "query", "connector" };

	for (size_t i = 0; i < COUNT_OF(finer); i++)
		if (json_object_get(rule, finer[i]) != NULL)
			return false;
	return true;
}

static void
add_targets(json_t *to, const json_t *rule, bool allow)
{
	static const char *const lists[] = { "hosts", "cidrs" };
	const json_t *one;
	size_t i;

	for (size_t k = 0; k < COUNT_OF(lists); k++) {
		json_array_foreach(json_object_get(rule, lists[k]), i, one)
		{
			json_t *made = rule_new(allow, brain_string(one));

			if (made != NULL)
				(void)json_array_append_new(to, made);
		}
	}
}

json_t *
netpolicy_of_image(const struct image *im, uint32_t policy)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	json_t *all, *to = json_array(), *ret = NULL;
	bool allows = false;
	const json_t *rule;
	size_t i;

	buf_init(&b, DESCRIBE_MAX);
	describe_policy(&b, im, policy);
	all = b.st == ST_OK ? json_loadb(b.p, b.len, 0, NULL) : NULL;
	json_array_foreach(json_object_get(all, "deny"), i, rule)
		add_targets(to, rule, false);
	json_array_foreach(json_object_get(all, "allow"), i, rule)
	{
		if (!is_by_name(rule))
			continue;
		add_targets(to, rule, true);
		allows = allows || json_is_true(json_object_get(rule, "any_host"));
	}
	json_decref(all);
	return policy_new(allows, to, &ret) == ST_OK ? ret : NULL;
}

bool
netpolicy_allows(const json_t *policy, struct str target)
{
	const json_t *rule;
	size_t i;

	json_array_foreach(rules_of(policy), i, rule)
	{
		struct str t = target_of(rule);

		if (covers(t, target))
			return is_allow(rule);
		/* A part of it is decided otherwise before. */
		if (!is_allow(rule) && covers(target, t))
			return false;
	}
	return allows_by_default(policy);
}

/* Where a rule of the caller and one of the operator's meet: the smaller one. */
static void
add_meeting(json_t *to, const json_t *operators, struct str target)
{
	const json_t *rule;
	size_t i;

	json_array_foreach(rules_of(operators), i, rule)
	{
		struct str t = target_of(rule);

		if (!is_allow(rule))
			continue;
		if (covers(t, target))
			(void)json_array_append_new(to, rule_new(true, target));
		else if (covers(target, t))
			(void)json_array_append_new(to, rule_new(true, t));
	}
}

static void
add_all(json_t *to, const json_t *operators, bool allow)
{
	const json_t *rule;
	size_t i;

	json_array_foreach(rules_of(operators), i, rule)
	{
		if (is_allow(rule) == allow)
			(void)json_array_append_new(to, json_deep_copy(rule));
	}
}

/* The operator's denials come first: in its policy they win, wherever they stand.  Then the
 * caller's rules in their order, allowing only where the operator does, and at the end what
 * the caller leaves to its default. */
json_t *
netpolicy_narrow(const json_t *operators, const json_t *policy)
{
	json_t *to = json_array(), *ret = NULL;
	bool allows = false;
	const json_t *rule;
	size_t i;

	add_all(to, operators, false);
	json_array_foreach(rules_of(policy), i, rule)
	{
		if (is_allow(rule) && !allows_by_default(operators))
			add_meeting(to, operators, target_of(rule));
		else
			(void)json_array_append_new(to, json_deep_copy(rule));
	}
	if (policy == NULL || allows_by_default(policy)) {
		add_all(to, operators, true);
		allows = allows_by_default(operators);
	}
	return policy_new(allows, to, &ret) == ST_OK ? ret : NULL;
}
