#include "proxy/flow/tls_client.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>

#include "proxy/flow/tls_verify.h"

struct tls_client {
	SSL_CTX *ctx;
};

enum { READ_BUFFER = 64 * 1024 };

/* A key in a configuration that wants a passphrase is an error, not a question.
 * Its type is OpenSSL's. */
/* NOLINTBEGIN(readability-non-const-parameter) */
static int
no_passphrase(char *buf, int size, int rwflag, void *ctx)
/* NOLINTEND(readability-non-const-parameter) */
{
	(void)buf;
	(void)size;
	(void)rwflag;
	(void)ctx;
	return 0;
}

static SSL_CTX *
new_ctx(void)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());

	if (ctx == NULL)
		return NULL;
	SSL_CTX_set_security_level(ctx, 2);
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
	/* One read() for many records. */
	SSL_CTX_set_read_ahead(ctx, 1);
	SSL_CTX_set_default_read_buffer_len(ctx, READ_BUFFER);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_max_cert_list(ctx, TLS_CHAIN_MAX);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_cert_verify_callback(ctx, tls_verify, NULL);
	SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
	if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1) {
		SSL_CTX_free(ctx);
		return NULL;
	}
	return ctx;
}

static enum status
wrap(SSL_CTX *ctx, enum status st, struct tls_client **ret_c)
{
	struct tls_client *c = st == ST_OK ? calloc(1, sizeof *c) : NULL;

	ERR_clear_error();
	if (c == NULL) {
		SSL_CTX_free(ctx);
		return st == ST_OK ? ST_NOMEM : st;
	}
	c->ctx = ctx;
	*ret_c = c;
	return ST_OK;
}

/* Is it the end of the text, or a certificate that doesn't parse? */
static bool
is_end_of_pem(void)
{
	unsigned long e = ERR_peek_last_error();

	return ERR_GET_LIB(e) == ERR_LIB_PEM &&
	       ERR_GET_REASON(e) == PEM_R_NO_START_LINE;
}

/* The same certificate twice is no error. */
static enum status
add_roots(X509_STORE *store, struct str pem)
{
	BIO *b = BIO_new_mem_buf(pem.p, (int)pem.n);
	enum status st = b == NULL ? ST_NOMEM : ST_OK;
	size_t n = 0;
	X509 *x;

	ERR_clear_error();
	while (st == ST_OK &&
	       (x = PEM_read_bio_X509(b, NULL, no_passphrase, NULL)) != NULL) {
		if (X509_STORE_add_cert(store, x) != 1)
			st = ST_NOMEM;
		X509_free(x);
		n++;
	}
	if (st == ST_OK && (n == 0 || !is_end_of_pem()))
		st = ST_BAD_CONFIG;
	BIO_free(b);
	return st;
}

enum status
tls_client_new(struct str roots, struct tls_client **ret_c)
{
	SSL_CTX *ctx = new_ctx();
	enum status st = ctx == NULL ? ST_NOMEM : ST_OK;

	if (st == ST_OK)
		st = roots.n > TLS_ROOTS_MAX
			     ? ST_TOO_BIG
			     : add_roots(SSL_CTX_get_cert_store(ctx), roots);
	return wrap(ctx, st, ret_c);
}

static enum status
read_whole(int fd, char *to, size_t size)
{
	size_t got = 0;

	while (got < size) {
		ssize_t n = pread(fd, to + got, size - got, (off_t)got);
		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0)
			return ST_SYSTEM;
		got += (size_t)n;
	}
	return ST_OK;
}

enum status
tls_client_read(int fd, struct tls_client **ret_c)
{
	enum status st;
	struct stat sb;
	char *text;

	if (fstat(fd, &sb) == -1)
		return ST_SYSTEM;
	if (sb.st_size <= 0 || sb.st_size > TLS_ROOTS_MAX)
		return ST_BAD_CONFIG;
	text = malloc((size_t)sb.st_size);
	if (text == NULL)
		return ST_NOMEM;
	st = read_whole(fd, text, (size_t)sb.st_size);
	if (st == ST_OK)
		st = tls_client_new(str_of(text, (size_t)sb.st_size), ret_c);
	free(text);
	return st;
}

static enum status
use_chain(SSL_CTX *ctx, struct str pem)
{
	BIO *b = BIO_new_mem_buf(pem.p, (int)pem.n);
	X509 *x = b == NULL ? NULL : PEM_read_bio_X509(b, NULL, no_passphrase, NULL);
	enum status st = x != NULL && SSL_CTX_use_certificate(ctx, x) == 1
				 ? ST_OK
				 : ST_BAD_CONFIG;

	X509_free(x);
	while (st == ST_OK &&
	       (x = PEM_read_bio_X509(b, NULL, no_passphrase, NULL)) != NULL) {
		if (SSL_CTX_add0_chain_cert(ctx, x) != 1) {
			X509_free(x);
			st = ST_NOMEM;
		}
	}
	if (st == ST_OK && !is_end_of_pem())
		st = ST_BAD_CONFIG;
	BIO_free(b);
	return st;
}

static enum status
use_key(SSL_CTX *ctx, struct str pem)
{
	BIO *b = BIO_new_mem_buf(pem.p, (int)pem.n);
	EVP_PKEY *key = b == NULL
				? NULL
				: PEM_read_bio_PrivateKey(b, NULL, no_passphrase, NULL);
	bool is_good = key != NULL && SSL_CTX_use_PrivateKey(ctx, key) == 1 &&
		       SSL_CTX_check_private_key(ctx) == 1;

	EVP_PKEY_free(key);
	BIO_free(b);
	return is_good ? ST_OK : ST_BAD_CONFIG;
}

enum status
tls_client_with_key(const struct tls_client *c, struct str chain, struct str key,
		    struct tls_client **ret_c)
{
	SSL_CTX *ctx;
	enum status st;

	if (chain.n > TLS_CHAIN_MAX || key.n > TLS_CHAIN_MAX)
		return ST_TOO_BIG;
	ctx = new_ctx();
	if (ctx == NULL)
		return ST_NOMEM;
	SSL_CTX_set1_cert_store(ctx, SSL_CTX_get_cert_store(c->ctx));
	ERR_clear_error();
	st = use_chain(ctx, chain);
	if (st == ST_OK)
		st = use_key(ctx, key);
	return wrap(ctx, st, ret_c);
}

void
tls_client_free(struct tls_client *c)
{
	if (c == NULL)
		return;
	SSL_CTX_free(c->ctx);
	free(c);
}

static enum status
set_offer(SSL *ssl, enum tls_offer offer)
{
	static const unsigned char both[] = "\x02h2\x08http/1.1";
	enum { H2_N = 3, ALL_N = sizeof both - 1 };
	const unsigned char *p = offer == TLS_OFFER_H1 ? both + H2_N : both;
	unsigned n = offer == TLS_OFFER_BOTH ? ALL_N
		     : offer == TLS_OFFER_H2 ? H2_N
					     : ALL_N - H2_N;

	return SSL_set_alpn_protos(ssl, p, n) == 0 ? ST_OK
						   : ST_NOMEM; /* 0 is success */
}

enum status
tls_client_open(const struct tls_client *c, const struct dest *d, enum tls_offer offer,
		SSL **ret_ssl)
{
	SSL *ssl = SSL_new(c->ctx);
	enum status st = ssl == NULL ? ST_NOMEM : ST_OK;

	if (st == ST_OK)
		st = tls_verify_expect(SSL_get0_param(ssl), d);
	if (st == ST_OK)
		st = set_offer(ssl, offer);
	/* d->name ends with a NUL, and a name has no other (dest.h).  The macro for this
	 * casts const away. */
	if (st == ST_OK && dest_is_name(d) &&
	    SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
		     (void *)(uintptr_t)d->name) != 1)
		st = ST_NOMEM;
	if (st != ST_OK) {
		SSL_free(ssl);
		return st;
	}
	SSL_set_connect_state(ssl);
	*ret_ssl = ssl;
	return ST_OK;
}

enum status
tls_client_why(const SSL *ssl, enum status st)
{
	enum status verdict = tls_verify_status((int)SSL_get_verify_result(ssl));

	if (st == ST_OK || st == ST_NOMEM)
		return st;
	if (verdict != ST_OK)
		return verdict;
	return st == ST_TIMEOUT ? ST_UPSTREAM_TIMEOUT : ST_UPSTREAM_TLS;
}

const char *
tls_client_words(const SSL *ssl)
{
	long e = SSL_get_verify_result(ssl);
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());

	return e == X509_V_OK ? reason : X509_verify_cert_error_string(e);
}
