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

/* For `--help` or `-h` as the first argument: the usage on standard output, and the
 * process ends with 0. */
void args_help(int argc, char **argv, const char *usage);

/* False, and why on standard error. */
bool args_wrong(const char *command, const char *why, const char *word) MUSTCHECK;

/* `what` is there; else false, and told so. */
bool args_need(const char *command, const char *what, bool is_there) MUSTCHECK;

/* What is no option is moved to argv[1] and on, in order; *ret_n of them.  False: an
 * unknown option, or one without its value, and told so. */
bool args_take(int argc, char **argv, const struct arg *args, size_t args_n,
	       size_t *ret_n) MUSTCHECK;

#endif
