#ifndef PROXY_LEDGER_DRAIN_H
#define PROXY_LEDGER_DRAIN_H
/*
 * drain: from the rings of all writers into the store, in batches.
 *
 * One transaction a batch, at most DRAIN_ROWS rows of each ring, so that no writer
 * keeps another waiting.  A ring is advanced only after the commit; the digest of its
 * last row is in the same transaction, so after a crash between the two that row is
 * found again in the ring and nothing up to it is stored twice.
 *
 * When the disk is full or fails, nothing is advanced and the batch is tried again
 * later.  After DRAIN_PATIENCE_MS of that the writers are told to let nothing out,
 * until a batch is stored.
 */
#include "proxy/base/log.h"
#include "proxy/io/loop.h"
#include "proxy/io/stats.h"
#include "proxy/ledger/last.h"
#include "proxy/ledger/rates.h"

struct source;

enum { DRAIN_ROWS = 2048, DRAIN_SOURCES = 256, DRAIN_PATIENCE_MS = 100 };

struct drain {
	struct loop *loop;
	struct store *store;
	const struct log *log;
	struct stats *stats; /* may be NULL */
	struct rates rates;
	struct last last;
	struct source *sources[DRAIN_SOURCES];
	size_t sources_n;
	struct loop_timer look;
	uint64_t look_due_ms; /* while look is set */
	uint64_t sync_ms;     /* 0: at once */
	uint64_t retry_ms;    /* 0: the last batch was stored */
	uint64_t failed_ms;   /* since when nothing can be stored */
	bool is_stopped;      /* the writers have been told */
	struct buf rows[2];
};

void drain_init(struct drain *d, struct loop *l, const struct log *log);
void drain_done(struct drain *d);
/* Takes over both descriptors, also on failure.  A slot's older ring is read to its
 * end. */
enum status drain_add(struct drain *d, uint8_t slot, int memfd, int bell) MUSTCHECK;
/* The store is open: load what it knows, look at the rings from now on. */
enum status drain_start(struct drain *d, struct store *s) MUSTCHECK;
/* ST_OK: rows were stored; ST_END: the rings are empty; else the store's failure. */
enum status drain_batch(struct drain *d) MUSTCHECK;

#endif
