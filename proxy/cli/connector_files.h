#ifndef PROXY_CLI_CONNECTOR_FILES_H
#define PROXY_CLI_CONNECTOR_FILES_H
/* connector_files: connectors without the configuration that they are for: read beside
 * one policy that lists them all. */
#include "proxy/cli/config_read.h"

/* Always leaves something that config_done() takes. */
enum status connector_files_read(struct config *c, char *const *paths,
				 size_t paths_n) MUSTCHECK;

#endif
