#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/io/sql.h"
#include "vault/safe.h"

static const struct seal_key master = { { 1, 2, 3 } }, other = { { 4, 5, 6 } };
static const struct table_entry jira = { .tenant = { "acme", 4 },
					 .name = { "jira/token", 10 } };
static const struct table_entry ci = { .tenant = { "", 0 }, .name = { "ci", 2 } };

struct scene {
	char path[64];
	struct safe *safe;
};

static void
add(struct safe *s, const struct table_entry *e, uint32_t number, const char *value)
{
	const struct table_version v = { .number = number, .created = 100 + number };
	enum status st = safe_begin(s);

	if (st == ST_OK && number == 1)
		st = safe_add_secret(s, e);
	if (st == ST_OK)
		st = safe_add_version(s, e, &v, str_from(value));
	assert_int_equal(safe_end(s, st), ST_OK);
}

static void
opens_to(struct safe *s, const struct table_entry *key, const struct seal_key *k,
	 const char *value)
{
	const struct table_entry *e = table_find(safe_table(s), key->tenant, key->name);
	unsigned char got[TABLE_SEALED_MAX];

	assert_non_null(e);
	const struct table_version *v = table_newest(e);
	const struct envelope_place place = table_place(e, v);
	assert_int_equal(envelope_open(k, &place, &v->envelope, got), ST_OK);
	assert_int_equal(v->envelope.sealed.n - SEAL_MORE, strlen(value));
	assert_memory_equal(got, value, strlen(value));
}

static int
set_up(void **state)
{
	struct scene *s = test_calloc(1, sizeof *s);
	const struct safe_head head = { .key = VAULT_KEY_FILE };

	*state = s;
	memcpy(s->path, "/tmp/sandgate-safe-XXXXXX", 26);
	assert_non_null(mkdtemp(s->path));
	assert_int_equal(chdir(s->path), 0);
	assert_int_equal(safe_open("vault.db", &s->safe), ST_OK);
	assert_null(safe_head(s->safe));
	assert_int_equal(safe_make(s->safe, &head, &master), ST_OK);
	return 0;
}

static int
tear_down(void **state)
{
	struct scene *s = *state;
	DIR *dir = opendir(s->path);
	struct dirent *entry;

	safe_free(s->safe);
	while ((entry = readdir(dir)) != NULL)
		(void)unlinkat(dirfd(dir), entry->d_name, 0);
	(void)closedir(dir);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(rmdir(s->path), 0);
	test_free(s);
	return 0;
}

static void
open_again(struct scene *s, const struct seal_key *k, enum status expected)
{
	safe_free(s->safe);
	s->safe = NULL;
	assert_int_equal(safe_open("vault.db", &s->safe), ST_OK);
	assert_non_null(safe_head(s->safe));
	assert_int_equal(safe_unlock(s->safe, k), expected);
}

static void
what_was_committed_is_there_after_it_is_opened_again(void **state)
{
	struct scene *s = *state;

	add(s->safe, &jira, 1, "hunter2");
	add(s->safe, &jira, 2, "hunter3");
	add(s->safe, &ci, 1, "x");
	assert_int_equal(safe_head(s->safe)->change, 4);
	open_again(s, &master, ST_OK);
	assert_int_equal(safe_head(s->safe)->change, 4);
	assert_int_equal(table_size(safe_table(s->safe)), 2);
	opens_to(s->safe, &jira, &master, "hunter3");
	opens_to(s->safe, &ci, &master, "x");
	assert_null(table_find(safe_table(s->safe), STR(""), STR("jira/token")));
}

static void
another_key_opens_nothing(void **state)
{
	struct scene *s = *state;

	add(s->safe, &ci, 1, "x");
	open_again(s, &other, ST_BAD_PASSPHRASE);
	assert_null(safe_table(s->safe));
	assert_int_equal(safe_unlock(s->safe, &master), ST_OK);
}

static void
what_failed_half_way_has_not_happened(void **state)
{
	struct scene *s = *state;

	assert_int_equal(safe_begin(s->safe), ST_OK);
	assert_int_equal(safe_add_secret(s->safe, &ci), ST_OK);
	assert_int_equal(safe_end(s->safe, ST_LIMIT_RATE), ST_LIMIT_RATE);
	assert_int_equal(table_size(safe_table(s->safe)), 0);
	/* A secret without a version is no vault of ours. */
	assert_int_equal(safe_begin(s->safe), ST_OK);
	assert_int_equal(safe_add_secret(s->safe, &ci), ST_OK);
	assert_int_equal(safe_end(s->safe, ST_OK), ST_VAULT_DAMAGED);
	open_again(s, &master, ST_OK);
	assert_int_equal(table_size(safe_table(s->safe)), 0);
	add(s->safe, &ci, 1, "x");
}

static void
an_older_version_stays_as_long_as_its_grace(void **state)
{
	struct scene *s = *state;
	const struct table_entry *e;

	add(s->safe, &ci, 1, "one");
	add(s->safe, &ci, 2, "two");
	assert_int_equal(safe_begin(s->safe), ST_OK);
	assert_int_equal(safe_end(s->safe, safe_retire(s->safe, &ci, 2, 1000)), ST_OK);
	e = table_find(safe_table(s->safe), ci.tenant, ci.name);
	assert_non_null(table_version(e, 1, 999));
	assert_null(table_version(e, 1, 1000));
	assert_non_null(table_version(e, 2, 100000));
	assert_null(table_version(e, 3, 0));
	assert_int_equal(safe_begin(s->safe), ST_OK);
	assert_int_equal(safe_end(s->safe, safe_purge(s->safe, 1000)), ST_OK);
	e = table_find(safe_table(s->safe), ci.tenant, ci.name);
	assert_int_equal(e->versions_n, 1);
	add(s->safe, &ci, 3, "three");
	assert_int_equal(safe_begin(s->safe), ST_OK);
	assert_int_equal(safe_end(s->safe, safe_retire(s->safe, &ci, 3, 0)), ST_OK);
	e = table_find(safe_table(s->safe), ci.tenant, ci.name);
	assert_int_equal(e->versions_n, 1);
	assert_int_equal(table_newest(e)->number, 3);
}

static void
another_master_key_opens_the_same_values(void **state)
{
	struct scene *s = *state;
	const struct safe_head head = { .key = VAULT_KEY_PASSPHRASE, .salt = { 7 } };

	add(s->safe, &jira, 1, "hunter2");
	add(s->safe, &ci, 1, "x");
	assert_int_equal(safe_rekey(s->safe, &head, &other), ST_OK);
	opens_to(s->safe, &jira, &other, "hunter2");
	open_again(s, &master, ST_BAD_PASSPHRASE);
	assert_int_equal(safe_unlock(s->safe, &other), ST_OK);
	assert_int_equal(safe_head(s->safe)->key, VAULT_KEY_PASSPHRASE);
	opens_to(s->safe, &ci, &other, "x");
}

static void
who_may_use_a_secret_is_kept_with_it(void **state)
{
	struct scene *s = *state;
	const struct table_grant all = { STR("tracker"), STR("") },
				 one = { STR("github"), STR("alice") };
	const struct table_entry *e;

	add(s->safe, &ci, 1, "x");
	assert_int_equal(safe_begin(s->safe), ST_OK);
	enum status st = safe_permit(s->safe, &ci, &all, false);
	if (st == ST_OK)
		st = safe_permit(s->safe, &ci, &one, false);
	assert_int_equal(safe_end(s->safe, st), ST_OK);
	open_again(s, &master, ST_OK);
	e = table_find(safe_table(s->safe), ci.tenant, ci.name);
	assert_true(table_is_granted(e, STR("tracker"), STR("bob")));
	assert_true(table_is_granted(e, STR("github"), STR("alice")));
	assert_false(table_is_granted(e, STR("github"), STR("bob")));
	assert_false(table_is_granted(e, STR("jira"), STR("alice")));
	assert_int_equal(safe_begin(s->safe), ST_OK);
	assert_int_equal(safe_end(s->safe, safe_permit(s->safe, &ci, &all, true)),
			 ST_OK);
	e = table_find(safe_table(s->safe), ci.tenant, ci.name);
	assert_false(table_is_granted(e, STR("tracker"), STR("bob")));
	assert_int_equal(safe_begin(s->safe), ST_OK);
	assert_int_equal(safe_end(s->safe, safe_remove(s->safe, &ci)), ST_OK);
	assert_int_equal(table_size(safe_table(s->safe)), 0);
}

static void
copy(const char *from, const char *to)
{
	static char bytes[1 << 20];
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ssize_t n = read(in, bytes, sizeof bytes);

	assert_true(n > 0 && write(out, bytes, (size_t)n) == n);
	(void)close(in);
	(void)close(out);
}

/* Whoever holds the disk changes one thing, with all that sqlite offers him. */
static void
a_row_of_another_hand_opens_nothing(void **state)
{
	static const char *const changes[] = {
		"UPDATE version SET expires = 5",
		"UPDATE version SET retires = 5 WHERE version = 1",
		"DELETE FROM version WHERE version = 2",
		"DELETE FROM version",
		"DELETE FROM secret WHERE name = x'6369'",
		"UPDATE version SET version = 9 WHERE version = 2",
		"UPDATE version SET sealed = (SELECT sealed FROM version LIMIT 1)",
		"UPDATE secret SET kind = 1",
		"UPDATE secret SET tenant = x'61'",
		"INSERT INTO permit VALUES(x'', x'6369', x'65', x'')",
		"INSERT INTO permit VALUES(x'', x'00', x'65', x'')",
		"INSERT INTO secret VALUES('', 'text', 0)",
		"UPDATE vault SET change = 1",
		"UPDATE vault SET key = 2",
		"UPDATE vault SET salt = randomblob(16)",
		"UPDATE vault SET id = zeroblob(16)",
		"UPDATE vault SET mac = zeroblob(32)",
		"UPDATE secret SET kind = 77",
		"UPDATE version SET number = 0",
	};
	struct scene *s = *state;

	add(s->safe, &jira, 1, "hunter2");
	add(s->safe, &jira, 2, "hunter3");
	add(s->safe, &ci, 1, "x");
	safe_free(s->safe);
	s->safe = NULL;
	for (size_t i = 0; i < COUNT_OF(changes); i++) {
		sqlite3 *db = NULL;
		copy("vault.db", "copy.db");
		assert_int_equal(sql_open_writer("copy.db", &db), ST_OK);
		bool is_done = sql_exec(db, changes[i]) == ST_OK;
		assert_int_equal(sqlite3_close(db), SQLITE_OK);
		assert_int_equal(safe_open("copy.db", &s->safe), ST_OK);
		assert_int_equal(safe_unlock(s->safe, &master),
				 is_done ? ST_VAULT_DAMAGED : ST_OK);
		assert_true(is_done || i == COUNT_OF(changes) - 1);
		safe_free(s->safe);
		s->safe = NULL;
	}
}

static void
no_value_is_in_the_file_or_beside_it(void **state)
{
	static const char canary[] = "canary-4711-in-plain";
	struct scene *s = *state;
	static char bytes[1 << 20];

	add(s->safe, &ci, 1, canary);
	DIR *dir = opendir(".");
	struct dirent *entry;
	while ((entry = readdir(dir)) != NULL) {
		int fd = openat(dirfd(dir), entry->d_name, O_RDONLY);
		ssize_t n = read(fd, bytes, sizeof bytes);
		(void)close(fd);
		assert_true(n <= 0 || memmem(bytes, (size_t)n, canary,
					     sizeof canary - 1) == NULL);
	}
	(void)closedir(dir);
}

static void
a_value_has_bounds(void **state)
{
	struct scene *s = *state;
	const struct table_version v = { .number = 1 };
	static char large[VAULT_VALUE_MAX + 1];

	assert_int_equal(safe_begin(s->safe), ST_OK);
	assert_int_equal(safe_add_version(s->safe, &ci, &v, STR("")), ST_BAD_SECRET);
	assert_int_equal(
		safe_add_version(s->safe, &ci, &v, str_of(large, sizeof large)),
		ST_BAD_SECRET);
	assert_int_equal(safe_end(s->safe, ST_BAD_SECRET), ST_BAD_SECRET);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_was_committed_is_there_after_it_is_opened_again),
		CASE(another_key_opens_nothing),
		CASE(what_failed_half_way_has_not_happened),
		CASE(an_older_version_stays_as_long_as_its_grace),
		CASE(another_master_key_opens_the_same_values),
		CASE(who_may_use_a_secret_is_kept_with_it),
		CASE(a_row_of_another_hand_opens_nothing),
		CASE(no_value_is_in_the_file_or_beside_it),
		CASE(a_value_has_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
