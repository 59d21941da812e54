#ifndef PROXY_IO_PEER_H
#define PROXY_IO_PEER_H
/*
 * peer: a neighbour as its answerer sees it: a line on which a role is asked.
 *
 * A role has one set of peers.  What a peer waits for is the role's and dies with the line:
 * `ended` says so, once.  A malformed or out-of-turn ask ends the line (peer_kill).  Of two
 * lines from one neighbour only the newest is kept: the other's asker has lost its end.
 */
#include "proxy/base/list.h"
#include "proxy/io/role.h"

struct peer;

struct peer_hooks {
	/* An ask that the table lets through; an unknown one is for peer_kill(). */
	void (*heard)(struct peer *p, struct ask_msg *m);
	void (*ended)(struct peer *p); /* NULL: nobody waits for anything */
};

struct peers { /* the role's; its pointers outlive it */
	struct list all;
	struct role_self *role;
	struct loop *loop;
	const struct peer_hooks *hooks;
	void *ctx;
};

struct peer {
	struct list link; /* set->all */
	struct peers *set;
	struct ask_line *line;
	enum role role;
	char name[STR_NAME_MAX +
		  1]; /* as GIVE_LINE tells: its slot, of a connector its group */
	bool is_dead; /* and gone at the end of the loop's turn */
};

/* A line that was given; takes fd over if ST_OK. */
enum status peer_new(struct peers *set, enum role role, struct str name,
		     int fd) MUSTCHECK;
void peer_end(struct peer *p);
void peer_kill(struct peer *p, enum status why);
void peers_end(struct peers *set); /* all of them */

/* What b holds and, unless it is -1, a descriptor that stays the caller's.  Without memory
 * for it the asker's deadline is the answer. */
void peer_answer(struct peer *p, enum ask a, uint32_t seq, struct buf *b, int fd);
/* GRANT and its like: control says that a socket speaks for a sandbox. */
void peer_grant(struct peer *p, struct ask_msg *m);

#endif
