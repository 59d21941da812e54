#ifndef TESTS_UNIT_LEDGER_BENCH_H
#define TESTS_UNIT_LEDGER_BENCH_H
/* What tests of the ledger share: a directory, rows, a keeper's key. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "proxy/cli/ledger_verify.h"
#include "proxy/ledger/heads.h"
#include "proxy/ledger/store.h"

static inline void
bench_dir(char *path, size_t n)
{
	(void)snprintf(path, n, "/tmp/sandgate-ledger-XXXXXX");
	assert_non_null(mkdtemp(path));
}

static inline void
bench_wipe(const char *dir)
{
	DIR *d = opendir(dir);
	char path[512];

	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d)) != NULL;) {
		(void)snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		if (e->d_name[0] != '.')
			(void)unlink(path);
	}
	(void)closedir(d);
	(void)rmdir(dir);
}

/* The n-th row of a story: every third is a refusal. */
static inline struct row
bench_row(struct row_ids *ids, uint64_t n)
{
	static char host[64];
	uint64_t id = row_next_id(ids);

	(void)snprintf(host, sizeof host, "h%llu.example.test:443",
		       (unsigned long long)n);
	return (struct row){ .id = id,
			     .turn = id,
			     .time_us = 1700000000000000 + n * 1000,
			     .kind = n % 3 == 0 ? ROW_DENY : ROW_TUNNEL_START,
			     .reason = n % 3 == 0 ? ST_DENIED : ST_OK,
			     .sandbox = n % 2 == 0 ? STR("demo") : STR("ci"),
			     .host = str_from(host),
			     .rule = STR("sandgate.yaml:12") };
}

static inline void
bench_add(struct store *s, const struct row *r)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str bytes;

	buf_init(&b, ROW_MAX);
	row_put(&b, r);
	assert_int_equal(buf_finish(&b, &bytes), ST_OK);
	assert_int_equal(store_add(s, bytes, r), ST_OK);
}

static inline void
bench_fill(struct store *s, struct row_ids *ids, uint64_t from, uint64_t to)
{
	for (uint64_t n = from; n < to;) {
		assert_int_equal(store_begin(s), ST_OK);
		for (uint64_t end = n + 20; n < end && n < to; n++) {
			struct row r = bench_row(ids, n);
			bench_add(s, &r);
		}
		assert_int_equal(store_commit(s), ST_OK);
	}
}

static inline EVP_PKEY *
bench_key(unsigned char fill)
{
	unsigned char seed[32];

	memset(seed, fill, sizeof seed);
	EVP_PKEY *key =
		EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, sizeof seed);
	assert_non_null(key);
	return key;
}

static inline enum status
bench_sign_one(struct heads *h, struct store *s, EVP_PKEY *key, const struct head *x)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	unsigned char sig[CHAIN_SIG], pub[CHAIN_KEY];
	size_t sig_n = sizeof sig, pub_n = sizeof pub;
	struct str text;

	buf_init(&b, 128);
	chain_put_statement(&b, x->segment, &x->link);
	assert_int_equal(buf_finish(&b, &text), ST_OK);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	assert_int_equal(EVP_DigestSignInit(ctx, NULL, NULL, NULL, key), 1);
	assert_int_equal(
		EVP_DigestSign(ctx, sig, &sig_n, (const unsigned char *)text.p, text.n),
		1);
	assert_int_equal(EVP_PKEY_get_raw_public_key(key, pub, &pub_n), 1);
	EVP_MD_CTX_free(ctx);
	return heads_signed(h, s, x, str_of(sig, sig_n), str_of(pub, pub_n));
}

/* Everything that wants a signature. */
static inline void
bench_sign(struct heads *h, struct store *s, EVP_PKEY *key)
{
	struct head x;
	enum status st;

	while ((st = heads_wanted(s, &x)) == ST_OK)
		assert_int_equal(bench_sign_one(h, s, key, &x), ST_OK);
	assert_int_equal(st, ST_END);
}

#endif
