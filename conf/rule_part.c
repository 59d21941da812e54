#include "conf/rule_part.h"

#include <string.h>

#include "conf/host.h"
#include "conf/policy.h"
#include "conf/value.h"
#include "proxy/base/num.h"

enum {
	METHOD_MAX = 32,
	PATH_MAX_LEN = 1024,
	QUERY_MAX = 128,
	NARROW_4 = 8,
	NARROW_6 = 7
};

static void
on_host(struct build *b, const struct node *n, void *ctx)
{
	struct rule_context *c = ctx;
	const struct host_wish wish = {
		.may_be_single = c->rule.connector != CONNECTOR_NONE,
		.may_be_shared = c->is_shared_suffix_asked || c->rule.is_deny
	};
	struct host_pattern h;

	if (!host_parse(b->arena, b->report, n, &wish, &h))
		return;
	struct image_pattern p = { .name = draft_str(b->draft, h.name),
				   .is_wild = h.is_wild };
	(void)draft_add(b->draft, IMAGE_PATTERNS, &p);
	if (h.is_shared)
		c->rule.is_shared_suffix = true;
}

void
rule_part_hosts(struct build *b, const struct node *n, void *ctx)
{
	struct rule_context *c = ctx;

	c->has_hosts = true;
	build_list(b, n, c, (struct build_part){ IMAGE_PATTERNS, on_host },
		   &c->rule.hosts, &c->rule.hosts_n);
}

/* A range inside that of a metadata service, or one of it and little else. */
static bool
is_metadata(const struct cidr *c)
{
	struct addr link_local = { .family = 4, .b = { 169, 254, 169, 254 } };

	return addr_classify(&c->net) == ADDR_METADATA ||
	       (c->net.family == 4 && c->bits >= 16 && cidr_has(c, &link_local));
}

static bool
parse_cidr(struct build *b, const struct node *n, struct cidr *ret_c)
{
	if (!value_cidr(b->report, n, ret_c))
		return false;
	if (!is_metadata(ret_c))
		return true;
	report_error(b->report, n->at,
		     "%.*s covers a cloud metadata service, which is never reachable",
		     STR_ARG(n->text));
	return false;
}

static void
on_cidr(struct build *b, const struct node *n, void *ctx)
{
	struct rule_context *c = ctx;
	struct cidr cidr;
	bool ok = c->rule.is_deny ? value_cidr(b->report, n, &cidr)
				  : parse_cidr(b, n, &cidr);

	if (ok)
		(void)draft_add(b->draft, IMAGE_CIDRS, &cidr);
}

void
rule_part_cidrs(struct build *b, const struct node *n, void *ctx)
{
	struct rule_context *c = ctx;

	c->has_cidrs = true;
	build_list(b, n, c, (struct build_part){ IMAGE_CIDRS, on_cidr }, &c->rule.cidrs,
		   &c->rule.cidrs_n);
}

static void
on_address(struct build *b, const struct node *n, void *ctx)
{
	struct cidr cidr;

	(void)ctx;
	if (!parse_cidr(b, n, &cidr))
		return;
	if (cidr.bits < (cidr.net.family == 4 ? NARROW_4 : NARROW_6)) {
		report_error(b->report, n->at,
			     "%.*s is too wide: name the private range that is meant "
			     "(public addresses need no entry)",
			     STR_ARG(n->text));
		return;
	}
	(void)draft_add(b->draft, IMAGE_CIDRS, &cidr);
}

void
rule_part_addresses(struct build *b, const struct node *n, void *ctx)
{
	struct rule_context *c = ctx;

	build_list(b, n, c, (struct build_part){ IMAGE_CIDRS, on_address },
		   &c->rule.addresses, &c->rule.addresses_n);
}

static void
on_port(struct build *b, const struct node *n, void *ctx)
{
	struct image_ports p;

	(void)ctx;
	if (value_ports(b->report, n, &p.low, &p.high))
		(void)draft_add(b->draft, IMAGE_PORTS, &p);
}

void
rule_part_ports(struct build *b, const struct node *n, void *ctx)
{
	struct rule_context *c = ctx;

	c->ports = n;
	build_list(b, n, c, (struct build_part){ IMAGE_PORTS, on_port }, &c->rule.ports,
		   &c->rule.ports_n);
}

static const char known_methods[] = "GET|HEAD|POST|PUT|DELETE|PATCH|OPTIONS";

/* Methods are case-sensitive (RFC 9110 section 9.1), and none in use has small letters:
 * `get` would never match. */
static bool
is_method(struct str s)
{
	bool ok = s.n > 0 && s.n <= METHOD_MAX;

	for (size_t i = 0; ok && i < s.n; i++)
		ok = (s.p[i] >= 'A' && s.p[i] <= 'Z') || s.p[i] == '-' || s.p[i] == '_';
	return ok;
}

static void
on_method(struct build *b, const struct node *n, void *ctx)
{
	struct str s;

	(void)ctx;
	if (!value_text(b->report, n, &s))
		return;
	if (str_eq(s, STR("CONNECT")) || str_eq(s, STR("TRACE"))) {
		report_error(b->report, n->at, "%.*s is never forwarded", STR_ARG(s));
		return;
	}
	if (is_method(s)) {
		build_word(b, s);
		return;
	}
	struct str near = report_nearest(s, STR(known_methods));
	if (near.p != NULL)
		report_error(b->report, n->at,
			     "`%.*s` is not a method; did you mean %.*s?", STR_ARG(s),
			     STR_ARG(near));
	else
		report_error(b->report, n->at, "`%.*s` is not a method", STR_ARG(s));
}

void
rule_part_methods(struct build *b, const struct node *n, void *ctx)
{
	struct rule_context *c = ctx;

	build_list(b, n, c, (struct build_part){ IMAGE_WORDS, on_method },
		   &c->rule.methods, &c->rule.methods_n);
}

static const char *
path_fault(struct str path)
{
	struct str rest = path;

	if (!str_starts(path, STR("/")))
		return "a path starts with `/`";
	if (path.n > PATH_MAX_LEN)
		return "longer than 1024 bytes";
	for (size_t i = 0; i < path.n; i++)
		if (path.p[i] <= ' ' || path.p[i] >= 0x7f || path.p[i] == '?' ||
		    path.p[i] == '#')
			return "only the path: no query, blank or byte outside ASCII "
			       "(write %XX)";
	while (rest.p != NULL) {
		struct str segment = str_cut(&rest, '/');
		if (str_eq(segment, STR(".")) || str_eq(segment, STR("..")))
			return "`.` and `..` never reach a rule: such requests are "
			       "refused";
		bool has_stars = memmem(segment.p, segment.n, "**", 2) != NULL;
		if (segment.n > 2 && has_stars)
			return "`**` must be a whole segment";
	}
	return NULL;
}

static void
on_path(struct build *b, const struct node *n, void *ctx)
{
	struct str s;

	(void)ctx;
	if (!value_text(b->report, n, &s))
		return;
	const char *fault = path_fault(s);
	if (fault != NULL)
		report_error(b->report, n->at, "`%.*s`: %s", STR_ARG(s), fault);
	else
		build_word(b, s);
}

void
rule_part_paths(struct build *b, const struct node *n, void *ctx)
{
	struct rule_context *c = ctx;

	build_list(b, n, c, (struct build_part){ IMAGE_WORDS, on_path }, &c->rule.paths,
		   &c->rule.paths_n);
}

/* A key as it is after decoding: matched against decoded keys. */
static void
on_query(struct build *b, const struct node *n, void *ctx)
{
	struct str s;

	(void)ctx;
	if (!value_text(b->report, n, &s))
		return;
	if (s.n > QUERY_MAX || str_has(s, '=') || str_has(s, '&'))
		report_error(b->report, n->at,
			     "`%.*s` is not the key of a query parameter: at most 128 "
			     "bytes, without `=` and `&`",
			     STR_ARG(s));
	else
		build_word(b, s);
}

void
rule_part_query(struct build *b, const struct node *n, void *ctx)
{
	struct rule_context *c = ctx;

	build_list(b, n, c, (struct build_part){ IMAGE_WORDS, on_query },
		   &c->rule.query, &c->rule.query_n);
}

static void
on_country(struct build *b, const struct node *n, void *ctx)
{
	struct image_country country = { { 0 } };
	struct str s;

	(void)ctx;
	if (!value_text(b->report, n, &s))
		return;
	bool ok = s.n == 2 && s.p[0] >= 'A' && s.p[0] <= 'Z' && s.p[1] >= 'A' &&
		  s.p[1] <= 'Z';
	if (!ok) {
		report_error(b->report, n->at,
			     "`%.*s` is not a country: two capital letters, like DE",
			     STR_ARG(s));
		return;
	}
	memcpy(country.code, s.p, 2);
	(void)draft_add(b->draft, IMAGE_COUNTRIES, &country);
}

void
rule_part_countries(struct build *b, const struct node *n, void *ctx)
{
	struct rule_context *c = ctx;

	build_list(b, n, c, (struct build_part){ IMAGE_COUNTRIES, on_country },
		   &c->rule.countries, &c->rule.countries_n);
}

static void
on_asn(struct build *b, const struct node *n, void *ctx)
{
	struct str s;
	uint64_t v;

	(void)ctx;
	if (!value_text(b->report, n, &s))
		return;
	if (!num_parse_strict(str_skip(s, str_starts(s, STR("AS")) ? 2 : 0), UINT32_MAX,
			      &v) ||
	    v == 0) {
		report_error(b->report, n->at,
			     "`%.*s` is not the number of a network, like 64500",
			     STR_ARG(s));
		return;
	}
	uint32_t asn = (uint32_t)v;
	(void)draft_add(b->draft, IMAGE_ASNS, &asn);
}

void
rule_part_asns(struct build *b, const struct node *n, void *ctx)
{
	struct rule_context *c = ctx;

	build_list(b, n, c, (struct build_part){ IMAGE_ASNS, on_asn }, &c->rule.asns,
		   &c->rule.asns_n);
}
