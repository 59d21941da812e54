#ifndef PROXY_LEDGER_RETAIN_H
#define PROXY_LEDGER_RETAIN_H
/*
 * retain: what goes when rows are too old or too many.
 *
 * Too old: the oldest closed segment is dropped.  Too large: first the refusals of the
 * sandbox that made the most of them lose their payloads (digests stay, so the chain
 * verifies), as long as they take more than a quarter of the room; then the oldest
 * closed segment goes.  Either is a row.  Nothing of an open segment is touched.
 */
#include "proxy/ledger/store.h"

/* One step in its own transaction; ST_END when nothing is to be done. */
enum status retain_step(struct store *s, uint64_t now_us) MUSTCHECK;

#endif
