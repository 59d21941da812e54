#ifndef PROXY_CONTROL_KEY_STORE_H
#define PROXY_CONTROL_KEY_STORE_H
/*
 * key_store: the table of API keys.  A row never changes whose it is: a rotated key is
 * another row, and the one before ends, at once or after a while.
 */
#include <sqlite3.h>

#include "proxy/control/keys.h"

enum { KEY_HASH = 32, KEY_LABEL_MAX = 200, KEY_LIST_MAX = 500 };

struct key_row {    /* views */
	uint64_t n; /* the order in which they were made */
	struct str id, tenant, user, agent, label;
	unsigned scopes;
	bool may_delegate;
	uint64_t created_s, expires_s, revoked_s, last_used_s; /* 0: never */
};

struct key_store {
	sqlite3 *db;
	sqlite3_stmt *by_hash, *by_id;
};

enum status key_store_init(struct key_store *s, sqlite3 *db) MUSTCHECK;
void key_store_done(struct key_store *s); /* safe on one that is zero */

enum status key_store_add(struct key_store *s, const struct key_row *k,
			  const uint8_t hash[KEY_HASH]) MUSTCHECK;
/* Good at that time, or ST_KEY_INVALID.  session, task and on_behalf_of stay empty. */
enum status key_store_find(struct key_store *s, const uint8_t hash[KEY_HASH],
			   uint64_t now_s, struct principal *ret_p) MUSTCHECK;
enum status key_store_find_id(struct key_store *s, struct str id, uint64_t now_s,
			      struct principal *ret_p) MUSTCHECK;

/* ST_NOT_FOUND: no such id.  ST_CONFLICT: it has ended already. */
enum status key_store_revoke(struct key_store *s, struct str id,
			     uint64_t now_s) MUSTCHECK;

struct key_rotation {
	struct str id, new_id;
	uint64_t now_s, grace_s;
	uint64_t expires_s; /* of the new one; 0: as the one before */
};
/* All or nothing. */
enum status key_store_rotate(struct key_store *s, const struct key_rotation *r,
			     const uint8_t hash[KEY_HASH]) MUSTCHECK;

/* Never back in time. */
enum status key_store_used(struct key_store *s, struct str id,
			   uint64_t used_s) MUSTCHECK;

/* Those after `after`, oldest first, up to KEY_LIST_MAX. */
typedef void (*key_fn)(void *ctx, const struct key_row *k);
enum status key_store_walk(struct key_store *s, uint64_t after, key_fn fn,
			   void *ctx) MUSTCHECK;

#endif
