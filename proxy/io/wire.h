#ifndef PROXY_IO_WIRE_H
#define PROXY_IO_WIRE_H
/*
 * wire: reading one message between processes.  A cursor with a sticky failure: get
 * the fields straight through, then wire_end(), which insists that every byte was used.
 * Writing is buf_put_u8/u16/u32/u64 and wire_put_str().
 */
#include "proxy/base/buf.h"

struct wire {
	struct str rest;
	bool is_bad;
};

struct wire wire_from(struct str body);
uint8_t wire_u8(struct wire *w); /* 0 after a failure */
uint16_t wire_u16(struct wire *w);
uint32_t wire_u32(struct wire *w);
uint64_t wire_u64(struct wire *w);
struct str wire_str(struct wire *w);                  /* u16 length, then bytes */
struct str wire_bytes(struct wire *w, size_t n);      /* exactly n */
enum status wire_end(const struct wire *w) MUSTCHECK; /* ST_OK or ST_BAD_MESSAGE */

void wire_put_str(struct buf *b, struct str s); /* over 65,535 bytes: the buf fails */

#endif
