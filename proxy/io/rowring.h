#ifndef PROXY_IO_ROWRING_H
#define PROXY_IO_ROWRING_H
/*
 * rowring: rows on their way to the ledger, in a memfd that super also holds, so that
 * they outlive the role that wrote them.  One writer, one reader, no lock.
 *
 *	tail .. head  written, not yet stored     0 <= head - tail <= size
 *
 * head is moved with release order after the bytes are there: a writer killed in the
 * middle leaves no half row.  Each side trusts only its own cursor; what the reader
 * finds is checked (length, CRC-32) before use.  A full ring gives ST_NO_LEDGER, and
 * the caller denies.
 */
#include "proxy/io/row.h"

struct rowring; /* opaque: a mapping */

enum { ROWRING_SIZE = 4 * 1024 * 1024, ROWRING_RESERVE = 256 * 1024 };

enum status rowring_create(const char *name, int *ret_memfd) MUSTCHECK; /* super */
/* bell: an eventfd written when the ring goes from empty to not; stays the caller's. */
enum status rowring_open_writer(int memfd, int bell, struct rowring **ret_r) MUSTCHECK;
enum status rowring_open_reader(int memfd, struct rowring **ret_r) MUSTCHECK;
void rowring_close(struct rowring *r);

/* Denials may use all but ROWRING_RESERVE, so that they can't stop allowed traffic. */
enum status rowring_put(struct rowring *r, const struct row *row) MUSTCHECK;
/* The next row's bytes, copied into b (cleared first), or ST_END.  ST_BAD_MESSAGE: the
 * writer lied; the ring is unusable and skipped to its head. */
enum status rowring_next(struct rowring *r, struct buf *b) MUSTCHECK;
void rowring_advance(struct rowring *r); /* the last row given is stored: forget it */

#endif
