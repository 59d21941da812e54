#ifndef PROXY_FLOW_H2_LINK_H
#define PROXY_FLOW_H2_LINK_H
/*
 * h2_link: one HTTP/2 session on one stream, and the sides of its streams; what
 * front_h2 and leg_h2 have in common, and for them only.
 *
 *	callback ── feed ── events ─┐
 *	                            ├── settle: write, then what is due (room, gone,
 *	deferred ── wake ───────────┘   batch) side by side, until there is nothing left
 *
 * While bytes are fed nothing is written: what turns put then is written by settle.
 * Outside of both, flush() leaves a little that the peer will take to settle at the end
 * of the loop's turn, so that frames of many streams leave in one write; of more it
 * writes what there is, and what that makes due comes by wake.
 *
 * A side belongs to its turn until done() or abort(); then it stays here, without a
 * turn, until its stream is closed.
 */
#include "proxy/base/list.h"
#include "proxy/flow/side.h"
#include "proxy/flow/stream.h"
#include "proxy/http/h2.h"

struct h2_link;
struct h2_side;

struct h2_link_class {
	/* Fronts: a request has come; ST_OK: s has a turn. */
	enum status (*begin)(struct h2_link *l, struct h2_side *s, bool is_connect);
	/* l->open is less by one. */
	void (*left)(struct h2_link *l);
	/* A side has ended, or something came: the last thing in a callback. */
	void (*settled)(struct h2_link *l);
};

struct h2_link {
	const struct h2_link_class *class;
	struct flow *flow;
	struct stream *stream;
	struct loop_io *io;
	struct h2 *h2;
	struct list sides;   /* h2_side.link */
	struct list due;     /* h2_side.due */
	uint32_t open;       /* sides that have a turn */
	size_t later;        /* octets of bodies that flush() left to settle */
	uint64_t blocked_ms; /* since when the peer takes no byte; 0: it does */
	bool is_server, is_https;
	bool is_proxy;   /* of a proxy listener: targets are in absolute form */
	bool is_inside;  /* settle comes in any case */
	bool is_feeding; /* and nothing can be written */
	bool is_woken;
	bool is_paused; /* what the peer says waits in the kernel */
	bool is_eof;    /* the peer says nothing more that we would read */
	bool is_cut;    /* and takes nothing */
	bool is_dead;   /* the owner let go */
};

struct h2_side {
	struct side side;
	struct list link, due;
	struct h2_link *l;
	struct h2_stream *s; /* NULL: not yet, or not any more */
	struct arena arena, trailers_arena;
	struct head head, trailers;
	struct ring ahead; /* body that isn't wanted yet */
	size_t given;      /* and this was given, and not gone on */
	uint64_t went;     /* at the last progress */
	enum status st;    /* of puts: the first failure */
	enum status why;   /* of gone */
	bool is_open;      /* has a turn */
	bool is_gone;      /* which was told so, or will be */
	bool is_whole;     /* the peer's message has come to its end */
	bool is_given;     /* and that was told */
	bool has_trailers;
	bool had_head; /* a leg: anything of a response came */
	bool has_body; /* our head is put, and a body may follow */
	bool is_put;   /* our message is whole */
	bool due_room, due_gone;
};

/* False: no memory.  The io's fn and ctx are set. */
bool h2_link_init(struct h2_link *l, const struct h2_limits *lim) MUSTCHECK;
/* Sides die with it (memory by loop_defer). */
void h2_link_done(struct h2_link *l);

/* What was read before. */
void h2_link_feed(struct h2_link *l, struct str in);
void h2_link_pump(struct h2_link *l);
void h2_link_settle(struct h2_link *l);
/* settle will come: now if a callback is at work, else by loop_defer. */
void h2_link_wake(struct h2_link *l);
/* Nothing will be read any more: turns are told that their peer is gone. */
void h2_link_end(struct h2_link *l);
bool h2_link_is_blocked(const struct h2_link *l);
/* The connection has no more use. */
bool h2_link_is_over(const struct h2_link *l);
/* Streams whose peer takes nothing since so long are reset; true: there was one. */
bool h2_link_tick(struct h2_link *l, uint64_t stalled_ms);

/* h2_side_in.c: what the session tells */
extern const struct h2_events h2_side_events;
void h2_side_give_end(struct h2_side *e);

/* h2_side.c: what turns call, and the life of a side */
extern const struct side_class h2_side_class;
struct h2_side *h2_side_new(struct h2_link *l);
void h2_side_free(struct h2_side *e);
void h2_side_leave(struct h2_side *e); /* by its turn */
void h2_side_touch(struct h2_side *e); /* it will get a batch */
/* To hear that its peer is gone. */
void h2_side_lose(struct h2_side *e, enum status why);
/* The peer takes again what it didn't; measures its progress. */
void h2_side_look(struct h2_side *e, uint64_t now_ms);

static inline struct h2_side *
h2_side_of(struct side *s)
{
	return (struct h2_side *)(void *)((char *)s - offsetof(struct h2_side, side));
}

#endif
