#include "conf/exec.h"

#include "conf/image_format.h"
#include "conf/policy.h"
#include "conf/policy_rule.h"

/* A folded name that begins so steers a part of OpenSandbox, wherever it ends up. */
static const char *const own_variables[] = {
	"opensandbox",  /* server, execd and sidecar read their settings there */
	"open_sandbox", /* SDKs within the sandbox */
	"execd",        /* its path, its variables, the script that runs before it */
	"bootstrap_",   /* the script that starts everything */
	"sandgate",     /* ours */
};

typedef bool (*match_fn)(struct str pattern, struct str text);

static bool
one_fits(const struct image *im, uint32_t first, uint32_t n, struct str text,
	 match_fn match)
{
	for (uint32_t i = first; i < first + n; i++)
		if (match(image_word(im, i), text))
			return true;
	return false;
}

/* A list without entries is no condition. */
static bool
list_fits(const struct image *im, uint32_t first, uint32_t n, struct str text)
{
	return n == 0 || one_fits(im, first, n, text, policy_text_matches);
}

/* Names are no globs. */
static bool
name_fits(const struct image *im, uint32_t first, uint32_t n, struct str name)
{
	return n == 0 || one_fits(im, first, n, name, str_eq);
}

static bool
has_label(const struct exec_shape *s, struct str key, struct str value)
{
	for (size_t i = 0; i < s->labels_n; i++)
		if (str_eq(s->labels[i].key, key) && str_eq(s->labels[i].value, value))
			return true;
	return false;
}

static bool
labels_fit(const struct image *im, const struct image_exec_placement *p,
	   const struct exec_shape *s)
{
	for (uint32_t i = p->labels; i < p->labels + p->labels_n; i += 2)
		if (!has_label(s, image_word(im, i), image_word(im, i + 1)))
			return false;
	return true;
}

/* A wish is a pattern itself: what it covers counts, not how it is spelled. */
static bool
hosts_fit(const struct image *im, const struct image_exec_placement *p,
	  const struct exec_shape *s)
{
	for (size_t i = 0; i < s->hosts_n && p->hosts_n > 0; i++)
		if (one_fits(im, p->hosts, p->hosts_n, s->hosts[i], policy_hosts_meet))
			return true;
	return p->hosts_n == 0;
}

static bool
rule_fits(const struct image *im, const struct image_exec_placement *p,
	  const struct exec_shape *s)
{
	return list_fits(im, p->images, p->images_n, s->image) &&
	       list_fits(im, p->entrypoints, p->entrypoints_n, s->entrypoint) &&
	       name_fits(im, p->agents, p->agents_n, s->agent) &&
	       name_fits(im, p->users, p->users_n, s->user) && labels_fit(im, p, s) &&
	       hosts_fit(im, p, s) && (!p->needs_volumes || s->has_volumes) &&
	       (p->memory_over == 0 || s->memory > p->memory_over) &&
	       (p->cpu_over == 0 || s->cpu_milli > p->cpu_over) &&
	       (uint8_t)s->risk >= p->risk;
}

static enum exec_tier
weakest(const struct image *im)
{
	size_t n;
	const struct image_exec_server *s = image_exec_servers(im, &n);
	uint8_t tier = EXEC_TIER_HIGH;

	for (size_t i = 0; i < n; i++)
		if (s[i].tier < tier)
			tier = s[i].tier;
	return (enum exec_tier)tier;
}

struct exec_placing
exec_place_tier(const struct image *im, const struct exec_shape *s)
{
	size_t n;
	const struct image_exec_placement *p = image_exec_placements(im, &n);

	for (size_t i = 0; i < n; i++)
		if (rule_fits(im, &p[i], s))
			return (struct exec_placing){ (enum exec_tier)p[i].tier,
						      (uint32_t)i };
	return (struct exec_placing){ weakest(im), EXEC_NO_RULE };
}

const char *
exec_tier_word(enum exec_tier t)
{
	return t == EXEC_TIER_HIGH ? "high" : "standard";
}

void
exec_put_placing(struct buf *b, const struct image *im, const struct exec_placing *p)
{
	size_t n;
	const struct image_exec_placement *all = image_exec_placements(im, &n);

	if (p->rule < n) {
		buf_put(b, image_str(im, all[p->rule].file));
		buf_putf(b, ":%u: ", all[p->rule].line);
	}
	buf_putf(b, "tier %s", exec_tier_word(p->tier));
}

bool
exec_needs_approval(const struct image *im, enum risk_level level)
{
	static const enum risk_level from[] = { RISK_LEVELS, RISK_HIGH, RISK_MEDIUM };
	uint64_t which = image_number(im, OPT_EXEC_APPROVAL);

	need(which < COUNT_OF(from));
	return level >= from[which];
}

static bool
is_printable(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] >= 0x7f)
			return false;
	return s.n > 0;
}

bool
exec_image_allowed(const struct image *im, struct str uri)
{
	const struct image_exec *e = image_exec(im);

	return is_printable(uri) && list_fits(im, e->images, e->images_n, uri);
}

static bool
is_plain_path(struct str path)
{
	if (!str_starts(path, STR("/")))
		return false;
	for (size_t i = 0; i < path.n; i++)
		if ((unsigned char)path.p[i] < ' ' || path.p[i] == 0x7f)
			return false;
	path = str_skip(path, 1);
	while (path.p != NULL) {
		struct str part = str_cut(&path, '/');
		if (str_eq(part, STR(".")) || str_eq(part, STR("..")) ||
		    (part.n == 0 && path.p != NULL))
			return false;
	}
	return true;
}

bool
exec_volume_allowed(const struct image *im, enum exec_volume kind, struct str what)
{
	const struct image_exec *e = image_exec(im);
	bool is_claim = kind == EXEC_VOLUME_CLAIM;

	if (is_claim ? !is_printable(what) : !is_plain_path(what))
		return false;
	for (uint32_t i = e->volumes; i < e->volumes + e->volumes_n; i++) {
		struct str glob = image_word(im, i);
		bool of_claims = str_starts(glob, STR("pvc:"));
		if (of_claims != is_claim)
			continue;
		if (is_claim ? policy_text_matches(str_skip(glob, 4), what)
			     : policy_file_matches(glob, what))
			return true;
	}
	return false;
}

static bool
starts_folded(struct str s, struct str prefix)
{
	return s.n >= prefix.n && str_ieq(str_head(s, prefix.n), prefix);
}

/* NAME=VALUE is how they travel: a name with '=' in it is another name. */
static bool
is_variable(struct str name)
{
	return is_printable(name) && !str_has(name, '=');
}

bool
exec_env_is_own(struct str name)
{
	if (!is_variable(name))
		return true;
	for (size_t i = 0; i < COUNT_OF(own_variables); i++)
		if (starts_folded(name, str_from(own_variables[i])))
			return true;
	return false;
}

bool
exec_env_denied(const struct image *im, struct str name)
{
	const struct image_exec *e = image_exec(im);

	return exec_env_is_own(name) ||
	       one_fits(im, e->env_deny, e->env_deny_n, name, policy_text_matches);
}

bool
exec_endpoint_allowed(const struct image *im, const struct image_exec_server *s,
		      const struct addr *a)
{
	struct addr bare = addr_unwrap(a);

	return addr_classify(a) != ADDR_METADATA &&
	       policy_cidrs_have(im, s->endpoints, s->endpoints_n, &bare, true);
}

bool
exec_login_goes_on(const struct image *im, uint16_t port)
{
	const struct image_exec *e = image_exec(im);
	size_t n;
	const struct image_ports *p = image_table(im, IMAGE_PORTS, &n);

	for (uint32_t i = e->login_ports; i < e->login_ports + e->login_ports_n; i++)
		if (p[i].low <= port && port <= p[i].high)
			return true;
	return false;
}
