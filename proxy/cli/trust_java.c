#include "proxy/cli/trust_java.h"

#include <openssl/evp.h>
#include <stdio.h>

#include "proxy/base/enc.h"

enum { VERSION = 2, TRUSTED = 2, DER_MAX = 65536, STORE_MAX = 16 * 1024 * 1024 };

/* The next block between the lines of a certificate; false: there is none. */
static bool
next_block(struct str *rest, struct str *ret_text)
{
	const struct str begin = STR("-----BEGIN CERTIFICATE-----"),
			 end = STR("-----END");

	while (rest->n > 0) {
		struct str line = str_cut(rest, '\n');
		if (!str_starts(line, begin))
			continue;
		struct str text = *rest;
		while (rest->n > 0 && !str_starts(*rest, end))
			(void)str_cut(rest, '\n');
		*ret_text = str_head(text, text.n - rest->n);
		return rest->n > 0;
	}
	return false;
}

static bool
decode(struct buf *der, struct str text)
{
	CLEANUP(buf_done) struct buf digits = { 0 };

	buf_init(&digits, (size_t)2 * DER_MAX);
	for (size_t i = 0; i < text.n; i++)
		if (text.p[i] > ' ')
			buf_putc(&digits, text.p[i]);
	return digits.st == ST_OK &&
	       enc_get_base64(der, str_of(digits.p, digits.len)) && der->st == ST_OK &&
	       der->len > 0;
}

void
trust_each_der(struct str pem, void (*fn)(void *ctx, struct str der), void *ctx)
{
	struct str text;

	while (next_block(&pem, &text)) {
		CLEANUP(buf_done) struct buf der = { 0 };
		buf_init(&der, DER_MAX);
		if (decode(&der, text))
			fn(ctx, str_of(der.p, der.len));
	}
}

struct store {
	struct buf entries;
	uint32_t n;
};

static void
put_utf(struct buf *b, struct str s)
{
	buf_put_u16(b, (uint16_t)s.n);
	buf_put(b, s);
}

static void
add(void *ctx, struct str der)
{
	struct store *s = ctx;
	char alias[16];
	int n = snprintf(alias, sizeof alias, "%u", s->n++);

	buf_put_u32(&s->entries, TRUSTED);
	put_utf(&s->entries, str_of(alias, (size_t)n));
	buf_put_u64(&s->entries, 0); /* when it was added: the same file each time */
	put_utf(&s->entries, STR("X.509"));
	buf_put_u32(&s->entries, (uint32_t)der.n);
	buf_put(&s->entries, der);
}

/* Over the password in UTF-16, two words that are in Java's sources, and the store. */
static enum status
seal(struct str store, uint8_t ret_hash[20])
{
	static const char password[] = TRUST_JAVA_PASSWORD;
	struct str salt = STR("Mighty Aphrodite");
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	bool ok = md != NULL && EVP_DigestInit_ex(md, EVP_sha1(), NULL) == 1;

	for (size_t i = 0; ok && i + 1 < sizeof password; i++) {
		const char wide[] = { 0, password[i] };
		ok = EVP_DigestUpdate(md, wide, sizeof wide) == 1;
	}
	ok = ok && EVP_DigestUpdate(md, salt.p, salt.n) == 1 &&
	     EVP_DigestUpdate(md, store.p, store.n) == 1 &&
	     EVP_DigestFinal_ex(md, ret_hash, NULL) == 1;
	EVP_MD_CTX_free(md);
	return ok ? ST_OK : ST_NOMEM;
}

enum status
trust_put_java(struct buf *b, struct str pem)
{
	CLEANUP(buf_done) struct buf whole = { 0 };
	struct store s = { .n = 0 };
	struct str view;
	uint8_t hash[20];

	buf_init(&s.entries, STORE_MAX);
	buf_init(&whole, STORE_MAX);
	trust_each_der(pem, add, &s);
	buf_put_u32(&whole, 0xfeedfeed);
	buf_put_u32(&whole, VERSION);
	buf_put_u32(&whole, s.n);
	enum status st = buf_finish(&s.entries, &view);
	if (st == ST_OK)
		buf_put(&whole, view);
	buf_done(&s.entries);
	if (st == ST_OK)
		st = buf_finish(&whole, &view);
	if (st == ST_OK)
		st = seal(view, hash);
	if (st != ST_OK)
		return st;
	buf_put(b, view);
	buf_put(b, str_of(hash, sizeof hash));
	return b->st;
}
