#include "vault/master.h"

#include "vault/small_file.h"

static const char name[] = "master.key";
/* Not secret: keeps what is hashed here apart from all else that is hashed. */
static const struct seal_key label = { "sandgate vault: master key" };

enum status
master_from(const struct secret *s, struct seal_key *ret_k)
{
	size_t n = secret_len(s);
	const unsigned char *p = secret_bytes(s);

	/* Editors and echo end a line. */
	if (n > 0 && p[n - 1] == '\n')
		n--;
	if (n < MASTER_LEAST)
		return ST_BAD_SECRET;
	return seal_mac(&label, str_of(p, n), ret_k);
}

/* What was read into s. */
static enum status
from_file(enum status st, struct secret *s, size_t n, struct seal_key *ret_k)
{
	if (st == ST_OK) {
		secret_cut(s, n);
		st = master_from(s, ret_k);
	}
	secret_done(s);
	return st == ST_BAD_SECRET || st == ST_TOO_BIG ? ST_CONFLICT : st;
}

enum status
master_read_file(int dir, struct seal_key *ret_k)
{
	struct secret s = { 0 };
	size_t n = 0;
	enum status st = secret_new(MASTER_MOST, &s);

	if (st == ST_OK)
		st = small_file_read(dir, name, secret_bytes_mut(&s), MASTER_MOST, &n);
	return from_file(st, &s, n, ret_k);
}

enum status
master_read_staged(int dir, struct seal_key *ret_k)
{
	struct secret s = { 0 };
	size_t n = 0;
	enum status st = secret_new(MASTER_MOST, &s);

	if (st == ST_OK)
		st = small_file_read_staged(dir, name, secret_bytes_mut(&s),
					    MASTER_MOST, &n);
	return from_file(st, &s, n, ret_k);
}

enum status
master_read_given(int fd, struct seal_key *ret_k)
{
	struct secret s = { 0 };
	size_t n = 0;

	if (fd < 0)
		return ST_NOT_FOUND;
	enum status st = secret_new(MASTER_MOST, &s);
	if (st == ST_OK)
		st = small_file_read_fd(fd, SMALL_FILE_GIVEN, secret_bytes_mut(&s),
					MASTER_MOST, &n);
	return from_file(st, &s, n, ret_k);
}

/* In hex, so that it can be copied to paper and no byte of it is taken for the end of a
 * line. */
enum status
master_stage(int dir, struct seal_key *ret_k)
{
	static const char digits[] = "0123456789abcdef";
	CLEANUP(seal_key_done) struct seal_key random = { 0 };
	CLEANUP(secret_done) struct secret text = { 0 };
	enum status st = secret_new(sizeof random.b * 2, &text);

	if (st == ST_OK)
		st = seal_random(&random);
	if (st != ST_OK)
		return st;
	for (size_t i = 0; i < sizeof random.b; i++) {
		secret_bytes_mut(&text)[2 * i] =
			(unsigned char)digits[random.b[i] >> 4];
		secret_bytes_mut(&text)[2 * i + 1] =
			(unsigned char)digits[random.b[i] & 15];
	}
	st = small_file_stage(dir, name,
			      str_of(secret_bytes(&text), secret_len(&text)));
	return st == ST_OK ? master_from(&text, ret_k) : st;
}

enum status
master_settle(int dir)
{
	return small_file_settle(dir, name);
}

void
master_remove(int dir)
{
	small_file_remove(dir, name);
}
