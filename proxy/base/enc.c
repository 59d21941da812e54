#include "proxy/base/enc.h"

#include <string.h>

static const char base64[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char base64url[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
static const char crockford[] = "0123456789abcdefghjkmnpqrstvwxyz";

enum { ID_CHARS = 13 };

static int
index_in(const char *alphabet, char c)
{
	const char *at = c == '\0' ? NULL : strchr(alphabet, c);

	return at == NULL ? -1 : (int)(at - alphabet);
}

int
enc_hex_digit(char c)
{
	return index_in("0123456789abcdef", ascii_lower(c));
}

void
enc_put_hex(struct buf *b, struct str bytes)
{
	for (size_t i = 0; i < bytes.n; i++)
		buf_putf(b, "%02x", (unsigned)(unsigned char)bytes.p[i]);
}

bool
enc_get_hex(struct buf *b, struct str text)
{
	if (text.n % 2 != 0)
		return false;
	for (size_t i = 0; i < text.n; i += 2) {
		int hi = enc_hex_digit(text.p[i]), lo = enc_hex_digit(text.p[i + 1]);
		if (hi < 0 || lo < 0)
			return false;
		buf_put_u8(b, (uint8_t)(hi << 4 | lo));
	}
	return b->st == ST_OK;
}

static void
put_sextets(struct buf *b, struct str bytes, const char *alphabet, struct str pad)
{
	for (size_t i = 0; i < bytes.n; i += 3) {
		uint32_t v = 0;
		size_t k = bytes.n - i < 3 ? bytes.n - i : 3;
		for (size_t j = 0; j < 3; j++)
			v = v << 8 | (j < k ? (unsigned char)bytes.p[i + j] : 0u);
		for (size_t j = 0; j <= k; j++)
			buf_putc(b, alphabet[v >> (18 - 6 * j) & 63]);
		buf_put(b, str_skip(pad, k));
	}
}

void
enc_put_base64(struct buf *b, struct str bytes)
{
	put_sextets(b, bytes, base64, STR("==="));
}

void
enc_put_base64url(struct buf *b, struct str bytes)
{
	put_sextets(b, bytes, base64url, STR(""));
}

static bool
get_sextets(struct buf *b, struct str text, const char *alphabet)
{
	uint32_t v = 0;
	unsigned bits = 0;

	if (text.n % 4 == 1)
		return false;
	for (size_t i = 0; i < text.n; i++) {
		int d = index_in(alphabet, text.p[i]);
		if (d < 0)
			return false;
		v = (v << 6 | (uint32_t)d) & 0xffffff;
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			buf_put_u8(b, (uint8_t)(v >> bits & 0xff));
		}
	}
	/* Bits that no octet uses must be zero, or one value has several spellings. */
	return (v & ((1u << bits) - 1)) == 0 && b->st == ST_OK;
}

bool
enc_get_base64(struct buf *b, struct str text)
{
	size_t pads = 0;

	if (text.n % 4 == 0)
		while (pads < 2 && text.n > 0 && text.p[text.n - 1] == '=') {
			text.n--;
			pads++;
		}
	return get_sextets(b, text, base64);
}

bool
enc_get_base64url(struct buf *b, struct str text)
{
	return get_sextets(b, text, base64url);
}

void
enc_put_id(struct buf *b, uint64_t id)
{
	for (int i = ID_CHARS - 1; i >= 0; i--)
		buf_putc(b, crockford[id >> (5 * i) & 31]);
}

bool
enc_get_id(struct str text, uint64_t *ret_id)
{
	uint64_t v = 0;

	if (text.n != ID_CHARS)
		return false;
	for (size_t i = 0; i < text.n; i++) {
		int d = index_in(crockford, ascii_lower(text.p[i]));
		if (d < 0 || (i == 0 && d > 15))
			return false;
		v = v << 5 | (uint64_t)d;
	}
	*ret_id = v;
	return true;
}
