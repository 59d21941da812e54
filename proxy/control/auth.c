#include <string.h>

#include "proxy/base/enc.h"
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

static bool
has_token(const struct admin_conn *a)
{
	const struct field *f = head_find(&a->head, STR("authorization"));
	struct str want = image_text(a->control->role.image, OPT_ADMIN_TOKEN_SHA256);
	CLEANUP(buf_done) struct buf b = { 0 };
	uint8_t hash[32];

	if (f == NULL || !str_ieq(str_head(f->value, 7), STR("bearer ")))
		return false;
	buf_init(&b, 32);
	if (!enc_get_hex(&b, want) || b.st != ST_OK || b.len != sizeof hash)
		return false;
	token_hash(str_skip(f->value, 7), hash);
	return token_hash_eq(hash, (const uint8_t *)b.p);
}

enum status
auth_check(const struct admin_conn *a)
{
	const struct field *host = head_find(&a->head, STR("host"));

	/* Browsers send Origin, operators' tools don't. */
	if (head_find(&a->head, STR("origin")) != NULL)
		return ST_DENIED;
	if (a->control->admin_is_unix) /* the file's mode says the same; twice is better
					*/
		return a->uid == 0 || a->uid == a->control->super_uid ? ST_OK
								      : ST_AUTH_FAILED;
	if (host == NULL || !is_local_host(host->value))
		return ST_DENIED;
	return has_token(a) ? ST_OK : ST_AUTH_FAILED;
}
