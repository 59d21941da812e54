#ifndef PROXY_CLI_BOX_H
#define PROXY_CLI_BOX_H
/*
 * box: a command in namespaces of its own (user, network, mount, pid, ipc, uts) whose
 * only exit is the gateway.
 *
 *	us -- maker: first user namespace; owns the network, makes lo, rules, sockets
 *	       `- init: pid 1; masks sockets and directories, answers each connect()
 *	           `- the command: second user namespace, no capability over the
 *	              network or the masks
 *
 * The second user namespace locks the first one's mounts and leaves the network to the
 * first, so not even root inside can unmask or unroute anything.  Files stay as they
 * are for the calling user: this confines the network, sockets and processes.
 */
#include <sys/types.h>

#include "proxy/cli/ns.h"
#include "proxy/cli/trust.h"

struct box_wish {
	struct ns_wish ns;
	bool root;             /* the command sees itself as uid 0 */
	const char *state_dir; /* masked; NULL: none */
	struct trust trust;    /* what it believes; the caller's */
	char *const *argv, *const *env;
};

struct box {
	pid_t maker;
	int line; /* to the maker */
	struct ns_sockets sockets;
};

/* Namespaces and sockets are there; the command waits for box_go().  On failure nothing
 * runs and *why names the sysctl or profile that refused. */
enum status box_start(const struct box_wish *w, struct buf *why,
		      struct box *ret_b) MUSTCHECK;
enum status box_go(struct box *b) MUSTCHECK;
/* The command's exit code, or 128 + signal.  Passes on SIGINT, SIGTERM, SIGHUP,
 * SIGQUIT. */
int box_wait(struct box *b);
void box_kill(struct box *b); /* before box_go() */

#endif
