#ifndef TESTS_UNIT_MAKE_CERT_H
#define TESTS_UNIT_MAKE_CERT_H
/* A certificate authority and leaves of it, made on the spot. */
#include <time.h>

#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

struct made {
	EVP_PKEY *key;
	X509 *cert;
};

static inline void
cert_extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;

	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	assert_non_null(e);
	assert_int_equal(X509_add_ext(cert, e, -1), 1);
	X509_EXTENSION_free(e);
}

static inline X509 *
cert_blank(const char *name, EVP_PKEY *key, long serial)
{
	X509 *c = X509_new();

	assert_int_equal(X509_set_version(c, 2), 1);
	assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(c), serial), 1);
	assert_non_null(X509_time_adj_ex(X509_getm_notBefore(c), -1, 0, NULL));
	assert_non_null(X509_time_adj_ex(X509_getm_notAfter(c), 30, 0, NULL));
	assert_int_equal(
		X509_NAME_add_entry_by_txt(X509_get_subject_name(c), "CN", MBSTRING_ASC,
					   (const unsigned char *)name, -1, -1, 0),
		1);
	assert_int_equal(X509_set_pubkey(c, key), 1);
	return c;
}

static inline struct made
cert_authority(void)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *c = cert_blank("a test's authority", key, 1);

	assert_int_equal(X509_set_issuer_name(c, X509_get_subject_name(c)), 1);
	cert_extend(c, c, NID_basic_constraints, "critical,CA:TRUE");
	cert_extend(c, c, NID_key_usage, "critical,keyCertSign,cRLSign");
	cert_extend(c, c, NID_subject_key_identifier, "hash");
	assert_true(X509_sign(c, key, EVP_sha256()) > 0);
	return (struct made){ key, c };
}

/* names: as "DNS:a.test,IP:127.0.0.1". */
static inline struct made
cert_leaf(const struct made *ca, const char *names)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *c = cert_blank("a test's leaf", key, 2);

	assert_int_equal(X509_set_issuer_name(c, X509_get_subject_name(ca->cert)), 1);
	cert_extend(c, ca->cert, NID_basic_constraints, "critical,CA:FALSE");
	cert_extend(c, ca->cert, NID_key_usage, "critical,digitalSignature");
	cert_extend(c, ca->cert, NID_ext_key_usage, "serverAuth");
	cert_extend(c, ca->cert, NID_subject_alt_name, names);
	cert_extend(c, ca->cert, NID_authority_key_identifier, "keyid:always");
	assert_true(X509_sign(c, ca->key, EVP_sha256()) > 0);
	return (struct made){ key, c };
}

static inline void
cert_done(struct made *m)
{
	EVP_PKEY_free(m->key);
	X509_free(m->cert);
}

static inline SSL_CTX *
cert_server(const struct made *leaf)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

	assert_int_equal(SSL_CTX_use_certificate(ctx, leaf->cert), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(ctx, leaf->key), 1);
	SSL_CTX_set_read_ahead(ctx, 1);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
	return ctx;
}

static inline SSL_CTX *
cert_client(const struct made *ca)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());

	assert_int_equal(X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), ca->cert), 1);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_read_ahead(ctx, 1);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
	return ctx;
}

#endif
