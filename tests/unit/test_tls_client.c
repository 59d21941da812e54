#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <openssl/pem.h>

#include "proxy/flow/stream.h"
#include "proxy/flow/tls_client.h"
#include "tests/unit/make_cert.h"

struct scene {
	struct made ca, leaf;
	SSL_CTX *server;
	struct tls_client *client;
	struct stream_room *room;
	struct stream a, b;
	char pem[16384];
	size_t pem_n;
};

static struct str
pem_of(struct scene *s, const X509 *cert, const EVP_PKEY *key)
{
	BIO *b = BIO_new(BIO_s_mem());
	char *p;

	if (cert != NULL)
		assert_int_equal(PEM_write_bio_X509(b, cert), 1);
	if (key != NULL)
		assert_int_equal(
			PEM_write_bio_PrivateKey(b, key, NULL, NULL, 0, NULL, NULL), 1);
	size_t n = (size_t)BIO_get_mem_data(b, &p);
	assert_true(n < sizeof s->pem - s->pem_n);
	char *at = s->pem + s->pem_n;
	memcpy(at, p, n);
	s->pem_n += n;
	BIO_free(b);
	return str_of(at, n);
}

static int
set_up(void **state)
{
	struct scene *s = test_calloc(1, sizeof *s);

	s->ca = cert_authority();
	s->leaf = cert_leaf(&s->ca, "DNS:a.test,IP:192.0.2.1");
	s->server = cert_server(&s->leaf);
	*state = s;
	return stream_room_new(&s->room) == ST_OK &&
			       tls_client_new(pem_of(s, s->ca.cert, NULL),
					      &s->client) == ST_OK
		       ? 0
		       : -1;
}

static void
close_both(struct scene *s)
{
	if (s->room != NULL && s->a.held.cap > 0) {
		(void)close(s->a.fd);
		(void)close(s->b.fd);
	}
	stream_done(&s->a);
	stream_done(&s->b);
	s->a = s->b = (struct stream){ 0 };
}

static int
tear_down(void **state)
{
	struct scene *s = *state;

	close_both(s);
	tls_client_free(s->client);
	SSL_CTX_free(s->server);
	cert_done(&s->ca);
	cert_done(&s->leaf);
	stream_room_free(s->room);
	test_free(s);
	return 0;
}

/* How it went for the client. */
static enum status
meet(struct scene *s, const struct tls_client *c, const char *host,
     enum tls_offer offer)
{
	enum status a = ST_AGAIN, b = ST_AGAIN;
	struct dest d;
	SSL *client, *server = SSL_new(s->server);
	int fds[2];

	close_both(s);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	assert_int_equal(dest_from_host(str_from(host), 443, &d), ST_OK);
	assert_int_equal(tls_client_open(c, &d, offer, &client), ST_OK);
	SSL_set_accept_state(server);
	assert_int_equal(stream_tls(&s->a, fds[0], client, s->room), ST_OK);
	assert_int_equal(stream_tls(&s->b, fds[1], server, s->room), ST_OK);
	for (int i = 0; i < 20 && a == ST_AGAIN; i++) {
		a = stream_handshake(&s->a);
		b = stream_handshake(&s->b);
	}
	if (a == ST_OK && b == ST_AGAIN)
		b = stream_handshake(&s->b);
	if (a == ST_OK && b != ST_OK)
		a = b;
	return tls_client_why(s->a.ssl, a);
}

static void
a_host_is_who_its_certificate_says(void **state)
{
	struct scene *s = *state;

	assert_int_equal(meet(s, s->client, "a.test", TLS_OFFER_H1), ST_OK);
	assert_string_equal(SSL_get_servername(s->b.ssl, TLSEXT_NAMETYPE_host_name),
			    "a.test");
	assert_int_equal(meet(s, s->client, "b.test", TLS_OFFER_H1), ST_UPSTREAM_NAME);
	assert_string_equal(tls_client_words(s->a.ssl), "hostname mismatch");
	assert_int_equal(meet(s, s->client, "192.0.2.1", TLS_OFFER_H1), ST_OK);
	assert_null(SSL_get_servername(s->b.ssl, TLSEXT_NAMETYPE_host_name));
	assert_int_equal(meet(s, s->client, "192.0.2.2", TLS_OFFER_H1),
			 ST_UPSTREAM_NAME);
}

static void
another_authority_is_not_trusted(void **state)
{
	struct scene *s = *state;
	struct made other = cert_authority();
	struct tls_client *c;

	assert_int_equal(tls_client_new(pem_of(s, other.cert, NULL), &c), ST_OK);
	assert_int_equal(meet(s, c, "a.test", TLS_OFFER_H1), ST_UPSTREAM_UNTRUSTED);
	tls_client_free(c);
	cert_done(&other);
}

static void
a_host_of_yesterdays_protocol_is_refused(void **state)
{
	struct scene *s = *state;

	SSL_CTX_set_security_level(s->server, 0);
	assert_int_equal(SSL_CTX_set_min_proto_version(s->server, TLS1_VERSION), 1);
	assert_int_equal(SSL_CTX_set_max_proto_version(s->server, TLS1_1_VERSION), 1);
	assert_int_equal(meet(s, s->client, "a.test", TLS_OFFER_H1), ST_UPSTREAM_TLS);
	assert_int_equal(SSL_CTX_set_max_proto_version(s->server, TLS1_2_VERSION), 1);
	assert_int_equal(meet(s, s->client, "a.test", TLS_OFFER_H1), ST_OK);
	assert_string_equal(SSL_get_version(s->a.ssl), "TLSv1.2");
}

static int
choose_h2(SSL *ssl, const unsigned char **out, unsigned char *n,
	  const unsigned char *in, unsigned in_n, void *ctx)
{
	(void)ssl;
	(void)ctx;
	for (unsigned i = 0; i < in_n; i += in[i] + 1u) {
		if (in[i] == 2 && memcmp(in + i + 1, "h2", 2) == 0) {
			*out = in + i + 1;
			*n = 2;
			return SSL_TLSEXT_ERR_OK;
		}
	}
	return SSL_TLSEXT_ERR_NOACK;
}

static void
the_protocol_is_agreed_on(void **state)
{
	struct scene *s = *state;

	SSL_CTX_set_alpn_select_cb(s->server, choose_h2, NULL);
	assert_int_equal(meet(s, s->client, "a.test", TLS_OFFER_BOTH), ST_OK);
	assert_true(str_eq(stream_alpn(&s->a), STR("h2")));
	assert_int_equal(meet(s, s->client, "a.test", TLS_OFFER_H1), ST_OK);
	assert_int_equal(stream_alpn(&s->a).n, 0);
	assert_int_equal(meet(s, s->client, "a.test", TLS_OFFER_H2), ST_OK);
	assert_true(str_eq(stream_alpn(&s->b), STR("h2")));
}

static void
we_can_show_a_certificate_of_our_own(void **state)
{
	struct scene *s = *state;
	struct made me = cert_leaf(&s->ca, "DNS:client.test");
	struct str chain = pem_of(s, me.cert, NULL), key = pem_of(s, NULL, me.key);
	struct tls_client *c = NULL;

	X509_STORE_add_cert(SSL_CTX_get_cert_store(s->server), s->ca.cert);
	SSL_CTX_set_verify(s->server, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
			   NULL);
	/* The test's leaf is for servers. */
	SSL_CTX_set_purpose(s->server, X509_PURPOSE_ANY);
	assert_int_not_equal(meet(s, s->client, "a.test", TLS_OFFER_H1), ST_OK);
	assert_int_equal(tls_client_with_key(s->client, chain, key, &c), ST_OK);
	assert_int_equal(meet(s, c, "a.test", TLS_OFFER_H1), ST_OK);
	tls_client_free(c);
	/* A key that isn't the certificate's, and text that is none. */
	key = pem_of(s, NULL, s->leaf.key);
	assert_int_equal(tls_client_with_key(s->client, chain, key, &c), ST_BAD_CONFIG);
	assert_int_equal(tls_client_with_key(s->client, chain, STR("x"), &c),
			 ST_BAD_CONFIG);
	cert_done(&me);
}

static void
roots_that_do_not_parse_are_refused(void **state)
{
	struct scene *s = *state;
	struct tls_client *c = NULL;
	struct str good = pem_of(s, s->ca.cert, NULL);
	int fd = memfd_create("roots", MFD_CLOEXEC);

	assert_int_equal(tls_client_new(STR(""), &c), ST_BAD_CONFIG);
	assert_int_equal(tls_client_new(STR("# nothing\n"), &c), ST_BAD_CONFIG);
	assert_int_equal(tls_client_new(str_head(good, good.n - 40), &c),
			 ST_BAD_CONFIG);
	assert_null(c);
	assert_int_equal(tls_client_read(fd, &c), ST_BAD_CONFIG);
	assert_int_equal(write(fd, "# ours\n", 7), 7);
	assert_int_equal(write(fd, good.p, good.n), good.n);
	assert_int_equal(tls_client_read(fd, &c), ST_OK);
	assert_int_equal(meet(s, c, "a.test", TLS_OFFER_H1), ST_OK);
	tls_client_free(c);
	(void)close(fd);
}

static void
a_chain_without_end_is_cut_off(void **state)
{
	struct scene *s = *state;

	for (int i = 0; i < 200; i++)
		assert_int_equal(SSL_CTX_add1_chain_cert(s->server, s->ca.cert), 1);
	assert_int_equal(meet(s, s->client, "a.test", TLS_OFFER_H1), ST_UPSTREAM_TLS);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		CASE(a_host_is_who_its_certificate_says),
		CASE(another_authority_is_not_trusted),
		CASE(a_host_of_yesterdays_protocol_is_refused),
		CASE(the_protocol_is_agreed_on),
		CASE(we_can_show_a_certificate_of_our_own),
		CASE(roots_that_do_not_parse_are_refused),
		CASE(a_chain_without_end_is_cut_off),
	};

	return cmocka_run_group_tests_name("tls_client", tests, NULL, NULL);
}
