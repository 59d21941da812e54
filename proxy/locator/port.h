#ifndef PROXY_LOCATOR_PORT_H
#define PROXY_LOCATOR_PORT_H
/*
 * port: which port of a bridge leads into a container, by what the kernel says of network
 * namespaces: the number that our namespace has for the one that the container's first
 * process is in is also told of the veth whose other end lies there.  No octet that the
 * container sends or sets has a say in it.
 *
 * And the host's own notes of which MAC has an address, and of the bridge which port has a
 * MAC: permanent ones, so that no answer of a sandbox to ARP or neighbour discovery is
 * believed, and no frame of another's MAC draws its traffic.
 */
#include "proxy/base/addr.h"
#include "proxy/locator/locator.h"

/* ST_NOT_FOUND: no such bridge, or no port of it leads there (it has ended); ST_CONFLICT:
 * several do. */
enum status port_find(int route_fd, const char *bridge, uint32_t pid,
		      struct place *ret_place) MUSTCHECK;

/* place's addresses have its MAC on its bridge, and the MAC is at its port; or no longer. */
enum status port_note(int route_fd, const struct place *p) MUSTCHECK;
void port_unnote(int route_fd, const struct place *p);

#endif
