#include "proxy/cli/verdict.h"

#include "conf/policy_rule.h"
#include "proxy/http/uri.h"

enum { HTTPS = 443 };

static bool
is_never_forwarded(struct str method)
{
	enum method m = method_of(method);

	return m == METHOD_CONNECT || m == METHOD_TRACE;
}

/* The request inside is looked at only where TLS is ended, and then strictly. */
static enum status
parse_tls(struct str method, struct str rest, struct verdict *v)
{
	struct uri u;
	size_t n = 0;

	while (n < rest.n && rest.p[n] != '/' && rest.p[n] != '?' && rest.p[n] != '#')
		n++;
	struct str target = str_skip(rest, n);
	v->way = WAY_TLS;
	enum status st = dest_from_authority(str_head(rest, n), HTTPS, &v->dest);
	if (st != ST_OK)
		return st;
	v->path = STR("/");
	if (is_never_forwarded(method))
		v->inside = ST_METHOD_REFUSED;
	else if (target.n > 0)
		v->inside = uri_parse(METHOD_GET, target, &u);
	if (v->inside == ST_OK && target.n > 0) {
		v->path = u.path;
		v->query = u.query;
	}
	return ST_OK;
}

static enum status
parse_plain(struct str method, struct str url, struct verdict *v)
{
	struct uri u;

	v->way = WAY_HTTP;
	if (is_never_forwarded(method))
		return ST_METHOD_REFUSED;
	enum status st = uri_parse(method_of(method), url, &u);
	if (st != ST_OK)
		return st;
	v->dest = u.dest;
	v->path = u.path;
	v->query = u.query;
	return ST_OK;
}

static enum status
parse(struct str method, struct str url, struct verdict *v)
{
	v->method = method;
	if (str_starts(url, STR("http://")))
		return parse_plain(method, url, v);
	if (str_starts(url, STR("https://")))
		return parse_tls(method, str_skip(url, STR("https://").n), v);
	v->way = WAY_TCP;
	return dest_from_authority(url, 0, &v->dest);
}

/* The way in comes first (CONNECT, SOCKS, an original destination), then the bytes. */
static void
judge(const struct image *im, struct mandate may, struct verdict *v)
{
	struct policy_question q = { .may = may, .dest = &v->dest, .way = WAY_ANY };

	policy_judge(im, &q, &v->answer);
	if (v->answer.action == ACTION_DENY || v->answer.action == ACTION_TCP)
		return;
	q.way = v->way;
	q.method = v->method;
	q.path = v->path;
	q.query = v->query;
	policy_judge(im, &q, &v->answer);
	if (v->answer.action != ACTION_INTERCEPT)
		return;
	v->is_intercepted = true;
	q.way = WAY_HTTP;
	q.is_tls = true;
	if (v->inside == ST_OK) {
		policy_judge(im, &q, &v->answer);
	} else { /* it does not come to that */
		v->answer.action = ACTION_DENY;
		v->answer.reason = v->inside;
		v->answer.rule = RULE_NONE;
	}
}

/* Where the connector calls, if that is another host. */
static void
find_upstream(const struct image *im, struct verdict *v)
{
	size_t n;
	const struct image_connector *c = image_connectors(im, &n);
	struct dest d;

	if (v->answer.action != ACTION_CONNECTOR)
		return;
	c += v->answer.connector;
	v->is_fetch = true;
	v->upstream = v->dest;
	if (c->upstream_host.length == 0)
		return;
	struct str host = image_str(im, c->upstream_host);
	if (dest_from_authority(host, c->upstream_port, &d) == ST_OK ||
	    dest_from_host_single(host, c->upstream_port, &d) == ST_OK)
		v->upstream = d;
}

static void
judge_addr(const struct image *im, struct mandate may, const struct addr *a,
	   struct verdict *v)
{
	struct policy_place place = { .addr = a };
	uint32_t rule = RULE_NONE;

	if (v->reason != ST_OK)
		return;
	enum status st = ST_OK;
	if (v->is_fetch)
		st = policy_fetch_address(im, v->answer.connector, may, &v->upstream,
					  &place);
	else
		st = policy_address(im, may, &v->dest, &place, &rule);
	v->has_addr = true;
	v->addr = *a;
	/* Without the databases the country is unknown here, not wrong. */
	if (st == ST_DENIED_COUNTRY) {
		v->needs_place = true;
		return;
	}
	v->reason = st;
	v->rule = rule == RULE_NONE ? v->rule : rule;
}

static void
judge_addrs(const struct image *im, struct mandate may, struct verdict *v)
{
	size_t n;
	const struct dest *d = v->is_fetch ? &v->upstream : &v->dest;
	const struct addr *a = image_host_addrs(im, dest_name(d), &n);

	if (!dest_is_name(d))
		judge_addr(im, may, &d->addr, v);
	else
		for (size_t i = 0; i < n; i++)
			judge_addr(im, may, &a[i], v);
}

static void
note_place(const struct image *im, struct verdict *v)
{
	size_t n;
	const struct image_rule *r = image_rules(im, &n);

	if (v->rule < n && !r[v->rule].is_deny)
		v->needs_place = v->needs_place || r[v->rule].countries_n > 0 ||
				 r[v->rule].asns_n > 0;
}

void
verdict_find(const struct image *im, struct mandate may, struct str method,
	     struct str url, struct verdict *ret_v)
{
	struct verdict v = { .rule = RULE_NONE,
			     .answer = { .rule = RULE_NONE,
					 .connector = CONNECTOR_NONE } };

	v.reason = parse(method, url, &v);
	v.has_dest = v.reason == ST_OK;
	if (v.has_dest) {
		judge(im, may, &v);
		find_upstream(im, &v);
		v.rule = v.answer.rule;
		v.reason = v.answer.action == ACTION_DENY ? v.answer.reason : ST_OK;
		judge_addrs(im, may, &v);
		note_place(im, &v);
	}
	*ret_v = v;
}

bool
verdict_is_allowed(const struct verdict *v)
{
	return v->reason == ST_OK;
}

struct reason {
	const struct dest *dest;
	const struct image *im;
	const char *why;
	uint32_t rule;
	bool is_strong; /* no other rule could make it a tunnel */
};

static void
hear(void *ctx, uint32_t index, const struct image_rule *r)
{
	struct reason *w = ctx;
	const char *why = NULL;

	if (w->is_strong || !policy_port_fits(w->im, r, w->dest->port) || r->is_tcp)
		return;
	if (r->connector != CONNECTOR_NONE)
		why = "belongs to a connector, which sees requests";
	else if (policy_rule_reads(r))
		why = r->is_deny ? "refuses some requests by method, path or query"
				 : "looks at methods, paths or query";
	else if (r->is_shared_suffix && !r->is_deny)
		why = "is on shared hosting, where only the request says whose site it "
		      "is";
	if (why == NULL)
		return;
	w->why = why;
	w->rule = index;
	w->is_strong = r->connector != CONNECTOR_NONE || r->is_deny;
}

const char *
verdict_why_intercepted(const struct image *im, uint32_t policy,
			const struct verdict *v, uint32_t *ret_rule)
{
	struct reason w = { .dest = &v->dest, .im = im };

	if (!v->is_intercepted)
		return NULL;
	policy_each_rule(im, policy, &v->dest, NULL, hear, &w);
	*ret_rule = w.rule;
	return w.why;
}

const char *
verdict_dns(const struct image *im, struct mandate may, const struct dest *d)
{
	struct policy_answer a;

	if (!dest_is_name(d))
		return "not asked: the destination is an address";
	policy_judge_name(im, may, d, &a);
	if (a.action == ACTION_DENY)
		return image_number(im, OPT_DNS_DENIED) == 0 ? "NXDOMAIN" : "REFUSED";
	if (policy_is_by_name(im, may.policy, dest_name(d)))
		return "a synthetic address of this sandbox's own";
	return "the host's addresses";
}

const char *
verdict_asks(const struct image *im, const struct verdict *v)
{
	static const char *const words[APPROVAL_WHENS] = {
		[APPROVAL_FIRST] = "a person is asked before it is used, unless that "
				   "was granted",
		[APPROVAL_EACH] = "a person is asked before each request, unless that "
				  "was granted",
	};

	return verdict_is_allowed(v) ? words[policy_approval(im, &v->answer)] : NULL;
}

const char *
verdict_action(enum policy_action a)
{
	static const char *const words[] = {
		[ACTION_DENY] = "refused",
		[ACTION_TUNNEL] = "TLS, carried unread",
		[ACTION_INTERCEPT] = "TLS, ended here",
		[ACTION_CONNECTOR] = "HTTP, request by request, with a credential",
		[ACTION_HTTP] = "HTTP, request by request",
		[ACTION_TCP] = "any bytes, carried unread",
	};

	return words[a];
}
