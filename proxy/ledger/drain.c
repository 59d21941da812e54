#include "proxy/ledger/drain.h"

#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "proxy/base/clock.h"
#include "proxy/base/num.h"
#include "proxy/io/rowring.h"

enum {
	RETRY_FIRST_MS = 50,
	RETRY_MAX_MS = 2000,
	SECOND_US = 1000000,
	LATE_US = 200000
};

struct source {
	struct drain *drain;
	struct rowring *ring;
	int memfd, bell;
	uint8_t slot;
	bool is_fresh; /* not read yet by this process: some rows may be stored already
			*/
	bool is_old;   /* its writer has a new ring */
	size_t taken;  /* in this batch */
	struct chain_hash digest; /* of the last one taken */
	struct loop_io io;
};

void
drain_init(struct drain *d, struct loop *l, const struct log *log)
{
	*d = (struct drain){ .loop = l, .log = log, .sync_ms = 50 };
	rates_init(&d->rates);
	last_init(&d->last);
	for (size_t i = 0; i < COUNT_OF(d->rows); i++)
		buf_init(&d->rows[i], ROW_MAX);
}

static void
source_free(struct source *x)
{
	if (x->io.loop != NULL)
		loop_io_clear(&x->io);
	rowring_close(x->ring);
	(void)close(x->memfd);
	(void)close(x->bell);
	free(x);
}

void
drain_done(struct drain *d)
{
	for (size_t i = 0; i < d->sources_n; i++)
		source_free(d->sources[i]);
	d->sources_n = 0;
	if (d->look.loop != NULL)
		loop_timer_clear(&d->look);
	rates_done(&d->rates);
	last_done(&d->last);
	for (size_t i = 0; i < COUNT_OF(d->rows); i++)
		buf_done(&d->rows[i]);
}

/* At the latest in ms: a look that is due later comes sooner, but not in front of the
 * pause after a failure. */
static void
look_soon(struct drain *d, uint64_t ms)
{
	uint64_t due = loop_now_ms(d->loop) + ms;

	if (d->store == NULL)
		return;
	if (loop_timer_is_set(&d->look) && (d->retry_ms != 0 || due >= d->look_due_ms))
		return;
	d->look_due_ms = due;
	loop_timer_set(&d->look, ms);
}

static void
on_bell(void *ctx, unsigned events)
{
	struct source *x = ctx;
	uint64_t n = 0;
	struct iovec v = { &n, sizeof n };

	(void)events;
	/* The writer holds it too, may have emptied it, and may have it wait. */
	(void)!preadv2(x->bell, &v, 1, -1, RWF_NOWAIT);
	look_soon(x->drain, x->drain->sync_ms);
}

enum status
drain_add(struct drain *d, uint8_t slot, int memfd, int bell)
{
	struct source *x = calloc(1, sizeof *x);
	enum status st = x == NULL ? ST_NOMEM : ST_OK;

	if (st == ST_OK && d->sources_n == DRAIN_SOURCES)
		st = ST_TOO_BIG;
	if (st == ST_OK)
		st = rowring_open_reader(memfd, &x->ring);
	if (st != ST_OK) {
		free(x);
		(void)close(memfd);
		(void)close(bell);
		return st;
	}
	for (size_t i = 0; i < d->sources_n; i++)
		if (d->sources[i]->slot == slot)
			d->sources[i]->is_old = true;
	x->drain = d;
	x->memfd = memfd;
	x->bell = bell;
	x->slot = slot;
	x->is_fresh = true;
	/* Also takes away what an earlier ledger said before it died. */
	rowring_stop(x->ring, d->is_stopped);
	d->sources[d->sources_n++] = x;
	loop_io_init(&x->io, d->loop, bell, on_bell, x);
	loop_io_want(&x->io, LOOP_READ);
	look_soon(d, d->sync_ms);
	return ST_OK;
}

static enum status
note_lost(struct drain *d, const struct source *x, const char *what)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct row r = { .kind = ROW_LOST, .reason = ST_BAD_MESSAGE };

	log_error(d->log, "slot %u: %s", x->slot, what);
	buf_init(&b, 256);
	buf_putf(&b, "slot %u: %s", x->slot, what);
	enum status st = buf_finish(&b, &r.detail);
	return st == ST_OK ? store_note(d->store, &r) : st;
}

/*
 * Did an earlier process store rows of this ring and die before it advanced it?  Then
 * the last one it stored is among the first DRAIN_ROWS.  Looked for with a reader of
 * its own; the rows before it, and it, are taken and forgotten.
 */
static size_t
count_stored(struct drain *d, const struct source *x)
{
	struct chain_hash mark;
	struct rowring *again = NULL;
	size_t stored = 0;

	if (!store_last_consumed(d->store, x->slot, &mark))
		return 0;
	if (rowring_open_reader(x->memfd, &again) != ST_OK)
		return 0;
	for (size_t i = 1; i <= DRAIN_ROWS; i++) {
		if (rowring_next(again, &d->rows[0]) != ST_OK)
			break;
		struct chain_hash h =
			chain_digest(str_of(d->rows[0].p, d->rows[0].len));
		if (chain_eq(&h, &mark))
			stored = i;
	}
	rowring_close(again);
	return stored;
}

static void
skip_stored(struct drain *d, struct source *x)
{
	size_t stored = count_stored(d, x);

	for (size_t i = 0; i < stored; i++)
		if (rowring_next(x->ring, &d->rows[0]) != ST_OK)
			break;
	if (stored > 0)
		rowring_advance(x->ring);
	x->is_fresh = false;
}

static enum status
keep(struct drain *d, const struct source *x, struct str bytes)
{
	struct row r;

	if (row_get(bytes, &r) != ST_OK)
		return note_lost(d, x, "a row does not parse and was left out");
	last_add(&d->last, &r);
	if (row_is_refusal(&r) && rates_is_over(&d->rates, &r))
		return ST_OK;
	return store_add(d->store, bytes, &r);
}

static enum status
take(struct drain *d, struct source *x)
{
	struct buf *b = &d->rows[0], *before = &d->rows[1];
	enum status st = ST_OK;

	x->taken = 0;
	while (x->taken < DRAIN_ROWS && (st = rowring_next(x->ring, b)) == ST_OK) {
		st = keep(d, x, str_of(b->p, b->len));
		if (st != ST_OK)
			return st;
		x->taken++;
		/* The mark is of the last row; what next() leaves in b at the end is
		 * not. */
		struct buf swap = *before;
		*before = *b;
		*b = swap;
	}
	if (x->taken > 0)
		x->digest = chain_digest(str_of(before->p, before->len));
	if (st == ST_BAD_MESSAGE) {
		/* The ring is at its head now: what it held is lost, the process told.
		 */
		x->taken++;
		st = note_lost(d, x, "the ring is damaged, its rows are lost");
	}
	if (st != ST_OK && st != ST_END)
		return st;
	return x->taken > 0 ? store_consumed(d->store, x->slot, &x->digest) : ST_OK;
}

static enum status
fill(struct drain *d, size_t *ret_taken, uint64_t *ret_counted)
{
	uint64_t now = clock_wall_us() - LATE_US;
	enum status st = ST_OK;
	size_t taken = 0;

	for (size_t i = 0; i < d->sources_n; i++)
		d->sources[i]->taken = 0;
	for (size_t i = 0; i < d->sources_n; i++) {
		if (d->sources[i]->is_fresh)
			skip_stored(d, d->sources[i]);
		st = take(d, d->sources[i]);
		if (st != ST_OK)
			return st;
		taken += d->sources[i]->taken;
	}
	st = rates_save(&d->rates, d->store);
	if (st == ST_OK)
		st = rates_flush(&d->rates, d->store, now / SECOND_US, ret_counted);
	*ret_taken = taken;
	return st;
}

/* Nothing of the batch was kept: read the rings again from where they stand. */
static void
step_back(struct drain *d)
{
	uint64_t limit = d->rates.limit;

	for (size_t i = 0; i < d->sources_n; i++) {
		struct rowring *again = NULL;
		struct source *x = d->sources[i];
		if (rowring_open_reader(x->memfd, &again) != ST_OK)
			continue;
		rowring_close(x->ring);
		x->ring = again;
	}
	rates_done(&d->rates);
	rates_init(&d->rates);
	d->rates.limit = limit;
	if (rates_load(&d->rates, d->store) != ST_OK)
		log_error(d->log, "the counts of refusals could not be read again");
}

static void
stop_writers(struct drain *d, bool is_stopped)
{
	if (d->is_stopped == is_stopped)
		return;
	d->is_stopped = is_stopped;
	for (size_t i = 0; i < d->sources_n; i++)
		rowring_stop(d->sources[i]->ring, is_stopped);
	if (is_stopped)
		log_error(d->log, "egress stops until rows can be stored");
}

static void
failed(struct drain *d, enum status st)
{
	if (d->retry_ms == 0) {
		log_error(d->log, "rows can't be stored (%s: %s)", status_code(st),
			  sqlite3_errmsg(d->store->db));
		d->failed_ms = clock_mono_ms();
	}
	d->retry_ms = d->retry_ms == 0 ? RETRY_FIRST_MS
				       : num_min(d->retry_ms * 2, RETRY_MAX_MS);
	if (d->store->is_open)
		store_rollback(d->store);
	step_back(d);
	if (clock_mono_ms() - d->failed_ms >= DRAIN_PATIENCE_MS)
		stop_writers(d, true);
}

static void
stored(struct drain *d, uint64_t rows, uint64_t counted)
{
	size_t kept = 0;

	for (size_t i = 0; i < d->sources_n; i++) {
		struct source *x = d->sources[i];
		if (x->taken > 0)
			rowring_advance(x->ring);
		if (x->is_old && x->taken == 0)
			source_free(x);
		else
			d->sources[kept++] = x;
	}
	d->sources_n = kept;
	if (d->retry_ms != 0)
		log_info(d->log, "rows are stored again");
	d->retry_ms = 0;
	stop_writers(d, false);
	stats_add(d->stats, STAT_ROWS_STORED, (int64_t)rows);
	stats_add(d->stats, STAT_ROWS_AGGREGATED, (int64_t)counted);
}

enum status
drain_batch(struct drain *d)
{
	size_t taken = 0;
	uint64_t counted = 0;
	enum status st = store_begin(d->store);

	if (st == ST_OK)
		st = fill(d, &taken, &counted);
	if (st == ST_OK && (taken > 0 || counted > 0))
		st = store_commit(d->store);
	else if (st == ST_OK)
		store_rollback(d->store); /* nothing to keep: no write, no fsync */
	if (st != ST_OK) {
		failed(d, st);
		return st;
	}
	stored(d, taken, counted);
	return taken > 0 ? ST_OK : ST_END;
}

/* A ring had more than a batch takes: its writer must not fill it while we pause. */
static bool
is_behind(const struct drain *d)
{
	for (size_t i = 0; i < d->sources_n; i++)
		if (d->sources[i]->taken >= DRAIN_ROWS)
			return true;
	return false;
}

/* After rows one more look: a writer that saw a ring not yet empty rang no bell. */
static void
on_look(void *ctx)
{
	struct drain *d = ctx;
	enum status st = drain_batch(d);

	if (st == ST_OK)
		look_soon(d, is_behind(d) ? 0 : d->sync_ms);
	else if (st != ST_END)
		look_soon(d, d->retry_ms);
	else if (!rates_is_idle(&d->rates))
		look_soon(d, 1000);
}

/* So that a ledger that was restarted still answers what was refused last. */
static enum status
load_last(struct drain *d)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st =
		sql_prepare(d->store->db,
			    "SELECT payload FROM rows WHERE seq > ? AND denial = 1"
			    " AND payload IS NOT NULL ORDER BY seq",
			    &q);
	struct row r;

	if (st != ST_OK)
		return st;
	sql_u64(q, 1, d->store->now.seq > 10000 ? d->store->now.seq - 10000 : 0);
	while ((st = sql_next(q)) == ST_OK)
		if (row_get(sql_get_bytes(q, 0), &r) == ST_OK)
			last_add(&d->last, &r);
	return st == ST_END ? ST_OK : st;
}

enum status
drain_start(struct drain *d, struct store *s)
{
	d->store = s;
	loop_timer_init(&d->look, d->loop, on_look, d);
	enum status st = rates_load(&d->rates, s);
	if (st == ST_OK)
		st = load_last(d);
	look_soon(d, 0);
	return st;
}
