#include "connectors/cred.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

static const char standard[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url_safe[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void
cred_init(struct cred *c, size_t max)
{
	*c = (struct cred){ .p = malloc(max + 1), .max = max };
	if (c->p == NULL)
		c->st = ST_NOMEM;
}

void
cred_done(struct cred *c)
{
	if (c->p != NULL)
		OPENSSL_cleanse(c->p, c->len);
	free(c->p);
	*c = (struct cred){ .st = ST_NOMEM };
}

void
cred_put(struct cred *c, struct str s)
{
	need(c->p == NULL || c->len <= c->max);
	if (c->st != ST_OK)
		return;
	if (s.n > c->max - c->len) {
		c->st = ST_TOO_BIG;
		return;
	}
	if (s.n > 0)
		memcpy(c->p + c->len, s.p, s.n);
	c->len += s.n;
}

void
cred_putc(struct cred *c, char ch)
{
	cred_put(c, str_of(&ch, 1));
}

void
cred_put_dec(struct cred *c, uint64_t v)
{
	char text[20];
	size_t at = sizeof text;

	do {
		text[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v > 0);
	cred_put(c, str_of(text + at, sizeof text - at));
}

void
cred_put_hex(struct cred *c, struct str bytes)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < bytes.n; i++) {
		cred_putc(c, digits[(unsigned char)bytes.p[i] >> 4]);
		cred_putc(c, digits[bytes.p[i] & 15]);
	}
}

static void
put_base64(struct cred *c, struct str bytes, const char *alphabet, struct str pad)
{
	for (size_t i = 0; i < bytes.n; i += 3) {
		uint32_t v = 0;
		size_t k = bytes.n - i < 3 ? bytes.n - i : 3;
		for (size_t j = 0; j < 3; j++)
			v = v << 8 | (j < k ? (unsigned char)bytes.p[i + j] : 0u);
		for (size_t j = 0; j <= k; j++)
			cred_putc(c, alphabet[v >> (18 - 6 * j) & 63]);
		cred_put(c, str_skip(pad, k));
	}
}

void
cred_put_base64(struct cred *c, struct str bytes)
{
	put_base64(c, bytes, standard, STR("==="));
}

void
cred_put_base64url(struct cred *c, struct str bytes)
{
	put_base64(c, bytes, url_safe, STR(""));
}

bool
cred_is_unreserved(char ch)
{
	return ascii_is_alpha(ch) || ascii_is_digit(ch) || ch == '-' || ch == '.' ||
	       ch == '_' || ch == '~';
}

static void
put_triplet(struct cred *c, char ch)
{
	static const char digits[] = "0123456789ABCDEF";

	cred_putc(c, '%');
	cred_putc(c, digits[(unsigned char)ch >> 4]);
	cred_putc(c, digits[ch & 15]);
}

void
cred_put_percent(struct cred *c, struct str bytes, struct str keep)
{
	for (size_t i = 0; i < bytes.n; i++) {
		if (cred_is_unreserved(bytes.p[i]) || str_has(keep, bytes.p[i]))
			cred_putc(c, bytes.p[i]);
		else
			put_triplet(c, bytes.p[i]);
	}
}

void
cred_put_form(struct cred *c, struct str bytes)
{
	for (size_t i = 0; i < bytes.n; i++) {
		if (bytes.p[i] == ' ')
			cred_putc(c, '+');
		else
			cred_put_percent(c, str_of(bytes.p + i, 1), STR(""));
	}
}

size_t
cred_mark(const struct cred *c)
{
	return c->len;
}

struct str
cred_since(const struct cred *c, size_t mark)
{
	need(mark <= c->len || c->st != ST_OK);
	return c->st == ST_OK ? str_of(c->p + mark, c->len - mark) : STR("");
}

enum status
cred_finish(const struct cred *c, struct str *ret_view)
{
	if (c->st == ST_OK)
		*ret_view = str_of(c->p, c->len);
	return c->st;
}
