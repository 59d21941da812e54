#ifndef CONNECTORS_STORE_IN_H
#define CONNECTORS_STORE_IN_H
/*
 * store_in: the source's own struct, for store*.c only.
 *
 *	IDLE ─> LEASE ─> CALL ─> IDLE      log in
 *	IDLE ─> CALL ─> IDLE               renew
 *	IDLE ─> CALL ─> SUPPLY ─> IDLE     read one secret
 *
 * store_step() finds in IDLE what is to be done next.
 */
#include "connectors/errand.h"
#include "connectors/kv.h"
#include "connectors/lease.h"
#include "connectors/store.h"

enum store_state { STORE_IDLE, STORE_LEASE, STORE_CALL, STORE_SUPPLY };

enum store_what { STORE_LOGIN, STORE_SELF, STORE_RENEW, STORE_READ, STORE_REVOKE };

enum {
	STORE_CALL_MS = 10000,
	STORE_REVOKE_MS = 2000,
	STORE_PAUSE_MS = 1000, /* doubled with each round that fails */
	STORE_PAUSE_MAX_MS = 30000,
	STORE_SPACE = 64 * 1024
};

struct store {
	struct list link; /* all->stores */
	struct connector *all;
	enum store_state state;
	enum store_what what; /* of the call */
	struct arena arena;   /* of key and name */
	struct str key;       /* all that a login depends on */
	struct str name;
	const struct image_store *at; /* in the image in force */
	struct list waits;

	struct kv_token token;     /* text: empty: not logged in */
	uint64_t renew_ms, end_ms; /* of it; 0: never */
	uint64_t full_s;           /* that the login lent it for */
	bool has_token;
	bool is_over; /* nothing is read any more */

	/* of the round */
	size_t item;     /* at->items_n: all are read */
	bool is_again;   /* a token was refused, and there was another login */
	bool is_refused; /* the login was */
	struct store_found found;
	uint64_t round_ms, pause_ms;

	/* while it runs */
	struct loop_timer timer;
	struct lease_call *leasing;
	struct lease lease;
	struct arena scratch;
	struct head head;
	struct uri uri;
	struct cred body, last;
	struct field token_field; /* a view of last */
	struct errand errand;
	uint16_t http;        /* of the call; 0: no answer */
	enum status supplied; /* what the keeper is told */
	struct ask_line *line;
	uint32_t seq;
	bool is_asked;
};

/* store.c */
/* Nothing runs; what is next is found from the loop, so that a run of quick ends is no
 * recursion. */
void store_go_on(struct store *s, uint64_t ms);
void store_tell_waits(struct store *s);

/* store_round.c */
void store_step(struct store *s);
void store_drop_token(struct store *s);
void store_answered(struct store *s, enum status st); /* s->http, s->answer */
const struct image_store_item *store_item(const struct store *s);

void store_supplied(struct store *s, enum status st);

/* store_call.c: what is asked, and of whom */
void store_call(struct store *s, enum store_what what);
void store_call_stop(struct store *s); /* nothing runs any more */

/* store_supply.c.  value NULL: there is none, why is not ST_OK. */
void store_supply(struct store *s, enum status why, const struct kv_value *value);

#endif
