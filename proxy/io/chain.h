#ifndef PROXY_IO_CHAIN_H
#define PROXY_IO_CHAIN_H
/*
 * chain: what makes the ledger tamper-evident; the same code for who writes it and who
 * verifies it.
 *
 *	digest(n) = SHA-256(payload of row n)
 *	link(n)   = SHA-256(link(n-1) || n as u64 || digest(n)),  link(0) = 32 zeros
 *
 * Links cover digests, not payloads: a payload may age out or be erased and the chain
 * still verifies.  The keeper signs links (Ed25519), so whoever holds the file can't
 * make a chain of his own.
 */
#include "proxy/base/buf.h"

enum { CHAIN_HASH = 32, CHAIN_SIG = 64, CHAIN_KEY = 32 };

struct chain_hash {
	uint8_t b[CHAIN_HASH];
};

struct str chain_str(const struct chain_hash *h); /* a view of its bytes */
bool chain_from(struct str bytes, struct chain_hash *ret_h) MUSTCHECK; /* exactly 32 */
bool chain_eq(const struct chain_hash *a, const struct chain_hash *b);

struct chain_hash chain_digest(struct str payload);
struct chain_hash chain_link(const struct chain_hash *prev, uint64_t seq,
			     const struct chain_hash *digest);

/* For many of them: OpenSSL looks the algorithm up once, not under locks for each. */
struct evp_md_ctx_st;
struct chain_hasher {
	struct evp_md_ctx_st *ctx;
};
enum status chain_hasher_init(struct chain_hasher *h) MUSTCHECK;
void chain_hasher_done(struct chain_hasher *h);
struct chain_hash chain_hasher_digest(struct chain_hasher *h, struct str payload);
struct chain_hash chain_hasher_link(struct chain_hasher *h,
				    const struct chain_hash *prev, uint64_t seq,
				    const struct chain_hash *digest);

/* The bytes that the keeper signs for a head of this segment (ASK_SIGN). */
void chain_put_statement(struct buf *b, uint64_t segment,
			 const struct chain_hash *head);
bool chain_is_signed(uint64_t segment, const struct chain_hash *head, struct str sig,
		     struct str key);

/*
 * Which rows of a segment had their payload erased: told in the detail of a ROW_ERASED,
 * so that a payload can't be taken out without a row that says so.  list folds the
 * numbers of the rows, ascending, by chain_fold() from 32 zeros.  count 0: the whole
 * segment was dropped (ROW_DROPPED).
 */
struct chain_erasure {
	uint64_t segment, count;
	struct chain_hash list;
};
void chain_fold(struct chain_hash *list, uint64_t seq);
void chain_put_erasure(struct buf *b, const struct chain_erasure *e);
bool chain_get_erasure(struct str text, struct chain_erasure *ret_e) MUSTCHECK;

/* Ids are unsigned, sqlite's integers are not: flipping the top bit keeps the order. */
int64_t chain_sql_id(uint64_t id);

#endif
