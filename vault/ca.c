#include "vault/ca.h"

#include <stdio.h>
#include <string.h>

#include <openssl/ec.h>
#include <openssl/evp.h>

#include "proxy/base/enc.h"
#include "proxy/base/num.h"
#include "vault/seal.h"
#include "vault/x509_build.h"

/* Two CAs of an overlap, and those of two gateways, must not have one name: chains are
 * built by name. */
static bool
set_name(X509 *x)
{
	struct seal_key random;
	char text[40];

	if (seal_random(&random) != ST_OK)
		return false;
	(void)snprintf(text, sizeof text, "sandgate CA %02x%02x%02x%02x", random.b[0],
		       random.b[1], random.b[2], random.b[3]);
	X509_NAME *name = X509_get_subject_name(x);
	return X509_NAME_add_entry_by_txt(name, "O", MBSTRING_ASC,
					  (const unsigned char *)"sandgate", -1, -1,
					  0) == 1 &&
	       X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
					  (const unsigned char *)text, -1, -1,
					  0) == 1 &&
	       X509_set_issuer_name(x, name) == 1;
}

/* No path below it: what it signs are leaves. */
static bool
build(X509 *x, EVP_PKEY *key, uint64_t now)
{
	const struct x509_span span = { now - X509_BACKDATE,
					now + (uint64_t)CA_DAYS * 86400 };

	return x509_begin(x, &span) && set_name(x) && X509_set_pubkey(x, key) == 1 &&
	       x509_extend(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
	       x509_extend(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
	       x509_extend(x, x, NID_subject_key_identifier, "hash") &&
	       x509_extend(x, x, NID_authority_key_identifier, "keyid:always") &&
	       X509_sign(x, key, EVP_sha256()) > 0;
}

enum status
ca_make(uint64_t now, struct ca *ret_ca)
{
	struct ca ca = { EVP_EC_gen("P-256"), X509_new() };

	if (ca.key == NULL || ca.cert == NULL || !build(ca.cert, ca.key, now)) {
		ca_done(&ca);
		return ST_NOMEM;
	}
	*ret_ca = ca;
	return ST_OK;
}

void
ca_done(struct ca *ca)
{
	EVP_PKEY_free(ca->key); /* wipes the private half */
	X509_free(ca->cert);
	*ca = (struct ca){ NULL, NULL };
}

enum status
ca_save(const struct ca *ca, struct secret *ret_value)
{
	CLEANUP(secret_done) struct secret s = { 0 };
	enum status st = secret_new(CA_VALUE_MAX, &s);

	if (st != ST_OK)
		return st;
	int key_n = i2d_PrivateKey(ca->key, NULL), cert_n = i2d_X509(ca->cert, NULL);
	if (key_n <= 0 || cert_n <= 0 || key_n > CA_VALUE_MAX / 2 ||
	    cert_n > CA_VALUE_MAX / 2 - 2)
		return ST_TOO_BIG;
	unsigned char *at = secret_bytes_mut(&s);
	*at++ = (unsigned char)(key_n >> 8);
	*at++ = (unsigned char)(key_n & 0xff);
	if (i2d_PrivateKey(ca->key, &at) != key_n || i2d_X509(ca->cert, &at) != cert_n)
		return ST_NOMEM;
	secret_cut(&s, 2 + (size_t)key_n + (size_t)cert_n);
	*ret_value = s;
	s = (struct secret){ 0 };
	return ST_OK;
}

static bool
take(const unsigned char *value, size_t n, struct ca *ca)
{
	size_t key_n = n < 2 ? 0 : num_be16(value);

	if (n < 2 || key_n > n - 2)
		return false;
	const unsigned char *key = value + 2, *cert = key + key_n;
	const unsigned char *key_end = cert, *end = value + n;
	ca->key = d2i_PrivateKey(EVP_PKEY_EC, NULL, &key, (long)key_n);
	ca->cert = d2i_X509(NULL, &cert, (long)(n - 2 - key_n));
	return ca->key != NULL && ca->cert != NULL && key == key_end && cert == end &&
	       X509_check_private_key(ca->cert, ca->key) == 1;
}

enum status
ca_load(const unsigned char *value, size_t n, struct ca *ret_ca)
{
	struct ca ca = { NULL, NULL };

	if (!take(value, n, &ca)) {
		ca_done(&ca);
		return ST_VAULT_DAMAGED;
	}
	*ret_ca = ca;
	return ST_OK;
}

static void
put_lines(struct buf *b, struct str text)
{
	enum { LINE = 64 };

	for (; text.n > 0; text = str_skip(text, LINE)) {
		buf_put(b, str_head(text, LINE));
		buf_putc(b, '\n');
	}
}

void
ca_put_pem(struct buf *b, const struct ca *ca)
{
	CLEANUP(buf_done) struct buf text = { 0 };
	unsigned char *der = NULL;
	int n = i2d_X509(ca->cert, &der);

	buf_init(&text, (size_t)CA_VALUE_MAX * 2);
	if (n > 0)
		enc_put_base64(&text, str_of(der, (size_t)n));
	OPENSSL_free(der);
	buf_put(b, STR("-----BEGIN CERTIFICATE-----\n"));
	put_lines(b, str_of(text.p, text.len));
	buf_put(b, STR("-----END CERTIFICATE-----\n"));
	if (n <= 0 || text.st != ST_OK)
		b->st = b->st == ST_OK ? ST_NOMEM : b->st;
}

uint64_t
ca_expires(const struct ca *ca)
{
	struct tm tm = { 0 };

	if (ASN1_TIME_to_tm(X509_get0_notAfter(ca->cert), &tm) != 1)
		return 0;
	time_t t = timegm(&tm);
	return t < 0 ? 0 : (uint64_t)t;
}
