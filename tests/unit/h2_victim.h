#ifndef TESTS_UNIT_H2_VICTIM_H
#define TESTS_UNIT_H2_VICTIM_H
#include <malloc.h>

#include "tests/unit/h2_pair.h"
#include "tests/unit/h2_raw.h"

/* One server, and what its peer sends by hand. */
struct victim {
	struct h2_peer server;
	struct buf in;
	uint64_t now_ms;
	size_t rounds;    /* that it bore */
	bool said_goaway; /* with this code */
	uint32_t code;
	size_t memory; /* before */
};

static inline void
look_for_goaway(struct victim *v, struct str out)
{
	while (out.n >= 9) {
		size_t n = num_be32(out.p) >> 8;
		if (out.p[3] == RAW_GOAWAY) {
			v->said_goaway = true;
			v->code = num_be32(out.p + 13);
		}
		out = str_skip(out, 9 + n);
	}
}

static inline enum status
feed(struct victim *v)
{
	enum status st = h2_feed(v->server.h, str_of(v->in.p, v->in.len), v->now_ms);
	struct str out;

	buf_clear(&v->in);
	while ((out = h2_pending(v->server.h, v->now_ms)).n > 0) {
		look_for_goaway(v, out);
		h2_sent(v->server.h, out.n);
	}
	return st;
}

static inline void
open_victim(struct victim *v)
{
	*v = (struct victim){ .now_ms = 1000 };
	peer_open(&v->server, H2_SERVER, &pair_limits);
	buf_init(&v->in, 1 << 24);
	raw_preface(&v->in);
	need(feed(v) == ST_OK);
	v->memory = mallinfo2().uordblks;
}

static inline void
close_victim(struct victim *v)
{
	peer_close(&v->server);
	buf_done(&v->in);
}

#endif
