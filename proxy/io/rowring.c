#include "proxy/io/rowring.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proxy/base/crc.h"
#include "proxy/base/num.h"

enum { ALIGN = 8, DATA_AT = 4096, MAPPED = DATA_AT + ROWRING_SIZE };

static const uint64_t magic = 0x31474e4952574f52; /* "ROWRING1" */

/* What lies in the memfd, followed by the data at DATA_AT.  A cache line each. */
struct shared {
	_Alignas(64) uint64_t magic;
	_Alignas(64) uint64_t head;    /* written by the writer only */
	_Alignas(64) uint64_t tail;    /* written by the reader only */
	uint32_t stopped;              /* by the reader: it can't store */
	uint32_t deserted;             /* by super: there is no reader */
	_Alignas(64) uint32_t waiting; /* the reader found nothing and wants the bell */
};

struct record { /* before each row's bytes; a record is padded to ALIGN */
	uint32_t length, crc;
};

struct rowring {
	struct shared *shared;
	char *data;
	int bell; /* writer */
	uint64_t at,
		tail; /* own cursors: writer: at is its head; reader: at, read up to */
	struct buf row; /* writer: the row being put */
};

_Static_assert((ROWRING_SIZE & (ROWRING_SIZE - 1)) == 0, "offsets are masked");
_Static_assert(sizeof(struct shared) <= DATA_AT, "the head page holds it");

enum status
rowring_create(const char *name, int *ret_memfd)
{
	struct shared first = { .magic = magic };
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return ST_NO_FILES;
	if (ftruncate(fd, MAPPED) != 0 ||
	    pwrite(fd, &first, sizeof first, 0) != sizeof first ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
		(void)close(fd);
		return ST_SYSTEM;
	}
	*ret_memfd = fd;
	return ST_OK;
}

/* A memfd that can shrink under us would let the other side kill us with SIGBUS. */
static bool
is_whole(int memfd)
{
	struct stat info = { 0 };
	int seals = fcntl(memfd, F_GET_SEALS);

	return seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(memfd, &info) == 0 &&
	       info.st_size == MAPPED;
}

static enum status
map_ring(int memfd, struct rowring **ret_r)
{
	if (!is_whole(memfd))
		return ST_BAD_MESSAGE;
	struct rowring *r = calloc(1, sizeof *r);
	if (r == NULL)
		return ST_NOMEM;
	char *p = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	if (p == MAP_FAILED) {
		free(r);
		return ST_NOMEM;
	}
	r->shared = (struct shared *)(void *)p;
	r->data = p + DATA_AT;
	buf_init(&r->row, ROW_MAX);
	if (r->shared->magic != magic) {
		rowring_close(r);
		return ST_BAD_MESSAGE;
	}
	*ret_r = r;
	return ST_OK;
}

enum status
rowring_open_writer(int memfd, int bell, struct rowring **ret_r)
{
	struct rowring *r;
	enum status st = map_ring(memfd, &r);

	if (st != ST_OK)
		return st;
	r->bell = bell;
	r->at = __atomic_load_n(&r->shared->head, __ATOMIC_ACQUIRE);
	/* Whoever wrote here before may have been taken over. */
	uint64_t used = r->at - __atomic_load_n(&r->shared->tail, __ATOMIC_ACQUIRE);
	if (r->at % ALIGN != 0 || used > ROWRING_SIZE) {
		rowring_close(r);
		return ST_BAD_MESSAGE;
	}
	*ret_r = r;
	return ST_OK;
}

enum status
rowring_open_reader(int memfd, struct rowring **ret_r)
{
	struct rowring *r;
	enum status st = map_ring(memfd, &r);

	if (st != ST_OK)
		return st;
	r->bell = -1;
	r->tail = r->at = __atomic_load_n(&r->shared->tail, __ATOMIC_ACQUIRE);
	*ret_r = r;
	return ST_OK;
}

void
rowring_close(struct rowring *r)
{
	if (r == NULL)
		return;
	buf_done(&r->row);
	(void)munmap(r->shared, MAPPED);
	free(r);
}

/* n <= ROWRING_SIZE; the offset is masked, so no cursor leads outside. */
static void
copy_in(struct rowring *r, uint64_t at, const void *from, size_t n)
{
	size_t offset = at & (ROWRING_SIZE - 1),
	       first = num_min(n, ROWRING_SIZE - offset);

	memcpy(r->data + offset, from, first);
	memcpy(r->data, (const char *)from + first, n - first);
}

static void
copy_out(const struct rowring *r, uint64_t at, struct buf *b, size_t n)
{
	size_t offset = at & (ROWRING_SIZE - 1),
	       first = num_min(n, ROWRING_SIZE - offset);

	buf_put(b, str_of(r->data + offset, first));
	buf_put(b, str_of(r->data, n - first));
}

static size_t
record_size(size_t length)
{
	return sizeof(struct record) + (length + ALIGN - 1) / ALIGN * ALIGN;
}

static bool
has_room(const struct rowring *r, size_t n, bool refusal)
{
	uint64_t used = r->at - __atomic_load_n(&r->shared->tail, __ATOMIC_ACQUIRE);
	uint64_t limit = refusal ? ROWRING_SIZE - ROWRING_RESERVE : ROWRING_SIZE;

	return used <= limit && n <= limit - used;
}

static bool
has_reader(const struct rowring *r)
{
	return __atomic_load_n(&r->shared->stopped, __ATOMIC_RELAXED) == 0 &&
	       __atomic_load_n(&r->shared->deserted, __ATOMIC_RELAXED) == 0;
}

bool
rowring_is_open(const struct rowring *r)
{
	return has_reader(r) && has_room(r, record_size(ROW_MAX), false);
}

bool
rowring_is_crowded(const struct rowring *r)
{
	uint64_t used = r->at - __atomic_load_n(&r->shared->tail, __ATOMIC_ACQUIRE);

	return used > (uint64_t)ROWRING_SIZE / 4 * 3 && rowring_is_open(r);
}

static void
ring_bell(struct rowring *r)
{
	uint64_t one = 1;

	/* Pairs with the fence in rowring_next(): either we see that the reader waits,
	 * or it sees our row. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&r->shared->waiting, __ATOMIC_RELAXED) == 0)
		return;
	__atomic_store_n(&r->shared->waiting, 0, __ATOMIC_RELAXED);
	if (write(r->bell, &one, sizeof one) < 0)
		return; /* its counter is full: the reader is awake */
}

enum status
rowring_put(struct rowring *r, const struct row *row)
{
	struct str bytes;

	/* Ends and refusals let nothing out, and there may be room: they are kept. */
	if (row_is_start(row) && !has_reader(r))
		return ST_NO_LEDGER;
	buf_clear(&r->row);
	row_put(&r->row, row);
	enum status st = buf_finish(&r->row, &bytes);
	if (st != ST_OK)
		return st == ST_NOMEM ? ST_NO_LEDGER : st;
	if (!has_room(r, record_size(bytes.n), row_is_refusal(row)))
		return ST_NO_LEDGER;

	struct record rec = { (uint32_t)bytes.n, crc_32(bytes) };
	copy_in(r, r->at, &rec, sizeof rec);
	copy_in(r, r->at + sizeof rec, bytes.p, bytes.n);
	r->at += record_size(bytes.n);
	__atomic_store_n(&r->shared->head, r->at, __ATOMIC_RELEASE);
	ring_bell(r);
	return ST_OK;
}

/* How much is there; sets the wish for the bell when that is nothing. */
static uint64_t
available(struct rowring *r)
{
	uint64_t head = __atomic_load_n(&r->shared->head, __ATOMIC_ACQUIRE);

	if (head != r->at)
		return head - r->at;
	__atomic_store_n(&r->shared->waiting, 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&r->shared->head, __ATOMIC_ACQUIRE) - r->at;
}

/* The row is copied before it is checked: the writer may change it at any time. */
static enum status
read_record(struct rowring *r, uint64_t avail, struct buf *b)
{
	struct record rec;
	struct str bytes;

	if (avail > ROWRING_SIZE || avail < sizeof rec)
		return ST_BAD_MESSAGE;
	buf_clear(b);
	copy_out(r, r->at, b, sizeof rec);
	if (b->st != ST_OK)
		return b->st;
	memcpy(&rec, b->p, sizeof rec);
	if (rec.length == 0 || rec.length > ROW_MAX || record_size(rec.length) > avail)
		return ST_BAD_MESSAGE;
	buf_clear(b);
	copy_out(r, r->at + sizeof rec, b, rec.length);
	enum status st = buf_finish(b, &bytes);
	if (st != ST_OK)
		return st;
	if (crc_32(bytes) != rec.crc)
		return ST_BAD_MESSAGE;
	r->at += record_size(rec.length);
	return ST_OK;
}

enum status
rowring_next(struct rowring *r, struct buf *b)
{
	uint64_t avail = available(r);

	if (avail == 0)
		return ST_END;
	enum status st = read_record(r, avail, b);
	if (st == ST_BAD_MESSAGE)
		r->at += avail; /* rows given before this one still wait for advance */
	return st;
}

void
rowring_advance(struct rowring *r)
{
	r->tail = r->at;
	__atomic_store_n(&r->shared->tail, r->tail, __ATOMIC_RELEASE);
}

void
rowring_stop(struct rowring *r, bool is_stopped)
{
	__atomic_store_n(&r->shared->stopped, is_stopped, __ATOMIC_RELAXED);
}

enum status
rowring_desert(int memfd, bool is_deserted)
{
	uint32_t word = is_deserted;
	ssize_t n =
		pwrite(memfd, &word, sizeof word, offsetof(struct shared, deserted));

	return n == (ssize_t)sizeof word ? ST_OK : ST_SYSTEM;
}
