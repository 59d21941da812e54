#ifndef CONNECTORS_GAUGE_H
#define CONNECTORS_GAUGE_H
/*
 * gauge: how much of one connector's limits is in use, by all sandboxes together.  Its
 * requests all pass through this process, so a number here is the whole number.
 */
#include "connectors/connector.h"

struct gauge {
	uint32_t running;
	uint64_t milli, at_ms; /* thousandths of a request left, filled up to then */
};

/* A new policy: as many as it has connectors, those that stay keep their numbers. */
enum status gauges_renew(struct connector *all, const struct image *old) MUSTCHECK;

/* index: in the image in force.  ST_OK: gauge_leave() once.  ST_LIMIT_RATE,
 * ST_LIMIT_CONNECTIONS; ST_RELOADED: there is no such one any more. */
enum status gauge_enter(struct connector *all, uint32_t index) MUSTCHECK;
void gauge_leave(struct connector *all, uint32_t index);

#endif
