#ifndef PROXY_CLI_LEDGER_HEADS_H
#define PROXY_CLI_LEDGER_HEADS_H
/*
 * ledger_heads: the files beside the ledger that tell of signed places: keeper.pub
 * (keys in hex, one a line) and heads.log (sequence, segment, link, signature, time).
 */
#include "proxy/cli/ledger_verify.h"

enum { LEDGER_KEYS_MAX = 4096 };

struct ledger_keys {
	char text[LEDGER_KEYS_MAX];
	size_t n; /* 0: nothing was ever signed */
};

void ledger_keys_load(struct ledger_keys *k, const char *dir);
bool ledger_keys_has(const struct ledger_keys *k, struct str key);

/* p NULL: a malformed line.  false: stop. */
typedef bool (*ledger_place_fn)(void *ctx, const struct verify_place *p,
				bool is_signed);
/* Oldest first; false when fn stopped it. */
bool ledger_places_each(const char *dir, ledger_place_fn fn, void *ctx);

#endif
