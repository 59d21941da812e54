#ifndef PROXY_WORKER_EXEC_PRIVATE_H
#define PROXY_WORKER_EXEC_PRIVATE_H
/* exec_private: struct exec, for exec*.c only. */
#include "proxy/http/exec_route.h"
#include "proxy/io/place.h"
#include "proxy/worker/exec.h"
#include "proxy/worker/exec_judge.h"

enum exec_state {
	EXEC_NEW,
	EXEC_GATHER,
	EXEC_PLACE,
	EXEC_HOLD,
	EXEC_REACH,
	EXEC_FORWARD,
	EXEC_OVER,
};

enum {
	EXEC_REQUEST_ID_MAX = 128,
	EXEC_BODY_MAX = 256 * 1024,         /* of JSON for execd */
	EXEC_BODIES_MAX = 64 * 1024 * 1024, /* of all that are gathered */
	EXEC_SAID_MAX = 64 * 1024,
	EXEC_BEAT_MS = 3000, /* as execd pings */
};

struct exec_watch; /* the tap that this route wants, exec_watch.c */

struct exec {
	struct turn *t;
	enum exec_state state;
	struct exec_route route;
	struct str
		own; /* the listener serves this sandbox's egress API only; or empty */
	struct str authority; /* by which the caller reached us */
	struct str request_id;
	struct str path; /* as it came, for rows */
	bool is_tls;     /* the caller's end */

	struct buf body; /* gathered */
	struct buf said; /* what execd answers of contexts, exec_context.c */
	unsigned looks;
	bool is_listening;
	size_t counted; /* of it, in worker->exec_gathered */
	struct exec_judged judged;

	uint64_t ticket; /* 0: none */
	bool is_ticket_open;
	struct list link;           /* worker->routed, while it is */
	struct ask_line *line;      /* that was asked last, or knows of it */
	uint32_t seq;               /* of what is being asked; 0: nothing */
	struct place_answer placed; /* its texts are the arena's */
	struct str answer; /* the body of PLACE_ANSWER, in a buffer of its own */
	struct buf answer_room;
	struct field *last; /* upstream's tokens */
	struct str approval, approver;
	struct head up;          /* the request as it is sent on */
	struct head trailers[2]; /* its trailers, and those of the answer */
	struct head
		stream; /* of the answer that is begun before the endpoint's is there */

	struct exec_watch *watch;
	struct loop_timer beat; /* while events are told that are not the endpoint's */
	bool is_streaming;      /* the 200 has gone out */
	bool is_routed;         /* `route` says something */
	bool is_noted;          /* a row has what was judged */
	bool is_rowed;          /* ROW_EXEC was written */
	bool is_told;           /* how it ended was written */
};

/* exec_head.c: fields, without looking at the world. */
struct exec_asked { /* what the caller's fields say */
	struct str key, bearer, capability, on_behalf_of, session, task, idempotency,
		reuse, egress;
};
enum status exec_head_read(const struct head *h, struct exec_asked *ret_a) MUSTCHECK;
/* A request id that may be shown and logged. */
bool exec_head_id(const struct head *h, struct str *ret_id) MUSTCHECK;
enum status exec_head_authority(const struct head *h, bool is_https,
				struct str *ret_authority) MUSTCHECK;
/* to: initialised; gets what goes on of a request to that route. */
enum status exec_head_up(struct head *to, const struct head *from,
			 const struct exec_route *r,
			 const struct place_answer *a) MUSTCHECK;
/* Does its answer tell of contexts for code? */
bool exec_tells_contexts(enum exec_op op);
/* Where a redirect of an application leads, as its caller gets there. */
struct exec_location {
	struct str ours;         /* of the caller's path, what stands before the rest */
	struct str prefix;       /* of the endpoint's */
	const struct dest *dest; /* the endpoint */
};
enum status exec_head_location(struct head *h, const struct exec_location *l) MUSTCHECK;
/* What a caller may see of a response is left. */
enum status exec_head_down(struct head *h, const struct place_answer *a,
			   struct str request_id) MUSTCHECK;
/* to: initialised; gets what goes on of the trailers of a request to that route; none does to
 * execd.  r NULL: of a response. */
enum status exec_head_trailers(struct head *to, const struct head *from,
			       const struct exec_route *r,
			       const struct place_answer *a) MUSTCHECK;

/* exec_place.c */
void exec_place(struct exec *e);
void exec_go(struct exec *e); /* judged, allowed: reach the endpoint */
void exec_leave(struct exec *e);

/* exec_hold.c */
void exec_hold(struct exec *e);
/* An answer that has begun as a stream of events ends with this error. */
void exec_stream_error(struct exec *e, enum status why);
/* The endpoint's own answer goes on behind what was told; false: it is none that can. */
bool exec_stream_goes_on(struct exec *e);

/* exec_watch.c */
enum status exec_watch_begin(struct exec *e) MUSTCHECK; /* of the request's body */
void exec_watch_answer(struct exec *e); /* the response's head is there */
enum status exec_watch_put(struct exec *e, bool is_response,
			   struct str piece) MUSTCHECK;
void exec_watch_end(struct exec *e);
/* What was seen, for ROW_EXEC_END. */
void exec_watch_note(struct exec *e, struct exec_note *n);
void exec_watch_free(struct exec *e);

/* exec_context.c */
void exec_context_begin(struct exec *e); /* the response's head is there */
/* Code that was routed: now it is known in which language its context runs it, or that nobody
 * knows. */
enum status exec_context_judge(struct exec *e) MUSTCHECK;
void exec_context_put(struct exec *e, struct str piece);

/* exec_row.c */
enum status exec_row(struct exec *e, enum row_kind kind) MUSTCHECK;
/* n: begun; or NULL. */
enum status exec_row_of(struct exec *e, enum row_kind kind,
			struct exec_note *n) MUSTCHECK;

/* exec_typed.c: lines that are typed into a terminal are judged; those that a rule calls more
 * than low have a row before they go on. */
struct exec_typed *exec_typed_new(struct exec *e); /* the arena's; NULL: no memory */
/* is_tty: there is a terminal, which takes back what keys say. */
void exec_typed_put(struct exec_typed *t, bool is_tty, struct str octets);
void exec_typed_end(struct exec_typed *t); /* nothing more comes */
/* ST_NO_LEDGER: a row found no room, so what was typed must not go on. */
enum status exec_typed_status(const struct exec_typed *t) MUSTCHECK;
void exec_typed_note(const struct exec_typed *t, struct exec_note *n);

/* exec_refuse.c */
struct exec *exec_of(struct turn *t); /* made if need be; NULL: no memory */
/* A whole answer of control's, and the end of the turn. */
void exec_say(struct exec *e);

#endif
