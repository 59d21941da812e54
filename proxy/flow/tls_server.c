#include "proxy/flow/tls_server.h"

#include "proxy/base/str.h"

enum { READ_BUFFER = 64 * 1024 };

static bool
is_offered(const unsigned char *in, unsigned n, struct str name)
{
	for (unsigned i = 0; i < n && in[i] < n - i; i += in[i] + 1u)
		if (str_eq(str_of(in + i + 1, in[i]), name))
			return true;
	return false;
}

/* RFC 7301: a client that names none of ours gets no_application_protocol; one without
 * the extension speaks HTTP/1.1. */
static int
on_alpn(SSL *ssl, const unsigned char **ret_p, unsigned char *ret_n,
	const unsigned char *in, unsigned n, void *ctx)
{
	static const char h2[] = "h2", h1[] = "http/1.1";
	struct str pick = STR(h2);

	(void)ssl;
	(void)ctx;
	if (!is_offered(in, n, pick))
		pick = STR(h1);
	if (!is_offered(in, n, pick))
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*ret_p = (const unsigned char *)pick.p;
	*ret_n = (unsigned char)pick.n;
	return SSL_TLSEXT_ERR_OK;
}

static bool
set_up(SSL_CTX *ctx)
{
	int groups[] = { NID_X25519, NID_X9_62_prime256v1, NID_secp384r1 };

	SSL_CTX_set_security_level(ctx, 2);
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
					 SSL_OP_NO_TICKET |
					 SSL_OP_CIPHER_SERVER_PREFERENCE |
					 SSL_OP_PRIORITIZE_CHACHA);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_read_ahead(ctx, 1); /* one read() for many records */
	SSL_CTX_set_default_read_buffer_len(ctx, READ_BUFFER);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	return SSL_CTX_set_num_tickets(ctx, 0) == 1 &&
	       SSL_CTX_set_max_early_data(ctx, 0) == 1 &&
	       SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 &&
	       SSL_CTX_set1_groups(ctx, groups, COUNT_OF(groups)) == 1 &&
	       SSL_CTX_set_ciphersuites(ctx,
					"TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
					"TLS_CHACHA20_POLY1305_SHA256") == 1 &&
	       SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1;
}

enum status
tls_server_new(SSL_CTX **ret_ctx)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

	if (ctx == NULL || !set_up(ctx)) {
		SSL_CTX_free(ctx);
		return ST_SYSTEM;
	}
	SSL_CTX_set_alpn_select_cb(ctx, on_alpn, NULL);
	*ret_ctx = ctx;
	return ST_OK;
}
