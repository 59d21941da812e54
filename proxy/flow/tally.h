#ifndef PROXY_FLOW_TALLY_H
#define PROXY_FLOW_TALLY_H
/*
 * tally: how many octets passed, and their SHA-256, without keeping one of them.
 */
#include "proxy/base/str.h"

enum { TALLY_HASH = 32 };

struct evp_md_ctx_st;

struct tally {
	uint64_t octets, texts; /* texts: the caller's to count */
	struct evp_md_ctx_st *ctx;
};

enum status tally_init(struct tally *t) MUSTCHECK;
void tally_done(struct tally *t); /* safe on a zeroed one */
void tally_put(struct tally *t, struct str s);
/* Of all so far; more may follow. */
enum status tally_sum(const struct tally *t, uint8_t ret_hash[TALLY_HASH]) MUSTCHECK;
/* From nothing again. */
void tally_restart(struct tally *t);

/*
 * For a text that comes before it is known where it belongs: fork makes *early (zeroed,
 * or forked before) a copy that goes on by itself, settle makes it the tally.
 */
enum status tally_fork(struct tally *early, const struct tally *t) MUSTCHECK;
void tally_settle(struct tally *t, struct tally *early);

#endif
