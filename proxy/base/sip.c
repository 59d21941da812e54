#include "proxy/base/sip.h"

struct state {
	uint64_t v[4];
};

static uint64_t
rotate(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static void
rounds(struct state *s, unsigned n)
{
	uint64_t *v = s->v;

	for (; n > 0; n--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] = rotate(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] = rotate(v[2], 32);
	}
}

static void
take(struct state *s, uint64_t word)
{
	s->v[3] ^= word;
	rounds(s, 2);
	s->v[0] ^= word;
}

/* At most 8 octets, the first in the lowest place. */
static uint64_t
word_of(const char *p, size_t n)
{
	uint64_t word = 0;

	for (size_t i = 0; i < n; i++)
		word |= (uint64_t)(unsigned char)p[i] << 8 * i;
	return word;
}

uint64_t
sip_hash(const struct sip_key *key, struct str s)
{
	union {
		const unsigned char *in;
		const char *out;
	} k = { .in = key->bytes };
	uint64_t low = word_of(k.out, 8), high = word_of(k.out + 8, 8);
	struct state st = { { low ^ 0x736f6d6570736575, high ^ 0x646f72616e646f6d,
			      low ^ 0x6c7967656e657261, high ^ 0x7465646279746573 } };
	uint64_t last = (uint64_t)s.n << 56;

	for (; s.n >= 8; s = str_skip(s, 8))
		take(&st, word_of(s.p, 8));
	take(&st, last | word_of(s.p, s.n));
	st.v[2] ^= 0xff;
	rounds(&st, 4);
	return st.v[0] ^ st.v[1] ^ st.v[2] ^ st.v[3];
}
