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
 * the caller denies; so does a ring whose reader can't store, or has been gone for a
 * while, to every row that would let something out.
 */
#include "proxy/io/row.h"

struct rowring; /* opaque: a mapping */

enum { ROWRING_SIZE = 4 * 1024 * 1024, ROWRING_RESERVE = 256 * 1024 };

enum status rowring_create(const char *name, int *ret_memfd) MUSTCHECK; /* super */
/* bell: an eventfd written when a row comes after the reader found none; stays the
 * caller's. */
enum status rowring_open_writer(int memfd, int bell, struct rowring **ret_r) MUSTCHECK;
enum status rowring_open_reader(int memfd, struct rowring **ret_r) MUSTCHECK;
void rowring_close(struct rowring *r);

/* Would a row that lets something out be taken?  Asked before a name is looked up or a
 * connection made for it; the row itself may still be refused. */
bool rowring_is_open(const struct rowring *r);
/* Three quarters are taken though the reader works: whoever is about to add a row that
 * lets something out takes a breath first, so that the reader catches up. */
bool rowring_is_crowded(const struct rowring *r);
/* Denials may use all but ROWRING_RESERVE, so that they can't stop allowed traffic. */
enum status rowring_put(struct rowring *r, const struct row *row) MUSTCHECK;
/* The reader: what is in the ring can't be stored just now, or can again. */
void rowring_stop(struct rowring *r, bool is_stopped);
/* Super: there is no reader, or there is one again. */
enum status rowring_desert(int memfd, bool is_deserted) MUSTCHECK;
/* The next row's bytes, copied into b (cleared first; its max at least ROW_MAX), or
 * ST_END, after which the bell tells of more.  ST_BAD_MESSAGE: the writer lied, or its
 * memory is damaged; what it had written up to then is skipped. */
enum status rowring_next(struct rowring *r, struct buf *b) MUSTCHECK;
/* All rows given so far are stored: forget them.  A reader that dies before this is
 * given them again, so it commits first, advances then, and drops ids it has. */
void rowring_advance(struct rowring *r);

#endif
