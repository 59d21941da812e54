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
#include <openssl/x509v3.h>

#include "proxy/io/chain.h"
#include "tests/unit/keeper_bench.h"

static void
ask_sign(struct keeper *k, uint64_t segment, const struct chain_hash *head)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 100);
	buf_put_u64(&b, segment);
	buf_put(&b, chain_str(head));
	assert_int_equal(ask_send(&k->ledger, ASK_SIGN, false, (uint32_t)segment,
				  ASK_LOAD(str_of(b.p, b.len), NULL, 0)),
			 ST_OK);
}

static void
expect_signed(struct keeper *k, uint64_t segment, const struct chain_hash *head)
{
	struct ask_msg m;

	assert_int_equal(ask_recv(&k->ledger, k->scene.space, &m), ST_OK);
	assert_true(m.is_answer);
	assert_int_equal(m.seq, segment);
	assert_int_equal(m.body.n, CHAIN_SIG + CHAIN_KEY);
	assert_true(chain_is_signed(segment, head, str_head(m.body, CHAIN_SIG),
				    str_skip(m.body, CHAIN_SIG)));
}

static void
heads_are_signed_in_the_jail(void **state)
{
	struct keeper *k = *state;
	struct chain_hash head = chain_digest(STR("x"));

	for (uint64_t i = 1; i <= 50; i++) {
		ask_sign(k, i, &head);
		expect_signed(k, i, &head);
	}
}

/* Super is gone, the ledger drains: its last place is still signed. */
static void
the_ledger_is_served_to_its_end(void **state)
{
	struct keeper *k = *state;
	struct chain_hash head = { { 9 } };

	(void)close(k->scene.line.fd);
	k->scene.line.fd = -1;
	ask_sign(k, 3, &head);
	expect_signed(k, 3, &head);
}

static void
a_ledger_that_talks_nonsense_loses_its_line_and_its_successor_is_served(void **state)
{
	struct keeper *k = *state;
	struct chain_hash head = chain_digest(STR("x"));
	struct ask_msg m;

	for (int i = 0; i < 20; i++) {
		assert_int_equal(ask_send(&k->ledger, ASK_SIGN, false, 1,
					  ASK_LOAD(STR("short"), NULL, 0)),
				 ST_OK);
		assert_int_equal(ask_recv(&k->ledger, k->scene.space, &m), ST_END);
		(void)close(k->ledger.fd);
		k->ledger = give_line(k, ROLE_LEDGER);
		ask_sign(k, 2, &head);
		expect_signed(k, 2, &head);
	}
}

static void
a_ledger_that_asks_too_often_loses_its_line(void **state)
{
	struct keeper *k = *state;
	struct chain_hash head = chain_digest(STR("x"));
	struct ask_msg m;
	unsigned signatures = 0;
	enum status st = ST_OK;

	/* Each answer is read at once: what doesn't fit into the socket is lost. */
	for (uint64_t i = 1; i <= 1000 && st == ST_OK; i++) {
		ask_sign(k, i, &head);
		st = ask_recv(&k->ledger, k->scene.space, &m);
		signatures += st == ST_OK;
	}
	assert_int_equal(st, ST_END);
	assert_in_range(signatures, 200, 269);
}

static void
nobody_else_is_served(void **state)
{
	struct keeper *k = *state;
	struct ask_end dns = give_line(k, ROLE_DNS);
	struct ask_msg m;

	assert_int_equal(ask_recv(&dns, k->scene.space, &m), ST_END);
	(void)close(dns.fd);
}

static void
a_secret_is_leased_for_a_sandbox_that_may_use_it(void **state)
{
	struct keeper *k = *state;
	int demo = connect_from(k, 1);
	char detail[256];

	assert_int_equal(vault_op(k, VAULT_OP_PUT, "tracker/token", "hunter2"), ST_OK);
	assert_int_equal(last_row(k, ROW_VAULT, detail), ST_OK);
	assert_string_equal(detail, "put tracker/token version 1, change 3");
	expect_lease(k, "tracker", "tracker/token", demo, "hunter2");
	assert_int_equal(last_row(k, ROW_LEASE, detail), ST_OK);
	assert_string_equal(detail, "tracker/token version 1 to tracker");
	expect_lease(k, "tracker", "tracker/token", -1, "hunter2");
	assert_int_equal(vault_op(k, VAULT_OP_ROTATE, "tracker/token", "hunter3"),
			 ST_OK);
	expect_lease(k, "tracker", "tracker/token", demo, "hunter3");
	assert_int_equal(ask_lease(k, "tracker", "tracker/token", demo).version, 2);
	(void)close(demo);
}

static void
who_may_not_have_it_is_refused_and_it_is_told(void **state)
{
	struct keeper *k = *state;
	int demo = connect_from(k, 1), nobody = connect_from(k, 9);
	char detail[256];

	assert_int_equal(ask_lease(k, "tracker", "tracker/token", demo).st,
			 ST_NO_SECRET);
	assert_int_equal(vault_op(k, VAULT_OP_PUT, "tracker/token", "hunter2"), ST_OK);
	assert_int_equal(ask_lease(k, "tracker", "tracker/token", nobody).st,
			 ST_UNKNOWN_SANDBOX);
	assert_int_equal(ask_lease(k, "jira", "tracker/token", demo).st,
			 ST_SECRET_DENIED);
	assert_int_equal(ask_lease(k, "spare", "tracker/token", demo).st,
			 ST_SECRET_DENIED);
	assert_int_equal(vault_op(k, VAULT_OP_PUT, "other/token", "x"), ST_OK);
	assert_int_equal(ask_lease(k, "other", "other/token", demo).st,
			 ST_SECRET_DENIED);
	assert_int_equal(ask_lease(k, "none", "tracker/token", demo).st,
			 ST_SECRET_DENIED);
	assert_int_equal(ask_lease(k, "tracker", "tracker/other", demo).st,
			 ST_SECRET_DENIED);
	assert_int_equal(ask_lease(k, "tracker", "@ca", demo).st, ST_SECRET_DENIED);
	assert_int_equal(last_row(k, ROW_LEASE, detail), ST_SECRET_DENIED);
	assert_int_equal(ask_vault(k,
				   &(struct vault_ask){ .op = VAULT_OP_UNGRANT,
							.name = STR("tracker/token"),
							.connector = STR("tracker") },
				   NULL, &(struct str){ 0 }),
			 ST_OK);
	assert_int_equal(ask_lease(k, "tracker", "tracker/token", demo).st,
			 ST_SECRET_DENIED);
	(void)close(demo);
	(void)close(nobody);
}

static void
a_users_secret_is_for_that_user(void **state)
{
	struct keeper *k = *state;
	int alice = connect_from(k, 1), bob = connect_from(k, 2);

	assert_int_equal(vault_op(k, VAULT_OP_PUT, "users/alice/jira", "a"), ST_OK);
	expect_lease(k, "jira", "users/{user}/jira", alice, "a");
	assert_int_equal(ask_lease(k, "jira", "users/{user}/jira", bob).st,
			 ST_NO_SECRET);
	assert_int_equal(ask_lease(k, "jira", "users/alice/jira", bob).st,
			 ST_SECRET_DENIED);
	assert_int_equal(ask_lease(k, "jira", "users/{user}/jira", -1).st,
			 ST_SECRET_DENIED);
	(void)close(alice);
	(void)close(bob);
}

static void
an_expired_secret_is_not_given_out(void **state)
{
	struct keeper *k = *state;
	struct str answer;

	assert_int_equal(ask_vault(k,
				   &(struct vault_ask){ .op = VAULT_OP_PUT,
							.name = STR("tracker/token"),
							.expires = 1000 },
				   "old", &answer),
			 ST_OK);
	assert_int_equal(ask_lease(k, "tracker", "tracker/token", -1).st,
			 ST_SECRET_EXPIRED);
}

static void
without_a_ledger_nothing_is_given_out(void **state)
{
	struct keeper *k = *state;

	assert_int_equal(vault_op(k, VAULT_OP_PUT, "tracker/token", "x"), ST_OK);
	assert_int_equal(rowring_desert(k->scene.ring_fd, true), ST_OK);
	assert_int_equal(ask_lease(k, "tracker", "tracker/token", -1).st, ST_NO_LEDGER);
	assert_int_equal(vault_op(k, VAULT_OP_PUT, "b", "x"), ST_NO_LEDGER);
	assert_int_equal(rowring_desert(k->scene.ring_fd, false), ST_OK);
	expect_lease(k, "tracker", "tracker/token", -1, "x");
}

static void
give_source(struct keeper *k, const char *value)
{
	int fd = seal_value(str_from(value));

	give(&k->scene, GIVE_SOURCE, 0, STR("files/token"), &fd, 1);
	give(&k->scene, GIVE_SOURCE, 1, STR(""), NULL, 0);
	(void)close(fd);
	/* An answer means that what was said before has been heard. */
	take_policy(&k->scene, ++k->generation);
}

/* Sealed or not: it isn't the vault's. */
static void
a_file_or_variable_of_another_is_leased_like_a_secret(void **state)
{
	struct keeper *k = *state;
	int demo = connect_from(k, 1);

	k->generation = 1;
	assert_int_equal(ask_lease(k, "mounted", "files/token", demo).st, ST_NO_SECRET);
	give_source(k, "from a mount\n");
	expect_lease(k, "mounted", "files/token", demo, "from a mount");
	assert_int_equal(vault_op(k, VAULT_OP_SEAL, "", NULL), ST_OK);
	give_source(k, "from a mount");
	assert_int_equal(ask_lease(k, "mounted", "files/token", -1).version, 1);
	give_source(k, "another");
	assert_int_equal(ask_lease(k, "mounted", "files/token", -1).version, 2);
	expect_lease(k, "mounted", "files/token", demo, "another");
	assert_int_equal(ask_lease(k, "tracker", "files/token", demo).st,
			 ST_SECRET_DENIED);
	give_source(k, "bad\rvalue");
	assert_int_equal(ask_lease(k, "mounted", "files/token", demo).st, ST_NO_SECRET);
	assert_int_equal(vault_op(k, VAULT_OP_UNSEAL, "", NULL), ST_OK);
	assert_int_equal(vault_op(k, VAULT_OP_PUT, "files/token", "x"), ST_CONFLICT);
	(void)close(demo);
}

static enum status
ask_rotate(struct keeper *k, uint32_t base, const char *value, uint32_t *ret_version)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	int fd = seal_value(str_from(value));
	struct ask_msg m;

	buf_init(&b, 1024);
	wire_put_str(&b, STR("refresh"));
	wire_put_str(&b, STR("refresh/token"));
	buf_put_u32(&b, base);
	assert_int_equal(ask_send(&k->connector, ASK_ROTATE, false, 9,
				  ASK_LOAD(str_of(b.p, b.len), &fd, 1)),
			 ST_OK);
	(void)close(fd);
	assert_int_equal(ask_recv(&k->connector, k->scene.space, &m), ST_OK);
	struct wire w = wire_from(m.body);
	enum status st = (enum status)wire_u16(&w);
	*ret_version = wire_u32(&w);
	assert_int_equal(wire_end(&w), ST_OK);
	return st;
}

static void
a_new_refresh_token_is_durable_and_an_older_one_is_no_base(void **state)
{
	struct keeper *k = *state;
	uint32_t version = 0;

	assert_int_equal(vault_op(k, VAULT_OP_PUT, "refresh/token", "one"), ST_OK);
	assert_int_equal(ask_rotate(k, 1, "two", &version), ST_OK);
	assert_int_equal(version, 2);
	kill_and_start(k);
	expect_lease(k, "refresh", "refresh/token", -1, "two");
	assert_int_equal(ask_rotate(k, 1, "late", &version), ST_CONFLICT);
	assert_int_equal(ask_rotate(k, 2, "a\nb", &version), ST_BAD_SECRET);
	expect_lease(k, "refresh", "refresh/token", -1, "two");
}

static void
leaves_are_for_hosts_that_some_policy_lets_out(void **state)
{
	struct keeper *k = *state;
	X509 *x = NULL;
	unsigned told = 0;

	assert_int_equal(ask_mint(k, "a.example.test", MINT_INTERCEPT, &x), ST_OK);
	assert_int_equal(X509_check_host(x, "a.example.test", 0, 0, NULL), 1);
	X509_free(x);
	assert_int_equal(ask_mint(k, "tracker.example.test", MINT_INTERCEPT, &x),
			 ST_OK);
	X509_free(x);
	assert_int_equal(ask_mint(k, "evil.test", MINT_INTERCEPT, &x), ST_DENIED);
	assert_int_equal(ask_mint(k, "A.example.test", MINT_INTERCEPT, &x),
			 ST_BAD_HOST);
	for (int i = 0; i < 40; i++) {
		enum status st = ask_mint(k, "evil.test", MINT_REFUSAL, &x);
		assert_true(st == ST_OK || st == ST_LIMIT_RATE);
		if (st == ST_OK)
			X509_free(x);
		told += st == ST_OK;
	}
	assert_in_range(told, 20, 30);
}

static void
a_listener_gets_the_names_that_the_configuration_gives_it(void **state)
{
	struct keeper *k = *state;
	X509 *x = NULL;

	assert_int_equal(ask_mint(k, "secure", MINT_LISTENER, &x), ST_OK);
	assert_int_equal(X509_check_host(x, "gw.test", 0, 0, NULL), 1);
	assert_int_equal(X509_check_ip_asc(x, "10.0.0.1", 0), 1);
	assert_int_equal(X509_check_host(x, "secure", 0, 0, NULL), 0);
	X509_free(x);
	assert_int_equal(ask_mint(k, "plain", MINT_LISTENER, &x), ST_DENIED);
	assert_int_equal(ask_mint(k, "gw.test", MINT_LISTENER, &x), ST_DENIED);
	assert_int_equal(ask_mint(k, "", MINT_LISTENER, &x), ST_DENIED);
	assert_int_equal(ask_mint(k, "gw.test", MINT_INTERCEPT, &x), ST_DENIED);
}

static void
a_line_that_talks_nonsense_is_hung_up(void **state)
{
	struct keeper *k = *state;
	struct ask_msg m;

	assert_int_equal(ask_send(&k->connector, ASK_LEASE, false, 1,
				  ASK_LOAD(STR("\0"), NULL, 0)),
			 ST_OK);
	assert_int_equal(ask_recv(&k->connector, k->scene.space, &m), ST_END);
	assert_int_equal(
		ask_send(&k->worker, ASK_MINT, false, 1, ASK_LOAD(STR("\0"), NULL, 0)),
		ST_OK);
	assert_int_equal(ask_recv(&k->worker, k->scene.space, &m), ST_END);
	assert_int_equal(ask_send(&k->control, ASK_VAULT, false, 1,
				  ASK_LOAD(STR("\x63"), NULL, 0)),
			 ST_OK);
	assert_int_equal(ask_recv(&k->control, k->scene.space, &m), ST_END);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(heads_are_signed_in_the_jail),
		CASE(the_ledger_is_served_to_its_end),
		CASE(a_ledger_that_talks_nonsense_loses_its_line_and_its_successor_is_served),
		CASE(a_ledger_that_asks_too_often_loses_its_line),
		CASE(nobody_else_is_served),
		CASE(a_secret_is_leased_for_a_sandbox_that_may_use_it),
		CASE(who_may_not_have_it_is_refused_and_it_is_told),
		CASE(a_users_secret_is_for_that_user),
		CASE(an_expired_secret_is_not_given_out),
		CASE(without_a_ledger_nothing_is_given_out),
		CASE(a_new_refresh_token_is_durable_and_an_older_one_is_no_base),
		CASE(leaves_are_for_hosts_that_some_policy_lets_out),
		CASE(a_listener_gets_the_names_that_the_configuration_gives_it),
		CASE(a_file_or_variable_of_another_is_leased_like_a_secret),
		CASE(a_line_that_talks_nonsense_is_hung_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
