#ifndef VAULT_PAGE_H
#define VAULT_PAGE_H
/*
 * page: the unsealed master key, in a memfd_secret(2) that super made and holds without
 * ever mapping it.  A keeper that is started again finds the vault open; nobody else can
 * read it.  Beside it stands how far the vault had come, so that a file which was put
 * back while the gateway runs is found even if the mark beside it was put back too.
 *
 * Two places for a key, one in force: while the vault is sealed anew with another master
 * key both are needed, and a keeper killed in the middle finds the one that fits.
 */
#include "vault/seal.h"

enum { PAGE_SIZE = 4096, PAGE_KEYS = 2 };

struct page;

/* memfd: of PAGE_SIZE bytes, stays the caller's; -1: memory of our own, which dies with
 * us. */
enum status page_open(int memfd, struct page **ret_p) MUSTCHECK;
void page_close(struct page *p); /* leaves what super holds as it is */

/* i below PAGE_KEYS, those in force first; NULL: no key there. */
const struct seal_key *page_key(const struct page *p, size_t i);
/* The place for the next key, zeroed: fill it, then page_use(). */
struct seal_key *page_spare(struct page *p);
/* From here on; wipes the other. */
void page_use(struct page *p, const struct seal_key *key);
void page_seal(struct page *p); /* wipes both */
/* Sealed by an operator: it stays so when the keeper starts again. */
bool page_is_shut(const struct page *p);

uint64_t page_change(const struct page *p);
void page_saw(struct page *p, uint64_t change); /* the highest stays */
void page_forget(struct page *p);               /* an older file was taken on purpose */

#endif
