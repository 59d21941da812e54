#ifndef PROXY_IO_ASK_H
#define PROXY_IO_ASK_H
/*
 * ask: one end of a line between two processes: SOCK_SEQPACKET, one message a packet.
 * The table asks.def says who may ask whom what; this checks it on both ends.
 *
 * Two layers.  ask_send/ask_recv are plain calls on a descriptor (super, keeper's poll
 * loop, start-up).  ask_line adds the loop: calls with a deadline and a callback.
 *
 * Packet: magic u16, ask u8, flags u8 (1: answer), sequence u32, body.
 */
#include "proxy/io/loop.h"
#include "proxy/io/wire.h"

#define ROLE(name, exe, max, what) ROLE_##name,
enum role {
#include "proxy/io/roles.def"
	ROLE_COUNT,
	ROLE_ANY
};
#undef ROLE

#define ASK(name, from, to, size, fds, back_fds, deadline, rate) ASK_##name,
enum ask {
#include "proxy/io/asks.def"
	ASK_COUNT
};
#undef ASK

enum { ASK_FDS_MAX = 16, ASK_BODY_MAX = 65536 };

struct ask_msg {
	enum ask ask;
	bool is_answer;
	uint32_t seq;
	struct str body; /* in the buffer given to ask_recv() */
	int fds[ASK_FDS_MAX];
	size_t fds_n;  /* owned by the receiver; ask_msg_done() closes what is left */
	bool lost_fds; /* it carried some, but this process has no room: fds_n is 0 */
};

struct ask_end { /* a descriptor and who sits at its two ends */
	int fd;
	enum role self, peer;
};

struct ask_rule { /* one row of asks.def */
	const char *name;
	enum role from, to;
	uint32_t size, fds, back_fds, deadline_ms, per_second;
};

struct ask_rate {              /* a bucket of asks.def's last column */
	uint64_t at_ms, milli; /* filled up to then; thousandths of an ask left */
};

const char *role_name(enum role r);
const struct ask_rule *ask_rule(enum ask a);
const char *ask_name(enum ask a);
bool ask_is_legal(enum ask a, enum role from, enum role to);
/* Takes one from the bucket, which holds a second's worth (a zeroed one is full).
 * slack: what the answerer allows over the table, so that an asker that keeps to it is
 * never cut off by a difference of clocks.  Always true where the table says 0. */
bool ask_rate_take(struct ask_rate *r, enum ask a, uint32_t slack,
		   uint64_t now_ms) MUSTCHECK;

struct ask_load { /* what an ask or answer carries; all of it the caller's */
	struct str body;
	const int *fds;
	size_t fds_n;
};
#define ASK_LOAD(body, fds, n) ((struct ask_load){ (body), (fds), (n) })

/* The descriptors are duplicated by the kernel; the caller keeps its own. */
enum status ask_send(const struct ask_end *e, enum ask a, bool is_answer, uint32_t seq,
		     struct ask_load load) MUSTCHECK;
/* ST_OK, ST_AGAIN, ST_END (peer gone), ST_BAD_MESSAGE (close the line; descriptors that
 * came with it are closed).
 * space holds ASK_BODY_MAX + 8 bytes and must outlive the message. */
enum status ask_recv(const struct ask_end *e, char *space,
		     struct ask_msg *ret_msg) MUSTCHECK;
/* Take descriptor i out of the message; -1 if it carries none. */
int ask_msg_take(struct ask_msg *m, size_t i);
void ask_msg_done(struct ask_msg *m);

/* With a loop. */
struct ask_line;

/* An ask arrived: answer now or later with ask_answer(line, ask, seq, ...). */
typedef void (*ask_heard_fn)(void *ctx, struct ask_line *line, struct ask_msg *m);
/* The line is dead (peer gone or malformed): every open call has had ST_END first. */
typedef void (*ask_lost_fn)(void *ctx, struct ask_line *line, enum status why);
/* st != ST_OK: no message (deadline: ST_TIMEOUT, line lost: ST_END). */
typedef void (*ask_answer_fn)(void *ctx, enum status st, struct ask_msg *m);

/* Takes over e->fd (made non-blocking). */
enum status ask_line_new(struct loop *l, const struct ask_end *e, ask_heard_fn heard,
			 ask_lost_fn lost, void *ctx,
			 struct ask_line **ret_line) MUSTCHECK;
/* So much may wait for a peer that doesn't read, from now on. */
void ask_line_widen(struct ask_line *line, size_t packets, size_t bytes);
void ask_line_free(struct ask_line *line); /* closes; open calls are dropped silently */

/* ret_seq may be NULL.  The answer never comes before this returns.  ST_AGAIN: too much
 * waits already; ST_LIMIT_RATE: the table allows no more now; ST_END: the line is dead.
 */
enum status ask_call(struct ask_line *line, enum ask a, struct ask_load load,
		     ask_answer_fn fn, void *ctx, uint32_t *ret_seq) MUSTCHECK;
enum status ask_tell(struct ask_line *line, enum ask a, struct str body, const int *fds,
		     size_t fds_n) MUSTCHECK;         /* deadline 0 asks: no answer */
void ask_cancel(struct ask_line *line, uint32_t seq); /* the callback won't come */
enum status ask_answer(struct ask_line *line, enum ask a, uint32_t seq, struct str body,
		       const int *fds, size_t fds_n) MUSTCHECK;

#endif
