#include "vault/mint.h"

#include <stdio.h>
#include <string.h>

#include "proxy/base/addr.h"
#include "vault/x509_build.h"

/* A refusal is read at once; an intercepted host is used for a working day. */
enum { LIFE_S = 24 * 3600, REFUSAL_LIFE_S = 3600, NAME_MAX_N = 253, CN_MAX = 64 };

static bool
is_label(struct str s)
{
	if (s.n == 0 || s.n > 63 || s.p[0] == '-' || s.p[s.n - 1] == '-')
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (!(c >= 'a' && c <= 'z') && !ascii_is_digit(c) && c != '-' &&
		    c != '_')
			return false;
	}
	return true;
}

static bool
is_name(struct str s)
{
	if (s.n == 0 || s.n > NAME_MAX_N)
		return false;
	while (s.p != NULL)
		if (!is_label(str_cut(&s, '.')))
			return false;
	return true;
}

bool
mint_is_host(struct str host)
{
	struct addr a;

	return addr_parse(host, &a) || is_name(host);
}

/* The characters of a name and of an address mean nothing to OpenSSL's reader of such
 * texts: no comma, no '@', no ':' but in an address behind "IP:". */
static bool
set_names(X509 *x, struct str host)
{
	char text[NAME_MAX_N + 8], cn[CN_MAX + 1] = "sandgate";
	struct addr a;
	bool is_address = addr_parse(host, &a);

	(void)snprintf(text, sizeof text, "%s:%.*s", is_address ? "IP" : "DNS",
		       STR_ARG(host));
	if (host.n <= CN_MAX)
		(void)snprintf(cn, sizeof cn, "%.*s", STR_ARG(host));
	return X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
					  (const unsigned char *)cn, -1, -1, 0) == 1 &&
	       x509_extend(x, x, NID_subject_alt_name, text);
}

/* SubjectPublicKeyInfo of P-256 up to the point: RFC 5480. */
static const unsigned char spki_head[] = { 0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a,
					   0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06,
					   0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03,
					   0x01, 0x07, 0x03, 0x42, 0x00 };

/* NULL: not on the curve. */
static EVP_PKEY *
key_of(struct str point)
{
	unsigned char spki[sizeof spki_head + MINT_POINT];
	const unsigned char *at = spki;

	if (point.n != MINT_POINT || point.p[0] != 4)
		return NULL;
	memcpy(spki, spki_head, sizeof spki_head);
	memcpy(spki + sizeof spki_head, point.p, MINT_POINT);
	return d2i_PUBKEY(NULL, &at, sizeof spki);
}

static bool
build(X509 *x, const struct ca *ca, struct str host, EVP_PKEY *key,
      const struct x509_span *span)
{
	return x509_begin(x, span) && X509_set_pubkey(x, key) == 1 &&
	       X509_set_issuer_name(x, X509_get_subject_name(ca->cert)) == 1 &&
	       set_names(x, host) &&
	       x509_extend(x, ca->cert, NID_basic_constraints, "critical,CA:FALSE") &&
	       x509_extend(x, ca->cert, NID_key_usage, "critical,digitalSignature") &&
	       x509_extend(x, ca->cert, NID_ext_key_usage, "serverAuth") &&
	       x509_extend(x, ca->cert, NID_subject_key_identifier, "hash") &&
	       x509_extend(x, ca->cert, NID_authority_key_identifier, "keyid:always") &&
	       X509_sign(x, ca->key, EVP_sha256()) > 0;
}

static void
put_der(struct buf *b, X509 *x)
{
	unsigned char *der = NULL;
	int n = i2d_X509(x, &der);

	if (n > 0)
		buf_put(b, str_of(der, (size_t)n));
	else
		b->st = b->st == ST_OK ? ST_NOMEM : b->st;
	OPENSSL_free(der);
}

static struct x509_span
span_of(enum mint_way way, const struct mint_time *t)
{
	uint64_t life = way == MINT_INTERCEPT ? LIFE_S : REFUSAL_LIFE_S;
	struct x509_span span = { t->now - X509_BACKDATE, t->now + life };

	if (t->until != 0 && t->until < span.to)
		span.to = t->until;
	return span;
}

enum status
mint_put_leaf(struct buf *b, const struct ca *ca, struct str host, enum mint_way way,
	      struct str point, const struct mint_time *t)
{
	const struct x509_span span = span_of(way, t);

	if (!mint_is_host(host))
		return ST_BAD_HOST;
	EVP_PKEY *key = key_of(point);
	if (key == NULL)
		return ST_BAD_MESSAGE;
	X509 *x = X509_new();
	enum status st = x != NULL && build(x, ca, host, key, &span) ? ST_OK : ST_NOMEM;
	if (st == ST_OK)
		put_der(b, x);
	X509_free(x);
	EVP_PKEY_free(key);
	return st == ST_OK ? b->st : st;
}
