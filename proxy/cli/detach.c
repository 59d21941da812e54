/*
 * sandgate detach --sandbox ID: the gateway gives up the sockets of a sandbox that was
 * attached, and with them the last hold on a namespace whose processes have ended.
 */
#include <stdio.h>

#include "proxy/cli/args.h"
#include "proxy/cli/by_id.h"
#include "proxy/cli/cmds.h"

static const char usage[] =
	"usage: sandgate detach [-c FILE | --state DIR] --sandbox ID\n";

static const struct by_id command = {
	.name = "detach",
	.path = "/v1/detach",
	.done = "detached",
	.missing = "attached",
};

int
cmd_detach(int argc, char **argv)
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
