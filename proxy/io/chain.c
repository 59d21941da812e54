#include "proxy/io/chain.h"

#include <openssl/evp.h>
#include <string.h>

#include "proxy/base/enc.h"
#include "proxy/base/num.h"

struct str
chain_str(const struct chain_hash *h)
{
	return str_of(h->b, sizeof h->b);
}

bool
chain_from(struct str bytes, struct chain_hash *ret_h)
{
	if (bytes.n != CHAIN_HASH)
		return false;
	memcpy(ret_h->b, bytes.p, CHAIN_HASH);
	return true;
}

bool
chain_eq(const struct chain_hash *a, const struct chain_hash *b)
{
	return memcmp(a->b, b->b, CHAIN_HASH) == 0;
}

struct chain_hash
chain_digest(struct str payload)
{
	struct chain_hash h = { { 0 } };

	need(EVP_Digest(payload.p, payload.n, h.b, NULL, EVP_sha256(), NULL) == 1);
	return h;
}

static void
put_be64(uint8_t *p, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> (56 - 8 * i));
}

enum { LINK_INPUT = CHAIN_HASH + 8 + CHAIN_HASH };

static struct str
link_input(uint8_t in[LINK_INPUT], const struct chain_hash *prev, uint64_t seq,
	   const struct chain_hash *digest)
{
	memcpy(in, prev->b, CHAIN_HASH);
	put_be64(in + CHAIN_HASH, seq);
	memcpy(in + CHAIN_HASH + 8, digest->b, CHAIN_HASH);
	return str_of(in, LINK_INPUT);
}

struct chain_hash
chain_link(const struct chain_hash *prev, uint64_t seq, const struct chain_hash *digest)
{
	uint8_t in[LINK_INPUT];

	return chain_digest(link_input(in, prev, seq, digest));
}

enum status
chain_hasher_init(struct chain_hasher *h)
{
	h->ctx = EVP_MD_CTX_new();
	if (h->ctx == NULL || EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL) != 1) {
		chain_hasher_done(h);
		return ST_NOMEM;
	}
	return ST_OK;
}

void
chain_hasher_done(struct chain_hasher *h)
{
	EVP_MD_CTX_free(h->ctx);
	h->ctx = NULL;
}

struct chain_hash
chain_hasher_digest(struct chain_hasher *h, struct str payload)
{
	struct chain_hash d = { { 0 } };

	need(EVP_DigestInit_ex(h->ctx, NULL, NULL) == 1);
	need(EVP_DigestUpdate(h->ctx, payload.p, payload.n) == 1);
	need(EVP_DigestFinal_ex(h->ctx, d.b, NULL) == 1);
	return d;
}

struct chain_hash
chain_hasher_link(struct chain_hasher *h, const struct chain_hash *prev, uint64_t seq,
		  const struct chain_hash *digest)
{
	uint8_t in[LINK_INPUT];

	return chain_hasher_digest(h, link_input(in, prev, seq, digest));
}

/* The first words keep a signature from meaning anything in another protocol. */
void
chain_put_statement(struct buf *b, uint64_t segment, const struct chain_hash *head)
{
	buf_put(b, STR("sandgate ledger head 1\n"));
	buf_put_u64(b, segment);
	buf_put(b, chain_str(head));
}

bool
chain_is_signed(uint64_t segment, const struct chain_hash *head, struct str sig,
		struct str key)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str text;
	bool ok = false;

	if (sig.n != CHAIN_SIG || key.n != CHAIN_KEY)
		return false;
	buf_init(&b, 128);
	chain_put_statement(&b, segment, head);
	if (buf_finish(&b, &text) != ST_OK)
		return false;
	EVP_PKEY *pub = EVP_PKEY_new_raw_public_key(
		EVP_PKEY_ED25519, NULL, (const unsigned char *)key.p, key.n);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	if (pub != NULL && ctx != NULL &&
	    EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, pub) == 1)
		ok = EVP_DigestVerify(ctx, (const unsigned char *)sig.p, sig.n,
				      (const unsigned char *)text.p, text.n) == 1;
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(pub);
	return ok;
}

void
chain_fold(struct chain_hash *list, uint64_t seq)
{
	const struct chain_hash nothing = { { 0 } };

	*list = chain_link(list, seq, &nothing);
}

void
chain_put_erasure(struct buf *b, const struct chain_erasure *e)
{
	buf_putf(b, "segment=%llu rows=%llu list=", (unsigned long long)e->segment,
		 (unsigned long long)e->count);
	enc_put_hex(b, chain_str(&e->list));
}

static bool
get_number(struct str *rest, struct str key, uint64_t *ret_v)
{
	struct str word = str_cut(rest, ' ');

	return str_starts(word, key) &&
	       num_parse_strict(str_skip(word, key.n), INT64_MAX, ret_v);
}

bool
chain_get_erasure(struct str text, struct chain_erasure *ret_e)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct chain_erasure e = { 0 };
	struct str rest = text, bytes;

	buf_init(&b, CHAIN_HASH);
	if (!get_number(&rest, STR("segment="), &e.segment) ||
	    !get_number(&rest, STR("rows="), &e.count) ||
	    !str_starts(rest, STR("list=")) || !enc_get_hex(&b, str_skip(rest, 5)) ||
	    buf_finish(&b, &bytes) != ST_OK || !chain_from(bytes, &e.list))
		return false;
	*ret_e = e;
	return true;
}

int64_t
chain_sql_id(uint64_t id)
{
	uint64_t flipped = id ^ ((uint64_t)1 << 63);
	int64_t v = 0;

	memcpy(&v, &flipped, sizeof v);
	return v;
}
