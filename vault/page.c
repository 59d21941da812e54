#include "vault/page.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <openssl/crypto.h>

#include "vault/secret.h"

struct bytes {                 /* what super's memory holds; all zero: never used */
	_Atomic uint32_t used; /* 0: no key, else 1 + the place of the one in force */
	_Atomic uint32_t filled[PAGE_KEYS];
	_Atomic uint32_t shut;
	_Atomic uint64_t change;
	struct seal_key keys[PAGE_KEYS];
};

struct page {
	struct bytes *bytes;
};

_Static_assert(sizeof(struct bytes) <= PAGE_SIZE, "one page holds it");

static bool
fits(int memfd)
{
	struct stat info;

	return fstat(memfd, &info) == 0 && info.st_size >= PAGE_SIZE;
}

enum status
page_open(int memfd, struct page **ret_p)
{
	int flags = memfd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;

	if (memfd >= 0 && !fits(memfd))
		return ST_BAD_MESSAGE;
	struct page *p = calloc(1, sizeof *p);
	if (p == NULL)
		return ST_NOMEM;
	void *at = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE, flags, memfd, 0);
	if (at == MAP_FAILED) {
		free(p);
		return ST_SYSTEM;
	}
	secret_shield(at, PAGE_SIZE);
	p->bytes = at;
	*ret_p = p;
	return ST_OK;
}

void
page_close(struct page *p)
{
	if (p == NULL)
		return;
	(void)munmap(p->bytes, PAGE_SIZE);
	free(p);
}

/* The place of the i-th key to try. */
static size_t
place(const struct page *p, size_t i)
{
	uint32_t used = atomic_load(&p->bytes->used);

	return used == 2 ? 1 - i : i;
}

const struct seal_key *
page_key(const struct page *p, size_t i)
{
	need(i < PAGE_KEYS);
	size_t at = place(p, i);
	return atomic_load(&p->bytes->filled[at]) != 0 ? &p->bytes->keys[at] : NULL;
}

struct seal_key *
page_spare(struct page *p)
{
	size_t at = atomic_load(&p->bytes->used) == 1 ? 1 : 0;

	/* Filled from the start: a keeper that dies before page_use() may have sealed
	 * the vault with it.  One that doesn't fit is only a key that doesn't fit. */
	OPENSSL_cleanse(&p->bytes->keys[at], sizeof p->bytes->keys[at]);
	atomic_store(&p->bytes->filled[at], 1);
	return &p->bytes->keys[at];
}

void
page_use(struct page *p, const struct seal_key *key)
{
	size_t at = key == &p->bytes->keys[1] ? 1 : 0;

	need(key == &p->bytes->keys[at]);
	atomic_store(&p->bytes->used, (uint32_t)at + 1);
	atomic_store(&p->bytes->shut, 0);
	atomic_store(&p->bytes->filled[1 - at], 0);
	OPENSSL_cleanse(&p->bytes->keys[1 - at], sizeof p->bytes->keys[1 - at]);
}

void
page_seal(struct page *p)
{
	atomic_store(&p->bytes->shut, 1);
	atomic_store(&p->bytes->used, 0);
	for (size_t i = 0; i < PAGE_KEYS; i++)
		atomic_store(&p->bytes->filled[i], 0);
	OPENSSL_cleanse(p->bytes->keys, sizeof p->bytes->keys);
}

bool
page_is_shut(const struct page *p)
{
	return atomic_load(&p->bytes->shut) != 0;
}

uint64_t
page_change(const struct page *p)
{
	return atomic_load(&p->bytes->change);
}

void
page_saw(struct page *p, uint64_t change)
{
	if (change > page_change(p))
		atomic_store(&p->bytes->change, change);
}

void
page_forget(struct page *p)
{
	atomic_store(&p->bytes->change, 0);
}
