#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "vault/sign.h"

struct scene {
	char path[64];
	int dir;
};

static int
set_up(void **state)
{
	struct scene *s = test_calloc(1, sizeof *s);

	*state = s;
	memcpy(s->path, "/tmp/sandgate-sign-XXXXXX", 26);
	assert_non_null(mkdtemp(s->path));
	s->dir = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return s->dir >= 0 ? 0 : -1;
}

static int
tear_down(void **state)
{
	struct scene *s = *state;

	(void)unlinkat(s->dir, "keeper.key", 0);
	(void)unlinkat(s->dir, "other", 0);
	(void)close(s->dir);
	(void)rmdir(s->path);
	test_free(s);
	return 0;
}

/* Signature and public key of one head with the key of this directory. */
static void
sign_once(struct scene *s, uint64_t segment, const struct chain_hash *head,
	  struct buf *b)
{
	struct signer *signer;

	assert_int_equal(signer_open(s->dir, &signer), ST_OK);
	buf_init(b, CHAIN_SIG + CHAIN_KEY);
	assert_int_equal(signer_put(signer, segment, head, b), ST_OK);
	assert_int_equal(b->len, CHAIN_SIG + CHAIN_KEY);
	signer_free(signer);
}

static void
a_signed_head_verifies_and_no_other_does(void **state)
{
	struct scene *s = *state;
	struct chain_hash head = chain_digest(STR("x")), other = chain_digest(STR("y"));
	CLEANUP(buf_done) struct buf b = { .max = 1 };

	sign_once(s, 7, &head, &b);
	struct str sig = str_of(b.p, CHAIN_SIG),
		   key = str_of(b.p + CHAIN_SIG, CHAIN_KEY);
	assert_true(chain_is_signed(7, &head, sig, key));
	assert_false(chain_is_signed(8, &head, sig, key));
	assert_false(chain_is_signed(7, &other, sig, key));
	b.p[0] ^= 1;
	assert_false(chain_is_signed(7, &head, sig, key));
}

static void
the_key_is_made_once_and_only_its_owner_may_read_it(void **state)
{
	struct scene *s = *state;
	struct chain_hash head = { { 0 } };
	CLEANUP(buf_done) struct buf one = { .max = 1 };
	CLEANUP(buf_done) struct buf two = { .max = 1 };
	struct stat info;

	sign_once(s, 1, &head, &one);
	sign_once(s, 1, &head, &two);
	assert_memory_equal(one.p, two.p, CHAIN_SIG + CHAIN_KEY);
	assert_int_equal(fstatat(s->dir, "keeper.key", &info, 0), 0);
	assert_int_equal(info.st_mode & 07777, 0600);
	assert_int_equal(info.st_size, 32);
	assert_int_equal(faccessat(s->dir, "keeper.key.new", F_OK, 0), -1);
}

static void
a_start_that_was_cut_short_is_made_good(void **state)
{
	struct scene *s = *state;
	struct chain_hash head = { { 0 } };
	CLEANUP(buf_done) struct buf b = { .max = 1 };

	int fd = openat(s->dir, "keeper.key.new", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "half", 4), 4);
	(void)close(fd);
	sign_once(s, 1, &head, &b);
	assert_int_equal(faccessat(s->dir, "keeper.key.new", F_OK, 0), -1);
}

static void
a_key_that_others_may_read_is_refused(void **state)
{
	struct scene *s = *state;
	struct chain_hash head = { { 0 } };
	CLEANUP(buf_done) struct buf b = { .max = 1 };
	struct signer *signer;

	sign_once(s, 1, &head, &b);
	assert_int_equal(fchmodat(s->dir, "keeper.key", 0640, 0), 0);
	assert_int_equal(signer_open(s->dir, &signer), ST_CONFLICT);
}

static void
a_link_and_a_file_of_another_length_are_refused(void **state)
{
	struct scene *s = *state;
	struct chain_hash head = { { 0 } };
	CLEANUP(buf_done) struct buf b = { .max = 1 };
	struct signer *signer;

	sign_once(s, 1, &head, &b);
	assert_int_equal(renameat(s->dir, "keeper.key", s->dir, "other"), 0);
	assert_int_equal(symlinkat("other", s->dir, "keeper.key"), 0);
	assert_int_equal(signer_open(s->dir, &signer), ST_CONFLICT);
	assert_int_equal(renameat(s->dir, "other", s->dir, "keeper.key"), 0);
	int fd = openat(s->dir, "keeper.key", O_WRONLY | O_CLOEXEC);
	assert_int_equal(ftruncate(fd, 31), 0);
	(void)close(fd);
	assert_int_equal(signer_open(s->dir, &signer), ST_CONFLICT);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_signed_head_verifies_and_no_other_does),
		CASE(the_key_is_made_once_and_only_its_owner_may_read_it),
		CASE(a_start_that_was_cut_short_is_made_good),
		CASE(a_key_that_others_may_read_is_refused),
		CASE(a_link_and_a_file_of_another_length_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
