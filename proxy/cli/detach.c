/*
 * sandgate detach --sandbox ID: the gateway gives up the sockets of a sandbox that was
 * attached, and with them the last hold on a namespace whose processes have ended.
 */
#include "proxy/cli/by_id.h"
#include "proxy/cli/cmds.h"

static const struct by_id command = {
	.name = "detach",
	.usage = "usage: sandgate detach [-c FILE | --state DIR] --sandbox ID\n",
	.path = "/v1/detach",
	.done = "detached",
	.missing = "attached",
};

int
cmd_detach(int argc, char **argv)
{
	return by_id_command(&command, argc, argv);
}
