#ifndef PROXY_WORKER_CONN_H
#define PROXY_WORKER_CONN_H
/*
 * conn: one accepted connection of a sandbox, from accept to close.  It has exactly one
 * owner at a time, which reads and writes its socket:
 *
 *	peek      first bytes of a transparent or pinned connection
 *	proxy_in  CONNECT, SOCKS5 and authentication on a proxy listener
 *	porch     the listener's own TLS, until the handshake is done
 *	veil      what is inside that TLS has a conn of its own, veil.h
 *	tunnel    carried unread
 *	visit     HTTP requests, visit_start()
 *	exec_in   the first bytes on an execution listener
 *
 * conn_take() makes a new owner: the old one's done() runs at once, its memory lives to
 * the end of the loop's turn, and it never touches the conn afterwards.  conn_close()
 * may be called from anywhere, also from a callback of its own descriptor.
 */
#include "filters/exchange.h"
#include "proxy/worker/worker.h"

struct conn;

struct conn_owner {
	const char *name;
	void (*judge)(
		struct conn *c); /* a new policy is in force: close what it forbids */
	void (*drain)(
		struct conn *c); /* nothing new; close when what runs is finished */
	void (*tick)(struct conn *c); /* about once a second; NULL: not wanted */
	/* What it owns ends here; memory by loop_defer(), for its code may be on the
	 * stack.  The sandbox's socket stays open. */
	void (*done)(struct conn *c);
	/* A filter that held has its answer; NULL: this owner never holds. */
	void (*resume)(struct conn *c);
};

/* CONN_EXEC: a caller of OpenSandbox's APIs.  It is no sandbox: limit stays NULL, and each
 * request says for itself who asks. */
enum conn_way { CONN_TRANSPARENT, CONN_PROXY, CONN_CONNECT, CONN_SOCKS, CONN_EXEC };

/* In which words a refusal can be told just now. */
enum conn_form {
	FORM_CLOSE, /* nothing of ours would be understood */
	FORM_HTTP,
	FORM_CONNECT, /* HTTP, and a success is told as 200 */
	FORM_SOCKS,   /* a SOCKS request waits for its reply */
	FORM_TLS,
};

struct conn {
	struct list link; /* worker->conns */
	struct worker *w;
	uint64_t serial;   /* no other of this process has it */
	struct loop_io io; /* the sandbox's socket, io.fd; the owner sets io.fn by
			      conn_take() */
	int who_fd;        /* by which others see whose it is: io.fd, or a duplicate of
			      the socket that this connection came out of */
	const struct conn_owner *owner;
	void *state; /* the owner's */

	struct limit *limit; /* the sandbox's record: id, handle; NULL while unknown */
	uint16_t listener;   /* index in the image, or CONN_ATTACHED */
	uint8_t way;         /* enum conn_way; moves PROXY -> CONNECT | SOCKS */
	uint8_t form;        /* enum conn_form */
	uint32_t by_token;   /* what login_check() compares; 0: known by the socket */
	bool is_pinned; /* dest is the CONNECT or SOCKS target: all names must equal it
			  */
	bool is_own;    /* the gateway's own pages */
	struct limit_peer *peer; /* of CONN_EXEC: what its address has open */
	bool is_counted;         /* limit->open has it */
	bool is_pending;         /* limit->pending has it */
	bool is_lent;  /* another process holds the socket: close() ends nothing */
	bool is_tls;   /* it came to its listener by TLS */
	bool is_reset; /* closed by conn_reset(): what was sent is not all */
	bool is_closed;
	void (*ended)(void *ctx, bool is_reset); /* who carries its bytes hears that */
	void *ended_ctx;

	/*
	 * The destination so far.  Transparent: a literal or, behind a synthetic
	 * address, a name, with the original port; a plain HTTP request combines its
	 * Host with dest.port. Pinned: the target.  A proxy listener before CONNECT:
	 * port 0.
	 */
	struct dest dest;
	uint64_t opened_ms;
};

enum { CONN_ATTACHED = UINT16_MAX };

struct conn_entry { /* as it was accepted */
	const struct sockaddr_storage *peer;
	uint16_t listener;
	enum conn_way way;
};

/* A connection was accepted: takes fd, finds out who it is, and gives it its first
 * owner. */
void conn_begin(struct worker *w, int fd, const struct conn_entry *e);
/*
 * A connection that came out of one: what is behind a CONNECT that was one stream of
 * many.  Takes over fd; pinned to d.  Not ST_OK: there is none, and fd is closed.
 */
enum status conn_branch(struct conn *from, int fd, const struct dest *d,
			struct conn **ret_c) MUSTCHECK;
/*
 * What is inside the TLS of a proxy listener: a connection to that listener that is the
 * sandbox's from now on, and the outer one nobody's.  Takes over fd.  Not ST_OK: there is
 * none, and fd is closed.
 */
enum status conn_inside(struct conn *outer, int fd, struct conn **ret_c) MUSTCHECK;
/* It is this sandbox: runs the chain's connection phase.  Anything but ST_OK: deny. */
enum status conn_identify(struct conn *c, const struct who *who) MUSTCHECK;

/* A new owner: gets the socket's events (fn with ctx c).  What the old one wanted stays
 * wanted, which saves system calls: fn must cope with it or loop_io_want() less. */
void conn_take(struct conn *c, const struct conn_owner *owner, void *state,
	       loop_io_fn fn);
void conn_close(struct conn *c); /* twice is once */
/* Close with RST: nothing is flushed. */
void conn_reset(struct conn *c);

/* A tick for owners that wait for the sandbox to say what it wants: a burst is nobody's
 * fault, but who is silent for a second is counted, and over limits.pending refused. */
void conn_tick_silent(struct conn *c);

/* Who is at the other end by the newest policy; NULL: unknown or gone. */
const struct who *conn_who(const struct conn *c);
/* Is it still the sandbox that it was when it was accepted?  Asked after a reload. */
bool conn_is_same_sandbox(const struct conn *c);
/* Has the peer closed?  Asked where nothing is read, so that nobody else would see it.
 * Nobody half-closes here: whoever closed is gone. */
bool conn_is_gone(const struct conn *c);
/* The listener's name, for rows. */
struct str conn_listener(const struct conn *c);

/* A fresh exchange on this connection, image and who filled in. */
void conn_exchange(struct conn *c, struct exchange *x);
/* Before each phase of a later turn: pointers of the newest policy. */
void conn_refresh(struct conn *c, struct exchange *x);

/* A row about x in the ring; ST_NO_LEDGER: deny.  Sets x->id on the first one. */
enum status conn_row(struct conn *c, struct exchange *x, enum row_kind kind) MUSTCHECK;

/* Bytes carried: counters, byte budget.  ST_LIMIT_BYTES: end the flow. */
enum status conn_count(struct conn *c, uint64_t up, uint64_t down) MUSTCHECK;

#endif
