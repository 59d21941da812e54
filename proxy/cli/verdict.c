#include "proxy/cli/verdict.h"

#include "proxy/http/uri.h"

enum { HTTPS = 443 };

static enum status
parse_tls(struct str rest, struct verdict *v)
{
	size_t n = 0;

	while (n < rest.n && rest.p[n] != '/' && rest.p[n] != '?' && rest.p[n] != '#')
		n++;
	v->way = WAY_TLS;
	return dest_from_authority(str_head(rest, n), HTTPS, &v->dest);
}

static enum status
parse_plain(struct str method, struct str url, struct verdict *v)
{
	enum method m = method_of(method);
	struct uri u;

	v->way = WAY_HTTP;
	if (m == METHOD_CONNECT || m == METHOD_TRACE)
		return ST_METHOD_REFUSED;
	enum status st = uri_parse(m, url, &u);
	if (st != ST_OK)
		return st;
	v->dest = u.dest;
	v->path = u.path;
	return ST_OK;
}

static enum status
parse(struct str method, struct str url, struct verdict *v)
{
	v->method = method;
	if (str_starts(url, STR("http://")))
		return parse_plain(method, url, v);
	if (str_starts(url, STR("https://")))
		return parse_tls(str_skip(url, STR("https://").n), v);
	v->way = WAY_TCP;
	return dest_from_authority(url, 0, &v->dest);
}

/* The way in comes first (CONNECT, SOCKS, an original destination), then the bytes. */
static void
judge(const struct image *im, uint32_t policy, struct verdict *v)
{
	struct policy_question q = { .policy = policy,
				     .dest = &v->dest,
				     .way = WAY_ANY };

	policy_judge(im, &q, &v->answer);
	if (v->answer.action == ACTION_DENY || v->answer.action == ACTION_TCP)
		return;
	q.way = v->way;
	if (v->way == WAY_HTTP) {
		q.method = v->method;
		q.path = v->path;
	}
	policy_judge(im, &q, &v->answer);
}

static void
judge_addr(const struct image *im, uint32_t policy, const struct addr *a,
	   struct verdict *v)
{
	struct policy_place place = { .addr = a };
	uint32_t rule;

	if (v->reason != ST_OK)
		return;
	enum status st = policy_address(im, policy, &v->dest, &place, &rule);
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
judge_addrs(const struct image *im, uint32_t policy, struct verdict *v)
{
	size_t n;
	const struct addr *a = image_host_addrs(im, dest_name(&v->dest), &n);

	if (!dest_is_name(&v->dest))
		judge_addr(im, policy, &v->dest.addr, v);
	else
		for (size_t i = 0; i < n; i++)
			judge_addr(im, policy, &a[i], v);
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
verdict_find(const struct image *im, uint32_t policy, struct str method, struct str url,
	     struct verdict *ret_v)
{
	struct verdict v = { .rule = RULE_NONE, .answer = { .rule = RULE_NONE } };

	v.reason = parse(method, url, &v);
	v.has_dest = v.reason == ST_OK;
	if (v.has_dest) {
		judge(im, policy, &v);
		v.rule = v.answer.rule;
		v.reason = v.answer.action == ACTION_DENY ? v.answer.reason : ST_OK;
		judge_addrs(im, policy, &v);
		note_place(im, &v);
	}
	*ret_v = v;
}

bool
verdict_is_allowed(const struct verdict *v)
{
	return v->reason == ST_OK;
}

const char *
verdict_dns(const struct image *im, uint32_t policy, const struct dest *d)
{
	struct policy_answer a;

	if (!dest_is_name(d))
		return "not asked: the destination is an address";
	policy_judge_name(im, policy, d, &a);
	if (a.action == ACTION_DENY)
		return image_number(im, OPT_DNS_DENIED) == 0 ? "NXDOMAIN" : "REFUSED";
	if (policy_is_tcp_name(im, policy, dest_name(d)))
		return "a synthetic address of this sandbox's own";
	return "the host's addresses";
}

const char *
verdict_action(enum policy_action a)
{
	static const char *const words[] = {
		[ACTION_DENY] = "refused",
		[ACTION_TUNNEL] = "TLS, carried unread",
		[ACTION_HTTP] = "HTTP, request by request",
		[ACTION_TCP] = "any bytes, carried unread",
	};

	return words[a];
}
