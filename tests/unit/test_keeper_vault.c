#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cmocka.h>
#include <openssl/pem.h>

#include "tests/unit/keeper_bench.h"

static void
values_that_could_break_a_header_are_refused(void **state)
{
	static const char *const bad[] = { "a\r\nX: y", "a\nb",  " a",
					   "a ",        "a\x7f", "\x01" };
	struct keeper *k = *state;
	static char large[VAULT_VALUE_MAX + 2];
	struct vault_ask pem = { .op = VAULT_OP_PUT,
				 .name = STR("key"),
				 .kind = VAULT_PEM };
	struct str answer;

	for (size_t i = 0; i < COUNT_OF(bad); i++)
		assert_int_equal(vault_op(k, VAULT_OP_PUT, "a", bad[i]), ST_BAD_SECRET);
	memset(large, 'x', sizeof large - 1);
	assert_int_equal(vault_op(k, VAULT_OP_PUT, "a", large), ST_BAD_SECRET);
	large[VAULT_VALUE_MAX] = '\0';
	assert_int_equal(vault_op(k, VAULT_OP_PUT, "a", large), ST_OK);
	assert_int_equal(ask_vault(k, &pem, "-----BEGIN X-----\nAA\n", &answer), ST_OK);
}

static void
a_keeper_that_was_killed_comes_back_open(void **state)
{
	struct keeper *k = *state;

	assert_int_equal(ask_vault(k,
				   &(struct vault_ask){ .op = VAULT_OP_REKEY,
							.kind = VAULT_KEY_PASSPHRASE },
				   "correct horse", &(struct str){ 0 }),
			 ST_OK);
	assert_int_equal(vault_op(k, VAULT_OP_PUT, "tracker/token", "hunter2"), ST_OK);
	assert_int_equal(faccessat(k->state, "master.key", F_OK, 0), -1);
	for (int i = 0; i < 5; i++) {
		expect_lease(k, "tracker", "tracker/token", -1, "hunter2");
		kill_and_start(k);
	}
	expect_lease(k, "tracker", "tracker/token", -1, "hunter2");
	expect_state(k, "\"state\":\"open\"");
}

static void
a_sealed_vault_gives_nothing_until_the_passphrase_comes(void **state)
{
	struct keeper *k = *state;

	assert_int_equal(vault_op(k, VAULT_OP_PUT, "tracker/token", "hunter2"), ST_OK);
	assert_int_equal(ask_vault(k,
				   &(struct vault_ask){ .op = VAULT_OP_REKEY,
							.kind = VAULT_KEY_PASSPHRASE },
				   "correct horse", &(struct str){ 0 }),
			 ST_OK);
	assert_int_equal(vault_op(k, VAULT_OP_SEAL, "", NULL), ST_OK);
	assert_int_equal(ask_lease(k, "tracker", "tracker/token", -1).st,
			 ST_VAULT_SEALED);
	assert_int_equal(vault_op(k, VAULT_OP_PUT, "b", "x"), ST_VAULT_SEALED);
	kill_and_start(k);
	expect_state(k, "\"state\":\"sealed\"");
	assert_int_equal(vault_op(k, VAULT_OP_UNSEAL, "", NULL), ST_BAD_SECRET);
	assert_int_equal(vault_op(k, VAULT_OP_UNSEAL, "", "wrong horse"),
			 ST_BAD_PASSPHRASE);
	assert_int_equal(vault_op(k, VAULT_OP_UNSEAL, "", "correct horse"), ST_OK);
	expect_lease(k, "tracker", "tracker/token", -1, "hunter2");
}

static void
five_wrong_passphrases_lock_it_and_killing_the_keeper_does_not_help(void **state)
{
	struct keeper *k = *state;

	assert_int_equal(ask_vault(k,
				   &(struct vault_ask){ .op = VAULT_OP_REKEY,
							.kind = VAULT_KEY_PASSPHRASE },
				   "correct horse", &(struct str){ 0 }),
			 ST_OK);
	assert_int_equal(vault_op(k, VAULT_OP_SEAL, "", NULL), ST_OK);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(vault_op(k, VAULT_OP_UNSEAL, "", "wrong"),
				 ST_BAD_PASSPHRASE);
		kill_and_start(k);
	}
	assert_int_equal(vault_op(k, VAULT_OP_UNSEAL, "", "correct horse"),
			 ST_VAULT_LOCKED);
	start_again(k);
	assert_int_equal(vault_op(k, VAULT_OP_UNSEAL, "", "correct horse"),
			 ST_VAULT_LOCKED);
}

static void
copy(struct keeper *k, const char *from, const char *to)
{
	static char bytes[1 << 20];
	int in = openat(k->state, from, O_RDONLY | O_CLOEXEC);
	int out = openat(k->state, to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ssize_t n = read(in, bytes, sizeof bytes);

	assert_true(n > 0 && write(out, bytes, (size_t)n) == n);
	(void)close(in);
	(void)close(out);
}

static void
put_back(struct keeper *k, bool also_the_mark)
{
	copy(k, "vault.db", "old.db");
	copy(k, "vault.mark", "old.mark");
	assert_int_equal(vault_op(k, VAULT_OP_ROTATE, "tracker/token", "new"), ST_OK);
	copy(k, "old.db", "vault.db");
	if (also_the_mark)
		copy(k, "old.mark", "vault.mark");
	(void)unlinkat(k->state, "vault.db-wal", 0);
	(void)unlinkat(k->state, "vault.db-shm", 0);
}

static void
an_older_file_is_not_taken_for_the_vault(void **state)
{
	struct keeper *k = *state;

	assert_int_equal(vault_op(k, VAULT_OP_PUT, "tracker/token", "old"), ST_OK);
	/* Alone it is behind its mark; with it, behind what super's memory holds. */
	for (int i = 0; i < 2; i++) {
		put_back(k, i == 1);
		kill_and_start(k);
		expect_state(k, "\"state\":\"rolled_back\"");
		assert_int_equal(ask_lease(k, "tracker", "tracker/token", -1).st,
				 ST_VAULT_DAMAGED);
		assert_int_equal(vault_op(k, VAULT_OP_ADOPT, "", NULL), ST_OK);
		expect_lease(k, "tracker", "tracker/token", -1, "old");
	}
}

static X509 *
issuer_of(struct keeper *k, const struct str *pem, size_t i)
{
	BIO *bio = BIO_new_mem_buf(pem->p, (int)pem->n);
	X509 *found = NULL, *x = NULL, *ca;

	assert_int_equal(ask_mint(k, "a.example.test", MINT_INTERCEPT, &x), ST_OK);
	for (size_t at = 0; (ca = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL;
	     at++) {
		if (at == i && X509_verify(x, X509_get0_pubkey(ca)) == 1)
			found = X509_dup(ca);
		X509_free(ca);
	}
	X509_free(x);
	BIO_free(bio);
	return found;
}

static void
during_an_overlap_both_authorities_are_told_and_the_older_one_signs(void **state)
{
	struct keeper *k = *state;
	struct vault_ask wish = { .op = VAULT_OP_CA_ROTATE, .seconds = 3600 };
	CLEANUP(buf_done) struct buf pem = { 0 };
	struct str answer;

	buf_init(&pem, 65536);
	assert_int_equal(ask_vault(k, &wish, NULL, &answer), ST_OK);
	buf_put(&pem, answer);
	answer = str_of(pem.p, pem.len);
	X509 *old = issuer_of(k, &answer, 1);
	assert_non_null(old);
	X509_free(old);
	wish.seconds = 0;
	assert_int_equal(ask_vault(k, &wish, NULL, &answer), ST_OK);
	buf_clear(&pem);
	buf_put(&pem, answer);
	answer = str_of(pem.p, pem.len);
	assert_null(issuer_of(k, &answer, 1));
	X509 *new = issuer_of(k, &answer, 0);
	assert_non_null(new);
	X509_free(new);
}

static void
lists_name_everything_and_show_no_value(void **state)
{
	struct keeper *k = *state;
	struct vault_ask wish = { .op = VAULT_OP_LIST };
	CLEANUP(buf_done) struct buf last = { 0 };
	char name[80], part[61];
	struct str answer = STR("");
	unsigned seen = 0;

	memset(part, 'x', sizeof part - 1);
	part[60] = '\0';
	for (int i = 0; i < 40; i++) {
		(void)snprintf(name, sizeof name, "s%02d/%s", i, part);
		assert_int_equal(vault_op(k, VAULT_OP_PUT, name, "canary-4711"), ST_OK);
	}
	buf_init(&last, 100);
	assert_int_equal(ask_vault(k, &wish, NULL, &answer), ST_OK);
	for (struct str at = answer; at.n > 6; at = str_skip(at, 1))
		seen += str_starts(at, STR("{\"name\""));
	assert_int_equal(seen, 40);
	assert_null(memmem(answer.p, answer.n, "canary", 6));
	assert_null(memmem(answer.p, answer.n, "@ca", 3));
	expect_in(answer, "\"next\":null");
}

static void
send_rotate(struct keeper *k, const char *value)
{
	const struct vault_ask a = { .op = VAULT_OP_ROTATE,
				     .name = STR("tracker/token") };
	CLEANUP(buf_done) struct buf b = { 0 };
	int fd = seal_value(str_from(value));

	buf_init(&b, VAULT_ASK_MAX);
	vault_ask_put(&b, &a);
	assert_int_equal(ask_send(&k->control, ASK_VAULT, false, 7,
				  ASK_LOAD(str_of(b.p, b.len), &fd, 1)),
			 ST_OK);
	(void)close(fd);
}

/* Wherever it is cut off: the value is the one before or the new one, and never is the
 * file taken for an older one. */
static void
a_keeper_killed_in_the_middle_of_a_change_has_made_it_or_not(void **state)
{
	struct keeper *k = *state;
	char before[16] = "v0", next[16];

	assert_int_equal(vault_op(k, VAULT_OP_PUT, "tracker/token", before), ST_OK);
	for (int i = 1; i <= 40; i++) {
		(void)snprintf(next, sizeof next, "v%d", i);
		send_rotate(k, next);
		(void)usleep((useconds_t)(i * 149 % 9000));
		kill_and_start(k);
		expect_state(k, "\"state\":\"open\"");
		struct lease l = ask_lease(k, "tracker", "tracker/token", -1);
		assert_int_equal(l.st, ST_OK);
		if (strcmp(l.value, next) != 0)
			assert_string_equal(l.value, before);
		memcpy(before, l.value, sizeof before);
	}
}

static void
a_sandboxs_token_is_told_as_its_digest_and_no_connectors_secret_is(void **state)
{
	/* SHA-256 of "abc", FIPS 180-2. */
	static const char abc[] =
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
	struct keeper *k = *state;
	struct vault_ask wish = { .op = VAULT_OP_DIGEST, .name = STR("sandboxes/ci") };
	struct vault_ask next = { .op = VAULT_OP_ROTATE,
				  .name = STR("sandboxes/ci"),
				  .seconds = 60 };
	struct str answer;

	assert_int_equal(ask_vault(k, &wish, NULL, &answer), ST_NO_SECRET);
	assert_int_equal(vault_op(k, VAULT_OP_PUT, "sandboxes/ci", "abc"), ST_OK);
	assert_int_equal(ask_vault(k, &next, "new", &answer), ST_OK);
	assert_int_equal(ask_vault(k, &wish, NULL, &answer), ST_OK);
	expect_in(answer, abc);
	expect_in(answer, "\",\"");
	assert_int_equal(vault_op(k, VAULT_OP_PUT, "tracker/token", "abc"), ST_OK);
	wish.name = STR("tracker/token");
	assert_int_equal(ask_vault(k, &wish, NULL, &answer), ST_SECRET_DENIED);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(values_that_could_break_a_header_are_refused),
		CASE(a_keeper_that_was_killed_comes_back_open),
		CASE(a_sealed_vault_gives_nothing_until_the_passphrase_comes),
		CASE(five_wrong_passphrases_lock_it_and_killing_the_keeper_does_not_help),
		CASE(a_keeper_killed_in_the_middle_of_a_change_has_made_it_or_not),
		CASE(an_older_file_is_not_taken_for_the_vault),
		CASE(during_an_overlap_both_authorities_are_told_and_the_older_one_signs),
		CASE(lists_name_everything_and_show_no_value),
		CASE(a_sandboxs_token_is_told_as_its_digest_and_no_connectors_secret_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
