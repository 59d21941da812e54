/*
 * The power goes while the vault is changed.  After each cut it opens by itself, as it was
 * before the change or as it was to be, never as neither; and no change that an operator was
 * told of is lost.
 */
#include "tests/unit/power.h"

#include <dirent.h>
#include <setjmp.h>
#include <stddef.h>

#include <cmocka.h>

#include "proxy/base/num.h"
#include "vault/permit.h"
#include "vault/vault.h"

enum { OPS = 10, OPS_MAX = 32, TELL_MAX = 16384, SOME = 2 };

struct point { /* what the vault held when an operation had been acknowledged */
	size_t steps;
	char text[TELL_MAX];
};

struct told {
	struct point points[OPS_MAX];
	size_t n;
};

static struct vault *
open_vault(int dir)
{
	const struct vault_given g = { .dir = dir,
				       .page = -1,
				       .key = -1,
				       .boot = STR("boot"),
				       .wanted = VAULT_KEY_FILE };
	struct vault *v = NULL;

	assert_int_equal(fchdir(dir), 0);
	assert_int_equal(vault_new(&g, &v), ST_OK);
	return v;
}

/* Everything in it, values too. */
static void
tell(struct vault *v, char text[TELL_MAX])
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str all;

	buf_init(&b, TELL_MAX - 1);
	buf_put(&b, str_from(vault_state_word(vault_state(v))));
	for (size_t i = 0; vault_is_open(v) == ST_OK && i < table_size(vault_table(v));
	     i++) {
		const struct table_entry *e = table_at(vault_table(v), i);
		if (e->kind == TABLE_CA)
			continue;
		for (size_t k = 0; k < e->versions_n; k++) {
			CLEANUP(secret_done) struct secret s = { 0 };
			const struct table_version *one = &e->versions[k];
			const struct envelope_place place = table_place(e, one);
			assert_int_equal(
				secret_new(one->envelope.sealed.n - SEAL_MORE, &s),
				ST_OK);
			assert_int_equal(envelope_open(vault_master(v), &place,
						       &one->envelope,
						       secret_bytes_mut(&s)),
					 ST_OK);
			buf_putf(&b, "\n%.*s %u %d=", STR_ARG(e->name), one->number,
				 one->retires != 0);
			buf_put(&b, str_of(secret_bytes(&s), secret_len(&s)));
		}
	}
	buf_putc(&b, '\n');
	if (vault_is_open(v) == ST_OK)
		assert_int_equal(vault_put_cas(v, &b), ST_OK);
	assert_int_equal(buf_finish(&b, &all), ST_OK);
	memcpy(text, all.p, all.n);
	text[all.n] = '\0';
}

/* The operations. */

static enum status
put(struct vault *v, const char *name, uint32_t number, const char *value)
{
	const struct table_entry e = { .name = str_from(name) };
	const struct table_version one = { .number = number, .created = vault_now() };
	enum status st = ST_OK;
	struct safe *s = vault_begin(v, &st);

	if (s == NULL)
		return st;
	st = number == 1 ? safe_add_secret(s, &e) : ST_OK;
	if (st == ST_OK)
		st = safe_add_version(s, &e, &one, str_from(value));
	if (st == ST_OK && number > 1)
		st = safe_retire(s, &e, number,
				 number % 2 == 0 ? vault_now() + 3600 : 0);
	return vault_end(v, st);
}

static enum status
rm(struct vault *v, const char *name)
{
	const struct table_entry e = { .name = str_from(name) };
	enum status st = ST_OK;
	struct safe *s = vault_begin(v, &st);

	return s == NULL ? st : vault_end(v, safe_remove(s, &e));
}

static enum status
change(struct vault *v, size_t op)
{
	switch (op) {
	case 0:
		return put(v, "a/token", 1, "first-value-of-a");
	case 1:
		return put(v, "a/token", 2, "second-value-of-a");
	case 2:
		return put(v, "b", 1, "value-of-b");
	case 3:
		return vault_rekey(v, VAULT_KEY_FILE, -1);
	case 4:
		return put(v, "a/token", 3, "third-value-of-a");
	case 5:
		return rm(v, "b");
	case 6:
		return vault_rotate_ca(v, 3600);
	case 7:
		return vault_rekey(v, VAULT_KEY_FILE, -1);
	case 8:
		return vault_rotate_ca(v, 0);
	case 9:
		return put(v, "c", 1, "value-of-c");
	default:
		return ST_END;
	}
}

static int
make_dir(char path[64])
{
	(void)snprintf(path, 64, "/dev/shm/sandgate-power-XXXXXX");
	assert_non_null(mkdtemp(path));
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void
empty_dir(int dir)
{
	DIR *d = fdopendir(fcntl(dir, F_DUPFD_CLOEXEC, 0));
	const struct dirent *e;

	assert_non_null(d);
	rewinddir(d);
	while ((e = readdir(d)) != NULL)
		if (e->d_name[0] != '.')
			(void)unlinkat(dir, e->d_name, 0);
	(void)closedir(d);
}

static void
remove_dir(int dir, const char *path)
{
	empty_dir(dir);
	assert_int_equal(chdir("/"), 0);
	(void)close(dir);
	(void)rmdir(path);
}

/* All operations, once, in a directory whose every step is written down. */
static void
record(struct told *all)
{
	char path[64];
	int dir = make_dir(path);

	power.is_on = true;
	power.fds[dir] = -1;
	struct vault *v = open_vault(dir);
	assert_int_equal(vault_state(v), VAULT_OPEN);
	for (enum status st = ST_OK; st != ST_END; st = change(v, all->n++)) {
		assert_int_equal(st, ST_OK);
		all->points[all->n].steps = power.steps_n;
		power.is_on = false;
		tell(v, all->points[all->n].text);
		power.is_on = true;
	}
	vault_free(v);
	power.is_on = false;
	assert_int_equal(all->n, OPS + 1);
	remove_dir(dir, path);
}

/* Before the first was acknowledged there was nothing to lose: a new one is made. */
static bool
is_fine(const struct told *all, size_t cut, const char *text)
{
	const struct point *points = all->points;
	size_t done = 0, n = all->n;

	while (done < n && points[done].steps <= cut)
		done++;
	if (done == 0)
		return strncmp(text, "open\n-----BEGIN", 15) == 0;
	return strcmp(text, points[done - 1].text) == 0 ||
	       (done < n && strcmp(text, points[done].text) == 0);
}

static void
try_cut(int dir, const struct told *all, size_t cut, enum power_luck luck,
	uint64_t dice)
{
	char text[TELL_MAX], again[TELL_MAX];

	empty_dir(dir);
	power_cut(dir, cut, luck, dice);
	struct vault *v = open_vault(dir);
	tell(v, text);
	vault_free(v);
	if (!is_fine(all, cut, text))
		fail_msg("cut %zu, luck %d, dice %llu: %.200s", cut, (int)luck,
			 (unsigned long long)dice, text);
	v = open_vault(dir);
	tell(v, again);
	vault_free(v);
	assert_string_equal(text, again);
}

/* SG_POWER: how often luck is tried for each cut; ./dev test long asks for more. */
static uint64_t
tries(void)
{
	const char *often = getenv("SG_POWER");
	uint64_t n = 0;

	return often != NULL && num_parse_u64(str_from(often), 1000, &n) ? n : SOME;
}

static void
after_each_cut_the_vault_is_the_old_or_the_new_one(void **state)
{
	const struct told *all = *state;
	size_t cuts = 0;
	uint64_t most = tries();
	char path[64];
	int dir = make_dir(path);

	for (size_t cut = 0; cut <= power.steps_n; cut++) {
		try_cut(dir, all, cut, POWER_NOTHING, 0);
		try_cut(dir, all, cut, POWER_ALL, 0);
		for (uint64_t dice = 1; dice <= most; dice++)
			try_cut(dir, all, cut, POWER_SOME, dice * 7919 + cut);
		cuts += 2 + most;
	}
	print_message("%zu steps, %zu cuts\n", power.steps_n, cuts);
	remove_dir(dir, path);
}

/* So the test can find: from a disk that only says that it has synced, changes are lost. */
static void
a_change_that_was_not_synced_would_be_found_missing(void **state)
{
	const struct told *all = *state;
	char path[64], text[TELL_MAX];
	int dir = make_dir(path);
	size_t lost = 0;

	power.is_lying = true;
	for (size_t i = 1; i < all->n; i++) {
		empty_dir(dir);
		power_cut(dir, all->points[i].steps, POWER_NOTHING, 0);
		struct vault *v = open_vault(dir);
		tell(v, text);
		vault_free(v);
		lost += !is_fine(all, all->points[i].steps, text);
	}
	power.is_lying = false;
	assert_int_equal(lost, all->n - 1);
	remove_dir(dir, path);
}

static int
set_up(void **state)
{
	static struct told all;

	record(&all);
	*state = &all;
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_each_cut_the_vault_is_the_old_or_the_new_one),
		cmocka_unit_test(a_change_that_was_not_synced_would_be_found_missing),
	};

	return cmocka_run_group_tests_name("vault_power", tests, set_up, NULL);
}
