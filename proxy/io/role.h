#ifndef PROXY_IO_ROLE_H
#define PROXY_IO_ROLE_H
/*
 * role: the same start-up for every process but super.
 *
 *	exec'd by super with descriptor 3 = the line to super, 2 = the log, nothing else
 *	(ROLE_SUPER_FD)
 *	GIVE ...         lines to other roles, ring, counters, listeners, directories
 *	PREPARE, COMMIT  the first policy
 *	SANDBOX ...      those attached at the time
 *	START            the role enters its jail, answers, serves
 *
 * role_start() does all of that, blocking, and returns just before the jail: the role
 * opens what it must, then calls role_enter().  Afterwards the role's own loop watches
 * role->super.fd and passes what arrives to role_heard(); a role that loses the line to
 * super ends.
 */
#include "conf/who.h"
#include "proxy/base/log.h"
#include "proxy/base/sip.h"
#include "proxy/io/jail.h"
#include "proxy/io/rowring.h"
#include "proxy/io/stats.h"

enum { ROLE_SUPER_FD = 3 };

/* How long a role lives on without a line that it needs: longer than super's longest
 * pause before it starts the other end again. */
enum { ROLE_ALONE_MS = 5000 };

enum give {
	/* index: enum role at the other end, text: its slot; of a connector its group,
	 * to control both: SLOT:GROUP, to a connector with the keeper's its own; a line */
	GIVE_LINE,
	GIVE_RING,  /* own row ring and its bell (two descriptors); index: own slot */
	GIVE_RINGS, /* ledger only: ring to read and its bell; index: writer's slot */
	GIVE_STATS, /* own counters; control gets all of them, index: slot */
	GIVE_LISTENER, /* index: listener in the image; text: "tcp" or "udp" */
	GIVE_ATTACHED, /* index: sandbox handle; text: "tcp", "proxy", "dns-udp",
			  "dns-tcp" */
	GIVE_REVOKED,  /* index: sandbox handle: close its attached sockets */
	GIVE_STATE,    /* text: the role's own directory below the state directory; a
			* descriptor of it */
	GIVE_ADMIN,    /* control: the admin listener; text: "unix" or "tcp" */
	GIVE_SLOT,     /* index: own slot; text: name for the log */
	GIVE_SYNTH,    /* dns: may be written; workers: read only; see synth.h */
	/* Close every listener that was given with GIVE_LISTENER (attached ones stay):
	 * the indices of a new policy differ.  COMMIT and the same sockets, with their
	 * new indices, follow at once. */
	GIVE_UNLISTEN,
	GIVE_FORGET, /* workers: leaves of the authority before are no good any more */
	GIVE_SHAPES, /* workers, connectors, control: text: what placeholders are drawn from,
		      * 32 hex digits */
	/* keeper: memory for the unsealed key, which super holds and never maps (vault/
	 * page.h); index 1: an ordinary memfd, where the kernel has no memfd_secret */
	GIVE_PAGE,
	GIVE_KEY, /* keeper: the file that vault.master_key names */
	/* keeper: index 0: text: name of a secret that a file or variable holds, a
	 * descriptor of it; index 1: that was all of them */
	GIVE_SOURCE,
	GIVE_COUNT
};

struct role_hooks {
	void *ctx;
	/* Something was given: at start-up and later.  Take descriptors out of m. */
	enum status (*given)(void *ctx, enum give kind, uint32_t index, struct str text,
			     struct ask_msg *m);
	/* A policy is about to become the one in force: check what only this role can
	 * (the dialer opens its databases here).  extra: descriptors of PREPARE but the
	 * first. */
	enum status (*prepare)(void *ctx, const struct image *im, struct ask_msg *m);
	/* The new policy is in force: role->image is it; old is closed after this
	 * returns. */
	void (*commit)(void *ctx, const struct image *old);
	void (*drain)(void *ctx, uint32_t deadline_ms,
		      uint32_t seq); /* role_drained() when done */
	/* Attached (maybe changed: it has another narrowing, say) or gone. */
	void (*sandbox)(void *ctx, const struct who *w, bool present);
	/* Control asks super on the same line; this is an answer.  Others leave it
	 * NULL. */
	void (*answered)(void *ctx, struct ask_msg *m);
};

struct role_self {
	enum role self;
	uint8_t slot;
	char name[32];
	struct log log;
	struct ask_end super;
	struct image *image, *prepared;
	uint64_t generation, prepared_generation;
	struct who_table *who;
	struct rowring *ring; /* NULL for roles that write no rows */
	int bell;             /* of the ring */
	struct row_ids ids;
	struct sip_key shapes; /* GIVE_SHAPES; zero for roles that have no use for it */
	struct stats *stats;
	const struct role_hooks *hooks;
	char *space; /* for ask_recv */
	uint32_t start_seq;
	bool is_started; /* START has come */
};

/* The body of GIVE, for super's side. */
void give_put(struct buf *b, enum give kind, uint32_t index, struct str text);

/* Until START; main() has called jail_early() before.  Exits the process with a logged
 * reason when super asks nonsense. */
void role_start(struct role_self *r, enum role self, const struct role_hooks *hooks);
/* Into the jail, tell super we serve. */
void role_enter(struct role_self *r, const char *writable);
/* Read and handle everything that waits on the line to super; the caller's loop says
 * when.  ST_END: super is gone, end the process. */
enum status role_heard(struct role_self *r) MUSTCHECK;
void role_drained(struct role_self *r, uint32_t seq);

/* A row with the time, id, generation and sandbox fields filled in; then role_row().
 * ST_NO_LEDGER: deny. */
struct row role_row_begin(struct role_self *r, enum row_kind kind, const struct who *w);
enum status role_row(struct role_self *r, const struct row *row) MUSTCHECK;
/* No ledger, no way out: asked before anything is done for a sandbox outside. */
bool role_has_ledger(const struct role_self *r);

#endif
