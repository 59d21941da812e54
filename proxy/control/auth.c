#include <stdio.h>
#include <string.h>

#include "proxy/base/enc.h"
#include "proxy/base/num.h"
#include "proxy/control/control.h"
#include "proxy/http/dest.h"

/* A name that a web page could have made its own leads here by DNS rebinding: only
 * loopback's own spellings may stand in Host. */
static bool
is_local_host(struct str value)
{
	struct str host = value;
	struct addr a;

	while (host.n > 0 && host.p[host.n - 1] != ':' && host.p[host.n - 1] != ']')
		host.n--;
	host = host.n == 0 ? value
			   : str_head(host, host.n - (host.p[host.n - 1] == ':'));
	if (host.n > 2 && host.p[0] == '[' && host.p[host.n - 1] == ']')
		host = str_head(str_skip(host, 1), host.n - 2);
	return str_ieq(host, STR("localhost")) ||
	       (addr_parse(host, &a) && addr_classify(&a) == ADDR_LOOPBACK);
}

static void
become(struct admin_conn *a, struct str name, enum admin_role role)
{
	size_t n = num_min(name.n, sizeof a->name - 1);

	memcpy(a->name, name.p, n);
	a->name[n] = '\0';
	a->role = role;
}

/* The one token of the options: nobody's in particular. */
static bool
is_common_token(const struct control *c, const uint8_t hash[32])
{
	struct str want = image_text(c->role.image, OPT_ADMIN_TOKEN_SHA256);
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 32);
	return enc_get_hex(&b, want) && b.st == ST_OK && b.len == 32 &&
	       token_hash_eq(hash, (const uint8_t *)b.p);
}

/* All are compared: how long it takes says nothing about which one is near. */
static const struct image_admin *
admin_by_token(const struct control *c, const uint8_t hash[32])
{
	size_t n;
	const struct image_admin *all = image_admins(c->role.image, &n), *found = NULL;

	for (size_t i = 0; i < n; i++)
		if (!all[i].has_uid && token_hash_eq(hash, all[i].token_hash))
			found = &all[i];
	return found;
}

static enum status
check_token(struct admin_conn *a, struct str value)
{
	const struct image *im = a->control->role.image;
	const struct image_admin *who;
	uint8_t hash[32];

	if (!str_ieq(str_head(value, 7), STR("bearer ")))
		return ST_AUTH_FAILED;
	token_hash(str_skip(value, 7), hash);
	who = admin_by_token(a->control, hash);
	if (who != NULL)
		become(a, image_str(im, who->name), (enum admin_role)who->role);
	else if (is_common_token(a->control, hash))
		become(a, STR("token"), ADMIN_OPERATOR);
	else
		return ST_AUTH_FAILED;
	return ST_OK;
}

static const struct image_admin *
admin_by_uid(const struct control *c, uid_t uid)
{
	size_t n;
	const struct image_admin *all = image_admins(c->role.image, &n);

	for (size_t i = 0; i < n; i++)
		if (all[i].has_uid && all[i].uid == uid)
			return &all[i];
	return NULL;
}

static bool
is_own_uid(const struct control *c, uid_t uid)
{
	return uid == 0 || uid == c->super_uid;
}

bool
auth_knows_uid(const struct control *c, uid_t uid)
{
	return is_own_uid(c, uid) || admin_by_uid(c, uid) != NULL;
}

static enum status
check_uid(struct admin_conn *a)
{
	const struct image_admin *who = admin_by_uid(a->control, a->uid);
	char name[24];

	if (who != NULL) {
		become(a, image_str(a->control->role.image, who->name),
		       (enum admin_role)who->role);
		return ST_OK;
	}
	if (!is_own_uid(a->control, a->uid))
		return ST_AUTH_FAILED;
	(void)snprintf(name, sizeof name, "uid %u", (unsigned)a->uid);
	become(a, str_from(name), ADMIN_OPERATOR);
	return ST_OK;
}

enum status
auth_check(struct admin_conn *a)
{
	const struct field *host = head_find(&a->head, STR("host")),
			   *token = head_find(&a->head, STR("authorization"));

	/* Browsers send Origin, operators' tools don't. */
	if (head_find(&a->head, STR("origin")) != NULL)
		return ST_DENIED;
	if (!a->control->admin_is_unix && (host == NULL || !is_local_host(host->value)))
		return ST_DENIED;
	/* The socket's mode says the same; twice is better. */
	if (a->control->admin_is_unix && !auth_knows_uid(a->control, a->uid))
		return ST_AUTH_FAILED;
	/* People who share a user are told apart by their tokens. */
	if (token != NULL)
		return check_token(a, token->value);
	return a->control->admin_is_unix ? check_uid(a) : ST_AUTH_FAILED;
}
