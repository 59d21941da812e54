/*
 * The judge of certificates on any bytes, as a leaf that is trusted for itself, so that
 * no signature is in the way.  What it accepts for a name is version 3, is for servers,
 * has that name among its alternative names and is no authority; and the same
 * certificate written anew gets the same verdict.
 */
#include <string.h>

#include "proxy/flow/tls_verify.c"

static int
verdict(X509 *leaf, const struct dest *d, bool is_trusted)
{
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	X509_STORE *store = X509_STORE_new();

	need(ctx != NULL && store != NULL);
	need(!is_trusted || X509_STORE_add_cert(store, leaf) == 1);
	need(X509_STORE_CTX_init(ctx, store, leaf, NULL) == 1);
	X509_VERIFY_PARAM *p = X509_STORE_CTX_get0_param(ctx);
	need(tls_verify_expect(p, d) == ST_OK);
	unsigned long flags = X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_NO_CHECK_TIME;
	need(X509_VERIFY_PARAM_set_flags(p, is_trusted ? flags : 0) == 1);
	int rc = tls_verify(ctx, NULL), e = X509_STORE_CTX_get_error(ctx);
	need((rc == 1) == (e == X509_V_OK));
	need((tls_verify_status(e) == ST_OK) == (e == X509_V_OK));
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	return e;
}

static void
check_accepted(X509 *leaf, const struct dest *d)
{
	static const char server_auth[] = "\x06\x08\x2b\x06\x01\x05\x05\x07\x03\x01";
	int at = X509_get_ext_by_NID(leaf, NID_ext_key_usage, -1);
	struct str name = dest_name(d);

	need(X509_get_version(leaf) == 2 && at >= 0);
	const ASN1_OCTET_STRING *eku = X509_EXTENSION_get_data(X509_get_ext(leaf, at));
	need(memmem(ASN1_STRING_get0_data(eku), (size_t)ASN1_STRING_length(eku),
		    server_auth, sizeof server_auth - 1) != NULL);
	need(X509_check_ca(leaf) == 0);
	need(X509_check_host(leaf, name.p, name.n, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT,
			     NULL) == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const unsigned char *p = data;
	unsigned char *der = NULL;
	struct dest d, literal;
	X509 *leaf = d2i_X509(NULL, &p, (long)size), *again;

	if (leaf == NULL)
		return 0;
	need(dest_from_host(STR("example.com"), 443, &d) == ST_OK);
	need(dest_from_host(STR("192.0.2.1"), 443, &literal) == ST_OK);
	(void)verdict(leaf, &literal, true);
	/* Nobody vouches for it: whatever it says, it is not accepted. */
	need(verdict(leaf, &d, false) != X509_V_OK);
	int e = verdict(leaf, &d, true);
	if (e == X509_V_OK)
		check_accepted(leaf, &d);
	int n = i2d_X509(leaf, &der);
	const unsigned char *q = der;
	again = n > 0 ? d2i_X509(NULL, &q, n) : NULL;
	need(again != NULL && verdict(again, &d, true) == e);
	X509_free(again);
	X509_free(leaf);
	OPENSSL_free(der);
	return 0;
}
