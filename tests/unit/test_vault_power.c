/*
 * The power goes while the vault is changed.  After each cut it opens by itself, as it was
 * before the change or as it was to be, never as neither; and no change that an operator was
 * told of is lost.
 */
#include "tests/unit/power_story.h"

#include "vault/permit.h"
#include "vault/vault.h"

static void *
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
	if (power.is_on)
		assert_int_equal(vault_state(v), VAULT_OPEN);
	return v;
}

/* Everything in it, values too. */
static void
tell(void *store, char text[STORY_TELL])
{
	struct vault *v = store;
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str all;

	buf_init(&b, STORY_TELL - 1);
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
change(void *store, size_t op)
{
	struct vault *v = store;

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

static void
close_vault(void *store)
{
	vault_free(store);
}

static int
set_up(void **state)
{
	static struct power_story t = {
		.ops = 10,
		.some = 2,
		.is_thorough = true,
		.new_tells = "open\n-----BEGIN",
		.open_in = open_vault,
		.close = close_vault,
		.tell = tell,
		.change = change,
	};

	story_record(&t);
	*state = &t;
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_each_cut_it_is_the_old_or_the_new_one),
		cmocka_unit_test(a_change_that_was_not_synced_would_be_found_missing),
	};

	return cmocka_run_group_tests_name("vault_power", tests, set_up, NULL);
}
