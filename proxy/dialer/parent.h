#ifndef PROXY_DIALER_PARENT_H
#define PROXY_DIALER_PARENT_H
/*
 * parent: the company's proxy (upstream_proxy).  The dialer connects to it in place of
 * the destination and says so; the holder of the descriptor speaks CONNECT.
 *
 * A name that goes through the parent is resolved there: its addresses are not ours to
 * see, so nothing classifies them, and a rule that wants a country or network is
 * refused. The parent's own address is the operator's word and may be private.
 *
 * Loopback addresses never go there: the parent would take them for its own.
 *
 * no_proxy: names, `*.` patterns, `.suffix` (the same), IP addresses, networks, or `*`.
 */
#include "conf/image.h"
#include "proxy/http/dest.h"

/* ST_BAD_CONFIG when upstream_proxy.address is no host:port; asked before an image is
 * taken. */
enum status parent_check(const struct image *im) MUSTCHECK;
/* False: dial d itself. */
bool parent_for(const struct image *im, const struct dest *d,
		struct dest *ret_parent) MUSTCHECK;

bool parent_pattern_covers(struct str pattern, const struct dest *d);

#endif
