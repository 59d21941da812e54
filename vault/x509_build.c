#include "vault/x509_build.h"

#include <sys/random.h>

enum { SERIAL = 16 };

static bool
set_serial(X509 *x)
{
	unsigned char bytes[SERIAL];

	if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
		return false;
	/* Positive, and of full length: RFC 5280 section 4.1.2.2. */
	bytes[0] = (unsigned char)((bytes[0] & 0x7f) | 0x40);
	BIGNUM *number = BN_bin2bn(bytes, sizeof bytes, NULL);
	bool ok = number != NULL &&
		  BN_to_ASN1_INTEGER(number, X509_get_serialNumber(x)) != NULL;
	BN_free(number);
	return ok;
}

bool
x509_begin(X509 *x, const struct x509_span *span)
{
	return X509_set_version(x, X509_VERSION_3) == 1 && set_serial(x) &&
	       ASN1_TIME_set(X509_getm_notBefore(x), (time_t)span->from) != NULL &&
	       ASN1_TIME_set(X509_getm_notAfter(x), (time_t)span->to) != NULL;
}

bool
x509_extend(X509 *x, X509 *issuer, int nid, const char *text)
{
	X509V3_CTX ctx;

	X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, text);
	bool ok = e != NULL && X509_add_ext(x, e, -1) == 1;
	X509_EXTENSION_free(e);
	return ok;
}
