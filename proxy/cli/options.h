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

#endif
