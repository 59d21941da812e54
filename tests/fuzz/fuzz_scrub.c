/*
 * Properties: what comes out is as long as what went in, is the same however that was
 * cut, says no secret in any form (a slow model looks), and is what went in where that
 * said none.
 *
 * Input: secret, 0xff, another secret or nothing, 0xff, sizes of pieces, 0xff, text.  In
 * the text, octets from 0xf0 on stand for a secret in one of its forms.
 */
#include <stdlib.h>
#include <string.h>

#include "connectors/scrub.h"
#include "scrub_model.h"

enum { TEXT_MAX = 1 << 13, SECRETS = 2 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One octet in an escaping form; pick chooses among the spellings. */
static void
put_octet(struct buf *b, unsigned o, unsigned pick, bool is_json)
{
	if (pick % 3 == 1 || o == '\\' || (!is_json && o == '%'))
		buf_putf(b,
			 is_json ? (o < 0x80 ? "\\u%04x" : "%c")
				 : (pick & 4 ? "%%%02x" : "%%%02X"),
			 o);
	else if (is_json && o == '/' && pick % 3 == 2)
		buf_put(b, STR("\\/"));
	else
		buf_putc(b, (char)o);
}

static void
put_base64(struct buf *b, struct str secret, size_t before, bool is_url)
{
	CLEANUP(buf_done) struct buf whole = { 0 };
	size_t at = b->len;

	buf_init(&whole, TEXT_MAX);
	buf_put(&whole, str_head(STR("x:"), before));
	buf_put(&whole, secret);
	buf_put(&whole, STR("yz"));
	enc_put_base64(b, str_of(whole.p, whole.len));
	for (; is_url && at < b->len; at++)
		if (b->p[at] == '+' || b->p[at] == '/')
			b->p[at] = b->p[at] == '+' ? '-' : '_';
}

static void
put_form(struct buf *b, struct str secret, unsigned pick)
{
	switch (pick & 7) {
	case 0:
		buf_put(b, secret);
		break;
	case 1:
	case 2:
		for (size_t i = 0; i < secret.n; i++)
			put_octet(b, (unsigned char)secret.p[i], pick + (unsigned)i * 7,
				  (pick & 7) == 2);
		break;
	case 3:
		enc_put_hex(b, secret);
		break;
	default:
		put_base64(b, secret, pick % 3, pick & 8);
	}
}

/* The part before the next 0xff, at most max octets. */
static struct str
part(struct str *rest, size_t max)
{
	return str_head(str_cut(rest, (char)0xff), max);
}

static void
write_text(struct buf *b, struct str text, const struct needle *needles, size_t n)
{
	for (size_t i = 0; i < text.n; i++) {
		unsigned c = (unsigned char)text.p[i];

		if (c >= 0xf0)
			put_form(b, needles[c % n].text, c >> 1 ^ (unsigned)i);
		else
			buf_putc(b, text.p[i]);
	}
}

/* Feed in pieces; what came out is in b. */
static enum status
run(const struct needle_set *set, struct str text, struct str cuts, struct buf *b)
{
	CLEANUP(scrub_done) struct scrub s = { 0 };
	size_t at = 0, turn = 0;
	enum status st;

	scrub_init(&s, set);
	do {
		size_t n = cuts.n > 0 ? (unsigned char)cuts.p[turn++ % cuts.n] : text.n;
		struct str piece = str_head(str_skip(text, at), n), out;
		char *space = malloc(piece.n + scrub_room(&s) + 1);
		char *own = malloc(piece.n + 1);

		need(space != NULL && own != NULL);
		if (piece.n > 0)
			memcpy(own, piece.p, piece.n);
		at += piece.n;
		st = scrub_feed(&s, str_of(own, piece.n), at == text.n, space, &out);
		if (st == ST_OK)
			buf_put(b, out);
		free(space);
		free(own);
		if (n == 0 && cuts.n <= turn)
			cuts.n = 0;
	} while (st == ST_OK && at < text.n);
	return st;
}

static void
check_in_place(const struct needle_set *set, struct str text, struct str want)
{
	char *own = malloc(text.n + 1);
	uint32_t count = 0;

	need(own != NULL);
	if (text.n > 0)
		memcpy(own, text.p, text.n);
	need(scrub_text(set, own, text.n, &count) == ST_OK);
	need(str_eq(str_of(own, text.n), want));
	free(own);
}

static void
check(const struct needle_set *set, const struct needle *needles, size_t n,
      struct str text, struct str cuts)
{
	CLEANUP(buf_done) struct buf whole = { 0 }, cut = { 0 };
	bool had = false;
	enum status st;

	buf_init(&whole, 2 * TEXT_MAX);
	buf_init(&cut, 2 * TEXT_MAX);
	st = run(set, text, str_of(NULL, 0), &whole);
	need(run(set, text, cuts, &cut) == st);
	if (st != ST_OK)
		return;
	need(whole.len == text.n && cut.len == text.n);
	need(text.n == 0 || memcmp(whole.p, cut.p, text.n) == 0);
	for (size_t i = 0; i < n; i++) {
		need(!model_holds(whole.p, whole.len, needles[i].text));
		had = had || model_holds(text.p, text.n, needles[i].text);
	}
	need(had || text.n == 0 || memcmp(whole.p, text.p, text.n) == 0);
	check_in_place(set, text, str_of(whole.p, whole.len));
}

/* As random as a test can be: another octet of the same kind for each but the first. */
static void
make_mask(struct str secret, char *mask, unsigned salt)
{
	for (size_t i = 0; i < secret.n; i++) {
		char c = secret.p[i];

		if (ascii_is_alpha(c))
			c = (char)((c & 0x60) |
				   (1 + (unsigned)(c + (int)(i * 5 + salt)) % 26));
		else if (ascii_is_digit(c) || (unsigned char)c >= 0x80)
			c = (char)('0' + (unsigned)((int)(i + salt) + (c & 15)) % 10);
		mask[i] = c;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = str_of(data, size), cuts;
	struct needle needles[SECRETS];
	char masks[SECRETS][64];
	CLEANUP(buf_done) struct buf text = { 0 };
	struct needle_set *set;
	size_t n = 0;

	for (size_t i = 0; i < SECRETS; i++) {
		struct str secret = part(&rest, sizeof(masks[0]));

		if (secret.n < NEEDLE_MIN)
			continue;
		make_mask(secret, masks[n], (unsigned)i + 1);
		needles[n] = (struct needle){ secret, str_of(masks[n], secret.n) };
		n++;
	}
	cuts = part(&rest, 64);
	if (n == 0 || rest.n > 300 || needle_set_new(needles, n, &set) != ST_OK)
		return 0;
	buf_init(&text, TEXT_MAX);
	write_text(&text, rest, needles, n);
	if (text.st == ST_OK)
		check(set, needles, n, str_of(text.p, text.len), cuts);
	needle_set_free(set);
	return 0;
}
