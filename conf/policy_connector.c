/* What a connector may dial, and who may use it. */
#include "conf/policy.h"
#include "conf/policy_rule.h"

static const struct image_connector *
connector_at(const struct image *im, uint32_t index)
{
	size_t n;
	const struct image_connector *c = image_connectors(im, &n);

	return index < n ? &c[index] : NULL;
}

/* A reference to a host as dest_put_host() wrote it. */
static bool
is_host(const struct image *im, struct image_ref host, uint16_t port,
	const struct dest *d)
{
	struct dest have;

	return host.length > 0 && port == d->port &&
	       dest_from_authority(image_str(im, host), port, &have) == ST_OK &&
	       dest_same_host(&have, d);
}

static bool
is_single_host(const struct image *im, struct image_ref host, uint16_t port,
	       const struct dest *d)
{
	return port == d->port && dest_is_name(d) &&
	       str_eq(image_str(im, host), dest_name(d));
}

static bool
pattern_covers(const struct image *im, const struct image_pattern *p, struct str name)
{
	struct str tail = image_str(im, p->name);

	if (!p->is_wild)
		return str_eq(tail, name);
	return name.n > tail.n + 1 && str_ends(name, tail) &&
	       name.p[name.n - tail.n - 1] == '.';
}

static bool
covers(const struct image *im, const struct image_connector *c, const struct dest *d)
{
	const struct image_rule ports = { .ports = c->ports, .ports_n = c->ports_n };
	size_t n;
	const struct image_pattern *p = image_table(im, IMAGE_PATTERNS, &n);

	if (!dest_is_name(d) || !policy_port_fits(im, &ports, d->port))
		return false;
	for (uint32_t i = c->hosts; i < c->hosts + c->hosts_n; i++)
		if (pattern_covers(im, &p[i], dest_name(d)))
			return true;
	return false;
}

/* Is it the connector's own business: its upstream, or where it gets its tokens? */
static bool
is_own(const struct image *im, const struct image_connector *c, const struct dest *d)
{
	return is_host(im, c->upstream_host, c->upstream_port, d) ||
	       is_single_host(im, c->upstream_host, c->upstream_port, d) ||
	       is_host(im, c->auth.token_host, c->auth.token_port, d) ||
	       is_single_host(im, c->auth.token_host, c->auth.token_port, d);
}

enum status
policy_fetch(const struct image *im, uint32_t connector, const struct dest *d)
{
	const struct image_connector *c = connector_at(im, connector);

	if (c == NULL)
		return ST_DENIED;
	if (is_own(im, c, d))
		return ST_OK;
	return c->upstream_host.length == 0 && covers(im, c, d) ? ST_OK : ST_DENIED;
}

struct denial {
	const struct image *im;
	const struct dest *dest;
	const struct policy_place *place;
	bool is_public, is_found;
};

/* A private address has no country; of a public one not knowing means denying. */
static bool
place_fits(const struct denial *d, const struct image_rule *r)
{
	if (!policy_rule_places(r))
		return true;
	if (!d->is_public)
		return false;
	if ((r->countries_n > 0 && d->place->country[0] == '\0') ||
	    (r->asns_n > 0 && d->place->asn == 0))
		return true;
	return (r->countries_n == 0 ||
		policy_country_is_listed(d->im, r, d->place->country)) &&
	       (r->asns_n == 0 || policy_asn_is_listed(d->im, r, d->place->asn));
}

static void
hear_deny(void *ctx, uint32_t index, const struct image_rule *r)
{
	struct denial *d = ctx;

	(void)index;
	if (r->is_deny && !policy_rule_reads(r) &&
	    policy_port_fits(d->im, r, d->dest->port) && place_fits(d, r))
		d->is_found = true;
}

enum status
policy_fetch_address(const struct image *im, uint32_t connector, struct mandate may,
		     const struct dest *d, const struct policy_place *place)
{
	const struct image_connector *c = connector_at(im, connector);
	struct addr bare = addr_unwrap(place->addr);
	enum addr_class class = addr_classify(place->addr);
	struct denial denial = { im, d, place, class == ADDR_PUBLIC, false };

	if (class == ADDR_METADATA)
		return ST_ADDRESS_METADATA;
	enum status st = policy_fetch(im, connector, d);
	if (st != ST_OK)
		return st;
	if (may.policy != POLICY_NONE)
		policy_each_rule(im, may.policy, d, &bare, hear_deny, &denial);
	if (denial.is_found)
		return ST_DENIED_RULE;
	st = narrow_judge_fetch(may.narrow, d, place->addr);
	if (st != ST_OK)
		return st;
	if (class != ADDR_PUBLIC &&
	    !policy_cidrs_have(im, c->addresses, c->addresses_n, &bare, true))
		return ST_ADDRESS_PRIVATE;
	return ST_OK;
}

static bool
lists(const struct image *im, uint32_t policy, uint32_t connector)
{
	size_t policies_n, rules_n;
	const struct image_policy *p = image_policies(im, &policies_n);
	const struct image_rule *r = image_rules(im, &rules_n);

	if (policy >= policies_n)
		return false;
	for (uint32_t i = p[policy].rules; i < p[policy].rules + p[policy].rules_n; i++)
		if (r[i].connector == connector)
			return true;
	return false;
}

bool
policy_may_use(const struct image *im, uint32_t connector, uint32_t policy,
	       struct str tenant, struct str user)
{
	const struct image_connector *c = connector_at(im, connector);

	if (c == NULL || !lists(im, policy, connector))
		return false;
	if (c->tenant.length > 0 && !str_eq(image_str(im, c->tenant), tenant))
		return false;
	if (c->auth.is_delegated && user.n == 0)
		return false;
	for (uint32_t i = 0; i < c->users_n; i++)
		if (str_eq(image_word(im, c->users + i), user))
			return true;
	return c->users_n == 0;
}

bool
policy_may_call(const struct image *im, uint32_t connector)
{
	size_t n;
	const struct image_exec_jwt *jwt = image_exec_jwts(im, &n);

	if (connector_at(im, connector) == NULL)
		return false;
	for (size_t i = 0; i < n; i++)
		if (jwt[i].jwks_connector == connector)
			return true;
	return image_exec(im)->webhook == connector ||
	       image_exec_server_of(im, connector) != NULL;
}

enum status
policy_upstream(const struct image *im, uint32_t connector, struct dest *ret_d)
{
	const struct image_connector *c = connector_at(im, connector);
	size_t n;
	const struct image_pattern *p = image_table(im, IMAGE_PATTERNS, &n);
	const struct image_ports *ports = image_table(im, IMAGE_PORTS, &n);

	if (c == NULL || c->ports_n == 0)
		return ST_NOT_FOUND;
	uint16_t port = c->upstream_port != 0 ? c->upstream_port : ports[c->ports].low;
	if (c->upstream_host.length > 0) {
		struct str host = image_str(im, c->upstream_host);
		/* An address in brackets, or a name, maybe of one label. */
		return str_starts(host, STR("["))
			       ? dest_from_authority(host, port, ret_d)
			       : dest_from_host_single(host, port, ret_d);
	}
	for (uint32_t i = c->hosts; i < c->hosts + c->hosts_n; i++)
		if (!p[i].is_wild)
			return dest_from_host_single(image_str(im, p[i].name), port,
						     ret_d);
	return ST_NOT_FOUND;
}
