#include "vault/value.h"

#include <fcntl.h>

enum { SEALS = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK };

enum status
value_read(int memfd, size_t max, struct secret *ret_s)
{
	CLEANUP(secret_done) struct secret s = { 0 };
	struct stat info;
	int seals = fcntl(memfd, F_GET_SEALS);

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(memfd, &info) != 0)
		return ST_BAD_MESSAGE;
	if (info.st_size <= 0 || (uint64_t)info.st_size > max)
		return ST_BAD_SECRET;
	enum status st = secret_new((size_t)info.st_size, &s);
	if (st != ST_OK)
		return st;
	if (pread(memfd, secret_bytes_mut(&s), s.n, 0) != (ssize_t)s.n)
		return ST_SYSTEM;
	*ret_s = s;
	s = (struct secret){ 0 };
	return ST_OK;
}

/* A control character in a header field is another field, or none at all. */
static bool
is_allowed(unsigned char c, enum vault_kind kind)
{
	if (kind == VAULT_PEM)
		return (c >= ' ' && c < 0x7f) || c == '\n' || c == '\t';
	return c >= ' ' && c != 0x7f;
}

bool
value_is_good(const struct secret *s, enum vault_kind kind)
{
	const unsigned char *p = secret_bytes(s);
	size_t n = secret_len(s);

	if (n == 0 || n > VAULT_VALUE_MAX || p[0] == ' ' || p[n - 1] == ' ')
		return false;
	for (size_t i = 0; i < n; i++)
		if (!is_allowed(p[i], kind))
			return false;
	return true;
}
