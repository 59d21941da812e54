#ifndef PROXY_CLI_OPTIONS_H
#define PROXY_CLI_OPTIONS_H
/* options: what the commands that ask a running gateway take: [-c FILE | --state DIR]
 * [--json]. */
#include "proxy/cli/admin.h"

struct options {
	struct admin_where where;
	bool json;
};

/* False: called wrongly, and told so.  Ends the process where help was asked for. */
bool options_read(int argc, char **argv, struct options *ret_o) MUSTCHECK;
/* All of a command that asks one thing and prints what comes; returns its exit code. */
int options_show(int argc, char **argv, const struct admin_wish *wish,
		 void (*print)(const json_t *body));
/* The same; 1 as well, if the answer isn't well (NULL: it always is). */
int options_judge(int argc, char **argv, const struct admin_wish *wish,
		  void (*print)(const json_t *body),
		  bool (*is_well)(const json_t *body));
/* A member that is text; "-" where there is none. */
const char *options_text(const json_t *of, const char *key);

#endif
