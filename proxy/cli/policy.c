/* sandgate policy from-tools ...: policies made from what is there. */
#include <stdio.h>
#include <string.h>

#include "proxy/cli/cmds.h"
#include "proxy/cli/from_tools.h"

int
cmd_policy(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "from-tools") == 0)
		return from_tools(argc - 1, argv + 1);
	(void)fprintf(stderr, "usage: sandgate policy from-tools TOOL...\n");
	return 2;
}
