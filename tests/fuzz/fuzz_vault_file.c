/*
 * A vault file of another hand.  Whatever its bytes are, it is refused, or every value in
 * it is the one that was put there: the seed holds under each name "value of " and that
 * name, sealed with the key below.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vault/safe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const struct seal_key master = { "key of the seed in the corpus" };

enum { FILE_MAX = 65536 };

static void
check_version(const struct table_entry *e, const struct table_version *v)
{
	static const struct str before = { "value of ", 9 };
	const struct envelope_place place = table_place(e, v);
	unsigned char value[TABLE_SEALED_MAX];
	size_t value_n = v->envelope.sealed.n - SEAL_MORE;

	need(envelope_open(&master, &place, &v->envelope, value) == ST_OK);
	struct str got = str_of(value, value_n);
	need(str_starts(got, before));
	need(str_eq(str_skip(got, before.n), e->name));
}

static void
check_table(const struct table *t)
{
	for (size_t i = 0; i < table_size(t); i++) {
		const struct table_entry *e = table_at(t, i);
		need(table_find(t, e->tenant, e->name) == e);
		need(table_after(t, e->tenant, e->name) == i + 1);
		need(table_newest(e) == &e->versions[e->versions_n - 1]);
		for (size_t k = 0; k < e->versions_n; k++)
			check_version(e, &e->versions[k]);
	}
}

static void
write_file(const char *path, struct str bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	need(fd >= 0 && write(fd, bytes.p, bytes.n) == (ssize_t)bytes.n);
	(void)close(fd);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char path[64], beside[80];
	struct safe *s = NULL;

	if (n > FILE_MAX)
		return 0;
	(void)snprintf(path, sizeof path, "/dev/shm/sandgate-fuzz-vault-%d",
		       (int)getpid());
	write_file(path, str_of(data, n));
	if (safe_open(path, &s) == ST_OK && safe_head(s) != NULL &&
	    safe_unlock(s, &master) == ST_OK)
		check_table(safe_table(s));
	safe_free(s);
	(void)unlink(path);
	static const char *const ends[] = { "-wal", "-shm", "-journal" };
	for (size_t i = 0; i < COUNT_OF(ends); i++) {
		(void)snprintf(beside, sizeof beside, "%s%s", path, ends[i]);
		(void)unlink(beside);
	}
	return 0;
}
