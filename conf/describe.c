#include "conf/describe.h"

#include "conf/image_format.h"
#include "conf/policy.h"

struct member { /* of one rule */
	const char *key;
	enum image_section section;
	uint32_t first, n;
};

static void
put_one(struct buf *b, const struct image *im, enum image_section s, const void *table,
	size_t i)
{
	const struct image_pattern *hosts = table;
	const struct image_ports *ports = table;
	const struct image_ref *refs = table;
	const struct cidr *cidrs = table;
	CLEANUP(buf_done) struct buf text = { 0 };
	struct str out;

	buf_init(&text, 1024);
	if (s == IMAGE_PATTERNS) {
		buf_put(&text, hosts[i].is_wild ? STR("*.") : STR(""));
		buf_put(&text, image_str(im, hosts[i].name));
	} else if (s == IMAGE_PORTS && ports[i].low == ports[i].high) {
		buf_putf(b, "%u", ports[i].low);
		return;
	} else if (s == IMAGE_PORTS) {
		buf_putf(&text, "%u-%u", ports[i].low, ports[i].high);
	} else if (s == IMAGE_CIDRS) {
		addr_put(&text, &cidrs[i].net);
		buf_putf(&text, "/%u", cidrs[i].bits);
	} else {
		buf_put(&text, image_str(im, refs[i]));
	}
	if (buf_finish(&text, &out) == ST_OK)
		buf_put_json(b, out);
	else
		b->st = text.st;
}

static void
put_list(struct buf *b, const struct image *im, const struct member *m)
{
	size_t all = 0;
	const void *table = image_table(im, m->section, &all);

	if (m->n == 0)
		return;
	buf_putf(b, "\"%s\":[", m->key);
	for (uint32_t i = 0; i < m->n; i++) {
		if (i > 0)
			buf_putc(b, ',');
		put_one(b, im, m->section, table, m->first + i);
	}
	buf_put(b, STR("],"));
}

static void
put_connector(struct buf *b, const struct image *im, const struct image_rule *r)
{
	size_t n;
	const struct image_connector *c = image_connectors(im, &n);

	if (r->connector >= n)
		return;
	buf_put(b, STR("\"connector\":"));
	buf_put_json(b, image_str(im, c[r->connector].name));
	buf_putc(b, ',');
}

void
describe_rule(struct buf *b, const struct image *im, uint32_t rule)
{
	CLEANUP(buf_done) struct buf where = { 0 };
	struct str text;
	size_t n = 0;
	const struct image_rule *r = image_rules(im, &n) + rule;
	const struct member members[] = {
		{ "hosts", IMAGE_PATTERNS, r->hosts, r->hosts_n },
		{ "cidrs", IMAGE_CIDRS, r->cidrs, r->cidrs_n },
		{ "ports", IMAGE_PORTS, r->ports, r->ports_n },
		{ "methods", IMAGE_WORDS, r->methods, r->methods_n },
		{ "paths", IMAGE_WORDS, r->paths, r->paths_n },
		{ "query", IMAGE_WORDS, r->query, r->query_n },
	};

	need(rule < n);
	buf_putc(b, '{');
	for (size_t i = 0; i < COUNT_OF(members); i++)
		put_list(b, im, &members[i]);
	put_connector(b, im, r);
	buf_put(b, r->is_any_host ? STR("\"any_host\":true,") : STR(""));
	buf_putf(b, "\"protocol\":\"%s\",\"rule\":", r->is_tcp ? "tcp" : "http");
	buf_init(&where, 8192);
	image_put_rule(&where, im, rule);
	if (buf_finish(&where, &text) == ST_OK)
		buf_put_json(b, text);
	else
		b->st = where.st;
	buf_putc(b, '}');
}

static void
put_rules(struct buf *b, const struct image *im, const struct image_policy *p,
	  bool deny)
{
	size_t n = 0;
	const struct image_rule *rules = image_rules(im, &n);
	bool first = true;

	for (uint32_t i = p->rules; i < p->rules + p->rules_n; i++) {
		if ((rules[i].is_deny != 0) != deny)
			continue;
		if (!first)
			buf_putc(b, ',');
		first = false;
		describe_rule(b, im, i);
	}
}

static void
put_open(struct buf *b, const struct image *im, uint32_t policy)
{
	size_t n = 0;
	const struct image_policy *p = image_policies(im, &n) + policy;

	need(policy < n);
	buf_put(b, STR("{\"name\":"));
	buf_put_json(b, image_str(im, p->name));
	buf_putf(b, ",\"mode\":\"%s\",\"allow\":[",
		 p->is_observe ? "observe" : "enforce");
	put_rules(b, im, p, false);
	buf_put(b, STR("],\"deny\":["));
	put_rules(b, im, p, true);
	buf_putc(b, ']');
}

void
describe_policy(struct buf *b, const struct image *im, uint32_t policy)
{
	put_open(b, im, policy);
	buf_putc(b, '}');
}

void
describe_mandate(struct buf *b, const struct image *im, struct mandate may)
{
	if (may.policy == POLICY_NONE)
		buf_put(b, STR("{\"name\":null,\"allow\":[],\"deny\":[]"));
	else
		put_open(b, im, may.policy);
	if (may.narrow != NULL) {
		buf_put(b, STR(",\"narrowed\":"));
		narrow_put_json(b, may.narrow);
	}
	buf_putc(b, '}');
}

static bool
is_in(const uint16_t *ports, size_t n, uint16_t port)
{
	for (size_t i = 0; i < n; i++)
		if (ports[i] == port)
			return true;
	return false;
}

size_t
describe_ports(const struct image *im, uint32_t policy, uint16_t *ports, size_t max)
{
	size_t rules_n = 0, policies_n = 0, ports_n = 0, n = 0;
	const struct image_rule *rules = image_rules(im, &rules_n);
	const struct image_policy *p = image_policies(im, &policies_n) + policy;
	const struct image_ports *all = image_table(im, IMAGE_PORTS, &ports_n);

	need(policy < policies_n);
	for (uint32_t i = p->rules; i < p->rules + p->rules_n; i++) {
		const struct image_rule *r = &rules[i];
		for (uint32_t k = r->ports; !r->is_deny && k < r->ports + r->ports_n;
		     k++)
			if (n < max && all[k].low == all[k].high &&
			    !is_in(ports, n, all[k].low))
				ports[n++] = all[k].low;
	}
	return n;
}
