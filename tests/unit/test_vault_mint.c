#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "vault/mint.h"

struct scene {
	struct ca ca;
	uint64_t now, until;
	unsigned char point[MINT_POINT];
};

static int
set_up(void **state)
{
	struct scene *s = test_calloc(1, sizeof *s);
	EVP_PKEY *key = EVP_EC_gen("P-256");
	size_t n = 0;

	s->now = (uint64_t)time(NULL);
	assert_int_equal(ca_make(s->now, &s->ca), ST_OK);
	assert_int_equal(EVP_PKEY_get_octet_string_param(key, "pub", s->point,
							 sizeof s->point, &n),
			 1);
	assert_int_equal(n, MINT_POINT);
	EVP_PKEY_free(key);
	*state = s;
	return 0;
}

static int
tear_down(void **state)
{
	struct scene *s = *state;

	ca_done(&s->ca);
	test_free(s);
	return 0;
}

static enum status
mint_it(struct scene *s, const char *host, enum mint_way way, X509 **ret_x)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str der;
	const struct mint_time t = { s->now, s->until };

	buf_init(&b, MINT_DER_MAX);
	enum status st = mint_put_leaf(&b, &s->ca, str_from(host), way,
				       str_of(s->point, sizeof s->point), &t);
	if (st != ST_OK)
		return st;
	assert_int_equal(buf_finish(&b, &der), ST_OK);
	const unsigned char *at = (const unsigned char *)der.p;
	*ret_x = d2i_X509(NULL, &at, (long)der.n);
	assert_non_null(*ret_x);
	return ST_OK;
}

/* As strict as OpenSSL can be told to be. */
static int
verify(struct scene *s, X509 *leaf, time_t at)
{
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();

	assert_int_equal(X509_STORE_add_cert(store, s->ca.cert), 1);
	assert_int_equal(X509_STORE_CTX_init(ctx, store, leaf, NULL), 1);
	X509_VERIFY_PARAM *p = X509_STORE_CTX_get0_param(ctx);
	assert_int_equal(X509_VERIFY_PARAM_set_flags(p, X509_V_FLAG_X509_STRICT), 1);
	assert_int_equal(X509_VERIFY_PARAM_set_purpose(p, X509_PURPOSE_SSL_SERVER), 1);
	X509_VERIFY_PARAM_set_auth_level(p, 2);
	X509_VERIFY_PARAM_set_time(p, at);
	(void)X509_verify_cert(ctx);
	int error = X509_STORE_CTX_get_error(ctx);
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	return error;
}

static void
a_leaf_verifies_for_its_host_and_no_other(void **state)
{
	struct scene *s = *state;
	const unsigned flags = X509_CHECK_FLAG_NEVER_CHECK_SUBJECT;
	X509 *x = NULL;

	assert_int_equal(mint_it(s, "api.example.test", MINT_INTERCEPT, &x), ST_OK);
	assert_int_equal(verify(s, x, (time_t)s->now), X509_V_OK);
	assert_int_equal(X509_check_host(x, "api.example.test", 0, flags, NULL), 1);
	assert_int_equal(X509_check_host(x, "b.example.test", 0, flags, NULL), 0);
	assert_int_equal(X509_check_host(x, "x.api.example.test", 0, flags, NULL), 0);
	X509_free(x);
	assert_int_equal(mint_it(s, "198.18.0.7", MINT_INTERCEPT, &x), ST_OK);
	assert_int_equal(verify(s, x, (time_t)s->now), X509_V_OK);
	assert_int_equal(X509_check_ip_asc(x, "198.18.0.7", 0), 1);
	assert_int_equal(X509_check_ip_asc(x, "198.18.0.8", 0), 0);
	X509_free(x);
	assert_int_equal(mint_it(s, "2001:db8::1", MINT_INTERCEPT, &x), ST_OK);
	assert_int_equal(X509_check_ip_asc(x, "2001:db8::1", 0), 1);
	X509_free(x);
}

static void
a_listener_gets_all_its_names_and_no_other(void **state)
{
	struct scene *s = *state;
	CLEANUP(buf_done) struct buf b = { 0 };
	const unsigned flags = X509_CHECK_FLAG_NEVER_CHECK_SUBJECT;
	const struct mint_time t = { s->now, s->until };
	struct str point = str_of(s->point, sizeof s->point), der;
	struct str v[MINT_NAMES_MAX] = { STR("gw.test"), STR("10.0.0.1"),
					 STR("2001:db8::1") };
	struct mint_names names = { v, 3 };

	buf_init(&b, MINT_DER_MAX);
	assert_int_equal(mint_put_listener(&b, &s->ca, &names, point, &t), ST_OK);
	assert_int_equal(buf_finish(&b, &der), ST_OK);
	const unsigned char *at = (const unsigned char *)der.p;
	X509 *x = d2i_X509(NULL, &at, (long)der.n);
	assert_int_equal(verify(s, x, (time_t)s->now), X509_V_OK);
	assert_int_equal(verify(s, x, (time_t)s->now + 23 * 3600), X509_V_OK);
	assert_int_equal(X509_check_host(x, "gw.test", 0, flags, NULL), 1);
	assert_int_equal(X509_check_host(x, "10.0.0.1", 0, flags, NULL), 0);
	assert_int_equal(X509_check_ip_asc(x, "10.0.0.1", 0), 1);
	assert_int_equal(X509_check_ip_asc(x, "2001:db8::1", 0), 1);
	assert_int_equal(X509_check_ip_asc(x, "10.0.0.2", 0), 0);
	X509_free(x);
	/* As many and as long as a configuration may have. */
	char long_name[64];
	memset(long_name, 'a', sizeof long_name);
	for (names.n = 0; names.n < MINT_NAMES_MAX; names.n++)
		v[names.n] = str_of(long_name, 62);
	buf_clear(&b);
	assert_int_equal(mint_put_listener(&b, &s->ca, &names, point, &t), ST_OK);
	assert_int_equal(buf_finish(&b, &der), ST_OK);
	v[1] = STR("a.test,IP:10.0.0.9");
	buf_clear(&b);
	assert_int_equal(mint_put_listener(&b, &s->ca, &names, point, &t), ST_BAD_HOST);
}

static void
a_leaf_lives_a_day_and_a_refusal_an_hour(void **state)
{
	struct scene *s = *state;
	X509 *x = NULL;
	time_t now = (time_t)s->now;

	assert_int_equal(mint_it(s, "a.test", MINT_INTERCEPT, &x), ST_OK);
	assert_int_equal(verify(s, x, now - 3500), X509_V_OK);
	assert_int_equal(verify(s, x, now - 3700), X509_V_ERR_CERT_NOT_YET_VALID);
	assert_int_equal(verify(s, x, now + 86300), X509_V_OK);
	assert_int_equal(verify(s, x, now + 86500), X509_V_ERR_CERT_HAS_EXPIRED);
	X509_free(x);
	assert_int_equal(mint_it(s, "a.test", MINT_REFUSAL, &x), ST_OK);
	assert_int_equal(verify(s, x, now + 3700), X509_V_ERR_CERT_HAS_EXPIRED);
	X509_free(x);
	s->until = s->now + 60; /* its authority goes then */
	assert_int_equal(mint_it(s, "a.test", MINT_INTERCEPT, &x), ST_OK);
	assert_int_equal(verify(s, x, now + 59), X509_V_OK);
	assert_int_equal(verify(s, x, now + 61), X509_V_ERR_CERT_HAS_EXPIRED);
	X509_free(x);
}

static void
a_long_name_is_only_in_the_san(void **state)
{
	struct scene *s = *state;
	char host[254];
	X509 *x = NULL;

	memset(host, 'a', sizeof host);
	for (size_t i = 63; i < 253; i += 64)
		host[i] = '.';
	host[253] = '\0';
	assert_int_equal(mint_it(s, host, MINT_INTERCEPT, &x), ST_OK);
	assert_int_equal(verify(s, x, (time_t)s->now), X509_V_OK);
	assert_int_equal(X509_check_host(x, host, 0, 0, NULL), 1);
	X509_free(x);
}

static void
what_is_no_host_gets_none(void **state)
{
	static const char *const bad[] = {
		"",           "a..b",           ".a",
		"a.",         "A.test",         "a b",
		"a,DNS:b",    "*.a.test",       "a.test\n",
		"-a.test",    "a-.test",        "@section",

		"IP:1.1.1.1", "email:x@a.test", "\xc3\xa9.test",
	};
	struct scene *s = *state;
	X509 *x = NULL;

	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		assert_int_equal(mint_it(s, bad[i], MINT_INTERCEPT, &x), ST_BAD_HOST);
	}
}

static void
a_point_off_the_curve_gets_none(void **state)
{
	struct scene *s = *state;
	X509 *x = NULL;

	s->point[40] ^= 1;
	assert_int_equal(mint_it(s, "a.test", MINT_INTERCEPT, &x), ST_BAD_MESSAGE);
	s->point[40] ^= 1;
	s->point[0] = 2;
	assert_int_equal(mint_it(s, "a.test", MINT_INTERCEPT, &x), ST_BAD_MESSAGE);
	memset(s->point, 0, sizeof s->point);
	assert_int_equal(mint_it(s, "a.test", MINT_INTERCEPT, &x), ST_BAD_MESSAGE);
}

static void
serials_and_names_of_authorities_differ(void **state)
{
	struct scene *s = *state;
	CLEANUP(ca_done) struct ca other = { 0 };
	X509 *x = NULL, *y = NULL;

	assert_int_equal(mint_it(s, "a.test", MINT_INTERCEPT, &x), ST_OK);
	assert_int_equal(mint_it(s, "a.test", MINT_INTERCEPT, &y), ST_OK);
	assert_int_not_equal(
		ASN1_INTEGER_cmp(X509_get0_serialNumber(x), X509_get0_serialNumber(y)),
		0);
	assert_int_equal(ca_make(s->now, &other), ST_OK);
	assert_int_not_equal(X509_NAME_cmp(X509_get_subject_name(s->ca.cert),
					   X509_get_subject_name(other.cert)),
			     0);
	X509_free(x);
	X509_free(y);
}

static void
an_authority_comes_back_from_its_value_and_from_no_other(void **state)
{
	struct scene *s = *state;
	CLEANUP(secret_done) struct secret value = { 0 }, other_value = { 0 };
	CLEANUP(ca_done) struct ca back = { 0 }, other = { 0 };
	unsigned char bytes[CA_VALUE_MAX];

	assert_int_equal(ca_save(&s->ca, &value), ST_OK);
	size_t n = secret_len(&value);
	assert_int_equal(ca_load(secret_bytes(&value), n, &back), ST_OK);
	assert_int_equal(X509_cmp(back.cert, s->ca.cert), 0);
	assert_in_range(ca_expires(&back), s->now + 1824 * 86400ULL,
			s->now + 1826 * 86400ULL);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(ca_load(secret_bytes(&value), i, &other),
				 ST_VAULT_DAMAGED);
	/* The key of one with the certificate of another. */
	assert_int_equal(ca_make(s->now, &other), ST_OK);
	assert_int_equal(ca_save(&other, &other_value), ST_OK);
	size_t key_n =
		2 + (size_t)(secret_bytes(&value)[0] << 8 | secret_bytes(&value)[1]);
	size_t other_key_n = 2 + (size_t)(secret_bytes(&other_value)[0] << 8 |
					  secret_bytes(&other_value)[1]);
	memcpy(bytes, secret_bytes(&value), key_n);
	memcpy(bytes + key_n, secret_bytes(&other_value) + other_key_n,
	       secret_len(&other_value) - other_key_n);
	ca_done(&other);
	assert_int_equal(
		ca_load(bytes, key_n + secret_len(&other_value) - other_key_n, &other),
		ST_VAULT_DAMAGED);
}

static int
run(const char *const argv[])
{
	pid_t pid = fork();
	int how = 0;

	assert_true(pid >= 0);
	if (pid == 0) {
		(void)execvp(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &how, 0), pid);
	return WEXITSTATUS(how);
}

/* The tool of another build of the same library, as an operator would use it. */
static void
the_command_line_tool_agrees(void **state)
{
	struct scene *s = *state;
	CLEANUP(buf_done) struct buf pem = { 0 };
	static const char *const right[] = {
		"openssl",          "verify",    "-x509_strict",
		"-purpose",         "sslserver", "-verify_hostname",
		"api.example.test", "-CAfile",   "ca.pem",
		"leaf.pem",         NULL
	};
	static const char *const wrong[] = {
		"openssl",          "verify",     "-x509_strict",
		"-verify_hostname", "other.test", "-CAfile",
		"ca.pem",           "leaf.pem",   NULL
	};
	char path[] = "/tmp/sandgate-mint-XXXXXX";
	X509 *x = NULL;

	assert_non_null(mkdtemp(path));
	assert_int_equal(chdir(path), 0);
	buf_init(&pem, 8192);
	ca_put_pem(&pem, &s->ca);
	FILE *f = fopen("ca.pem", "w");
	assert_int_equal(fwrite(pem.p, 1, pem.len, f), pem.len);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(mint_it(s, "api.example.test", MINT_INTERCEPT, &x), ST_OK);
	f = fopen("leaf.pem", "w");
	assert_int_equal(PEM_write_X509(f, x), 1);
	assert_int_equal(fclose(f), 0);
	X509_free(x);
	assert_int_equal(run(right), 0);
	assert_int_equal(run(wrong), 2);
	assert_int_equal(unlink("ca.pem"), 0);
	assert_int_equal(unlink("leaf.pem"), 0);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(rmdir(path), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_leaf_verifies_for_its_host_and_no_other),
		CASE(a_listener_gets_all_its_names_and_no_other),
		CASE(a_leaf_lives_a_day_and_a_refusal_an_hour),
		CASE(a_long_name_is_only_in_the_san),
		CASE(what_is_no_host_gets_none),
		CASE(a_point_off_the_curve_gets_none),
		CASE(serials_and_names_of_authorities_differ),
		CASE(an_authority_comes_back_from_its_value_and_from_no_other),
		CASE(the_command_line_tool_agrees),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
