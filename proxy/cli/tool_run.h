#ifndef PROXY_CLI_TOOL_RUN_H
#define PROXY_CLI_TOOL_RUN_H
/* tool_run: what a program of the operator's prints, without a shell in between. */
#include "proxy/base/buf.h"

/* Runs argv[0] from PATH with no input; its standard output goes to out, its errors
 * nowhere.  ST_NOT_FOUND: no such program; ST_SYSTEM: it failed; ST_TIMEOUT. */
enum status tool_run(const char *const *argv, struct buf *out) MUSTCHECK;

#endif
