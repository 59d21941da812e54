#include "vault/permit.h"

#include <string.h>

static const struct str hole = { "{user}", 6 };

bool
permit_declares(const struct image *im, const struct image_connector *c, size_t i,
		struct str *ret_secret)
{
	const struct image_auth *a = &c->auth;
	const struct image_ref refs[] = { a->secret, a->client_secret, a->session_token,
					  a->certificate };

	if (i >= COUNT_OF(refs))
		return false;
	*ret_secret = image_str(im, refs[i]);
	return true;
}

static bool
is_declared(const struct image *im, const struct image_connector *c, struct str secret)
{
	struct str one = STR("");

	for (size_t i = 0; permit_declares(im, c, i, &one); i++)
		if (one.n > 0 && str_eq(one, secret))
			return true;
	return false;
}

static bool
append(struct permit *p, struct str s)
{
	if (s.n > sizeof p->name - p->name_n)
		return false;
	if (s.n > 0)
		memcpy(p->name + p->name_n, s.p, s.n);
	p->name_n += s.n;
	return true;
}

/* A part at a time, so that a user's name can't make another part. */
bool
permit_name(struct str secret, struct str user, struct permit *ret_p)
{
	struct permit p = { .name_n = 0 };
	struct str between = STR("");

	while (secret.p != NULL) {
		struct str part = str_cut(&secret, '/');
		if (str_eq(part, hole)) {
			if (!str_is_name(user))
				return false;
			part = user;
		}
		if (!append(&p, between) || !append(&p, part))
			return false;
		between = STR("/");
	}
	if (!vault_is_name(str_of(p.name, p.name_n)))
		return false;
	memcpy(ret_p->name, p.name, p.name_n);
	ret_p->name_n = p.name_n;
	return true;
}

bool
permit_covers(struct str secret, struct str name, struct str *ret_user)
{
	struct str user = STR("");

	while (secret.p != NULL && name.p != NULL) {
		struct str part = str_cut(&secret, '/'), found = str_cut(&name, '/');
		if (!str_eq(part, hole)) {
			if (!str_eq(part, found))
				return false;
		} else if (user.n > 0 && !str_eq(user, found)) {
			return false;
		} else {
			user = found;
		}
	}
	if (secret.p != NULL || name.p != NULL)
		return false;
	*ret_user = user;
	return true;
}

static struct str
tenant_of(const struct image *im, const struct who *w)
{
	const struct image_sandbox *s = image_sandbox_by_id(im, w->id);

	return s == NULL ? STR("") : image_str(im, s->tenant);
}

enum status
permit_judge(const struct image *im, const struct permit_wish *w, struct permit *ret_p)
{
	uint32_t index = image_connector_by_name(im, w->connector);
	struct str user = w->who == NULL ? STR("") : w->who->user;
	struct permit p = { .name_n = 0 };
	size_t n;

	if (index == CONNECTOR_NONE)
		return ST_SECRET_DENIED;
	p.connector = &image_connectors(im, &n)[index];
	if (!str_eq(image_str(im, p.connector->group), w->group) ||
	    !is_declared(im, p.connector, w->secret))
		return ST_SECRET_DENIED;
	if (w->who != NULL &&
	    !policy_may_use(im, index, w->who->may.policy, tenant_of(im, w->who), user))
		return ST_SECRET_DENIED;
	if (!permit_name(w->secret, user, &p))
		return ST_SECRET_DENIED;
	*ret_p = p;
	return ST_OK;
}

enum status
permit_grant(const struct image *im, const struct table *t, const struct permit_wish *w,
	     struct permit *p)
{
	struct str user = w->who == NULL ? STR("") : w->who->user;
	const struct table_entry *e = table_find(t, image_str(im, p->connector->tenant),
						 str_of(p->name, p->name_n));

	if (e == NULL || e->kind == TABLE_CA)
		return ST_NO_SECRET;
	if (!table_is_granted(e, w->connector, user))
		return ST_SECRET_DENIED;
	p->entry = e;
	return ST_OK;
}

bool
permit_host(const struct image *im, struct str host)
{
	struct policy_answer answer;
	struct dest d;
	size_t n;

	(void)image_policies(im, &n);
	if (dest_from_host(host, 443, &d) != ST_OK &&
	    dest_from_host_single(host, 443, &d) != ST_OK)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		policy_judge_name(im, mandate_of(i), &d, &answer);
		if (answer.action != ACTION_DENY)
			return true;
	}
	return false;
}
