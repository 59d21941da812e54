#ifndef PROXY_CONTROL_CA_FILE_H
#define PROXY_CONTROL_CA_FILE_H
/*
 * ca_file: that our authority's certificates lie where the docker of a server finds them, so
 * that its sandboxes are started with them (docs/OPENSANDBOX.md).  The keeper says them, super
 * writes them.  Asked at the start, at each commit and each minute, so a vault that was opened
 * late and an authority that was rotated come there too.
 *
 * A server whose file isn't written yet makes no sandboxes: docker would mount a directory
 * in its place.
 */
#include "proxy/control/control.h"

enum { CA_FILE_PATHS = 256 }; /* also those of policies before */

void ca_file_begin(struct control *c); /* now; again later where it fails */
/* May sandboxes of this server be made? */
bool ca_file_is_ready(const struct control *c, const struct image_exec_server *s);

#endif
