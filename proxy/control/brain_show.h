#ifndef PROXY_CONTROL_BRAIN_SHOW_H
#define PROXY_CONTROL_BRAIN_SHOW_H
/*
 * brain_show: the sandboxes that execute, for the operator: everybody's and those that are
 * kept warm, with how long they are there, unused and still to live, and what they cost.
 */
#include "proxy/control/brain.h"

enum { BRAIN_SHOW_MAX = 2500 }; /* what an answer has room for */

/* An array of objects, by id; NULL: the store can't be read.  *ret_more: there are more than
 * BRAIN_SHOW_MAX. */
json_t *brain_show(const struct brain *b, uint64_t now_s, bool *ret_more);
/* What creating, sleeping, waking and ending took since control began: an object of those that
 * there were. */
json_t *brain_show_costs(const struct brain *b);

#endif
