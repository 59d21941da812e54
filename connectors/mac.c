#include "connectors/mac.h"

#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

static const EVP_MD *
hash_of(enum mac_hash h)
{
	switch (h) {
	case MAC_HASH_SHA1:
		return EVP_sha1();
	case MAC_HASH_SHA512:
		return EVP_sha512();
	case MAC_HASH_SHA256:
		break;
	}
	return EVP_sha256();
}

enum status
mac_digest(enum mac_hash h, struct str data, struct mac *ret_m)
{
	struct mac m = { .n = 0 };
	unsigned n = 0;

	if (EVP_Digest(data.p, data.n, (unsigned char *)m.bytes, &n, hash_of(h),
		       NULL) != 1)
		return ST_NOMEM;
	m.n = n;
	*ret_m = m;
	return ST_OK;
}

enum status
mac_keyed(enum mac_hash h, struct str key, struct str data, struct mac *ret_m)
{
	struct mac m = { .n = 0 };
	unsigned n = 0;

	if (key.n > INT_MAX)
		return ST_TOO_BIG;
	/* A null key would mean the key of the call before. */
	if (HMAC(hash_of(h), key.n == 0 ? "" : key.p, (int)key.n,
		 (const unsigned char *)data.p, data.n, (unsigned char *)m.bytes,
		 &n) == NULL)
		return ST_NOMEM;
	m.n = n;
	*ret_m = m;
	mac_wipe(&m);
	return ST_OK;
}

struct str
mac_view(const struct mac *m)
{
	return str_of(m->bytes, m->n);
}

void
mac_wipe(struct mac *m)
{
	OPENSSL_cleanse(m, sizeof *m);
}
