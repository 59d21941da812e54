#ifndef PROXY_BASE_BUF_H
#define PROXY_BASE_BUF_H
/*
 * buf: bytes being put together, never more than a limit set at birth.
 *
 * Errors stick: after the first failed put every later put does nothing, so
 * a caller writes a whole message and asks once, at buf_finish().
 *
 *	0 .. len   written
 *	len .. cap allocated, free
 *	cap .. max may still be allocated
 *
 * Growing may leave copies behind in freed memory, so a credential never goes
 * into a buf: that is what vault/secret.h is for.
 */
#include "proxy/base/str.h"

struct buf {
	char *p;
	size_t len, cap, max;
	enum status st; /* first failure; ST_OK until then */
};

void buf_init(struct buf *b, size_t max);
void buf_done(struct buf *b);  /* safe on a half-made buf */
void buf_clear(struct buf *b); /* empty again, keeps the memory, forgets the failure */

void buf_put(struct buf *b, struct str s);
void buf_putc(struct buf *b, char c);
void buf_putf(struct buf *b, const char *fmt, ...) PRINTF(2, 3);
void buf_put_dec(struct buf *b, uint64_t v); /* "%llu", for the request path */
/* Big-endian integers, as the network writes them. */
void buf_put_u8(struct buf *b, uint8_t v);
void buf_put_u16(struct buf *b, uint16_t v);
void buf_put_u32(struct buf *b, uint32_t v);
void buf_put_u64(struct buf *b, uint64_t v);
/* For writers of many small parts: n more octets, of which the caller writes the first
 * and adds their number to len.  NULL: failed as any put. */
char *buf_space(struct buf *b, size_t n);

/* JSON string with quotes.  What moves a cursor or a line (controls, line separators, marks
 * of direction) is escaped, and each octet that is no UTF-8 is \u00XX. */
void buf_put_json(struct buf *b, struct str s);

/* Octets of the character that s begins with, if it is UTF-8 that may stand in a line for
 * people: it moves neither cursor nor line.  Else 0. */
size_t buf_shown(struct str s);

/* View what was written; *ret_view is untouched unless ST_OK. */
enum status buf_finish(const struct buf *b, struct str *ret_view) MUSTCHECK;
/* NUL-terminated, owned by the buf; NULL after a failure. */
const char *buf_cstr(struct buf *b);

#endif
