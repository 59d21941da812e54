#ifndef PROXY_CLI_BY_ID_H
#define PROXY_CLI_BY_ID_H
/*
 * by_id: commands that ask one thing of a running gateway about one sandbox, which they
 * take with --sandbox ID.
 */
struct by_id {
	const char *name;
	const char *usage;
	const char *path;    /* of the admin API: POST {id} */
	const char *done;    /* "detached" */
	const char *missing; /* 404: no sandbox `ID` is ... */
};

/* Returns what the command exits with. */
int by_id_command(const struct by_id *c, int argc, char **argv);

#endif
