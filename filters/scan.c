/*
 * scan: placeholders of this sandbox (conf/placeholder.h) anywhere but in the slot of their
 * own connector: method, target, fields and body of a request, in any form of needle.def.  One
 * that is found elsewhere means that what looks like a secret is being carried off: the
 * request is refused and an alarm stands in the ledger.
 *
 * A body is looked at only where the sandbox has placeholders.  What is encoded or
 * encrypted inside a body is not taken apart, nor is what follows an upgrade.
 */
#include "conf/placeholder.h"
#include "filters/filter.h"
#include "proxy/http/head.h"

struct look {
	struct exchange *x;
	const struct placeholders *all;
};

static enum verdict
alarm(struct exchange *x, struct str where)
{
	x->reason = ST_PLACEHOLDER;
	x->detail = where;
	/* A full ring has refused the request already; the refusal says the same. */
	(void)!x->host->record(x, RECORD_ALARM);
	x->detail = where;
	return VERDICT_DENY;
}

static const struct image_connector *
connector_at(const struct exchange *x, uint32_t index)
{
	size_t n;
	const struct image_connector *all = image_connectors(x->image, &n);

	return index < n ? &all[index] : NULL;
}

/* The way in which this request's connector takes a credential; AUTH_KINDS: there is
 * none, or it is not `owner`. */
static enum auth_kind
slot_of(const struct exchange *x, uint32_t owner)
{
	const struct image_connector *c = connector_at(x, owner);

	if (x->action != ACTION_CONNECTOR || x->connector != owner || c == NULL)
		return AUTH_KINDS;
	return (enum auth_kind)c->auth.kind;
}

static struct str
auth_text(const struct exchange *x, uint32_t owner, bool is_prefix)
{
	const struct image_auth *a = &connector_at(x, owner)->auth;

	return image_str(x->image, is_prefix ? a->prefix : a->name);
}

static bool
is_field_slot(const struct exchange *x, const struct field *f, uint32_t owner)
{
	switch (slot_of(x, owner)) {
	case AUTH_BEARER:
	case AUTH_BASIC:
	case AUTH_OAUTH2_CLIENT_CREDENTIALS:
	case AUTH_OAUTH2_REFRESH:
	case AUTH_JWT_BEARER:
	case AUTH_SIGV4:
		return f->token == TOKEN_AUTHORIZATION;
	case AUTH_HEADER:
	case AUTH_HMAC:
		return str_ieq(f->name, auth_text(x, owner, false));
	case AUTH_QUERY:
	case AUTH_PATH:
	case AUTH_FORM:
	case AUTH_MTLS:
	case AUTH_PASSTHROUGH:
	case AUTH_KINDS:
		break;
	}
	return false;
}

static bool
is_in_fields(const struct look *l, const struct head *h)
{
	for (size_t i = 0; h != NULL && i < h->fields_len; i++) {
		const struct field *f = &h->fields[i];
		const struct placeholder *p = placeholders_find(l->all, f->value);

		if (p != NULL && !is_field_slot(l->x, f, p->connector))
			return true;
		if (placeholders_find(l->all, f->name) != NULL)
			return true;
	}
	return false;
}

/* name=value of the slot, the name as the connector's document spells it. */
static bool
is_query_slot(const struct exchange *x, struct str pair, uint32_t owner)
{
	return slot_of(x, owner) == AUTH_QUERY &&
	       str_eq(str_cut(&pair, '='), auth_text(x, owner, false));
}

static bool
is_in_query(const struct look *l)
{
	const struct placeholder *p = placeholders_find(l->all, l->x->query);
	struct str rest = l->x->query;

	if (p == NULL)
		return false;
	if (slot_of(l->x, p->connector) != AUTH_QUERY)
		return true;
	while (rest.p != NULL) {
		struct str pair = str_cut(&rest, '&');

		p = placeholders_find(l->all, pair);
		if (p != NULL && !is_query_slot(l->x, pair, p->connector))
			return true;
	}
	return false;
}

/* Behind the prefix up to the next slash is the slot. */
static bool
is_in_path(const struct look *l)
{
	struct str path = l->x->path, prefix, rest;
	const struct placeholder *p = placeholders_find(l->all, path);

	if (p == NULL)
		return false;
	if (slot_of(l->x, p->connector) != AUTH_PATH)
		return true;
	prefix = auth_text(l->x, p->connector, true);
	if (!str_starts(path, prefix))
		return true;
	rest = str_skip(path, prefix.n);
	(void)str_cut(&rest, '/');
	return placeholders_find(l->all, rest) != NULL;
}

/* False: nobody can say what this sandbox has, so nothing of it passes. */
static bool
knows(struct exchange *x, const struct placeholders **ret_all)
{
	*ret_all = NULL;
	if (x->host->placeholders == NULL)
		return true;
	*ret_all = x->host->placeholders(x);
	if (*ret_all == NULL)
		x->reason = ST_NOMEM;
	return *ret_all != NULL;
}

static bool
has_some(const struct placeholders *all)
{
	size_t n = 0;

	if (all != NULL)
		(void)placeholders_all(all, &n);
	return n > 0;
}

static enum verdict
on_request(struct exchange *x)
{
	struct look l = { .x = x };

	if (!knows(x, &l.all))
		return VERDICT_FAIL;
	if (!has_some(l.all))
		return VERDICT_NEXT;
	x->needs |= NEEDS_BODY;
	if (placeholders_find(l.all, x->method) != NULL)
		return alarm(x, STR("a placeholder stands in the method"));
	if (is_in_path(&l))
		return alarm(x, STR("a placeholder stands in the path"));
	if (is_in_query(&l))
		return alarm(x, STR("a placeholder stands in the query"));
	if (is_in_fields(&l, x->request))
		return alarm(x, STR("a placeholder stands in a header field"));
	return VERDICT_NEXT;
}

/* All of them but those that the form is there for. */
static bool
is_in_body(const struct look *l, struct str view, bool is_last, size_t *ret_pass)
{
	const struct placeholder *p;
	size_t at = 0, pass = 0;

	do {
		p = placeholders_sift(l->all, str_skip(view, at), is_last, &pass);
		at += pass;
	} while (p != NULL && slot_of(l->x, p->connector) == AUTH_FORM);
	*ret_pass = at;
	return p != NULL;
}

static enum verdict
on_body(struct exchange *x, struct str view, bool is_last, size_t *ret_pass)
{
	struct look l = { .x = x };
	size_t pass;

	if (!knows(x, &l.all))
		return VERDICT_FAIL;
	if (!has_some(l.all))
		return VERDICT_NEXT;
	if (is_in_body(&l, view, is_last, &pass))
		return alarm(x, STR("a placeholder stands in the body"));
	if (is_last && is_in_fields(&l, x->trailers))
		return alarm(x, STR("a placeholder stands in a trailer field"));
	*ret_pass = pass;
	return VERDICT_NEXT;
}

const struct filter filter_scan = {
	.name = "scan",
	.needs = NEEDS_HEAD,
	.on_request = on_request,
	.on_body = on_body,
};
