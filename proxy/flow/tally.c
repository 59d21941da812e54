#include "proxy/flow/tally.h"

#include <openssl/evp.h>

enum status
tally_init(struct tally *t)
{
	*t = (struct tally){ .ctx = EVP_MD_CTX_new() };
	if (t->ctx == NULL || EVP_DigestInit_ex(t->ctx, EVP_sha256(), NULL) != 1) {
		tally_done(t);
		return ST_NOMEM;
	}
	return ST_OK;
}

void
tally_done(struct tally *t)
{
	EVP_MD_CTX_free(t->ctx);
	t->ctx = NULL;
}

void
tally_put(struct tally *t, struct str s)
{
	need(EVP_DigestUpdate(t->ctx, s.p, s.n) == 1);
	t->octets += s.n;
}

enum status
tally_sum(const struct tally *t, uint8_t ret_hash[TALLY_HASH])
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool is_done = ctx != NULL && EVP_MD_CTX_copy_ex(ctx, t->ctx) == 1 &&
		       EVP_DigestFinal_ex(ctx, ret_hash, NULL) == 1;

	EVP_MD_CTX_free(ctx);
	return is_done ? ST_OK : ST_NOMEM;
}

void
tally_restart(struct tally *t)
{
	need(EVP_DigestInit_ex(t->ctx, NULL, NULL) == 1);
	t->octets = 0;
}

enum status
tally_fork(struct tally *early, const struct tally *t)
{
	if (early->ctx == NULL)
		early->ctx = EVP_MD_CTX_new();
	if (early->ctx == NULL || EVP_MD_CTX_copy_ex(early->ctx, t->ctx) != 1)
		return ST_NOMEM;
	early->octets = t->octets;
	return ST_OK;
}

void
tally_settle(struct tally *t, struct tally *early)
{
	EVP_MD_CTX *ctx = t->ctx;

	t->ctx = early->ctx;
	t->octets = early->octets;
	early->ctx = ctx;
}
