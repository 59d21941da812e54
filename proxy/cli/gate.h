#ifndef PROXY_CLI_GATE_H
#define PROXY_CLI_GATE_H
/*
 * gate: the gateway that a command is put behind: the one that runs for a
 * configuration, or one of our own that lives as long as the command.  With an allow
 * list or secrets of its own the configuration is written to a directory that goes with it.
 */
#include <sys/types.h>

#include "proxy/cli/admin.h"
#include "proxy/cli/gate_secret.h"

#define GATE_POLICY "exec" /* the one of a gateway of our own */

enum { GATE_ALLOW_MAX = 256 };

struct gate_wish {
	const char *config; /* NULL: the default one if there is one, or none */
	const char *allow[GATE_ALLOW_MAX]; /* HOST[:PORT] */
	size_t allow_n;
	struct gate_secret secrets[GATE_SECRETS_MAX];
	size_t secrets_n;
};

struct gate {
	struct buf dir, config, state; /* dir is empty unless it is ours to remove */
	pid_t own;                     /* 0: it ran before */
};

/* Says on standard error what is wrong. */
enum status gate_open(struct gate_wish *w, struct gate *ret_g) MUSTCHECK;
/* Stops it if it is our own and removes what was written. */
void gate_close(struct gate *g);

/* What was wished for as the YAML of a policy of this name, with its connectors; false: it was
 * said what is wrong. */
bool gate_put_policy(struct buf *b, const struct gate_wish *w,
		     const char *policy) MUSTCHECK;

struct admin_where gate_where(const struct gate *g);

#endif
