/*
 * A writer that lies: rows are put, then the shared memory is changed at will.  The
 * reader must give what a second, plain reading of the same memory gives, come to an
 * end, and never look outside (the model indexes byte by byte, modulo the size).
 */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proxy/base/crc.h"
#include "proxy/base/num.h"
#include "proxy/io/rowring.h"

enum { DATA_AT = 4096, MAPPED = DATA_AT + ROWRING_SIZE, HEAD_AT = 64, TAIL_AT = 128 };

struct input {
	struct str rest;
};

static uint64_t
take(struct input *in, unsigned bytes)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < bytes && in->rest.n > 0; i++) {
		v = v << 8 | (uint8_t)in->rest.p[0];
		in->rest = str_skip(in->rest, 1);
	}
	return v;
}

static uint64_t
word_at(const char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof v);
	return v;
}

static uint8_t
byte_at(const char *map, uint64_t at)
{
	return (uint8_t)map[DATA_AT + at % ROWRING_SIZE];
}

static uint32_t
u32_at(const char *map, uint64_t at)
{
	uint8_t b[4] = { byte_at(map, at), byte_at(map, at + 1), byte_at(map, at + 2),
			 byte_at(map, at + 3) };
	uint32_t v;

	memcpy(&v, b, sizeof v);
	return v;
}

/* The same, the plain way; moves *at. */
static enum status
model_next(const char *map, uint64_t *at, struct str *ret_row)
{
	static char row[ROW_MAX];
	uint64_t avail = word_at(map + HEAD_AT) - *at;

	if (avail == 0)
		return ST_END;
	uint32_t n = avail >= 8 ? u32_at(map, *at) : 0;
	bool fits = avail <= ROWRING_SIZE && n > 0 && n <= ROW_MAX &&
		    8 + (n + 7) / 8 * 8 <= avail;
	for (uint32_t i = 0; fits && i < n; i++)
		row[i] = (char)byte_at(map, *at + 8 + i);
	*ret_row = str_of(row, n);
	if (!fits || crc_32(*ret_row) != u32_at(map, *at + 4)) {
		*at += avail;
		return ST_BAD_MESSAGE;
	}
	*at += 8 + (n + 7) / 8 * 8;
	return ST_OK;
}

static void
put_rows(struct input *in, int memfd, int bell)
{
	struct rowring *w;
	static const char text[4000];

	if (rowring_open_writer(memfd, bell, &w) != ST_OK)
		return;
	for (uint64_t n = take(in, 1) % 16; n > 0; n--) {
		struct row row = { .kind = ROW_DENY, .id = n };
		row.path = str_of(text, take(in, 2) % sizeof text);
		enum status st = rowring_put(w, &row);
		need(st == ST_OK || st == ST_NO_LEDGER);
	}
	rowring_close(w);
}

static void
lie(struct input *in, char *map)
{
	while (in->rest.n > 4) {
		uint64_t kind = take(in, 1), v = take(in, 4);
		/* Cursors, then bytes near the rows, then anywhere. */
		if (kind < 32)
			memcpy(map + HEAD_AT,
			       &(uint64_t){ word_at(map + HEAD_AT) + v - 512 }, 8);
		else if (kind < 128)
			map[DATA_AT + (word_at(map + TAIL_AT) + (v >> 8) % 8192) %
					      ROWRING_SIZE] = (char)(v & 0xff);
		else
			map[64 + (v >> 8) % (MAPPED - 64)] = (char)(v & 0xff);
	}
}

static void
compare(const char *map, struct rowring *r)
{
	CLEANUP(buf_done) struct buf row = { 0 };
	uint64_t at = word_at(map + TAIL_AT);
	enum status st = ST_OK;
	struct str expected;

	buf_init(&row, ROW_MAX);
	for (unsigned n = 0; st != ST_END; n++) {
		need(n <= ROWRING_SIZE / 16 + 1);
		st = rowring_next(r, &row);
		need(st == model_next(map, &at, &expected));
		need(st != ST_OK || str_eq(str_of(row.p, row.len), expected));
		rowring_advance(r);
		need(word_at(map + TAIL_AT) == at);
	}
}

/* A reader that has seen everything is woken by the next row, if there is room. */
static void
bell_rings(int memfd, int bell)
{
	struct rowring *w;
	static const char text[2000];
	struct row row = { .kind = ROW_REQUEST, .id = 1 };
	uint64_t rings = 0;

	while (read(bell, &rings, sizeof rings) > 0)
		continue;
	if (rowring_open_writer(memfd, bell, &w) != ST_OK)
		return;
	enum status st = rowring_put(w, &row);
	bool has_rung = read(bell, &rings, sizeof rings) == sizeof rings;
	need(has_rung == (st == ST_OK));
	row.path = row.detail = str_of(text, sizeof text);
	while (st == ST_OK)
		st = rowring_put(w, &row);
	need(st == ST_NO_LEDGER);
	rowring_close(w);
}

/* Memory that could shrink under the reader, or that is no ring, is not taken. */
static void
others_are_refused(char *map, int memfd)
{
	struct rowring *r;
	int fd = memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	need(fd >= 0 && rowring_open_reader(fd, &r) == ST_BAD_MESSAGE);
	need(rowring_open_writer(fd, -1, &r) == ST_BAD_MESSAGE);
	(void)close(fd);
	map[0] ^= 1;
	need(rowring_open_reader(memfd, &r) == ST_BAD_MESSAGE);
}

/* A ring whose reader stores nothing, or is gone, lets nothing begin and keeps the rest. */
static void
stopped_rings_let_nothing_out(void)
{
	struct rowring *w, *r;
	struct row start = { .kind = ROW_REQUEST, .id = 1 },
		   end = { .kind = ROW_TUNNEL_END };
	int memfd, bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	need(rowring_create("fuzz", &memfd) == ST_OK);
	need(rowring_open_writer(memfd, bell, &w) == ST_OK);
	need(rowring_open_reader(memfd, &r) == ST_OK);
	for (unsigned how = 0; how < 4; how++) {
		rowring_stop(r, (how & 1) != 0);
		need(rowring_desert(memfd, (how & 2) != 0) == ST_OK);
		need(rowring_is_open(w) == (how == 0));
		need((rowring_put(w, &start) == ST_OK) == (how == 0));
		need(rowring_put(w, &end) == ST_OK);
	}
	rowring_close(w);
	rowring_close(r);
	(void)close(memfd);
	(void)close(bell);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { str_of(data, size) };
	struct rowring *r;
	int memfd, bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	need(bell >= 0 && rowring_create("fuzz", &memfd) == ST_OK);
	char *map = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	need(map != MAP_FAILED);
	uint64_t start = take(&in, 8); /* cursors may lie anywhere on the number line */
	memcpy(map + HEAD_AT, &start, sizeof start);
	memcpy(map + TAIL_AT, &start, sizeof start);
	put_rows(&in, memfd, bell);
	lie(&in, map);
	if (rowring_open_reader(memfd, &r) == ST_OK) {
		compare(map, r);
		if (size % 256 == 15)
			bell_rings(memfd, bell);
		rowring_close(r);
	}
	if (size % 256 == 7)
		stopped_rings_let_nothing_out();
	if (size % 16 == 14)
		others_are_refused(map, memfd);
	(void)munmap(map, MAPPED);
	(void)close(memfd);
	(void)close(bell);
	return 0;
}
