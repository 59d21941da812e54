#ifndef PROXY_CONTROL_CONTROL_H
#define PROXY_CONTROL_CONTROL_H
/*
 * control: the process that talks to operators.  One request a connection, HTTP/1.1
 * with JSON, on a Unix socket of super's user or on a loopback port with a token.  It
 * checks the tokens of sandboxes for workers, and asks super for what changes the
 * gateway.
 */
#include <jansson.h>
#include <sys/types.h>

#include "proxy/base/list.h"
#include "proxy/base/map.h"
#include "proxy/http/h1_body.h"
#include "proxy/http/h1_read.h"
#include "proxy/io/listen.h"
#include "proxy/io/role.h"

enum {
	CONTROL_SLOTS = 256, /* a slot's number is one byte */
	CONTROL_CONNS = 64,
	CONTROL_BODY_MAX = 65536,
	CONTROL_CALLS = 128, /* asks of super that are open */
};

struct approvals;
struct control;
struct brain;
struct brain_store;
struct keys;

/* st != ST_OK: no answer.  body is valid during the call. */
typedef void (*super_fn)(void *ctx, enum status st, struct str body);

struct super_call {
	uint32_t seq; /* 0: free */
	super_fn fn;
	void *ctx;
};

struct admin_conn { /* one operator's request */
	struct list link;
	struct control *control;
	struct loop_io io;
	struct loop_timer timer;
	struct arena arena;
	struct h1_read reader;
	struct h1_body body_reader;
	struct head head;
	struct buf body, out;
	int fds[ASK_FDS_MAX]; /* came with the request's bytes */
	size_t fds_n, sent;
	uid_t uid; /* of the peer; -1: over TCP, with the token */
	enum admin_role role;
	char name[132]; /* of admin.roles, or "uid N", or "token" */
	bool has_head, is_asked, is_answered;
	const char *word;     /* the API's row, for the ledger */
	uint64_t wish;        /* the row that says what was asked for; 0: none */
	json_t *request;      /* NULL: no body */
	struct str attach_id; /* in request */
};

struct control {
	struct role_self role;
	struct loop *loop;
	struct loop_io super_io;
	struct listen *admin;
	bool admin_is_unix, is_serving;
	uid_t super_uid;
	uint64_t own_netns;
	struct list conns;
	size_t conns_n;
	struct ask_line *lines[CONTROL_SLOTS];
	bool is_connector[CONTROL_SLOTS];            /* who is at the other end */
	char group[CONTROL_SLOTS][STR_NAME_MAX + 1]; /* of a connector process */
	struct ask_line *dialer, *keeper, *locator;
	struct stats *stats[CONTROL_SLOTS]; /* NULL: no such slot */
	struct super_call calls[CONTROL_CALLS];
	uint32_t last_seq;
	struct ask_rate asked[ASK_COUNT]; /* of super */
	struct map digests;               /* see digest.h */
	struct map pinned;                /* pin.h: our ids of what is pinned */
	struct map published;             /* ca_file.h: paths that are written */
	struct loop_timer publish;
	bool is_publishing;
	uint64_t failures_ms; /* failed logins: start of this second */
	unsigned failures;
	struct brain *brain;         /* brain.h; NULL: no execution request is served */
	struct brain_store *store;   /* NULL: exec.db can't be used */
	struct keys *keys;           /* keys.h; NULL: not opened */
	struct approvals *approvals; /* approvals.h; the same */
};

/* admin.c: connections */
enum status admin_open(struct control *c, int fd) MUSTCHECK;
/* Takes over body.  The connection ends when it is sent. */
void admin_answer(struct admin_conn *a, uint16_t http, json_t *body);
/* With its words, and text about this one case. */
void admin_refuse(struct admin_conn *a, enum status st, struct str text);

/* api.c: what they may ask */
void api_request(struct admin_conn *a); /* complete and permitted */
struct str api_text(const struct admin_conn *a, const char *key); /* "": none */
/* Absent: 0.  False: it is no whole number from 0 to max. */
bool api_number(const struct admin_conn *a, const char *key, uint64_t max,
		uint64_t *ret_v) MUSTCHECK;
/* Each ends the request, and records the end of what an operator did. */
void api_refuse(struct admin_conn *a, enum status st, struct str text);
void api_succeed(struct admin_conn *a, json_t *body);
/* Who is it, and sent by no web page?  ST_OK: a->role and a->name are there; or what to
 * refuse with. */
enum status auth_check(struct admin_conn *a) MUSTCHECK;
/* May somebody of this user connect to the Unix socket at all? */
bool auth_knows_uid(const struct control *c, uid_t uid);

/* probe.c */
/* To the process of the connector's group; index: in the image in force.  NULL: none. */
struct ask_line *connector_line(const struct control *c, uint32_t index);
void api_connector_test(struct admin_conn *a);

/* servers.c */
void api_servers(struct admin_conn *a);

/* enroll_api.c */
void api_register(struct admin_conn *a);
void api_narrow(struct admin_conn *a);
void api_unregister(struct admin_conn *a);

/* placeholder.c */
void api_placeholders(struct admin_conn *a);

/* vault.c */
void api_vault(struct admin_conn *a);

/* revoke.c.  secret "": all.  fn comes once, maybe from inside. */
typedef void (*revoked_fn)(void *ctx);
enum status revoke_begin(struct control *c, struct str tenant, struct str secret,
			 revoked_fn fn, void *ctx) MUSTCHECK;

/* status.c */
json_t *status_json(const struct control *c, struct str health); /* NULL: no memory */
json_t *sandboxes_json(const struct control *c);

/* ask_super.c */
enum status ask_super(struct control *c, enum ask a, struct ask_load load, super_fn fn,
		      void *ctx) MUSTCHECK;
void ask_super_answered(struct control *c, struct ask_msg *m);

/* token.c: WHO */
void token_heard(struct control *c, struct ask_line *line, struct ask_msg *m);
void token_hash(struct str token, uint8_t ret_hash[32]);
bool token_hash_eq(const uint8_t a[32], const uint8_t b[32]);
/* One that was wrong: `why`, or ST_LIMIT_RATE where too many were within this second.  Only
 * failures count, and a right token always passes: nobody is locked out by someone else's
 * guesses. */
enum status token_failed(struct control *c, enum status why) MUSTCHECK;

#endif
