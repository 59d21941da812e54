#ifndef PROXY_IO_MEMFD_H
#define PROXY_IO_MEMFD_H
/*
 * memfd: bytes that are too many for a line between processes, in a sealed memfd beside
 * the message: nobody can change or shorten them while they are read.
 */
#include "proxy/base/str.h"

/* The caller's; -1: no memory or descriptor. */
int memfd_sealed(const char *name, struct str bytes);
/* All n octets of it, until memfd_unmap(); the descriptor stays the caller's.
 * ST_BAD_MESSAGE: it isn't sealed, or of another length; ST_NOMEM. */
enum status memfd_map(int fd, size_t n, struct str *ret_view) MUSTCHECK;
void memfd_unmap(struct str *view); /* fine twice, and on an empty one */

#endif
