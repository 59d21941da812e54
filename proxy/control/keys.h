#ifndef PROXY_CONTROL_KEYS_H
#define PROXY_CONTROL_KEYS_H
/*
 * keys: who asks on an execution listener.
 *
 *	OPEN-SANDBOX-API-KEY: sgk_...       a key of ours: table `keys` of exec.db
 *	Authorization: Bearer HEADER.CLAIMS.SIGNATURE   a token of an issuer: jwt.h
 *	X-Sandgate-Capability: ...          what we gave out with an endpoint
 *
 * A key counts before anything else that came with it.  A capability counts before a
 * bearer: that one may be the login of an application in the sandbox.
 *
 * Of a key only SHA-256 is kept: it is 256 random bits, so nothing slower is needed.  A
 * revoked or expired key ends with the next request, and with it the capabilities that
 * were made for it.  Nobody is locked out by someone else's guesses: only failures are
 * counted, and a right key always passes.
 */
#include "proxy/base/list.h"
#include "proxy/control/control.h"
#include "proxy/http/exec_route.h"
#include "proxy/io/place.h"

struct brain_store;
struct keys; /* control's only one */

enum {
	PRINCIPAL_NAME_MAX = 128,
	PRINCIPAL_OWNER_MAX = 2 * PRINCIPAL_NAME_MAX + 1,
	CAPABILITY_KEY = 32,
	CAPABILITY_MAX = 2048, /* as text */
};

/* The numbers are those of enum exec_scope, so that an image's can be taken over. */
enum scope {
	SCOPE_RUN = 1 << 0,    /* sandboxes, commands, code, terminals, applications */
	SCOPE_READ = 1 << 1,   /* what is there, how it is, where it answers */
	SCOPE_FILES = 1 << 2,  /* files and directories */
	SCOPE_EGRESS = 1 << 3, /* narrow what a sandbox reaches */
	SCOPE_ALL = (1 << 4) - 1,
};

/*
 * All texts end with NUL, own their bytes, and are letters, digits and `-_.@+:|=~`, or
 * empty; a principal is copied by assignment.
 *
 * What one owns belongs to tenant AND owner: a user who asks for himself is another
 * owner than the same name on whose behalf someone else asks.
 */
struct principal {
	char tenant[PRINCIPAL_NAME_MAX + 1]; /* empty: the one that has no name */
	char user[PRINCIPAL_NAME_MAX + 1];   /* never empty: whose key or token it is */
	char agent[PRINCIPAL_NAME_MAX + 1];
	char key_id[PRINCIPAL_NAME_MAX + 1]; /* "key-...", or "jwt-..." of an issuer */
	char on_behalf_of[PRINCIPAL_NAME_MAX + 1];
	char session[PRINCIPAL_NAME_MAX +
		     1]; /* the caller's own naming, within owner */
	char task[PRINCIPAL_NAME_MAX + 1];
	char owner[PRINCIPAL_OWNER_MAX + 1]; /* user, or user/on_behalf_of */
	unsigned scopes;                     /* of enum scope */
	bool may_delegate;
};

bool principal_is_name(struct str s); /* of these octets, and not too long or empty */
/* ST_KEY_SCOPE, unless this route is within the scopes. */
enum status principal_may(const struct principal *p, enum exec_op op) MUSTCHECK;
unsigned scope_of_op(enum exec_op op); /* 0: anybody who is known */
/* Words with commas or spaces between; false: an unknown one, or none. */
bool scopes_read(struct str words, unsigned *ret_scopes) MUSTCHECK;
void scopes_put(struct buf *b, unsigned scopes); /* "read,run" */

/* The store outlives it.  Who opens sets c->keys, which the admin API asks. */
enum status keys_open(struct control *c, struct brain_store *store,
		      struct keys **ret_k) MUSTCHECK;
void keys_close(struct keys *k); /* nobody who waits is told; NULL is fine */

/* Somebody waits until the keys of an issuer were fetched.  The caller's, zeroed but for
 * fn and ctx. */
struct keys_wait {
	struct list link;
	void (*fn)(
		void *ctx); /* once, never from inside: ask again, with the same wish */
	void *ctx;
	bool is_waiting;
};
void keys_unwait(struct keys_wait *w); /* fn won't come; may be called at any time */

/*
 * Who this is.  ST_AGAIN: wait->fn comes.  ST_KEY_MISSING, ST_KEY_INVALID: 401.
 * ST_MAY_NOT_DELEGATE: 403.  ST_BAD_PRINCIPAL: session, task or on-behalf-of is no name,
 * or the token's user.  ST_ISSUER_SILENT: an issuer's keys can't be had.  ST_LIMIT_RATE: too
 * many that failed.  Scopes are not looked at: principal_may().
 */
enum status keys_principal(struct keys *k, const struct place_wish *w,
			   struct keys_wait *wait, struct principal *ret_p) MUSTCHECK;

/* Is the bearer one of ours: a key, or a token that is meant for us, good or not, whether or
 * not it is what counted?  Then it is no application's login, and goes on to none. */
bool keys_has_bearer(struct keys *k, const struct place_wish *w);

/* What goes on with an endpoint, so that its caller needs no key there. */
struct capability {
	const struct principal *principal;
	struct str sandbox;
	uint16_t
		port; /* EXEC_PORT_EXECD is good for applications too: it leads to them */
	uint64_t expires_s; /* since 1970 */
};
/* Text for a header, MAC by this exec.db's own key: good after a restart. */
void keys_put_capability(struct keys *k, struct buf *b, const struct capability *c);

/* The same without a store, for tests.  key: CAPABILITY_KEY octets. */
void capability_put(struct buf *b, const uint8_t *key, const struct capability *c);
/* c says for what; its expires_s is the time now, its principal isn't looked at.
 * ST_KEY_INVALID: not ours, of another sandbox or port, or expired. */
enum status capability_check(struct str text, const uint8_t *key,
			     const struct capability *c,
			     struct principal *ret_p) MUSTCHECK;

/* What operators ask: the rows of api.def. */
void api_keys(struct admin_conn *a);

#endif
