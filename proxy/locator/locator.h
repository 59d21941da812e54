#ifndef PROXY_LOCATOR_LOCATOR_H
#define PROXY_LOCATOR_LOCATOR_H
/*
 * locator: the process that holds docker's socket.  Control asks it where the container of
 * one OpenSandbox sandbox is on one named network, and has what it found pinned: bridge
 * port, MAC and addresses together may send; nothing else may.  It also asks how much memory
 * such a container holds.
 *
 *	control -- LOCATE --> locator -- DOCKER --> super     a connection to docker
 *	-- MEASURE ------------> |  GET x 3  --> dockerd      container, its data, its network
 *	                         |  GET x 2  --> dockerd      container, its statistics
 *	                         |  netlink  --> kernel       which port leads into it
 *	control -- PIN, UNPIN -> locator -- netlink --> nft   elements of sets, nothing else
 *
 * What is pinned is what was located: control says ids only.  Pins live as long as the line
 * to the control that asked for them; a new one begins with none and pins anew.
 *
 *	docker.c     what docker's answers say; no I/O
 *	exchange.c   the questions, over one connection
 *	port.c       netlink: ports, neighbours        pins.c  netlink: nft sets
 */
#include "proxy/base/addr.h"
#include "proxy/base/map.h"
#include "proxy/io/role.h"

enum {
	PLACE_NAME = 15, /* of an interface: IFNAMSIZ without the end */
	PLACE_ADDRS = 2, /* at most one of each family */
	LOCATOR_IDS = 4096,
	LOCATOR_OPEN = 64,     /* LOCATEs at a time */
	LOCATOR_MEASURES = 32, /* beside these, which they must not delay */
	LOCATOR_ID_MAX = 128,
};

struct place { /* where a container is */
	char container[65];
	char port[PLACE_NAME + 1];
	uint32_t port_index, bridge_index;
	uint8_t mac[6];
	struct addr addrs[PLACE_ADDRS];
	size_t addrs_n;
};

#endif
