#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_customMem; Debian's library has it */
#include "connectors/inflate_layer.h"

#include <stdlib.h>

#include "connectors/wipe.h"
#include "proxy/base/num.h"

enum { ZSTD_WINDOW_LOG = 23 }; /* 8 MiB, what RFC 9659 lets senders use */
enum { Z_WINDOW = 15, Z_GZIP = 16, PIECE = 1 << 20 };

/* A decoder's window holds what it has decoded, echoes of secrets perhaps. */

static void *
layer_new(void *ctx, size_t n)
{
	(void)ctx;
	return malloc(n);
}

static void *
z_new(void *ctx, uInt items, uInt n)
{
	(void)ctx;
	return calloc(items, n);
}

static void
layer_free(void *ctx, void *p)
{
	(void)ctx;
	wipe_free(p);
}

/* zlib's structs have pointers without const. */
static unsigned char *
unconst(const void *p)
{
	union {
		const void *in;
		unsigned char *out;
	} u = { .in = p };

	return u.out;
}

static enum status
z_step(struct layer *l, struct str *in, char *space, size_t n, size_t *ret_n)
{
	z_stream *z = &l->u.z;
	int rc;

	z->next_in = unconst(in->p);
	z->avail_in = (uInt)num_min(in->n, PIECE);
	z->next_out = (unsigned char *)space;
	z->avail_out = (uInt)num_min(n, PIECE);
	size_t in_before = z->avail_in, out_before = z->avail_out;
	rc = inflate(z, Z_NO_FLUSH);
	*in = str_skip(*in, in_before - z->avail_in);
	*ret_n = out_before - z->avail_out;
	if (rc == Z_STREAM_END)
		return ST_END;
	if (rc == Z_MEM_ERROR)
		return ST_NOMEM;
	return rc == Z_OK || rc == Z_BUF_ERROR ? ST_OK : ST_UPSTREAM_BAD;
}

static void
z_done(struct layer *l)
{
	(void)inflateEnd(&l->u.z);
}

static enum status
z_begin(struct layer *l, int bits)
{
	if (l->is_made)
		return inflateReset(&l->u.z) == Z_OK ? ST_OK : ST_UPSTREAM_BAD;
	l->u.z = (z_stream){ .zalloc = z_new, .zfree = layer_free };
	if (inflateInit2(&l->u.z, bits) != Z_OK)
		return ST_NOMEM;
	l->is_made = true;
	return ST_OK;
}

static enum status
gzip_begin(struct layer *l)
{
	return z_begin(l, Z_WINDOW + Z_GZIP);
}

static enum status
deflate_begin(struct layer *l)
{
	l->head_n = l->head_read = 0;
	return ST_OK;
}

/* RFC 1950 section 2.2: method 8, and the two octets are a multiple of 31.  A raw
 * stream begins so only with a stored block, whose second octet would then have to be
 * just one of eight: of the two readings the standard's wins. */
static bool
has_zlib_frame(const unsigned char head[2])
{
	return (head[0] & 15) == 8 && num_be16(head) % 31 == 0;
}

static enum status
deflate_step(struct layer *l, struct str *in, char *space, size_t n, size_t *ret_n)
{
	enum status st = ST_OK;

	*ret_n = 0;
	while (l->head_n < 2 && in->n > 0) {
		l->head[l->head_n++] = (unsigned char)in->p[0];
		*in = str_skip(*in, 1);
	}
	if (l->head_n < 2)
		return ST_OK;
	if (!l->is_made)
		st = z_begin(l, has_zlib_frame(l->head) ? Z_WINDOW : -Z_WINDOW);
	if (st == ST_OK && l->head_read < 2) {
		struct str head = str_of(l->head + l->head_read, 2u - l->head_read);

		st = z_step(l, &head, space, n, ret_n);
		l->head_read = (uint8_t)(2 - head.n);
		/* A raw stream may end before its second octet: then that is garbage. */
		if (st == ST_END && head.n > 0)
			return ST_UPSTREAM_BAD;
		if (st != ST_OK || head.n > 0 || *ret_n > 0)
			return st;
	}
	return st == ST_OK ? z_step(l, in, space, n, ret_n) : st;
}

static enum status
br_begin(struct layer *l)
{
	l->u.br = BrotliDecoderCreateInstance(layer_new, layer_free, NULL);
	l->is_made = l->u.br != NULL;
	return l->is_made ? ST_OK : ST_NOMEM;
}

static enum status
br_step(struct layer *l, struct str *in, char *space, size_t n, size_t *ret_n)
{
	const uint8_t *next = (const uint8_t *)in->p;
	uint8_t *out = (uint8_t *)space;
	size_t in_left = in->n, out_left = n;
	BrotliDecoderResult rc = BrotliDecoderDecompressStream(l->u.br, &in_left, &next,
							       &out_left, &out, NULL);

	*in = str_skip(*in, in->n - in_left);
	*ret_n = n - out_left;
	if (rc == BROTLI_DECODER_RESULT_SUCCESS)
		return ST_END;
	return rc == BROTLI_DECODER_RESULT_ERROR ? ST_UPSTREAM_BAD : ST_OK;
}

static void
br_done(struct layer *l)
{
	BrotliDecoderDestroyInstance(l->u.br);
}

static enum status
zstd_begin(struct layer *l)
{
	size_t rc;

	if (l->is_made)
		return ST_OK; /* the next frame is begun by its first octet */
	l->u.zstd = ZSTD_createDStream_advanced(
		(ZSTD_customMem){ layer_new, layer_free, NULL });
	if (l->u.zstd == NULL)
		return ST_NOMEM;
	l->is_made = true;
	rc = ZSTD_DCtx_setParameter(l->u.zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG);
	return ZSTD_isError(rc) ? ST_INTERNAL : ST_OK;
}

/* The check does not see that `to` writes. */
/* NOLINTBEGIN(readability-non-const-parameter) */
static enum status
zstd_step(struct layer *l, struct str *in, char *space, size_t n, size_t *ret_n)
{
	ZSTD_inBuffer from = { in->p, in->n, 0 };
	ZSTD_outBuffer to = { space, n, 0 };
	size_t rc = ZSTD_decompressStream(l->u.zstd, &to, &from);

	*in = str_skip(*in, from.pos);
	*ret_n = to.pos;
	if (ZSTD_isError(rc))
		return ST_UPSTREAM_BAD;
	return rc == 0 ? ST_END : ST_OK;
}
/* NOLINTEND(readability-non-const-parameter) */

static void
zstd_done(struct layer *l)
{
	(void)ZSTD_freeDStream(l->u.zstd);
}

/* x-gzip: RFC 9110 section 8.4.1.3. */
static const struct inflate_codec codecs[] = {
	{ "gzip", true, gzip_begin, z_step, z_done },
	{ "x-gzip", true, gzip_begin, z_step, z_done },
	{ "deflate", false, deflate_begin, deflate_step, z_done },
	{ "br", false, br_begin, br_step, br_done },
	{ "zstd", true, zstd_begin, zstd_step, zstd_done },
};

const struct inflate_codec *
inflate_codec_of(struct str name)
{
	for (size_t i = 0; i < COUNT_OF(codecs); i++)
		if (str_ieq(name, str_from(codecs[i].name)))
			return &codecs[i];
	return NULL;
}

static enum status
enter(struct layer *l)
{
	enum status st;

	if (l->had_one && !l->codec->has_members)
		return ST_UPSTREAM_BAD;
	st = l->codec->begin(l);
	l->is_inside = st == ST_OK;
	return st;
}

/* A member ended, or nothing moves any more. */
static enum status
step(struct layer *l, struct str *in, char *space, size_t n, size_t *ret_n)
{
	size_t before = in->n;
	enum status st = l->codec->step(l, in, space, n, ret_n);

	l->in += before - in->n;
	l->out += *ret_n;
	if (st == ST_END) {
		l->is_inside = false;
		l->had_one = true;
		return ST_OK;
	}
	if (st == ST_OK && before == in->n && *ret_n == 0)
		return ST_AGAIN;
	return st;
}

enum status
layer_run(struct layer *l, struct str *in, char *space, size_t n, size_t *ret_n)
{
	enum status st = ST_OK;
	size_t got = 0;

	while (st == ST_OK && got < n && (l->is_inside || in->n > 0)) {
		size_t m = 0;

		if (!l->is_inside)
			st = enter(l);
		if (st == ST_OK)
			st = step(l, in, space + got, n - got, &m);
		got += m;
	}
	*ret_n = got;
	return st == ST_AGAIN ? ST_OK : st;
}

void
layer_done(struct layer *l)
{
	if (l->is_made)
		l->codec->done(l);
	l->is_made = false;
}
