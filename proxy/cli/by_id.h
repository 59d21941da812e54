#ifndef PROXY_CLI_BY_ID_H
#define PROXY_CLI_BY_ID_H
/*
 * by_id: commands that ask one thing of a running gateway about one sandbox.
 */
#include "proxy/cli/admin.h"

struct by_id {
	const char *name;
	const char *path;    /* of the admin API: POST {id} */
	const char *done;    /* "detached" */
	const char *missing; /* 404: no sandbox `ID` is ... */
};

/* Returns what the command exits with. */
int by_id_ask(const struct by_id *c, const struct admin_where *where, const char *id);

#endif
