#ifndef TESTS_UNIT_H2_RAW_H
#define TESTS_UNIT_H2_RAW_H
/* HTTP/2 frames by hand, for what no decent peer sends. */
#include "proxy/base/buf.h"

enum raw_type {
	RAW_DATA,
	RAW_HEADERS,
	RAW_PRIORITY,
	RAW_RST_STREAM,
	RAW_SETTINGS,
	RAW_PUSH_PROMISE,
	RAW_PING,
	RAW_GOAWAY,
	RAW_WINDOW_UPDATE,
	RAW_CONTINUATION,
};

enum { RAW_END_STREAM = 1, RAW_ACK = 1, RAW_END_HEADERS = 4, RAW_PADDED = 8 };

static inline void
raw_frame(struct buf *b, uint8_t type, uint8_t flags, uint32_t id, struct str payload)
{
	buf_put_u8(b, (uint8_t)(payload.n >> 16));
	buf_put_u16(b, (uint16_t)payload.n);
	buf_put_u8(b, type);
	buf_put_u8(b, flags);
	buf_put_u32(b, id);
	buf_put(b, payload);
}

static inline void
raw_preface(struct buf *b)
{
	buf_put(b, STR("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
	raw_frame(b, RAW_SETTINGS, 0, 0, STR(""));
}

/* RFC 7541 section 6.2.2, with a new name, both below 127 octets. */
static inline void
raw_field(struct buf *b, struct str name, struct str value)
{
	buf_put_u8(b, 0);
	buf_put_u8(b, (uint8_t)name.n);
	buf_put(b, name);
	buf_put_u8(b, (uint8_t)value.n);
	buf_put(b, value);
}

static inline void
raw_get_fields(struct buf *b)
{
	raw_field(b, STR(":method"), STR("GET"));
	raw_field(b, STR(":scheme"), STR("http"));
	raw_field(b, STR(":authority"), STR("ok.test"));
	raw_field(b, STR(":path"), STR("/"));
}

/* A GET with one more field, or none if it has no name. */
static inline void
raw_get(struct buf *b, uint32_t id, uint8_t flags, struct str name, struct str value)
{
	CLEANUP(buf_done) struct buf f = { 0 };

	buf_init(&f, 4096);
	raw_get_fields(&f);
	if (name.n > 0)
		raw_field(&f, name, value);
	raw_frame(b, RAW_HEADERS, flags | RAW_END_HEADERS, id, str_of(f.p, f.len));
}

#endif
