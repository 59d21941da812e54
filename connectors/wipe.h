#ifndef CONNECTORS_WIPE_H
#define CONNECTORS_WIPE_H
/*
 * wipe: memory for libraries that free what they have read and leave it there.  For their
 * hooks: jansson, OpenSSL, zlib, brotli, zstd.
 */
#include <stddef.h>

void wipe_free(void *p); /* all of what malloc() gave; NULL is fine */
/* As realloc(), which leaves what it moves away from as it was. */
void *wipe_realloc(void *p, size_t n);

#endif
