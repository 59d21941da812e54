/* sandgate unregister --sandbox ID: nobody is known by its addresses any more, and what it
 * has open is closed. */
#include "proxy/cli/by_id.h"
#include "proxy/cli/cmds.h"

static const struct by_id command = {
	.name = "unregister",
	.usage = "usage: sandgate unregister [-c FILE | --state DIR] --sandbox ID\n",
	.path = "/v1/unregister",
	.done = "unregistered",
	.missing = "registered",
};

int
cmd_unregister(int argc, char **argv)
{
	return by_id_command(&command, argc, argv);
}
