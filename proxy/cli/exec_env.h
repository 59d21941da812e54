#ifndef PROXY_CLI_EXEC_ENV_H
#define PROXY_CLI_EXEC_ENV_H
/*
 * exec_env: the environment of a command in a box: the caller's without what leads out of
 * the box, with the proxy inside, the roots to believe, and placeholders where a client
 * insists on a credential.
 */
#include <jansson.h>

#include "proxy/base/arena.h"
#include "proxy/cli/trust.h"

struct exec_env {
	const struct trust *trust;
	const json_t *variables; /* {NAME: placeholder} or NULL */
	bool no_proxy;
	struct arena arena; /* of what exec_env_make() made */
};

/* Good until arena_done(), and as long as our own environment; NULL: no memory. */
char **exec_env_make(struct exec_env *e);

#endif
