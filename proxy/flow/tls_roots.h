#ifndef PROXY_FLOW_TLS_ROOTS_H
#define PROXY_FLOW_TLS_ROOTS_H
/*
 * tls_roots: the roots of the policy in force and, between PREPARE and COMMIT, of the
 * next.  A file that is the same as before is not parsed again.
 */
#include <sys/stat.h>

#include "conf/image.h"
#include "proxy/flow/tls_client.h"
#include "proxy/io/ask.h"

struct tls_roots {
	struct tls_client *client; /* NULL: there are none, so no host is trusted */
	struct tls_client *next;
	struct stat file, next_file;
	bool is_same; /* next is client */
};

/* In a role's prepare hook: takes the descriptor out of m. */
enum status tls_roots_prepare(struct tls_roots *t, const struct image *im,
			      struct ask_msg *m) MUSTCHECK;
/* In its commit hook.  true: client is another one now (the old one is freed: what was
 * opened with it lives on). */
bool tls_roots_commit(struct tls_roots *t);
void tls_roots_done(struct tls_roots *t);

#endif
