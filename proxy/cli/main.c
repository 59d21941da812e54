/* sandgate: the command line.  Each command is a file of its own; cmds.def lists them.
 */
#include <stdio.h>
#include <string.h>

#include "proxy/base/base.h"
#include "proxy/cli/cmds.h"

struct command {
	const char *name, *help;
	int (*fn)(int argc, char **argv);
};

#define COMMAND(name, help) { #name, help, cmd_##name },
static const struct command commands[] = {
#include "proxy/cli/cmds.def"
};
#undef COMMAND

static void
print_help(FILE *to)
{
	(void)fprintf(to, "usage: sandgate COMMAND [ARGUMENTS]\n\n");
	for (size_t i = 0; i < COUNT_OF(commands); i++)
		(void)fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].help);
	(void)fprintf(to, "\n`sandgate COMMAND --help` tells how each is "
			  "called;\nsandgate(1) and sandgate.yaml(5) tell the rest.\n");
}

/* What could not be written (a full disk) was not done. */
static int
all_said(int code)
{
	if (fflush(stdout) == 0 && ferror(stdout) == 0)
		return code;
	(void)fprintf(stderr, "sandgate: standard output can't be written\n");
	return code == 0 ? 2 : code;
}

int
main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	if (strcmp(name, "--version") == 0) {
		(void)printf("sandgate %s\n", SG_VERSION);
		return 0;
	}
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 ||
	    strcmp(name, "help") == 0) {
		print_help(stdout);
		return all_said(0);
	}
	for (size_t i = 0; i < COUNT_OF(commands); i++) {
		if (strcmp(name, commands[i].name) == 0)
			return all_said(commands[i].fn(argc - 1, argv + 1));
	}
	if (name[0] != '\0')
		(void)fprintf(stderr, "sandgate: there is no command `%s`\n\n", name);
	print_help(stderr);
	return 2;
}
