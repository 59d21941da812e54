#ifndef PROXY_CONTROL_BRAIN_STORE_H
#define PROXY_CONTROL_BRAIN_STORE_H
/*
 * brain_store: which sandbox is whose, in exec.db.  It outlives control, and is durable
 * before anything is done outside because of it; only brain_store_touch() may be forgotten
 * by a power cut.
 *
 *	claim -> PLACING -> RUNNING <-> PAUSED      live: may be given to its owner again
 *	            |  \        \  \        |
 *	            | PENDING    \  SNAPSHOT
 *	            v             v         v
 *	          FAILED  ->   KILLING  ->  GONE    found by nobody any more
 *
 * A warm one has no owner; a claim gives it one, once.  The tables themselves (brain_schema.h)
 * hold that
 *
 *	an owner never changes, and a sandbox of the server that ever had one is never warm
 *	again nor another's, also when its row is gone or has another upstream
 *	there is at most one live sandbox of a (tenant, user, reuse, key, shape, tier)
 *	no two rows are the same sandbox of the same server
 *
 * so what contradicts them is ST_CONFLICT, and nothing is changed.  ST_STORE_DAMAGED: the file
 * isn't ours, or not whole.  ST_SYSTEM: the disk; nothing was changed.
 *
 * Texts that come out are copies in the caller's arena (ST_NOMEM: its cap); those that go in
 * are not kept.  Texts are octets; an absent one is empty.  Times are seconds since 1970,
 * 0: never.  Nothing here looks at a clock.
 */
#include "proxy/base/arena.h"

struct sqlite3;
struct brain_store;

enum {
	BRAIN_ID = 29,
	BRAIN_LIST_MAX = 200,
	BRAIN_FILTER_PAIRS = 16,
	BRAIN_SECRET = 32
};

enum brain_state {
	BRAIN_PLACING, /* the server is asked for it; or a warm one is being made its owner's */
	BRAIN_PENDING, /* held: a person is asked first */
	BRAIN_RUNNING,
	BRAIN_PAUSED,
	BRAIN_SNAPSHOT, /* only its snapshot is there; brain_store_made() ends it */
	BRAIN_KILLING,
	BRAIN_FAILED, /* told to its owner; the server may still have it */
	BRAIN_GONE,
	BRAIN_STATES
};

/* Sets of states: bits. */
#define BRAIN_BIT(state) (1u << (state))
#define BRAIN_LIVE       (BRAIN_BIT(BRAIN_KILLING) - 1)
#define BRAIN_NOT_GONE   (BRAIN_BIT(BRAIN_GONE) - 1)

enum brain_reuse {
	BRAIN_REUSE_NONE,
	BRAIN_REUSE_SESSION,
	BRAIN_REUSE_TASK,
	BRAIN_REUSE_AGENT,
	BRAIN_REUSES
};

/* How a claim got what it got. */
enum brain_claimed {
	BRAIN_EXISTING, /* the owner's live one; any live state, PLACING too: somebody makes it */
	BRAIN_WARM, /* PLACING, with its upstream: bind its policy, then _state(RUNNING) */
	BRAIN_NEW, /* PLACING, without: create it, then _made() or _state(FAILED) */
	BRAIN_REPEATED, /* what the same request got before; any state but FAILED, GONE too */
};

struct brain_owner {
	struct str tenant, user; /* tenant may be empty, user not */
};

struct brain_pair { /* one of metadata */
	struct str key, value;
};

struct brain_memory { /* as it was measured; where nobody could, nothing is claimed */
	bool is_known;
	uint64_t octets;
};

struct brain_cost {
	uint64_t create_ms, pause_ms, resume_ms, snapshot_ms;
	struct brain_memory freed; /* by the last pause or snapshot */
};

struct brain_sandbox {
	struct str id, server, upstream; /* upstream empty: not made yet */
	struct brain_owner owner;        /* user empty: warm */
	struct str agent, session, task, on_behalf_of;
	uint8_t tier; /* enum exec_tier */
	enum brain_state state;
	enum brain_reuse reuse;
	struct str reuse_key, shape;
	uint64_t created_s, expires_s, used_s, paused_s, gone_s;
	struct str snapshot;                             /* the server's id of it */
	struct str request, metadata, policy, endpoints; /* JSON, as they came in */
	struct brain_cost cost;
};

struct brain_sandboxes {
	struct brain_sandbox *of;
	size_t n;
	uint64_t total; /* that match, of which these are a page */
};

/* path: of the file, which is made; its directory is there.  ST_STORE_DAMAGED: it is no
 * database of ours, or not whole.  Nothing is opened by name from then on. */
enum status brain_store_open(const char *path, struct brain_store **ret_s) MUSTCHECK;
void brain_store_close(struct brain_store *s); /* NULL is fine */
/* For the tables of keys and of approvals: not beyond the next call here in the middle of a
 * statement, and no transaction may be left open. */
struct sqlite3 *brain_store_db(struct brain_store *s);

/* A claim. */

struct brain_claim {
	struct brain_owner owner;
	struct str agent, session, task, on_behalf_of;
	struct str server; /* where a new one will be; may be empty until _made() */
	uint8_t tier;      /* enum exec_tier */
	enum brain_reuse reuse;
	struct str reuse_key; /* empty exactly if reuse is NONE */
	struct str shape; /* of all that makes two sandboxes differ, the policy too */
	bool may_be_warm;
	bool is_held; /* a new one is PENDING; never a warm one */
	uint64_t now_s, expires_s;
	struct str request, metadata, policy;
	const struct brain_pair
		*pairs; /* of metadata, distinct keys: what lists filter by */
	size_t pairs_n;
	/* Idempotency-Key, empty: none.  ST_CONFLICT: it came with another request. */
	struct str idempotency;
	uint8_t request_hash[32];
	uint64_t idempotency_expires_s;
};

/* In one transaction: what the same idempotency key got; else the owner's live one of that
 * reuse, shape and tier (one that has expired becomes KILLING instead); else a warm one of
 * shape and tier; else a new row. */
enum status brain_store_claim(struct brain_store *s, const struct brain_claim *c,
			      struct arena *a, struct brain_sandbox *ret,
			      enum brain_claimed *ret_how) MUSTCHECK;

/* Changes of one sandbox.  ST_NOT_FOUND: no such id. */

/* The server has made it: PLACING, PENDING or SNAPSHOT becomes RUNNING, of a warm one too.
 * expires_s 0: as it was.  In another state (it was killed meanwhile) server and upstream
 * are kept, for who has to kill it, and the answer is ST_CONFLICT; so it is when the same
 * sandbox is another row's already, and then nothing is kept. */
enum status brain_store_made(struct brain_store *s, struct str id, struct str server,
			     struct str upstream, uint64_t expires_s) MUSTCHECK;
/* ST_CONFLICT: from where it is one can't get there (a warm one can't be PAUSED).  now_s:
 * for paused_s and gone_s. */
enum status brain_store_state(struct brain_store *s, struct str id, enum brain_state to,
			      uint64_t now_s) MUSTCHECK;
/* RUNNING or PAUSED becomes SNAPSHOT; its old upstream stays until _made(). */
enum status brain_store_frozen(struct brain_store *s, struct str id,
			       struct str snapshot, uint64_t now_s) MUSTCHECK;
enum status brain_store_gone(struct brain_store *s, struct str id,
			     uint64_t now_s) MUSTCHECK; /* from any state */
enum status brain_store_touch(struct brain_store *s, struct str id,
			      uint64_t used_s) MUSTCHECK; /* never back in time */
enum status brain_store_expires(struct brain_store *s, struct str id,
				uint64_t expires_s) MUSTCHECK;
enum status brain_store_metadata(struct brain_store *s, struct str id, struct str json,
				 const struct brain_pair *pairs, size_t n) MUSTCHECK;
enum status brain_store_policy(struct brain_store *s, struct str id,
			       struct str json) MUSTCHECK;
enum status brain_store_endpoints(struct brain_store *s, struct str id,
				  struct str json) MUSTCHECK;
enum status brain_store_cost(struct brain_store *s, struct str id,
			     const struct brain_cost *cost) MUSTCHECK;

/* Finding.  ST_NOT_FOUND. */

/* Only the owner's, and not GONE. */
enum status brain_store_find(struct brain_store *s, const struct brain_owner *o,
			     struct str id, struct arena *a,
			     struct brain_sandbox *ret) MUSTCHECK;
/* Anybody's in any state: for control's own. */
enum status brain_store_find_any(struct brain_store *s, struct str id, struct arena *a,
				 struct brain_sandbox *ret) MUSTCHECK;
/* That isn't GONE; short, as rows of walks are. */
enum status brain_store_by_upstream(struct brain_store *s, struct str server,
				    struct str upstream, struct arena *a,
				    struct brain_sandbox *ret) MUSTCHECK;

struct brain_filter {
	struct brain_owner owner;
	unsigned states; /* bits, 0: BRAIN_NOT_GONE; GONE never comes */
	const struct brain_pair
		*pairs; /* all must be there; at most BRAIN_FILTER_PAIRS */
	size_t pairs_n;
	uint32_t page, page_size; /* page from 1; size 1 to BRAIN_LIST_MAX */
	bool newest_first;        /* by when it was created */
};

enum status brain_store_list(struct brain_store *s, const struct brain_filter *f,
			     struct arena *a, struct brain_sandboxes *ret) MUSTCHECK;
/* The servers that have some of this owner's, at most max. */
enum status brain_store_servers(struct brain_store *s, const struct brain_owner *o,
				struct arena *a, struct str *ret_names, size_t max,
				size_t *ret_n) MUSTCHECK;

/* What follows is for control's own, everybody's and warm ones too, and is short: request,
 * metadata, policy and endpoints stay empty, so that no caller's long texts fill the arena
 * that all others' rows come in.
 *
 * Walks: up to BRAIN_LIST_MAX rows whose state is in the set, by id, after this id (empty:
 * from the first).  The walk goes on with the last id and ends when n is 0; rows may be
 * changed between.  total isn't told. */
enum status brain_store_walk(struct brain_store *s, unsigned states, struct str after,
			     struct arena *a, struct brain_sandboxes *ret) MUSTCHECK;
/* Live ones that have expired, longest ago first, behind that many of them; at most
 * BRAIN_LIST_MAX.  Each must be moved out of the live states, or it comes again. */
enum status brain_store_expired(struct brain_store *s, uint64_t now_s, size_t skip,
				struct arena *a, struct brain_sandboxes *ret) MUSTCHECK;
/* With an owner, in this state, not used since: longest unused first, behind that many of
 * them, at most BRAIN_LIST_MAX.  Busy ones are to be touched. */
enum status brain_store_idle(struct brain_store *s, enum brain_state state,
			     uint64_t used_before_s, size_t skip, struct arena *a,
			     struct brain_sandboxes *ret) MUSTCHECK;

/* Warm ones: rows without owner.  They are made as others are: _warm_add() is PLACING,
 * _made() makes it claimable, and _state(KILLING), _gone() end it. */

struct brain_warm {
	struct str server, shape, request;
	uint8_t tier;              /* enum exec_tier */
	uint64_t now_s, expires_s; /* one that has expired is not given out */
};

enum status brain_store_warm_add(struct brain_store *s, const struct brain_warm *w,
				 struct arena *a, struct str *ret_id) MUSTCHECK;
/* PLACING and RUNNING ones that are not given out. */
enum status brain_store_warm_count(struct brain_store *s, struct str shape,
				   uint8_t tier, uint64_t now_s,
				   uint64_t *ret_n) MUSTCHECK;

/* Snapshots that a caller made. */

struct brain_snapshot {
	struct str id; /* ours: "sn-..." */
	struct str server, upstream, sandbox, name;
	struct brain_owner owner;
	uint8_t tier;           /* enum exec_tier */
	struct str shape, info; /* info: JSON that the brain keeps with it */
	uint64_t created_s;
};

struct brain_snapshots {
	struct brain_snapshot *of;
	size_t n;
	uint64_t total;
};

struct brain_snapshot_filter {
	struct brain_owner owner;
	struct str sandbox, name; /* empty: any */
	uint32_t page, page_size;
	bool newest_first;
};

/* sn->id is not read: *ret_id is the one that it gets. */
enum status brain_store_snapshot_add(struct brain_store *s,
				     const struct brain_snapshot *sn, struct arena *a,
				     struct str *ret_id) MUSTCHECK;
enum status brain_store_snapshot_find(struct brain_store *s,
				      const struct brain_owner *o, struct str id,
				      struct arena *a,
				      struct brain_snapshot *ret) MUSTCHECK;
enum status brain_store_snapshot_info(struct brain_store *s, struct str id,
				      struct str json) MUSTCHECK;
enum status brain_store_snapshot_list(struct brain_store *s,
				      const struct brain_snapshot_filter *f,
				      struct arena *a,
				      struct brain_snapshots *ret) MUSTCHECK;
enum status brain_store_snapshot_gone(struct brain_store *s, struct str id) MUSTCHECK;

/* The rest. */

/* Random octets that are made once for this name: keys of HMACs. */
enum status brain_store_secret(struct brain_store *s, struct str name,
			       uint8_t ret_secret[BRAIN_SECRET]) MUSTCHECK;
/* Forget rows that were GONE before this, and idempotency keys that have expired.  Some at a
 * time: ST_END when there is no more. */
enum status brain_store_forget(struct brain_store *s, uint64_t now_s,
			       uint64_t gone_before_s) MUSTCHECK;

const char *brain_state_word(enum brain_state st); /* "running" */

#endif
