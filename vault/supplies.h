#ifndef VAULT_SUPPLIES_H
#define VAULT_SUPPLIES_H
/*
 * supplies: secrets that sources of the configuration (OpenBao, HashiCorp Vault) keep, as
 * the connectors that read them brought them last.  Memory only.
 *
 * A value is given out until `keep` is over since it was brought, or it expires there; a no of
 * the source ends it at once.  As long as the source says nothing, nobody brings anything, and
 * the end does not move.
 *
 * They need no vault and no grant: who writes the configuration names them there.
 */
#include "conf/image.h"
#include "vault/secret.h"
#include "vault/value.h"

struct supplied {
	char name[VAULT_NAME_MAX + 1];
	struct secret value; /* empty: none is there */
	uint32_t version;    /* as the source counts */
	uint64_t until_ms;   /* monotonic; of a value */
	uint64_t expires_s;  /* wall clock: when it is not given out any more */
	enum status why;     /* what the source was heard to say last */
};

struct supplies { /* as many as the image in force has, in its order */
	struct supplied *of;
	size_t n;
};

struct supply_told {
	enum status why; /* ST_OK, or why there is none */
	uint32_t version;
	uint64_t expires_s; /* 0: not told */
	int value;          /* a sealed memfd; -1: the source said no */
};

/* For the image in force; of the one before stays what is read from the same place. */
enum status supplies_renew(struct supplies *s, const struct image *im,
			   const struct image *old) MUSTCHECK;
void supplies_done(struct supplies *s); /* wipes */

/* NULL: no source of the image has it. */
struct supplied *supplies_find(const struct supplies *s, struct str name);
/* ret_is_news: another value than before, or none where there was one.  ST_BAD_MESSAGE: not
 * sealed; ST_SOURCE_BAD: no value that may be kept, so there is none now. */
enum status supply_take(struct supplied *one, const struct supply_told *told,
			uint64_t keep_ms, bool *ret_is_news) MUSTCHECK;
/* ST_OK, or why there is nothing to give out. */
enum status supply_is_good(const struct supplied *one) MUSTCHECK;

/* One whose end has come, wiped; NULL: none has.  Call again. */
const struct supplied *supplies_expire(struct supplies *s);
/* Until the next end, as poll(2) has it; -1: none comes. */
int supplies_wait_ms(const struct supplies *s);

#endif
