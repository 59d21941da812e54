/* The one place where an image's bytes are doubted; what passes here is read blindly.
 */
#include "conf/image_format.h"
#include "conf/option.h"
#include "conf/policy.h"
#include "conf/risk.h"

static size_t
count(const struct image *im, enum image_section s)
{
	size_t n;

	(void)image_table(im, s, &n);
	return n;
}

static bool
range_fits(const struct image *im, enum image_section s, uint32_t first, uint32_t n)
{
	size_t have = count(im, s);

	return first <= have && n <= have - first;
}

static bool
ref_fits(const struct image *im, struct image_ref r)
{
	return range_fits(im, IMAGE_STRINGS, r.offset, r.length);
}

static bool
addr_fits(const struct addr *a)
{
	return a->family == 4 || a->family == 6;
}

static bool
option_fits(const struct image_option *o, const struct option_row *row)
{
	switch (row->type) {
	case OPTION_NUMBER:
	case OPTION_DURATION:
	case OPTION_SIZE:
		return o->number >= row->least && o->number <= row->most;
	case OPTION_FLAG:
		return o->number <= 1;
	case OPTION_CHOICE:
		return o->number < option_choices(row);
	case OPTION_TEXT:
		return o->text.length <= row->most;
	}
	return false;
}

/* Bounds hold again here: the compiler that wrote the image met hostile text. */
static bool
options_fit(const struct image *im)
{
	size_t n;
	const struct image_option *o = image_table(im, IMAGE_OPTIONS, &n);

	if (n != OPT_COUNT)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!ref_fits(im, o[i].text) ||
		    !option_fits(&o[i], option_row((enum option)i)))
			return false;
	return true;
}

static bool
listeners_fit(const struct image *im)
{
	size_t n;
	const struct image_listener *l = image_table(im, IMAGE_LISTENERS, &n);

	for (size_t i = 0; i < n; i++)
		if (!ref_fits(im, l[i].name) || !addr_fits(&l[i].addr) ||
		    l[i].kind > LISTENER_OPENSANDBOX || l[i].port == 0 ||
		    !range_fits(im, IMAGE_WORDS, l[i].names, l[i].names_n) ||
		    l[i].names_n > LISTENER_NAMES_MAX || !ref_fits(im, l[i].sandbox))
			return false;
	return true;
}

static bool
admins_fit(const struct image *im)
{
	size_t n;
	const struct image_admin *a = image_table(im, IMAGE_ADMINS, &n);

	for (size_t i = 0; i < n; i++)
		if (!ref_fits(im, a[i].name) || a[i].role >= ADMIN_ROLES ||
		    a[i].has_uid > 1)
			return false;
	return true;
}

static bool
sandboxes_fit(const struct image *im)
{
	size_t n, sources_n;
	const struct image_sandbox *s = image_table(im, IMAGE_SANDBOXES, &n);
	const struct image_source *sources = image_table(im, IMAGE_SOURCES, &sources_n);

	for (size_t i = 0; i < n; i++) {
		if (!ref_fits(im, s[i].id) || !ref_fits(im, s[i].user) ||
		    !ref_fits(im, s[i].agent) || !ref_fits(im, s[i].session) ||
		    !ref_fits(im, s[i].tenant) || !ref_fits(im, s[i].token) ||
		    !range_fits(im, IMAGE_ADDRS, s[i].sources, s[i].sources_n))
			return false;
		if ((s[i].policy != POLICY_NONE &&
		     s[i].policy >= count(im, IMAGE_POLICIES)) ||
		    s[i].limits >= count(im, IMAGE_LIMITS))
			return false;
	}
	for (size_t i = 0; i < sources_n; i++)
		if (sources[i].sandbox >= n || !addr_fits(&sources[i].addr))
			return false;
	return count(im, IMAGE_LIMITS) > 0;
}

static bool
policies_fit(const struct image *im)
{
	size_t n;
	const struct image_policy *p = image_table(im, IMAGE_POLICIES, &n);

	for (size_t i = 0; i < n; i++)
		if (!ref_fits(im, p[i].name) ||
		    !range_fits(im, IMAGE_RULES, p[i].rules, p[i].rules_n) ||
		    p[i].loose_n > p[i].rules_n)
			return false;
	return true;
}

static bool
rules_fit(const struct image *im)
{
	size_t n;
	const struct image_rule *r = image_table(im, IMAGE_RULES, &n);

	for (const struct image_rule *end = r + n; r < end; r++)
		if (r->policy >= count(im, IMAGE_POLICIES) || !ref_fits(im, r->file) ||
		    (r->connector != CONNECTOR_NONE &&
		     r->connector >= count(im, IMAGE_CONNECTORS)) ||
		    !range_fits(im, IMAGE_WORDS, r->query, r->query_n) ||
		    !range_fits(im, IMAGE_PATTERNS, r->hosts, r->hosts_n) ||
		    !range_fits(im, IMAGE_PORTS, r->ports, r->ports_n) ||
		    r->approval > APPROVAL_FIRST || r->is_any_host > 1 ||
		    !range_fits(im, IMAGE_CIDRS, r->cidrs, r->cidrs_n) ||
		    !range_fits(im, IMAGE_WORDS, r->methods, r->methods_n) ||
		    !range_fits(im, IMAGE_WORDS, r->paths, r->paths_n) ||
		    !range_fits(im, IMAGE_CIDRS, r->addresses, r->addresses_n) ||
		    !range_fits(im, IMAGE_COUNTRIES, r->countries, r->countries_n) ||
		    !range_fits(im, IMAGE_ASNS, r->asns, r->asns_n))
			return false;
	return true;
}

static bool
auth_fits(const struct image *im, const struct image_auth *a)
{
	const struct image_ref refs[] = {
		a->secret,     a->client_secret, a->session_token, a->certificate,
		a->user,       a->name,          a->prefix,        a->token_url,
		a->token_host, a->client_id,     a->audience,      a->issuer,
		a->subject,    a->key_id,        a->scopes,        a->region,
		a->service,    a->assume_role,   a->external_id,   a->session_name,
		a->message,    a->timestamp,     a->placeholder,   a->env,
	};

	for (size_t i = 0; i < COUNT_OF(refs); i++)
		if (!ref_fits(im, refs[i]))
			return false;
	return a->kind < AUTH_KINDS && a->algorithm <= AUTH_ES256 &&
	       a->encoding <= AUTH_BASE64 && a->style <= AUTH_STYLE_POST &&
	       a->exchange <= AUTH_EXCHANGE_NONE && a->is_delegated <= 1 &&
	       (a->token_host.length > 0) == (a->token_port > 0);
}

static bool
connector_fits(const struct image *im, const struct image_connector *c)
{
	return ref_fits(im, c->name) && ref_fits(im, c->tenant) &&
	       ref_fits(im, c->group) && c->group.length > 0 && ref_fits(im, c->file) &&
	       ref_fits(im, c->upstream_host) &&
	       (c->upstream_host.length > 0) == (c->upstream_port > 0) &&
	       c->upstream_http <= UPSTREAM_HTTP_2 && c->is_listed <= 1 &&
	       c->approval < APPROVAL_WHENS &&
	       range_fits(im, IMAGE_PATTERNS, c->hosts, c->hosts_n) &&
	       range_fits(im, IMAGE_PORTS, c->ports, c->ports_n) && c->ports_n > 0 &&
	       range_fits(im, IMAGE_CIDRS, c->addresses, c->addresses_n) &&
	       range_fits(im, IMAGE_WORDS, c->users, c->users_n) &&
	       range_fits(im, IMAGE_HEADERS, c->request_add, c->request_add_n) &&
	       range_fits(im, IMAGE_HEADERS, c->response_add, c->response_add_n) &&
	       range_fits(im, IMAGE_WORDS, c->request_strip, c->request_strip_n) &&
	       range_fits(im, IMAGE_WORDS, c->response_strip, c->response_strip_n) &&
	       auth_fits(im, &c->auth);
}

static bool
connectors_fit(const struct image *im)
{
	size_t n, headers_n;
	const struct image_connector *c = image_table(im, IMAGE_CONNECTORS, &n);
	const struct image_header_line *h = image_table(im, IMAGE_HEADERS, &headers_n);

	for (size_t i = 0; i < n; i++)
		if (!connector_fits(im, &c[i]))
			return false;
	for (size_t i = 0; i < headers_n; i++)
		if (!ref_fits(im, h[i].name) || !ref_fits(im, h[i].value))
			return false;
	return true;
}

static bool
stores_fit(const struct image *im)
{
	size_t n, items_n;
	const struct image_store *s = image_table(im, IMAGE_STORES, &n);
	const struct image_store_item *it =
		image_table(im, IMAGE_STORE_ITEMS, &items_n);

	for (size_t i = 0; i < n; i++)
		if (!ref_fits(im, s[i].name) || !ref_fits(im, s[i].login_mount) ||
		    !ref_fits(im, s[i].role) || !ref_fits(im, s[i].space) ||
		    s[i].connector >= count(im, IMAGE_CONNECTORS) ||
		    s[i].login >= STORE_LOGINS || s[i].refresh_ms == 0 ||
		    !range_fits(im, IMAGE_STORE_ITEMS, s[i].items, s[i].items_n))
			return false;
	for (size_t i = 0; i < items_n; i++)
		if (!ref_fits(im, it[i].name) || !ref_fits(im, it[i].mount) ||
		    !ref_fits(im, it[i].path) || !ref_fits(im, it[i].field) ||
		    it[i].store >= n)
			return false;
	return true;
}

static bool
words_fit(const struct image *im)
{
	size_t words_n, patterns_n, cidrs_n;
	const struct image_ref *w = image_table(im, IMAGE_WORDS, &words_n);
	const struct image_pattern *p = image_table(im, IMAGE_PATTERNS, &patterns_n);
	const struct cidr *c = image_table(im, IMAGE_CIDRS, &cidrs_n);

	for (size_t i = 0; i < words_n; i++)
		if (!ref_fits(im, w[i]))
			return false;
	for (size_t i = 0; i < patterns_n; i++)
		if (!ref_fits(im, p[i].name))
			return false;
	for (size_t i = 0; i < cidrs_n; i++)
		if (!addr_fits(&c[i].net) ||
		    c[i].bits > (c[i].net.family == 4 ? 32 : 128))
			return false;
	return true;
}

static bool
names_fit(const struct image *im)
{
	size_t n, addrs_n, servers_n;
	const struct image_name *m = image_table(im, IMAGE_NAMES, &n);
	const struct addr *a = image_table(im, IMAGE_ADDRS, &addrs_n);
	const struct image_server *s = image_table(im, IMAGE_RESOLVERS, &servers_n);

	for (size_t i = 0; i < n; i++)
		if (!ref_fits(im, m[i].name) ||
		    !range_fits(im, IMAGE_ADDRS, m[i].addrs, m[i].addrs_n))
			return false;
	for (size_t i = 0; i < addrs_n; i++)
		if (!addr_fits(&a[i]))
			return false;
	for (size_t i = 0; i < servers_n; i++)
		if (!addr_fits(&s[i].addr) || s[i].port == 0)
			return false;
	return true;
}

static bool
slots_fit(const struct image *im)
{
	size_t n, postings_n;
	const struct image_slot *s = image_table(im, IMAGE_SLOTS, &n);
	const uint32_t *p = image_table(im, IMAGE_POSTINGS, &postings_n);

	if (n == 0 || (n & (n - 1)) != 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (s[i].state > SLOT_WILD || !ref_fits(im, s[i].name) ||
		    !range_fits(im, IMAGE_POSTINGS, s[i].first, s[i].n))
			return false;
	for (size_t i = 0; i < postings_n; i++)
		if (p[i] >= count(im, IMAGE_RULES))
			return false;
	return true;
}

static bool
risk_fits(const struct image *im, const struct image_risk *r)
{
	size_t words_n;
	const struct image_ref *words = image_table(im, IMAGE_WORDS, &words_n);

	if (!ref_fits(im, r->why) || !ref_fits(im, r->file) || r->level > RISK_HIGH)
		return false;
	for (size_t i = 0; i < IMAGE_CONDS; i++) {
		if (!range_fits(im, IMAGE_WORDS, r->cond[i].first, r->cond[i].n))
			return false;
		for (uint32_t k = 0; k < r->cond[i].n; k++)
			if (words[r->cond[i].first + k].length > RISK_PATTERN_MAX)
				return false;
	}
	return true;
}

static bool
risks_fit(const struct image *im)
{
	size_t n;
	const struct image_risk *r = image_table(im, IMAGE_RISKS, &n);

	for (size_t i = 0; i < n; i++)
		if (!risk_fits(im, &r[i]))
			return false;
	return true;
}

static bool
pairs_fit(const struct image *im, uint32_t first, uint32_t n)
{
	return n % 2 == 0 && range_fits(im, IMAGE_WORDS, first, n);
}

static bool
connector_is_there(const struct image *im, uint32_t connector)
{
	return connector == CONNECTOR_NONE || connector < count(im, IMAGE_CONNECTORS);
}

static bool
exec_lists_fit(const struct image *im)
{
	const struct image_exec *e = image_exec(im);

	return range_fits(im, IMAGE_WORDS, e->images, e->images_n) &&
	       range_fits(im, IMAGE_WORDS, e->volumes, e->volumes_n) &&
	       pairs_fit(im, e->labels, e->labels_n) &&
	       range_fits(im, IMAGE_WORDS, e->env_deny, e->env_deny_n) &&
	       range_fits(im, IMAGE_PORTS, e->login_ports, e->login_ports_n) &&
	       connector_is_there(im, e->webhook) &&
	       (e->policy == POLICY_NONE || e->policy < count(im, IMAGE_POLICIES));
}

static bool
exec_servers_fit(const struct image *im)
{
	size_t n;
	const struct image_exec_server *s = image_exec_servers(im, &n);

	for (size_t i = 0; i < n; i++)
		if (!ref_fits(im, s[i].name) || !ref_fits(im, s[i].network) ||
		    !ref_fits(im, s[i].ca_file) ||
		    s[i].connector >= count(im, IMAGE_CONNECTORS) || s[i].weight == 0 ||
		    s[i].tier >= EXEC_TIERS ||
		    !range_fits(im, IMAGE_CIDRS, s[i].endpoints, s[i].endpoints_n))
			return false;
	return true;
}

static bool
placements_fit(const struct image *im)
{
	size_t n;
	const struct image_exec_placement *p = image_exec_placements(im, &n);

	for (const struct image_exec_placement *end = p + n; p < end; p++)
		if (!ref_fits(im, p->file) || p->tier >= EXEC_TIERS ||
		    p->risk > RISK_HIGH || p->needs_volumes > 1 ||
		    !range_fits(im, IMAGE_WORDS, p->images, p->images_n) ||
		    !range_fits(im, IMAGE_WORDS, p->entrypoints, p->entrypoints_n) ||
		    !range_fits(im, IMAGE_WORDS, p->agents, p->agents_n) ||
		    !range_fits(im, IMAGE_WORDS, p->users, p->users_n) ||
		    !pairs_fit(im, p->labels, p->labels_n) ||
		    !range_fits(im, IMAGE_WORDS, p->hosts, p->hosts_n))
			return false;
	return true;
}

static bool
warms_fit(const struct image *im)
{
	size_t n;
	const struct image_exec_warm *w = image_exec_warms(im, &n);

	for (size_t i = 0; i < n; i++)
		if (!ref_fits(im, w[i].name) || !ref_fits(im, w[i].image) ||
		    w[i].tier >= EXEC_TIERS || w[i].size > EXEC_WARM_MAX ||
		    !range_fits(im, IMAGE_WORDS, w[i].entrypoint, w[i].entrypoint_n) ||
		    !pairs_fit(im, w[i].env, w[i].env_n) ||
		    !pairs_fit(im, w[i].limits, w[i].limits_n))
			return false;
	return true;
}

static bool
jwts_fit(const struct image *im)
{
	size_t n;
	const struct image_exec_jwt *j = image_exec_jwts(im, &n);

	for (size_t i = 0; i < n; i++)
		if (!ref_fits(im, j[i].issuer) || !ref_fits(im, j[i].audience) ||
		    !ref_fits(im, j[i].jwks) || !ref_fits(im, j[i].jwks_path) ||
		    !ref_fits(im, j[i].user_claim) || !ref_fits(im, j[i].agent_claim) ||
		    !ref_fits(im, j[i].tenant) || j[i].may_delegate > 1 ||
		    j[i].scopes > EXEC_SCOPES_ALL || j[i].issuer.length == 0 ||
		    !connector_is_there(im, j[i].jwks_connector) ||
		    /* keys come from one place */
		    (j[i].jwks.length > 0) != (j[i].jwks_connector == CONNECTOR_NONE))
			return false;
	return true;
}

static bool
execs_fit(const struct image *im)
{
	return exec_lists_fit(im) && exec_servers_fit(im) && placements_fit(im) &&
	       warms_fit(im) && jwts_fit(im);
}

enum status
image_check(const struct image *im)
{
	bool fits = options_fit(im) && listeners_fit(im) && admins_fit(im) &&
		    sandboxes_fit(im) && policies_fit(im) && rules_fit(im) &&
		    words_fit(im) && names_fit(im) && slots_fit(im) &&
		    connectors_fit(im) && stores_fit(im) && risks_fit(im) &&
		    execs_fit(im);

	return fits ? ST_OK : ST_BAD_MESSAGE;
}
