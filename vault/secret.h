#ifndef VAULT_SECRET_H
#define VAULT_SECRET_H
/*
 * secret: a credential, for the moment in which it is used.  It lies in memory of its own
 * that is locked, left out of cores and of forked children, and wiped with its end; a
 * memfd_secret(2) can't be read by root either.  No printer, no conversion to str, buf
 * or ring: secret_bytes() is the one way in, and who calls it writes what it reads to
 * where the credential must go, at once.
 *
 * All of it is inline: connectors see this header and link nothing of the vault.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "proxy/base/base.h"

#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif

enum { SECRET_MAX = 65536 };

struct secret { /* all zero: empty */
	unsigned char *p;
	size_t n, mapped;
	bool is_read_only; /* another's memfd: gone with its last descriptor */
};

/* Locked, not in a core, not in a child.  What of it the kernel refuses is no reason to
 * stop: the roles' core limit is 0 and a memfd_secret is all of it anyway. */
static inline void
secret_shield(void *p, size_t n)
{
	(void)!mlock(p, n);
	(void)madvise(p, n, MADV_DONTDUMP);
	(void)madvise(p, n, MADV_DONTFORK);
}

/* Room for n bytes, zeroed, written through secret_bytes_mut(). */
static inline enum status MUSTCHECK
secret_new(size_t n, struct secret *ret_s)
{
	if (n == 0 || n > SECRET_MAX)
		return ST_TOO_BIG;
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);
	if (p == MAP_FAILED)
		return ST_NOMEM;
	secret_shield(p, n);
	*ret_s = (struct secret){ p, n, n, false };
	return ST_OK;
}

/* What a lease brought: a memfd of at least n bytes.  memfd stays the caller's, who
 * closes it at once. */
static inline enum status MUSTCHECK
secret_from_fd(int memfd, size_t n, struct secret *ret_s)
{
	struct stat info;

	if (n == 0 || n > SECRET_MAX || fstat(memfd, &info) != 0 ||
	    (uint64_t)info.st_size < n)
		return ST_BAD_MESSAGE;
	void *p = mmap(NULL, n, PROT_READ, MAP_SHARED, memfd, 0);
	if (p == MAP_FAILED)
		return ST_NOMEM;
	secret_shield(p, n);
	*ret_s = (struct secret){ p, n, n, true };
	return ST_OK;
}

/* For CLEANUP; empty is fine. */
static inline void
secret_done(struct secret *s)
{
	if (s->p == NULL)
		return;
	if (!s->is_read_only)
		OPENSSL_cleanse(s->p, s->mapped);
	(void)munmap(s->p, s->mapped);
	*s = (struct secret){ 0 };
}

static inline size_t
secret_len(const struct secret *s)
{
	return s->n;
}

static inline const unsigned char *
secret_bytes(const struct secret *s)
{
	return s->p;
}

static inline unsigned char *
secret_bytes_mut(struct secret *s)
{
	need(!s->is_read_only);
	return s->p;
}

/* Less of it than there was room for. */
static inline void
secret_cut(struct secret *s, size_t n)
{
	need(n <= s->n);
	s->n = n;
}

/* In constant time for equal lengths. */
static inline bool
secret_eq(const struct secret *a, const struct secret *b)
{
	return a->n == b->n && (a->n == 0 || CRYPTO_memcmp(a->p, b->p, a->n) == 0);
}

/* A memfd that only those who hold it can read, nobody from outside: memfd_secret(2),
 * else an ordinary one.  It can be mapped, not read.  ret_is_plain: it is an ordinary
 * one. */
static inline int
secret_memfd(size_t n, bool *ret_is_plain)
{
	int fd = (int)syscall(SYS_memfd_secret, O_CLOEXEC);

	*ret_is_plain = fd < 0;
	if (fd < 0)
		fd = memfd_create("secret", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd >= 0 && ftruncate(fd, (off_t)n) == 0)
		return fd;
	if (fd >= 0)
		(void)close(fd);
	return -1;
}

#endif
