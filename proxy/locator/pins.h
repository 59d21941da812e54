#ifndef PROXY_LOCATOR_PINS_H
#define PROXY_LOCATOR_PINS_H
/*
 * pins: elements of the sets that `sandgate rules --sandboxes` makes in the nft table
 * `bridge sandgate_pinned`.  Only elements: no rule, no chain, no other table is touched.
 *
 *	pinned4, pinned6   port . MAC . address   what may send
 *	ports              port . MAC             may look for neighbours by a link-local address
 *	names              port                   exchanges nothing with other ports
 *	macs               MAC                    is nobody else's
 */
#include "proxy/locator/locator.h"

/* All of a place's elements or none.  ST_NOT_FOUND: the table isn't there; ST_DENIED: we
 * may not. */
enum status pins_add(int nft_fd, const struct place *p) MUSTCHECK;
/* What is there of them goes. */
enum status pins_remove(int nft_fd, const struct place *p) MUSTCHECK;
enum status pins_flush(int nft_fd) MUSTCHECK; /* all, of everybody */

#endif
