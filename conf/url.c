#include "conf/url.h"

#include "conf/value.h"
#include "proxy/base/num.h"

enum { HTTPS = 443, HTTP = 80 };

/* One label is enough here: the operator wrote it, and resolver.hosts may know it. */
static enum status
parse_authority(struct str text, uint16_t port, struct dest *ret_d)
{
	struct str rest = text, host = str_cut(&rest, ':');
	uint64_t v = port;

	if (str_starts(text, STR("[")))
		return dest_from_authority(text, port, ret_d);
	if (rest.p != NULL && (!num_parse_strict(rest, UINT16_MAX, &v) || v == 0))
		return ST_BAD_PORT;
	return dest_from_host_single(host, (uint16_t)v, ret_d);
}

static bool
path_is_plain(struct str path)
{
	for (size_t i = 0; i < path.n; i++)
		if (path.p[i] <= ' ' || path.p[i] >= 0x7f || path.p[i] == '?' ||
		    path.p[i] == '#')
			return false;
	return true;
}

bool
url_parse(struct report *r, const struct node *n, struct url *ret_u)
{
	struct url u = { 0 };
	struct str s;

	if (!value_text(r, n, &s))
		return false;
	u.is_plain = str_starts(s, STR("http://"));
	if (!u.is_plain && !str_starts(s, STR("https://"))) {
		report_error(r, n->at, "`%.*s` is not a URL: https://HOST[:PORT]",
			     STR_ARG(s));
		return false;
	}
	struct str rest = str_skip(s, u.is_plain ? 7 : 8);
	struct str after = rest, authority = str_cut(&after, '/');
	u.path = str_skip(rest, authority.n);
	enum status st = parse_authority(authority, u.is_plain ? HTTP : HTTPS, &u.dest);
	if (st != ST_OK || !path_is_plain(u.path)) {
		report_error(r, n->at,
			     "`%.*s` is not a URL: https://HOST[:PORT], maybe a path; "
			     "no user, query or fragment",
			     STR_ARG(s));
		return false;
	}
	*ret_u = u;
	return true;
}
