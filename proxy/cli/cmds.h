#ifndef PROXY_CLI_CMDS_H
#define PROXY_CLI_CMDS_H
/*
 * cmds: the commands of `sandgate`.  argv[0] is the command's name; what is returned
 * is the exit code: 2 when it was called wrongly.
 */

#define COMMAND(name, help) int cmd_##name(int argc, char **argv);
#include "proxy/cli/cmds.def"
#undef COMMAND

#endif
