#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "vault/kdf.h"
#include "vault/lockout.h"
#include "vault/mark.h"
#include "vault/master.h"
#include "vault/page.h"
#include "vault/value.h"

struct scene {
	char path[64];
	int dir;
};

static int
set_up(void **state)
{
	struct scene *s = test_calloc(1, sizeof *s);

	memcpy(s->path, "/tmp/sandgate-vkey-XXXXXX", 26);
	assert_non_null(mkdtemp(s->path));
	s->dir = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = s;
	return 0;
}

static int
tear_down(void **state)
{
	struct scene *s = *state;
	DIR *dir = opendir(s->path);
	struct dirent *entry;

	while ((entry = readdir(dir)) != NULL)
		(void)unlinkat(s->dir, entry->d_name, 0);
	(void)closedir(dir);
	(void)close(s->dir);
	assert_int_equal(rmdir(s->path), 0);
	test_free(s);
	return 0;
}

static struct lockout_now
moment(const char *boot, uint64_t boot_s, uint64_t wall_s)
{
	struct lockout_now now = { .boot_ms = boot_s * 1000, .wall_ms = wall_s * 1000 };

	memcpy(now.boot, boot, strlen(boot));
	return now;
}

static void
fail_five_times(struct scene *s, struct lockout *l, const struct lockout_now *now)
{
	assert_int_equal(lockout_open(s->dir, l), ST_OK);
	for (int i = 0; i < LOCKOUT_TRIES; i++)
		assert_int_equal(lockout_try(l, now), ST_OK);
	assert_int_equal(lockout_try(l, now), ST_VAULT_LOCKED);
}

static void
five_failures_lock_for_fifteen_minutes(void **state)
{
	struct scene *s = *state;
	struct lockout_now now = moment("a", 1000, 50000);
	struct lockout l;

	fail_five_times(s, &l, &now);
	now = moment("a", 1000 + 899, 50000);
	assert_int_equal(lockout_left_ms(&l, &now), 1000);
	now = moment("a", 1000 + 900, 50000);
	assert_int_equal(lockout_left_ms(&l, &now), 0);
	assert_int_equal(lockout_try(&l, &now), ST_OK);
}

static void
a_lock_survives_a_restart_and_a_success_forgets_failures(void **state)
{
	struct scene *s = *state;
	struct lockout_now now = moment("a", 1000, 50000);
	struct lockout l;

	fail_five_times(s, &l, &now);
	assert_int_equal(lockout_open(s->dir, &l), ST_OK);
	assert_int_equal(lockout_try(&l, &now), ST_VAULT_LOCKED);
	now = moment("a", 2000, 50000);
	assert_int_equal(lockout_try(&l, &now), ST_OK);
	assert_int_equal(lockout_succeeded(&l), ST_OK);
	assert_int_equal(lockout_open(s->dir, &l), ST_OK);
	for (int i = 0; i < LOCKOUT_TRIES; i++)
		assert_int_equal(lockout_try(&l, &now), ST_OK);
}

static void
setting_the_clock_does_not_end_a_lock(void **state)
{
	struct scene *s = *state;
	struct lockout_now now = moment("a", 1000, 50000);
	struct lockout l;

	fail_five_times(s, &l, &now);
	/* Forward, while the machine runs. */
	now = moment("a", 1001, 90000);
	assert_int_equal(lockout_try(&l, &now), ST_VAULT_LOCKED);
	/* Back, and a reboot: fifteen minutes from there. */
	now = moment("b", 5, 10000);
	assert_int_equal(lockout_open(s->dir, &l), ST_OK);
	assert_int_equal(lockout_left_ms(&l, &now), LOCKOUT_MS);
	assert_int_equal(lockout_open(s->dir, &l), ST_OK);
	now = moment("b", 5 + 899, 10899);
	assert_int_equal(lockout_try(&l, &now), ST_VAULT_LOCKED);
	now = moment("b", 5 + 900, 10900);
	assert_int_equal(lockout_try(&l, &now), ST_OK);
	/* A reboot with a clock that is right. */
	assert_int_equal(lockout_succeeded(&l), ST_OK);
	fail_five_times(s, &l, &now);
	now = moment("c", 1, 10900 + 901);
	assert_int_equal(lockout_open(s->dir, &l), ST_OK);
	assert_int_equal(lockout_try(&l, &now), ST_OK);
}

static void
a_count_that_is_not_ours_is_a_lock(void **state)
{
	struct scene *s = *state;
	int fd = openat(s->dir, "unseal.tries", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	struct lockout_now now = lockout_now(STR("a"));
	struct lockout l;

	assert_int_equal(write(fd, "x", 1), 1);
	(void)close(fd);
	assert_int_equal(lockout_open(s->dir, &l), ST_OK);
	assert_int_equal(lockout_try(&l, &now), ST_VAULT_LOCKED);
}

/* The page. */

static void
keys_survive_in_the_page_and_sealing_wipes_them(void **state)
{
	bool is_plain;
	int fd = secret_memfd(PAGE_SIZE, &is_plain);
	struct page *p;

	(void)state;
	assert_int_equal(page_open(fd, &p), ST_OK);
	assert_null(page_key(p, 0));
	assert_null(page_key(p, 1));
	struct seal_key *first = page_spare(p);
	first->b[0] = 1;
	page_use(p, first);
	page_saw(p, 7);
	page_saw(p, 5);
	page_close(p);
	assert_int_equal(page_open(fd, &p), ST_OK);
	assert_int_equal(page_key(p, 0)->b[0], 1);
	assert_int_equal(page_change(p), 7);
	/* Killed between a commit with a new key and page_use(): both are there. */
	struct seal_key *second = page_spare(p);
	second->b[0] = 2;
	page_close(p);
	assert_int_equal(page_open(fd, &p), ST_OK);
	assert_int_equal(page_key(p, 0)->b[0], 1);
	assert_int_equal(page_key(p, 1)->b[0], 2);
	page_use(p, page_key(p, 1));
	assert_int_equal(page_key(p, 0)->b[0], 2);
	assert_null(page_key(p, 1));
	assert_false(page_is_shut(p));
	page_seal(p);
	assert_null(page_key(p, 0));
	assert_true(page_is_shut(p));
	assert_int_equal(page_change(p), 7);
	page_close(p);
	(void)close(fd);
}

static void
a_memfd_secret_can_not_be_read_from_outside(void **state)
{
	char bytes[8];
	bool is_plain;
	int fd = secret_memfd(PAGE_SIZE, &is_plain);

	(void)state;
	if (is_plain) {
		(void)close(fd);
		skip(); /* this kernel has none, and doctor says so */
	}
	char *at = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	memcpy(at, "canary", 7);
	int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	assert_true(mem >= 0);
	assert_int_equal(pread(mem, bytes, sizeof bytes, (off_t)(uintptr_t)at), -1);
	assert_int_equal(pread(fd, bytes, sizeof bytes, 0), -1);
	(void)close(mem);
	(void)munmap(at, PAGE_SIZE);
	(void)close(fd);
}

/* Where keys come from. */

static int
value_of(struct str s, int seals)
{
	int fd = memfd_create("value", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(write(fd, s.p, s.n), s.n);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

/* By hashlib.scrypt(b"correct horse", salt=b"\0"*16, n=2**17, r=8, p=1, dklen=32). */
static const unsigned char expected_key[] = { 0x97, 0x30, 0xd2, 0xfe, 0xf1, 0xc4, 0x4d,
					      0x88, 0x60, 0xd2, 0xe4, 0x4b, 0xe6, 0x86,
					      0x64, 0x5e, 0x3e, 0xe5, 0xba, 0xde, 0xbe,
					      0x19, 0x1c, 0x03, 0xfb, 0xaf, 0xbb, 0x05,
					      0xd0, 0xf9, 0x31, 0x69 };

static void
a_passphrase_gives_the_key_that_scrypt_says(void **state)
{
	const uint8_t salt[KDF_SALT] = { 0 };
	int fd = value_of(STR("correct horse"), 0);
	struct kdf k = { 0 };
	struct seal_key key = { { 0 } };

	(void)state;
	assert_int_equal(kdf_start(fd, 13, salt, &k), ST_OK);
	assert_int_equal(kdf_finish(&k, &key), ST_OK);
	assert_memory_equal(key.b, expected_key, sizeof key.b);
	assert_int_equal(kdf_start(fd, 0, salt, &k), ST_BAD_SECRET);
	assert_int_equal(kdf_start(fd, KDF_PASSPHRASE_MAX + 1, salt, &k),
			 ST_BAD_SECRET);
	(void)close(fd);
}

static void
a_key_file_that_others_may_read_is_refused(void **state)
{
	struct scene *s = *state;
	struct seal_key made, back;

	assert_int_equal(master_read_file(s->dir, &back), ST_NOT_FOUND);
	assert_int_equal(master_stage(s->dir, &made), ST_OK);
	assert_int_equal(master_read_file(s->dir, &back), ST_NOT_FOUND);
	assert_int_equal(master_read_staged(s->dir, &back), ST_OK);
	assert_true(seal_key_eq(&made, &back));
	assert_int_equal(master_settle(s->dir), ST_OK);
	assert_int_equal(master_read_file(s->dir, &back), ST_OK);
	assert_true(seal_key_eq(&made, &back));
	assert_int_equal(fchmodat(s->dir, "master.key", 0640, 0), 0);
	assert_int_equal(master_read_file(s->dir, &back), ST_CONFLICT);
	/* A service manager's list of users shows as the group's right to read. */
	int fd = openat(s->dir, "master.key", O_RDONLY | O_CLOEXEC);
	assert_int_equal(master_read_given(fd, &back), ST_OK);
	assert_true(seal_key_eq(&made, &back));
	assert_int_equal(fchmodat(s->dir, "master.key", 0604, 0), 0);
	assert_int_equal(master_read_given(fd, &back), ST_CONFLICT);
	(void)close(fd);
	assert_int_equal(symlinkat("/etc/passwd", s->dir, "x"), 0);
	assert_int_equal(renameat(s->dir, "x", s->dir, "master.key"), 0);
	assert_int_equal(master_read_file(s->dir, &back), ST_CONFLICT);
}

static void
a_short_key_is_none(void **state)
{
	CLEANUP(secret_done) struct secret s = { 0 };
	struct seal_key key;

	(void)state;
	assert_int_equal(secret_new(33, &s), ST_OK);
	memset(secret_bytes_mut(&s), 'k', 32);
	secret_bytes_mut(&s)[32] = '\n';
	assert_int_equal(master_from(&s, &key), ST_OK);
	secret_cut(&s, 31);
	assert_int_equal(master_from(&s, &key), ST_BAD_SECRET);
}

/* The mark. */

static void
a_mark_is_good_for_its_vault_and_key_and_during_a_change_for_both(void **state)
{
	struct scene *s = *state;
	const struct seal_key old = { { 1 } }, new = { { 2 } }, other = { { 3 } };
	struct safe_head head = { .change = 77, .id = { 5 } };
	uint64_t change = 0;

	assert_false(mark_is_there(s->dir));
	assert_int_equal(mark_read(s->dir, &old, &head, &change), ST_NOT_FOUND);
	assert_int_equal(mark_write(s->dir, &old, &new, &head), ST_OK);
	assert_true(mark_is_there(s->dir));
	assert_int_equal(mark_read(s->dir, &old, &head, &change), ST_OK);
	assert_int_equal(change, 77);
	assert_int_equal(mark_read(s->dir, &new, &head, &change), ST_OK);
	assert_int_equal(mark_read(s->dir, &other, &head, &change), ST_VAULT_DAMAGED);
	assert_int_equal(mark_write(s->dir, &new, NULL, &head), ST_OK);
	assert_int_equal(mark_read(s->dir, &old, &head, &change), ST_VAULT_DAMAGED);
	head.id[0] = 6;
	assert_int_equal(mark_read(s->dir, &new, &head, &change), ST_VAULT_DAMAGED);
}

/* Values. */

static void
a_value_that_could_still_change_is_not_read(void **state)
{
	const int all = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;
	CLEANUP(secret_done) struct secret s = { 0 };
	int open_one = value_of(STR("x"), F_SEAL_GROW | F_SEAL_SHRINK);
	int empty = value_of(STR(""), all), good = value_of(STR("value"), all);

	(void)state;
	assert_int_equal(value_read(open_one, 10, &s), ST_BAD_MESSAGE);
	assert_int_equal(value_read(empty, 10, &s), ST_BAD_SECRET);
	assert_int_equal(value_read(good, 4, &s), ST_BAD_SECRET);
	assert_int_equal(value_read(good, 5, &s), ST_OK);
	assert_memory_equal(secret_bytes(&s), "value", 5);
	(void)close(open_one);
	(void)close(empty);
	(void)close(good);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(five_failures_lock_for_fifteen_minutes),
		CASE(a_lock_survives_a_restart_and_a_success_forgets_failures),
		CASE(setting_the_clock_does_not_end_a_lock),
		CASE(a_count_that_is_not_ours_is_a_lock),
		CASE(keys_survive_in_the_page_and_sealing_wipes_them),
		CASE(a_memfd_secret_can_not_be_read_from_outside),
		CASE(a_passphrase_gives_the_key_that_scrypt_says),
		CASE(a_key_file_that_others_may_read_is_refused),
		CASE(a_short_key_is_none),
		CASE(a_mark_is_good_for_its_vault_and_key_and_during_a_change_for_both),
		CASE(a_value_that_could_still_change_is_not_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
