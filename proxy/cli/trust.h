#ifndef PROXY_CLI_TRUST_H
#define PROXY_CLI_TRUST_H
/*
 * trust: what makes the programs of a sandbox believe the gateway's CA: files with the
 * roots that they had and ours (never ours alone), mounted over the bundles of the
 * system, and variables for programs that bring roots of their own.
 *
 *	bundle   the system's roots, the caller's own, ours
 *	extra    the caller's own, ours: for programs that add to their own roots
 *	java     as the bundle, in Java's form
 *
 * The gateway verifies upstreams itself; nothing here changes whom it trusts.
 */
#include "proxy/base/buf.h"

struct admin_where;

struct trust {
	struct buf bundle, extra, java; /* java: empty where there is no Java */
	bool is_there;                  /* else there is nothing to install */
};

/* Where a box finds them. */
#define TRUST_DIR "/run/sandgate"

/* The gateway's CA in PEM.  ST_NOT_FOUND: it has none; nothing is said. */
enum status trust_fetch(const struct admin_where *where, struct buf *pem) MUSTCHECK;
/* ST_NOT_FOUND: the gateway has no CA, or this machine no roots; nothing is said. */
enum status trust_make(const struct admin_where *where, struct trust *ret_t) MUSTCHECK;
void trust_done(struct trust *t);

/* Is it one of the variables that name roots?  The caller's are left out of a box: what
 * they name is in the bundle. */
bool trust_is_variable(struct str assignment);
/* The variables for files in TRUST_DIR; env has room for TRUST_VARIABLES more. */
enum { TRUST_VARIABLES = 32 };
size_t trust_put_env(char **env);
/* The one for Java, with what the caller's holds; false: there is no Java. */
bool trust_put_java_env(const struct trust *t, struct buf *b) MUSTCHECK;

/* The variables for one file that has all roots, as lines NAME=PATH. */
void trust_print_env(const char *path);

#endif
