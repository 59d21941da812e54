#include "vault/seal.h"

#include <string.h>
#include <sys/random.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

enum { NONCE = 12, TAG = 16, LARGEST = 1 << 20 };

static const char *const labels[SEAL_USES] = {
	[SEAL_WRAP] = "sandgate vault: data keys",
	[SEAL_FILE] = "sandgate vault: rows",
	[SEAL_CHECK] = "sandgate vault: is this the key",
	[SEAL_MARK] = "sandgate vault: how far it came",
};

void
seal_key_done(struct seal_key *k)
{
	OPENSSL_cleanse(k, sizeof *k);
}

static bool
fill_random(unsigned char *p, size_t n)
{
	return getrandom(p, n, 0) == (ssize_t)n;
}

enum status
seal_random(struct seal_key *ret_k)
{
	return fill_random(ret_k->b, sizeof ret_k->b) ? ST_OK : ST_SYSTEM;
}

enum status
seal_mac(const struct seal_key *key, struct str data, struct seal_key *ret_mac)
{
	unsigned n = 0;
	struct seal_key mac;

	if (HMAC(EVP_sha256(), key->b, SEAL_KEY, (const unsigned char *)data.p, data.n,
		 mac.b, &n) == NULL ||
	    n != sizeof mac.b)
		return ST_NOMEM;
	*ret_mac = mac;
	return ST_OK;
}

enum status
seal_derive(const struct seal_key *master, enum seal_use use, struct seal_key *ret_k)
{
	need((size_t)use < SEAL_USES);
	return seal_mac(master, str_from(labels[use]), ret_k);
}

bool
seal_key_eq(const struct seal_key *a, const struct seal_key *b)
{
	return CRYPTO_memcmp(a->b, b->b, sizeof a->b) == 0;
}

static const unsigned char *
bytes(struct str s)
{
	return (const unsigned char *)s.p;
}

static bool
encrypt(EVP_CIPHER_CTX *ctx, const struct seal_key *key, struct str aad,
	struct str plain, unsigned char *sealed)
{
	unsigned char *text = sealed + NONCE;
	int n = 0, end = 0;

	return EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key->b, sealed) == 1 &&
	       EVP_EncryptUpdate(ctx, NULL, &n, bytes(aad), (int)aad.n) == 1 &&
	       EVP_EncryptUpdate(ctx, text, &n, bytes(plain), (int)plain.n) == 1 &&
	       EVP_EncryptFinal_ex(ctx, text + n, &end) == 1 &&
	       (size_t)n + (size_t)end == plain.n &&
	       EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG, text + plain.n) == 1;
}

enum status
seal_close(const struct seal_key *key, struct str aad, struct str plain,
	   unsigned char *sealed)
{
	need(plain.n > 0 && plain.n <= LARGEST && aad.n <= LARGEST);
	if (!fill_random(sealed, NONCE))
		return ST_SYSTEM;
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	bool ok = ctx != NULL && encrypt(ctx, key, aad, plain, sealed);
	EVP_CIPHER_CTX_free(ctx); /* wipes its key schedule */
	return ok ? ST_OK : ST_NOMEM;
}

/* The tag is a copy: the call takes it as not const. */
static bool
decrypt(EVP_CIPHER_CTX *ctx, const struct seal_key *key, struct str aad,
	struct str sealed, unsigned char *plain)
{
	size_t text_n = sealed.n - SEAL_MORE;
	const unsigned char *text = bytes(sealed) + NONCE;
	unsigned char tag[TAG];
	int n = 0, end = 0;

	memcpy(tag, text + text_n, TAG);
	return EVP_DecryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key->b,
				  bytes(sealed)) == 1 &&
	       EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG, tag) == 1 &&
	       EVP_DecryptUpdate(ctx, NULL, &n, bytes(aad), (int)aad.n) == 1 &&
	       EVP_DecryptUpdate(ctx, plain, &n, text, (int)text_n) == 1 &&
	       EVP_DecryptFinal_ex(ctx, plain + n, &end) == 1 &&
	       (size_t)n + (size_t)end == text_n;
}

enum status
seal_open(const struct seal_key *key, struct str aad, struct str sealed,
	  unsigned char *plain)
{
	need(aad.n <= LARGEST);
	if (sealed.n <= SEAL_MORE || sealed.n > LARGEST)
		return ST_VAULT_DAMAGED;
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	if (ctx == NULL)
		return ST_NOMEM;
	bool ok = decrypt(ctx, key, aad, sealed, plain);
	EVP_CIPHER_CTX_free(ctx);
	if (!ok)
		OPENSSL_cleanse(plain, sealed.n - SEAL_MORE);
	return ok ? ST_OK : ST_VAULT_DAMAGED;
}
