#ifndef PROXY_CLI_NARROW_FILE_H
#define PROXY_CLI_NARROW_FILE_H
/* narrow_file: what narrows a sandbox (conf/narrow.h), read from a file that an operator
 * names; `-` is standard input. */
#include "proxy/base/buf.h"

/* False: it can't be read or isn't of the form, and told so.  The view is into b. */
bool narrow_file_read(const char *path, struct buf *b, struct str *ret_text) MUSTCHECK;

#endif
