/* sandgate unregister --sandbox ID: nobody is known by its addresses any more, and what it
 * has open is closed. */
#include <stdio.h>

#include "proxy/cli/args.h"
#include "proxy/cli/by_id.h"
#include "proxy/cli/cmds.h"

static const char usage[] =
	"usage: sandgate unregister [-c FILE | --state DIR] --sandbox ID\n";

static const struct by_id command = {
	.name = "unregister",
	.path = "/v1/unregister",
	.done = "unregistered",
	.missing = "registered",
};

int
cmd_unregister(int argc, char **argv)
{
	struct admin_where where = { .config = NULL };
	const char *id = NULL;
	const struct arg args[] = {
		{ 'c', "config", &where.config, NULL },
		{ 0, "state", &where.state, NULL },
		{ 0, "sandbox", &id, NULL },
	};
	size_t n;

	args_help(argc, argv, usage);
	if (!args_take(argc, argv, args, COUNT_OF(args), &n) || n != 0 || id == NULL) {
		(void)fputs(usage, stderr);
		return 2;
	}
	return by_id_ask(&command, &where, id);
}
