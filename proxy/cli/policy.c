/* sandgate policy from-tools ...: policies made from what is there. */
#include <stdio.h>
#include <string.h>

#include "proxy/cli/args.h"
#include "proxy/cli/cmds.h"
#include "proxy/cli/from_tools.h"

static const char usage[] =
	"usage: sandgate policy from-tools [pip] [npm] [apt] [go] [cargo]\n";

int
cmd_policy(int argc, char **argv)
{
	args_help(argc, argv, usage);
	if (argc > 1 && strcmp(argv[1], "from-tools") == 0) {
		args_help(argc - 1, argv + 1, usage);
		return from_tools(argc - 1, argv + 1);
	}
	(void)fputs(usage, stderr);
	return 2;
}
