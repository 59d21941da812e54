#ifndef PROXY_CLI_ARGS_H
#define PROXY_CLI_ARGS_H
/*
 * args: a command's arguments by a table: `--name VALUE`, `--name=VALUE`, `-n VALUE`
 * and flags, in any order with the rest; `--` ends them.
 */
#include "proxy/base/base.h"

struct arg {
	char letter;        /* of -n; 0: none */
	const char *name;   /* without the dashes */
	const char **value; /* where the value goes; NULL: a flag */
	bool *flag;
};

/* What is no option is moved to argv[1] and on, in order; *ret_n of them.  False: an
 * unknown option, or one without its value. */
bool args_take(int argc, char **argv, const struct arg *args, size_t args_n,
	       size_t *ret_n) MUSTCHECK;

#endif
