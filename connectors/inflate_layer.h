#ifndef CONNECTORS_INFLATE_LAYER_H
#define CONNECTORS_INFLATE_LAYER_H
/* inflate_layer: one content coding being taken off.  For inflate.c alone. */
#include <brotli/decode.h>
#include <zlib.h>
#include <zstd.h>

#include "proxy/base/str.h"

struct layer;

struct inflate_codec {
	const char *name;
	bool has_members; /* another may follow the end of one */
	enum status (*begin)(struct layer *l);
	/* As layer_run; ST_END: a member has ended. */
	enum status (*step)(struct layer *l, struct str *in, char *space, size_t n,
			    size_t *ret_n);
	void (*done)(struct layer *l);
};

/* NULL: unknown. */
const struct inflate_codec *inflate_codec_of(struct str name);

struct layer {
	const struct inflate_codec *codec;
	union {
		z_stream z;
		BrotliDecoderState *br;
		ZSTD_DStream *zstd;
	} u;
	bool is_made;          /* u is in use */
	bool is_inside;        /* a member has begun and not ended */
	bool had_one;          /* a member has ended */
	unsigned char head[2]; /* deflate: what tells the zlib frame from none */
	uint8_t head_n, head_read;
	uint64_t in, out;
};

/* As far as in and space go. */
enum status layer_run(struct layer *l, struct str *in, char *space, size_t n,
		      size_t *ret_n) MUSTCHECK;
void layer_done(struct layer *l);

#endif
