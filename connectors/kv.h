#ifndef CONNECTORS_KV_H
#define CONNECTORS_KV_H
/*
 * kv: what OpenBao and HashiCorp Vault are asked, and what their answers mean: logins, leases
 * of tokens, secrets of KV version 2.  Pure.  Every parser takes the shape that it expects,
 * whole, or nothing; an error's text may hold what was sent, so none of it goes anywhere.
 *
 * Where an answer is no answer the status is ST_SOURCE_SILENT: nothing was learned from it.
 */
#include "connectors/cred.h"

enum {
	KV_BODY_MAX = 256 * 1024,
	KV_TOKEN_MAX = 8192,
	KV_VALUE_MAX = 8192, /* as VAULT_VALUE_MAX */
	KV_LEASE_MAX =
		366 * 86400, /* longer ones are renewed as if they were so long */
};

struct kv_token {
	struct cred text; /* wiped with it */
	uint64_t lease_s; /* 0: it doesn't end */
	bool is_renewable;
};

struct kv_value {
	struct cred text;
	uint32_t version;
	uint64_t expires_s; /* when that version is deleted, since 1970; 0: not told */
};

/* What the status of an answer says.  ST_OK: read it; ST_NO_SECRET: 404; ST_SOURCE_REFUSED:
 * 400, 401, 403, 405; else ST_SOURCE_SILENT, redirects too. */
enum status kv_status(uint16_t http);

/* POST auth/MOUNT/login, and auth/token/renew-self. */
enum status kv_parse_login(struct str body, struct kv_token *ret_t) MUSTCHECK;
/* GET auth/token/lookup-self: text stays empty. */
enum status kv_parse_self(struct str body, struct kv_token *ret_t) MUSTCHECK;
/* GET MOUNT/data/PATH.  version: that was asked for, 0: the newest.  ST_NO_SECRET: deleted,
 * or it has no such field; ST_SOURCE_BAD: no text of 1 to KV_VALUE_MAX bytes without NUL. */
enum status kv_parse_value(struct str body, struct str field, uint32_t version,
			   uint64_t now_s, struct kv_value *ret_v) MUSTCHECK;

void kv_token_done(struct kv_token *t);
void kv_value_done(struct kv_value *v);

/* The body of a login: {"role_id":ROLE,"secret_id":SECRET} or {"role":ROLE,"jwt":SECRET}. */
void kv_put_login(struct cred *out, bool is_approle, struct str role,
		  struct str secret);

#endif
