#ifndef PROXY_CONTROL_KEYS_IN_H
#define PROXY_CONTROL_KEYS_IN_H
/* keys_in: what keys.c and the admin API of keys share. */
#include "proxy/control/issuers.h"
#include "proxy/control/key_store.h"
#include "proxy/io/sql.h"

enum { KEY_OCTETS = 32, KEY_TEXT = 4 + 43 }; /* "sgk_" and base64url of the octets */

struct keys {
	struct control *control;
	struct key_store store;
	struct issuers *issuers;
	uint8_t mac[CAPABILITY_KEY];
	struct map used; /* id -> seconds since 1970: not written yet */
	struct loop_timer used_timer;
	uint64_t failures_ms; /* start of this second */
	unsigned failures;
};

void keys_write_used(struct keys *k);
uint64_t keys_now_s(void);

#endif
