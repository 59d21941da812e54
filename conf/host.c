#include "conf/host.h"

#include <idn2.h>
#include <libpsl.h>
#include <stdlib.h>

#include "proxy/base/addr.h"
#include "proxy/http/dest.h"

enum { SOME_PORT = 443 }; /* dest wants one; patterns have none */

static bool
is_ascii(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] >= 0x80)
			return false;
	return true;
}

static void
say_not_ascii(struct report *r, const struct node *n)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	char *ace = NULL;

	buf_init(&b, 1024);
	buf_put(&b, n->text);
	const char *text = buf_cstr(&b);
	int rc = text == NULL ? IDN2_MALLOC
			      : idn2_to_ascii_8z(text, &ace, IDN2_NONTRANSITIONAL);
	if (rc == IDN2_OK)
		report_error(r, n->at, "`%.*s` is not ASCII; did you mean %s?",
			     STR_ARG(n->text), ace);
	else
		report_error(r, n->at, "`%.*s` is not ASCII; write it as punycode",
			     STR_ARG(n->text));
	idn2_free(ace);
}

static bool
is_literal(struct str s)
{
	struct cidr c;

	if (s.n > 2 && s.p[0] == '[' && s.p[s.n - 1] == ']')
		s = str_head(str_skip(s, 1), s.n - 2);
	return cidr_parse(s, &c);
}

/* What an operator most likely meant by something that is no host name. */
static void
say_bad(struct report *r, const struct node *n)
{
	struct str s = n->text;

	if (!is_ascii(s))
		say_not_ascii(r, n);
	else if (is_literal(s))
		report_error(r, n->at,
			     "%.*s is an address; write it under `cidrs:` with "
			     "`protocol: tcp`",
			     STR_ARG(s));
	else if (str_starts(s, STR("http://")) || str_starts(s, STR("https://")) ||
		 str_has(s, '/'))
		report_error(r, n->at,
			     "`%.*s` is not a host; leave out scheme and path (see "
			     "`paths:`)",
			     STR_ARG(s));
	else if (str_has(s, ':'))
		report_error(r, n->at,
			     "`%.*s` is not a host; ports belong under `ports:`",
			     STR_ARG(s));
	else if (str_has(s, '*'))
		report_error(r, n->at,
			     "`%.*s`: `*` can only be the whole first label, like "
			     "*.example.com",
			     STR_ARG(s));
	else
		report_error(r, n->at, "`%.*s` is not a host name", STR_ARG(s));
}

/* The name is a public suffix of this kind, or lies just above some (`*.ck`). */
static bool
is_suffix(struct str name, int kind)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	const psl_ctx_t *psl = psl_builtin();

	if (psl == NULL)
		return true; /* without the list nothing can be told apart: refuse */
	buf_init(&b, 300);
	buf_put(&b, STR("0."));
	buf_put(&b, name);
	const char *below = buf_cstr(&b);
	if (below == NULL)
		return true;
	return psl_is_public_suffix2(psl, below + 2, kind | PSL_TYPE_NO_STAR_RULE) !=
		       0 ||
	       psl_is_public_suffix2(psl, below, kind | PSL_TYPE_NO_STAR_RULE) != 0;
}

static bool
check_wild(struct report *r, const struct node *n, bool may_be_shared,
	   struct host_pattern *h)
{
	if (!str_has(h->name, '.') || is_suffix(h->name, PSL_TYPE_ICANN)) {
		report_error(r, n->at,
			     "`%.*s` covers a public suffix, where anyone may register "
			     "names; name the hosts",
			     STR_ARG(n->text));
		return false;
	}
	h->is_shared = is_suffix(h->name, PSL_TYPE_PRIVATE);
	if (h->is_shared && !may_be_shared) {
		report_error(r, n->at,
			     "`%.*s` covers sites of many owners on shared hosting; "
			     "name the hosts, or say `shared_suffix: true`",
			     STR_ARG(n->text));
		return false;
	}
	return true;
}

bool
host_parse(struct arena *a, struct report *r, const struct node *n,
	   const struct host_wish *wish, struct host_pattern *ret_h)
{
	struct host_pattern h = { 0 };
	struct dest d;

	if (n->kind != NODE_SCALAR || n->text.n == 0) {
		report_error(r, n->at, "%s where a host name belongs",
			     n->kind == NODE_SCALAR ? "nothing"
						    : node_kind_name(n->kind));
		return false;
	}
	h.is_wild = str_starts(n->text, STR("*."));
	struct str name = str_skip(n->text, h.is_wild ? 2 : 0);
	enum status st = dest_from_host_single(name, SOME_PORT, &d);
	if (st != ST_OK || !dest_is_name(&d)) {
		say_bad(r, n);
		return false;
	}
	h.name = arena_copy(a, dest_name(&d));
	if (h.is_wild && !check_wild(r, n, wish->may_be_shared, &h))
		return false;
	if (!h.is_wild && !wish->may_be_single && !str_has(h.name, '.')) {
		report_error(r, n->at, "`%.*s` has one label; write the full name",
			     STR_ARG(n->text));
		return false;
	}
	*ret_h = h;
	return true;
}
