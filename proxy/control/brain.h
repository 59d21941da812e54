#ifndef PROXY_CONTROL_BRAIN_H
#define PROXY_CONTROL_BRAIN_H
/*
 * brain: who may do what with which sandbox, and on which server it is.
 *
 *	worker -- PLACE --> turn: principal -> whose -> op -> answer
 *	                      |          \
 *	                      |           job: one thing done to one sandbox (pause, resume, ...)
 *	                      v            v
 *	                    calls of a server's lifecycle API (call.h)
 *
 * A turn is one PLACE until its answer; it may wait for calls and jobs, and lives on when
 * nobody waits for its answer any more, until what it began is whole.  A job is anybody's:
 * of one sandbox at most one runs, and who wants another thing waits for its end and looks
 * again.  A ticket is an answer PLACE_ROUTE that wasn't LEFT: its sandbox is busy.
 *
 * What a server says is not trusted: sizes and kinds are checked, ids are opaque.  What the
 * store says is the truth about ownership and state; a server's word changes the state only.
 */
#include <jansson.h>

#include "conf/exec.h"
#include "conf/policy.h"
#include "proxy/base/arena.h"
#include "proxy/base/num.h"
#include "proxy/control/approvals.h"
#include "proxy/control/brain_request.h"
#include "proxy/control/brain_store.h"
#include "proxy/control/call.h"
#include "proxy/control/keys.h"

enum {
	BRAIN_TURNS = 4096, /* open at a time */
	BRAIN_JOBS = 1024,  /* the same */
	BRAIN_TICKETS = 65536,
	BRAIN_USER_TURNS = BRAIN_TURNS / 4, /* of one user */
	BRAIN_USER_TICKETS = BRAIN_TICKETS / 4,
	BRAIN_USER_CALLS = 128, /* of servers: half of what connectors take at once */
	BRAIN_ENDPOINTS = 4096, /* remembered */
	BRAIN_ARENA = 16 << 20,
	BRAIN_SERVERS = 256,
	BRAIN_LOOKS = 8, /* so often a turn waits for jobs of others */
	BRAIN_CALL_MS = 60000,
	BRAIN_CREATE_MS = 600000, /* images are pulled meanwhile */
	BRAIN_ENDPOINT_S = 60,    /* an endpoint is asked for again after this */
	BRAIN_TICK_MS = 1000,
	BRAIN_ROUND_TICKS = 60, /* between looks at what servers have */
	BRAIN_GRACE_TICKS = 3,  /* workers tell meanwhile what they still hold */
	BRAIN_DOWN_MS =
		5000, /* a server that didn't answer is asked last for so long */
};

struct brain;
struct brain_turn;

/* What was done: st ST_OK: the server's answer, whatever http says. */
typedef void (*brain_turn_fn)(struct brain_turn *t);
typedef void (*brain_got_fn)(struct brain_turn *t, const struct call_got *got);

/* What was done, for the operator to see what it costs. */
enum brain_spent {
	BRAIN_SPENT_CREATE,
	BRAIN_SPENT_WARM, /* one that was ready is given away */
	BRAIN_SPENT_PAUSE,
	BRAIN_SPENT_SNAPSHOT,
	BRAIN_SPENT_RESUME,
	BRAIN_SPENT_KILL,
	BRAIN_SPENTS
};

/* What is looked for each second. */
enum brain_idles {
	BRAIN_IDLE_EXPIRED,
	BRAIN_IDLE_SLEEP,
	BRAIN_IDLE_RUNNING, /* unused for so long that it is ended */
	BRAIN_IDLE_PAUSED,
	BRAIN_IDLE_SNAPSHOT,
	BRAIN_IDLES
};

struct brain_total { /* since control began */
	uint64_t n, ms, most_ms;
	uint64_t freed, measured; /* octets of memory, in so many of them */
};

struct brain {
	struct control *control;
	struct brain_store *store;
	struct list turns, tickets;
	size_t turns_n;
	struct map by_number;        /* (line, number) -> struct brain_ticket */
	struct map shares;           /* (tenant, user) -> struct brain_share */
	struct map jobs;             /* our id -> struct brain_job */
	struct map busy;             /* our id -> struct brain_busy */
	struct map endpoints;        /* our id -> struct brain_endpoints */
	struct map down;             /* server -> struct brain_down */
	struct map idle;             /* our id -> struct idle_try */
	size_t idle_at[BRAIN_IDLES]; /* how many are skipped */
	struct map rounds;           /* server -> struct brain_round */
	struct map contexts;         /* our id -> struct brain_contexts */
	struct map binds;            /* our id -> struct brain_bind */
	struct list binds_next;      /* those of them that wait for their turn */
	size_t binds_open;           /* those that don't */
	struct map vaults;           /* our id -> struct brain_vault */
	struct map spans;            /* our id -> struct brain_span */
	struct map warming;          /* name -> struct warming */
	char gateway[33];            /* this exec.db's own label at servers */
	struct brain_total totals[BRAIN_SPENTS];
	struct loop_timer tick;
	uint64_t ticks, round_at; /* all that were; when the next round is due */
};

/* brain.c */

/* On c->store; sets c->brain, c->keys, c->approvals. */
enum status brain_open(struct control *c) MUSTCHECK;
void brain_close(struct brain *b); /* NULL is fine; nobody is answered */
/* PLACE, when there is no brain: refused. */
void brain_unserved(struct control *c, struct ask_line *line, struct ask_msg *m);
/* PLACE, LEFT, KEPT, CONTEXT, HOLD, HOLD_CALL. */
void brain_heard(struct brain *b, struct ask_line *line, struct ask_msg *m);
/* A worker is gone: before its line is freed. */
void brain_line_lost(struct brain *b, const struct ask_line *line);

/* brain_share.c: of one user, while there is anything.  Whose key or token it is counts, not
 * on whose behalf it came: that is the caller's word. */
struct brain_share {
	struct principal who; /* tenant and user count */
	size_t turns, tickets, calls;
};
/* Made if need be; NULL: no memory. */
struct brain_share *brain_share(struct brain *b, const struct principal *who);
/* Freed, if nothing is under way any more. */
void brain_share_drop(struct brain *b, struct brain_share *s);

/* Of an answered PLACE_ROUTE, until LEFT. */
struct brain_ticket {
	struct list link;
	const struct ask_line *line;
	uint64_t number;
	char id[BRAIN_ID + 1];
	struct principal who;
	bool is_kept;              /* KEPT: of a control before us; `who` is empty */
	struct brain_share *share; /* NULL: is_kept */
	uint64_t began_s;
};

const struct brain_ticket *
brain_ticket_find(const struct brain *b, const struct ask_line *line, uint64_t number);
enum status brain_ticket_add(struct brain *b, const struct brain_ticket *t) MUSTCHECK;
/* How many tickets of it are open: none may be paused or expire that has some. */
size_t brain_busy(const struct brain *b, struct str id);
void brain_spend(struct brain *b, enum brain_spent what, uint64_t ms,
		 struct brain_memory freed);
uint64_t brain_now_s(void);
/* What a server says of when a sandbox ends, and no more than is allowed; 0 stays 0. */
uint64_t brain_end_capped(const struct brain *b, uint64_t expires_s);
/* Every sandbox in one of these states (bits), short as rows of walks are. */
typedef void (*brain_each_fn)(struct brain *b, const struct brain_sandbox *box);
void brain_each(struct brain *b, unsigned states, brain_each_fn fn);

/* brain_turn.c */

struct brain_wait { /* for the end of a job; the waiter's own */
	struct list link;
	/* Once, never from inside.  got: NULL when the control ends, or nothing was called. */
	void (*fn)(void *ctx, enum status st, const struct call_got *got);
	void *ctx;
};

struct brain_turn {
	struct list link;
	struct brain *brain;
	struct ask_line *line; /* NULL: nobody waits for the answer */
	uint32_t seq;
	int fd; /* the caller's socket, or -1 */
	struct arena arena;
	struct place_wish wish; /* views into the arena */
	struct keys_wait keys;
	struct principal who;
	struct brain_share *share; /* NULL: who it is isn't known yet */
	struct brain_owner owner;  /* views into who */
	struct brain_sandbox box;  /* what the route names */
	struct call *call;
	brain_got_fn got; /* that call's */
	uint64_t asked_s; /* when it began */
	struct brain_wait wait;
	brain_turn_fn again; /* when the job that it waits for has ended */
	bool is_asking; /* a server, by a call or a job: one of its share's calls */
	unsigned looks;
	struct approval *approval; /* a create that a person is asked about */
	bool was_held;
	struct request request; /* of a create */
	json_t *body;           /* of others with one */
	void *state;            /* of the op, in the arena */
	void (*state_done)(void *state);
	struct str words; /* for the row */
};

/* Of a PLACE; the turn takes over its descriptor.  Else the worker has been answered. */
enum status brain_turn_new(struct brain *b, struct ask_line *line, struct ask_msg *m,
			   struct brain_turn **ret_t) MUSTCHECK;
void brain_turns_close(struct brain *b); /* nobody is answered */

/* Each of these ends the turn: nothing of it may be used afterwards. */
void brain_refuse(struct brain_turn *t, enum status st, struct str words);
void brain_refusef(struct brain_turn *t, enum status st, const char *fmt, ...)
	PRINTF(3, 4);
/* Takes over body (NULL: none). */
void brain_answer(struct brain_turn *t, uint16_t http, json_t *body);
/* 202 of a create: where it is, and how it was come by. */
void brain_answer_made(struct brain_turn *t, json_t *body, struct str location,
		       struct str start);
/* The turn goes on: nobody waits for it any more. */
void brain_answer_early(struct brain_turn *t, uint16_t http, json_t *body);
void brain_answer_text(struct brain_turn *t, uint16_t http, struct str type,
		       struct str text);
/* {code, message} as a server would say it. */
void brain_answer_error(struct brain_turn *t, uint16_t http, const char *code,
			const char *message);
void
brain_answer_missing(struct brain_turn *t); /* 404: not there, or not the caller's */
/* A server's answer: refusals and errors pass as they are, byte for byte where no id of the
 * server's can be in them, else with ours in its place. */
void brain_answer_got(struct brain_turn *t, const struct call_got *got);
/* The same where brain_got_object() found none.  What was to be one and can't be read says
 * nothing to a caller: it may hold what isn't theirs to see. */
void brain_answer_unread(struct brain_turn *t, const struct call_got *got);
void brain_route(struct brain_turn *t, struct place_answer *a);

/* Calls the server of this name; got comes once, perhaps from inside when it can't be
 * called.  body: a JSON text, or empty. */
struct brain_call {
	struct str server;
	const char *method;
	struct str target;
	struct str body;
	uint32_t deadline_ms; /* 0: BRAIN_CALL_MS */
};
void brain_call(struct brain_turn *t, const struct brain_call *w, brain_got_fn got);
/* "/v1/sandboxes/UPSTREAM" and the rest, in the arena; p == NULL: no room. */
struct str brain_target(struct arena *a, struct str upstream, const char *rest);
/* Before a server is asked: ST_LIMIT_USER where its user does so too often at once.  And when
 * it has answered. */
enum status brain_turn_asks(struct brain_turn *t) MUSTCHECK;
void brain_turn_asked(struct brain_turn *t);
/* Is it a 2xx with (unless NULL) a JSON object, which is the caller's then? */
bool brain_got_object(const struct call_got *got, json_t **ret_object);
struct str brain_dump(struct arena *a,
		      const json_t *v); /* compact; p == NULL: no room */

/* brain_place.c */

/* From PLACE's body on: who, may they, whose, what. */
void brain_place(struct brain_turn *t);
/* The row again: t->box.  False: the turn has ended (it is gone, or not theirs). */
bool brain_look(struct brain_turn *t);

/* brain_job.c */

enum brain_act {
	BRAIN_PAUSE,
	BRAIN_RESUME, /* from whatever it sleeps in: paused, or its snapshot */
	BRAIN_FREEZE, /* a snapshot is made, then the sandbox is ended */
	BRAIN_KILL,
	BRAIN_ACTS
};

/* Begins it, or ST_AGAIN: another job of this sandbox runs; then brain_job_wait().
 * ST_CONFLICT: it is in no state for that.  wait may be NULL; fn comes when it is over. */
enum status brain_job(struct brain *b, struct str id, enum brain_act act,
		      struct brain_wait *wait) MUSTCHECK;
/* False: no job of it runs. */
bool brain_job_runs(const struct brain *b, struct str id);
bool brain_job_wait(struct brain *b, struct str id, struct brain_wait *wait);
void brain_unwait(struct brain_wait *w);
void brain_jobs_close(struct brain *b);
/* A turn: when the job that runs on its sandbox is over, `again` is called.  False: none
 * runs. */
bool brain_turn_wait(struct brain_turn *t, brain_turn_fn again);
/* A turn begins this job on t->box, waits for its end and goes on with `again`, or is refused
 * with what the server said. */
void brain_turn_job(struct brain_turn *t, enum brain_act act, brain_turn_fn again);
/* A server's name for who creates: claimed by a turn, so that others wait. */
enum status brain_making_begin(struct brain *b, struct str id) MUSTCHECK;
void brain_making_end(struct brain *b, struct str id);

/* brain_bind.c: its address is made known to all roles, with what it may reach.  ST_END: there
 * is nothing to make known.  wait (may be NULL) as of jobs. */
enum status brain_bind(struct brain *b, struct str id,
		       struct brain_wait *wait) MUSTCHECK;
void brain_unbind(struct brain *b, struct str id); /* it isn't there any more */
void brain_rebind(struct brain *b, struct str id, const json_t *policy);
/* One that is given again: the policy of the latest wish counts, if we enforce it; where
 * its server does, one of another policy is another shape.  policy: as it is kept, or empty:
 * nothing is asked for. */
enum status brain_rebind_given(struct brain *b, const struct brain_sandbox *box,
			       struct str policy) MUSTCHECK;
void brain_bind_all(struct brain *b);  /* each minute */
void brain_bind_soon(struct brain *b); /* within the next second */
void brain_bind_next(struct brain *b); /* each second: those whose turn has come */
void brain_binds_close(struct brain *b);
/* It is gone: nothing of it is remembered but its row. */
void brain_forget(struct brain *b, struct str id);

/* A person is no longer asked whether this may be made. */
void brain_held_drop(struct brain *b, struct str id);

/* brain_dress.c */

struct brain_judged {
	struct risk_answer answer;
	bool is_set;    /* there was something to judge */
	struct str why; /* FILE:LINE: sentence; a view into the turn's arena */
};

/* The body for box->server: what was kept, our id, our authority where it has a ca_file, and
 * the policy where the server is who enforces it.  NULL: no memory, or the server is no more. */
json_t *brain_dress(const struct brain *b, const struct brain_sandbox *box);
/* What is kept of a create: JSON in the arena; p == NULL: no room. */
struct str brain_kept_request(struct brain_turn *t, struct str snapshot,
			      enum exec_tier tier);
/* What a warm one must have in common with it, if these servers are to run it.  In the
 * arena; p == NULL: no memory. */
struct str brain_shape(const struct brain *b, struct arena *a, const struct request *r,
		       const struct str *servers, size_t n);
void brain_judge(struct brain_turn *t, const json_t *policy, struct brain_judged *ret);
struct exec_placing brain_placing(const struct brain_turn *t, const json_t *policy,
				  enum risk_level risk);
/* Each second; brain_idle.c, brain_pool.c */
void brain_idle(struct brain *b);
void brain_idle_start(struct brain *b); /* once, before anybody is served */
void brain_pool(struct brain *b);
void brain_idle_close(struct brain *b);
void brain_pool_close(struct brain *b);
/* Each minute, and at the start. */
void brain_idle_rest(struct brain *b);
void brain_reconcile(struct brain *b); /* brain_reconcile.c */
void brain_rounds_close(struct brain *b);
/* brain_pool.c: a warm one was given away: its labels and its time are set at the server,
 * and another one is made. */
void brain_warm_claimed(struct brain *b, const struct brain_sandbox *box,
			uint64_t timeout_s);

/* brain_renew.c: it is used now, so it lives longer if its time is nearly over.  box: with
 * its request. */
void brain_used(struct brain *b, const struct brain_sandbox *box);
void brain_spans_look(struct brain *b); /* each second: what is used for long */
void brain_span_forget(struct brain *b, struct str id);
void brain_spans_close(struct brain *b);

/* brain_server.c */

/* The servers of a tier, best first: those that answered, then the others; by weight.
 * Names are views into the image. */
size_t brain_servers(struct brain *b, enum exec_tier tier, struct str *ret_names,
		     size_t max);
void brain_server_told(struct brain *b, struct str server, const struct call_got *got);
/* Nothing was begun there: another server may be asked. */
bool brain_is_unasked(const struct call_got *got);
void brain_down_close(struct brain *b);

/* brain_view.c: sandboxes as callers see them */

/* What the server said of it (may be NULL), or else what we know.  NULL: no memory. */
json_t *brain_view(const struct brain_sandbox *box, const json_t *said);
const char *brain_view_state(enum brain_state st); /* "Running" */
/* Takes over what a server says about the state.  True: box->state is another one now. */
bool brain_view_take(struct brain *b, struct brain_sandbox *box, const json_t *said);
/* The same of an answer to a question of that second, unless it may be about what was before:
 * a job runs, or the sandbox was put to sleep, woken or used since.  box: as the store has it
 * now. */
bool brain_view_hear(struct brain *b, struct brain_sandbox *box, const json_t *said,
		     uint64_t asked_s);
/* Labels of ours, the operator's and the caller's, for a server. */
json_t *brain_labels(const struct brain_turn *t, struct str id, enum exec_tier tier);
bool brain_labels_forced(json_t *labels, const struct image *im);
/* Fills pairs for the store from an object of texts; how many. */
size_t brain_pairs(const json_t *labels, struct brain_pair *pairs, size_t max);

/* brain_row.c: does it change anything, so that a row tells of it before? */
bool brain_is_told(const struct brain_turn *t);
/* That row; ST_NO_LEDGER: then nothing may be done. */
enum status brain_row(struct brain_turn *t) MUSTCHECK;
/* Requests to a sandbox need not say again what it was made for. */
struct str brain_said_or_made_for(const char *said, struct str made_for);

/* Operations. */
void brain_create(struct brain_turn *t); /* brain_create.c */
void brain_list(struct brain_turn *t);   /* brain_list.c */
void brain_get(struct brain_turn *t);    /* brain_ops.c, and so on */
void brain_kill(struct brain_turn *t);
void brain_metadata(struct brain_turn *t);
void brain_pause(struct brain_turn *t);
void brain_resume(struct brain_turn *t);
void brain_renew(struct brain_turn *t);
void brain_diagnostics(struct brain_turn *t);
void brain_pass(struct brain_turn *t);     /* pools, templates */
void brain_endpoint(struct brain_turn *t); /* brain_route.c */
void brain_exec(struct brain_turn *t);
void brain_snapshot(struct brain_turn *t); /* brain_snapshot.c */
void brain_snapshots(struct brain_turn *t);
void brain_snapshot_get(struct brain_turn *t);
void brain_snapshot_delete(struct brain_turn *t);
void brain_vault_forget(struct brain *b, struct str id);
void brain_vaults_close(struct brain *b);
void brain_credentials(struct brain_turn *t); /* brain_credential.c */
void brain_egress(struct brain_turn *t);      /* brain_egress.c */

/* brain_context.c: in which language the contexts for code of a sandbox run what they get, as
 * its execd told.  Kept in memory alone: what isn't known is read in every language. */
void brain_context_heard(struct brain *b, const struct ask_line *line,
			 struct ask_msg *m);
struct str brain_context_language(const struct brain *b, struct str sandbox,
				  struct str id);
void brain_contexts_forget(struct brain *b, struct str sandbox);
void brain_contexts_close(struct brain *b);

/* brain_endpoint.c: where a server says that a port of a sandbox answers. */
struct brain_endpoint {
	uint16_t port, at_port; /* asked for; where it is */
	uint64_t since_s;       /* when the server said so */
	struct str host, prefix;
	struct place_field fields[PLACE_FIELDS];
	size_t fields_n;
};
/* What is remembered, or NULL. */
const struct brain_endpoint *brain_endpoint_find(const struct brain *b, struct str id,
						 uint16_t port);
/* The server's answer, checked and remembered.  ST_UPSTREAM_BAD; ST_DENIED: it lies where
 * the configuration lets no endpoint of this server be. */
enum status brain_endpoint_take(struct brain *b, const struct brain_sandbox *box,
				uint16_t port, const json_t *said) MUSTCHECK;
void brain_endpoints_forget(struct brain *b, struct str id);
void brain_endpoints_close(struct brain *b);

#endif
