#include "vault/mint.h"

#include <stdio.h>

#include <openssl/ec.h>

#include "proxy/base/addr.h"
#include "vault/x509_build.h"

/* A refusal is read at once; an intercepted host is used for a working day. */
enum {
	LIFE_S = 24 * 3600,
	REFUSAL_LIFE_S = 3600,
	NAME_MAX_N = 253,
	CN_MAX = 64,
	NAMES_TEXT = 5000
};

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
put_names(struct buf *b, const struct mint_names *names)
{
	struct addr a;

	for (size_t i = 0; i < names->n; i++) {
		buf_put(b, i == 0 ? STR("") : STR(","));
		buf_put(b, addr_parse(names->v[i], &a) ? STR("IP:") : STR("DNS:"));
		buf_put(b, names->v[i]);
	}
	return buf_cstr(b) != NULL;
}

static bool
set_names(X509 *x, const struct mint_names *names)
{
	CLEANUP(buf_done) struct buf text = { 0 };
	struct str first = names->v[0];
	char cn[CN_MAX + 1] = "sandgate";

	if (first.n <= CN_MAX)
		(void)snprintf(cn, sizeof cn, "%.*s", STR_ARG(first));
	buf_init(&text, NAMES_TEXT);
	return put_names(&text, names) &&
	       X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
					  (const unsigned char *)cn, -1, -1, 0) == 1 &&
	       x509_extend(x, x, NID_subject_alt_name, buf_cstr(&text));
}

/* A worker that asks for another point could sign nothing with it; still, no certificate
 * of ours shall hold a key that isn't one. */
static bool
is_on_curve(struct str point)
{
	if (point.n != MINT_POINT || point.p[0] != POINT_CONVERSION_UNCOMPRESSED)
		return false;
	EC_GROUP *group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1);
	EC_POINT *p = group == NULL ? NULL : EC_POINT_new(group);
	bool ok = p != NULL &&
		  EC_POINT_oct2point(group, p, (const unsigned char *)point.p, point.n,
				     NULL) == 1;
	EC_POINT_free(p);
	EC_GROUP_free(group);
	return ok;
}

/* As RFC 5480 has it, from its parts: by way of a key object it would be decoded and
 * encoded again, which costs more than all the rest. */
static bool
set_key(X509 *x, struct str point)
{
	unsigned char *copy = OPENSSL_memdup(point.p, point.n);

	if (copy != NULL &&
	    X509_PUBKEY_set0_param(X509_get_X509_PUBKEY(x),
				   OBJ_nid2obj(NID_X9_62_id_ecPublicKey), V_ASN1_OBJECT,
				   OBJ_nid2obj(NID_X9_62_prime256v1), copy,
				   (int)point.n) == 1)
		return true;
	OPENSSL_free(copy);
	return false;
}

static bool
build(X509 *x, const struct ca *ca, const struct mint_names *names, struct str point,
      const struct x509_span *span)
{
	return x509_begin(x, span) && set_key(x, point) &&
	       X509_set_issuer_name(x, X509_get_subject_name(ca->cert)) == 1 &&
	       set_names(x, names) &&
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
	uint64_t life = way == MINT_REFUSAL ? REFUSAL_LIFE_S : LIFE_S;
	struct x509_span span = { t->now - X509_BACKDATE, t->now + life };

	if (t->until != 0 && t->until < span.to)
		span.to = t->until;
	return span;
}

static enum status
put_leaf(struct buf *b, const struct ca *ca, const struct mint_names *names,
	 struct str point, const struct x509_span *span)
{
	for (size_t i = 0; i < names->n; i++)
		if (!mint_is_host(names->v[i]))
			return ST_BAD_HOST;
	if (!is_on_curve(point))
		return ST_BAD_MESSAGE;
	X509 *x = X509_new();
	enum status st =
		x != NULL && build(x, ca, names, point, span) ? ST_OK : ST_NOMEM;
	if (st == ST_OK)
		put_der(b, x);
	X509_free(x);
	return st == ST_OK ? b->st : st;
}

enum status
mint_put_leaf(struct buf *b, const struct ca *ca, struct str host, enum mint_way way,
	      struct str point, const struct mint_time *t)
{
	const struct x509_span span = span_of(way, t);
	const struct mint_names names = { &host, 1 };

	return put_leaf(b, ca, &names, point, &span);
}

enum status
mint_put_listener(struct buf *b, const struct ca *ca, const struct mint_names *names,
		  struct str point, const struct mint_time *t)
{
	const struct x509_span span = span_of(MINT_LISTENER, t);

	need(names->n > 0 && names->n <= MINT_NAMES_MAX);
	return put_leaf(b, ca, names, point, &span);
}
