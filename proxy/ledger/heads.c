#include "proxy/ledger/heads.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proxy/base/clock.h"
#include "proxy/base/enc.h"
#include "proxy/base/num.h"

enum status
heads_open(struct heads *h, const char *dir)
{
	*h = (struct heads){ .dir = strdup(dir) };
	return h->dir == NULL ? ST_NOMEM : ST_OK;
}

void
heads_done(struct heads *h)
{
	free(h->dir);
	h->dir = NULL;
}

static const char *
path_of(const struct heads *h, const char *name, struct buf *b)
{
	buf_putf(b, "%s/%s", h->dir, name);
	return buf_cstr(b);
}

static enum status
ends(struct store *s, struct head *ret_head)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	struct head x = { .is_end = true };
	enum status st = sql_prepare(s->db,
				     "SELECT last_seq, segment, last_link FROM "
				     "segments WHERE last_seq IS NOT NULL"
				     " AND dropped = 0 AND last_seq NOT IN (SELECT seq "
				     "FROM heads WHERE is_end = 1)"
				     " ORDER BY segment LIMIT 1",
				     &q);

	if (st == ST_OK)
		st = sql_next(q);
	if (st != ST_OK)
		return st;
	x.seq = sql_get_u64(q, 0);
	x.segment = sql_get_u64(q, 1);
	if (!chain_from(sql_get_bytes(q, 2), &x.link))
		return ST_BAD_MESSAGE;
	*ret_head = x;
	return ST_OK;
}

enum status
heads_wanted(struct store *s, struct head *ret_head)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = ends(s, ret_head);

	if (st != ST_END)
		return st;
	if (s->committed.seq < s->committed.first)
		return ST_END;
	st = sql_prepare(s->db, "SELECT 1 FROM heads WHERE seq = ?", &q);
	if (st != ST_OK)
		return st;
	sql_u64(q, 1, s->committed.seq);
	st = sql_next(q);
	if (st != ST_END)
		return st == ST_OK ? ST_END : st;
	*ret_head = (struct head){ .seq = s->committed.seq,
				   .segment = s->committed.segment,
				   .link = s->committed.link };
	return ST_OK;
}

static enum status
append(const struct heads *h, const char *name, struct str text)
{
	CLEANUP(buf_done) struct buf path = { 0 };
	struct stat info = { 0 };

	buf_init(&path, 4200);
	const char *p = path_of(h, name, &path);
	if (p == NULL)
		return ST_TOO_BIG;
	int fd = open(p, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd == -1)
		return ST_SYSTEM;
	/* Half a line would look like tampering: after a short write (a full disk) the
	 * file is cut back to where it was. */
	bool is_known = fstat(fd, &info) == 0;
	bool ok = is_known && write(fd, text.p, text.n) == (ssize_t)text.n &&
		  fsync(fd) == 0;
	if (is_known && !ok)
		(void)!ftruncate(fd, info.st_size);
	(void)close(fd);
	return ok ? ST_OK : ST_SYSTEM;
}

/* The old lines are kept once; signed ends of segments are in the table anyway. */
static void
rotate(const struct heads *h)
{
	CLEANUP(buf_done) struct buf from = { 0 };
	CLEANUP(buf_done) struct buf to = { 0 };
	struct stat info;

	buf_init(&from, 4200);
	buf_init(&to, 4200);
	const char *a = path_of(h, "heads.log", &from),
		   *b = path_of(h, "heads.log.1", &to);
	if (a == NULL || b == NULL)
		return;
	if (lstat(a, &info) == 0 && info.st_size > HEADS_LOG_MAX)
		(void)rename(a, b);
}

static enum status
put_line(struct heads *h, const struct head *x, struct str sig)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str line;

	buf_init(&b, 512);
	buf_putf(&b, "%llu %llu ", (unsigned long long)x->seq,
		 (unsigned long long)x->segment);
	enc_put_hex(&b, chain_str(&x->link));
	buf_putc(&b, ' ');
	if (sig.n == 0)
		buf_putc(&b, '-');
	else
		enc_put_hex(&b, sig);
	buf_putc(&b, ' ');
	clock_put(&b, clock_wall_us());
	buf_putc(&b, '\n');
	enum status st = buf_finish(&b, &line);
	if (st != ST_OK)
		return st;
	rotate(h);
	st = append(h, "heads.log", line);
	if (st == ST_OK)
		h->logged = x->seq;
	return st;
}

/* Is it a key of keeper.pub?  The first key ever seen is written there. */
static enum status
key_is_known(const struct heads *h, struct str key)
{
	CLEANUP(buf_done) struct buf path = { 0 };
	CLEANUP(buf_done) struct buf line = { 0 };
	char have[4096];
	struct str want, rest;

	buf_init(&path, 4200);
	buf_init(&line, 128);
	enc_put_hex(&line, key);
	buf_putc(&line, '\n');
	const char *p = path_of(h, "keeper.pub", &path);
	if (p == NULL || buf_finish(&line, &want) != ST_OK)
		return ST_TOO_BIG;
	int fd = open(p, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd == -1)
		return append(h, "keeper.pub", want);
	ssize_t n = read(fd, have, sizeof have);
	(void)close(fd);
	if (n < 0)
		return ST_SYSTEM;
	rest = str_of(have, (size_t)n);
	want = str_head(want, want.n - 1);
	while (rest.n > 0)
		if (str_eq(str_trim(str_cut(&rest, '\n')), want))
			return ST_OK;
	return ST_CONFLICT;
}

static enum status
keep(struct store *s, const struct head *x, struct str sig, struct str key)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL, *old = NULL;
	enum status st = sql_prepare(s->db,
				     "INSERT OR REPLACE INTO heads(seq, segment, "
				     "is_end, link, signature, key)"
				     " VALUES(?, ?, ?, ?, ?, ?)",
				     &q);

	if (st == ST_OK)
		st = sql_prepare(
			s->db, "DELETE FROM heads WHERE is_end = 0 AND seq < ?", &old);
	if (st != ST_OK)
		return st;
	sql_u64(q, 1, x->seq);
	sql_u64(q, 2, x->segment);
	sql_u64(q, 3, x->is_end);
	sql_bytes(q, 4, chain_str(&x->link));
	sql_bytes(q, 5, sig);
	sql_bytes(q, 6, key);
	sql_u64(old, 1, x->seq);
	st = sql_run(q);
	return st == ST_OK ? sql_run(old) : st;
}

enum status
heads_signed(struct heads *h, struct store *s, const struct head *x, struct str sig,
	     struct str key)
{
	if (!chain_is_signed(x->segment, &x->link, sig, key))
		return ST_CONFLICT;
	enum status st = key_is_known(h, key);
	if (st == ST_OK)
		st = store_begin(s);
	if (st != ST_OK)
		return st;
	st = keep(s, x, sig, key);
	if (st != ST_OK) {
		store_rollback(s);
		return st;
	}
	st = store_commit(s);
	return st == ST_OK ? put_line(h, x, sig) : st;
}

enum status
heads_unsigned(struct heads *h, const struct head *x)
{
	return x->seq == h->logged ? ST_OK : put_line(h, x, STR(""));
}

bool
heads_is_cut(const struct heads *h, const struct store *s, uint64_t *ret_seq)
{
	CLEANUP(buf_done) struct buf path = { 0 };
	char tail[1024];
	struct stat info = { 0 };
	struct str rest;
	uint64_t seq = 0;

	buf_init(&path, 4200);
	const char *p = path_of(h, "heads.log", &path);
	int fd = p == NULL ? -1 : open(p, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd == -1)
		return false;
	off_t from = fstat(fd, &info) == 0 && info.st_size > (off_t)sizeof tail
			     ? info.st_size - (off_t)sizeof tail
			     : 0;
	ssize_t n = pread(fd, tail, sizeof tail, from);
	(void)close(fd);
	/* The first of these may be the end of a longer line; the last counts. */
	rest = str_of(tail, n < 0 ? 0 : (size_t)n);
	while (rest.n > 0) {
		struct str line = str_cut(&rest, '\n');
		if (line.n > 0 &&
		    !num_parse_strict(str_cut(&line, ' '), INT64_MAX, &seq))
			seq = 0;
	}
	*ret_seq = seq;
	return seq > s->committed.seq;
}
