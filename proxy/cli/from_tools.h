#ifndef PROXY_CLI_FROM_TOOLS_H
#define PROXY_CLI_FROM_TOOLS_H
/* from_tools: `sandgate policy from-tools`.  Returns the exit code. */

int from_tools(int argc, char **argv);

#endif
