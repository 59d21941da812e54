/*
 * Tokens of issuers, and the sets of their keys.  The first octet says what the rest is:
 *
 *	S	header, a line's end, claims: signed here.  What counts is what a second
 *		reader, jpick, finds there too: once, and in no other spelling
 *	C	place (two octets), how many octets go, what comes there instead: a good
 *		token so changed counts only when nothing was changed
 *	T	a token: never counts, because nobody signed it
 *	K	a set of keys: blanks around it change nothing, and what it verifies was signed
 */
#include <openssl/pem.h>
#include <string.h>

#include "proxy/base/jpick.h"
#include "proxy/control/jwt.h"
#include "tests/unit/jwt_make.h"
#include "tests/unit/rfc7515.h"

enum { NOW = 1800000000, TOKENS = 3, TEXT_MAX = 16384 };

#define CLAIMS                                                                         \
	"{\"iss\":\"i\",\"aud\":[\"x\",\"a\"],\"sub\":\"alice\",\"exp\":1800000600}"

static const struct jwt_want want = { { "i", 1 }, { "a", 1 }, NOW };

struct world {
	EVP_PKEY *ed;
	struct jwks *keys;
	struct buf tokens[TOKENS];
};

static EVP_PKEY *
key_of(const char *pem)
{
	BIO *bio = BIO_new_mem_buf(pem, -1);
	EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);

	need(key != NULL);
	BIO_free(bio);
	return key;
}

static struct world *
world(void)
{
	static const char *const headers[TOKENS] = {
		"{\"alg\":\"EdDSA\",\"kid\":\"0\"}",
		"{\"alg\":\"RS256\",\"kid\":\"1\"}", "{\"alg\":\"ES256\",\"kid\":\"2\"}"
	};
	static const unsigned char seed[32] = { 7 };
	static struct world w;
	CLEANUP(buf_done) struct buf set = { 0 };
	EVP_PKEY *keys[TOKENS];
	char kid[2] = "0";

	if (w.keys != NULL)
		return &w;
	w.ed = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, sizeof seed);
	keys[0] = w.ed;
	keys[1] = key_of(rfc7515_rsa_key);
	keys[2] = key_of(rfc7515_ec_key);
	buf_init(&set, TEXT_MAX);
	buf_put(&set, STR("{\"keys\":["));
	for (size_t i = 0; i < TOKENS; i++) {
		kid[0] = (char)('0' + i);
		jwt_put_jwk(&set, keys[i], kid);
		buf_put(&set, i + 1 < TOKENS ? STR("},") : STR("}]}"));
		buf_init(&w.tokens[i], TEXT_MAX);
		jwt_put_token(&w.tokens[i], keys[i], str_from(headers[i]), STR(CLAIMS));
	}
	need(jwks_new(str_of(set.p, set.len), &w.keys) == ST_OK);
	EVP_PKEY_free(keys[1]);
	EVP_PKEY_free(keys[2]);
	return &w;
}

static enum status
check(const struct world *w, struct str token)
{
	struct jwt j = { .header = NULL };
	enum status st = jwt_read(token, &j);

	need(st == ST_OK || (st == ST_KEY_INVALID && j.header == NULL));
	if (st != ST_OK)
		return st;
	need(j.input.p == token.p && j.input.n < token.n);
	st = jwt_check(&j, w->keys, &want);
	need(st == ST_OK || st == ST_NOT_FOUND || st == ST_KEY_INVALID);
	need(jwt_check(&j, NULL, &want) != ST_OK);
	jwt_done(&j);
	return st;
}

/* A second reader. */

enum { PICKS = 3, PICK_MAX = 64 };

struct picked {
	char text[PICKS][PICK_MAX];
	size_t n[PICKS];
	bool is_string[PICKS];
};

static bool
pick_all(struct str json, const struct jpick_want *wants, struct picked *ret_p)
{
	struct jpick p;
	struct picked got = { .n = { 0 } };
	enum jpick_found found;
	struct str text;
	int which;

	jpick_init(&p, wants, PICKS);
	do {
		found = jpick_next(&p, &json, &which, &text);
		if (found != JPICK_STRING && found != JPICK_NUMBER)
			continue;
		got.is_string[which] = found == JPICK_STRING;
		if (text.n > PICK_MAX - got.n[which])
			text.n = PICK_MAX - got.n[which];
		memcpy(got.text[which] + got.n[which], text.p, text.n);
		got.n[which] += text.n;
	} while (found == JPICK_STRING || found == JPICK_NUMBER || found == JPICK_KEY);
	*ret_p = got;
	return found == JPICK_OVER;
}

static bool
says(const struct picked *p, int which, struct str text)
{
	return p->is_string[which] && str_eq(str_of(p->text[which], p->n[which]), text);
}

/* Nothing good is said in two ways: only names that differ in case are told apart by one
 * reader and not by the other. */
static void
is_read_alike(struct str header, struct str claims)
{
	static const struct jpick_want in_header[PICKS] = { { -1, "alg" },
							    { -1, "kid" },
							    { -1, "crit" } };
	static const struct jpick_want in_claims[PICKS] = { { -1, "iss" },
							    { -1, "exp" },
							    { -1, "nbf" } };
	struct picked p;

	if (pick_all(header, in_header, &p)) {
		need(says(&p, 0, STR("EdDSA")));
		need(p.n[1] == 0 || says(&p, 1, STR("0")));
		need(p.n[2] == 0);
	}
	if (pick_all(claims, in_claims, &p)) {
		need(says(&p, 0, want.issuer));
		need(!p.is_string[1] && p.n[1] > 0);
		need(!p.is_string[2] || p.n[2] == 0);
	}
}

static void
fuzz_signed(const struct world *w, struct str in)
{
	CLEANUP(buf_done) struct buf token = { 0 };
	struct str claims = in, header = str_cut(&claims, '\n');

	buf_init(&token, TEXT_MAX);
	jwt_put_token(&token, w->ed, header, claims);
	if (token.st == ST_OK && check(w, str_of(token.p, token.len)) == ST_OK)
		is_read_alike(header, claims);
}

/* The others. */

static void
fuzz_changed(const struct world *w, struct str in)
{
	CLEANUP(buf_done) struct buf changed = { 0 };

	if (in.n < 3)
		return;
	const struct buf *good = &w->tokens[(unsigned char)in.p[0] % TOKENS];
	struct str was = str_of(good->p, good->len);
	size_t place = ((size_t)(unsigned char)in.p[0] << 8 | (unsigned char)in.p[1]) /
		       TOKENS % (was.n + 1);
	buf_init(&changed, TEXT_MAX);
	buf_put(&changed, str_head(was, place));
	buf_put(&changed, str_skip(in, 3));
	buf_put(&changed, str_skip(was, place + (unsigned char)in.p[2]));
	struct str now = str_of(changed.p, changed.len);
	need((check(w, now) == ST_OK) == str_eq(now, was));
}

static void
verifies_nothing(const struct jwks *set)
{
	static const char *const algs[] = { "RS256", "ES256", "EdDSA", "none",
					    "HS256" };
	static const char zeros[256];

	for (size_t i = 0; i < COUNT_OF(algs); i++) {
		const struct jwks_signed s = { .alg = str_from(algs[i]),
					       .input = STR("e30.e30"),
					       .signature = { zeros,
							      i == 0 ? 256 : 64 } };
		need(jwks_verify(set, &s) != ST_OK);
	}
}

static void
fuzz_keys(struct str in)
{
	CLEANUP(buf_done) struct buf more = { 0 };
	struct jwks *set = NULL, *same = NULL;
	enum status st = jwks_new(in, &set);

	if (st != ST_OK) {
		need(set == NULL);
		return;
	}
	need(jwks_count(set) > 0 && jwks_count(set) <= JWKS_KEYS_MAX);
	buf_init(&more, TEXT_MAX);
	buf_putc(&more, '\n');
	buf_put(&more, in);
	buf_put(&more, STR(" \t"));
	if (more.st == ST_OK) {
		need(jwks_new(str_of(more.p, more.len), &same) == ST_OK);
		need(jwks_count(same) == jwks_count(set));
		jwks_free(same);
	}
	verifies_nothing(set);
	jwks_free(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct world *w = world();
	struct str in = str_of(data, size);

	if (size == 0)
		return 0;
	switch (data[0]) {
	case 'S':
		fuzz_signed(w, str_skip(in, 1));
		break;
	case 'C':
		fuzz_changed(w, str_skip(in, 1));
		break;
	case 'T':
		need(check(w, str_skip(in, 1)) != ST_OK);
		break;
	case 'K':
		fuzz_keys(str_skip(in, 1));
		break;
	default:
		break;
	}
	return 0;
}
