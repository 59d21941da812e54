#include "proxy/flow/tls_verify.h"

#include <openssl/evp.h>
#include <openssl/x509v3.h>

enum { SERIAL_MAX = 20, RSA_BITS_MIN = 2048, RSA_BITS_MAX = 16384, SECURITY_LEVEL = 2 };

enum status
tls_verify_expect(X509_VERIFY_PARAM *p, const struct dest *d)
{
	struct str name = dest_name(d);
	int rc;

	X509_VERIFY_PARAM_set_depth(p, TLS_DEPTH_MAX);
	X509_VERIFY_PARAM_set_auth_level(p, SECURITY_LEVEL);
	X509_VERIFY_PARAM_set_hostflags(p,
					X509_CHECK_FLAG_NEVER_CHECK_SUBJECT |
						X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	if (dest_is_name(d))
		rc = X509_VERIFY_PARAM_set1_host(p, name.p, name.n);
	else
		rc = X509_VERIFY_PARAM_set1_ip(p, d->addr.b,
					       d->addr.family == 4 ? 4 : 16);
	if (rc != 1 || X509_VERIFY_PARAM_set_flags(p, X509_V_FLAG_X509_STRICT) != 1 ||
	    X509_VERIFY_PARAM_set_purpose(p, X509_PURPOSE_SSL_SERVER) != 1)
		return ST_NOMEM;
	return ST_OK;
}

/* Each judge_ gives X509_V_OK or what is wrong. */

static int
judge_key(const X509 *x, int too_small)
{
	const EVP_PKEY *key = X509_get0_pubkey(x);
	int bits = key == NULL ? 0 : EVP_PKEY_get_bits(key);

	if (key == NULL)
		return X509_V_ERR_UNABLE_TO_DECODE_ISSUER_PUBLIC_KEY;
	switch (EVP_PKEY_get_base_id(key)) {
	case EVP_PKEY_RSA:
	case EVP_PKEY_RSA_PSS:
		/* A huge one costs the verifier, not its maker. */
		return bits < RSA_BITS_MIN || bits > RSA_BITS_MAX ? too_small
								  : X509_V_OK;
	case EVP_PKEY_EC:
		return bits == 256 || bits == 384 || bits == 521 ? X509_V_OK
								 : too_small;
	case EVP_PKEY_ED25519:
		return X509_V_OK;
	default:
		return too_small;
	}
}

static int
judge_signature(X509 *x)
{
	int md = NID_undef, key = NID_undef;

	if (X509_get_signature_info(x, &md, &key, NULL, NULL) != 1)
		return X509_V_ERR_CA_MD_TOO_WEAK;
	if (key == NID_ED25519)
		return X509_V_OK;
	if (key != EVP_PKEY_RSA && key != EVP_PKEY_RSA_PSS && key != EVP_PKEY_EC)
		return X509_V_ERR_CA_MD_TOO_WEAK;
	return md == NID_sha256 || md == NID_sha384 || md == NID_sha512
		       ? X509_V_OK
		       : X509_V_ERR_CA_MD_TOO_WEAK;
}

static int
judge_serial(const X509 *x)
{
	const ASN1_INTEGER *n = X509_get0_serialNumber(x);
	int octets = ASN1_STRING_length(n);
	/* A first octet from 0x80 on takes one more in DER, for the sign. */
	bool is_padded = octets > 0 && (ASN1_STRING_get0_data(n)[0] & 0x80) != 0;
	bool is_zero = octets == 0 || (octets == 1 && ASN1_STRING_get0_data(n)[0] == 0);

	if (is_zero || ASN1_STRING_type(n) == V_ASN1_NEG_INTEGER ||
	    octets + is_padded > SERIAL_MAX)
		return X509_V_ERR_CERT_REJECTED;
	return X509_V_OK;
}

/* Extensions that OpenSSL leaves alone until somebody asks for them. */
static int
judge_extensions(const X509 *x)
{
	int access = -1, limits = -1;
	AUTHORITY_INFO_ACCESS *a = X509_get_ext_d2i(x, NID_info_access, &access, NULL);
	NAME_CONSTRAINTS *c = X509_get_ext_d2i(x, NID_name_constraints, &limits, NULL);
	/* -1: it isn't there.  RFC 5280 section 4.2.1.10: not without any subtree. */
	bool is_good =
		(a != NULL || access == -1) &&
		(c != NULL ? sk_GENERAL_SUBTREE_num(c->permittedSubtrees) > 0 ||
				     sk_GENERAL_SUBTREE_num(c->excludedSubtrees) > 0
			   : limits == -1);

	AUTHORITY_INFO_ACCESS_free(a);
	NAME_CONSTRAINTS_free(c);
	return is_good ? X509_V_OK : X509_V_ERR_INVALID_EXTENSION;
}

/* What every certificate below the anchor must be. */
static int
judge_common(X509 *x, bool is_leaf)
{
	int e;

	if (X509_get_version(x) != X509_VERSION_3)
		return X509_V_ERR_INVALID_EXTENSION;
	if ((X509_get_extension_flags(x) & EXFLAG_INVALID) != 0)
		return X509_V_ERR_INVALID_EXTENSION;
	e = judge_key(x, is_leaf ? X509_V_ERR_EE_KEY_TOO_SMALL
				 : X509_V_ERR_CA_KEY_TOO_SMALL);
	if (e == X509_V_OK)
		e = judge_signature(x);
	if (e == X509_V_OK)
		e = judge_serial(x);
	return e == X509_V_OK ? judge_extensions(x) : e;
}

static int
judge_usage(X509 *x)
{
	const X509_EXTENSION *eku;
	int at = X509_get_ext_by_NID(x, NID_ext_key_usage, -1);
	uint32_t usage;

	/* No authority vouches for hosts with its own key. */
	if ((X509_get_extension_flags(x) & EXFLAG_CA) != 0)
		return X509_V_ERR_INVALID_PURPOSE;
	if ((X509_get_extension_flags(x) & EXFLAG_KUSAGE) != 0 &&
	    (X509_get_key_usage(x) & (KU_KEY_CERT_SIGN | KU_CRL_SIGN)) != 0)
		return X509_V_ERR_INVALID_PURPOSE;
	if (at < 0)
		return X509_V_ERR_INVALID_PURPOSE;
	eku = X509_get_ext(x, at);
	usage = X509_get_extended_key_usage(x);
	if (X509_EXTENSION_get_critical(eku) || (usage & XKU_SSL_SERVER) == 0 ||
	    (usage & XKU_ANYEKU) != 0)
		return X509_V_ERR_INVALID_PURPOSE;
	return X509_V_OK;
}

/* RFC 5280 section 4.2.1.6: critical if, and only if, the subject is empty. */
static int
judge_names(const X509 *x)
{
	int at = X509_get_ext_by_NID(x, NID_subject_alt_name, -1);
	bool has_subject = X509_NAME_entry_count(X509_get_subject_name(x)) > 0;

	if (at < 0)
		return X509_V_ERR_HOSTNAME_MISMATCH;
	if ((X509_EXTENSION_get_critical(X509_get_ext(x, at)) != 0) == has_subject)
		return X509_V_ERR_INVALID_EXTENSION;
	if (X509_get_ext_by_NID(x, NID_name_constraints, -1) >= 0)
		return X509_V_ERR_INVALID_EXTENSION;
	return X509_V_OK;
}

/* Its own signature proves nothing and isn't looked at. */
static int
judge_anchor(const X509 *x)
{
	if (X509_get_version(x) == X509_VERSION_3 &&
	    X509_get_ext_by_NID(x, NID_ext_key_usage, -1) >= 0)
		return X509_V_ERR_INVALID_PURPOSE;
	return judge_key(x, X509_V_ERR_CA_KEY_TOO_SMALL);
}

static int
judge(const STACK_OF(X509) * chain, int *ret_depth)
{
	int n = sk_X509_num(chain), e = X509_V_OK;

	for (int i = 0; i < n && e == X509_V_OK; i++) {
		X509 *x = sk_X509_value(chain, i);
		*ret_depth = i;
		/* The last one is what we trust, unless it is the leaf itself. */
		e = i > 0 && i == n - 1 ? judge_anchor(x) : judge_common(x, i == 0);
		if (e == X509_V_OK && i == 0)
			e = judge_usage(x);
		if (e == X509_V_OK && i == 0)
			e = judge_names(x);
	}
	return n > 0 ? e : X509_V_ERR_UNSPECIFIED;
}

int
tls_verify(X509_STORE_CTX *ctx, void *arg)
{
	int depth = 0, e;

	(void)arg;
	if (X509_verify_cert(ctx) != 1) {
		/* No reason would pass for success. */
		if (X509_STORE_CTX_get_error(ctx) == X509_V_OK)
			X509_STORE_CTX_set_error(ctx, X509_V_ERR_UNSPECIFIED);
		return 0;
	}
	e = judge(X509_STORE_CTX_get0_chain(ctx), &depth);
	X509_STORE_CTX_set_error_depth(ctx, depth);
	X509_STORE_CTX_set_error(ctx, e);
	return e == X509_V_OK;
}

enum status
tls_verify_status(int reason)
{
	switch (reason) {
	case X509_V_OK:
		return ST_OK;
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		return ST_UPSTREAM_NAME;
	case X509_V_ERR_CERT_HAS_EXPIRED:
	case X509_V_ERR_CERT_NOT_YET_VALID:
		return ST_UPSTREAM_EXPIRED;
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
	case X509_V_ERR_CERT_UNTRUSTED:
		return ST_UPSTREAM_UNTRUSTED;
	case X509_V_ERR_OUT_OF_MEM:
		return ST_NOMEM;
	default:
		return ST_UPSTREAM_CERTIFICATE;
	}
}
