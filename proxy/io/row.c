#include "proxy/io/row.h"

#include <string.h>

#include "proxy/base/clock.h"
#include "proxy/base/enc.h"
#include "proxy/base/jtidy.h"
#include "proxy/base/num.h"
#include "proxy/io/wire.h"

enum {
	/* Rows of the versions before lie in ledgers and are read. */
	BEFORE = 1,  /* without connectors */
	NO_EXEC = 2, /* without execution requests */
	VERSION = 3,
	/* Version, observed, id, time, turn, generation; status, two counts, duration,
	 * secret's version, what was scrubbed. */
	NUMBERS_SIZE = 1 + 1 + 4 * 8 + 4 + 3 * 8 + 2 * 4,
	MARK_MAX = 64,           /* what stands for the part that was cut off */
	ID_EPOCH_S = 1577836800, /* 2020-01-01 */
};

#define ROW_KIND(name, word, what) [ROW_##name] = (word),
static const char *const kind_words[ROW_COUNT] = {
#include "proxy/io/rows.def"
};
#undef ROW_KIND

/* Text fields in the order of both forms.  The caps add up to less than ROW_MAX. */
static const struct field {
	const char *name;
	size_t offset, cap;
} fields[] = {
	{ "sandbox", offsetof(struct row, sandbox), 512 },
	{ "user", offsetof(struct row, user), 512 },
	{ "agent", offsetof(struct row, agent), 512 },
	{ "session", offsetof(struct row, session), 512 },
	{ "listener", offsetof(struct row, listener), 128 },
	{ "host", offsetof(struct row, host), 1024 },
	{ "address", offsetof(struct row, address), 128 },
	{ "country", offsetof(struct row, country), 128 },
	{ "method", offsetof(struct row, method), 256 },
	{ "path", offsetof(struct row, path), ROW_FIELD_MAX },
	{ "rule", offsetof(struct row, rule), 1024 },
	{ "detail", offsetof(struct row, detail), ROW_FIELD_MAX },
	{ "connector", offsetof(struct row, connector), 256 },
	{ "exec", offsetof(struct row, exec), ROW_EXEC_MAX },
};
enum { EXEC = COUNT_OF(fields) - 1, CONNECTOR = EXEC - 1 };
/* How many of them a row of a version has. */
static const size_t field_counts[VERSION + 1] = {
	[BEFORE] = CONNECTOR,
	[NO_EXEC] = EXEC,
	[VERSION] = COUNT_OF(fields),
};

bool
row_is_start(const struct row *r)
{
	return r->kind == ROW_TUNNEL_START || r->kind == ROW_REQUEST ||
	       r->kind == ROW_DNS || r->kind == ROW_EXEC;
}

bool
row_is_exec(const struct row *r)
{
	return r->kind == ROW_EXEC || r->kind == ROW_EXEC_END ||
	       r->kind == ROW_APPROVAL || r->exec.n > 0;
}

bool
row_is_refusal(const struct row *r)
{
	return r->kind == ROW_DENY || (r->kind == ROW_DNS && r->reason != ST_OK);
}

const char *
row_kind_word(enum row_kind k)
{
	need((size_t)k < ROW_COUNT);
	return kind_words[k];
}

bool
row_kind_by_word(struct str word, enum row_kind *ret_k)
{
	for (size_t i = 0; i < ROW_COUNT; i++) {
		if (str_eq(word, str_from(kind_words[i]))) {
			*ret_k = (enum row_kind)i;
			return true;
		}
	}
	return false;
}

static struct str
text_of(const struct row *r, const struct field *f)
{
	return *(const struct str *)(const void *)((const char *)r + f->offset);
}

/* A long field keeps its beginning, its length and a hash, within the cap, so that a
 * capped field put once more comes out the same. */
static struct str
cut(struct buf *b, struct str s, size_t cap)
{
	struct str kept = str_head(s, cap - MARK_MAX);

	buf_put(b, kept);
	buf_putf(b, "…(+%zu bytes, %016llx)", s.n - kept.n,
		 (unsigned long long)num_hash(s, 0));
	return str_of(b->p, b->len);
}

static char *
pen_number(char *p, uint64_t v, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		p[i] = (char)(unsigned char)(v >> (8 * (bytes - 1 - i)) & 0xff);
	return p + bytes;
}

static char *
pen_str(char *p, struct str s)
{
	p = pen_number(p, s.n, 2);
	if (s.n > 0)
		memcpy(p, s.p, s.n);
	return p + s.n;
}

/* As wire_put_str() and its like, but in one go: each turn of a sandbox passes here. */
static void
put_whole(struct buf *b, const struct row *r, const struct str texts[])
{
	/* As words: numbers of kinds and reasons move when a row is added to a table.
	 */
	struct str kind = str_from(row_kind_word(r->kind)),
		   code = str_from(status_code(r->reason));
	size_t n = NUMBERS_SIZE + 2 + kind.n + 2 + code.n;

	for (size_t i = 0; i < COUNT_OF(fields); i++)
		n += 2 + texts[i].n;
	char *p = buf_space(b, n);
	if (p == NULL)
		return;
	p = pen_number(p, VERSION, 1);
	p = pen_str(p, kind);
	p = pen_str(p, code);
	p = pen_number(p, r->observed != 0, 1);
	p = pen_number(p, r->id, 8);
	p = pen_number(p, r->time_us, 8);
	p = pen_number(p, r->turn, 8);
	p = pen_number(p, r->generation, 8);
	for (size_t i = 0; i < COUNT_OF(fields); i++)
		p = pen_str(p, texts[i]);
	p = pen_number(p, r->http_status, 4);
	p = pen_number(p, r->bytes_up, 8);
	p = pen_number(p, r->bytes_down, 8);
	p = pen_number(p, r->duration_ms, 8);
	p = pen_number(p, r->secret_version, 4);
	(void)pen_number(p, r->scrubbed, 4);
	b->len += n;
}

static void
put_cut(struct buf *b, const struct row *r, struct str texts[])
{
	struct buf cuts[COUNT_OF(fields)];

	for (size_t i = 0; i < COUNT_OF(fields); i++) {
		buf_init(&cuts[i], fields[i].cap);
		if (texts[i].n > fields[i].cap)
			texts[i] = i == EXEC ? STR("{\"cut\":true}")
					     : cut(&cuts[i], texts[i], fields[i].cap);
		if (cuts[i].st != ST_OK)
			b->st = b->st == ST_OK ? cuts[i].st : b->st;
	}
	put_whole(b, r, texts);
	for (size_t i = 0; i < COUNT_OF(fields); i++)
		buf_done(&cuts[i]);
}

void
row_put(struct buf *b, const struct row *r)
{
	struct str texts[COUNT_OF(fields)];
	bool is_cut = false;

	for (size_t i = 0; i < COUNT_OF(fields); i++) {
		texts[i] = text_of(r, &fields[i]);
		is_cut |= texts[i].n > fields[i].cap;
	}
	if (is_cut)
		put_cut(b, r, texts);
	else
		put_whole(b, r, texts);
}

static void
get_head(struct wire *w, struct row *r, uint8_t *ret_version)
{
	*ret_version = wire_u8(w);
	if (*ret_version < BEFORE || *ret_version > VERSION) {
		*ret_version = VERSION;
		w->is_bad = true;
	}
	if (!row_kind_by_word(wire_str(w), &r->kind))
		w->is_bad = true;
	struct str code = wire_str(w);
	if (!status_by_code(code.p, code.n, &r->reason))
		w->is_bad = true;
	r->observed = wire_u8(w);
	if (r->observed > 1)
		w->is_bad = true;
	r->id = wire_u64(w);
	r->time_us = wire_u64(w);
	r->turn = wire_u64(w);
	r->generation = wire_u64(w);
}

enum status
row_get(struct str bytes, struct row *ret_r)
{
	struct row r = { 0 };
	struct wire w = wire_from(bytes);

	uint8_t version;

	if (bytes.n > ROW_MAX)
		return ST_BAD_MESSAGE;
	get_head(&w, &r, &version);
	for (size_t i = 0; i < field_counts[version]; i++) {
		struct str s = wire_str(&w);
		if (s.n > fields[i].cap)
			w.is_bad = true;
		*(struct str *)(void *)((char *)&r + fields[i].offset) = s;
	}
	r.http_status = wire_u32(&w);
	r.bytes_up = wire_u64(&w);
	r.bytes_down = wire_u64(&w);
	r.duration_ms = wire_u64(&w);
	if (version != BEFORE) {
		r.secret_version = wire_u32(&w);
		r.scrubbed = wire_u32(&w);
	}
	if (wire_end(&w) != ST_OK)
		return ST_BAD_MESSAGE;
	*ret_r = r;
	return ST_OK;
}

static void
put_number(struct buf *b, const char *name, uint64_t v)
{
	if (v != 0)
		buf_putf(b, ",\"%s\":%llu", name, (unsigned long long)v);
}

static void
put_id(struct buf *b, const char *name, uint64_t id)
{
	buf_putf(b, "\"%s\":\"", name);
	enc_put_id(b, id);
	buf_putc(b, '"');
}

void
row_put_json(struct buf *b, const struct row *r)
{
	buf_putc(b, '{');
	put_id(b, "id", r->id);
	buf_put(b, STR(",\"time\":\""));
	clock_put(b, r->time_us);
	buf_putf(b, "\",\"kind\":\"%s\",\"code\":\"%s\"", row_kind_word(r->kind),
		 status_code(r->reason));
	if (r->observed)
		buf_put(b, STR(",\"observed\":true"));
	if (r->turn != 0 && r->turn != r->id) {
		buf_putc(b, ',');
		put_id(b, "turn", r->turn);
	}
	put_number(b, "generation", r->generation);
	for (size_t i = 0; i < COUNT_OF(fields); i++) {
		struct str s = text_of(r, &fields[i]);
		if (s.n == 0)
			continue;
		buf_putf(b, ",\"%s\":", fields[i].name);
		if (i != EXEC || !jtidy_put_object(b, s))
			buf_put_json(b, s);
	}
	put_number(b, "http_status", r->http_status);
	put_number(b, "bytes_up", r->bytes_up);
	put_number(b, "bytes_down", r->bytes_down);
	put_number(b, "duration_ms", r->duration_ms);
	put_number(b, "secret_version", r->secret_version);
	put_number(b, "scrubbed", r->scrubbed);
	buf_putc(b, '}');
}

uint64_t
row_next_id(struct row_ids *ids)
{
	uint64_t ms = clock_wall_us() / 1000 - (uint64_t)ID_EPOCH_S * 1000;

	if (ms > ids->last_ms) {
		ids->last_ms = ms;
		ids->seq = 0;
	} else if (++ids->seq ==
		   0) { /* 65,536 in a millisecond, or the clock went back */
		ids->last_ms++;
	}
	return (ids->last_ms & 0xffffffffff) << 24 | (uint64_t)ids->slot << 16 |
	       ids->seq;
}
