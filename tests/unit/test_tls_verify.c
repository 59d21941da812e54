#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <jansson.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include "proxy/flow/tls_verify.h"
#include "tests/unit/make_cert.h"

/* x509-limbo, SG_CORPORA/x509/README */

static X509 *
read_pem(const char *text)
{
	BIO *b = BIO_new_mem_buf(text, -1);
	X509 *x = PEM_read_bio_X509(b, NULL, NULL, NULL);

	BIO_free(b);
	ERR_clear_error();
	return x;
}

static STACK_OF(X509) * read_pems(const json_t *list)
{
	STACK_OF(X509) *all = sk_X509_new_null();
	size_t i;
	json_t *one;

	json_array_foreach(list, i, one)
	{
		X509 *x = read_pem(json_string_value(one));
		if (x != NULL)
			assert_true(sk_X509_push(all, x) > 0);
	}
	return all;
}

/* Without a time the case is about now. */
static time_t
time_of(const json_t *t)
{
	struct tm tm = { 0 };

	if (!json_is_string(t))
		return time(NULL);
	assert_non_null(strptime(json_string_value(t), "%Y-%m-%dT%H:%M:%S", &tm));
	return timegm(&tm);
}

static struct dest
peer_of(const json_t *t)
{
	const json_t *peer = json_object_get(t, "expected_peer_name");
	const char *value = json_string_value(json_object_get(peer, "value"));
	const char *kind = json_string_value(json_object_get(peer, "kind"));
	struct dest d = { 0 };

	assert_non_null(value);
	assert_int_equal(dest_from_host(str_from(value), 443, &d), ST_OK);
	assert_int_equal(dest_is_name(&d), strcmp(kind, "DNS") == 0);
	return d;
}

static int
verdict_of(const json_t *t)
{
	STACK_OF(X509) *trusted = read_pems(json_object_get(t, "trusted_certs"));
	STACK_OF(X509) *others =
		read_pems(json_object_get(t, "untrusted_intermediates"));
	X509 *leaf =
		read_pem(json_string_value(json_object_get(t, "peer_certificate")));
	const json_t *depth = json_object_get(t, "max_chain_depth");
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	X509_STORE *store = X509_STORE_new();
	struct dest d = peer_of(t);
	int e = X509_V_ERR_UNSPECIFIED;

	for (int i = 0; i < sk_X509_num(trusted); i++)
		assert_int_equal(X509_STORE_add_cert(store, sk_X509_value(trusted, i)),
				 1);
	assert_int_equal(X509_STORE_CTX_init(ctx, store, leaf, others), 1);
	X509_VERIFY_PARAM *p = X509_STORE_CTX_get0_param(ctx);
	assert_int_equal(tls_verify_expect(p, &d), ST_OK);
	if (json_is_integer(depth))
		X509_VERIFY_PARAM_set_depth(p, (int)json_integer_value(depth));
	X509_VERIFY_PARAM_set_time(p, time_of(json_object_get(t, "validation_time")));
	if (leaf != NULL) {
		int rc = tls_verify(ctx, NULL);
		e = X509_STORE_CTX_get_error(ctx);
		assert_int_equal(rc == 1, e == X509_V_OK);
	}
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	X509_free(leaf);
	sk_X509_pop_free(trusted, X509_free);
	sk_X509_pop_free(others, X509_free);
	return e;
}

/* Groups in which nothing bad may be accepted. */
static bool
is_strict(const char *id)
{
	static const char *const words[] = { "::eku::",   "::san::",     "spki",
					     "signature", "v1-cert",     "basic",
					     "ca-bit",    "keycertsign", "::serial::" };

	for (size_t i = 0; i < COUNT_OF(words); i++)
		if (strstr(id, words[i]) != NULL)
			return true;
	return false;
}

static void
published_chains_are_judged_as_published(void **state)
{
	const char *path = SG_CORPORA "/x509/limbo.json";
	json_error_t error;
	json_t *all = json_load_file(path, 0, &error);
	size_t i, agree = 0, good_refused = 0, bad_taken = 0, bad_taken_strict = 0;
	json_t *t;

	(void)state;
	if (all == NULL && getenv("CI") == NULL) {
		print_message("ABSENT: %s\n", path);
		skip();
	}
	assert_non_null(all);
	json_array_foreach(json_object_get(all, "testcases"), i, t)
	{
		const char *id = json_string_value(json_object_get(t, "id"));
		const char *want =
			json_string_value(json_object_get(t, "expected_result"));
		bool is_good = strcmp(want, "SUCCESS") == 0;
		int e = verdict_of(t);
		agree += is_good == (e == X509_V_OK);
		if (is_good && e != X509_V_OK) {
			good_refused++;
			print_message("good, refused: %s: %s\n", id,
				      X509_verify_cert_error_string(e));
		} else if (!is_good && e == X509_V_OK) {
			bad_taken++;
			bad_taken_strict += is_strict(id);
			print_message("bad, taken: %s\n", id);
		}
	}
	print_message("%zu cases: %zu agree, %zu good refused, %zu bad taken\n", i,
		      agree, good_refused, bad_taken);
	assert_int_equal(i, 135);
	assert_int_equal(bad_taken_strict, 0);
	assert_true(agree >= 125);
	json_decref(all);
}

/* Variations of one good chain. */

static int
judge_pair(X509 *root, X509 *leaf, const char *host)
{
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	X509_STORE *store = X509_STORE_new();
	struct dest d;

	assert_int_equal(dest_from_host(str_from(host), 443, &d), ST_OK);
	assert_int_equal(X509_STORE_add_cert(store, root), 1);
	assert_int_equal(X509_STORE_CTX_init(ctx, store, leaf, NULL), 1);
	assert_int_equal(tls_verify_expect(X509_STORE_CTX_get0_param(ctx), &d), ST_OK);
	(void)tls_verify(ctx, NULL);
	int e = X509_STORE_CTX_get_error(ctx);
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	return e;
}

static void
a_leaf_is_good_for_its_names_and_addresses_only(void **state)
{
	static const struct {
		const char *names, *host;
		enum status want;
	} rows[] = {
		{ "DNS:a.test", "a.test", ST_OK },
		{ "DNS:A.Test", "a.test", ST_OK },
		{ "DNS:a.test", "b.test", ST_UPSTREAM_NAME },
		{ "DNS:*.a.test", "x.a.test", ST_OK },
		{ "DNS:*.a.test", "a.test", ST_UPSTREAM_NAME },
		{ "DNS:*.a.test", "x.y.a.test", ST_UPSTREAM_NAME },
		{ "DNS:x*.a.test", "xy.a.test", ST_UPSTREAM_NAME },
		{ "DNS:*.test", "a.test", ST_UPSTREAM_NAME },
		{ "IP:192.0.2.1", "192.0.2.1", ST_OK },
		{ "IP:192.0.2.1", "192.0.2.2", ST_UPSTREAM_NAME },
		{ "DNS:192.0.2.1", "192.0.2.1", ST_UPSTREAM_NAME },
		{ "IP:2001:db8::1", "2001:db8::1", ST_OK },
		{ "email:a.test", "a.test", ST_UPSTREAM_NAME },
	};
	struct made ca = cert_authority();

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct made leaf = cert_leaf(&ca, rows[i].names);
		int e = judge_pair(ca.cert, leaf.cert, rows[i].host);
		if (tls_verify_status(e) != rows[i].want)
			fail_msg("%s for %s: %s", rows[i].names, rows[i].host,
				 X509_verify_cert_error_string(e));
		cert_done(&leaf);
	}
	cert_done(&ca);
}

/* What a NUL hides behind must not be cut off (CVE-2025-66220). */
static void
a_name_with_a_nul_in_it_is_no_name(void **state)
{
	static const char evil[] = "a.test\0.evil.test";
	struct made ca = cert_authority(), leaf = cert_leaf(&ca, "DNS:other.test");
	GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
	GENERAL_NAME *g = GENERAL_NAME_new();
	ASN1_IA5STRING *text = ASN1_IA5STRING_new();

	(void)state;
	assert_int_equal(ASN1_STRING_set(text, evil, sizeof evil - 1), 1);
	GENERAL_NAME_set0_value(g, GEN_DNS, text);
	assert_true(sk_GENERAL_NAME_push(names, g) > 0);
	assert_int_equal(X509_add1_ext_i2d(leaf.cert, NID_subject_alt_name, names, 0,
					   X509V3_ADD_REPLACE),
			 1);
	assert_true(X509_sign(leaf.cert, ca.key, EVP_sha256()) > 0);
	assert_int_equal(judge_pair(ca.cert, leaf.cert, "a.test"),
			 X509_V_ERR_HOSTNAME_MISMATCH);
	GENERAL_NAMES_free(names);
	cert_done(&leaf);
	cert_done(&ca);
}

static void
time_and_trust_have_words_of_their_own(void **state)
{
	struct made ca = cert_authority(), other = cert_authority();
	struct made leaf = cert_leaf(&ca, "DNS:a.test");

	(void)state;
	assert_int_equal(tls_verify_status(judge_pair(other.cert, leaf.cert, "a.test")),
			 ST_UPSTREAM_UNTRUSTED); /* same name, another key */
	assert_non_null(X509_time_adj_ex(X509_getm_notAfter(leaf.cert), 0, -60, NULL));
	assert_true(X509_sign(leaf.cert, ca.key, EVP_sha256()) > 0);
	assert_int_equal(tls_verify_status(judge_pair(ca.cert, leaf.cert, "a.test")),
			 ST_UPSTREAM_EXPIRED);
	cert_done(&leaf);
	cert_done(&other);
	cert_done(&ca);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_chains_are_judged_as_published),
		cmocka_unit_test(a_leaf_is_good_for_its_names_and_addresses_only),
		cmocka_unit_test(a_name_with_a_nul_in_it_is_no_name),
		cmocka_unit_test(time_and_trust_have_words_of_their_own),
	};

	return cmocka_run_group_tests_name("tls_verify", tests, NULL, NULL);
}
